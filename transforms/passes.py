"""Passes over a stored listing: each reads it anew, which is cheaper than keeping what was read.

A pass that needs a side input has to wait for it before it reads. Where only a later step of the
pass took the side input, the runner would run the reading early and keep all rows in memory until
the side input is there. As it waits, it need not be told again which parts there are: whatever it
waits for was learned from all of them.
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


def _read(part: Part, *, staging: Staging, columns: Sequence[str] | None) -> pa.RecordBatch:
    return read_part(part.name, staging=staging, columns=columns)


def _read_after(
    name: str, after: object, *, staging: Staging, columns: Sequence[str] | None
) -> pa.RecordBatch:
    del after
    return read_part(name, staging=staging, columns=columns)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitReader:
    """Reads the parts of a listing, and gives their rows their splits."""

    staging: Staging
    fractions: Mapping[str, float]
    seed: int

    def read(
        self, name: str, strata: Strata | None = None, *, columns: Sequence[str] | None = SYSTEM
    ) -> pa.RecordBatch:
        """The rows of a part; by default just what planning needs of them."""
        rows = read_part(name, staging=self.staging, columns=columns)
        if strata is None:
            return assign(rows, fractions=self.fractions, seed=self.seed)
        return assign_strata(rows, fractions=self.fractions, strata=strata, seed=self.seed)


def _read_split(part: Part, *, reader: SplitReader) -> pa.RecordBatch:
    return reader.read(part.name)


def _read_split_after(
    name: str, after: object, strata: Strata | None = None, *, reader: SplitReader
) -> pa.RecordBatch:
    del after
    return reader.read(name, strata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passes:
    """Passes over the parts of a listing.

    parts: the checked ones, as they get ready. names: of all of them. strata: a side input, where
    splits are stratified.
    """

    parts: beam.PCollection[Part]
    names: Sequence[str]
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
        if after is None:
            step = beam.Map(_read, **options).with_output_types(pa.RecordBatch)
            return self.parts | label >> step
        step = beam.Map(_read_after, after, **options).with_output_types(pa.RecordBatch)
        return self.again(label) | label >> step

    def again(self, label: str) -> beam.PCollection[str]:
        """The names of the parts, for a step that waits for what was learned from all of them."""
        return (
            self.parts.pipeline
            | f"{label}Parts" >> beam.Create(self.names)
            | f"{label}SpreadParts" >> beam.Reshuffle()
        )

    def read_split(
        self, label: str, after: AsSideInput | None = None
    ) -> beam.PCollection[pa.RecordBatch]:
        """What planning needs of the batches, with their splits."""
        if after is None and self.strata is None:
            step = beam.Map(_read_split, reader=self.reader).with_output_types(pa.RecordBatch)
            return self.parts | label >> step
        # One step for all side inputs: what comes before and after each is a stage of its own.
        step = beam.Map(_read_split_after, after, *self.sides, reader=self.reader)
        return self.again(label) | label >> step.with_output_types(pa.RecordBatch)
