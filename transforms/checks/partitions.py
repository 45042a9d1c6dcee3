"""Division of hashed rows into partitions, in which equal hashes meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.transforms.model import batch, limits

# Rows of a part as bytes, by the name of the part; or the part itself as JSON.
Candidates = tuple[str, bytes]


def by_partition(found: npt.NDArray[Any]) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, bytes) of the rows of a structured array with the field `hash`."""
    partitions = batch.scale(found["hash"], limits.PARTITIONS)
    order = np.argsort(partitions, kind="stable")
    starts = np.searchsorted(partitions[order], np.arange(limits.PARTITIONS + 1))
    for partition in range(limits.PARTITIONS):
        start, end = starts[partition : partition + 2]
        if start < end:
            yield partition, found[order[start:end]].tobytes()


def join_candidates(
    by_part: Iterable[Candidates], dtype: np.dtype[Any]
) -> tuple[npt.NDArray[Any], npt.NDArray[np.int64]]:
    """Return the rows of a partition, and for each the index of its part: int64[n]."""
    pieces = [data for _, data in by_part]
    sizes = [len(data) // dtype.itemsize for data in pieces]
    return np.frombuffer(b"".join(pieces), dtype), np.repeat(np.arange(len(pieces)), sizes)
