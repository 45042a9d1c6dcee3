"""Distribution of records over the hosts and workers of a training job, and their order.

Everything is a function of the seed, the epoch, and the numbers of hosts and workers, so that every
record is read exactly once without communication between them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def even_part(whole: range, parts: int, number: int) -> range:
    """Return part `number` (from 0) of `parts` parts, whose sizes differ by at most one."""
    return whole[len(whole) * number // parts : len(whole) * (number + 1) // parts]


def slice_ranges(ranges: Sequence[range], part: range) -> list[range]:
    """Return a slice of concatenated ranges, as ranges: their items at the positions `part`."""
    found = []
    at = 0
    for one in ranges:
        found.append(one[max(part.start - at, 0) : max(part.stop - at, 0)])
        at += len(one)
    return [one for one in found if one]


def shuffled_blocks(blocks: Sequence[range], *, seed: int, epoch: int) -> list[range]:
    """Return all blocks in the order of an epoch, which is the same for all workers of a host."""
    return [
        blocks[number] for number in np.random.default_rng((seed, epoch)).permutation(len(blocks))
    ]


def shuffled(items: Iterator[T], size: int, *, seed: int, epoch: int, worker: int) -> Iterator[T]:
    """Yield all items, each drawn at random from a buffer of `size` items."""
    rng = np.random.default_rng((seed, epoch, 1 + worker))
    buffer: list[T] = []
    for item in items:
        if len(buffer) < size:
            buffer.append(item)
            continue
        place = int(rng.integers(size))
        yield buffer[place]
        buffer[place] = item
    for place in rng.permutation(len(buffer)).tolist():
        yield buffer[place]
