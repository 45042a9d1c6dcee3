"""EncodeExamples: serialized Examples in memory, for pipelines with another writer."""

import dataclasses
import itertools
from collections.abc import Iterator

import apache_beam as beam
import pyarrow as pa

from recordmill.tfrecord.example import encode_examples
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.staged.step_order import OrderedStep


def serialize_rows(rows: pa.RecordBatch) -> Iterator[bytes]:
    """Yield a serialized tf.train.Example per row, without columns that start with `__`.

    Raises:
      ValueError: as `encode_examples`.
    """
    RecordCounters("EncodeExamples").add(read=len(rows), out=len(rows))
    names = rows.schema.names  # they may repeat, so columns are selected by their places
    encoded = encode_examples(
        rows.select([place for place, name in enumerate(names) if not name.startswith("__")])
    )
    edges = encoded.offsets.tolist()
    for start, end in itertools.pairwise(edges):
        yield encoded.data[start:end]


@dataclasses.dataclass(eq=False)
class EncodeExamples(OrderedStep):
    """Encode batches: a feature per column in, serialized Examples (bytes) out.

    The output is the input of Beam's own `beam.io.WriteToTFRecord`. Column types are mapped as in
    `recordmill.tfrecord.example`.

    Example::

        batches | EncodeExamples() | beam.io.WriteToTFRecord("out/train.tfrecord")
    """

    takes = (pa.RecordBatch,)

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> beam.PCollection[bytes]:
        return batches | "Serialize" >> beam.FlatMap(serialize_rows).with_output_types(bytes)
