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
from transforms.splits import assign, assign_strata


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
class Passes:
    """Passes over the parts of a listing.

    strata: a side input, where splits are stratified.
    """

    parts: beam.PCollection[Part]
    staging: Staging
    fractions: Mapping[str, float]
    seed: int
    strata: AsSingleton | None = None

    def read(
        self,
        label: str,
        after: AsSideInput | None = None,
        *,
        columns: Sequence[str] | None = SYSTEM,
    ) -> beam.PCollection[pa.RecordBatch]:
        """Batches as they were listed; by default just what planning needs of them."""
        options = {"staging": self.staging, "columns": columns}
        step = beam.Map(read_part, **options)
        if after is not None:
            step = beam.Map(_read_after, after, **options)
        return self.parts | label >> step.with_output_types(pa.RecordBatch)

    def read_split(
        self,
        label: str,
        after: AsSideInput | None = None,
        *,
        columns: Sequence[str] | None = SYSTEM,
    ) -> beam.PCollection[pa.RecordBatch]:
        """Batches with their splits."""
        options = {"fractions": self.fractions, "seed": self.seed}
        step = beam.Map(assign, **options)
        if self.strata is not None:
            after = after or self.strata
            step = beam.Map(assign_strata, strata=self.strata, **options)
        rows = self.read(label, after, columns=columns)
        return rows | f"{label}AssignSplits" >> step.with_output_types(pa.RecordBatch)
