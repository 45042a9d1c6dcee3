"""Every flipped bit in a staged file of a store is found, and bytes of one read are read again."""

import dataclasses

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from recordmill.errors import DamageError
from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.staged import arrow_files, spill
from recordmill.transforms.staged.arrow_files import arrow_file, read_arrow

ROWS = pa.RecordBatch.from_pydict(
    {
        "key": [f"k{n}" for n in range(40)],
        "number": pa.array([None if n % 7 == 0 else n for n in range(40)], pa.int64()),
        "split": pa.array(["train", "test"] * 20).dictionary_encode(),
        "values": pa.array([[1.5] * (n % 3) for n in range(40)], pa.list_(pa.float32())),
        "none": pa.nulls(40, pa.string()),
    }
)


@dataclasses.dataclass(frozen=True)
class Stored(Location):
    """A local file that counts as one of a store, which sends `wrong` bytes on some reads."""

    @property
    def is_local(self) -> bool:
        return False

    @property
    def store(self):
        return dataclasses.replace(Location(root=self.root, path=self.path)).store


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    path = tmp_path_factory.mktemp("stored") / ".recordmill" / "job" / "part.arrow"
    path.parent.mkdir(parents=True)
    local = Location.parse(str(path))
    return Stored(**{field.name: getattr(local, field.name) for field in dataclasses.fields(local)})


@pytest.fixture(params=[(1 << 19, 1 << 16, 2 << 20), (600, 0, 100), (16, 64, 1000)])
def sizes(request, monkeypatch):
    """Sizes of reads: all of the file is in the first, or the rest is read in several."""
    for name, size in zip(("_FIRST", "_GAP", "_READ"), request.param, strict=True):
        monkeypatch.setattr(arrow_files, name, size)


@pytest.mark.usefixtures("sizes")
@pytest.mark.parametrize("columns", [None, ("key",), ("split", "number", "other"), ("none",)])
def test_rows_are_read_as_they_were_written(place, columns):
    with open(place.path, "wb") as file:
        file.write(arrow_file(ROWS, place))
    found = read_arrow(place, columns)
    names = [name for name in ROWS.schema.names if columns is None or name in columns]
    assert found.equals(ROWS.select(names), check_metadata=True)


@pytest.mark.usefixtures("sizes")
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_every_flipped_bit_is_found_or_changes_nothing(place, data):
    content = bytearray(arrow_file(ROWS, place))
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    content[bit // 8] ^= 1 << bit % 8
    with open(place.path, "wb") as file:
        file.write(content)
    found = damaged_or_read(place)
    if isinstance(found, str):
        assert "is damaged" in found
        assert ".recordmill/job, then run the same command again" in found
    else:
        assert found.equals(ROWS)
        found.validate(full=True)


def damaged_or_read(place: Location) -> pa.RecordBatch | str:
    """The rows, or the message that they are damaged."""
    try:
        return read_arrow(place)
    except DamageError as error:
        return str(error)


@given(st.integers(0, 10**6))
def test_a_flipped_bit_in_a_local_file_is_no_other_error(tmp_path_factory, bit):
    path = tmp_path_factory.mktemp("local") / "part.arrow"
    place = Location.parse(str(path))
    content = bytearray(arrow_file(ROWS, place))
    content[bit // 8 % len(content)] ^= 1 << bit % 8
    path.write_bytes(content)
    found = damaged_or_read(place)
    assert isinstance(found, pa.RecordBatch) or "is damaged" in found


def test_a_read_that_fails_once_is_repeated(place, monkeypatch):
    with open(place.path, "wb") as file:
        file.write(arrow_file(ROWS, place))
    reads = []
    original = arrow_files.read_or_take

    def damaged_once(*arguments, again):
        reads.append(again)
        data = original(*arguments, again=again)
        return data if len(reads) > 1 else bytes(9) + data[9:]

    monkeypatch.setattr(arrow_files, "read_or_take", damaged_once)
    assert read_arrow(place).equals(ROWS)
    assert reads == [False, True]


def test_of_a_large_file_only_the_wanted_columns_are_read(store, monkeypatch):
    monkeypatch.setattr(arrow_files, "_FIRST", 1 << 12)
    monkeypatch.setattr(arrow_files, "_GAP", 0)
    count = 1 << 15
    rows = pa.RecordBatch.from_pydict(
        {name: np.arange(count) + at for at, name in enumerate("abcd")}
        | {"e": pa.array(["x", "y"] * (count // 2)).dictionary_encode()}
    )
    place = Location.parse(store.uri("out/.recordmill/job/part.arrow"))
    place.write_bytes(arrow_file(rows, place))
    store.requests.clear()
    assert read_arrow(place, ("b", "e")).equals(rows.select(["b", "e"]))
    read = sum(one.sent for one in store.requests)
    assert count * (8 + 4) <= read < count * (8 + 4) + (1 << 14)
    assert read_arrow(place).equals(rows)


@given(st.integers(0, 10**9), st.booleans())
def test_a_flipped_bit_in_a_piece_is_found(tmp_path_factory, bit, as_rows):
    folder = tmp_path_factory.mktemp("spilled")
    staging = Staging(Location.parse(str(folder)))
    if as_rows:
        pieces = spill.spill(ROWS, np.arange(40) % 3, staging)
    else:
        pieces = spill.put_bytes(b"0123456789" * 10_000, [0, 5, 5, 99_999, 100_000], staging)
    (path,) = (folder / "spill").iterdir()
    content = bytearray(path.read_bytes())
    at = bit // 8 % len(content)
    content[at] ^= 1 << bit % 8
    path.write_bytes(content)
    for _, piece in pieces:
        _, _, offset, length = piece
        read = (
            (lambda piece=piece: spill.load(piece, staging=staging))
            if as_rows
            else (lambda piece=piece: spill.get_bytes(piece, staging))
        )
        if offset <= at < offset + length + arrow_files.PIECE_SUM:
            with pytest.raises(DamageError, match="the checksum of the"):
                read()
        else:
            read()
