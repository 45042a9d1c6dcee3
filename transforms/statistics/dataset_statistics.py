"""Statistics of the source records of a dataset, by split and class.

All statistics are exact, or sketches that do not depend on the order in which parts are added, so
the published file is the same on every runner.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import stable_order
from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.statistics.column_statistics import (
    Columns,
    ColumnStatistics,
    number_columns,
)
from recordmill.transforms.statistics.moments import Moments
from recordmill.transforms.statistics.number_table import NumberTable
from recordmill.transforms.statistics.sketches import TopValues

LABEL = "label"  # name of the class column in statistics
CLASSES = 64  # with more classes there are no statistics per class

_TOGETHER = 1 << 22  # bytes of columns that are counted together: few calls save more than caches
_OF_SPLIT, _OF_CLASS = 4096, 256  # distinct texts that are counted exactly


def columns_of(
    rows: pa.RecordBatch, made: pa.RecordBatch | None, *, labelled: bool
) -> dict[str, pa.Array]:
    """Return the columns that statistics and schemas cover, {name: column}.

    These are the columns of the user, the class, and the columns in `made`, which are read from the
    files that rows name.

    labelled: there are classes; no other column is then named `label`.
    """
    columns = {field.name: rows[field.name] for field in user_fields(rows.schema)}
    if made is not None:
        columns |= {name: made[name] for name in made.schema.names}
    if labelled:
        several = batch.LABELS in rows.schema.names
        columns[LABEL] = rows[batch.LABELS if several else batch.LABEL]
    return columns


class Slice(NamedTuple):
    """Records of a split, or of one class in a split."""

    split: str
    label: str | None = None

    @property
    def name(self) -> str:
        """Name in the statistics of the dataset."""
        return self.split if self.label is None else f"{self.split}/{LABEL}={self.label}"


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class SliceStatistics:
    """Number of records of a slice, and the statistics of their columns.

    names: names of all columns, in order.
    numbers: statistics of the columns of numbers by the names of the columns, a table per type.
    texts: statistics of the other columns by name.
    """

    records: int
    names: tuple[str, ...]
    numbers: Mapping[tuple[str, ...], NumberTable]
    texts: Mapping[str, ColumnStatistics]

    @classmethod
    def sum(cls, several: Iterable[SliceStatistics]) -> SliceStatistics:
        """Add the statistics of the same columns over several groups of records."""
        parts = list(several)
        first = parts[0]
        return cls(
            records=sum(part.records for part in parts),
            names=first.names,
            numbers={
                names: NumberTable.sum([part.numbers[names] for part in parts])
                for names in first.numbers
            },
            texts={
                name: ColumnStatistics.sum([part.texts[name] for part in parts])
                for name in first.texts
            },
        )

    @classmethod
    def join(cls, several: Sequence[SliceStatistics], names: Sequence[str]) -> SliceStatistics:
        """Join the statistics of the same records over groups of columns, at least one.

        names: of all columns, in order.
        """
        return cls(
            records=several[0].records,
            names=tuple(names),
            numbers={key: table for one in several for key, table in one.numbers.items()},
            texts={name: column for one in several for name, column in one.texts.items()},
        )

    def without_histograms(self) -> SliceStatistics:
        """Return the statistics without the histograms, which take most of the memory."""
        numbers = {names: table.without_histograms() for names, table in self.numbers.items()}
        return dataclasses.replace(self, numbers=numbers)

    @functools.cached_property
    def columns(self) -> Mapping[str, ColumnStatistics]:
        """Statistics of each column by name."""
        found = dict(self.texts)
        for names, table in self.numbers.items():
            found.update(zip(names, number_columns(table), strict=True))
        return {name: found[name] for name in self.names}


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Statistics:
    """Statistics of records by split and class.

    cells: disjoint slices. A slice without a class has the records without a class, or all records
        of the split if there are no statistics per class.
    tops: top values by slice and column. They are counted for splits separately, because the top
        values of a split cannot be derived from those of its classes.
    classes: there are statistics per class, as there have been no more than CLASSES of them, and
        records have one class at most.
    """

    cells: Mapping[Slice, SliceStatistics] = dataclasses.field(default_factory=dict)
    tops: Mapping[tuple[Slice, str], TopValues] = dataclasses.field(default_factory=dict)
    classes: bool = True

    @classmethod
    def of(cls, rows: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> Statistics:
        """Compute the statistics of one part whose rows have their splits; it has no copies."""
        if not len(rows):
            return cls()
        splits, names = batch.encode(rows[batch.SPLIT])
        labels, classes = batch.encode(rows[batch.LABEL])
        # A record with several labels would be in several slices.
        few = len(classes) <= CLASSES and batch.LABELS not in rows.schema.names
        width = len(classes) + 1 if few else 1
        places = splits * width + (labels + 1 if few else 0)
        order = stable_order(places)
        records = np.bincount(places)
        filled = np.flatnonzero(records)
        edges = np.append(0, np.cumsum(records[filled]))
        split_names, class_names = names.to_pylist(), [None, *classes.to_pylist()]
        cells = [Slice(split_names[n // width], class_names[n % width]) for n in filled.tolist()]
        slices = _spans(cells, edges.tolist())
        texts: dict[str, list[ColumnStatistics]] = {}
        by_type: dict[pa.DataType, list[NumberTable]] = {}
        tops = {}
        ordered = dict(sorted(columns.items()))  # parts may have the columns in other orders
        for group in _similar(ordered):
            column = Columns([columns[name] for name in group], order)
            if column.is_numeric:
                kind = columns[group[0]].type
                by_type.setdefault(kind, []).append(column.count_numbers(edges))
                continue
            texts |= zip(group, column.count_texts(edges), strict=True)
            for place, name in enumerate(group if column.type == "string" else ()):
                for key, (start, end) in slices.items():
                    most = _OF_SPLIT if key.label is None else _OF_CLASS
                    tops[key, name] = column.top(place, start, end, most=most)
        tables = {
            tuple(name for name, column in ordered.items() if column.type == kind): some
            for kind, some in by_type.items()
        }
        all_names = tuple(columns)
        counted = [
            SliceStatistics(
                records=number,
                names=all_names,
                numbers={
                    names: NumberTable.concat(
                        [one.take(np.arange(place, len(one), len(cells))) for one in some]
                    )
                    for names, some in tables.items()
                },
                texts={name: found[place] for name, found in texts.items()},
            )
            for place, number in enumerate(records[filled].tolist())
        ]
        return cls(cells=dict(zip(cells, counted, strict=True)), tops=tops, classes=few)

    @classmethod
    def sum(cls, several: Iterable[Statistics]) -> Statistics:
        """Add statistics; their order does not matter."""
        parts = [part for part in several if part.cells]
        names = {cell.label for part in parts for cell in part.cells} - {None}
        classes = len(names) <= CLASSES and all(part.classes for part in parts)
        cells: dict[Slice, list[SliceStatistics]] = {}
        tops: dict[tuple[Slice, str], list[TopValues]] = {}
        for part in parts:
            for cell, one in part.cells.items():
                cells.setdefault(cell if classes else Slice(cell.split), []).append(one)
            for (key, column), top in part.tops.items():
                if classes or key.label is None:
                    tops.setdefault((key, column), []).append(top)
        return cls(
            cells={cell: SliceStatistics.sum(some) for cell, some in cells.items()},
            tops={which: TopValues.sum(some) for which, some in tops.items()},
            classes=classes,
        )

    def moments(self, split: str) -> dict[str, Moments]:
        """Return the moments of the finite values of each column of numbers over a split."""
        found: dict[str, Moments] = {}
        for cell, one in self.cells.items():
            for names, table in one.numbers.items() if cell.split == split else ():
                for name, moments in zip(names, table.moments(), strict=True):
                    found[name] = found.get(name, Moments()) + moments
        return found

    @functools.cached_property
    def slices(self) -> dict[Slice, SliceStatistics]:
        """Statistics of each split and of each class in it."""
        found: dict[Slice, list[SliceStatistics]] = {}
        for cell, one in self.cells.items():
            found.setdefault(Slice(cell.split), []).append(one)
            if cell.label is not None:
                found[cell] = [one]
        slices = {key: SliceStatistics.sum(some) for key, some in found.items()}
        for key, one in slices.items():
            texts = {
                name: dataclasses.replace(column, top=self.tops.get((key, name)))
                for name, column in one.texts.items()
            }
            slices[key] = dataclasses.replace(one, texts=texts)
        return slices

    def whole(self) -> SliceStatistics:
        """Return the statistics of all splits together, of which there is at least one."""
        splits = [one for key, one in self.slices.items() if key.label is None]
        return SliceStatistics.sum(splits)


def _similar(columns: Mapping[str, pa.Array]) -> Iterator[list[str]]:
    """Yield groups of columns of the same type, of at most _TOGETHER bytes if possible."""
    by_type: dict[pa.DataType, list[str]] = {}
    for name, column in columns.items():
        by_type.setdefault(column.type, []).append(name)
    for names in by_type.values():
        group: list[str] = []
        held = 0
        for name in names:
            size = columns[name].nbytes
            if group and held + size > _TOGETHER:
                yield group
                group, held = [], 0
            group.append(name)
            held += size
        yield group


def _spans(cells: list[Slice], edges: list[int]) -> dict[Slice, tuple[int, int]]:
    """Return the range of rows of each split and class; rows are in the order of cells."""
    spans: dict[Slice, tuple[int, int]] = {}
    for cell, start, end in zip(cells, edges[:-1], edges[1:], strict=True):
        split = Slice(cell.split)
        spans[split] = spans.get(split, (start, end))[0], end
        if cell.label is not None:
            spans[cell] = start, end
    return spans
