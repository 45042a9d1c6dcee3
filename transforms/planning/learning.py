"""Learning from the records of train, before balancing, by counting items such as words.

Items are grouped into buckets by their hash, and each bucket drops those that cannot be in the
result. So no worker ever holds all items, and the last step gets little more than the result. The
number of records takes the same way, in a bucket of its own, because a second consumer of the
summaries would cost memory on Flink.
"""

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa
from apache_beam.pvalue import AsList
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.errors import RunError
from recordmill.job.staging import Staging
from recordmill.notes import Note
from recordmill.transforms.encoders.artifacts import store_artifacts
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Analysis, Artifact
from recordmill.transforms.model.second_look import NotedAnalysis, SecondLook
from recordmill.transforms.planning.look_again import look_again
from recordmill.transforms.planning.planning_pass import PartSummary
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

ITEM = "item"

_RECORDS = "records"  # the column of the bucket that counts records, after the buckets of items


def add_up(counts: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
    """Add up counts by item; the result is sorted by item."""
    table = pa.Table.from_batches(counts)
    sums = [name for name in table.column_names if name != ITEM]
    grouped = table.group_by(ITEM, use_threads=False).aggregate([(name, "sum") for name in sums])
    columns = [grouped[ITEM], *(grouped[f"{name}_sum"] for name in sums)]
    ordered = pa.table(columns, names=[ITEM, *sums]).sort_by(ITEM).combine_chunks()
    found = ordered.to_batches()
    return found[0] if found else counts[0].slice(0, 0)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Learned:
    """Artifacts of a run.

    artifacts: {name in the dataset: artifact}, given by the user or learned. problem: the reason,
    as a sentence for the user, why nothing can be learned. notes: remarks on what was learned.
    """

    artifacts: Mapping[str, Artifact] = dataclasses.field(default_factory=dict)
    problem: str | None = None
    notes: tuple[Note, ...] = ()


class _CollectCounts(beam.DoFn):
    """Adds up the counts of summaries in a bundle, and emits them as (bucket, piece)."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._counts: list[pa.RecordBatch] = []
        self._bytes = self._records = 0

    def start_bundle(self) -> None:
        self._counts = []
        self._bytes = self._records = 0

    def process(self, summary: PartSummary) -> Iterator[tuple[int, Piece]]:
        if summary.counts is None:
            return
        self._records += summary.counts.records
        counts = batch.from_bytes(summary.counts.items)
        self._counts.append(counts)
        self._bytes += counts.nbytes
        if self._bytes >= limits.COUNT_BYTES:
            self._counts = [add_up(self._counts)]
            self._bytes = self._counts[0].nbytes
            if self._bytes >= limits.COUNT_BYTES // 2:
                yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for element in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(element)

    def _flush(self) -> list[tuple[int, Piece]]:
        if not self._counts:
            return []
        counts = add_up(self._counts)
        records = pa.RecordBatch.from_pydict({_RECORDS: pa.array([self._records])})
        self.start_bundle()
        pieces = spill.into_buckets(counts, ITEM, self._staging)
        # The columns of counts have to be known even if there are no items.
        pieces = pieces or [(0, spill.inline(counts))]
        return [(limits.PARTITIONS, spill.inline(records)), *pieces]


@dataclasses.dataclass(frozen=True)
class _Learner:
    """The steps of an analysis after counting."""

    analysis: Analysis
    given: Mapping[str, Artifact]
    staging: Staging

    def select(self, bucket: tuple[int, Iterable[Piece]]) -> pa.RecordBatch:
        number, pieces = bucket
        counts = spill.load_all(pieces, staging=self.staging)
        if number == limits.PARTITIONS:
            return batch.concat(counts)
        return self.analysis.select(add_up(counts))

    def learn(
        self,
        _: bytes,
        selected: Sequence[pa.RecordBatch],
        answers: Sequence[pa.RecordBatch] = (),
    ) -> Learned:
        if not selected:  # no record of any split, which the verdict on the run reports
            return Learned(artifacts=self.given)
        of_records = [part for part in selected if _RECORDS in part.schema.names]
        records = sum(sum(part[_RECORDS].to_pylist()) for part in of_records)
        counts = self._counts([*selected, *answers])
        try:
            contents = self.analysis.learn(counts, records=records)
        except RunError as error:  # caused by the data, so a retry would not help
            return Learned(problem=str(error))
        artifacts = {**self.given, **store_artifacts(contents, self.staging)}
        analysis = self.analysis
        notes = (
            tuple(analysis.notes(contents, counts)) if isinstance(analysis, NotedAnalysis) else ()
        )
        return Learned(artifacts=artifacts, notes=notes)

    def ask(self, _: bytes, selected: Sequence[pa.RecordBatch]) -> Sequence[Any]:
        assert isinstance(self.analysis, SecondLook), self.analysis
        return self.analysis.ask(self._counts(selected)) if selected else ()

    def _counts(self, selected: Sequence[pa.RecordBatch]) -> pa.RecordBatch:
        return add_up([part for part in selected if _RECORDS not in part.schema.names])


def learn(
    summaries: beam.PCollection[PartSummary],
    *,
    analysis: Analysis,
    given: Mapping[str, Artifact],
    staging: Staging,
    read_again: Callable[..., beam.PCollection[pa.RecordBatch]],
) -> beam.PCollection[Learned]:
    """Return all artifacts, given and learned, as the only element of a PCollection.

    summaries: summaries of all parts, with the counts of the analysis. read_again: `scan` of the
    same batches.
    """
    learner = _Learner(analysis, given, staging)
    selected = (
        summaries
        | "CollectCounts"
        >> beam.ParDo(_CollectCounts(staging)).with_output_types(tuple[int, Piece])
        | "GroupByBucket" >> beam.GroupByKey()
        | "SelectItems" >> beam.Map(learner.select).with_output_types(pa.RecordBatch)
    )
    once = summaries.pipeline | "OnceToLearn" >> beam.Impulse()
    found = [AsList(selected)]
    if isinstance(analysis, SecondLook) and analysis.read_again:
        questions = once | "AskAgain" >> beam.Map(learner.ask, *found)
        found.append(AsList(look_again(questions, analysis, read_again, staging=staging)))
    return once | "Learn" >> beam.Map(learner.learn, *found).with_output_types(Learned)
