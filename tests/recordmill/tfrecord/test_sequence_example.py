"""SequenceExamples: equal to protobuf's bytes, and read back by TensorFlow and by ourselves."""

import os

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.format.schema import feature_spec
from recordmill.pipelines.cli import main
from recordmill.tfrecord.decode import ExampleError, decode_sequence_example
from recordmill.tfrecord.example import encode_frames
from recordmill.tfrecord.framing import frame
from tests.image_runs import Made, encoders_kept
from tests.image_runs import make as make_any
from tests.pipelines.test_sensor import OPTIONS, windows
from tests.recordmill.tfrecord.test_example import field, kind_of, rows_of

VALUES = {
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.bool_(): st.booleans(),
    pa.float64(): st.floats(width=32, allow_nan=False),
    pa.string(): st.text(max_size=4),
    pa.binary(): st.sampled_from([b"", b"x", b"\x80" * 3000]),
}


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


@st.composite
def tables(draw) -> tuple[pa.RecordBatch, dict[str, int]]:
    """Columns of a context, and of feature lists with their steps."""
    rows = draw(st.integers(0, 3) | st.just(50))
    names = draw(st.lists(st.text(max_size=3), max_size=5, unique=True))
    batch = pa.RecordBatch.from_pydict({"": pa.nulls(rows, pa.int8())}).select([])
    steps = {}
    for name in names:
        kind = draw(st.sampled_from(list(VALUES)))
        count, width = draw(st.integers(1, 3)), draw(st.integers(1, 2))
        size = count * width
        value = st.lists(VALUES[kind], min_size=size, max_size=size)
        if draw(st.booleans()):
            steps[name] = count
        else:
            value = st.none() | value
        seen = draw(st.lists(value, min_size=1, max_size=4))
        column = [seen[row % len(seen)] for row in range(rows + 1)]
        batch = batch.append_column(name, pa.array(column, pa.list_(kind, size)).slice(1))
    return batch, steps


def protobufs(tf, batch: pa.RecordBatch, steps: dict[str, int]) -> list[bytes]:
    """The rows as protobuf serialises them, entries sorted by name (see `test_example`)."""
    out = []
    for row in rows_of(batch):
        context, lists = [], []
        for name in sorted(row, key=str.encode):
            kind, values = row[name]
            if name not in steps:
                features = tf.train.Features()
                numbers = getattr(features.feature[name], kind)
                numbers.SetInParent()
                numbers.value.extend(values)
                context.append(features.SerializeToString())
                continue
            found = tf.train.FeatureLists()
            width = len(values) // steps[name]
            for step in range(steps[name]):
                one = getattr(found.feature_list[name].feature.add(), kind)
                one.value.extend(values[step * width : (step + 1) * width])
            lists.append(found.SerializeToString())
        out.append(field(1, b"".join(context)) + (field(2, b"".join(lists)) if steps else b""))
        tf.train.SequenceExample.FromString(out[-1])
    return out


@given(table=tables())
def test_bytes_are_those_of_protobuf_and_come_back(tf, table):
    batch, steps = table
    expected = protobufs(tf, batch, steps)
    frames = encode_frames(batch, steps)
    assert frames.data == b"".join(map(frame, expected))
    assert frames.lengths.tolist() == [16 + len(one) for one in expected]
    for payload, row in zip(expected, rows_of(batch), strict=True):
        found = decode_sequence_example(payload)
        assert found.keys() == row.keys()
        for name, (kind, values) in row.items():
            assert kind == kind_of(batch.schema.field(name).type)
            assert np.asarray(found[name]).tolist() == values if kind != "bytes_list" else True
            if kind == "bytes_list":
                assert found[name] == values


def test_steps_of_several_kinds_are_told(tf):
    message = tf.train.SequenceExample()
    message.feature_lists.feature_list["x"].feature.add().float_list.value.append(1)
    message.feature_lists.feature_list["x"].feature.add().int64_list.value.append(1)
    with pytest.raises(ExampleError, match="feature list 'x' has steps of different types"):
        decode_sequence_example(message.SerializeToString())


def test_a_list_of_any_length_is_none():
    batch = pa.RecordBatch.from_pydict({"x": pa.array([[1], [2, 3]])})
    with pytest.raises(ValueError, match="'x': expected lists of one length"):
        encode_frames(batch, {"x": 1})


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    folder = tmp_path_factory.mktemp("sequences") / "out"
    options = ("--window", 24, "--splits", "train=1", "--bucketize", "RH=5", "--sequence-example")
    with encoders_kept():
        made = make_any(folder, *OPTIONS, *options, command="sensor")
        assert main(["verify", "--dataset", str(folder), "--quiet"]) == 0
    return made


def test_tensorflow_reads_windows_as_sequences(tf, made):
    specs = feature_spec(made.manifest.features)
    parsers = {
        sequence: {
            name: (tf.io.FixedLenSequenceFeature if sequence else tf.io.FixedLenFeature)(
                spec.shape, tf.as_dtype(spec.dtype)
            )
            for name, spec in specs.items()
            if spec.sequence == sequence
        }
        for sequence in (False, True)
    }
    assert sorted(parsers[False]) == ["window/series", "window/start"]
    files = [os.fspath(made.folder / s.file) for s in made.manifest.splits["train"].shards]
    ours = windows(made)
    count = 0
    for payload in tf.data.TFRecordDataset(files):
        context, lists = tf.io.parse_single_sequence_example(payload, *parsers.values())
        name = context["window/series"].numpy().decode()
        start = np.datetime64(int(context["window/start"]), "us").astype("datetime64[s]")
        example = ours[f"{name}@{start}"]
        assert sorted(lists) == sorted(parsers[True])
        for column, values in lists.items():
            assert values.shape == (24,)
            np.testing.assert_array_equal(values.numpy(), example[column])
        count += 1
    assert count == len(ours) == 9357 // 24


def test_what_stands_beside_them(made):
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = text_format.Parse((made.folder / "schema.pbtxt").read_text(), schema_pb2.Schema())
    lists = {feature.name: feature for feature in schema.feature}["##SEQUENCE##"]
    inside = {feature.name: feature for feature in lists.struct_domain.feature}
    assert inside["RH"].int_domain.max == 5
    assert "T" in inside
    assert not (made.folder / "features.json").exists()
    assert any("TFDS" in note for note in made.manifest.notes)
    assert (
        main(["inspect", "--dataset", str(made.folder), "--split", "train", "--record", "3"]) == 0
    )
