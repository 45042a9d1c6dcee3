"""Handles on staged batches, the elements of PCollections from `Read` to `Rebalance`.

A batch stays in its file in staging. Its handle names the file and the pending steps: pure
functions, such as the assignment of splits, that are applied when the batch is read. Each pass over
the dataset reads the batches again, which costs less than keeping them in memory. This module does
not import Beam, because encoder processes read batches, too.
"""

import dataclasses
from collections.abc import Sequence
from typing import Literal, Protocol

import pyarrow as pa

from recordmill.job.staging import StagedPart, Staging
from recordmill.notes import Note
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
