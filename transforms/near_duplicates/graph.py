"""Connected components and spanning forests of edges in memory.

Vertices are 64-bit hashes; the smallest of a component names it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.batch import UInt64Array

A, B = "a", "b"  # uint64: the ends of an edge
ID, GROUP = "id", "group"  # uint64: a vertex, and the smallest vertex of its component


def bucket_of(ids: UInt64Array) -> npt.NDArray[np.int64]:
    """Return the bucket of each vertex, int64[n] below `limits.PARTITIONS`; it ascends with ids."""
    return batch.scale(ids, limits.PARTITIONS)


def components(a: UInt64Array, b: UInt64Array) -> tuple[UInt64Array, UInt64Array]:
    """Return the vertices of edges in ascending order, and the smallest vertex connected to each.

    a, b: uint64[n], the ends of each edge; an edge from a vertex to itself only names it. Returns
    two arrays uint64[vertices].
    """
    ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    parents = np.arange(len(ids))
    left, right = places[: len(a)], places[len(a) :]
    while True:
        left, right = parents[left], parents[right]
        apart = np.flatnonzero(left != right)
        if not len(apart):
            return ids, ids[parents]
        left, right = left[apart], right[apart]
        # Every root takes the smallest of the smaller roots that an edge connects it to.
        np.minimum.at(parents, np.maximum(left, right), np.minimum(left, right))
        while True:
            above = parents[parents]
            if np.array_equal(above, parents):
                break
            parents = above


def spanning_forest(a: UInt64Array, b: UInt64Array) -> npt.NDArray[np.int64]:
    """Return the indices of edges that connect what all edges connect, without a circle.

    a, b: uint64[n], the ends of each edge. The indices, int64[m], ascend.
    """
    ids, places = np.unique(np.concatenate([a, b]), return_inverse=True)
    parents = np.arange(len(ids))
    left, right = places[: len(a)], places[len(a) :]
    edges = np.arange(len(a))
    chosen = [edges[:0]]
    while True:
        left, right = parents[left], parents[right]
        apart = np.flatnonzero(left != right)
        if not len(apart):
            return np.sort(np.concatenate(chosen))
        edges, left, right = edges[apart], left[apart], right[apart]
        low, high = np.minimum(left, right), np.maximum(left, right)
        order = np.lexsort((low, high))
        first = order[np.append(True, np.diff(high[order]) > 0)]  # one edge for each larger root
        chosen.append(edges[first])
        parents[high[first]] = low[first]
        while True:
            above = parents[parents]
            if np.array_equal(above, parents):
                break
            parents = above


def edge_rows(a: UInt64Array, b: UInt64Array) -> pa.RecordBatch:
    """Return edges as rows with the columns a and b."""
    return pa.RecordBatch.from_arrays([pa.array(a), pa.array(b)], names=[A, B])
