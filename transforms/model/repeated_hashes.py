"""Hashes of texts that occur more than once, in bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa

from recordmill.transforms.model import batch

_MOST_HASHES = 1 << 24  # hashes in memory at a time


def repeated_hashes(read: Callable[[], Iterable[pa.Array]]) -> batch.UInt64Array:
    """Return the hashes of texts that occur more than once, ascending: uint64[k].

    Args:
      read: Yields the texts, string[n]. It is called again if there are many, and must then yield
        the same texts.
    """
    passes = 1
    while True:
        found = [_repeated_of_pass(read, number, passes) for number in range(passes)]
        known = [one for one in found if one is not None]
        if len(known) == passes:
            return np.concatenate(known)
        passes *= 4


def _repeated_of_pass(
    read: Callable[[], Iterable[pa.Array]], number: int, passes: int
) -> batch.UInt64Array | None:
    """Return the repeated hashes of a range, one of `passes`; None if it has too many hashes."""
    seen = repeated = np.zeros(0, np.uint64)
    held: list[batch.UInt64Array] = []
    count = 0

    def join() -> tuple[batch.UInt64Array, batch.UInt64Array]:
        values, counts = np.unique(np.concatenate([seen, *held]), return_counts=True)
        return values, np.union1d(repeated, values[counts > 1])

    for texts in read():
        hashes = batch.hash_strings(texts)
        if passes > 1:
            hashes = hashes[batch.scale(hashes, passes) == number]
        held.append(hashes)
        count += len(hashes)
        if count > _MOST_HASHES:
            seen, repeated = join()
            held, count = [], 0
            if len(seen) > _MOST_HASHES:
                return None
    return join()[1]
