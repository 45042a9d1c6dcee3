"""Division of hashed rows into partitions, in which equal hashes meet."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.flat_arrays import offsets_of, stable_order
from recordmill.transforms.model import batch, limits

# Rows of a part as bytes, by the name of the part; or the part itself as JSON.
Candidates = tuple[str, bytes]


def by_partition(found: npt.NDArray[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, bytes) of the rows of a structured array with the field `hash`."""
    partitions = batch.scale(found["hash"], limits.PARTITIONS)
    data = found[stable_order(partitions)].tobytes()
    counts = np.bincount(partitions, minlength=limits.PARTITIONS)
    edges = (offsets_of(counts) * found.dtype.itemsize).tolist()
    for partition, (start, end) in enumerate(itertools.pairwise(edges)):
        if start < end:
            yield partition, data[start:end]


def join_candidates(
    by_part: Iterable[Candidates], dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the rows of a partition, and for each the index of its part: int64[n]."""
    pieces = [data for _, data in by_part]
    sizes = [len(data) // dtype.itemsize for data in pieces]
    return np.frombuffer(b"".join(pieces), dtype), np.repeat(np.arange(len(pieces)), sizes)
