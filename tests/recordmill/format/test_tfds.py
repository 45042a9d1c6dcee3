import dataclasses
import json
import pathlib

import numpy as np
import pytest
import tensorflow_datasets as tfds

from recordmill.format.file_info import file_info
from recordmill.format.manifest import Shard, SplitInfo
from recordmill.format.tfds import tfds_files
from recordmill.tfrecord.features import Feature
from tests.images16 import png16, waves
from tests.make_dataset import FEATURES, LABELS, Row, flower, flowers, make_dataset


@pytest.fixture(scope="module")
def builder(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("tfds") / "out"
    make_dataset(folder)
    return tfds.builder_from_directory(folder)


def read(builder, split: str) -> list[dict]:
    return list(tfds.as_numpy(builder.as_dataset(split=split)))


def test_tfds_reads_every_record_of_every_split(builder) -> None:
    splits = builder.info.splits
    assert {name: splits[name].num_examples for name in splits} == {"train": 6, "validation": 2}
    assert splits["train"].num_shards == 2
    assert [len(read(builder, name)) for name in splits] == [6, 2]


def test_tfds_slices_by_the_lengths_of_the_shards(builder) -> None:
    sizes = [record["size"][-1] for record in read(builder, "train[2:4]")]
    assert sizes == [ord("b"), ord("c")]


def test_tfds_decodes_every_kind_of_feature(builder) -> None:
    first, second = read(builder, "train")[:2]
    assert set(first) == set(FEATURES)
    assert first["image/encoded"].shape == (4, 5, 3)
    assert first["image/encoded"].dtype == np.uint8
    assert first["image/class/label"] == 0
    assert first["image/class/text"] == b"rose"
    np.testing.assert_array_equal(first["grid"], np.full((2, 2), ord("a"), np.float32))
    np.testing.assert_array_equal(first["size"], np.float32([1, 2, ord("a")]))
    assert list(first["caption"]) == [b"a rose", b"!"]
    assert list(second["caption"]) == []


def test_tfds_knows_the_names_of_the_classes(builder) -> None:
    assert builder.info.features["image/class/label"].names == list(LABELS)


def test_as_supervised_gives_picture_and_label(builder) -> None:
    pairs = tfds.as_numpy(builder.as_dataset(split="validation", as_supervised=True))
    assert [(picture.shape, label) for picture, label in pairs] == [((4, 5, 3), 0), ((4, 5, 3), 1)]


RAW = Feature(dtype="string", kind="raw", raw_dtype="int16", raw_shape=(None, 2))
IMAGE16 = Feature(dtype="string", kind="image", raw_dtype="uint16", raw_shape=(None, None, 3))


@pytest.mark.parametrize(
    ("feature", "stored", "expected"),
    [
        (RAW, [np.int16([[1, 2], [3, 4]]).tobytes()], [[1, 2], [3, 4]]),
        (
            dataclasses.replace(RAW, raw_shape=(None, None)),
            [b"\1\0\2\0"],
            b"\1\0\2\0",
        ),
        (dataclasses.replace(RAW, raw_dtype="uint32"), [b"\1\0\0\0"], b"\1\0\0\0"),
        (IMAGE16, [png16(waves())], waves().tolist()),
        (dataclasses.replace(RAW, raw_dtype="uint64"), [b"\xff" * 16], [[2**64 - 1] * 2]),
        (dataclasses.replace(RAW, raw_dtype="bool"), [b"\1\0"], [[True, False]]),
        (dataclasses.replace(RAW, shape=(None,)), [b"ab", b"c"], [b"ab", b"c"]),
        (Feature(dtype="string"), [b"\xff"], b"\xff"),
        (Feature(dtype="int64", shape=(2, 2)), [1, 2, 3, 4], [[1, 2], [3, 4]]),
        (Feature(dtype="float32", shape=(None,)), [1.0, 2.0], [1.0, 2.0]),
        (Feature(dtype="int64", shape=(None,), kind="label"), [1], [1]),
        (Feature(dtype="string", shape=(2,), kind="text"), [b"a", b"b"], [b"a", b"b"]),
    ],
)
def test_tfds_reads(feature, stored, expected, tmp_path) -> None:
    row = Row(key="a", label=None, values={"x": stored})
    make_dataset(tmp_path / "out", {"train": [[row]]}, features={"x": feature})
    (record,) = read(tfds.builder_from_directory(tmp_path / "out"), "train")
    assert np.array(record["x"], object).tolist() == expected


def plain_parts(**changes) -> dict:
    shard = Shard(file="f", records=2, bytes=99, sha256="", classes={}, index=file_info(b""))
    parts = {
        "features": FEATURES,
        "labels": LABELS,
        "label_offset": 0,
        "compression": "none",
        "splits": {"train": SplitInfo.of([shard])},
    }
    return parts | changes


def test_the_files() -> None:
    made = tfds_files(**plain_parts())
    assert made.notes == ()
    assert sorted(made.files) == [
        "dataset_info.json",
        "features.json",
        "image.class.label.labels.txt",
    ]
    assert made.files["image.class.label.labels.txt"] == b"rose\ntulip\n"
    info = json.loads(made.files["dataset_info.json"])
    assert info["splits"] == [
        {
            "name": "train",
            "numBytes": "99",
            "shardLengths": ["2"],
            "filepathTemplate": "{SPLIT}.{FILEFORMAT}-{SHARD_X_OF_Y}",
        }
    ]


def test_gzip_has_no_files_but_a_note() -> None:
    made = tfds_files(**plain_parts(compression="gzip"))
    assert made.files == {}
    assert made.notes == ("no TFDS files: TFDS cannot read gzip TFRecords",)


@pytest.mark.parametrize(
    ("changes", "note"),
    [
        ({"label_offset": 1}, "no place for the label offset 1"),
        ({"labels": ["rose", ""]}, "a class name is empty"),
        ({"labels": ["rose", " tulip"]}, "a class name is empty, has line breaks, or begins"),
        ({"labels": ["rose", "tu\nlip"]}, "a class name is empty, has line breaks"),
        ({"labels": ["rose", "tu\rlip"]}, "a class name is empty, has line breaks"),
    ],
)
def test_labels_that_tfds_cannot_name_are_numbers(changes, note) -> None:
    made = tfds_files(**plain_parts(**changes))
    assert sorted(made.files) == ["dataset_info.json", "features.json"]
    assert note in made.notes[0]
    features = json.loads(made.files["features.json"])["featuresDict"]["features"]
    assert features["image/class/label"]["tensor"]["dtype"] == "int64"


def test_an_offset_reads_as_it_is_stored(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", label_offset=1)
    records = read(tfds.builder_from_directory(tmp_path / "out"), "validation")
    assert [record["image/class/label"] for record in records] == [1, 2]


@pytest.mark.parametrize(
    ("features", "expected"),
    [
        (FEATURES, ("image/encoded", "image/class/label")),
        ({"x": RAW, "label": FEATURES["image/class/label"]}, ("x", "label")),
        ({"text": FEATURES["image/class/text"], "y": FEATURES["image/class/label"]}, ("text", "y")),
        ({"a": Feature(dtype="int64"), "y": FEATURES["image/class/label"]}, None),
        ({"image/encoded": FEATURES["image/encoded"]}, None),
    ],
)
def test_what_is_supervised(features, expected) -> None:
    info = json.loads(tfds_files(**plain_parts(features=features)).files["dataset_info.json"])
    items = info.get("supervisedKeys", {}).get("tuple", {}).get("items")
    assert (items and tuple(item["featureKey"] for item in items)) == expected


@pytest.mark.parametrize(
    ("feature", "note"),
    [
        (dataclasses.replace(RAW, raw_shape=(None, None)), "one unknown dimension of an array"),
        (dataclasses.replace(RAW, raw_dtype="uint32"), "it cannot decode arrays of uint32"),
        (
            dataclasses.replace(RAW, raw_shape=None),
            "dtype and shape of its arrays are not declared",
        ),
        (dataclasses.replace(RAW, shape=(None,)), "a record holds several arrays"),
    ],
)
def test_arrays_that_tfds_cannot_decode_are_bytes(feature, note) -> None:
    made = tfds_files(**plain_parts(features={"x": feature}))
    (only,) = made.notes
    assert only.startswith("TFDS shows x as bytes: ")
    assert note in only


def test_the_copies_of_a_record_are_records(builder) -> None:
    rows = [row for shard in flowers()["train"] for row in shard]
    assert rows[2] == dataclasses.replace(flower("b", "tulip"), copy=1)
    _, one, two = read(builder, "train")[:3]
    np.testing.assert_array_equal(one["image/encoded"], two["image/encoded"])
