"""Label sets of images with objects of several classes, for balancing and stratified splits.

Each image is balanced as a member of one of its classes, so the exact counts of balancing by class
hold for images with several classes too.
"""

from __future__ import annotations

import dataclasses
import heapq
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill import strict_json
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import CLASS, CORNER_NAMES, OBJECTS, Indices
from recordmill.transforms.model.label_lists import held

ImageClass = Literal["rarest", "largest"]
LabelSet = tuple[str, ...]  # the distinct classes of an image, sorted by UTF-8


@dataclasses.dataclass
class LabelCounts:
    """Number of images per class and per label set."""

    by_class: Counter[str] = dataclasses.field(default_factory=Counter)
    by_set: Counter[LabelSet] = dataclasses.field(default_factory=Counter)

    def add(self, sets: Iterable[LabelSet]) -> None:
        """Count the label sets of further images."""
        counted = Counter(sets)
        self.by_set.update(counted)
        for classes, n in counted.items():
            self.by_class.update(dict.fromkeys(classes, n))

    @property
    def images(self) -> int:
        return self.by_set.total()


def sets_of(columns: pa.RecordBatch) -> list[LabelSet]:
    """Return the label set of each image."""
    objects = columns[OBJECTS]
    names = objects.flatten().field(CLASS)
    codes, distinct = batch.encode(names)
    order = np.argsort(np.array([name.encode() for name in distinct.to_pylist()], object))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    k = max(len(order), 1)
    cells = np.unique(_rows(objects) * k + (place[codes] if len(codes) else codes))
    ordered = distinct.take(pa.array(order)).to_pylist()
    edges = np.searchsorted(cells, np.arange(len(columns) + 1) * k)
    held = (cells % k).tolist()
    return [
        tuple(ordered[code] for code in held[start:end])
        for start, end in zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)
    ]


def _rows(objects: pa.ListArray) -> Indices:
    """Return the row of the image that each object is in: int64[objects]."""
    counts = np.asarray(pc.list_value_length(objects)).astype(np.int64)
    return np.repeat(np.arange(len(counts)), counts)


def rarest(sets: Sequence[LabelSet], counts: LabelCounts) -> list[str | None]:
    """Return for each image its class that the fewest images hold; None for an image without
    objects.

    Ties go to the first class by UTF-8.
    """
    ranks = {name: (n, name.encode()) for name, n in counts.by_class.items()}
    of_set = {one: min(one, key=ranks.__getitem__, default=None) for one in set(sets)}
    return [of_set[one] for one in sets]


def largest(columns: pa.RecordBatch) -> list[str | None]:
    """Return the class of each image's largest box, the first of equally large ones; None without a
    box.
    """
    objects = columns[OBJECTS]
    flat = objects.flatten()
    left, top, right, bottom = (np.asarray(flat.field(name)) for name in CORNER_NAMES)
    areas, rows = (right - left) * (bottom - top), _rows(objects)
    order = np.lexsort((np.arange(len(rows)), -areas, rows))
    firsts = order[np.flatnonzero(np.diff(rows[order], prepend=-1))]
    found: list[str | None] = [None] * len(columns)
    for row, name in zip(
        rows[firsts].tolist(), flat.field(CLASS).take(pa.array(firsts)), strict=True
    ):
        found[row] = name.as_py()
    return found


def repeat_factor(frequency: float, *, threshold: float) -> float:
    """Return the repeat factor of an image whose rarest class is in this fraction of all images.

    Source: Gupta, Dollar, Girshick: LVIS, 2019 (https://arxiv.org/abs/1908.03195), appendix A: the
        repeat factor of a class is max(1, sqrt(threshold / frequency)), and that of an image is the
        largest of its classes'.
    """
    return max(1.0, math.sqrt(threshold / frequency))


@dataclasses.dataclass(frozen=True)
class RepeatFactors:
    """Balance that repeats records by their class's repeat factor, rounding the total of each
    class.
    """

    threshold: float

    def wanted(self, counts: Mapping[str, int], held: Held) -> dict[str, int]:
        """Return {class: records wanted}, given {class: records assigned to it} and the classes
        held.
        """
        return {
            name: math.floor(
                n * repeat_factor(held.frequency(name), threshold=self.threshold) + 0.5
            )
            for name, n in counts.items()
        }


@dataclasses.dataclass(frozen=True)
class Held:
    """Number of records in total and of records that hold each class."""

    records: int
    by_class: Mapping[str, int]

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Held:
        """Count rows by their columns of classes or labels, or else by their label."""
        names = held(rows)
        if batch.CLASSES in rows.schema.names:
            names = rows[batch.CLASSES].flatten()
        codes, distinct = batch.encode(names)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct)).tolist()
        return cls(len(rows), dict(zip(distinct.to_pylist(), counts, strict=True)))

    @staticmethod
    def sum(parts: Iterable[Held]) -> Held:
        """Add the counts of several parts."""
        total: Counter[str] = Counter()
        records = 0
        for part in parts:
            records += part.records
            total.update(part.by_class)
        return Held(records, total)

    def frequency(self, name: str) -> float:
        """Return the fraction of records that hold a class."""
        return self.by_class[name] / self.records


def strata(by_set: Mapping[LabelSet, int], *, least: int) -> dict[LabelSet, str]:
    """Return {label set: stratum} with at least `least` images per stratum, if there are that many.

    A label set with fewer images joins the set without its most frequent class, so that its rare
    classes stay together. In the end the two smallest strata are joined until each is large enough.
    """
    by_class: Counter[str] = Counter()
    for classes, n in by_set.items():
        by_class.update(dict.fromkeys(classes, n))
    totals = Counter(by_set)
    into: dict[LabelSet, LabelSet] = {}

    def join(one: LabelSet, other: LabelSet) -> None:
        into[one] = other
        totals[other] += totals.pop(one)

    for size in range(max(map(len, by_set), default=0), 1, -1):
        for one in sorted(one for one in totals if len(one) == size and totals[one] < least):
            frequent = max(one, key=lambda name: (by_class[name], name))
            join(one, tuple(name for name in one if name != frequent))
    while len(totals) > 1 and min(totals.values()) < least:
        smallest, other = heapq.nsmallest(2, totals, key=lambda one: (totals[one], one))
        join(smallest, other)
    return {one: strict_json.to_text(_end(one, into)) for one in sorted(by_set)}


def _end(one: LabelSet, into: Mapping[LabelSet, LabelSet]) -> LabelSet:
    """Return the label set that a label set was joined to in the end."""
    while one in into:
        one = into[one]
    return one
