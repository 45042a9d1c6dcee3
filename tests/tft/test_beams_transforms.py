"""Outputs of MLTransform and tensorflow-transform become datasets, as docs/pipelines.md shows."""

import pathlib
import re
import tempfile

import apache_beam as beam
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_transform as tft
import tensorflow_transform.beam as tft_beam
from tensorflow_transform.tf_metadata import dataset_metadata, schema_utils

import recordmill
from recordmill.format.manifest import Manifest, load
from recordmill.storage.files import Location
from recordmill.transforms import BatchRecords, WriteToTFRecord
from tests.paths import ROOT

SPEC = {
    "x": tf.io.FixedLenFeature([], tf.float32),
    "words": tf.io.FixedLenFeature([], tf.string),
    "pair": tf.io.FixedLenFeature([2], tf.float32),
}
RAW = [
    {"x": float(i), "words": "a b c"[: 1 + 2 * (i % 3)], "pair": [float(i), 0.5]} for i in range(40)
]


def transform(inputs):
    """Features of each rank: a number, a class, a vector, a matrix, and ids of variable length."""
    words = tf.strings.split(inputs["words"]).to_sparse()
    return {
        "x": tft.scale_to_z_score(inputs["x"]),
        "first": tf.strings.substr(inputs["words"], 0, 1),
        "pair": inputs["pair"],
        "square": tf.stack([inputs["pair"], inputs["pair"]], axis=1),
        "ids": tft.compute_and_apply_vocabulary(words),
    }


def manifest(folder: pathlib.Path) -> Manifest:
    return load(Location.parse(str(folder)))


def write(folder: pathlib.Path, *, batches: bool) -> Manifest:
    """A dataset of what tensorflow-transform makes, as dicts or as batches."""
    metadata = dataset_metadata.DatasetMetadata(schema_utils.schema_from_feature_spec(SPEC))

    def build(pipeline: beam.Pipeline) -> None:
        with tft_beam.Context(temp_dir=tempfile.mkdtemp()):
            data = (pipeline | beam.Create(RAW), metadata)
            (made, _), _ = data | tft_beam.AnalyzeAndTransformDataset(
                transform, output_record_batches=batches
            )
        made | BatchRecords(label_column="first") | WriteToTFRecord(str(folder))

    recordmill.run(build, workers=1, progress=False)
    return manifest(folder)


@pytest.mark.parametrize("batches", [False, True])
def test_outputs_of_tensorflow_transform_become_a_dataset(batches, tmp_path):
    made = write(tmp_path / "out", batches=batches)
    assert made.ledger.records.written == len(RAW)
    assert made.labels == ("a",)
    shapes = {name: feature.shape for name, feature in made.features.items()}
    square = (4,) if batches else (2, 2)  # a batch of tensorflow-transform has no shapes
    assert shapes == {"label": (), "x": (), "pair": (2,), "square": square, "ids": (None,)}
    found = [
        record["x"] for split in made.splits for record in recordmill.read(tmp_path / "out", split)
    ]
    numbers = np.arange(len(RAW), dtype=np.float64)
    np.testing.assert_allclose(
        np.sort(found), (numbers - numbers.mean()) / numbers.std(), rtol=1e-5
    )


def test_the_examples_of_the_page_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    page = (ROOT / "docs" / "pipelines.md").read_text()
    section = page.split("\n## Beam's own transforms\n")[1].split("\n## ")[0]
    codes = re.findall(r"^```python\n(.*?)^```$", section, re.MULTILINE | re.DOTALL)
    for code in codes:
        exec(compile(code, "docs/pipelines.md", "exec"), {"__name__": "example"})
    houses, rooms = manifest(tmp_path / "houses"), manifest(tmp_path / "rooms")
    assert houses.labels == ("0", "1")
    assert houses.features["area"].shape == (1,)
    assert rooms.features["area"].shape == ()
    assert houses.ledger.records.written == rooms.ledger.records.written == 60
