"""tensorflow-transform as its guide has it: CsvTFXIO reads, AnalyzeAndTransformDataset learns the
vocabulary and makes the ids, its encoder makes Examples of record batches, WriteToTFRecord writes.

On the same runner as ours, with the one worker that Beam comes with. Words are what whitespace
separates, in lower case.
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

from benchmarks.documents import LENGTH, VOCABULARY
from recordmill.runners import direct

_COLUMNS = {
    "label": tf.io.FixedLenFeature([], tf.string),
    "text": tf.io.FixedLenFeature([], tf.string),
}


def preprocess(columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    words = tf.strings.split(tf.strings.lower(columns["text"]))
    ids = tft.compute_and_apply_vocabulary(words, top_k=VOCABULARY, num_oov_buckets=1)
    tokens = (ids + 1).to_tensor(shape=[None, LENGTH])  # 0 is padding
    mask = tf.cast(tokens != 0, tf.int64)
    return {
        "tokens": tokens,
        "tokens/mask": mask,
        "tokens/length": tf.reduce_sum(mask, axis=1),
        "label": tf.cast(columns["label"] == "spam", tf.int64),
    }


def main(source: str, output: str) -> None:
    def build(pipeline: beam.Pipeline) -> None:
        table = tfxio.CsvTFXIO(
            source,
            column_names=list(_COLUMNS),
            schema=tft.DatasetMetadata.from_feature_spec(_COLUMNS).schema,
            delimiter="\t",
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
