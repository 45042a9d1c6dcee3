"""Connected components of a graph whose edges need not fit into memory.

Vertices are 64-bit hashes; the smallest of a component names it. Each worker first reduces the
edges that it has to a spanning forest. One worker then joins the forests: it takes the edges from
the largest vertices down to the smallest, a range of the larger end at a time, and holds one range
only. In a range, the vertices of a connected part get the smallest vertex of that part as parent,
and an edge from each of its vertices below the range to this parent goes to a lower range. Then
parents are replaced by names from the lowest range up. Two passes over the edges are always enough,
whatever the shape of the graph; edges never become more.

Rounds of message passing, such as the alternating stars of Kiveris et al., "Connected Components in
MapReduce and Beyond", 2014, need no such order and run in parallel, but they take 18 shuffles of
all edges for a chain of 1,000 vertices and 26 for one of 100,000.
"""

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.job.staging import Staging
from recordmill.transforms.model import limits
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.near_duplicates.graph import (
    GROUP,
    ID,
    A,
    B,
    bucket_of,
    components,
    edge_rows,
)
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

# Edges of a forest: the range of their larger ends, their number, and the edges.
Forest = tuple[int, int, Piece]

_EDGES = 1 << 20  # about the number of edges in memory at a time, of 16 bytes each


@dataclasses.dataclass
class _EdgeBuffer:
    """Edges in memory, which are reduced to a spanning forest when they become many."""

    _arrays: list[tuple[UInt64Array, UInt64Array]] = dataclasses.field(default_factory=list)
    _count: int = 0
    _most: int = _EDGES

    def add(self, a: UInt64Array, b: UInt64Array) -> None:
        for start in range(0, len(a), _EDGES):
            self._arrays.append((a[start : start + _EDGES], b[start : start + _EDGES]))
            self._count += len(self._arrays[-1][0])
            if self._count > self._most:
                ids, names = self.take()
                self._arrays, self._count = [(ids, names)], len(ids)
                self._most = max(_EDGES, 2 * len(ids))

    def __len__(self) -> int:
        return self._count

    def take(self) -> tuple[UInt64Array, UInt64Array]:
        """Return the components of all edges, as `components` does, and remove the edges."""
        ends = [np.concatenate(ends) for ends in zip(*self._arrays, strict=True)]
        self._arrays, self._count, self._most = [], 0, _EDGES
        return components(*ends) if ends else (np.zeros(0, np.uint64), np.zeros(0, np.uint64))


def _forests(edges: _EdgeBuffer, staging: Staging) -> Iterator[Forest]:
    """Yield the spanning forest of edges, by the range of the larger end of each edge."""
    yield from _by_range(*edges.take(), staging)


def _by_range(a: UInt64Array, b: UInt64Array, staging: Staging) -> Iterator[Forest]:
    """Yield edges, whose larger end is `a`, by range."""
    if len(a):
        ranges = bucket_of(a)
        sizes = np.bincount(ranges)
        for number, piece in spill.into_pieces(edge_rows(a, b), ranges, staging):
            yield number, int(sizes[number]), piece


def name_components(
    forests: Iterable[Forest], *, staging: Staging, step: int = _EDGES
) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket, rows of id and group) for each bucket that has vertices, in ascending order.

    step: number of edges from which a range is taken alone. Neither the cut of the edges into
    forests nor `step` changes the rows, which ascend by id.
    """
    pending: defaultdict[int, list[Forest]] = defaultdict(list)
    for forest in forests:
        pending[forest[0]].append(forest)
    parents: list[tuple[int, Piece]] = []  # the least range of each step, rows of id and parent
    edges = _EdgeBuffer()
    for number in reversed(range(limits.PARTITIONS)):
        for _, _, piece in pending.pop(number, ()):
            edges.add(*_columns(piece, A, B, staging))
        if not len(edges) or (
            number and len(edges) + sum(size for _, size, _ in pending.get(number - 1, ())) <= step
        ):
            continue
        ids, names = edges.take()
        lower = int(np.searchsorted(bucket_of(ids), number))
        for forest in _by_range(ids[:lower], names[:lower], staging):
            pending[forest[0]].append(forest)
        rows = _named(ids[lower:], names[lower:])
        parents += [(number, piece) for _, piece in _into_one(rows, staging)]
    named: dict[int, Piece] = {}
    for least, piece in reversed(parents):
        ids, names = _columns(piece, ID, GROUP, staging)
        for bucket, part in _resolve(ids, names, least, named, staging):
            named[bucket] = part
            yield bucket, part


def _resolve(
    ids: UInt64Array,
    parents: UInt64Array,
    least: int,
    named: dict[int, Piece],
    staging: Staging,
) -> list[tuple[int, Piece]]:
    """Return (bucket, rows of id and group) of vertices, given the rows of all lower buckets.

    least: a parent in this bucket or above is the name of the component.
    """
    buckets = bucket_of(parents)
    names = parents.copy()
    order = np.argsort(buckets, kind="stable")
    edges = np.searchsorted(buckets[order], np.arange(least + 1))
    for bucket in range(least):
        rows = order[edges[bucket] : edges[bucket + 1]]
        if len(rows):
            known, groups = _columns(named[bucket], ID, GROUP, staging)
            names[rows] = groups[np.searchsorted(known, parents[rows])]
    return spill.into_pieces(_named(ids, names), bucket_of(ids), staging)


def _named(ids: UInt64Array, groups: UInt64Array) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(ids), pa.array(groups)], names=[ID, GROUP])


def _into_one(rows: pa.RecordBatch, staging: Staging) -> list[tuple[int, Piece]]:
    """Return rows as one piece."""
    return spill.into_pieces(rows, np.zeros(len(rows), np.int64), staging)


def _columns(piece: Piece, one: str, other: str, staging: Staging) -> tuple[UInt64Array, ...]:
    rows = spill.load(piece, staging=staging)
    return np.asarray(rows[one]), np.asarray(rows[other])


class _ReduceToForest(beam.DoFn):
    """Reduces the edges of a bundle to spanning forests, of bounded size each."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging

    def start_bundle(self) -> None:
        self._edges = _EdgeBuffer()

    def process(self, piece: Piece) -> Iterator[tuple[int, Forest]]:
        self._edges.add(*_columns(piece, A, B, self._staging))
        if len(self._edges) >= _EDGES // 2:
            for forest in _forests(self._edges, self._staging):
                yield 0, forest

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for forest in _forests(self._edges, self._staging):
            yield GlobalWindows.windowed_value_at_end_of_window((0, forest))


def _name_all(
    forests: tuple[int, Iterable[Forest]], *, staging: Staging
) -> Iterator[tuple[int, Piece]]:
    return name_components(forests[1], staging=staging)


@dataclasses.dataclass(eq=False)
class ConnectedComponents(beam.PTransform):
    """Name the component of each vertex: edges in, (bucket, rows of id and group) out.

    Edges are rows with the columns a and b (uint64), which must be hashes, so that ranges of them
    are of about the same size. Each vertex comes out once, in the bucket that `bucket_of` gives.
    """

    staging: Staging

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, edges: beam.PCollection[Piece]) -> beam.PCollection[tuple[int, Piece]]:
        return (
            edges
            | "ReduceToForest"
            >> beam.ParDo(_ReduceToForest(self.staging)).with_output_types(tuple[int, Forest])
            | "GroupForests" >> beam.GroupByKey()
            | "NameComponents"
            >> beam.FlatMap(_name_all, staging=self.staging).with_output_types(tuple[int, Piece])
        )
