"""Columns of serialized Examples equal those of decoding every record."""

import random

import numpy as np
import pyarrow as pa
import pytest

from recordmill.tfrecord.decode import ExampleError, decode_example, is_sequence_example
from recordmill.transforms.sources.row_formats.tfrecords.example_columns import ExampleColumns
from tests.tfrecord_inputs import example, feature, field


def columns_of(payloads: list[bytes]) -> ExampleColumns:
    ends = np.cumsum([len(one) for one in payloads])
    starts = ends - [len(one) for one in payloads]
    return ExampleColumns(np.frombuffer(b"".join(payloads), np.uint8), starts, ends)


def random_record(rng: random.Random) -> bytes:
    """Features of several types and sizes, some absent, in one of several orders."""
    features = {
        "a": [rng.randint(-5, 5)],
        "a/long": [rng.randint(-(1 << 63), (1 << 63) - 1) for _ in range(rng.choice((0, 1, 3)))],
        "blob": [rng.randbytes(rng.choice((0, 5, 200)))],
        "f": [rng.random() for _ in range(rng.choice((1, 1, 300)))],
        "text": ["ä" * rng.randint(0, 90)] if rng.random() < 0.8 else [],
        "words": ["x", "yy"][: rng.randint(0, 2)],
    }
    encoded = {
        name: [v.encode() if isinstance(v, str) else v for v in values]
        for name, values in features.items()
        if rng.random() < 0.9
    }
    if rng.random() < 0.2:
        encoded = dict(sorted(encoded.items(), reverse=True))
    return example(encoded, packed=rng.random() < 0.9)


@pytest.mark.parametrize("seed", range(6))
def test_columns_are_the_decoded_values(seed: int) -> None:
    rng = random.Random(seed)
    payloads = [random_record(rng) for _ in range(rng.choice((1, 40, 300)))]
    columns = columns_of(payloads)
    decoded = [decode_example(one) for one in payloads]
    assert columns.names == sorted({name for one in decoded for name in one})
    types = {"a": pa.int64(), "a/long": pa.int64(), "f": pa.float32()}
    for name in columns.names:
        kind = pa.list_(types.get(name, pa.binary()))
        found = columns.column(pa.field(name, kind)).to_pylist()
        expected = [None if one.get(name) is None else [*one[name]] for one in decoded]
        assert found == expected, name
        columns.column(columns.column_type(name).field(name))  # the inferred type fits all
    assert not columns.wrong


@pytest.mark.parametrize("seed", range(5))
def test_damaged_records_are_read_as_they_are_decoded(seed: int) -> None:
    """Changed, lost and doubled bytes give the values of protobuf, or a wrong record."""
    rng = random.Random(seed)
    payloads = []
    for _ in range(200):
        data = bytearray(random_record(rng))
        for _ in range(rng.randint(0, 3)):
            at = rng.randrange(len(data) + 1)
            stop = min(at + rng.randint(0, 3), len(data))
            data[at:stop] = rng.choice((b"", rng.randbytes(1), data[at : stop + 2]))
        payloads.append(bytes(data))
    columns = columns_of(payloads)
    decoded = []
    for row, payload in enumerate(payloads):
        try:
            if is_sequence_example(payload):
                raise ExampleError
            decoded.append(decode_example(payload))
        except ExampleError:
            decoded.append({})
            for name in columns.names:
                columns.column_type(name)
            assert row in columns.wrong
    for name in columns.names:
        for kind, dtype in ((pa.int64(), "i"), (pa.float32(), "f"), (pa.binary(), "O")):
            found = columns.column(pa.field(name, pa.list_(kind))).to_pylist()
            for row, one in enumerate(decoded):
                value = one.get(name)
                if value is None or row in columns.wrong:
                    continue
                is_kind = (
                    isinstance(value, list)
                    if dtype == "O"
                    else (not isinstance(value, list) and value.dtype.kind == dtype)
                )
                if is_kind:
                    expected = value if dtype == "O" else value.tolist()
                    assert repr(found[row]) == repr(expected), (name, row)


@pytest.mark.parametrize(
    ("records", "types", "nullable"),
    [
        ([{"x": [1]}, {"x": [2]}], (pa.int64(), pa.list_(pa.int64())), False),
        ([{"x": [1]}, {"x": []}], (pa.int64(), pa.list_(pa.int64())), True),
        ([{"x": [1]}, {}], (pa.int64(), pa.list_(pa.int64())), True),
        ([{"x": [1, 2]}, {"x": [3, 4]}], (pa.list_(pa.int64(), 2), pa.list_(pa.int64())), False),
        ([{"x": [1, 2]}, {"x": [3]}], (pa.list_(pa.int64()),), False),
        ([{"x": [1, 2]}, {}], (pa.list_(pa.int64()),), True),
        ([{"x": [1]}, {"x": [1.5]}], (pa.float64(), pa.list_(pa.float64())), False),
        ([{"x": [b"a"]}], (pa.string(), pa.binary(), pa.list_(pa.string()),
                           pa.list_(pa.binary())), False),
        ([{"x": [b"\xff"]}], (pa.binary(), pa.list_(pa.binary())), False),
        ([{}, {}], (), True),
    ],
)  # fmt: skip
def test_types(records, types, nullable) -> None:
    found = columns_of([example(one) for one in records]).column_type("x")
    assert (found.types, found.nullable) == (types, nullable)


@pytest.mark.parametrize(
    ("kind", "values", "why"),
    [
        (pa.int64(), [b"a"], "feature 'x': expected int64, got bytes"),
        (pa.int64(), [1, 2], "feature 'x': expected one value, got 2"),
        (pa.string(), [1], "feature 'x': expected bytes, got int64"),
        (pa.list_(pa.int64(), 2), [1], "feature 'x': expected 2 values, got 1"),
        (pa.int64(), [], "feature 'x': it has no value"),
    ],
)
def test_values_of_another_type(kind, values, why) -> None:
    columns = columns_of([example({"x": values})])
    columns.column(pa.field("x", kind, nullable=False))
    assert columns.wrong == {0: why}


NUMBER = field(0x0A, field(0x0A, b"x") + field(0x12, field(0x1A, field(0x0A, b"\x80"))))


@pytest.mark.parametrize(
    ("payload", "why"),
    [
        (b"\xff", "not a tf.train.Example"),
        (b"hello world", "not a tf.train.Example"),
        (field(0x0A, b"") + field(0x12, b""), "it is a SequenceExample"),
        (example({"x": [1]})[:-1], "not a tf.train.Example"),
        (field(0x0A, NUMBER), "is cut off"),
        (field(0x0A, field(0x0A, field(0x0A, b"\xff") + field(0x12, b""))), "is not UTF-8"),
        (field(0x0A, field(0x0A, field(0x0A, b"x") + b"\x12\xff\xff\xff\xff\xff\x0f")), "not a tf"),
    ],
)
def test_damaged_records(payload: bytes, why: str) -> None:
    columns = columns_of([example({"x": [1]}), payload, example({"x": [2]})])
    array = columns.column(pa.field("x", pa.int64()))
    assert (array[0].as_py(), array[2].as_py()) == (1, 2)
    assert [*columns.wrong] == [1]
    assert why in columns.wrong[1]


def test_the_last_of_two_entries_counts_and_is_where_its_bytes_are() -> None:
    entries = [field(0x0A, field(0x0A, b"x") + field(0x12, feature([one]))) for one in (b"a", b"b")]
    payload = field(0x0A, b"".join(entries))
    columns = columns_of([payload])
    assert columns.column(pa.field("x", pa.binary())).to_pylist() == [b"b"]
    starts, ends = columns.places("x")
    assert payload[starts[0] : ends[0]] == b"b"
