"""Passes over the batches of a dataset, given handles on them."""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput

from recordmill.job.staging import Staging
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.staged.handles import Element, StagedBatch
from recordmill.transforms.staged.listing import SYSTEM


def _unchanged(element: Element) -> Element:
    return element


def spread(batches: beam.PCollection[Element], label: str) -> beam.PCollection[Element]:
    """Distribute handles evenly over the workers, for a later pass over the batches.

    Flink's runner ends a stage at a collection if one of its consumers, such as a Reshuffle, cannot
    be in that stage. Here the Reshuffle consumes a copy, so that other consumers, such as the
    planning pass, stay in the stage.
    """
    return (
        batches
        | f"{label}Handles" >> beam.Map(_unchanged).with_output_types(Element)
        | label >> beam.Reshuffle()
    )


class RowScan(Protocol):
    """Reads the rows of all batches.

    label: label of the Beam stage. after: side input that must be complete before rows are read.
    """

    def __call__(
        self, label: str, after: AsSideInput | None = None
    ) -> beam.PCollection[pa.RecordBatch]: ...


def _rows(
    element: Element,
    after: object = None,
    *,
    staging: Staging,
    columns: Sequence[str] | None,
    apply_steps: bool,
) -> Iterator[pa.RecordBatch]:
    del after
    if isinstance(element, StagedBatch) and element.role == "records":
        if not apply_steps:
            element = dataclasses.replace(element, steps=())
        yield element.read(staging, columns)


def scan(
    batches: beam.PCollection[Element],
    label: str,
    after: AsSideInput | None = None,
    *,
    staging: Staging,
    columns: Sequence[str] | None = SYSTEM,
    apply_steps: bool = True,
) -> beam.PCollection[pa.RecordBatch]:
    """Read the rows of all batches of records.

    after: a side input of a later step of the same pass. Rows are read only once it is complete;
      otherwise the runner would read early and hold all rows in memory until it is.
    columns: names of the columns to read; None reads all.
    apply_steps: whether pending steps are applied.
    """
    read = {"staging": staging, "columns": columns, "apply_steps": apply_steps}
    if after is None:
        step = beam.FlatMap(_rows, **read)
        return batches | label >> step.with_output_types(pa.RecordBatch)
    step = beam.FlatMap(_rows, after, **read)
    return spread(batches, f"{label}Spread") | label >> step.with_output_types(pa.RecordBatch)
