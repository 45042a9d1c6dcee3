"""The optional second pass of an analysis over the records."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from recordmill.notes import Note

QUESTION = "question"  # the column of the index of a question


class Rereading(Protocol):
    """Answers questions from values that are read a second time.

    Each question is answered from the values that concern it, which are grouped by question and may
    be many: they are read batch by batch.
    """

    @property
    def read_again(self) -> tuple[str, ...]:
        """Names of the user's columns that are read again; without any there is no second pass."""

    def collect(self, rows: pa.RecordBatch, questions: Sequence[Any]) -> pa.RecordBatch:
        """Return what rows contribute.

        Returns:
          A column `question` (int64, index of the question), and any other columns.
        """

    def merge(self, collected: pa.RecordBatch) -> pa.RecordBatch:
        """Return several results of `collect`, given one after another, as fewer rows."""

    def answer(self, question: Any, read: Callable[[], Iterable[pa.RecordBatch]]) -> pa.RecordBatch:
        """Return counts of items, as `Analysis.count` does, that `learn` gets beside the others.

        read: reads the rows of the question, of all batches, in any order; may be called again.
        """


@runtime_checkable
class NotedAnalysis(Protocol):
    """An `Analysis` with notes for the user."""

    def notes(self, contents: Mapping[str, bytes], counts: pa.RecordBatch) -> Sequence[Note]:
        """Return notes on what was learned, {path: content}, from these counts."""


@runtime_checkable
class SecondLook(Rereading, NotedAnalysis, Protocol):
    """An `Analysis` that reads some values of train again after it has counted all of them.

    The counts lead to questions, such as in which range of values a median lies.
    """

    def ask(self, counts: pa.RecordBatch) -> Sequence[Any]:
        """Return the questions, given the selected counts of all buckets, in a fixed order."""
