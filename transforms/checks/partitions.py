"""Division of hashed rows into partitions, in which equal hashes meet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.flat_arrays import offsets_of, stable_order
from recordmill.transforms.model import batch, limits

# Rows of a part as bytes, by the name of the part; or the part itself as JSON.
Candidates = tuple[str, bytes]


def partitions_of(parts: int) -> int:
    """Return the number of partitions for rows in some parts; small inputs send few messages."""
    return min(max(parts, 1), limits.PARTITIONS)


def by_partition(found: npt.NDArray[Any], count: int) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, bytes) of the rows of a structured array with the field `hash`."""
    partitions = batch.scale(found["hash"], count)
    data = found.take(stable_order(partitions)).tobytes()  # `[]` takes twice as long
    counts = np.bincount(partitions, minlength=count)
    edges = (offsets_of(counts) * found.dtype.itemsize).tolist()
    for partition, (start, end) in enumerate(itertools.pairwise(edges)):
        if start < end:
            yield partition, data[start:end]


class Partition(NamedTuple):
    """The rows of a partition.

    names: of their parts. rows: their structured array. parts: int64[n], the index of the part of
    each.
    """

    names: list[str]
    rows: npt.NDArray[Any]
    parts: npt.NDArray[np.int64]


def join_candidates(
    partition: tuple[int, Iterable[Candidates]], dtype: np.dtype[Any]
) -> Partition | list[Candidates]:
    """Return the rows of a partition; of the one that holds the parts, (name, JSON) of each."""
    number, candidates = partition
    by_part = sorted(candidates)
    if number == limits.PARTITIONS:
        return by_part
    names, pieces = [name for name, _ in by_part], [data for _, data in by_part]
    sizes = [len(data) // dtype.itemsize for data in pieces]
    rows = np.frombuffer(b"".join(pieces), dtype)
    return Partition(names, rows, np.repeat(np.arange(len(pieces)), sizes))


def with_equal(hashes: batch.UInt64Array) -> npt.NDArray[np.int64]:
    """Return the indices of the hashes that occur more than once, int64[m]."""
    ordered = np.sort(hashes)
    same = ordered[1:] == ordered[:-1]
    if not same.any():  # the usual case; finding the indices takes far longer
        return np.zeros(0, np.int64)
    is_equal = np.append(False, same)
    is_equal[:-1] |= same
    equal: npt.NDArray[np.int64] = np.argsort(hashes)[is_equal]
    return equal
