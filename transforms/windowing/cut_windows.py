"""The transform that cuts time series into windows, over the tasks in `series` and `windows`."""

import dataclasses
import json
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
from apache_beam.pvalue import AsList, AsSingleton

from recordmill.job.staging import StagedPart, to_json
from recordmill.processes.pool import shared_pool
from recordmill.transforms.staged.spill import Piece
from recordmill.transforms.windowing import window_tasks
from recordmill.transforms.windowing.time_survey import TimeSurvey
from recordmill.transforms.windowing.window_tasks import TimePlan, Windowing

_PARTS = -1  # the key that groups the parts themselves, beside the cells and buckets
_PART = "part"  # marks the piece of a part; stands where the name of a spill file would


def _survey(part: StagedPart, *, windowing: Windowing, workers: int) -> TimeSurvey:
    pool = shared_pool(workers)
    return pool.submit(window_tasks.survey_part, part, staging=windowing.staging).result()


def _into_cells(
    part: StagedPart, plan: TimePlan, *, windowing: Windowing, workers: int
) -> Iterator[tuple[int, Piece]]:
    # The part takes the same way as its rows: a second consumer of the parts would cost memory.
    yield _PARTS, (to_json(part), _PART, 0, 0)
    yield from shared_pool(workers).submit(window_tasks.into_cells, part, plan, windowing).result()


def _sort(
    grouped: tuple[int, Iterable[Piece]], *, windowing: Windowing, workers: int
) -> Iterator[tuple[int, bytes]]:
    cell, pieces = grouped
    if cell == _PARTS:
        for part, *_ in pieces:
            yield _PARTS, part
        return
    task = shared_pool(workers).submit(
        window_tasks.sort_cell, cell, list(pieces), windowing.staging
    )
    yield window_tasks.bucket_of(cell), to_json(task.result())


def _cut(
    grouped: tuple[int, Iterable[bytes]], plan: TimePlan, *, windowing: Windowing, workers: int
) -> list[StagedPart]:
    bucket, parts = grouped[0], [StagedPart(**json.loads(part)) for part in grouped[1]]
    if bucket == _PARTS:
        with_excluded = [
            part for part in parts if part.rejected or part.filtered or part.skipped or part.unread
        ]
        return [window_tasks.without_rows(part, windowing) for part in with_excluded]
    task = shared_pool(workers).submit(
        window_tasks.cut_bucket, bucket, parts, plan.timeline, windowing
    )
    return task.result()


def _plan(_: bytes, surveys: Sequence[TimeSurvey], *, windowing: Windowing) -> Iterator[TimePlan]:
    if surveys:
        yield windowing.plan(TimeSurvey.sum(surveys))


def _problem(plan: TimePlan) -> list[str]:
    return [] if plan.problem is None else [plan.problem]


@dataclasses.dataclass(eq=False)
class CutWindows(beam.PTransform):
    """Cut windows: parts of rows in; (parts of windows, problems as sentences) out.

    workers: encoder processes; 0 is one per core.
    """

    windowing: Windowing
    workers: int = 0

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> Any:
        options = {"windowing": self.windowing, "workers": self.workers}
        surveys = parts | "SurveyTimes" >> beam.Map(_survey, **options).with_output_types(
            TimeSurvey
        )
        # Not CombineGlobally: Flink fails on large elements, such as the sum of many parts.
        found = (
            parts.pipeline
            | "Once" >> beam.Impulse()
            | "TimePlan"
            >> beam.FlatMap(_plan, AsList(surveys), windowing=self.windowing).with_output_types(
                TimePlan
            )
        )
        plan = AsSingleton(found, default_value=self.windowing.plan(TimeSurvey()))
        windows = (
            parts
            | "SpreadRows" >> beam.Reshuffle()
            | "IntoCells"
            >> beam.FlatMap(_into_cells, plan, **options).with_output_types(tuple[int, Piece])
            | "GroupByCell" >> beam.GroupByKey()
            | "SortCells" >> beam.FlatMap(_sort, **options).with_output_types(tuple[int, bytes])
            | "GroupByBucket" >> beam.GroupByKey()
            | "CutWindows" >> beam.FlatMap(_cut, plan, **options).with_output_types(StagedPart)
            | "SpreadWindows" >> beam.Reshuffle()
        )
        return windows, found | "NoSeries" >> beam.FlatMap(_problem).with_output_types(str)
