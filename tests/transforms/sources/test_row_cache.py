"""The cache of rows that were read to infer types gives the rows of another read."""

import itertools
import pathlib

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recordmill.storage.files import Location
from recordmill.storage.storage_errors import ChangedInputError
from recordmill.transforms.model import limits
from recordmill.transforms.model.source import Layout
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.rows.reading import row_sections
from recordmill.transforms.sources.rows.values.table_rows import TableRows

HEADER = "id,a,b,c,label\n"
VALUES = st.sampled_from(
    ["", "0", "1", "-0", "007", "2.5", "-0.0", "1e3", "nan", "true", "x", '"y, z"', "?", "1e400"]
)
ROWS = st.one_of(
    st.tuples(st.integers(0, 9).map(str), VALUES, VALUES, VALUES, st.sampled_from(["p", "q", ""])),
    st.sampled_from([("1", "2"), ("",) * 5, ("k", "1", "2", "3", "p", "", "")]),  # ragged, blank
).map(",".join)


class Input:
    """A table in parts of few bytes, read with and without a folder to keep rows in."""

    def __init__(self, folder: pathlib.Path, *files: str, **options: object) -> None:
        for number, text in enumerate(files):
            (folder / f"{number}.csv").write_text(text)
        self.folder = folder
        self.keep = Location.parse(str(folder / "kept"))
        self.source = TableRows(input=f"{folder}/*.csv", label_column="label", **options)
        self.parts = [listed.rows for listed in self.source.scan() if listed.rows is not None]

    def layout(self) -> Layout:
        return self.source.layout(self.parts, self.keep)

    @property
    def kept(self) -> int:
        return len([*self.keep.list_dir()]) if self.keep.exists() else 0

    def read(self, layout: Layout) -> list[tuple[object, ...]]:
        listed = itertools.chain.from_iterable(self.source.read(p, layout) for p in self.parts)
        return [
            (one.rows and one.rows.to_pylist(), one.rejects, dict(one.filtered)) for one in listed
        ]


@pytest.fixture
def small_parts(monkeypatch):
    monkeypatch.setattr(limits, "PART_BYTES", 120)


@given(st.lists(st.lists(ROWS, min_size=1, max_size=30), min_size=1, max_size=3), st.booleans())
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_cached_rows_equal_parsed_rows(tmp_path_factory, small_parts, files, missing):
    options = {"format": RowFormat(missing=("?",))} if missing else {}
    texts = [HEADER + "".join(f"{row}\n" for row in rows) for rows in files]
    table = Input(tmp_path_factory.mktemp("table"), *texts, **options)
    plain, layout = table.source.layout(table.parts), table.layout()
    assert layout.columns == plain.columns
    assert repr(table.read(layout)) == repr(table.read(plain))  # of NaN none are equal
    assert table.kept == 0


def numbers(values: list[object]) -> str:
    return HEADER + "".join(f"{row},{value},t,,p\n" for row, value in enumerate(values))


def test_the_file_is_not_read_again(tmp_path, small_parts):
    table = Input(tmp_path, numbers([*range(90)]), numbers([*range(9)]))
    expected = table.read(table.source.layout(table.parts))
    layout = table.layout()
    assert table.kept == len(table.parts) > 5
    for path in tmp_path.glob("*.csv"):
        path.unlink()
    assert table.read(layout) == expected
    assert table.kept == 0  # they have made room
    with pytest.raises(ChangedInputError, match="vanished while the job ran"):
        table.read(layout)


def test_parts_with_a_narrower_type_are_read_again(tmp_path, small_parts):
    table = Input(tmp_path, numbers([*range(90), 0.5, "-0"]))
    layout = table.layout()
    assert layout.columns.field("a").type == pa.float64()
    assert table.kept == len(table.parts)
    rows = [row for rows, _, _ in table.read(layout) for row in rows]
    assert [str(row["a"]) for row in rows] == [*(f"{n}.0" for n in range(90)), "0.5", "-0.0"]


def test_a_part_with_several_types_is_not_cached(tmp_path, monkeypatch):
    monkeypatch.setattr(row_sections, "SMALL", 0)  # or the files would be read as one
    table = Input(tmp_path, numbers([1, 2]), numbers([1.5]), numbers([""]))
    assert len(table.parts) == 1
    layout = table.layout()
    assert table.kept == 0
    assert [row["a"] for rows, _, _ in table.read(layout) for row in rows] == [1.0, 2.0, 1.5, None]


def test_cached_rows_of_a_changed_file_are_not_used(tmp_path, small_parts):
    table = Input(tmp_path, numbers([*range(10, 99)]))
    kept = table.layout().kept
    wanted = pa.schema([("a", pa.int64())])
    assert kept.take(table.parts[0], wanted)[0][0].columns["a"].to_pylist()[0] == 10
    again = Input(tmp_path, numbers([*range(99, 10, -1)]))  # of the same size
    assert again.parts[0]["__size__"] == table.parts[0]["__size__"]
    assert kept.take(again.parts[0], wanted) is None
