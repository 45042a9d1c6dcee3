"""Reading TFRecord files without a dataset: files of other tools and of TensorFlow."""

import gzip
import os
import re

import numpy as np
import pytest

import recordmill
from recordmill.format.manifest import ManifestError
from recordmill.reading.tfrecord_files import FileDamagedError
from recordmill.storage.files import MissingError
from recordmill.tfrecord.framing import frame
from tests.make_dataset import example, make_dataset
from tests.paths import TFRECORDS

OTHERS = {
    "gzip-test-00000-of-00001.tfrecord.gz": 2,
    "gzip-train-00000-of-00001.tfrecord.gz": 2,
    "gzip-validation-00000-of-00001.tfrecord.gz": 2,
    "python-42.tfrecord": 42,
    "python-data.tfrecord": 1,
    "python-singles.tfrecord": 3,
    "tensorflow-images.tfrecord": 2,
}
DTYPES = {"bytes_list": np.dtype(object), "float_list": np.float32, "int64_list": np.int64}


@pytest.fixture(scope="module")
def tf():
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow

    return tensorflow


@pytest.mark.parametrize("name", OTHERS)
def test_reads_files_of_other_tools(tf, name) -> None:
    compression = "GZIP" if name.endswith(".gz") else ""
    theirs = [*tf.data.TFRecordDataset(str(TFRECORDS / name), compression_type=compression)]
    ours = list(recordmill.read(TFRECORDS / name))
    assert len(ours) == len(theirs) == OTHERS[name]
    for record, serialised in zip(ours, theirs, strict=True):
        known = tf.train.Example.FromString(serialised.numpy()).features.feature
        assert record.keys() == known.keys()
        for feature, value in known.items():
            kind = value.WhichOneof("kind")
            assert record[feature].dtype == DTYPES[kind], feature
            assert record[feature].tolist() == [*getattr(value, kind).value], feature


def test_the_files_of_others_are_all_there() -> None:
    assert OTHERS.keys() == {path.name for path in TFRECORDS.iterdir()}


def test_a_pattern_and_several_files() -> None:
    records = list(
        recordmill.read([str(TFRECORDS / "python-[ds]*"), TFRECORDS / "python-data.tfrecord"])
    )
    assert len(records) == 5
    assert [*records[0]] == [*records[4]] == ["code", "count", "ratio"]
    assert len(list(recordmill.read(TFRECORDS / "gzip-*.gz"))) == 6


def test_gzip_is_detected_by_content(tmp_path) -> None:
    path = tmp_path / "data.tfrecord"
    path.write_bytes(gzip.compress(frame(example({"a": [7]}))))
    assert [record["a"].tolist() for record in recordmill.read(path)] == [[7]]
    # A length that begins with gzip's magic number.
    filled = example({"a": [bytes(0x8B1F)]})
    value = example({"a": [bytes(0x8B1F - (len(filled) - 0x8B1F))]})
    assert frame(value).startswith(b"\x1f\x8b")
    path.write_bytes(frame(value))
    assert [len(record["a"]) for record in recordmill.read(path)] == [1]
    path.write_bytes(b"")
    assert list(recordmill.read(path)) == []


def test_a_name_with_brackets_is_a_name_first(tmp_path) -> None:
    (tmp_path / "a[1].tfrecord").write_bytes(frame(example({"a": [1]})))
    (tmp_path / "a1.tfrecord").write_bytes(frame(example({"a": [2]})) * 2)
    assert len(list(recordmill.read(tmp_path / "a[1].tfrecord"))) == 1
    assert len(list(recordmill.read(tmp_path / "a[0-9].tfrecord"))) == 2


def test_values_are_writable_arrays(tmp_path) -> None:
    path = tmp_path / "data.tfrecord"
    values = {"number": [-1, 2], "size": [0.5], "text": [b"a", b""], "none": []}
    path.write_bytes(frame(example(values)))
    (record,) = recordmill.read(path)
    assert [*record] == ["none", "number", "size", "text"]
    assert {name: value.tolist() for name, value in record.items()} == values
    for name in ("number", "size", "text"):
        record[name][0] = record[name][0]
    assert list(recordmill.read(path, features=["size", "depth"])) == [{"size": record["size"]}]


def test_a_feature_without_a_list(tf, tmp_path) -> None:
    unset = tf.train.Example(features=tf.train.Features(feature={"a": tf.train.Feature()}))
    (tmp_path / "data").write_bytes(frame(unset.SerializeToString()))
    assert list(recordmill.read(tmp_path / "data")) == [{"a": None}]


def test_a_sequence_example_has_a_value_per_step(tf, tmp_path) -> None:
    def ints(*values: int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))

    lists = {
        "boxes": tf.train.FeatureList(feature=[ints(1, 2), ints(), ints(3)]),
        "none": tf.train.FeatureList(),
    }
    message = tf.train.SequenceExample(
        context=tf.train.Features(feature={"label": ints(5)}),
        feature_lists=tf.train.FeatureLists(feature_list=lists),
    )
    (tmp_path / "data").write_bytes(frame(message.SerializeToString()))
    (record,) = recordmill.read(tmp_path / "data")
    assert [*record] == ["boxes", "label", "none"]
    assert [step.tolist() for step in record["boxes"]] == [[1, 2], [], [3]]
    assert record["label"].tolist() == [5]
    assert record["none"] == []


@pytest.mark.parametrize("name", OTHERS)
def test_damage_names_the_file_and_the_record(tmp_path, name) -> None:
    content = bytearray((TFRECORDS / name).read_bytes())
    content[-3] ^= 1
    (tmp_path / name).write_bytes(content)
    last = OTHERS[name] - 1
    # In gzip these bytes belong to the checksum of the member.
    where = "[0-9]+: the gzip stream is" if name.endswith(".gz") else f"{last}: payload checksum"
    read = []
    with pytest.raises(
        FileDamagedError, match=f"^{re.escape(str(tmp_path / name))}, record {where}"
    ):
        read.extend(recordmill.read(tmp_path / name))
    assert len(read) == last or name.endswith(".gz")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"a,b\n1,2\n3,4\n", "record 0: length checksum does not match; is it a TFRecord file"),
        (frame(example({"a": [1]}))[:-1], "record 0: the file ends inside a record"),
        (
            frame(example({"a": [1]})) * 2 + frame(b"\x0a\xff"),
            "record 2: not a tf.train.Example: a varint at byte 1 is cut off",
        ),
        (frame(b"\x18\x01"), "record 0: not a tf.train.Example: "),
        (frame(b"\xff\xff"), "record 0: not a tf.train.Example"),
    ],
)
def test_files_without_valid_examples(content, message, tmp_path) -> None:
    (tmp_path / "data").write_bytes(content)
    with pytest.raises(FileDamagedError, match=f"data, {message}"):
        list(recordmill.read(tmp_path / "data"))


def test_invalid_arguments(tmp_path) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "data").write_bytes(b"")
    with pytest.raises(
        ValueError, match="TFRecord files without a dataset have no splits; got split 'a'"
    ):
        recordmill.read(tmp_path / "data", "a")
    with pytest.raises(MissingError, match=r"no file matches .*/\*.gz: check the pattern"):
        recordmill.read(tmp_path / "*.gz")
    with pytest.raises(ValueError, match=r"expected TFRecord files, got .*/out, which is a folder"):
        recordmill.read([tmp_path / "data", tmp_path / "out"])
    with pytest.raises(ValueError, match="or TFRecord files; got none"):
        recordmill.read([])
    with pytest.raises(ManifestError, match="no dataset"):
        recordmill.read(tmp_path / "nothing")


def test_a_shard_can_be_read_by_itself(tmp_path) -> None:
    make_dataset(tmp_path / "out", compression="gzip")
    records = list(recordmill.read(tmp_path / "out" / "train.tfrecord-00001-of-00002.gz"))
    assert [record["image/class/text"].tolist() for record in records] == [
        [b"rose"],
        [b"tulip"],
        [b"rose"],
    ]
    assert records[0]["size"].dtype == np.float32
