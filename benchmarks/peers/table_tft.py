"""TFX's way: CsvTFXIO reads, AnalyzeAndTransformDataset learns mean and deviation and scales, its
encoder in C++ makes Examples of record batches, WriteToTFRecord writes.

On the same runner as ours, with the one worker that Beam comes with. Nothing is shuffled or split.
"""

import os
import sys
from collections.abc import Mapping

os.environ |= {"TF_CPP_MIN_LOG_LEVEL": "3", "CUDA_VISIBLE_DEVICES": "-1"}

import apache_beam as beam
import tensorflow as tf  # type: ignore[import-untyped]
import tensorflow_transform as tft  # type: ignore[import-untyped]
import tensorflow_transform.beam as tft_beam  # type: ignore[import-untyped]
from tfx_bsl.public import tfxio  # type: ignore[import-untyped]

from benchmarks.rows import KEY, LABEL, LABELS, NUMBERS
from recordmill.runners import direct

_COLUMNS = {
    KEY: tf.io.FixedLenFeature([], tf.string),
    **{name: tf.io.FixedLenFeature([], tf.float32) for name in NUMBERS},
    LABEL: tf.io.FixedLenFeature([], tf.string),
}


def preprocess(columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    scaled = {name: tft.scale_to_z_score(columns[name]) for name in NUMBERS}
    return {**scaled, "label": tf.cast(columns[LABEL] == LABELS[1], tf.int64)}


def main(source: str, output: str) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        table = tfxio.CsvTFXIO(
            source,
            column_names=list(_COLUMNS),
            schema=tft.DatasetMetadata.from_feature_spec(_COLUMNS).schema,
            skip_header_lines=1,
        )
        rows = pipeline | "Read" >> table.BeamSource()
        transformed, transform_fn = (
            rows,
            table.TensorAdapterConfig(),
        ) | "Transform" >> tft_beam.AnalyzeAndTransformDataset(
            preprocess, output_record_batches=True
        )
        (
            transformed
            | "Encode" >> tft_beam.EncodeTransformedDataset()
            | "Write" >> beam.io.WriteToTFRecord(f"{output}/all.tfrecord")
        )
        _ = transform_fn | "WriteTransform" >> tft_beam.WriteTransformFn(f"{output}/transform")

    with tft_beam.Context(temp_dir=f"{output}/temp"):
        direct.run(build, workers=1)


if __name__ == "__main__":
    main(*sys.argv[1:])
