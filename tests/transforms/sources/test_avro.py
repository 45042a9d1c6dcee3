"""Avro files as tables, with any blocks, codecs and types."""

import datetime
import pathlib

import fastavro
import pyarrow as pa
import pytest

from recordmill.errors import ConfigError
from recordmill.storage.files import Location
from recordmill.transforms.sources.row_formats.open_rows import open_rows, wanted_columns
from recordmill.transforms.sources.row_formats.reading.row_file import Origin
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat

SCHEMA = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "count", "type": ["null", "int"]},
        {"name": "ratio", "type": "double"},
        {"name": "name", "type": ["null", "string"]},
        {"name": "colour", "type": {"type": "enum", "name": "Colour", "symbols": ["RED", "BLUE"]}},
        {"name": "raw", "type": "bytes"},
        {"name": "good", "type": "boolean"},
        {"name": "parts", "type": {"type": "array", "items": "float"}},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    ],
}


def reading(number):
    return {
        "id": number,
        "count": None if number % 3 else number,
        "ratio": number / 7,
        "name": None if number % 5 == 0 else f"n\u00e4me {number}",
        "colour": "RED" if number % 2 else "BLUE",
        "raw": bytes([number % 256, 0, 255]),
        "good": number % 2 == 0,
        "parts": [0.5] * (number % 4),
        "day": datetime.date(2024, 1, 1) + datetime.timedelta(number),
        "at": datetime.datetime(2024, 1, 1, 12, tzinfo=datetime.UTC)
        + datetime.timedelta(0, number),
    }


def opened(path):
    return open_rows(Origin(place=Location.parse(str(path))), RowFormat().resolve(path.name))


def rows_of(file, size, names=None):
    kinds = file.header()
    wanted = wanted_columns((), names or kinds, kinds)
    found = []
    for section in file.sections(size):
        number = section.row
        for part in file.read(section, wanted, ()):
            assert part.numbers.tolist() == list(range(number, number + len(part.columns)))
            number += len(part.columns)
            found += part.columns.to_pylist()
    return found


@pytest.mark.parametrize("codec", ["null", "deflate", "bzip2"])
@pytest.mark.parametrize("size", [1, 1000, 1 << 30])
def test_rows_equal_the_written_ones(tmp_path, codec, size):
    rows = [reading(number) for number in range(300)]
    path = tmp_path / "t.avro"
    with path.open("wb") as sink:
        fastavro.writer(sink, SCHEMA, rows, codec=codec, sync_interval=500)
    assert rows_of(opened(path), size) == rows
    only = rows_of(opened(path), size, names=["name", "id"])
    assert only == [{"name": row["name"], "id": row["id"]} for row in rows]


def test_invalid_text_is_rejected_by_its_row(tmp_path):
    path = tmp_path / "t.avro"
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": "bytes"}]}
    with path.open("wb") as sink:
        fastavro.writer(sink, schema, [{"x": b"good"}, {"x": b"\xff\xfe"}, {"x": b"fine"}])
    path.write_bytes(path.read_bytes().replace(b'"bytes"', b'"string"').replace(b"\xa0", b"\xa0"))
    file = opened(mend_header(path))
    (section,) = file.sections()
    (part,) = file.read(section, pa.schema([pa.field("x", pa.string(), False)]), ())
    assert part.columns["x"].to_pylist() == ["good", "fine"]
    assert [(bad.number, bad.why) for bad in part.bad] == [
        (2, "not UTF-8: expected text in column 'x'")
    ]


def mend_header(path: pathlib.Path) -> pathlib.Path:
    """The length of the schema in the header, which is one byte more now."""
    data = bytearray(path.read_bytes())
    at = data.index(b"avro.schema") + len(b"avro.schema")
    value = ((data[at] & 0x7F) | data[at + 1] << 7) + 2  # zigzag: one more is two
    data[at], data[at + 1] = value & 0x7F | 0x80, value >> 7
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "is not an Avro file"),
        (b"a,b\n1,2\n", "is not an Avro file"),
        (b"Obj\x01\x02", "is not an Avro file"),
    ],
)
def test_files_that_are_not_avro(tmp_path, content, words):
    path = tmp_path / "t.avro"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=words):
        opened(path).header()


def test_columns_of_records_are_config_errors(tmp_path):
    path = tmp_path / "t.avro"
    inner = {"type": "record", "name": "I", "fields": [{"name": "y", "type": "int"}]}
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": inner}]}
    with path.open("wb") as sink:
        fastavro.writer(sink, schema, [{"x": {"y": 1}}])
    with pytest.raises(ConfigError, match=r"column 'x' of .* has the Avro type"):
        opened(path).header()


def test_records_that_hold_themselves_are_config_errors(tmp_path):
    path = tmp_path / "t.avro"
    schema = {"type": "record", "name": "R", "fields": [{"name": "x", "type": ["null", "R"]}]}
    with path.open("wb") as sink:
        fastavro.writer(sink, schema, [{"x": {"x": {"x": None}}}])
    with pytest.raises(ConfigError, match=r"column 'x' of .* has the Avro type"):
        opened(path).header()
