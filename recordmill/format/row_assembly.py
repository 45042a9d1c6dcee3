"""Weaves rows of bytes out of fields: for every row its stretch of each field, one after another.

Rows are not laid byte by byte. Rows whose stretch of a field has the same size share its head and
are laid together, as numpy items of that width at any byte of the buffer; fields that are alike in
all rows are laid as one; where too few rows have a size in common they are laid one at a time; and
a field of long values leaves holes, which are
filled only as the pieces are joined, so that a picture is copied once.
"""

from __future__ import annotations

import dataclasses
import itertools
import operator
from collections.abc import Callable, Iterator, Sequence

import google_crc32c
import numpy as np
import numpy.typing as npt

from recordmill.format.crc import crcs_of_alike
from recordmill.stable_order import stable_order

Bytes = npt.NDArray[np.uint8]
Ints = npt.NDArray[np.int64]

_TOGETHER = 32  # rows of one size from which numpy's start-up costs less than a loop's steps
_FEW = 128  # bytes in which rows differ up to which tables are faster than a call for each row
_LONG = 2048  # bytes of a mean value from which copying it again costs more than a hole


def no_head(_: int) -> bytes:
    """The head of a field that has none."""
    return b""


@dataclasses.dataclass(frozen=True, kw_only=True)
class Field:
    """One stretch of every row: a head, and the row's value, which is a stretch of `data`.

    data: uint8[...].
    starts: int64[n], where each row's value begins in `data`.
    sizes: int64[n], bytes of each row's value; -1 where the row has neither head nor value.
    head: what stands before a value of so many bytes.
    """

    data: Bytes
    starts: Ints
    sizes: Ints
    head: Callable[[int], bytes] = no_head

    def rows(self, start: int, stop: int) -> Field:
        """The field of some of the rows."""
        rows = slice(start, stop)
        return dataclasses.replace(self, starts=self.starts[rows], sizes=self.sizes[rows])


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Group:
    """The rows (int64[...], or all of them) whose value has the same size."""

    head: bytes
    size: int
    rows: Ints | slice


@dataclasses.dataclass(frozen=True, kw_only=True)
class FieldLayout:
    """A field whose rows are grouped, so that it is known how much space each of them takes.

    sizes: int64[n], bytes of head and value, and of the hole.
    hole: a field whose values (its heads are in `field`) follow in the pieces only.
    """

    field: Field
    groups: Sequence[_Group]
    sizes: Ints
    hole: Field | None = None

    @property
    def is_even(self) -> bool:
        """Whether all rows have the field, with values of one size."""
        return not self.hole and len(self.groups) == 1 and isinstance(self.groups[0].rows, slice)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Hole:
    """Values data[starts[i]:stops[i]] that belong before the buffer's byte at[i]; int64[n] each."""

    data: Bytes
    starts: Ints
    stops: Ints
    at: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class AssembledRows:
    """Rows one after another.

    buffer: uint8[...], the rows without what is in the holes.
    edges: int64[n + 1], where the rows begin and end in `buffer`.
    sizes: int64[n], bytes of the rows, holes filled.
    stretches: (start, stop) of values in a row, where all rows are alike but for those.
    """

    buffer: Bytes
    edges: Ints
    sizes: Ints
    holes: Sequence[_Hole]
    stretches: Sequence[tuple[int, int]] | None = None

    def pieces(self) -> Iterator[memoryview]:
        """The stretches that make the rows when joined."""
        buffer = self.buffer.data
        fillings = [
            (hole.data.data, hole.starts.tolist(), hole.stops.tolist()) for hole in self.holes
        ]
        done = 0
        for row, cuts in enumerate(zip(*(hole.at.tolist() for hole in self.holes), strict=True)):
            for cut, (data, starts, stops) in zip(cuts, fillings, strict=True):
                yield buffer[done:cut]
                yield data[starts[row] : stops[row]]
                done = cut
        yield buffer[done:]

    def crcs(self, *, skip: int, drop: int) -> npt.NDArray[np.uint32]:
        """CRC32C of every row without its first `skip` and its last `drop` bytes, uint32[n]."""
        if self.stretches is not None:
            stop = int(self.sizes[0]) - drop
            inside = [(a, b) for a, b in self.stretches if skip <= a and b <= stop]
            if sum(b - a for a, b in inside) <= _FEW:
                rows = self.buffer.reshape(len(self.sizes), -1)
                return crcs_of_alike(rows, inside, start=skip, stop=stop)
        value, extend = google_crc32c.value, google_crc32c.extend
        raw = self.buffer.tobytes()  # bytes are sliced in half the time that numpy takes
        begins = (self.edges[:-1] + skip).tolist()
        first, *others = [
            *(hole.at.tolist() for hole in self.holes),
            (self.edges[1:] - drop).tolist(),
        ]
        crcs = [value(raw[a:b]) for a, b in zip(begins, first, strict=True)]
        begins = first
        for hole, ends in zip(self.holes, others, strict=True):
            data = hole.data
            spans = zip(crcs, hole.starts.tolist(), hole.stops.tolist(), begins, ends, strict=True)
            crcs = [
                extend(extend(crc, data[start:stop]), raw[a:b]) for crc, start, stop, a, b in spans
            ]
            begins = ends
        return np.array(crcs, np.uint32)


def fixed(rows: Bytes) -> Field:
    """A field of the rows as they are, uint8[n, width]."""
    starts = np.arange(len(rows)) * rows.shape[1]
    sizes = np.full(len(rows), rows.shape[1])
    return Field(data=rows.reshape(-1), starts=starts, sizes=sizes)


def lay(field: Field) -> FieldLayout:
    """Groups the rows of a field."""
    values = np.maximum(field.sizes, 0)
    if int(values.sum()) > _LONG * values.size:
        heads = [field.head(size) if size >= 0 else b"" for size in field.sizes.tolist()]
        edges = offsets_of(np.fromiter(map(len, heads), np.int64, len(heads)))
        data = np.frombuffer(b"".join(heads), np.uint8)
        strand = lay(Field(data=data, starts=edges[:-1], sizes=np.diff(edges)))
        return dataclasses.replace(strand, sizes=strand.sizes + values, hole=field)
    groups = _groups(field)
    for group in groups:
        values[group.rows] += len(group.head)
    return FieldLayout(field=field, groups=groups, sizes=values)


def weave(strands: Sequence[FieldLayout]) -> AssembledRows:
    """Weaves strands of the same number of rows, one or more, in the order given."""
    sizes = sum_sizes(strands)
    if len(sizes) and all(strand.is_even for strand in strands):
        alike, stretches = _alike(strands)
        edges = np.arange(len(sizes) + 1) * alike.shape[1]
        return AssembledRows(
            buffer=alike.reshape(-1), edges=edges, sizes=sizes, holes=[], stretches=stretches
        )
    laid = sizes.copy()
    for strand in strands:
        if strand.hole:
            laid -= np.maximum(strand.hole.sizes, 0)
    edges = offsets_of(laid)
    buffer = np.empty(int(edges[-1]), np.uint8)
    at = edges[:-1].copy()
    holes: list[_Hole] = []
    for strand in _fewer(strands):
        for group in strand.groups:
            _put(buffer, at[group.rows], strand.field.data, strand.field.starts[group.rows], group)
        at += strand.sizes
        if strand.hole:
            data, starts = strand.hole.data, strand.hole.starts
            gaps = np.maximum(strand.hole.sizes, 0)
            at -= gaps
            holes.append(_Hole(data=data, starts=starts, stops=starts + gaps, at=at.copy()))
    return AssembledRows(buffer=buffer, edges=edges, sizes=sizes, holes=holes)


def _alike(strands: Sequence[FieldLayout]) -> tuple[Bytes, list[tuple[int, int]]]:
    """Rows of even strands, uint8[n, width], n > 0, and where in them the values are."""
    groups = [strand.groups[0] for strand in strands]
    row = b"".join(group.head + bytes(group.size) for group in groups)
    buffer = np.empty(len(strands[0].sizes) * len(row), np.uint8)
    buffer.view(f"V{len(row)}")[:] = np.void(row)
    stretches = []
    at = 0
    for strand, group in zip(strands, groups, strict=True):
        at += len(group.head)
        if group.size:
            values = items(strand.field.data, group.size)[strand.field.starts]
            items(buffer, group.size)[at :: len(row)] = values
            stretches.append((at, at + group.size))
        at += group.size
    return buffer.reshape(-1, len(row)), stretches


def _fewer(strands: Sequence[FieldLayout]) -> Iterator[FieldLayout]:
    """The same with one strand for even ones that follow each other."""
    for even, several in itertools.groupby(strands, key=operator.attrgetter("is_even")):
        run = list(several)
        if not even or len(run) == 1:
            yield from run
            continue
        field = fixed(_alike(run)[0])
        group = _Group(head=b"", size=int(field.sizes[0]), rows=slice(None))
        yield FieldLayout(field=field, groups=[group], sizes=field.sizes)


def sum_sizes(strands: Sequence[FieldLayout]) -> Ints:
    """Bytes of every row, int64[n], of one strand or more."""
    total = strands[0].sizes.copy()
    for strand in strands[1:]:
        total += strand.sizes
    return total


def offsets_of(sizes: Ints) -> Ints:
    """Where stretches of these sizes begin and end, int64[n] to int64[n + 1]."""
    offsets = np.zeros(sizes.size + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def items(data: Bytes, size: int) -> npt.NDArray[np.void]:
    """All stretches of `size` bytes, by the byte they begin at: a view of data, not copies."""
    return np.ndarray((data.size - size + 1,), f"V{size}", data, 0, (1,))


def _groups(field: Field) -> list[_Group]:
    """The rows that have the field, by the size of their value."""
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
        _Group(head=field.head(size), size=size, rows=rows_of_size)
        for size, rows_of_size in zip(distinct, rows, strict=True)
        if size >= 0
    ]


def _put(buffer: Bytes, at: Ints, data: Bytes, starts: Ints, group: _Group) -> None:
    """Lays the head and the values data[starts[i]:...] of a group at the bytes at[i]."""
    head, size = group.head, group.size
    if at.size >= _TOGETHER:
        if head:
            items(buffer, len(head))[at] = np.void(head)
        if size:
            items(buffer, size)[at + len(head)] = items(data, size)[starts]
        return
    out, values = buffer.data, data.data
    for to, start in zip(at.tolist(), starts.tolist(), strict=True):
        middle = to + len(head)
        out[to:middle] = head
        out[middle : middle + size] = values[start : start + size]
