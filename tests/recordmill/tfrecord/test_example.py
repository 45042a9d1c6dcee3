"""Examples: equal to protobuf's bytes, and read as protobuf reads them."""

import io
import itertools
import os
import struct

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from recordmill.tfrecord import example
from recordmill.tfrecord.decode import ExampleError, decode_example
from recordmill.tfrecord.example import encode_examples, encode_frames
from recordmill.tfrecord.framing import frame, gzip_member, read_frames
from recordmill.tfrecord.varint import decode_varints, encode_varint, encode_varints, read_varint
from tests.examples_of_properties import many
from tests.paths import TFRECORDS


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


# ---- varints

UINT64 = st.integers(0, 64).flatmap(lambda bits: st.integers(0, (1 << bits) - 1 if bits else 0))


@given(st.lists(UINT64))
def test_vectorized_varints_equal_single_varints(values):
    data, sizes = encode_varints(np.array(values, np.uint64).view(np.int64))
    one_by_one = [encode_varint(value) for value in values]
    assert data.tobytes() == b"".join(one_by_one)
    assert sizes.tolist() == list(map(len, one_by_one))


@given(st.lists(UINT64))
def test_varints_are_decoded(values):
    encoded = [encode_varint(value) for value in values]
    data = b"".join(encoded)
    assert decode_varints(data).view(np.uint64).tolist() == values
    # The short way and the vectorised one.
    assert decode_varints(b"\x01" * 100 + data).view(np.uint64).tolist() == [1] * 100 + values
    assert [read_varint(one, 0, len(one)) for one in encoded] == [
        (value, len(one)) for value, one in zip(values, encoded, strict=True)
    ]


@pytest.mark.parametrize("before", [b"", b"\x01" * 100])
@pytest.mark.parametrize("bad", [b"\x80", b"\x01\xff", b"\x80" * 10 + b"\x01"])
def test_bad_varints(before, bad):
    with pytest.raises(ValueError, match="is cut off or longer than 10 bytes"):
        decode_varints(before + bad)


# ---- tables


def field(number: int, content: bytes) -> bytes:
    """Return a length-delimited field of a message."""
    return encode_varint(number << 3 | 2) + encode_varint(len(content)) + content


def integers(dtype: np.dtype) -> st.SearchStrategy:
    low, high = int(np.iinfo(dtype).min), int(np.iinfo(dtype).max)
    return st.sampled_from([low, high, 0, 127, high // 2]) | st.integers(low, high)


def floats(width: int) -> st.SearchStrategy:
    most = float(np.finfo(f"f{min(width, 32) // 8}").max)
    finite = st.floats(-most, most, width=width)
    return finite | st.sampled_from([float("nan"), float("inf"), -float("inf")])


LONG = st.integers(0, 9000).map(lambda size: b"\x80" * size)
VALUES = {
    **{
        pa.from_numpy_dtype(dtype): integers(dtype)
        for dtype in map(np.dtype, ("i1", "i2", "i4", "i8", "u1", "u2", "u4"))
    },
    pa.bool_(): st.booleans(),
    pa.float16(): floats(16),
    pa.float32(): floats(32),
    pa.float64(): floats(64),
    pa.string(): st.text(max_size=5),
    pa.large_string(): st.text(max_size=5),
    pa.binary(): st.binary(max_size=5) | LONG,
    pa.large_binary(): LONG,
    pa.dictionary(pa.int8(), pa.string()): st.sampled_from(["red", "green", "", "\u00e4"]),
}


@st.composite
def arrays(draw, rows: int) -> pa.Array:
    """A slice of an array of any type, in which values come once or often."""
    dtype = draw(st.sampled_from(list(VALUES)))
    values = VALUES[dtype]
    shape = draw(st.sampled_from(["one value", "list", "large_list", "fixed_size_list"]))
    if shape == "list":
        dtype, values = pa.list_(dtype), st.lists(values, max_size=4)
    elif shape == "large_list":
        dtype, values = pa.large_list(dtype), st.lists(values, max_size=4)
    elif shape == "fixed_size_list":
        size = draw(st.integers(0, 3))
        dtype, values = pa.list_(dtype, size), st.lists(values, min_size=size, max_size=size)
    if draw(st.booleans()):
        values = st.none() | values
    before = draw(st.lists(values, max_size=2))
    seen = draw(st.lists(values, min_size=1, max_size=6))
    picked = draw(st.lists(st.integers(0, len(seen) - 1), min_size=rows, max_size=rows))
    return pa.array([*before, *(seen[i] for i in picked)], dtype).slice(len(before))


@st.composite
def tables(draw) -> pa.RecordBatch:
    rows = draw(st.integers(0, 4) | st.sampled_from([40, 70]))
    names = draw(st.lists(st.text(max_size=3) | st.just("n" * 130), max_size=4, unique=True))
    batch = pa.RecordBatch.from_pydict({"": pa.nulls(rows, pa.int8())}).select([])
    for name in names:
        batch = batch.append_column(name, draw(arrays(rows)))
    return batch


def kind_of(dtype: pa.DataType) -> str:
    if (
        pa.types.is_list(dtype)
        or pa.types.is_large_list(dtype)
        or pa.types.is_fixed_size_list(dtype)
    ):
        dtype = dtype.value_type
    if pa.types.is_floating(dtype):
        return "float_list"
    return "int64_list" if pa.types.is_integer(dtype) or dtype == pa.bool_() else "bytes_list"


def rows_of(batch: pa.RecordBatch) -> list[dict[str, tuple[str, list]]]:
    """Return the features of every row: kind and values as an Example holds them."""
    rows = [{} for _ in range(batch.num_rows)]
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        kind = kind_of(column.type)
        for row, value in zip(rows, column.to_pylist(), strict=True):
            if value is None:
                continue
            values = value if isinstance(value, list) else [value]
            if kind == "float_list":
                with np.errstate(over="ignore"):
                    values = [float(np.float32(v)) for v in values]
            elif kind == "int64_list":
                values = list(map(int, values))
            else:
                values = [v.encode() if isinstance(v, str) else v for v in values]
            row[name] = (kind, values)
    return rows


def protobufs(tf, batch: pa.RecordBatch) -> list[bytes]:
    """Return the rows as protobuf serializes them.

    Of two names of which one begins with the other, upb (which is Python's protobuf, 6.33) writes
    the longer first, unlike the C++ and the pure Python protobuf; so entries are sorted here, and
    the whole is compared where there are no such names.
    """
    names = sorted(batch.schema.names)
    nested = any(b.startswith(a) for a, b in itertools.pairwise(names))
    out = []
    for row in rows_of(batch):
        whole = tf.train.Features()
        entries = []
        for name in sorted(row, key=str.encode):
            kind, values = row[name]
            features = tf.train.Features()
            numbers = getattr(features.feature[name], kind)
            numbers.SetInParent()
            numbers.value.extend(values)
            entries.append(features.SerializeToString())
            whole.MergeFrom(features)
        out.append(field(1, b"".join(entries)))
        if not nested:
            assert out[-1] == tf.train.Example(features=whole).SerializeToString(deterministic=True)
    return out


def split(encoded) -> list[bytes]:
    edges = encoded.offsets.tolist()
    return [encoded.data[a:b] for a, b in itertools.pairwise(edges)]


def plain(features: dict) -> dict[str, tuple[str, str] | None]:
    """Return decoded features in a form in which NaN is equal to itself."""
    kinds = {"<i8": "int64_list", "<f4": "float_list"}
    return {
        name: value
        if value is None
        else ("bytes_list", repr(value))
        if isinstance(value, list)
        else (kinds[value.dtype.str], repr(value.tolist()))
        for name, value in features.items()
    }


@settings(max_examples=many(2))
@given(batch=tables())
def test_bytes_are_those_of_protobuf(tf, batch):
    expected = protobufs(tf, batch)
    assert split(encode_examples(batch)) == expected
    frames = encode_frames(batch)
    assert frames.data == b"".join(map(frame, expected))
    assert frames.lengths.tolist() == [16 + len(one) for one in expected]


@given(batch=tables())
def test_encoded_rows_are_decoded(batch):
    expected = [
        {name: (kind, repr(values)) for name, (kind, values) in row.items()}
        for row in rows_of(batch)
    ]
    assert [plain(decode_example(one)) for one in split(encode_examples(batch))] == expected


@given(batch=tables(), step=st.integers(1, 50))
def test_encoding_of_a_row_does_not_depend_on_other_rows(batch, step):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(example, "_ROWS", step)
        in_steps = encode_frames(batch)
    whole = encode_frames(batch)
    assert in_steps.data == whole.data
    assert in_steps.lengths.tolist() == whole.lengths.tolist()


def test_many_rows_of_many_sizes(tf):
    """Sizes for every path: few rows, many rows, external values, lengths of one to three bytes."""
    random = np.random.default_rng(5)
    rows = 20_000
    batch = pa.RecordBatch.from_pydict(
        {
            "picture": pa.array([random.bytes(s) for s in random.integers(0, 6000, rows)]),
            "other": pa.array([b"\xff" * s for s in random.integers(0, 200, rows).tolist()]),
            "number": pa.array(
                random.integers(-(2**63), 2**63 - 1, rows) >> random.integers(0, 63)
            ),
            "vector": pa.FixedSizeListArray.from_arrays(
                pa.array(random.normal(size=8 * rows).astype(np.float32)), 8
            ),
        }
    )
    frames = list(read_frames(io.BytesIO(encode_frames(batch).data), compression="none"))
    assert len(frames) == rows
    some = random.integers(0, rows, 300)
    assert [frames[i].payload for i in some] == protobufs(tf, batch.take(pa.array(some)))


@pytest.mark.parametrize("uneven", [False, True])
@pytest.mark.parametrize("size", [1, 20, 1500])
def test_columns_whose_values_have_one_size(tf, size, uneven):
    """Rows of which all or some have the same widths, and which differ in few or many bytes."""
    random = np.random.default_rng(size)
    rows = 100
    columns = {
        **{f"a{i}": pa.array([random.bytes(size) for _ in range(rows)]) for i in range(3)},
        "b": pa.array(random.normal(size=rows).astype(np.float32)),
        "c": pa.array(np.zeros(rows, np.int64)),
    }
    if uneven:
        columns["ab"] = pa.array([random.bytes(s) for s in random.integers(0, 9, rows)])
    whole = pa.RecordBatch.from_pydict(columns)
    for batch in (whole, whole.slice(3, 90)):
        assert encode_frames(batch).data == b"".join(map(frame, protobufs(tf, batch)))


@pytest.mark.parametrize("rows", [1, 40, 700])
def test_many_neighbouring_features_of_one_float(tf, rows):
    """In one field of many features, between others; one that has a null has a field of its own."""
    random = np.random.default_rng(rows)
    kinds = [np.float16, np.float32, np.float64]
    columns = {
        f"f{i:03}{'x' * (i % 130)}": pa.array(random.normal(size=rows).astype(kinds[i % 3]))
        for i in range(300)
    }
    columns["f100"] = pa.array([None, *range(rows - 1)], pa.float32())
    columns |= {"a": pa.array(range(rows)), "g": pa.array([b"text"] * rows)}
    whole = pa.RecordBatch.from_pydict(columns)
    for batch in (whole, whole.slice(rows // 3)):
        expected = protobufs(tf, batch)
        assert split(encode_examples(batch)) == expected
        assert encode_frames(batch).data == b"".join(map(frame, expected))


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list, lambda of: pa.list_(of, 1)])
def test_lists_of_one_value_are_that_value(kind):
    table = {
        "number": pa.array([0.5, -1, 2], pa.float32()),
        "integer": pa.array([1, 2**40, -1]),
        "text": pa.array(["", "x", "longer"]),
    }
    lists = {
        name: pa.array([[value] for value in column.to_pylist()], kind(column.type))
        for name, column in table.items()
    }
    for first in range(3):
        plain = encode_frames(pa.RecordBatch.from_pydict(table).slice(first))
        assert encode_frames(pa.RecordBatch.from_pydict(lists).slice(first)).data == plain.data


@pytest.mark.parametrize(("compression", "suffix"), [("", ""), ("GZIP", ".gz")])
def test_tensorflow_reads_frames(tf, tmp_path, compression, suffix):
    batch = pa.RecordBatch.from_pydict(
        {"label": [3, None, -1], "image/encoded": [b"one", b"", b"\xff" * 5000], "x": [0.5, 1, 2]}
    )
    frames = encode_frames(batch)
    path = tmp_path / f"data.tfrecord{suffix}"
    cut = int(frames.lengths[0])
    parts = frames.data[:cut], frames.data[cut:]
    path.write_bytes(b"".join(map(gzip_member, parts) if compression else parts))
    spec = {
        "label": tf.io.FixedLenFeature([], tf.int64, default_value=7),
        "image/encoded": tf.io.FixedLenFeature([], tf.string),
        "x": tf.io.FixedLenFeature([], tf.float32),
    }
    records = tf.data.TFRecordDataset(str(path), compression_type=compression)
    rows = [tf.io.parse_single_example(record, spec) for record in records]
    assert [(int(row["label"]), row["image/encoded"].numpy(), float(row["x"])) for row in rows] == [
        (3, b"one", 0.5),
        (7, b"", 1.0),
        (-1, b"\xff" * 5000, 2.0),
    ]


def test_no_rows_and_no_columns():
    none = pa.RecordBatch.from_pydict({"a": pa.array([], pa.string())})
    assert split(encode_examples(none)) == []
    assert encode_frames(none).data == b""
    assert encode_frames(none).lengths.dtype == np.int64
    bare = pa.RecordBatch.from_pydict({"a": [1, 2]}).select([])
    assert split(encode_examples(bare)) == [b"\n\x00", b"\n\x00"]


NULL_LIST = pa.ListArray.from_arrays([0, 1, 3], [1, None, 3], mask=pa.array([False, True]))


def test_values_behind_a_null_list_are_ignored():
    assert NULL_LIST.values.null_count
    batch = pa.RecordBatch.from_pydict({"a": NULL_LIST})
    first, second = map(decode_example, split(encode_examples(batch)))
    assert first["a"].tolist() == [1]
    assert second == {}


def test_a_column_of_the_type_null_is_left_out():
    batch = pa.RecordBatch.from_pydict({"a": [1, 2], "b": pa.nulls(2)})
    assert split(encode_examples(batch)) == split(encode_examples(batch.select(["a"])))
    assert encode_frames(batch).data == encode_frames(batch.select(["a"])).data


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([[1], None, [2, None]]), "column 'c', row 2: expected a list of values, got"),
        (
            pa.array([[["a"]]]),
            "column 'c' has the type list<item: list<item: string>>, which an Example",
        ),
        (
            pa.array([1], pa.uint64()),
            "column 'c' has the type uint64, which an Example cannot hold",
        ),
        (pa.array([0], pa.time32("s")), "column 'c' has the type time32"),
        (pa.array([{"a": 1}]), "column 'c' has the type struct<a: int64>"),
        (pa.array([1.0, None, -1e300]), "column 'c': -1e.300 is not a finite float32"),
        (pa.array([[1.0], [2.0, 3.5e38]]), "column 'c': 3.5e.38 is not a finite float32"),
        (pa.array([[None]]), "column 'c' has the type list<item: null>"),
        (
            pa.array([["a", None]], pa.list_(pa.dictionary(pa.int8(), pa.string()))),
            "column 'c', row 0: expected a list of values",
        ),
    ],
)
@pytest.mark.parametrize("encode", [encode_examples, encode_frames])
def test_bad_columns(encode, column, message):
    batch = pa.RecordBatch.from_pydict({"fine": column.is_null(), "c": column})
    with pytest.raises(ValueError, match=message.replace("[", r"\[")):
        encode(batch)


@pytest.mark.parametrize("encode", [encode_examples, encode_frames])
def test_numbers_behind_nulls_may_be_of_any_size(encode):
    values = pa.array([1.0, 1e300, 1e300, 2.0])
    is_null = pa.array([False, True])
    numbers = pa.Array.from_buffers(
        pa.float64(), 2, [pa.array([True, False]).buffers()[1], values.buffers()[1]]
    )
    for column, expected in (
        (numbers, pa.array([1.0, None])),
        (
            pa.FixedSizeListArray.from_arrays(values.take(pa.array([0, 3, 1, 2])), 2, mask=is_null),
            pa.array([[1.0, 2.0], None]),
        ),
    ):
        assert column.equals(expected.cast(column.type))
        found, wanted = (
            encode(pa.RecordBatch.from_pydict({"c": one})) for one in (column, expected)
        )
        assert bytes(found.data) == bytes(wanted.data)


def test_two_columns_of_one_name():
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["c", "c"])
    with pytest.raises(ValueError, match=r"got several named \['c'\]"):
        encode_examples(batch)


# ---- reading


def reference(tf, payload: bytes) -> dict | None:
    """Return the bytes as protobuf parses them; None if it rejects them."""
    from google.protobuf.message import DecodeError

    try:
        message = tf.train.Example.FromString(payload)
    except DecodeError:
        return None
    out = {}
    for name, feature in message.features.feature.items():
        kind = feature.WhichOneof("kind")
        out[name] = None if kind is None else (kind, repr(list(getattr(feature, kind).value)))
    return out


def test_reads_files_of_other_writers(tf):
    read = 0
    for path in sorted(TFRECORDS.iterdir()):
        with path.open("rb") as stream:
            for record in read_frames(
                stream, compression="gzip" if path.suffix == ".gz" else "none"
            ):
                assert plain(decode_example(record.payload)) == reference(tf, record.payload)
                read += 1
    assert read == 54


def of(*features: bytes) -> bytes:
    """Return an Example whose feature "a" has these bytes as its content."""
    entry = field(1, b"a") + b"".join(field(2, feature) for feature in features)
    return field(1, field(1, entry))


ONE, TWO = of(field(3, b"\x08\x01")), of(field(3, field(1, b"\x02\xac\x02")))
UNKNOWN = b"\x78\x05" + b"\x7a\x01x" + b"\x79" + bytes(8) + b"\x7d" + bytes(4)
GROUP = b"\x7b" + UNKNOWN + b"\x83\x01\x84\x01" + b"\x7c"


@pytest.mark.parametrize(
    ("payload", "expected"),
    [
        pytest.param(b"", {}, id="nothing"),
        pytest.param(ONE, {"a": [1]}, id="unpacked"),
        pytest.param(TWO, {"a": [2, 300]}, id="packed"),
        pytest.param(of(field(3, b"\x08\x01" + field(1, b"\x02"))), {"a": [1, 2]}, id="both"),
        pytest.param(of(field(2, b"\x0d" + struct.pack("<f", 0.5))), {"a": [0.5]}, id="float"),
        pytest.param(ONE + TWO, {"a": [2, 300]}, id="the last entry counts"),
        pytest.param(of(field(3, b"\x08\x01"), field(3, b"\x08\x02")), {"a": [1, 2]}, id="merged"),
        pytest.param(of(field(3, b"\x08\x01") + field(1, b"")), {"a": []}, id="the last kind"),
        pytest.param(of(), {"a": None}, id="no feature"),
        pytest.param(of(b""), {"a": None}, id="no kind"),
        pytest.param(field(1, field(1, b"")), {"": None}, id="an entry of nothing"),
        pytest.param(UNKNOWN + ONE + GROUP, {"a": [1]}, id="unknown fields of an Example"),
        pytest.param(of(UNKNOWN + field(1, GROUP + field(1, b"x"))), {"a": [b"x"]}, id="and below"),
        pytest.param(field(1, b"")[:1] + b"\x80\x00", {}, id="a length longer than needed"),
    ],
)
def test_reads_as_protobuf(tf, payload, expected):
    decoded = decode_example(payload)
    assert {
        name: value.tolist() if isinstance(value, np.ndarray) else value
        for name, value in decoded.items()
    } == expected
    assert plain(decoded) == reference(tf, payload)


@pytest.mark.parametrize(
    ("payload", "message"),
    [
        (b"\n\x05abc", "the field at byte 2 ends at 7, but its message at 5"),
        (b"\n\xff\x01", "the field at byte 3 ends at 258, but its message at 3"),
        (b"\n", "a varint at byte 1 is cut off"),
        (b"\n" + b"\xff" * 11, "a varint at byte 1 is cut off or longer than 10 bytes"),
        (b"\x02\x00", "before byte 1: no field can have the number 0"),
        (b"\x0c", "before byte 1: no field can begin with the wire type 4"),
        (b"\x0f", "before byte 1: no field can begin with the wire type 7"),
        (b"\x7b\x74", "before byte 2: a group ends that did not begin"),
        (b"\x7b", "a varint at byte 1 is cut off"),
        (b"\x79\x00", "the field at byte 1 ends at 9, but its message at 2"),
        (field(1, field(1, field(1, b"\xff"))), "the name at byte 6 is not UTF-8"),
        (of(field(2, field(1, b"123"))), "floats at byte 13 take 3 bytes, expected 4 each"),
        (of(field(3, field(1, b"\x01\x80"))), "the last of the integers before byte 15 is cut off"),
        (of(field(3, field(1, b"\x80" * 10 + b"\x01"))), "feature 'a': a varint"),
    ],
)
def test_not_an_example(tf, payload, message):
    assert reference(tf, payload) is None
    with pytest.raises(ExampleError, match=message):
        decode_example(payload)


SEED = field(
    1,
    b"".join(
        field(1, field(1, name) + field(2, feature))
        for name, feature in {
            b"a": field(3, field(1, b"\x01\xac\x02" + b"\xff" * 9 + b"\x01")),
            b"b": field(2, field(1, struct.pack("<2f", 1, 2.5))),
            b"c": field(1, field(1, b"xyz") + field(1, b"")),
            b"d": field(3, b""),
        }.items()
    ),
)
EDITS = st.tuples(
    st.integers(0, len(SEED) - 1),
    st.integers(0, 3),
    st.binary(max_size=3) | st.sampled_from([b"\x0a", b"\x12", b"\x1a", b"\x08", b"\x0d", b"\x0b"]),
)


@settings(max_examples=many(8))
@given(edits=st.lists(EDITS, max_size=4))
def test_agrees_with_protobuf_on_damaged_bytes(tf, edits):
    from google.protobuf.unknown_fields import UnknownFieldSet

    payload = SEED
    for at, length, content in edits:
        payload = payload[:at] + content + payload[at + length :]
    expected = reference(tf, payload)
    if expected is None:
        with pytest.raises(ExampleError):
            decode_example(payload)
        return
    # Python's protobuf sets an entry with an unknown field aside as a whole, C++'s does not.
    features = tf.train.Example.FromString(payload).features
    if all(unknown.field_number != 1 for unknown in UnknownFieldSet(features)):
        assert plain(decode_example(payload)) == expected
