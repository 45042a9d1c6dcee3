"""Cuts by rank: selection of the `size` records of smallest rank of each class, without a sort.

Undersampling, oversampling and stratified splits all need this selection. A histogram of the top
byte of the ranks locates it: all buckets below the boundary bucket belong to the cut, none above
it, and only the rows of the boundary bucket are gathered to find the last record of the cut.
"""

from __future__ import annotations

import dataclasses
import zlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import stable_order
from recordmill.transforms.model import batch

BUCKETS = 256

Counts = npt.NDArray[np.int64]


@dataclasses.dataclass(frozen=True)
class Histogram:
    """Numbers of records by class and top byte of their rank.

    labels: the classes; None stands for records without a label. counts: int64[k, BUCKETS], a row
    per label.
    """

    labels: tuple[str | None, ...]
    counts: Counts

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle compressed counts: most are 0, and Flink fails on large elements."""
        return _unpack, (self.labels, zlib.compress(self.counts.tobytes(), 1))

    @classmethod
    def empty(cls) -> Histogram:
        """Return the histogram of no records."""
        return cls((), np.zeros((0, BUCKETS), np.int64))

    @classmethod
    def of(cls, labels: pa.Array, ranks: batch.UInt64Array) -> Histogram:
        """Count the rows of a batch. labels: string[n]. ranks: uint64[n]."""
        codes, names = batch.encode(labels)
        k = len(names)
        codes = np.where(codes < 0, k, codes)  # records without label come last
        cells = codes * BUCKETS + (ranks >> np.uint64(56)).astype(np.int64)
        counts = np.bincount(cells, minlength=(k + 1) * BUCKETS).reshape(k + 1, BUCKETS)
        if counts[k].any():
            return cls((*names.to_pylist(), None), counts)
        return cls(tuple(names.to_pylist()), counts[:k])

    @classmethod
    def of_ranked(cls, ranked: pa.RecordBatch) -> Histogram:
        """Count rows with the columns (label, rank)."""
        return cls.of(ranked["label"], np.asarray(ranked["rank"]))

    @classmethod
    def sum(cls, parts: Iterable[Histogram]) -> Histogram:
        """Add histograms up; labels are sorted, whatever the order of the parts."""
        kept = [part for part in parts if part.labels]
        labels = sorted({label for part in kept for label in part.labels}, key=_by_utf8)
        row = {label: i for i, label in enumerate(labels)}
        counts = np.zeros((len(labels), BUCKETS), np.int64)
        for part in kept:
            counts[[row[label] for label in part.labels]] += part.counts
        return cls(tuple(labels), counts)

    def totals(self) -> dict[str | None, int]:
        """Return {label: number of records}."""
        return dict(zip(self.labels, self.counts.sum(axis=1).tolist(), strict=True))


def _unpack(labels: tuple[str | None, ...], packed: bytes) -> Histogram:
    counts = np.frombuffer(zlib.decompress(packed), np.int64)
    return Histogram(labels, counts.reshape(len(labels), BUCKETS))


def _by_utf8(label: str | None) -> tuple[bool, bytes]:
    return label is None, (label or "").encode()


@dataclasses.dataclass(frozen=True, order=True)
class Threshold:
    """The end of a cut: the (rank, key) of its last record.

    Keys are not empty, so (rank, "") ends a cut before all records of that rank. Rank -1 is before
    all records, rank 2^64 after all of them.
    """

    rank: int
    key: str = ""


BEFORE_ALL = Threshold(-1)


@dataclasses.dataclass(frozen=True)
class RankCut:
    """A cut of a class: its records with the smallest (rank, key).

    boundary: the bucket in which the cut ends; all buckets before it belong to the cut. inside:
    number of records of the boundary bucket that belong to it. If it is 0, the threshold is known
    without any rows.
    """

    boundary: int
    inside: int

    @classmethod
    def of(cls, counts: Counts, size: int) -> RankCut:
        """Return the cut of `size` records, given int64[BUCKETS], the histogram of one class.

        Raises:
          ValueError: the class has fewer than `size` records.
        """
        reached = np.cumsum(counts)
        if not 0 <= size <= reached[-1]:
            raise ValueError(f"a cut of {size} records out of {reached[-1]}")
        boundary = int(np.searchsorted(reached, size, side="right"))
        return cls(boundary, size - (int(reached[boundary - 1]) if boundary else 0))

    def threshold(self) -> Threshold | None:
        """Return the threshold of a cut of whole buckets; None if it needs the boundary rows."""
        if self.inside:
            return None
        return Threshold(self.boundary << 56) if self.boundary else BEFORE_ALL


def boundary_rows(
    labels: pa.Array,
    ranks: batch.UInt64Array,
    keys: pa.Array,
    cuts: Mapping[str, Sequence[RankCut]],
) -> Iterable[tuple[str, pa.RecordBatch]]:
    """Yield (label, rows in a boundary bucket of its cuts), with columns (rank uint64, key string).

    labels: string[n]. ranks: uint64[n]. keys: string[n].
    """
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


def thresholds(cuts: Sequence[RankCut], boundary: pa.RecordBatch | None) -> tuple[Threshold, ...]:
    """Return the threshold of each cut of one class.

    boundary: all its boundary rows, with columns (rank, key); None if no cut needs them.
    """
    return tuple(cut.threshold() or _last(cut, boundary) for cut in cuts)


def _last(cut: RankCut, boundary: pa.RecordBatch | None) -> Threshold:
    assert boundary is not None, "a cut through a bucket whose rows were not gathered"
    ranks = np.asarray(boundary["rank"])
    inside = np.flatnonzero((ranks >> np.uint64(56)) == np.uint64(cut.boundary))
    keys = boundary["key"].take(pa.array(inside))
    ordered = sorted(zip(ranks[inside].tolist(), keys.to_pylist(), strict=True))
    return Threshold(*ordered[cut.inside - 1])


def within(
    codes: npt.NDArray[np.int64],
    ranks: batch.UInt64Array,
    keys: pa.Array,
    last: Sequence[Threshold],
) -> npt.NDArray[np.bool_]:
    """Return bool[n], true for rows that belong to the cut of their class.

    codes: int64[n], the class of each row. ranks: uint64[n]. keys: string[n]. last: the threshold
    of each class. Rows of equal rank are compared by key, so that equal hashes do not matter.
    """
    # Ranks -1 and 2^64 do not fit into uint64, so two flags stand for them.
    limits = np.array([min(max(t.rank, 0), 2**64 - 1) for t in last], np.uint64)[codes]
    none = np.array([t.rank < 0 for t in last], bool)[codes]
    whole = np.array([t.rank >= 2**64 for t in last], bool)[codes]
    chosen = (ranks <= limits) & ~none
    for row in np.flatnonzero(chosen & (ranks == limits) & ~whole):
        chosen[row] = keys[int(row)].as_py() <= last[codes[row]].key
    return np.asarray(chosen, bool)
