"""Which records a worker of a training job reads in an epoch, and in which order.

Everything is a function of the seed, the epoch, and how many hosts and workers there are, so that
they need not speak with each other for every record to be read exactly once.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np

T = TypeVar("T")


def part_of(whole: range, parts: int, number: int) -> range:
    """Part `number`, from 0, of so many equal ones; their sizes differ by one at most."""
    return whole[len(whole) * number // parts : len(whole) * (number + 1) // parts]


def cut(ranges: Sequence[range], part: range) -> list[range]:
    """What ranges that are laid one after another have between two places, in their order."""
    found = []
    at = 0
    for one in ranges:
        found.append(one[max(part.start - at, 0) : max(part.stop - at, 0)])
        at += len(one)
    return [one for one in found if one]


def shuffled_blocks(blocks: Sequence[range], *, seed: int, epoch: int) -> list[range]:
    """All blocks in the order of an epoch: the same for all workers of a host."""
    return [
        blocks[number] for number in np.random.default_rng((seed, epoch)).permutation(len(blocks))
    ]


def shuffled(items: Iterator[T], size: int, *, seed: int, epoch: int, worker: int) -> Iterator[T]:
    """Yields all items, each taken at random from `size` that are held."""
    rng = np.random.default_rng((seed, epoch, 1 + worker))
    held: list[T] = []
    for item in items:
        if len(held) < size:
            held.append(item)
            continue
        place = int(rng.integers(size))
        yield held[place]
        held[place] = item
    for place in rng.permutation(len(held)).tolist():
        yield held[place]
