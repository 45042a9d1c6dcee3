"""Batches of features to serialised Examples, for pipelines that write them in their own way."""

import dataclasses
import itertools
from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa

from recordmill.format.example import encode_examples
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)


def serialise(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Yields a serialised tf.train.Example per row; columns that start with `__` are left out."""
    encoded = encode_examples(
        rows.select([name for name in rows.schema.names if not name.startswith("__")])
    )
    edges = encoded.offsets.tolist()
    for start, end in itertools.pairwise(edges):
        yield encoded.data[start:end]


@dataclasses.dataclass(eq=False)
class EncodeExamples(beam.PTransform):
    """Batches in, a column a feature; serialised Examples (bytes) out, one by one.

    What Beam's own `beam.io.WriteToTFRecord` takes. Types as in `recordmill.format.example`.

    Example::

        batches | EncodeExamples() | beam.io.WriteToTFRecord("out/train.tfrecord")
    """

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[bytes]:
        return batches | "Serialise" >> beam.FlatMap(serialise).with_output_types(bytes)
