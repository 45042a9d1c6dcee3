"""Records with several labels, as recordmill.load and TFDS return them."""

import json

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

import recordmill
from recordmill.errors import ConfigError
from tests.image_runs import make

LABELS = {"text 0": ["b", "a"], "text 1": ["c"], "text 2": [], "text 3": ["a", "c", "b"]}
NAMES = ("a", "b", "c")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("labels")
    rows = [json.dumps({"text": text, "label": some}) for text, some in LABELS.items()]
    (folder / "rows.jsonl").write_text("\n".join(rows))
    argv = ["--input", folder / "rows.jsonl", "--unlabelled", "keep", "--label-offset", 3]
    make(folder / "offset", *argv, "--splits", "train=1", command="text")
    make(folder / "out", *argv[:-2], "--splits", "train=1", command="text")
    return folder


@pytest.mark.parametrize("name", ["out", "offset"])
@pytest.mark.parametrize("options", [{}, {"one_hot": True}, {"one_hot": True, "padding": "ragged"}])
def test_labels_are_a_multi_hot_vector(options, name, folder):
    batches = recordmill.load(folder / name, batch_size=3, **options)
    assert batches.element_spec[1] == tf.TensorSpec((None, 3), tf.float32)
    seen = {
        text.decode(): y for x, ys in batches for text, y in zip(x.numpy(), ys.numpy(), strict=True)
    }
    one_by_one = recordmill.load(folder / name, **options)
    assert one_by_one.element_spec[1] == tf.TensorSpec((3,), tf.float32)
    for found in (seen, {x.numpy().decode(): y.numpy() for x, y in one_by_one}):
        assert {text: [NAMES[n] for n in np.flatnonzero(y)] for text, y in found.items()} == {
            text: sorted(some) for text, some in LABELS.items()
        }


def test_ragged_labels(folder):
    batches = recordmill.load(folder / "offset", batch_size=4, padding="ragged")
    ((x, y),) = batches
    assert isinstance(y, tf.RaggedTensor)
    found = dict(zip((text.decode() for text in x.numpy()), y.to_list(), strict=True))
    assert found == {
        text: [NAMES.index(name) + 3 for name in sorted(some)] for text, some in LABELS.items()
    }


def test_weights_of_classes_are_for_the_loss(folder):
    with pytest.raises(ConfigError, match="these may have several: give the loss a weight"):
        recordmill.load(folder / "out", class_weights=True)


@pytest.mark.parametrize("label_type", ["int", "float"])
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("padding", ["pad", "ragged"])
def test_records_without_a_number_have_no_weight(tmp_path, label_type, batch, padding):
    (tmp_path / "in.csv").write_text("x,label\n0,-7\n1,\n2,-1\n3,0\n4,\n5,5\n")
    argv = ("--input", tmp_path / "in.csv", "--label-type", label_type, "--unlabelled", "keep")
    made = make(tmp_path / "out", *argv, "--splits", "train=1", command="table")
    loaded = recordmill.load(made.folder, label="label", batch_size=batch, padding=padding)
    found = [np.stack([np.atleast_1d(value) for value in element], -1) for element in loaded]
    assert sorted(np.concatenate(found).tolist()) == [
        [0, -7, 1], [1, 0, 0], [2, -1, 1], [3, 0, 1], [4, 0, 0], [5, 5, 1]
    ]  # fmt: skip


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("columns", ["y", "y,z"])
def test_targets_with_a_missing_number_have_no_weight(tmp_path, columns, batch):
    values = ["0", "1", "2", "", "4", "5", "6", "-1"]
    rows = [f"2020-01-01 00:0{at},{value},{at}" for at, value in enumerate(values)]
    (tmp_path / "in.csv").write_text("\n".join(["time,y,z", *rows]) + "\n")
    argv = (
        *("--input", tmp_path / "in.csv", "--time-column", "time", "--window", 2, "--stride", 2),
        *("--horizon", 2, "--target", columns, "--unlabelled", "keep", "--splits", "train=1"),
    )
    made = make(tmp_path / "out", *argv, command="sensor")
    loaded = recordmill.load(made.folder, label="target", batch_size=batch, shuffle=False)
    found = {}
    for _, targets, weights in loaded:
        assert not np.isnan(targets).any()
        shape = (-1, *targets.shape[0 if batch is None else 1 :])
        pairs = zip(np.reshape(targets, shape), np.reshape(weights, -1), strict=True)
        found |= {tuple(np.reshape(y, (2, -1))[:, 0].tolist()): float(w) for y, w in pairs}
    assert found == {(2, 0): 0, (4, 5): 1, (6, -1): 1}


def test_tfds_returns_a_sequence_of_classes(folder):
    builder = tfds.builder_from_directory(folder / "out")
    assert builder.info.features["label"].feature.names == [*NAMES]
    records = tfds.as_numpy(builder.as_dataset(split="train"))
    assert {one["text"].decode(): [NAMES[n] for n in one["label"]] for one in records} == {
        text: sorted(some) for text, some in LABELS.items()
    }
