"""Passes over a stored listing: each reads it anew, which is cheaper than keeping what was read.

A pass that needs a side input has to wait for it before it reads. Where only a later step of the
pass took the side input, the runner would run the reading early and keep all rows in memory until
the side input is there.
"""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput, AsSingleton

from recordmill.staging import Part, Staging
from transforms import coders  # noqa: F401  (registers the batch's coder)
from transforms.listing import SYSTEM, read_part
from transforms.splits import Strata, assign, assign_strata


class Read(Protocol):
    """Gives the batches for a pass: its label, and the side input it has to wait for."""

    def __call__(
        self, label: str, after: AsSideInput | None = None
    ) -> beam.PCollection[pa.RecordBatch]: ...


def read_again(batches: beam.PCollection[pa.RecordBatch]) -> Read:
    """Passes over what is no stored listing: the runner keeps it."""

    def read(label: str, after: AsSideInput | None = None) -> beam.PCollection[pa.RecordBatch]:
        del label, after
        return batches

    return read


def _read_after(
    part: Part, after: object, *, staging: Staging, columns: Sequence[str] | None
) -> pa.RecordBatch:
    del after
    return read_part(part, staging=staging, columns=columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitReader:
    """Reads the parts of a listing, and gives their rows their splits."""

    staging: Staging
    fractions: Mapping[str, float]
    seed: int

    def read(
        self, part: Part, strata: Strata | None = None, *, columns: Sequence[str] | None = SYSTEM
    ) -> pa.RecordBatch:
        """The rows of a part; by default just what planning needs of them."""
        return self.split(read_part(part, staging=self.staging, columns=columns), strata)

    def split(self, rows: pa.RecordBatch, strata: Strata | None = None) -> pa.RecordBatch:
        """The rows with their splits."""
        if strata is None:
            return assign(rows, fractions=self.fractions, seed=self.seed)
        return assign_strata(rows, fractions=self.fractions, strata=strata, seed=self.seed)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passes:
    """Passes over the parts of a listing.

    strata: a side input, where splits are stratified.
    """

    parts: beam.PCollection[Part]
    reader: SplitReader
    strata: AsSingleton | None = None

    @property
    def sides(self) -> list[AsSideInput]:
        """What the reader takes after a part."""
        return [] if self.strata is None else [self.strata]

    def read(
        self,
        label: str,
        after: AsSideInput | None = None,
        *,
        columns: Sequence[str] = SYSTEM,
    ) -> beam.PCollection[pa.RecordBatch]:
        """What planning needs of the batches, as they were listed."""
        options = {"staging": self.reader.staging, "columns": columns}
        step = beam.Map(read_part, **options)
        if after is not None:
            step = beam.Map(_read_after, after, **options)
        return self.parts | label >> step.with_output_types(pa.RecordBatch)

    def read_split(
        self, label: str, after: AsSideInput | None = None
    ) -> beam.PCollection[pa.RecordBatch]:
        """What planning needs of the batches, with their splits."""
        rows = self.read(label, after or self.strata)
        step = beam.Map(self.reader.split, *self.sides).with_output_types(pa.RecordBatch)
        return rows | f"{label}AssignSplits" >> step
