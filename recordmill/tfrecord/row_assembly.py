"""Assembles rows of bytes from fields: each row is the concatenation of its value of every field.

Copying row by row in Python would be slow, so rows are assembled field by field:

- Rows whose value of a field has the same size share the field's prefix. They are copied together,
  as numpy items of that width (`_copy_group`).
- Consecutive fields of fixed width are assembled as one field.
- Groups of few rows are copied one row at a time.
- Large values stay outside the buffer: `AssembledRows.chunks` yields them in their place, so that
  an image is copied only once, when the chunks are joined.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.checksums import crcs_of_similar_rows
from recordmill.tfrecord.flat_arrays import Bytes, Ints, offsets_of, stable_order

_MIN_VECTORIZED_ROWS = 32  # with fewer rows a loop takes less time than numpy's overhead
_MAX_TABLE_BYTES = 128  # with more differing bytes a CRC call per row is faster than tables
_MIN_EXTERNAL_BYTES = 2048  # mean size from which a second copy costs more than an external value


def no_prefix(_: int) -> bytes:
    """Return the prefix of a field that has none."""
    return b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowField:
    """One field of every row: a prefix, and a value, which is a slice of `data`.

    data: uint8[...].
    starts: int64[n], the byte of `data` at which each row's value begins.
    sizes: int64[n], bytes of each row's value; -1 if the row has neither prefix nor value.
    prefix: returns the bytes that precede a value of the given size.
    """

    data: Bytes
    starts: Ints
    sizes: Ints
    prefix: Callable[[int], bytes] = no_prefix

    def rows(self, start: int, stop: int) -> RowField:
        """Return the field of the rows start..stop."""
        if stop - start == len(self.sizes):
            return self
        rows = slice(start, stop)
        return dataclasses.replace(self, starts=self.starts[rows], sizes=self.sizes[rows])


@dataclasses.dataclass(frozen=True, kw_only=True)
class _SizeGroup:
    """The rows whose value has the same size: their indices, int64[...], or a slice of all."""

    prefix: bytes
    size: int
    rows: Ints | slice


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldLayout:
    """A field with its rows grouped by size, and the space that it takes in every row.

    sizes: int64[n], bytes of prefix and value, external values included.
    external: the field of the values, if these are not copied into the buffer; `field` then holds
      only their prefixes.
    """

    field: RowField
    groups: Sequence[_SizeGroup]
    sizes: Ints
    external: RowField | None = None

    @property
    def is_fixed_width(self) -> bool:
        """True if every row has the field, with values of one size, in the buffer."""
        return (
            not self.external and len(self.groups) == 1 and isinstance(self.groups[0].rows, slice)
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ExternalValues:
    """Values data[starts[i]:stops[i]] to insert at the buffer's byte at[i]; int64[n] each."""

    data: Bytes
    starts: Ints
    stops: Ints
    at: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class AssembledRows:
    """Rows one after another.

    buffer: uint8[...], the rows without their external values.
    offsets: int64[n + 1], where the rows begin and end in `buffer`.
    sizes: int64[n], bytes of each row, external values included.
    differing: the (start, stop) byte ranges in which rows differ, if all rows have the same width
      and prefixes; otherwise None.
    """

    buffer: Bytes
    offsets: Ints
    sizes: Ints
    external: Sequence[_ExternalValues]
    differing: Sequence[tuple[int, int]] | None = None

    def chunks(self) -> Iterator[memoryview]:
        """Yield the chunks that make up the rows when joined."""
        buffer = self.buffer.data
        values = [(one.data.data, one.starts.tolist(), one.stops.tolist()) for one in self.external]
        done = 0
        for row, places in enumerate(zip(*(one.at.tolist() for one in self.external), strict=True)):
            for place, (data, starts, stops) in zip(places, values, strict=True):
                yield buffer[done:place]
                yield data[starts[row] : stops[row]]
                done = place
        yield buffer[done:]

    def crcs(self, *, skip: int, drop: int) -> npt.NDArray[np.uint32]:
        """Return the CRC32C of every row without its first `skip` and last `drop` bytes: uint32[n].

        External values must lie between those bytes.
        """
        if self.differing is not None:
            stop = int(self.sizes[0]) - drop
            inside = [(a, b) for a, b in self.differing if skip <= a and b <= stop]
            if sum(b - a for a, b in inside) <= _MAX_TABLE_BYTES:
                rows = self.buffer.reshape(len(self.sizes), -1)
                return crcs_of_similar_rows(rows, inside, start=skip, stop=stop)
        value, extend = google_crc32c.value, google_crc32c.extend
        raw = self.buffer.tobytes()  # slicing bytes takes half the time of slicing an array
        begins = (self.offsets[:-1] + skip).tolist()
        first, *others = [
            *(one.at.tolist() for one in self.external),
            (self.offsets[1:] - drop).tolist(),
        ]
        crcs = [value(raw[a:b]) for a, b in zip(begins, first, strict=True)]
        begins = first
        for one, ends in zip(self.external, others, strict=True):
            data = one.data
            spans = zip(crcs, one.starts.tolist(), one.stops.tolist(), begins, ends, strict=True)
            crcs = [
                extend(extend(crc, data[start:stop]), raw[a:b]) for crc, start, stop, a, b in spans
            ]
            begins = ends
        return np.array(crcs, np.uint32)


def fixed_width_field(rows: Bytes) -> RowField:
    """Return a field whose values are the given rows, uint8[n, width]."""
    starts = np.arange(len(rows)) * rows.shape[1]
    sizes = np.full(len(rows), rows.shape[1])
    return RowField(data=rows.reshape(-1), starts=starts, sizes=sizes)


def layout_of(field: RowField) -> FieldLayout:
    """Group the rows of a field by size, and keep large values outside the buffer."""
    sizes = np.maximum(field.sizes, 0)
    if int(sizes.sum()) > _MIN_EXTERNAL_BYTES * sizes.size:
        prefixes = [field.prefix(size) if size >= 0 else b"" for size in field.sizes.tolist()]
        offsets = offsets_of(np.fromiter(map(len, prefixes), np.int64, len(prefixes)))
        data = np.frombuffer(b"".join(prefixes), np.uint8)
        layout = layout_of(RowField(data=data, starts=offsets[:-1], sizes=np.diff(offsets)))
        return dataclasses.replace(layout, sizes=layout.sizes + sizes, external=field)
    groups = _size_groups(field)
    for group in groups:
        sizes[group.rows] += len(group.prefix)
    return FieldLayout(field=field, groups=groups, sizes=sizes)


def assemble_rows(layouts: Sequence[FieldLayout]) -> AssembledRows:
    """Assemble rows from one or more fields, in the order given; all have the same rows."""
    sizes = row_sizes(layouts)
    if len(sizes) and all(layout.is_fixed_width for layout in layouts):
        rows, differing = _fixed_width_rows(layouts)
        offsets = np.arange(len(sizes) + 1) * rows.shape[1]
        return AssembledRows(
            buffer=rows.reshape(-1), offsets=offsets, sizes=sizes, external=[], differing=differing
        )
    buffered = sizes.copy()
    for layout in layouts:
        if layout.external:
            buffered -= np.maximum(layout.external.sizes, 0)
    offsets = offsets_of(buffered)
    buffer = np.empty(int(offsets[-1]), np.uint8)
    at = offsets[:-1].copy()
    external: list[_ExternalValues] = []
    for layout in _merge_fixed_width(layouts):
        field = layout.field
        for group in layout.groups:
            _copy_group(buffer, at[group.rows], field.data, field.starts[group.rows], group)
        at += layout.sizes
        if layout.external:
            data, starts = layout.external.data, layout.external.starts
            outside = np.maximum(layout.external.sizes, 0)
            at -= outside
            external.append(
                _ExternalValues(data=data, starts=starts, stops=starts + outside, at=at.copy())
            )
    return AssembledRows(buffer=buffer, offsets=offsets, sizes=sizes, external=external)


def assemble_values(field: RowField) -> tuple[Bytes, Ints]:
    """Return the prefixed values of a field, uint8[...], and their offsets, int64[n + 1]."""
    layout = layout_of(field)
    data = np.frombuffer(b"".join(assemble_rows([layout]).chunks()), np.uint8)
    return data, offsets_of(layout.sizes)


def row_sizes(layouts: Sequence[FieldLayout]) -> Ints:
    """Return the bytes of every row, int64[n], over one or more fields."""
    total = layouts[0].sizes.copy()
    for layout in layouts[1:]:
        total += layout.sizes
    return total


def byte_windows(data: Bytes, size: int) -> npt.NDArray[np.void]:
    """Return a view of data whose item i is the `size` bytes that begin at byte i.

    Indexing it gathers slices, and assigning to it scatters them.
    """
    return np.ndarray((data.size - size + 1,), f"V{size}", data, 0, (1,))


def _fixed_width_rows(layouts: Sequence[FieldLayout]) -> tuple[Bytes, list[tuple[int, int]]]:
    """Return rows of fixed-width fields, uint8[n, width], n > 0, and the byte range of each value.

    The ranges are (start, stop) within a row; fields without a value have none.
    """
    groups = [layout.groups[0] for layout in layouts]
    row = b"".join(group.prefix + bytes(group.size) for group in groups)
    buffer = np.empty(len(layouts[0].sizes) * len(row), np.uint8)
    buffer.view(f"V{len(row)}")[:] = np.void(row)
    ranges = []
    at = 0
    for layout, group in zip(layouts, groups, strict=True):
        at += len(group.prefix)
        if group.size:
            values = byte_windows(layout.field.data, group.size)[layout.field.starts]
            byte_windows(buffer, group.size)[at :: len(row)] = values
            ranges.append((at, at + group.size))
        at += group.size
    return buffer.reshape(-1, len(row)), ranges


def _merge_fixed_width(layouts: Sequence[FieldLayout]) -> Iterator[FieldLayout]:
    """Yield the layouts, with consecutive fixed-width fields assembled into one."""
    for is_fixed, group in itertools.groupby(layouts, key=operator.attrgetter("is_fixed_width")):
        run = list(group)
        if not is_fixed or len(run) == 1:
            yield from run
            continue
        field = fixed_width_field(_fixed_width_rows(run)[0])
        rows = _SizeGroup(prefix=b"", size=int(field.sizes[0]), rows=slice(None))
        yield FieldLayout(field=field, groups=[rows], sizes=field.sizes)


def _size_groups(field: RowField) -> list[_SizeGroup]:
    """Group the rows that have the field by the size of their value."""
    sizes = field.sizes
    if not sizes.size:
        return []
    distinct: list[int]
    rows: Sequence[Ints | slice]
    if sizes.min() == sizes.max():
        distinct, rows = [int(sizes[0])], [slice(None)]
    else:
        order = stable_order(sizes)
        ordered = sizes[order]
        changes = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
        distinct, rows = ordered[[0, *changes]].tolist(), np.split(order, changes)
    return [
        _SizeGroup(prefix=field.prefix(size), size=size, rows=rows_of_size)
        for size, rows_of_size in zip(distinct, rows, strict=True)
        if size >= 0
    ]


def _copy_group(buffer: Bytes, at: Ints, data: Bytes, starts: Ints, group: _SizeGroup) -> None:
    """Copy the prefix and the value data[starts[i]:...] of every row of a group to byte at[i]."""
    prefix, size = group.prefix, group.size
    if at.size >= _MIN_VECTORIZED_ROWS:
        if prefix:
            byte_windows(buffer, len(prefix))[at] = np.void(prefix)
        if size:
            byte_windows(buffer, size)[at + len(prefix)] = byte_windows(data, size)[starts]
        return
    out, values = buffer.data, data.data
    for to, start in zip(at.tolist(), starts.tolist(), strict=True):
        middle = to + len(prefix)
        out[to:middle] = prefix
        out[middle : middle + size] = values[start : start + size]
