"""Handles on staged batches, the elements of PCollections from `Read` to `Rebalance`.

A batch stays in its file in staging. Its handle names the file and the pending steps: pure
functions, such as the assignment of splits, that are applied when the batch is read. Each pass over
the dataset reads the batches again, which costs less than keeping them in memory.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput

from recordmill.job.staging import StagedPart, Staging
from recordmill.notes import Note
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.staged.listing import SYSTEM
from recordmill.transforms.staged.parts import read_part


class Step(Protocol):
    """A pure function from rows to rows, pickled with the handle that it belongs to."""

    def __call__(self, rows: pa.RecordBatch, staging: Staging) -> pa.RecordBatch: ...


@dataclasses.dataclass(frozen=True)
class StagedBatch:
    """A handle on a batch in staging.

    steps: functions that are applied to the rows, in order, whenever the batch is read.
    role: `records`, or `source` for the rows that windows were cut from: statistics and schemas
      cover them, but they are not written.
    """

    part: StagedPart
    steps: tuple[Step, ...] = ()
    role: Literal["records", "source"] = "records"

    def read(
        self, staging: Staging, columns: Sequence[str] | None = SYSTEM, *, keys: bool = True
    ) -> pa.RecordBatch:
        """Read the rows and apply the pending steps.

        columns: names of the columns to read; None reads all. The default is the system columns,
          which planning needs. keys: as in `read_part`.
        """
        rows = read_part(self.part.name, staging=staging, columns=columns, keys=keys)
        for step in self.steps:
            rows = step(rows, staging)
        return rows


@dataclasses.dataclass(frozen=True)
class Problem:
    """A reason why the input cannot become a dataset.

    It is an element among the batches and becomes the verdict of the plan. An exception instead
    would make a distributed runner retry the work.

    message: a sentence for the user.
    """

    message: str


@dataclasses.dataclass(frozen=True)
class Remark:
    """A note on the records, an element among the batches; it becomes a note of the plan."""

    note: Note


Element = StagedBatch | Problem | Remark


def part_of(element: Element) -> StagedPart:
    """Return the staged part of a handle that has no pending steps."""
    assert isinstance(element, StagedBatch), element
    assert not element.steps, element
    return element.part


def with_step(element: Element, step: Step) -> Element:
    """Return the handle with a step appended to its pending steps; other elements pass."""
    if not isinstance(element, StagedBatch):
        return element
    return dataclasses.replace(element, steps=(*element.steps, step))


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
