"""Annotations of images in a table with a row per image."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence

import pyarrow as pa

from recordmill.errors import Reject
from recordmill.transforms.model.annotations import Annotated, Indices


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotationTable:
    """Annotations of COCO or of a CSV file, all of them in memory.

    names: of the images; table: their annotations, a row per image; faults: {row: what is invalid}.
    classes: in the order of their numbers. rejects: annotations without an image.
    by_stem: names match images by their paths without extensions.
    """

    names: Sequence[str]
    table: pa.RecordBatch
    faults: Mapping[int, str]
    classes: tuple[str, ...]
    rejects: Sequence[Reject]
    notes: Sequence[str] = ()
    by_stem: bool = False

    @property
    def fields(self) -> pa.Schema:
        """The columns of the table."""
        return self.table.schema

    def read(self, which: Indices) -> Annotated:
        """Return the annotations of some images."""
        faults = {n: self.faults[i] for n, i in enumerate(which.tolist()) if i in self.faults}
        return Annotated(columns=self.table.take(pa.array(which)), faults=faults)

    def labels(self) -> tuple[str, ...]:
        """Return the classes."""
        return self.classes
