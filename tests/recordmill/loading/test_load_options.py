"""Errors of recordmill.load on options that it cannot serve, before a record is read."""

import re

import pyarrow.compute as pc
import pytest
import tensorflow as tf  # noqa: F401, a fast test has none

import recordmill
from recordmill.errors import ConfigError
from recordmill.format.manifest import ManifestError
from recordmill.reading.reader import DatasetDamagedError
from tests.make_dataset import make_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("options") / "out"
    make_dataset(folder)
    return folder


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"split": "dev"}, "expected one of the splits train, validation, test, got 'dev'"),
        ({"batch_size": 0}, "batch_size: expected 1 or more, got 0"),
        ({"batch_size": True}, "batch_size: expected a whole number, got True"),
        ({"batch_size": "8"}, "batch_size: expected a whole number, got '8'"),
        ({"seed": -1}, "seed: expected 0 to 9223372036854775807, got -1"),
        ({"seed": 2**63}, "seed: expected 0 to 9223372036854775807, got 9223372036854775808"),
        ({"start": -1}, "start: expected 0 or more, got -1"),
        ({"repeat": 0}, "repeat: expected 1 or more, got 0"),
        ({"augment": "flop"}, "augment: expected some of crop, flip, rotate, brightness, contrast"),
        ({"augment": "flop"}, "got 'flop' (did you mean 'flip'?)"),
        ({"augment": "flip", "split": "validation"}, "augment is for the split train, got the spl"),
        ({"normalize": "zscore"}, "normalize: expected some of unit, signed, imagenet, got 'zscor"),
        ({"padding": "left"}, "padding: expected some of pad, ragged, got 'left'"),
        ({"image_size": 0}, "image_size: expected 1 or more, got 0"),
        ({"image_size": (1, 2, 3)}, "image_size: expected 224, or (height, width), got (1, 2, 3)"),
        ({"shard": (2, 2)}, "shard: expected (hosts, index) with an index below 2, got (2, 2)"),
        ({"shard": (0, 0)}, "shard: expected 1 or more, got 0"),
        ({"shard": (1,)}, "shard: expected (hosts, index), such as (4, 0), got (1,)"),
        ({"pad_to": 8}, "pad_to applies to batches: set batch_size"),
        ({"bucket_boundaries": [8]}, "bucket_boundaries applies to batches: set batch_size"),
        ({"drop_remainder": True}, "drop_remainder applies to batches and hosts: set batch"),
        ({"batch_size": 2, "pad_to": 8, "inputs": "size"}, "pad_to: every value has a fixed"),
        (
            {"batch_size": 2, "pad_to": 8, "inputs": "size", "cache_decoded": True},
            "pad_to: every value has a fixed length; leave the option out",
        ),
        ({"batch_size": 2, "pad_to": 8, "padding": "ragged"}, "pad_to contradicts padding='ragged"),
        (
            {"batch_size": 2, "bucket_boundaries": [8, 4]},
            "bucket_boundaries: expected ascending lengths, such as [32, 64, 128], got [8, 4]",
        ),
        (
            {"batch_size": 2, "bucket_boundaries": [8], "shard": (2, 1)},
            "shard contradicts bucket_boundaries: the number of batches depends on the",
        ),
        (
            {"batch_size": 2, "bucket_boundaries": [8], "padding": "ragged"},
            "padding='ragged' contradicts bucket_boundaries",
        ),
        (
            {"as_supervised": False, "one_hot": True},
            "as_supervised=False returns the features of records: omit label, one_hot and class_we",
        ),
        ({"inputs": "grids"}, "inputs: there is no feature 'grids' (did you mean 'grid'?); expect"),
        ({"label": "grids"}, "label: there is no feature 'grids' (did you mean 'grid'?); expected"),
        ({"label": "caption"}, "label: expected numbers of a fixed shape, 'caption' is string ?"),
        (
            {"label": "size", "one_hot": True},
            "one_hot and class_weights need classes, but 'size",
        ),
        (
            {"inputs": "image/class/label"},
            "'image/class/label' is both an input and the label",
        ),
        (
            {"inputs": "grid", "image_size": 8},
            "image_size is for encoded images, but the input",
        ),
        (
            {"inputs": "size", "image_size": 8},
            "image_size is for encoded images, but the inputs",
        ),
        (
            {"inputs": "grid", "augment": "flip"},
            "augment is for images (uint8 or uint16, height x width x",
        ),
        ({"inputs": "grid", "normalize": "unit"}, "but the input grid is float32"),
        ({"batch_size": 2}, "the images in image/encoded have different sizes, or their size is"),
        (
            {"start": 4, "inputs": "size"},
            "start: 4, in epochs of 6 steps, is within an epoch; set repeat=True",
        ),
        (
            {"batch_size": 2, "bucket_boundaries": "32"},
            "bucket_boundaries: expected lengths, such as [32, 64], got '32'",
        ),
        ({"batch_size": 2, "bucket_boundaries": 32}, "bucket_boundaries: expected lengths, such"),
        ({"split": ["train"]}, "split: expected the name of a split, got ['train']"),
        ({"shard": 2}, "shard: expected (hosts, index), such as (4, 0), got 2"),
        ({"cache_decoded": 5}, "cache_decoded: expected True, or a path, got 5"),
        ({"label": ["size"]}, "label: expected the name of a feature, got ['size']"),
        ({"inputs": []}, "inputs: expected the name of a feature, or several; got none"),
        ({"shuffle": 1000}, "shuffle: expected True or False, got 1000"),
        (
            {"inputs": "size", "batch_size": 7, "drop_remainder": True, "repeat": True},
            "drop_remainder: an epoch of 6 records has no batch of 7",
        ),
        ({"repeat": 2, "start": 12}, "start: 12, in epochs of 6 steps, is after the end of 2"),
        ({"order": "full"}, "order: 'full' needs shuffle=True"),
        ({"shuffle": True, "order": "all"}, "order: expected one of windowed, full, got 'all'"),
        (
            {"shuffle": True, "order": "full", "cache_decoded": True},
            "order contradicts cache_decoded, whic",
        ),
        (
            {"shard": (2, 1), "start": 3},
            "start: the records of 3 steps depend on the number of host",
        ),
        (
            {"class_weights": True, "filter": pc.field("label") == "rose"},
            "class_weights contradicts filter: the weights are those of all records of train",
        ),
        ({"filter": "label == 'rose'"}, "filter: expected an expression of pyarrow.compute, such"),
        ({"until": "first_exhausted"}, "until applies to a mixture, such as"),
        (
            {"until": "first_exhausted", "cache_decoded": True},
            "until contradicts cache_decoded, of which ea",
        ),
        ({"temperature": 2}, "temperature applies to a mixture, such as"),
        ({"start": {"epoch": 1}}, "start: expected a state with digest, epoch, filter, order, rec"),
    ],
)
def test_invalid_options_are_reported(folder, options, message) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        recordmill.load(folder, **options)


def test_there_has_to_be_a_dataset(folder, tmp_path) -> None:
    with pytest.raises(ManifestError, match="no dataset: there is no"):
        recordmill.load(tmp_path)
    file = tmp_path / "some.tfrecord"
    file.touch()
    for how in (recordmill.load, recordmill.open):
        with pytest.raises(ManifestError, match=r"some.tfrecord is a file. recordmill.read reads"):
            how(file)


@pytest.mark.parametrize("places", [["a", 1], [], None, 5])
def test_several_datasets_have_weights(places) -> None:
    with pytest.raises(ConfigError, match="expected the folder of a dataset, or several with"):
        recordmill.load(places)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ({}, "expected a weight above 0 for each dataset"),
        ({"out/": 0}, "expected a weight above 0 for each dataset"),
        ({"out/": float("nan")}, "expected a weight above 0 for each dataset"),
    ],
)
def test_weights_of_what_is_mixed_are_above_0(weights, message) -> None:
    with pytest.raises(ConfigError, match=message):
        recordmill.load(weights)


def test_what_is_mixed_is_alike(folder, tmp_path) -> None:
    def changed(name: str, what: str, by: str) -> str:
        copy = tmp_path / name
        make_dataset(copy)
        path = copy / "dataset.json"
        path.write_text(path.read_text().replace(what, by))
        return str(copy)

    other = changed("classes", '"tulip"', '"tulips"')
    with pytest.raises(ConfigError, match="mixed datasets need equal classes"):
        recordmill.load({folder: 1, other: 1})
    other = changed("features", '"kind": "image"', '"kind": "text"')
    with pytest.raises(ConfigError, match="need equal features, but 'image/encoded' differs"):
        recordmill.load({folder: 1, other: 1}, inputs="image/encoded")


def test_missing_and_changed_files_are_reported(tmp_path) -> None:
    folder = tmp_path / "out"
    make_dataset(folder)
    shard = folder / "train.tfrecord-00001-of-00002"
    content = bytearray(shard.read_bytes())
    content[-1] ^= 1
    shard.write_bytes(content)
    recordmill.load(folder)  # its size is right, and nothing was read
    with pytest.raises(
        DatasetDamagedError, match=r"train\.tfrecord-00001-of-00002: has the sha256"
    ):
        recordmill.load(folder, verify=True)
    recordmill.load(folder, "validation", verify=True)
    shard.write_bytes(content[:-1])
    with pytest.raises(DatasetDamagedError, match=r"is \d+ bytes, the manifest says \d+"):
        recordmill.load(folder)
    shard.unlink()
    with pytest.raises(DatasetDamagedError, match="00001-of-00002: the file is missing"):
        recordmill.load(folder)
