"""Medians and boundaries of buckets of a table's columns, exact by rank.

A histogram by the first bits of values (`bit_histogram`) gives the bin of each median and boundary,
and the number of values below the bin. Then only the values of these bins are searched.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from recordmill.transforms.statistics.bit_histogram import FirstBits, keys_of
from recordmill.transforms.statistics.exact_ranks import (
    Floats,
    Ranked,
    Read,
    add_up,
    key_range,
    select,
)
from recordmill.transforms.statistics.ranges import Ints

_CHUNK = 1 << 20  # boundaries that are chosen at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class RankQuestion:
    """A request for the median, or for boundaries of buckets, in one bin of a histogram.

    low, high: keys of the bin, from low to high - 1. below: number of values below the bin.
    total: number of all values. Both count imputed values.
    parts: number of buckets; 0 asks for the median instead of boundaries.
    first, last: boundaries that lie in the bin, from 1 to parts - 1.
    filled: (key, number) of the imputed values, in the bin or above it. With the key None they are
      equal to the median, which is in this bin.
    """

    column: str
    low: int
    high: int
    below: int
    total: int
    parts: int = 0
    first: int = 0
    last: int = 0
    filled: tuple[int | None, int] | None = None


def median_question(column: str, bits: FirstBits) -> RankQuestion | None:
    """Return the question for the median of values; None without values."""
    if not bits.total:
        return None
    prefix, below = _bin_of_median(bits)
    low, high = key_range(prefix)
    return RankQuestion(column=column, low=low, high=high, below=below, total=bits.total)


def boundary_questions(
    column: str, bits: FirstBits, *, parts: int, missing: int = 0, fill: float | None = None
) -> Iterator[RankQuestion]:
    """Yield the questions for the boundaries of `parts` buckets, one per bin that has any.

    bits: histogram of the values without imputed ones. missing: number of imputed values. fill: the
      imputed value; None if it is the median.
    """
    key = prefix = None
    if missing:
        if fill is not None:
            key = int(keys_of(np.array([fill]))[0])
            bits = FirstBits.sum([bits, FirstBits.of(np.full(missing, fill))])
        else:
            prefix, _ = _bin_of_median(bits)
            counts = bits.counts + np.where(bits.prefixes == prefix, missing, 0)
            bits = FirstBits(prefixes=bits.prefixes, counts=counts)
    first, below, total = 1, 0, bits.total
    for bin_, count in zip(bits.prefixes.tolist(), bits.counts.tolist(), strict=True):
        last = min(parts - 1, ((below + count) * parts - 1) // total)
        if first <= last:
            low, high = key_range(bin_)
            filled: tuple[int | None, int] | None = None
            if key is not None and key >= low:
                filled = key, missing if key < high else 0
            elif prefix == bin_:
                filled = None, missing
            yield RankQuestion(
                column=column,
                low=low,
                high=high,
                below=below,
                total=total,
                parts=parts,
                first=first,
                last=last,
                filled=filled,
            )
        first, below = max(first, last + 1), below + count


def _bin_of_median(bits: FirstBits) -> tuple[int, int]:
    """Return (prefix of the bin of the median, number of values below the bin)."""
    ends = np.cumsum(bits.counts)
    place = int(np.searchsorted(ends, (bits.total - 1) // 2, side="right"))
    return int(bits.prefixes[place]), int(ends[place] - bits.counts[place])


def in_bins(values: Floats, questions: Sequence[RankQuestion]) -> tuple[Ints, Ints, Ints]:
    """Return (index of the question, key, count), int64[m] each, of the values in their bins.

    The least key above each bin is added with the count 0, as it may be a boundary.
    """
    keys, counts = add_up(keys_of(values), np.ones(len(values), np.int64))
    starts = np.searchsorted(keys, [question.low for question in questions])
    ends = np.searchsorted(keys, [question.high for question in questions])
    stops = np.minimum(ends + 1, len(keys))
    sizes = stops - starts
    index = np.repeat(np.arange(len(questions)), sizes)
    places = np.arange(len(index)) - np.repeat(np.cumsum(sizes) - sizes, sizes) + starts[index]
    return index, keys[places], np.where(places == ends[index], 0, counts[places])


def find(question: RankQuestion, read: Read) -> Ints:
    """Return the key of the median, or of the boundaries, ascending, int64[m].

    read: returns batches of (keys, counts) from `in_bins`.
    """
    low, high = question.low, question.high
    rank = (question.total - 1) // 2 - question.below
    if not question.parts:
        return select(read, low=low, high=high, ranks=np.array([rank])).keys
    if question.filled is not None:
        key, number = question.filled
        if key is None:
            # `total` and `below` count imputed values, none of which is below the bin.
            rank = (question.total - number - 1) // 2 - question.below
            key = int(select(read, low=low, high=high, ranks=np.array([rank])).keys[0])
        read = _with(read, key, number)
    found = [np.zeros(0, np.int64)]
    for first in range(question.first, question.last + 1, _CHUNK):
        parts = np.arange(first, min(first + _CHUNK, question.last + 1))
        wanted = parts * question.total
        ranks, places = np.unique(wanted // question.parts - question.below, return_inverse=True)
        ranked = select(read, low=low, high=high, ranks=ranks)
        ranked = Ranked(*(array[places] for array in ranked))
        found.append(np.unique(_nearest(ranked, wanted, question)))
    return np.unique(np.concatenate(found))


def _with(read: Read, key: int, number: int) -> Read:
    def read_all() -> Iterator[tuple[Ints, Ints]]:
        yield np.array([key]), np.array([number])
        yield from read()

    return read_all


def _nearest(ranked: Ranked, wanted: Ints, question: RankQuestion) -> Ints:
    """Return the boundaries whose number of values below is nearest to `wanted` / parts.

    A boundary is the value at that rank, or the next greater one. It is never the least of all
    values, because then the first bucket would be empty.
    """
    before = question.below + ranked.below
    less = np.abs(before * question.parts - wanted)
    more = np.abs((question.below + ranked.through) * question.parts - wanted)
    takes_next = ~ranked.is_last & ((before == 0) | (more < less))
    keys: Ints = np.where(takes_next, ranked.after, ranked.keys)[takes_next | (before > 0)]
    return keys
