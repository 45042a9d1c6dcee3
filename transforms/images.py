"""ReadImages and DecodeAndResizeImages: images in memory, for custom pipelines.

The commands decode images when a shard is written, so that only references pass through the
shuffle. These transforms are for pipelines that need the decoded images earlier.
"""

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput, TaggedOutput

from recordmill.errors import ConfigError, Reject
from recordmill.processes.pool import shared_pool
from recordmill.storage.files import Location
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.source import Source
from recordmill.transforms.sources.files.folders import FileTree
from recordmill.transforms.sources.rows.file_list import FileList, is_listing
from recordmill.transforms.staged.encoder_tasks import encode_columns, pack_encoder, row_task
from recordmill.transforms.staged.records import RecordValues, Values, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep

_REJECTS = "rejects"


def image_source(path: str) -> Source:
    """Return the source of a path: a listing (by extension), or a folder, glob pattern or file."""
    place = Location.parse(path)
    if is_listing(place):
        return FileList(path=path)
    return FileTree(input=path)


def _scan(_: bytes, source: Any) -> Iterator[Any]:
    counters = RecordCounters("ReadImages")
    for listed in (image_source(source) if isinstance(source, str) else source).scan():
        rows = 0 if listed.rows is None else len(listed.rows)
        rejected = len(listed.rejects)
        counters.add(read=rows + rejected, out=rows, rejected=rejected)
        yield from (TaggedOutput(_REJECTS, reject) for reject in listed.rejects)
        if listed.rows is not None and rows:
            yield listed.rows


def _typed(
    outputs: Any,
) -> tuple[beam.PCollection[pa.RecordBatch], beam.PCollection[Reject]]:
    """Return the batches and the rejects of a ParDo, each with the type of its elements.

    Type hints of Beam would give both the same type, and so the same coder.
    """
    batches, rejects = outputs.batches, outputs[_REJECTS]
    batches.element_type, rejects.element_type = pa.RecordBatch, Reject
    return batches, rejects


@dataclasses.dataclass(eq=False)
class ReadImages(OrderedStep):
    """List image files: a pipeline in, `RecordValues` out: batches of references, and rejects.

    Image files are not opened.

    input: a folder, glob pattern or listing; or a source with options, such as
      `FileList(path="images.csv", label_column="species")`.

    Example::

        pipeline | ReadImages("photos/")
    """

    takes = (beam.Pipeline, beam.pvalue.PBegin)

    input: str | Source

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, begin: beam.pvalue.PBegin) -> RecordValues:
        listed = (
            begin
            | "Once" >> beam.Impulse()
            | "List" >> beam.FlatMap(_scan, self.input).with_outputs(_REJECTS, main="batches")
        )
        batches, rejects = _typed(listed)
        # Without a reshuffle all later steps would run on the worker that listed the files.
        spread = batches | "Spread" >> beam.Reshuffle()
        return RecordValues(spread, rejects)


class _Decode(beam.DoFn):
    def __init__(self, encoder: ImageEncoder, context: Context, workers: int) -> None:
        self._encoder = encoder
        self._context = context
        self._workers = workers
        self._counters = RecordCounters("DecodeAndResizeImages")

    def process(self, rows: pa.RecordBatch, labels: Sequence[str]) -> Iterator[Any]:
        packed = pack_encoder(
            self._encoder, dataclasses.replace(self._context, labels=tuple(labels))
        )
        rules = LabelRules(allowed=tuple(labels) or None)
        expected = rules.apply(batch.complete(rows))
        self._counters.add(read=len(expected.rejects), rejected=len(expected.rejects))
        for reject in expected.rejects:
            yield TaggedOutput(_REJECTS, dataclasses.replace(reject, stage="encode"))
        for columns, rejects in _run_ahead(packed, expected.rows, self._workers):
            decoded = batch.from_bytes(columns)
            self._counters.add(
                read=len(decoded) + len(rejects), out=len(decoded), rejected=len(rejects)
            )
            yield from (TaggedOutput(_REJECTS, reject) for reject in rejects)
            if len(decoded):
                yield decoded


def _run_ahead(
    packed: bytes, rows: pa.RecordBatch, workers: int
) -> Iterator[tuple[bytes, Sequence[Reject]]]:
    """Yield the results of `encode_columns` in order, with up to two tasks per encoder process."""
    pool = shared_pool(workers)
    waiting: collections.deque[Future[tuple[bytes, Sequence[Reject]]]] = collections.deque()
    for start in range(0, len(rows), limits.IMAGE_ROWS):
        chunk = rows.slice(start, limits.IMAGE_ROWS)
        waiting.append(pool.submit_rows(row_task(encode_columns, packed, rows=chunk)))
        if len(waiting) > 2 * pool.workers:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


@dataclasses.dataclass(eq=False)
class DecodeAndResizeImages(OrderedStep):
    """Decode and resize images: batches of references, or `RecordValues` of them, in;
    `RecordValues` with batches of features, and rejects, out.

    The columns of the output are the features of the Examples (`image/encoded` and the others), and
    the key, label, split and copy of the record.

    labels: class names in the order of their numbers, or a side input of them; empty for no label
      features. Records of other classes are rejected.
    label_offset: number of the first class.
    augment: augmentations of copies (`__copy__` above 0), a function of (seed, key, copy).
    workers: encoder processes; 0 is one per core.

    Example::

        pipeline | ReadImages("photos/") | DecodeAndResizeImages(ImageOptions(size=(224, 224)))
    """

    takes = VALUES

    options: ImageOptions
    labels: Sequence[str] | AsSideInput = ()
    label_offset: int = 0
    augment: tuple[str, ...] = ()
    seed: int = 0
    workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()
        if not isinstance(self.options, ImageOptions):
            raise ConfigError(
                "DecodeAndResizeImages: expected ImageOptions, such as"
                f" ImageOptions(size=(224, 224)), got {self.options!r}"
            )

    def expand(self, records: Values) -> RecordValues:
        values = values_of(records)
        encoder = ImageEncoder(options=self.options, augment=self.augment)
        context = Context(seed=self.seed, label_offset=self.label_offset)
        decoded = values.batches | "Decode" >> beam.ParDo(
            _Decode(encoder, context, self.workers), self.labels
        ).with_outputs(_REJECTS, main="batches")
        batches, rejects = _typed(decoded)
        if values.rejects is not None:
            rejects = (values.rejects, rejects) | "WithEarlier" >> beam.Flatten()
        return values._replace(batches=batches, rejects=rejects)
