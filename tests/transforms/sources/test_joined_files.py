"""Small files that are read as one block give the rows of files that are read one by one."""

import itertools
import pathlib
from collections import Counter
from unittest import mock

from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.storage.files import Location
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.rows.reading import row_sections
from recordmill.transforms.sources.rows.values.table_rows import TableRows

ROWS = st.sampled_from(
    [
        *("1,2,p", "2,2.5,q", "3,x,p", '4,"y, z",q', '5,"a\nb",p', '6,"say ""so""",q', "7,,p"),
        *("", ",,", "#,1,p", "8", "9,2,p,,", "1,2,3,4", "a,b,label", " 10 , 4 , q ", "é,1,p"),
    ]
)
ENDS = st.sampled_from(["\n", "\r\n", "\r"])
HEADERS = st.sampled_from(["a,b,label", "a,b,label", "a,b,label", "b,a,label", '"a",b,label'])


@st.composite
def files(draw: st.DrawFn) -> bytes:
    lines = [draw(HEADERS), *draw(st.lists(ROWS, max_size=6))]
    text = draw(ENDS).join(lines) + draw(st.sampled_from(["", "\n"]))
    encoding = draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "latin-1"]))
    return text.encode(encoding)


OBJECTS = st.sampled_from(
    [
        *('{"a": 1, "label": "p"}', '{"a": 2.5, "b": "x", "label": "q"}', '{"b": [1, 2]}', ""),
        *('{"a": "z", "label": "p"}', '{"a": {"c": 1}, "label": "q"}', "[1]", "{", "é"),
    ]
)


@st.composite
def json_files(draw: st.DrawFn) -> bytes:
    lines = ['{"a": 1, "label": "p"}', *draw(st.lists(OBJECTS, max_size=6))]
    text = draw(st.sampled_from(["\n", "\r\n"])).join(lines) + draw(st.sampled_from(["", "\n"]))
    return text.encode(draw(st.sampled_from(["utf-8", "utf-8", "utf-8-sig", "latin-1"])))


def read(folder: pathlib.Path, small: int, row_format: RowFormat) -> object:
    """Everything that is read from a folder: columns, rows, sorted rejects, counts."""
    kept: Counter[str] = Counter()
    rows, rejects = [], []
    with mock.patch.object(row_sections, "SMALL", small):
        source = TableRows(input=f"{folder}/*.*", label_column="label", format=row_format)
        try:
            parts = [one.rows for one in source.scan() if one.rows is not None]
            layout = source.layout(parts, Location.parse(str(folder / f"kept{small}")))
            for one in itertools.chain.from_iterable(source.read(p, layout) for p in parts):
                rows += [] if one.rows is None else one.rows.to_pylist()
                rejects += one.rejects
                kept.update(one.filtered)
        except ConfigError as error:
            return str(error)
    return layout.columns, repr(rows), sorted(rejects), kept


@given(
    st.lists(files(), min_size=2, max_size=6),
    st.sampled_from([RowFormat(), RowFormat(quoting="off"), RowFormat(comment="#", trim=True)]),
)
def test_rows_and_rejects_are_those_of_single_files(tmp_path_factory, contents, row_format):
    folder = tmp_path_factory.mktemp("tables")
    for number, content in enumerate(contents):
        (folder / f"{number}.csv").write_bytes(content)
    assert read(folder, row_sections.SMALL, row_format) == read(folder, 0, row_format)


@given(st.lists(json_files(), min_size=2, max_size=6))
def test_rows_of_json_lines_are_those_of_single_files(tmp_path_factory, contents):
    folder = tmp_path_factory.mktemp("objects")
    for number, content in enumerate(contents):
        (folder / f"{number}.jsonl").write_bytes(content)
    assert read(folder, row_sections.SMALL, RowFormat()) == read(folder, 0, RowFormat())
