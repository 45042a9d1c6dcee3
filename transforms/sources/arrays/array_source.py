"""Source of arrays: references to arrays, to their items or to chunks of them.

The listing has a row per file, or several for a file with many records, with its header. Workers
expand it to a row per record, which locates the values in the file. Values are read when a shard is
written.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import LeftUnread, Note, count_of
from recordmill.option_names import option_name
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.casts import Cast, cast_problem
from recordmill.transforms.model.file_ranges import RANGES
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource, Source
from recordmill.transforms.model.user_columns import carried_fields
from recordmill.transforms.sources.arrays.array_headers import ArrayProbe, ProbedFile
from recordmill.transforms.sources.arrays.array_labels import (
    is_numeric,
    read_labels,
    with_labels,
)
from recordmill.transforms.sources.arrays.array_spec import ARRAY, ArraySpec
from recordmill.transforms.sources.arrays.chunking import ArraySlicing, Shape, merge_shapes
from recordmill.transforms.sources.arrays.npy import StoredArray, format_shape
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.files.folders import NOT_IMAGES
from recordmill.transforms.sources.files.header_tasks import read_headers
from recordmill.transforms.sources.files.number_labels import TARGET
from recordmill.transforms.sources.files.references import COLUMNS
from recordmill.transforms.sources.rows.text_folders import NOT_TEXTS

FIRST, LAST = "__first__", "__last__"  # int64: range of records of a file, LAST exclusive
FILE = "__file__"  # int64: bytes of the file; `batch.SIZE` is the size of the record
NAME = "__name__"  # string: the key of the file
AT, TO = "__at__", "__to__"  # int64: start and stop of a record along the axis
LABELS = (
    "__labels__"  # string: a JSON list: path, size, mtime of the file of labels, the `StoredArray`
)

_LISTED = (
    pa.field(ARRAY, pa.string()),
    pa.field(LABELS, pa.string()),
    pa.field(FIRST, pa.int64()),
    pa.field(LAST, pa.int64()),
)
_OWN = (
    pa.field(FILE, pa.int64()),
    pa.field(NAME, pa.string()),
    pa.field(AT, pa.int64()),
    pa.field(TO, pa.int64()),
)


# `.bin`, `.bak` and `.data` may be arrays by their content.
NOT_ARRAYS = tuple(
    sorted({*NOT_IMAGES, *NOT_TEXTS} - {"npy", "npz", "h5", "hdf5", "mat", "bin", "bak", "data"})
)
_PASSED = (batch.PLACE, *RANGES.names)  # system columns of references that records keep


@dataclasses.dataclass
class ArrayCounts:
    """Counts of arrays, for notes."""

    files_cut: int = 0
    steps_left: int = 0
    unread: LeftUnread = dataclasses.field(default_factory=LeftUnread)

    def add(self, left: int) -> None:
        """Count an array, of which `left` steps fill no chunk."""
        self.files_cut += left > 0
        self.steps_left += left

    def notes(self) -> Iterator[Note]:
        """Yield notes on what was counted."""
        yield from self.unread.notes()
        if self.files_cut:
            fill = "fills no chunk and was" if self.steps_left == 1 else "fill no chunk and were"
            ends = f"the ends of {count_of(self.files_cut, 'array')}"
            text = f"{count_of(self.steps_left, 'step')} at {ends} {fill} dropped"
            yield Note("steps", text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySource(RowSource):
    """Lists files of arrays with their headers, and locates the records in them.

    files: source of references.
    probe: reads the headers.
    dtype: that arrays are cast to; None for the most frequent dtype.
    cast: rule for casts.
    worker_limits: of an encoder process.
    """

    files: Source
    probe: ArrayProbe = dataclasses.field(default_factory=ArrayProbe)
    dtype: str | None = None
    cast: Cast = "safe"
    worker_limits: TaskLimits = DEFAULT_LIMITS

    @property
    def _cut(self) -> ArraySlicing:
        return self.probe.cut

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files with their headers.

        Raises:
          ConfigError: no file can be used.
        """
        counts = ArrayCounts()
        seen = kept = 0
        first: Reject | None = None
        for listed in self.files.scan():
            rows = listed.rows
            if rows is None:
                yield listed
                continue
            yield dataclasses.replace(listed, rows=None)
            for start in range(0, len(rows), limits.PROBED_FILES):
                some = rows.slice(start, limits.PROBED_FILES)
                seen += len(some)
                if self.probe.label_input is not None and seen > 1:
                    raise ConfigError(
                        f"{option_name('label_input')} holds the labels of one file, but"
                        f" {option_name('input')} has several: put labels into each file"
                        f" ({option_name('label_array')}), or name one file"
                    )
                for part in self._list(some, counts):
                    kept += 0 if part.rows is None else len(part.rows)
                    first = first or next(iter(part.rejects), None)
                    yield part
        if not kept and first is not None:
            raise ConfigError(
                f"no file holds a usable array; the first: {first.key}: {first.detail}"
            )
        yield ListingPart(notes=[*counts.notes()])

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        """Return the layout of the records.

        Raises:
          ConfigError: there is no usable array.
        """
        del keep
        kinds: collections.Counter[tuple[str, int]] = collections.Counter()
        shapes: dict[tuple[str, int], set[Shape]] = collections.defaultdict(set)
        users: list[pa.Field] = []
        labelled = grouped = presplit = False
        of_values = self.probe.has_labels
        for rows in parts:
            for location in rows[LABELS].unique().to_pylist() if of_values else ():
                of_values &= location is None or is_numeric(location)
            labelled |= rows[batch.LABEL].null_count < len(rows)
            grouped |= rows[batch.GROUP].null_count < len(rows)
            presplit |= rows[batch.SPLIT].null_count < len(rows)
            places = [field for field in rows.schema if field.name in _PASSED]
            users = [*places, *carried_fields(rows.schema)]
            for counted in rows[ARRAY].value_counts().to_pylist():
                stored = StoredArray.from_text(counted["values"])
                shape = self._cut.shape_of(stored.shape)
                kind = self._output_dtype(stored), len(shape)
                kinds[kind] += counted["counts"]
                # Merge now, so that memory does not grow with the number of shapes.
                shapes[kind] = {merge_shapes({*shapes[kind], shape})}
        if not kinds:
            raise ConfigError("the input has no usable array")
        most = min(kinds, key=lambda kind: (-kinds[kind], kind))
        (shape,) = shapes[most]
        declared = ArraySpec(dtype=most[0], shape=shape)
        numbers = self.probe.numbers
        if numbers is not None and self.probe.has_labels:
            if any(field.name == TARGET for field in users):
                raise ConfigError(
                    f"the listing has a column {TARGET!r}, which is the name of the number to"
                    f" predict: add {option_name('drop_columns', TARGET)}"
                )
            users = [*users, numbers.field]
        ours = [declared.field() if name == ARRAY else field for name, field in _fields().items()]
        return Layout(
            columns=pa.schema([*ours, *users]),
            labelled=labelled or self.probe.has_labels,
            grouped=grouped or self._cut.unit == "chunk",
            split_source=facts.split_source_of(presplit=presplit),
            of_values=of_values,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield a row per record of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        declared = ArraySpec.of(layout.columns)
        numbers = self.probe.numbers
        rejects: list[Reject] = []
        kept: list[int] = []
        files = 0
        labels: list[pa.Array] = []
        places = _zip_columns(sections, batch.KEY, ARRAY, LABELS, FIRST, LAST)
        for row, (key, text, location, first, last) in enumerate(places):
            if why := self._problem(StoredArray.from_text(text), declared):
                # A file with several sections is rejected once.
                rejects += [] if first else [Reject(key, "read", *why)]
                continue
            try:
                if location is not None:
                    labels.append(
                        read_labels(location, self._cut, first, last, numbers=numbers is not None)
                    )
            except RecordError as error:
                rejects.append(Reject(key, "read", error.reason, error.detail))
            else:
                kept.append(row)
                files += first == 0
        inputs = files if self._cut.unit == "chunk" else None
        if not kept:
            yield ListingPart(rejects=rejects, inputs=inputs)
            return
        rows = self._records(sections.take(pa.array(kept, pa.int64())), layout.columns)
        invalid: list[Reject] = []
        if labels:
            rows, invalid = with_labels(
                rows,
                labels,
                numbers=numbers,
                unlabelled=self.probe.unlabelled,
            )
        if inputs is None:
            rejects, invalid = rejects + invalid, []
        yield ListingPart(
            rows=rows if len(rows) else None, rejects=rejects, invalid=invalid, inputs=inputs
        )

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Return the rejects of sections that cannot be read at all."""
        del layout
        rejects: list[Reject] = []
        invalid: list[Reject] = []
        for key, first in _zip_columns(sections, batch.KEY, FIRST):
            # A file with several sections counts once.
            to, name = (invalid, f"{key}#{first}") if first else (rejects, key)
            to.append(Reject(name, "read", error.reason, error.detail))
        inputs = 0 if self._cut.unit == "chunk" else None
        return ListingPart(rejects=rejects, invalid=invalid, inputs=inputs)

    def _list(self, rows: pa.RecordBatch, counts: ArrayCounts) -> Iterator[ListingPart]:
        """Yield the usable files and rejects, in parts of up to `limits.PART_ROWS` records."""
        rejects: list[Reject] = []
        at: list[int] = []
        more: list[tuple[str, str | None, int, int]] = []
        room = limits.PART_ROWS
        for row, (key, found) in enumerate(
            zip(rows[batch.KEY].to_pylist(), self._probe_all(rows), strict=True)
        ):
            if isinstance(found, RejectCause):
                rejects.append(Reject(key, "read", *found))
                continue
            for part, names in found.unapplied:
                counts.unread.add(part, "array", such_as=key, names=names)
            counts.add(self._cut.unused_steps(found.array.shape))
            first = 0
            while first < found.records:
                last = min(first + room, found.records)
                at.append(row)
                more.append((found.array.to_text(), found.labels, first, last))
                room -= last - first
                first = last
                if not room:
                    yield ListingPart(rows=_with_arrays(rows, at, more), rejects=rejects)
                    rejects, at, more, room = [], [], [], limits.PART_ROWS
        if at or rejects:
            yield ListingPart(rows=_with_arrays(rows, at, more) if at else None, rejects=rejects)

    def _probe_all(self, rows: pa.RecordBatch) -> Iterator[ProbedFile | RejectCause]:
        """Read the headers of files."""
        files = list(_zip_columns(rows, batch.PATH, batch.SIZE, batch.MTIME))
        remote = any(is_uri(file[0]) for file in files)
        starts = range(0, len(files), limits.CHECK_ROWS)
        tasks = [(files[start : start + limits.CHECK_ROWS], remote) for start in starts]
        for found in read_headers(self.probe.inspect, tasks, task_limits=self.worker_limits):
            if isinstance(found, RecordError):
                yield RejectCause(found.reason, found.detail)
            else:
                yield found

    def _output_dtype(self, stored: StoredArray) -> str:
        """Return the dtype of an array in records, its own dtype if it cannot be cast."""
        own = stored.numbers.name
        if self.dtype is None or cast_problem(own, self.dtype, self.cast):
            return own
        return self.dtype

    def _problem(self, stored: StoredArray, declared: ArraySpec) -> RejectCause | None:
        """Return why an array does not fit the type of the records, None if it does."""
        own = stored.numbers.name
        if self.dtype is not None and (why := cast_problem(own, self.dtype, self.cast)):
            return RejectCause(Reason.BAD_VALUE, why)
        if self._output_dtype(stored) != declared.dtype:
            common = np.result_type(own, declared.dtype).name
            return RejectCause(
                Reason.BAD_VALUE,
                f"an array of {own}, but most are {declared.dtype}: --dtype {common} casts both",
            )
        if len(self._cut.shape_of(stored.shape)) != len(declared.shape):
            return RejectCause(
                Reason.BAD_VALUE,
                f"an array of {len(stored.shape)} dimensions ({format_shape(stored.shape)}), but"
                f" most records have {len(declared.shape)}: remove it, or build a separate dataset"
                " from such arrays",
            )
        return None

    def _records(self, sections: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
        """Return a row per record."""
        first, last = (np.asarray(sections[name]) for name in (FIRST, LAST))
        counts = last - first
        at = np.repeat(np.arange(len(sections)), counts)
        ends = np.cumsum(counts)
        numbers = np.arange(len(at)) - np.repeat(ends - counts - first, counts)
        arrays = [StoredArray.from_text(text) for text in sections[ARRAY].to_pylist()]
        whole = self._cut.unit == "array"
        lengths = [0 if whole else one.shape[self._cut.along(one.shape)] for one in arrays]
        starts, stops = self._cut.places(numbers, np.array(lengths, np.int64)[at])
        units = [
            one.bytes if whole else one.bytes // n for one, n in zip(arrays, lengths, strict=True)
        ]
        sizes = np.array(units, np.int64)[at] * (1 if whole else stops - starts)
        rows = sections.take(pa.array(at))
        key = group = rows[batch.KEY]
        if not whole:
            texts = pa.array(starts).cast(pa.string())
            key = pc.binary_join_element_wise(key, texts, "#")
        columns_: Mapping[str, Any] = {
            batch.KEY: key,
            batch.GROUP: pc.coalesce(rows[batch.GROUP], group)
            if self._cut.unit == "chunk"
            else rows[batch.GROUP],
            batch.SIZE: pa.array(sizes),
            FILE: rows[batch.SIZE],
            NAME: rows[batch.KEY],
            AT: pa.array(starts),
            TO: pa.array(stops),
        }
        if self.probe.numbers is not None and self.probe.has_labels:
            columns_ = {**columns_, TARGET: pa.nulls(len(rows), columns.field(TARGET).type)}
        made = [columns_[name] if name in columns_ else rows[name] for name in columns.names]
        return pa.record_batch(made, schema=columns)


def _fields() -> dict[str, pa.Field]:
    """Return the system columns of a row."""
    return {field.name: field for field in (*COLUMNS, pa.field(ARRAY, pa.string()), *_OWN)}


def _with_arrays(
    rows: pa.RecordBatch, at: Sequence[int], more: Sequence[tuple[Any, ...]]
) -> pa.RecordBatch:
    """Return rows of the listing: system columns, header columns, user columns."""
    taken = rows.take(pa.array(at, pa.int64()))
    found = [
        pa.array(values, field.type)
        for field, values in zip(_LISTED, zip(*more, strict=True), strict=True)
    ]
    ours = len(COLUMNS)
    arrays = [*taken.columns[:ours], *found, *taken.columns[ours:]]
    given = [*rows.schema]
    fields = [*given[:ours], *_LISTED, *given[ours:]]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _zip_columns(rows: pa.RecordBatch, *names: str) -> Iterator[Any]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
