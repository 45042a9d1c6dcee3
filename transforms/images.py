"""DecodeAndResizeImages: decoded images in memory, for custom pipelines.

The commands decode images when a shard is written, so that only references pass through the
shuffle. This transform is for pipelines that need the decoded images earlier.
"""

import dataclasses
import math
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Annotated, Any, TypeAlias

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput, TaggedOutput

from recordmill.errors import ConfigError, Reject
from recordmill.option_checks import Between, options_of, unknown_option
from recordmill.processes.pool import shared_pool
from recordmill.transforms.encoders.decoded_images import DecodedImageEncoder
from recordmill.transforms.encoders.images import ImageEncoder
from recordmill.transforms.encoders.tables import TableEncoder
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.user_columns import their_columns
from recordmill.transforms.read_values import (
    REJECTS,
    REMARKS,
    input_counts,
    lost_remarks,
    typed_batches,
)
from recordmill.transforms.staged.encoder_tasks import encode_columns, pack_encoder, row_task
from recordmill.transforms.staged.listing import labels_of, lost_classes
from recordmill.transforms.staged.records import RecordValues, Values, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep
from recordmill.transforms.staged.value_batches import with_data_in_file

_Encoded: TypeAlias = tuple[bytes, Sequence[Reject], Sequence[tuple[str, str]]]


class _Decode(beam.DoFn):
    def __init__(self, encoder: ImageEncoder, context: Context, workers: int) -> None:
        self._encoder = encoder
        self._context = context
        self._workers = workers
        self._counters = RecordCounters("DecodeAndResizeImages")

    def process(self, rows: pa.RecordBatch, labels: Sequence[str]) -> Iterator[Any]:
        if not batch.refers_to_files(rows):
            raise ConfigError(
                f"DecodeAndResizeImages: expected records with {batch.PATH}, as of ReadImages, got"
                f" none: {their_columns(rows.schema)}"
            )
        packed = pack_encoder(
            self._encoder, dataclasses.replace(self._context, labels=tuple(labels))
        )
        rules = LabelRules(allowed=tuple(labels) or None)
        expected = rules.apply(batch.complete(rows))
        self._counters.add(read=len(expected.rejects), rejected=len(expected.rejects))
        for reject in expected.rejects:
            yield TaggedOutput(REJECTS, dataclasses.replace(reject, stage="encode"))
        waiting: list[pa.RecordBatch] = []
        left: set[str] = set()
        with with_data_in_file(expected.rows) as references:
            for columns, rejects, filtered in _run_ahead(packed, references, self._workers):
                decoded = batch.from_bytes(columns)
                self._counters.add(
                    read=len(decoded) + len(rejects) + len(filtered),
                    out=len(decoded),
                    rejected=len(rejects),
                )
                yield from (TaggedOutput(REJECTS, reject) for reject in rejects)
                options = Counter(option for _, option in filtered)
                yield from input_counts(options, of_records=options)
                if not len(decoded):
                    continue
                left |= labels_of(decoded)
                waiting.append(decoded)  # the next steps take much longer for many small batches
                if sum(one.nbytes for one in waiting) >= limits.BATCH_BYTES:
                    yield batch.concat(waiting)
                    waiting = []
        yield from lost_remarks(lost_classes(expected.rows, left))
        if waiting:
            yield batch.concat(waiting)


def _run_ahead(packed: bytes, rows: pa.RecordBatch, workers: int) -> Iterator[_Encoded]:
    """Yield the results of `encode_columns` in order, with up to two tasks per encoder process."""
    pool = shared_pool(workers)
    waiting: deque[Future[_Encoded]] = deque()
    for start in range(0, len(rows), limits.IMAGE_ROWS):
        chunk = rows.slice(start, limits.IMAGE_ROWS)
        waiting.append(pool.submit_rows(row_task(encode_columns, packed, rows=chunk)))
        if len(waiting) > 2 * pool.workers:
            yield waiting.popleft().result()
    while waiting:
        yield waiting.popleft().result()


def _image_options(fields: Mapping[str, Any]) -> ImageOptions:
    """Return the options. Raises ConfigError for unknown names and values of the wrong type."""
    known = [field.name for field in dataclasses.fields(ImageOptions)]
    for name in fields:
        if name not in known:
            takes = "in addition to its own options it takes the fields of ImageOptions:"
            takes += f" {', '.join(known)}"
            raise unknown_option("DecodeAndResizeImages", name, known, takes)
    size = fields.get("size")
    with options_of("DecodeAndResizeImages"):
        return ImageOptions(**{**fields, **({"size": (size, size)} if type(size) is int else {})})


@dataclasses.dataclass(eq=False, init=False)
class DecodeAndResizeImages(OrderedStep):
    """Decode and resize images: batches or `RecordValues` with references in, `RecordValues` out.

    The columns of the output are the features of the Examples, such as `image/encoded`, and the
    key, label, split and copy of the record. Images that cannot be decoded are rejected.

    Args:
      options: Size and encoding of the images. Default: `ImageOptions(**fields)`.
      labels: Class names in the order of their numbers, or a side input of them; empty for no label
        features. Records of other classes are rejected. `WriteToTFRecord` gives classes the same
        numbers; if the names are a side input, it needs its own `labels`.
      label_offset: Number of the first class, also for `WriteToTFRecord`.
      augment: Augmentations of copies (`__copy__` above 0), a function of (seed, key, copy).
        `WriteToTFRecord` also applies them, to the copies of `Rebalance`; for that it decodes the
        images of these copies again.
      seed: Seed of the augmentations.
      workers: Number of encoder processes; 0 is one per core.
      fields: Fields of `ImageOptions`; `size` may be one number, for height and width.

    Raises:
      ConfigError: An option is invalid.

    Example::

        pipeline | ReadImages("photos/") | DecodeAndResizeImages(size=224)
    """

    takes = VALUES

    options: ImageOptions
    labels: Sequence[str] | AsSideInput
    label_offset: Annotated[int, Between(0, math.inf)]
    augment: tuple[str, ...]
    seed: int
    workers: Annotated[int, Between(0, math.inf)]

    def __init__(
        self,
        options: ImageOptions | None = None,
        *,
        labels: Sequence[str] | AsSideInput = (),
        label_offset: int = 0,
        augment: tuple[str, ...] = (),
        seed: int = 0,
        workers: int = 0,
        **fields: Any,
    ) -> None:
        self.options = _image_options(fields) if options is None else options
        self.labels, self.label_offset = labels, label_offset
        self.augment, self.seed, self.workers = augment, seed, workers
        self.__post_init__()
        if options is not None and fields:
            raise ConfigError(
                f"DecodeAndResizeImages: {next(iter(fields))}: expected ImageOptions or their"
                " fields, got both: set the field in the ImageOptions"
            )

    def _check_together(self) -> None:
        with options_of("DecodeAndResizeImages"):
            self._encoder = ImageEncoder(options=self.options, augment=self.augment)
            self._of_decoded = DecodedImageEncoder(options=self.options, augment=self.augment)

    def expand(self, records: Values) -> RecordValues:
        values = values_of(records)
        before = values.options.encoder  # of the references
        if isinstance(before, TableEncoder | TextEncoder | DecodedImageEncoder):
            raise ConfigError(
                "DecodeAndResizeImages: expected references to images, such as those of ReadImages,"
                f" got records for {type(before).__name__}: apply it to references"
            )
        context = Context(seed=self.seed, label_offset=self.label_offset)
        decoded = values.batches | "Decode" >> beam.ParDo(
            _Decode(self._encoder, context, self.workers), self.labels
        ).with_outputs(REJECTS, REMARKS, main="batches")
        batches, rejects, remarks = typed_batches(decoded)
        if values.rejects is not None:
            rejects = (values.rejects, rejects) | "WithEarlier" >> beam.Flatten()
        if values.remarks is not None:
            remarks = (values.remarks, remarks) | "WithEarlierRemarks" >> beam.Flatten()
        unlabelled = isinstance(before, ImageEncoder) and before.unlabelled
        made = dataclasses.replace(self._of_decoded, unlabelled=unlabelled)
        given = self.labels if isinstance(self.labels, AsSideInput) else tuple(self.labels)
        options = dataclasses.replace(
            values.options,
            encoder=made,
            artifacts={},
            labels=given or None,
            label_offset=self.label_offset or None,
        )
        return RecordValues(batches, rejects, options, remarks)
