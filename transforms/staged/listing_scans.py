"""Passes over a stored listing: each reads it anew, which is cheaper than keeping what was read.

A pass that needs a side input has to wait for it before it reads. Where only a later step of the
pass took the side input, the runner would run the reading early and keep all rows in memory until
the side input is there.
"""

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput, AsSingleton

from recordmill.job.staging import StagedPart, Staging
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.splits import Strata, assign, assign_strata
from recordmill.transforms.staged.listing import SYSTEM, read_part

ReadPart = Callable[..., pa.RecordBatch]  # of the name of a part, and the strata if there are any


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


def _name(part: StagedPart) -> str:
    return part.name


def _of_part(part: StagedPart, *, read: ReadPart) -> pa.RecordBatch:
    return read(part.name)


def _of_name(
    name: str, after: object, strata: Strata | None = None, *, read: ReadPart
) -> pa.RecordBatch:
    del after
    return read(name) if strata is None else read(name, strata)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Passes:
    """Passes over the parts of a listing.

    parts: the checked ones, as they get ready. strata: a side input, where splits are stratified.
    """

    parts: beam.PCollection[StagedPart]
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
        read = functools.partial(read_part, staging=self.reader.staging, columns=columns)
        return self._pass(label, read, after)

    def again(self, label: str) -> beam.PCollection[str]:
        """The names of the parts, for a step that waits for what was learned from all of them."""
        return (
            self.parts
            | f"{label}Parts" >> beam.Map(_name).with_output_types(str)
            | f"{label}SpreadParts" >> beam.Reshuffle()
        )

    def read_split(
        self, label: str, after: AsSideInput | None = None
    ) -> beam.PCollection[pa.RecordBatch]:
        """What planning needs of the batches, with their splits."""
        return self._pass(label, self.reader.read, after, *self.sides)

    def _pass(
        self, label: str, read: ReadPart, after: AsSideInput | None, *sides: AsSideInput
    ) -> beam.PCollection[pa.RecordBatch]:
        if after is None and not sides:
            step = beam.Map(_of_part, read=read)
            return self.parts | label >> step.with_output_types(pa.RecordBatch)
        # One step for all side inputs: what comes before and after each is a stage of its own.
        step = beam.Map(_of_name, after, *sides, read=read)
        return self.again(label) | label >> step.with_output_types(pa.RecordBatch)
