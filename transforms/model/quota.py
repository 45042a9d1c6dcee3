"""Exact quotas: which records of a class are the `count` of smallest rank, found without a sort.

Undersampling, oversampling and stratified splits ask the same question. It is answered from a
histogram of the ranks' top byte: all buckets below a boundary belong to the cut, none above it, and
only the rows of the boundary bucket have to meet to find the last record that belongs.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.flat_arrays import stable_order
from recordmill.transforms.model import batch

BUCKETS = 256

Counts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Histogram:
    """counts int64[k, BUCKETS]: records of class `labels[i]` by the top byte of their rank.

    A label of None counts the records without one.
    """

    labels: tuple[str | None, ...]
    counts: Counts

    @classmethod
    def empty(cls) -> Histogram:
        return cls((), np.zeros((0, BUCKETS), np.int64))

    @classmethod
    def of(cls, labels: pa.Array, ranks: batch.UInt64Array) -> Histogram:
        """Counts the rows of a batch: labels string[n], ranks uint64[n]."""
        codes, names = batch.encode(labels)
        k = len(names)
        codes = np.where(codes < 0, k, codes)  # records without label come last
        cells = codes * BUCKETS + (ranks >> np.uint64(56)).astype(np.int64)
        counts = np.bincount(cells, minlength=(k + 1) * BUCKETS).reshape(k + 1, BUCKETS)
        if counts[k].any():
            return cls((*names.to_pylist(), None), counts)
        return cls(tuple(names.to_pylist()), counts[:k])

    @classmethod
    def sum(cls, parts: Iterable[Histogram]) -> Histogram:
        """Adds histograms up; the order of the labels does not depend on the order of the parts."""
        kept = [part for part in parts if part.labels]
        labels = sorted({label for part in kept for label in part.labels}, key=_by_utf8)
        row = {label: i for i, label in enumerate(labels)}
        counts = np.zeros((len(labels), BUCKETS), np.int64)
        for part in kept:
            counts[[row[label] for label in part.labels]] += part.counts
        return cls(tuple(labels), counts)

    def totals(self) -> dict[str | None, int]:
        """{label: records}"""
        return dict(zip(self.labels, self.counts.sum(axis=1).tolist(), strict=True))


def _by_utf8(label: str | None) -> tuple[bool, bytes]:
    return label is None, (label or "").encode()


@dataclasses.dataclass(frozen=True, order=True)
class Threshold:
    """Where a cut ends: the (rank, key) of its last record. Keys are not empty, so (rank, "") ends
    it before `rank`; rank -1 is before all records, 2^64 after all of them.
    """

    rank: int
    key: str = ""


NOTHING = Threshold(-1)


@dataclasses.dataclass(frozen=True)
class RankCut:
    """The records of a class with the smallest (rank, key): whole buckets, and `inside` records of
    the boundary bucket (0: none of it, and no rows have to meet).
    """

    boundary: int
    inside: int

    @classmethod
    def of(cls, counts: Counts, size: int) -> RankCut:
        """counts int64[BUCKETS] of one class; size 0 .. counts.sum()."""
        reached = np.cumsum(counts)
        if not 0 <= size <= reached[-1]:
            raise ValueError(f"a cut of {size} records out of {reached[-1]}")
        boundary = int(np.searchsorted(reached, size, side="right"))
        return cls(boundary, size - (int(reached[boundary - 1]) if boundary else 0))

    def threshold(self) -> Threshold | None:
        """The threshold, where whole buckets give it; None where rows have to meet."""
        if self.inside:
            return None
        return Threshold(self.boundary << 56) if self.boundary else NOTHING


def boundary_rows(
    labels: pa.Array,
    ranks: batch.UInt64Array,
    keys: pa.Array,
    cuts: Mapping[str, Sequence[RankCut]],
) -> Iterable[tuple[str, pa.RecordBatch]]:
    """The rows that decide: per label the (rank uint64, key string) in a boundary bucket of it."""
    codes, names = batch.encode(labels)
    wanted = np.zeros((len(names) + 1, BUCKETS), bool)
    for code, name in enumerate(names.to_pylist()):
        for cut in cuts.get(name, ()):
            if cut.inside:
                wanted[code, cut.boundary] = True
    rows = np.flatnonzero(wanted[codes, (ranks >> np.uint64(56)).astype(np.int64)])
    rows = rows[stable_order(codes[rows])]
    starts = np.flatnonzero(np.diff(codes[rows], prepend=-2))
    for part in np.split(rows, starts[1:]):
        if len(part):
            columns = {"rank": pa.array(ranks[part]), "key": keys.take(pa.array(part))}
            yield names[int(codes[part[0]])].as_py(), pa.RecordBatch.from_pydict(columns)


def thresholds(cuts: Sequence[RankCut], met: pa.RecordBatch | None) -> tuple[Threshold, ...]:
    """The last record of each cut of one class, given all its boundary rows."""
    return tuple(cut.threshold() or _last(cut, met) for cut in cuts)


def _last(cut: RankCut, met: pa.RecordBatch | None) -> Threshold:
    assert met is not None, "a cut through a bucket whose rows did not meet"
    ranks = np.asarray(met["rank"])
    inside = np.flatnonzero((ranks >> np.uint64(56)) == np.uint64(cut.boundary))
    ordered = sorted(
        zip(ranks[inside].tolist(), met["key"].take(pa.array(inside)).to_pylist(), strict=True)
    )
    return Threshold(*ordered[cut.inside - 1])


def within(
    codes: npt.NDArray[np.int64],
    ranks: batch.UInt64Array,
    keys: pa.Array,
    last: Sequence[Threshold],
) -> npt.NDArray[np.bool_]:
    """bool[n]: whether each row belongs to the cut of its class; `last[codes[i]]` ends it.

    Equal ranks are told apart by their keys, so a hash that repeats does not matter.
    """
    # Python's ints reach one below and one above uint64: two flags carry those.
    limits = np.array([min(max(t.rank, 0), 2**64 - 1) for t in last], np.uint64)[codes]
    none = np.array([t.rank < 0 for t in last], bool)[codes]
    whole = np.array([t.rank >= 2**64 for t in last], bool)[codes]
    chosen = (ranks <= limits) & ~none
    for row in np.flatnonzero(chosen & (ranks == limits) & ~whole):
        chosen[row] = keys[int(row)].as_py() <= last[codes[row]].key
    return np.asarray(chosen, bool)
