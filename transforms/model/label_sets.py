"""Pictures that hold objects of several classes: which one counts, how often one is to come, and
which of them are alike.

A picture is balanced by one of its classes, so that all that is exact for records of one class is
exact for those of several.
"""

from __future__ import annotations

import dataclasses
import heapq
import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import CLASS, CORNER_NAMES, OBJECTS, Indices

PictureClass = Literal["rarest", "largest"]
LabelSet = tuple[str, ...]  # the classes of a picture, each once, sorted by UTF-8


@dataclasses.dataclass
class LabelCounts:
    """How many pictures hold each class, and each set of classes."""

    by_class: Counter[str] = dataclasses.field(default_factory=Counter)
    by_set: Counter[LabelSet] = dataclasses.field(default_factory=Counter)

    def add(self, sets: Iterable[LabelSet]) -> None:
        counted = Counter(sets)
        self.by_set.update(counted)
        for classes, n in counted.items():
            self.by_class.update(dict.fromkeys(classes, n))

    @property
    def pictures(self) -> int:
        return self.by_set.total()


def sets_of(columns: pa.RecordBatch) -> list[LabelSet]:
    """The classes of each picture's objects."""
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
    """Of each object the picture that it is in."""
    counts = np.asarray(pc.list_value_length(objects)).astype(np.int64)
    return np.repeat(np.arange(len(counts)), counts)


def rarest(sets: Sequence[LabelSet], counts: LabelCounts) -> list[str | None]:
    """Of each picture the class that the fewest pictures hold, of equal ones the first by name;
    None of one without objects.
    """
    ranks = {name: (n, name.encode()) for name, n in counts.by_class.items()}
    of_set = {one: min(one, key=ranks.__getitem__, default=None) for one in set(sets)}
    return [of_set[one] for one in sets]


def largest(columns: pa.RecordBatch) -> list[str | None]:
    """Of each picture the class of its largest box, of equal ones the first; None without one."""
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
    """How often a picture is to come whose rarest class is in such a fraction of the pictures.

    Source: Gupta, Dollar, Girshick: LVIS, 2019 (https://arxiv.org/abs/1908.03195), appendix A:
    max(1, sqrt(threshold / frequency)); of a picture it is the largest of its classes'.
    """
    return max(1.0, math.sqrt(threshold / frequency))


@dataclasses.dataclass(frozen=True)
class RepeatFactors:
    """Classes come as often as their repeat factor says: on the whole exactly, to half a record."""

    threshold: float

    def wanted(self, counts: Mapping[str, int], held: Held) -> dict[str, int]:
        """{class: records wanted} from {class: records that count as it}, and what they hold."""
        return {
            name: math.floor(
                n * repeat_factor(held.frequency(name), threshold=self.threshold) + 0.5
            )
            for name, n in counts.items()
        }


@dataclasses.dataclass(frozen=True)
class Held:
    """How many records there are, and how many of them hold each class."""

    records: int
    by_class: Mapping[str, int]

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> Held:
        """By their column of classes, or where there is none by their class."""
        names = rows[batch.LABEL]
        if batch.CLASSES in rows.schema.names:
            names = rows[batch.CLASSES].flatten()
        codes, distinct = batch.encode(names)
        counts = np.bincount(codes[codes >= 0], minlength=len(distinct)).tolist()
        return cls(len(rows), dict(zip(distinct.to_pylist(), counts, strict=True)))

    @staticmethod
    def sum(parts: Iterable[Held]) -> Held:
        total: Counter[str] = Counter()
        records = 0
        for part in parts:
            records += part.records
            total.update(part.by_class)
        return Held(records, total)

    def frequency(self, name: str) -> float:
        """The fraction of the records that hold a class."""
        return self.by_class[name] / self.records


def strata(by_set: Mapping[LabelSet, int], *, least: int) -> dict[LabelSet, str]:
    """{label set: its stratum}, of at least so many pictures as long as there are as many in all.

    The stratum of a set that is rarer is that of the set without its most frequent class, so that
    what is rare stays together; in the end the two smallest are joined until none is too small.
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
    return {one: json.dumps(_end(one, into), ensure_ascii=False) for one in sorted(by_set)}


def _end(one: LabelSet, into: Mapping[LabelSet, LabelSet]) -> LabelSet:
    while one in into:
        one = into[one]
    return one
