"""Every kind of dataset, read in every way that there is: the same records, by their keys."""

import dataclasses
import itertools
from collections.abc import Collection, Iterable

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import recordmill
from recordmill.format.schema import feature_spec
from tests.all_kinds import KINDS, make
from tests.image_runs import Made


@pytest.fixture(scope="module", params=KINDS)
def made(request, tmp_path_factory) -> Made:
    """A dataset of two splits: TensorFlow traces what reads a split for each one anew."""
    two = ("--splits", "train=0.8,test=0.2")
    return make(request.param, place=tmp_path_factory.mktemp("kind"), more=two)


@dataclasses.dataclass
class Loaded:
    """A split as `recordmill.load` gives it."""

    length: int
    records: list[dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def loaded(made) -> dict[str, Loaded]:
    splits = made.manifest.splits
    data = {name: recordmill.load(made.folder, name, as_supervised=False) for name in splits}
    return {name: Loaded(len(one), list(one.as_numpy_iterator())) for name, one in data.items()}


@pytest.fixture(scope="module")
def builder(made) -> tfds.core.DatasetBuilder | None:
    is_promised = "dataset_info.json" in made.manifest.files
    return tfds.builder_from_directory(made.folder) if is_promised else None


SLICES = ("train[:25%]", "train[25%:]", "test", "train[3:10]")


@pytest.fixture(scope="module")
def sliced(builder) -> dict[str, list[dict]] | None:
    """The records of SLICES as TFDS gives them; it traces the decoding for each dataset anew."""
    if builder is None:
        return None
    in_order = tfds.ReadConfig(interleave_cycle_length=1)
    data = builder.as_dataset(split="+".join(SLICES), read_config=in_order)
    counts = {part: builder.info.splits[part].num_examples for part in SLICES}
    assert int(data.cardinality()) == sum(counts.values())
    records = iter(tfds.as_numpy(data))
    found = {part: [*itertools.islice(records, count)] for part, count in counts.items()}
    assert next(records, None) is None
    return found


Key = tuple[str, int]  # of a record, and the number of its copy


@pytest.fixture(scope="module")
def read(made) -> dict[str, dict[Key, dict]]:
    """The records of each split, by key, as `recordmill.read` gives them."""
    splits = made.manifest.splits
    found = {name: by_key(keys(made, name), recordmill.read(made.folder, name)) for name in splits}
    assert {name: len(records) for name, records in found.items()} == {
        name: info.records for name, info in splits.items()
    }
    return found


def keys(made: Made, split: str) -> list[Key]:
    records = recordmill.open(made.folder, split)
    return [(place.key, place.copy) for place in records.places()]


def by_key(names: Collection[Key], records: Iterable[dict]) -> dict[Key, dict]:
    found = dict(zip(names, records, strict=True))
    assert len(found) == len(names)
    return found


def decoded(name: str, feature, value):
    """Content of a record, with images as pixels, as TensorFlow decodes them."""
    if feature.kind in ("image", "mask") and feature.shape:
        one = dataclasses.replace(feature, shape=())
        several = np.stack([decoded(name, one, picture) for picture in value])
        return several[..., 0] if feature.kind == "mask" else several
    if feature.kind in ("image", "mask"):
        return tf.io.decode_image(value, channels=feature.raw_shape[-1]).numpy()
    return value


def assert_equal(found, expected, name: str) -> None:
    """Assert that arrays are equal; most have the same bytes, which is seen sooner."""
    found, expected = np.asarray(found), np.asarray(expected)
    has_no_objects = found.dtype == expected.dtype != object and found.shape == expected.shape
    if not (has_no_objects and found.tobytes() == expected.tobytes()):
        np.testing.assert_array_equal(found, expected, name)


def assert_same(found: dict, expected: dict, features) -> None:
    assert found.keys() == expected.keys()
    for key, record in expected.items():
        assert found[key].keys() == record.keys()
        for name, value in record.items():
            wanted = np.asarray(decoded(name, features[name], value))
            got = np.asarray(found[key][name])
            assert got.shape == wanted.shape, (key, name)
            if wanted.dtype == object or wanted.dtype.kind == "S":
                assert got.tolist() == wanted.tolist(), (key, name)
            else:
                assert got.dtype == wanted.dtype, (key, name)
                assert_equal(got, wanted, f"{key} {name}")


def test_load_has_what_read_has(made, loaded, read) -> None:
    for split, expected in read.items():
        assert loaded[split].length == len(expected)
        assert_same(by_key(expected, loaded[split].records), expected, made.manifest.features)


def test_open_has_what_read_has(made, read) -> None:
    for split, expected in read.items():
        records = recordmill.open(made.folder, split)
        assert len(records) == len(expected)
        for number, wanted in reversed([*enumerate(expected.values())]):
            record = records[number]
            for name, value in wanted.items():
                assert_equal(record[name], value, name)


def test_batches_have_what_records_have(made, loaded) -> None:
    """Ragged, so that nothing is filled up."""
    expected = loaded["train"].records
    batches = recordmill.load(made.folder, as_supervised=False, batch_size=7, padding="ragged")
    assert len(batches) == -(-len(expected) // 7)
    at = 0
    for batch in batches:
        size = next(iter(batch.values())).shape[0]
        columns = {name: rows_of(column) for name, column in batch.items()}
        for number, record in enumerate(expected[at : at + size]):
            for name, value in record.items():
                assert_equal(columns[name][number], value, name)
        at += size
    assert at == len(expected)


def rows_of(column) -> list[np.ndarray]:
    """The rows of a batch's tensor."""
    if isinstance(column, tf.RaggedTensor):
        *outer, last = (splits.numpy() for splits in column.nested_row_splits)
        rows = np.split(column.flat_values.numpy(), last[1:-1])
        for splits in reversed(outer):
            rows = [np.stack(rows[start:end]) for start, end in itertools.pairwise(splits)]
        return rows
    return [*column.numpy()]


def test_plain_tf_data_has_what_read_has(made, read) -> None:
    features = made.manifest.features
    if any(feature.sequence for feature in features.values()):
        parse = sequence_parser(features)
    else:
        spec = {
            name: tf.io.VarLenFeature(tf.as_dtype(one.dtype))
            if one.shape is None
            else tf.io.FixedLenFeature(one.shape, tf.as_dtype(one.dtype))
            for name, one in feature_spec(features).items()
        }

        def parse(payload):
            return tf.io.parse_single_example(payload, spec)

    kind = "GZIP" if made.manifest.compression == "gzip" else ""
    splits = made.manifest.splits
    files = [str(made.folder / shard.file) for info in splits.values() for shard in info.shards]
    records = iter(tf.data.TFRecordDataset(files, kind).map(parse))
    for expected in read.values():
        found = by_key(expected, itertools.islice(records, len(expected)))
        for key, record in expected.items():
            for name, value in record.items():
                got = found[key][name]
                if isinstance(got, tf.SparseTensor):  # of several dimensions, too, all values
                    got = got.values.numpy().reshape(value.shape)
                else:
                    got = got.numpy()
                if features[name].kind == "raw":
                    got = np.frombuffer(got, value.dtype).reshape(value.shape)
                assert_equal(got, value, name)
    assert next(records, None) is None


def sequence_parser(features):
    spec = feature_spec(features)
    context = {
        name: tf.io.FixedLenFeature(one.shape, tf.as_dtype(one.dtype))
        for name, one in spec.items()
        if not one.sequence
    }
    lists = {
        name: tf.io.FixedLenSequenceFeature(one.shape, tf.as_dtype(one.dtype))
        for name, one in spec.items()
        if one.sequence
    }

    def parse(payload):
        here, there = tf.io.parse_single_sequence_example(payload, context, lists)
        return here | there

    return parse


def test_tfds_has_what_read_has(made, sliced, read) -> None:
    features = made.manifest.features
    is_promised = sliced is not None
    assert is_promised == (not any("no TFDS files" in note for note in made.manifest.notes))
    if not is_promised:
        assert made.manifest.compression == "gzip" or any(one.sequence for one in features.values())
        with pytest.raises(tfds.core.dataset_info.DatasetInfoFileError):
            tfds.builder_from_directory(made.folder)
        return
    splits = {"train": sliced["train[:25%]"] + sliced["train[25%:]"], "test": sliced["test"]}
    assert splits.keys() == read.keys()
    for split, expected in read.items():
        found = by_key(expected, splits[split])
        for key, record in expected.items():
            for name, value in record.items():
                got = np.asarray(found[key][name])
                wanted = np.asarray(decoded(name, features[name], value))
                if features[name].kind == "mask" and features[name].shape:
                    got = got[..., 0]
                if features[name].kind == "raw" and got.dtype.kind in "SO":
                    got = np.frombuffer(bytes(found[key][name]), wanted.dtype).reshape(wanted.shape)
                assert got.shape == wanted.shape, (key, name)
                assert_equal(got, wanted, f"{key} {name}")


def test_tfds_slices(made, sliced) -> None:
    if sliced is None:
        return
    count = made.manifest.splits["train"].records
    quarter = round(count / 4)
    lengths = [len(sliced[part]) for part in SLICES if part != "test"]
    assert lengths == [quarter, count - quarter, 7]
    whole = sliced["train[:25%]"] + sliced["train[25%:]"]
    for record, expected in zip(sliced["train[3:10]"], whole[3:10], strict=True):
        for name, value in expected.items():
            assert_equal(record[name], value, name)
