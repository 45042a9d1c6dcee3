"""ReadBatches: reading of staged batches into memory."""

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.errors import RunError
from recordmill.transforms.checks.unique_keys import FindRepeatedKeys, partition_hashes
from recordmill.transforms.model import batch, coders  # noqa: F401  (registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.rebalance import PlannedBatches
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element, Problem
from recordmill.transforms.staged.records import StagedRecords
from recordmill.transforms.staged.step_order import OrderedStep
from recordmill.transforms.writing.shards.shuffle import balanced_rows

_COUNTERS = RecordCounters("ReadBatches")


def _count(rows: pa.RecordBatch) -> pa.RecordBatch:
    _COUNTERS.add(read=len(rows), out=len(rows))
    return rows


def _balanced(element: Element, plan: Plan, *, run: RunSpec) -> Iterator[pa.RecordBatch]:
    if plan.verdict is not None:
        raise RunError(plan.verdict.message)
    unite = run.layout is None
    yield from balanced_rows(element, plan, run.staging, grouped=True, unite=unite)


def _messages(element: Element) -> Iterator[str]:
    if isinstance(element, Problem):
        yield element.message


def _refuse(rows: pa.RecordBatch, problems: Sequence[str]) -> pa.RecordBatch:
    if problems:
        raise RunError(min(problems))
    return rows


def _problems(batches: beam.PCollection[Element], run: RunSpec) -> beam.PCollection[str]:
    """Return the problems among handles, and a sentence on keys that repeat."""
    keys = functools.partial(
        scan,
        batches,
        staging=run.staging,
        columns=(batch.KEY, batch.HASH),
        apply_steps=False,
    )
    hashes = keys("Keys") | "Hashes" >> beam.FlatMap(partition_hashes).with_output_types(
        tuple[int, bytes]
    )
    known = batches | "Problems" >> beam.FlatMap(_messages).with_output_types(str)
    repeated = hashes | FindRepeatedKeys(keys, custom=True)
    return (known, repeated) | "AllProblems" >> beam.Flatten()


@dataclasses.dataclass(eq=False)
class ReadBatches(OrderedStep):
    """Read staged batches: `StagedRecords` or `PlannedBatches` in, `pyarrow.RecordBatch`es out.

    Custom pipelines use it to continue with other transforms. Rows have their assigned splits. Rows
    of `PlannedBatches` also have `__copy__`, and each record appears as often as the plan says.

    Raises:
      ConfigError: The input is not the output of an earlier step.
      RunError: Keys repeat, or the input cannot become a dataset for another reason.

    Example::

        batches | StageBatches(run) | AssignSplits() | ReadBatches()
    """

    takes = (StagedRecords, PlannedBatches)
    after = "Read or StageBatches"

    def expand(self, records: StagedRecords | PlannedBatches) -> beam.PCollection[pa.RecordBatch]:
        run = records.run
        if isinstance(records, PlannedBatches):
            rows = (
                records.handles
                | "Spread" >> beam.Reshuffle()
                | "Balanced"
                >> beam.FlatMap(_balanced, AsSingleton(records.plan), run=run).with_output_types(
                    pa.RecordBatch
                )
            )
        else:
            problems = AsList(_problems(records.handles, run))
            rows = scan(records.handles, "Rows", problems, staging=run.staging, columns=None)
            rows |= "Refuse" >> beam.Map(_refuse, problems).with_output_types(pa.RecordBatch)
        return rows | "Count" >> beam.Map(_count).with_output_types(pa.RecordBatch)
