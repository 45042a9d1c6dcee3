"""Splitting of files of arrays into arrays, items of arrays, or chunks.

The listing has the header of each file, in one row, or in several for a file with many records.
Workers expand it to a row per record, which locates the values in the file. Values are read when a
shard is written.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.notes import Note, count_of
from recordmill.option_names import option_name
from recordmill.storage.files import is_uri
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.casts import Cast, cast_problem
from recordmill.transforms.model.file_ranges import RANGES
from recordmill.transforms.model.source import ListingPart, Parts
from recordmill.transforms.model.user_columns import carried_fields
from recordmill.transforms.sources.arrays.array_headers import ArrayProbe
from recordmill.transforms.sources.arrays.array_labels import (
    is_numeric,
    read_labels,
    with_labels,
)
from recordmill.transforms.sources.arrays.array_spec import ARRAY, ArraySpec
from recordmill.transforms.sources.arrays.chunking import ArraySlicing, Shape, merge_shapes
from recordmill.transforms.sources.arrays.npy import StoredArray, format_shape
from recordmill.transforms.sources.folders.folders import NOT_IMAGES
from recordmill.transforms.sources.folders.number_labels import TARGET
from recordmill.transforms.sources.folders.references import COLUMNS
from recordmill.transforms.sources.rows.values.documents import NOT_TEXTS
from recordmill.transforms.sources.splitters.collector import Collector
from recordmill.transforms.sources.splitters.split_files import (
    Counts,
    ReadHeaders,
    RecordColumns,
    Section,
    Splitter,
)

FIRST, LAST = "__first__", "__last__"  # int64: range of records of a file, LAST exclusive
FILE = "__file__"  # int64: bytes of the file; `batch.SIZE` is the size of the record
NAME = "__name__"  # string: the key of the file
AT, TO = "__at__", "__to__"  # int64: start and stop of a record along the axis
# string: a JSON list: path, size, mtime of the file of labels, the `StoredArray`
LABELS = "__labels__"

_TEXT, _INT = pa.string(), pa.int64()
_LISTED = (
    *(pa.field(name, _TEXT) for name in (ARRAY, LABELS)),
    *(pa.field(name, _INT) for name in (FIRST, LAST)),
)
_OWN = tuple(pa.field(*one) for one in ((FILE, _INT), (NAME, _TEXT), (AT, _INT), (TO, _INT)))

# `.bin`, `.bak` and `.data` may be arrays by their content.
NOT_ARRAYS = tuple(
    sorted({*NOT_IMAGES, *NOT_TEXTS} - {"npy", "npz", "h5", "hdf5", "mat", "bin", "bak", "data"})
)
_PASSED = (batch.PLACE, *RANGES.names)  # system columns of references that records keep


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArraySplitter(Splitter):
    """Locates the records in files of arrays, by their headers.

    Attributes:
      probe: Reader of the headers.
      dtype: Dtype to which arrays are cast; None for the most frequent one.
      cast: Rule for casts.
    """

    probe: ArrayProbe = dataclasses.field(default_factory=ArrayProbe)
    dtype: str | None = None
    cast: Cast = "safe"
    noun: ClassVar[str] = "array"
    listed: ClassVar[Sequence[pa.Field]] = _LISTED
    by_headers: ClassVar[bool] = True

    @property
    def _cut(self) -> ArraySlicing:
        return self.probe.cut

    @property
    def groups_files(self) -> bool:
        return self._cut.unit == "chunk"

    @property
    def part_limits(self) -> tuple[int, int]:
        return limits.PART_ROWS, limits.PART_ROWS

    def plan(
        self, rows: pa.RecordBatch, counts: Counts, headers: ReadHeaders[Any, Any]
    ) -> Iterator[tuple[int, Section | RecordError]]:
        counts.numbers["files"] += len(rows)
        if self.probe.label_input is not None and counts.numbers["files"] > 1:
            raise ConfigError(
                f"{option_name('label_input')} holds the labels of one file, but"
                f" {option_name('input')} has several: put labels into each file"
                f" ({option_name('label_array')}), or name one file"
            )
        keys = rows[batch.KEY].to_pylist()
        files = list(_zip_columns(rows, batch.PATH, batch.SIZE, batch.MTIME))
        remote = any(is_uri(file[0]) for file in files)
        starts = range(0, len(files), limits.CHECK_ROWS)
        tasks = ((files[start : start + limits.CHECK_ROWS], remote) for start in starts)
        for row, found in enumerate(headers(self.probe.inspect, tasks)):
            if isinstance(found, RecordError):
                yield row, found
                continue
            for part, names in found.unapplied:
                counts.unread.add(part, "array", such_as=keys[row], names=names)
            left = self._cut.unused_steps(found.array.shape)
            counts.numbers["cut"] += left > 0
            counts.numbers["steps"] += left
            array = found.array.to_text()
            for first in range(0, found.records, limits.PART_ROWS):
                last = min(first + limits.PART_ROWS, found.records)
                yield row, Section((array, found.labels, first, last), last - first)

    def notes(self, counts: Counts) -> Iterator[Note]:
        yield from super().notes(counts)
        if number := counts.numbers["steps"]:
            fill = "fills no chunk and was" if number == 1 else "fill no chunk and were"
            ends = f"the ends of {count_of(counts.numbers['cut'], 'array')}"
            yield Note("steps", f"{count_of(number, 'step')} at {ends} {fill} dropped")

    def later_parts(self, rows: pa.RecordBatch) -> Iterable[int | None]:
        return [first or None for first in rows[FIRST].to_pylist()]

    def columns(self, parts: Parts) -> RecordColumns:
        kinds: collections.Counter[tuple[str, int]] = collections.Counter()
        shapes: dict[tuple[str, int], set[Shape]] = collections.defaultdict(set)
        users: list[pa.Field] = []
        of_values = self.probe.has_labels
        for rows in parts:
            for location in rows[LABELS].unique().to_pylist() if of_values else ():
                of_values &= location is None or is_numeric(location)
            places = [field for field in rows.schema if field.name in _PASSED]
            users = [*places, *carried_fields(rows.schema)]
            for counted in rows[ARRAY].value_counts().to_pylist():
                stored = StoredArray.from_text(counted["values"])
                shape = self._cut.shape_of(stored.shape)
                kind = self._output_dtype(stored), len(shape)
                kinds[kind] += counted["counts"]
                # Merge now, so that memory does not grow with the number of shapes.
                shapes[kind] = {merge_shapes({*shapes[kind], shape})}
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
        ours = [*COLUMNS, declared.field(), *_OWN]
        return RecordColumns(pa.schema([*ours, *users]), self.probe.has_labels, of_values)

    def split(self, rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        """Yield a row per record of a part of the listing."""
        declared, numbers = ArraySpec.of(schema), self.probe.numbers
        found = Collector(given=rows, schema=schema, inputs=0 if self.groups_files else None)
        kept: list[int] = []
        labels: list[pa.Array] = []
        places = _zip_columns(rows, ARRAY, LABELS, FIRST, LAST)
        for row, (text, location, first, last) in enumerate(places):
            if (problem := self._problem(StoredArray.from_text(text), declared)) is not None:
                if not first:  # a file with several sections is rejected once
                    found.reject(row, problem)
                continue
            try:
                if location is not None:
                    labels.append(
                        read_labels(location, self._cut, first, last, numbers=numbers is not None)
                    )
            except RecordError as error:
                found.reject(row, error)
            else:
                kept.append(row)
                found.count_inputs(first == 0)
        if kept:
            records = self._records(rows.take(pa.array(kept, pa.int64())), schema)
            invalid: list[Reject] = []
            if labels:
                unlabelled = self.probe.unlabelled
                records, invalid = with_labels(
                    records, labels, numbers=numbers, unlabelled=unlabelled
                )
            part = ListingPart(rejects=invalid)
            if self.groups_files:
                part = ListingPart(invalid=invalid)
            found.add_part(part, records if len(records) else None)
        yield found.take()

    def _output_dtype(self, stored: StoredArray) -> str:
        """Return the dtype of an array in records: the stored dtype if it cannot be cast."""
        own = stored.numbers.name
        if self.dtype is None or cast_problem(own, self.dtype, self.cast):
            return own
        return self.dtype

    def _problem(self, stored: StoredArray, declared: ArraySpec) -> RecordError | None:
        """Return a message on an array that does not fit the type of the records, else None."""
        own, why = stored.numbers.name, None
        if self.dtype is not None:
            why = cast_problem(own, self.dtype, self.cast)
        if not why and self._output_dtype(stored) != declared.dtype:
            common = np.result_type(own, declared.dtype).name
            why = f"an array of {own}, but most are {declared.dtype}: --dtype {common} casts both"
        if not why and len(self._cut.shape_of(stored.shape)) != len(declared.shape):
            why = (
                f"an array of {len(stored.shape)} dimensions ({format_shape(stored.shape)}), but"
                f" most records have {len(declared.shape)}: remove it, or build a separate dataset"
                " from such arrays"
            )
        return RecordError(Reason.BAD_VALUE, why) if why else None

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
        key, group = rows[batch.KEY], rows[batch.GROUP]
        if self.groups_files:
            group = pc.coalesce(group, key)
        if not whole:
            key = pc.binary_join_element_wise(key, pa.array(starts).cast(pa.string()), "#")
        columns_: Mapping[str, Any] = {
            batch.KEY: key,
            batch.GROUP: group,
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


def _zip_columns(rows: pa.RecordBatch, *names: str) -> Iterator[Any]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)
