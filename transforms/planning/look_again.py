"""The second pass of an analysis over records, for values such as medians.

Values are grouped by question. Each worker collects values up to a limit and then writes a spill
file; to answer a question, its values are read from these files, several times if necessary. So no
worker holds all values of a question, even if they are most of the dataset.
"""

import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from apache_beam.pvalue import AsSingleton
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.format.split_names import TRAIN
from recordmill.job.staging import Staging
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.second_look import QUESTION, Rereading
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import SYSTEM
from recordmill.transforms.staged.spill import Piece


class _CollectValues(beam.DoFn):
    """Merges the collected values of a bundle, and emits them as (question, piece)."""

    def __init__(self, analysis: Rereading, staging: Staging, *, in_train: bool) -> None:
        self._analysis = analysis
        self._in_train = in_train
        self._staging = staging
        self._collected: list[pa.RecordBatch] = []
        self._bytes = 0

    def start_bundle(self) -> None:
        self._collected = []
        self._bytes = 0

    def process(
        self, rows: pa.RecordBatch, questions: Sequence[Any]
    ) -> Iterator[tuple[int, Piece]]:
        if not questions or not len(rows):  # a part without rows may lack their columns
            return
        if self._in_train:
            rows = rows.filter(pc.equal(rows[batch.SPLIT], TRAIN))
        collected = self._analysis.collect(rows, questions)
        self._collected.append(collected)
        self._bytes += collected.nbytes
        if self._bytes >= limits.COUNT_BYTES:
            self._collected = [self._merged()]
            self._bytes = self._collected[0].nbytes
            if self._bytes >= limits.COUNT_BYTES // 2:
                yield from self._flush()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        if len(self._collected) > 1:
            self._collected = [self._merged()]
        for element in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(element)

    def _merged(self) -> pa.RecordBatch:
        return self._analysis.merge(batch.concat(self._collected))

    def _flush(self) -> list[tuple[int, Piece]]:
        rows = batch.concat(self._collected) if self._collected else None
        self.start_bundle()
        if rows is None or not len(rows):
            return []
        return spill.into_pieces(rows, np.asarray(rows[QUESTION]), self._staging)


def _every_question(questions: Sequence[Any]) -> Iterator[tuple[int, None]]:
    """Yield each question, because some may be answered without any value."""
    for place in range(len(questions)):
        yield place, None


def _answer(
    found: tuple[int, Iterable[Piece | None]],
    questions: Sequence[Any],
    *,
    analysis: Rereading,
    staging: Staging,
) -> pa.RecordBatch:
    place, pieces = found

    def read() -> Iterator[pa.RecordBatch]:
        for piece in pieces:
            if piece is not None:
                yield spill.load(piece, staging=staging)

    return analysis.answer(questions[place], read)


def look_again(
    questions: beam.PCollection[Sequence[Any]],
    analysis: Rereading,
    scan: Callable[..., beam.PCollection[pa.RecordBatch]],
    *,
    staging: Staging,
    in_train: bool = True,
) -> beam.PCollection[pa.RecordBatch]:
    """Return the answers to all questions.

    questions: one element. scan: `batches.scan` of the batches of the analysis. in_train: whether
    only rows of train count.
    """
    asked = AsSingleton(questions)
    collect = beam.ParDo(_CollectValues(analysis, staging, in_train=in_train), asked)
    values = scan(
        "ReadAgain", asked, columns=(*SYSTEM, *analysis.read_again)
    ) | "CollectValues" >> collect.with_output_types(tuple[int, Piece | None])
    every = questions | "EveryQuestion" >> beam.FlatMap(_every_question).with_output_types(
        tuple[int, Piece | None]
    )
    answer = functools.partial(_answer, analysis=analysis, staging=staging)
    return (
        (values, every)
        | "ValuesAndQuestions" >> beam.Flatten()
        | "GroupByQuestion" >> beam.GroupByKey()
        | "Answer" >> beam.Map(answer, asked).with_output_types(pa.RecordBatch)
    )
