"""The elements of the road: handles on batches in staging, with steps that are still to be applied.

Only what is small passes from stage to stage. A batch stays in its file; its handle names the file,
and the pure functions (such as the assignment of splits) that apply once it is read. Each pass over
a dataset reads its batches again, which is cheaper than keeping them.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal, Protocol

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSideInput

from recordmill.job.staging import StagedPart, Staging
from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.staged.listing import SYSTEM, read_part


class Step(Protocol):
    """A pure function of the rows of a batch; picklable, as it travels with the handle."""

    def __call__(self, rows: pa.RecordBatch, staging: Staging) -> pa.RecordBatch: ...


@dataclasses.dataclass(frozen=True)
class StagedBatch:
    """A handle on a batch in staging.

    steps: applied to its rows, in order, whenever they are read. role: `source` marks the rows that
    windows were cut from: they are examined, and not records.
    """

    part: StagedPart
    steps: tuple[Step, ...] = ()
    role: Literal["records", "source"] = "records"

    def read(self, staging: Staging, columns: Sequence[str] | None = SYSTEM) -> pa.RecordBatch:
        """Return the rows; by default just the columns that planning needs."""
        rows = read_part(self.part.name, staging=staging, columns=columns)
        for step in self.steps:
            rows = step(rows, staging)
        return rows


@dataclasses.dataclass(frozen=True)
class Problem:
    """A reason why no dataset can be made of the input, as a sentence for the user.

    It travels among the batches to the plan, whose verdict it becomes: an exception would only make
    an engine try again.
    """

    sentence: str


Element = StagedBatch | Problem


def part_of(element: Element) -> StagedPart:
    """Return the part of a batch that has no pending steps yet."""
    assert isinstance(element, StagedBatch), element
    assert not element.steps, element
    return element.part


def with_step(element: Element, step: Step) -> Element:
    """Append a step to those that are pending."""
    if isinstance(element, Problem):
        return element
    return dataclasses.replace(element, steps=(*element.steps, step))


class Scan(Protocol):
    """Reads the rows of all batches, given the label of the pass and the side input to wait for."""

    def __call__(
        self, label: str, after: AsSideInput | None = None
    ) -> beam.PCollection[pa.RecordBatch]: ...


def _rows(
    element: Element,
    after: object = None,
    *,
    staging: Staging,
    columns: Sequence[str] | None,
    stepped: bool,
) -> Iterator[pa.RecordBatch]:
    del after
    if isinstance(element, StagedBatch) and element.role == "records":
        if not stepped:
            element = dataclasses.replace(element, steps=())
        yield element.read(staging, columns)


def scan(
    batches: beam.PCollection[Element],
    label: str,
    after: AsSideInput | None = None,
    *,
    staging: Staging,
    columns: Sequence[str] | None = SYSTEM,
    stepped: bool = True,
) -> beam.PCollection[pa.RecordBatch]:
    """Read the rows of all batches of records.

    after: a side input that a later step of the pass takes. The pass waits for it before it reads:
      otherwise the runner would read early, and keep all rows in memory until it is there.
    stepped: whether pending steps are applied.
    """
    read = {"staging": staging, "columns": columns, "stepped": stepped}
    if after is None:
        step = beam.FlatMap(_rows, **read)
        return batches | label >> step.with_output_types(pa.RecordBatch)
    step = beam.FlatMap(_rows, after, **read)
    return (
        batches
        | f"{label}Spread" >> beam.Reshuffle()
        | label >> step.with_output_types(pa.RecordBatch)
    )
