"""Statistics of a dataset, by split and by class, from its records before anything is made of them.

Whatever is counted is counted exactly or by sketches that do not depend on the order in which parts
are added up, so that the published file is the same on any runner.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.order import stable_order
from transforms import batch
from transforms.column_statistics import Column, ColumnStatistics
from transforms.user_columns import user_fields

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
    """What is counted of records by slice. classes: whether those of each class are, too: there
    have been no more than CLASSES.
    """

    slices: Mapping[Slice, SliceStatistics] = dataclasses.field(default_factory=dict)
    classes: bool = True

    @classmethod
    def of(cls, rows: pa.RecordBatch, columns: Mapping[str, pa.Array]) -> Statistics:
        """Of the columns of one part, whose rows have their splits; copies are not among them."""
        splits, names = batch.encode(rows[batch.SPLIT])
        labels, classes = batch.encode(rows[batch.LABEL])
        few = len(classes) <= CLASSES
        width = len(classes) + 1 if few else 1
        cells = splits * width + (labels + 1 if few else 0)
        order = stable_order(cells)
        edges = np.searchsorted(cells[order], np.arange(len(names) * width + 1)).tolist()
        split_names, class_names = names.to_pylist(), [None, *classes.to_pylist()]
        found: dict[Slice, dict[str, ColumnStatistics]] = {}
        indices = pa.array(order)
        for name, values in columns.items():
            column = Column(values.take(indices))
            for place, split in enumerate(split_names):
                own = edges[place * width : (place + 1) * width + 1]
                groups = {
                    label: column.count(start, end, most=_OF_CLASS)
                    for label, start, end in zip(class_names, own[:-1], own[1:], strict=False)
                    if start < end
                }
                # What comes often in a split need not come often in its classes.
                top = column.top(own[0], own[-1], most=_OF_SPLIT)
                whole = ColumnStatistics.sum(
                    [dataclasses.replace(one, top=None) for one in groups.values()]
                )
                found.setdefault(Slice(split), {})[name] = dataclasses.replace(whole, top=top)
                for label, one in groups.items() if few else ():
                    if label is not None:
                        found.setdefault(Slice(split, label), {})[name] = one
        counts = _records(split_names, class_names, edges, width)
        slices = {
            place: SliceStatistics(records=counts[place], columns=one)
            for place, one in found.items()
        }
        return cls(slices=slices, classes=few)

    @classmethod
    def sum(cls, several: Iterable[Statistics]) -> Statistics:
        """Adds statistics up, in whatever order they come."""
        parts = [part for part in several if part.slices]
        names = {place.label for part in parts for place in part.slices} - {None}
        classes = len(names) <= CLASSES and all(part.classes for part in parts)
        found: dict[Slice, list[SliceStatistics]] = {}
        for part in parts:
            for place, one in part.slices.items():
                if classes or place.label is None:
                    found.setdefault(place, []).append(one)
        slices = {place: SliceStatistics.sum(some) for place, some in found.items()}
        return cls(slices=slices, classes=classes)

    def whole(self) -> SliceStatistics:
        """Of all splits together, of which there is one at least."""
        splits = sorted(place for place in self.slices if place.label is None)
        return SliceStatistics.sum(self.slices[place] for place in splits)


def _records(
    splits: list[str], classes: list[str | None], edges: list[int], width: int
) -> dict[Slice, int]:
    """Records of each slice."""
    counts = {}
    for place, split in enumerate(splits):
        own = edges[place * width : (place + 1) * width + 1]
        counts[Slice(split)] = own[-1] - own[0]
        for number in range(1, width):
            counts[Slice(split, classes[number])] = own[number + 1] - own[number]
    return counts
