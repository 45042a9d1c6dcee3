"""Pictures in a pipeline of one's own: list the files, decode and resize what they hold.

The road itself decodes inside the shard writer, so that only references travel through its
shuffle; these steps are for pipelines that want the pixels earlier.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput, TaggedOutput

from recordmill.errors import Reject
from recordmill.processes.pool import shared_pool
from recordmill.storage.files import Location
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.data_type import Context, Source
from recordmill.transforms.sources.files.folders import FileTree
from recordmill.transforms.sources.rows.listings import FileList, is_listing
from recordmill.transforms.staged.encoder_tasks import encode_columns, pack_encoder

_REJECTS = "rejects"
_CHUNK = 64  # pictures of a task, and of a batch that comes out: a few MiB


class Pictures(NamedTuple):
    """What a step made, and what it could not use: `recordmill.errors.Reject`s with a reason."""

    batches: beam.PCollection[pa.RecordBatch]
    rejects: beam.PCollection[Reject]


def source_of(where: str) -> Source:
    """A listing that names pictures, by its extension; else a folder of them, a pattern, or one."""
    place = Location.parse(where)
    if is_listing(place):
        return FileList(path=where)
    return FileTree(input=where)


def _scan(_: bytes, source: Any) -> Iterator[Any]:
    for listed in (source_of(source) if isinstance(source, str) else source).scan():
        yield from (TaggedOutput(_REJECTS, reject) for reject in listed.rejects)
        if listed.rows is not None and len(listed.rows):
            yield batch.with_hash(listed.rows)


@dataclasses.dataclass(eq=False)
class ReadImages(beam.PTransform):
    """Lists a folder or a listing: batches of references out, and rejects; no file is opened.

    input: where to look, or a source with options of its own, such as
      `FileList(path="pictures.csv", label_column="species")`.

    Example::

        batches, rejects = pipeline | ReadImages("photos/")
    """

    input: str | Source

    def __post_init__(self) -> None:
        super().__init__()

    def expand(
        self, begin: beam.pvalue.PBegin
    ) -> Any:  # Pictures; Beam's own hints know only PCollections
        listed = (
            begin
            | "Once" >> beam.Impulse()
            | "List"
            >> beam.FlatMap(_scan, self.input)
            .with_outputs(_REJECTS, main="batches")
            .with_output_types(pa.RecordBatch)
        )
        # Without it everything that follows would run where the listing was made.
        return Pictures(listed.batches | "Spread" >> beam.Reshuffle(), listed[_REJECTS])


class _Decode(beam.DoFn):
    def __init__(self, encoder: ImageEncoder, context: Context, workers: int) -> None:
        self._encoder = encoder
        self._context = context
        self._workers = workers
        self._decoded = beam.metrics.Metrics.counter("recordmill", "pictures_decoded")
        self._rejected = beam.metrics.Metrics.counter("recordmill", "pictures_rejected")

    def process(self, rows: pa.RecordBatch, labels: Sequence[str]) -> Iterator[Any]:
        packed = pack_encoder(
            self._encoder, dataclasses.replace(self._context, labels=tuple(labels))
        )
        for columns, rejects in _run_ahead(packed, batch.complete(rows), self._workers):
            decoded = batch.from_bytes(columns)
            self._decoded.inc(len(decoded))
            self._rejected.inc(len(rejects))
            yield from (TaggedOutput(_REJECTS, reject) for reject in rejects)
            if len(decoded):
                yield decoded


def _run_ahead(
    packed: bytes, rows: pa.RecordBatch, workers: int
) -> Iterator[tuple[bytes, Sequence[Reject]]]:
    """Yields what the encoder processes make of the rows, in order, two tasks each ahead."""
    pool = shared_pool(workers)
    waiting: collections.deque[Future[tuple[bytes, Sequence[Reject]]]] = collections.deque()
    for start in range(0, len(rows), _CHUNK):
        chunk = batch.to_bytes(rows.slice(start, _CHUNK))
        waiting.append(pool.submit(encode_columns, packed, chunk))
        if len(waiting) > 2 * pool.workers:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@dataclasses.dataclass(eq=False)
class DecodeAndResizeImages(beam.PTransform):
    """Batches of references in; batches of the pictures' features out, and rejects.

    The columns that come out are those of the Examples (`image/encoded` and the rest), beside the
    record's key, label, split and copy.

    labels: class names in the order of their numbers, or a side input of them; without any there
      are no label features.
    augment: what varies the copies that `RebalanceClasses` made, a function of (seed, key, copy).
    workers: encoder processes; 0 is one per core.

    Example::

        pictures, rejects = batches | DecodeAndResizeImages(ImageOptions(size=(224, 224)))
    """

    options: ImageOptions
    labels: Sequence[str] | AsSideInput = ()
    label_offset: int = 0
    augment: tuple[str, ...] = ()
    seed: int = 0
    workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[pa.RecordBatch]) -> Any:  # Pictures
        encoder = ImageEncoder(options=self.options, augment=self.augment)
        context = Context(seed=self.seed, label_offset=self.label_offset)
        decoded = batches | "Decode" >> beam.ParDo(
            _Decode(encoder, context, self.workers), self.labels
        ).with_outputs(_REJECTS, main="batches").with_output_types(pa.RecordBatch)
        return Pictures(decoded.batches, decoded[_REJECTS])
