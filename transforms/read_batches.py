"""ReadBatches: reading of staged batches into memory."""

import dataclasses
from collections.abc import Iterator
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsSingleton

from recordmill.transforms.model import coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.rebalance import PlannedBatches
from recordmill.transforms.staged.batches import Element, scan
from recordmill.transforms.writing.shuffle import balanced_rows

_COUNTERS = RecordCounters("ReadBatches")


def _count(rows: pa.RecordBatch) -> pa.RecordBatch:
    _COUNTERS.add(read=len(rows), out=len(rows))
    return rows


def _balanced(element: Element, plan: Plan, *, run: RunSpec) -> Iterator[pa.RecordBatch]:
    yield from balanced_rows(element, plan, run.staging, grouped=True)


@dataclasses.dataclass(eq=False)
class ReadBatches(beam.PTransform):
    """Read staged batches: handles or `PlannedBatches` in, `pyarrow.RecordBatch`es out.

    It is for custom pipelines that continue with other transforms. Rows have the splits that were
    assigned. Rows of `PlannedBatches` also have `__copy__`, and each record appears as often as the
    plan says.
    """

    run: RunSpec

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: Any) -> beam.PCollection[pa.RecordBatch]:  # handles, PlannedBatches
        if isinstance(batches, PlannedBatches):
            rows = (
                batches.batches
                | "Spread" >> beam.Reshuffle()
                | "Balanced"
                >> beam.FlatMap(
                    _balanced, AsSingleton(batches.plan), run=self.run
                ).with_output_types(pa.RecordBatch)
            )
        else:
            rows = scan(batches, "Rows", staging=self.run.staging, columns=None)
        return rows | "Count" >> beam.Map(_count).with_output_types(pa.RecordBatch)
