"""Statistics of a dataset, by split and by class, from its records before anything is made of them.

Whatever is counted is counted exactly or by sketches that do not depend on the order in which parts
are added up, so that the published file is the same on any runner.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.stable_order import stable_order
from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.statistics.column_statistics import Column, ColumnStatistics
from recordmill.transforms.statistics.sketches import TopValues

LABEL = "label"  # what the class is called beside the user's columns
CLASSES = 64  # where there are more, none is counted by itself

_OF_SPLIT, _OF_CLASS = 4096, 256  # different texts that are counted exactly


def columns_of(
    rows: pa.RecordBatch, made: pa.RecordBatch | None, *, labelled: bool
) -> dict[str, pa.Array]:
    """What statistics and schemas are about: the user's columns, the class, and what was made.

    made: columns read from the files that rows name. labelled: whether there are classes; then no
    other column has the name of theirs.
    """
    columns = {field.name: rows[field.name] for field in user_fields(rows.schema)}
    if made is not None:
        columns |= {name: made[name] for name in made.schema.names}
    if labelled:
        columns[LABEL] = rows[batch.LABEL]
    return columns


class Slice(NamedTuple):
    """Records of a split, or those of one class in it."""

    split: str
    label: str | None = None

    @property
    def name(self) -> str:
        """As the statistics of the dataset have it."""
        return self.split if self.label is None else f"{self.split}/{LABEL}={self.label}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SliceStatistics:
    """records: of the slice. columns: what is counted of each, by name."""

    records: int
    columns: Mapping[str, ColumnStatistics]

    @classmethod
    def sum(cls, several: Iterable[SliceStatistics]) -> SliceStatistics:
        """Of the same columns over several groups of records."""
        parts = list(several)
        return cls(
            records=sum(part.records for part in parts),
            columns={
                name: ColumnStatistics.sum([part.columns[name] for part in parts])
                for name in parts[0].columns
            },
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """What is counted of records, by split and class.

    cells: no record is of two. That without a class is of the records that have none, or of all
    of the split where classes are not counted. tops: the top values of each slice, by its name and
    that of the column: what comes often in a split need not come often in its classes. classes:
    whether they are counted: there have been no more than CLASSES.
    """

    cells: Mapping[Slice, SliceStatistics] = dataclasses.field(default_factory=dict)
    tops: Mapping[tuple[Slice, str], TopValues] = dataclasses.field(default_factory=dict)
    classes: bool = True

    @classmethod
    def of(cls, rows: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> Statistics:
        """Of the columns of one part, whose rows have their splits; copies are not among them."""
        splits, names = batch.encode(rows[batch.SPLIT])
        labels, classes = batch.encode(rows[batch.LABEL])
        few = len(classes) <= CLASSES
        width = len(classes) + 1 if few else 1
        numbers = splits * width + (labels + 1 if few else 0)
        order = pa.array(stable_order(numbers))
        records = np.bincount(numbers)
        filled = np.flatnonzero(records)
        edges = np.append(0, np.cumsum(records[filled]))
        split_names, class_names = names.to_pylist(), [None, *classes.to_pylist()]
        cells = [Slice(split_names[n // width], class_names[n % width]) for n in filled.tolist()]
        slices = _spans(cells, edges.tolist())
        found: list[dict[str, ColumnStatistics]] = [{} for _ in cells]
        tops = {}
        for name, values in columns.items():
            column = Column(values, order)
            for own, one in zip(found, column.count(edges), strict=True):
                own[name] = one
            for place, (start, end) in slices.items() if column.type == "string" else ():
                most = _OF_SPLIT if place.label is None else _OF_CLASS
                tops[place, name] = column.top(start, end, most=most)
        counted = [
            SliceStatistics(records=number, columns=own)
            for number, own in zip(records[filled].tolist(), found, strict=True)
        ]
        return cls(cells=dict(zip(cells, counted, strict=True)), tops=tops, classes=few)

    @classmethod
    def sum(cls, several: Iterable[Statistics]) -> Statistics:
        """Adds statistics up, in whatever order they come."""
        parts = [part for part in several if part.cells]
        names = {cell.label for part in parts for cell in part.cells} - {None}
        classes = len(names) <= CLASSES and all(part.classes for part in parts)
        cells: dict[Slice, list[SliceStatistics]] = {}
        tops: dict[tuple[Slice, str], list[TopValues]] = {}
        for part in parts:
            for cell, one in part.cells.items():
                cells.setdefault(cell if classes else Slice(cell.split), []).append(one)
            for (place, column), top in part.tops.items():
                if classes or place.label is None:
                    tops.setdefault((place, column), []).append(top)
        return cls(
            cells={cell: SliceStatistics.sum(some) for cell, some in cells.items()},
            tops={which: TopValues.sum(some) for which, some in tops.items()},
            classes=classes,
        )

    @functools.cached_property
    def slices(self) -> dict[Slice, SliceStatistics]:
        """Of each split, and of each class in it."""
        found: dict[Slice, list[SliceStatistics]] = {}
        for cell, one in self.cells.items():
            found.setdefault(Slice(cell.split), []).append(one)
            if cell.label is not None:
                found[cell] = [one]
        slices = {place: SliceStatistics.sum(some) for place, some in found.items()}
        for place, one in slices.items():
            columns = {
                name: dataclasses.replace(column, top=self.tops.get((place, name)))
                for name, column in one.columns.items()
            }
            slices[place] = dataclasses.replace(one, columns=columns)
        return slices

    def whole(self) -> SliceStatistics:
        """Of all splits together, of which there is one at least."""
        splits = [one for place, one in self.slices.items() if place.label is None]
        return SliceStatistics.sum(splits)


def _spans(cells: list[Slice], edges: list[int]) -> dict[Slice, tuple[int, int]]:
    """The rows of each split, and of each class in it, which are in the order of cells."""
    spans: dict[Slice, tuple[int, int]] = {}
    for cell, start, end in zip(cells, edges[:-1], edges[1:], strict=True):
        split = Slice(cell.split)
        spans[split] = spans.get(split, (start, end))[0], end
        if cell.label is not None:
            spans[cell] = start, end
    return spans
