"""Values at given ranks, found in bounded memory among numbers that can be read repeatedly.

Numbers are compared as integer keys in the order of their values. If there are too many to sort, a
histogram of the keys shows which ranges hold the ranks, and only these are loaded, one at a time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.transforms.statistics.bit_histogram import REST, values_of
from recordmill.transforms.statistics.ranges import Counted, Ints, add_equal

Floats = npt.NDArray[np.float64]
Read = Callable[[], Iterable[tuple[Ints, Ints]]]

LIMIT = 1 << 21  # different numbers that are sorted at a time
_BINS = 1 << 16
_ABSENT = np.iinfo(np.int64).max  # not the key of a number


def values_of_keys(keys: Ints) -> Floats:
    """Return the inverse of `bit_histogram.keys_of`, float64[n]."""
    return values_of(keys, 0)


def key_range(prefix: int) -> tuple[int, int]:
    """Return (least key, greatest key + 1) of the numbers of a prefix of `bit_histogram`."""
    inner, outer = abs(prefix) << REST, (abs(prefix) + 1) << REST
    if prefix == 0:
        return 1 - outer, outer
    return (inner, outer) if prefix > 0 else (1 - outer, 1 - inner)


class Ranked(NamedTuple):
    """The numbers at some ranks, each int64[n].

    keys: the number at each rank. below, through: how many numbers are less, and at most as large.
    after: the least key above it; the largest int64 if there is none.
    """

    keys: Ints
    below: Ints
    through: Ints
    after: Ints

    @property
    def is_last(self) -> npt.NDArray[np.bool_]:
        """True, bool[n], for the largest number."""
        last: npt.NDArray[np.bool_] = self.after == _ABSENT
        return last


def select(read: Read, *, low: int, high: int, ranks: Ints, limit: int = LIMIT) -> Ranked:
    """Return the numbers of keys from low to high - 1 at some ranks, counted from `low`.

    read: returns batches of (keys, their counts), in any order, the same every time. Keys above
      `high` matter only as the least key above the last one in the range.
    ranks: int64[n], ascending, from 0 to the number of numbers - 1.
    limit: how many different numbers are held at a time.
    """
    found = list(_select(read, low, high, ranks, limit))
    return Ranked(*(np.concatenate(arrays) for arrays in zip(*found, strict=True)))


def _select(read: Read, low: int, high: int, ranks: Ints, limit: int) -> Iterator[Ranked]:
    held = _load(read, low, high, limit)
    if held is not None:
        yield _at(held, ranks)
        return
    shift = max((high - low - 1).bit_length() - _BINS.bit_length() + 1, 0)
    entries, numbers = _histogram(read, low, high, shift)
    all_entries, all_numbers = np.cumsum(entries), np.cumsum(numbers)
    bins = np.searchsorted(all_numbers, ranks, side="right")
    start = 0
    while start < len(ranks):
        first = int(bins[start])
        room = all_entries[first] - entries[first] + limit
        last = max(int(np.searchsorted(all_entries, room, side="right")) - 1, first)
        end = int(np.searchsorted(bins, last, side="right"))
        last = int(bins[end - 1])
        below = int(all_numbers[first] - numbers[first])
        bounds = low + (first << shift), min(low + ((last + 1) << shift), high)
        for part in _select(read, *bounds, ranks[start:end] - below, limit):
            yield part._replace(below=part.below + below, through=part.through + below)
        start = end


class _Held(NamedTuple):
    """Different keys of a range, ascending, their counts, and the least key above the range."""

    keys: Ints
    counts: Ints
    after: int


def _load(read: Read, low: int, high: int, limit: int) -> _Held | None:
    """Return the keys of a range; None if more than `limit` are different."""
    keys, counts = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    size, after = 0, int(_ABSENT)
    for some, times in read():
        above = some[some >= high]
        if len(above):
            after = min(after, int(above.min()))
        inside = (some >= low) & (some < high)
        keys.append(some[inside])
        counts.append(times[inside])
        size += len(keys[-1])
        if size > 2 * limit:
            held, added = add_up(np.concatenate(keys), np.concatenate(counts))
            keys, counts, size = [held], [added], len(held)
            if size > limit:
                return None
    held, added = add_up(np.concatenate(keys), np.concatenate(counts))
    return None if len(held) > limit else _Held(held, added, after)


def add_up(keys: Ints, counts: Ints) -> tuple[Ints, Ints]:
    """Return the different keys, ascending, and the sums of their counts."""
    order = np.argsort(keys, kind="stable")
    found = add_equal(Counted(keys[order], counts[order], np.array([0, len(keys)])))
    return found.values, found.counts


def _at(held: _Held, ranks: Ints) -> Ranked:
    ends = np.cumsum(held.counts)
    places = np.searchsorted(ends, ranks, side="right")
    after = np.append(held.keys[1:], held.after)
    through = ends[places]
    return Ranked(held.keys[places], through - held.counts[places], through, after[places])


def _histogram(read: Read, low: int, high: int, shift: int) -> tuple[Ints, Ints]:
    """Return (entries, numbers) by bin of keys, int64[m] each."""
    size = ((high - low - 1) >> shift) + 1
    entries, numbers = np.zeros(size, np.int64), np.zeros(size, np.int64)
    for keys, counts in read():
        inside = (keys >= low) & (keys < high)
        bins = (keys[inside] - low) >> shift
        entries += np.bincount(bins, minlength=size)
        np.add.at(numbers, bins, counts[inside])
    return entries, numbers
