"""Bins of a number to predict, by rank: they take the place of classes in splits and balancing.

The boundaries are exact over all records: a histogram shows where they lie, and the values there
alone are read again, as for the buckets of tables. The number itself is written unchanged.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.notes import Note
from recordmill.transforms.encoders.table_numbers import counted_keys, merge, read_counted
from recordmill.transforms.encoders.table_ranks import (
    RankQuestion,
    boundary_questions,
    find,
    in_bins,
)
from recordmill.transforms.model import batch
from recordmill.transforms.planning.look_again import look_again
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element, Remark, StagedBatch
from recordmill.transforms.staged.listing import rewrite_part
from recordmill.transforms.statistics.bit_histogram import FirstBits
from recordmill.transforms.statistics.exact_ranks import values_of_keys

Floats = npt.NDArray[np.float64]

_KEY = "key"  # column of the boundaries that answer a question


@dataclasses.dataclass(frozen=True)
class LabelBins:
    """Bins of a label: the column of the number to predict, and the number of bins."""

    column: str
    number: int


@dataclasses.dataclass(frozen=True)
class BinBoundaries:
    """The second look at the labels, for the boundaries between bins: a `Rereading`."""

    bins: LabelBins

    @property
    def read_again(self) -> tuple[str, ...]:
        """The column of the label."""
        return (self.bins.column,)

    def collect(self, rows: pa.RecordBatch, questions: Sequence[RankQuestion]) -> pa.RecordBatch:
        """Return the values in the bins of the questions: `question`, `key` and `count`, int64."""
        return counted_keys(*in_bins(numbers_in(rows, self.bins.column), questions))

    def merge(self, collected: pa.RecordBatch) -> pa.RecordBatch:
        """Add up the counts of equal values of a question."""
        return merge(collected)

    def answer(
        self, question: RankQuestion, read: Callable[[], Iterable[pa.RecordBatch]]
    ) -> pa.RecordBatch:
        """Return the boundaries: `key`, int64."""
        found = find(question, functools.partial(read_counted, read))
        return pa.RecordBatch.from_pydict({_KEY: pa.array(found)})


def numbers_in(rows: pa.RecordBatch, column: str) -> Floats:
    """Return the numbers of a column that are not missing: float64[m]."""
    values: Floats = rows[column].drop_null().cast(pa.float64(), safe=False).to_numpy()
    return values


def bin_names(boundaries: Floats) -> list[str]:
    """Return the names of the bins between ascending boundaries, which sort in their order."""
    texts = [_text(value) for value in boundaries.tolist()]
    lows, highs = ["(-inf", *(f"[{text}" for text in texts)], [*texts, "inf"]
    width = len(str(len(lows)))
    return [
        f"bin {number:0{width}}: {low}, {high})"
        for number, (low, high) in enumerate(zip(lows, highs, strict=True), 1)
    ]


def with_bins(rows: pa.RecordBatch, column: str, boundaries: Floats) -> pa.RecordBatch:
    """Return rows whose label is the bin of their number; null without a number."""
    values = rows[column].cast(pa.float64(), safe=False)
    places = np.searchsorted(boundaries, values.fill_null(0).to_numpy(), side="right")
    indices = pa.array(places, mask=values.is_null().to_numpy(zero_copy_only=False))
    names = pa.array(bin_names(boundaries), pa.string())
    return batch.set_column(rows, batch.LABEL, names.take(indices))


def _text(value: float) -> str:
    return str(int(value)) if value.is_integer() and abs(value) < 2**53 else repr(value)


def _bits(rows: pa.RecordBatch, column: str) -> FirstBits:
    return FirstBits.of(numbers_in(rows, column))


def _questions(bits: FirstBits, bins: LabelBins) -> list[RankQuestion]:
    return list(boundary_questions(bins.column, bits, parts=bins.number))


def _boundaries(answers: Sequence[pa.RecordBatch]) -> Floats:
    keys = [np.asarray(answer[_KEY], np.int64) for answer in answers]
    return values_of_keys(np.unique(np.concatenate([np.zeros(0, np.int64), *keys])))


def _binned(
    element: Element, answers: Sequence[pa.RecordBatch], *, bins: LabelBins, staging: Staging
) -> Element:
    if not isinstance(element, StagedBatch) or element.role != "records":
        return element
    rows = with_bins(element.read(staging, None), bins.column, _boundaries(answers))
    part = rewrite_part(element.part, rows, staging, "binned")
    return dataclasses.replace(element, part=part, steps=())


def _few_bins(_: bytes, answers: Sequence[pa.RecordBatch], bins: LabelBins) -> Iterator[Remark]:
    count = len(_boundaries(answers)) + 1
    if answers and count < bins.number:  # without answers, all labels are rejected
        text = (
            f"--label-bins {bins.number}: the label {bins.column!r} has"
            f" {count} bin{'s' if count > 1 else ''}, because many values are equal"
        )
        yield Remark(Note("few-buckets", text))


@dataclasses.dataclass(eq=False)
class BinLabels(beam.PTransform):
    """Give every record the bin of its number as its class: handles in, handles out."""

    staging: Staging
    bins: LabelBins

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[Element]:
        staging, bins = self.staging, self.bins
        read = functools.partial(scan, batches, staging=staging)
        questions = (
            read("Labels", columns=(bins.column,))
            | "FirstBits" >> beam.Map(_bits, bins.column).with_output_types(FirstBits)
            | "AddUp" >> beam.CombineGlobally(FirstBits.sum)
            | "Ask" >> beam.Map(_questions, bins)
        )
        found = look_again(questions, BinBoundaries(bins), read, staging=staging, in_train=False)
        answers = beam.pvalue.AsList(found)
        binned = (
            batches
            | "SpreadForBins" >> beam.Reshuffle()
            | "Bin"
            >> beam.Map(_binned, answers, bins=bins, staging=staging).with_output_types(Element)
        )
        remarks = (
            batches.pipeline
            | "OnceForBins" >> beam.Impulse()
            | "FewBins" >> beam.FlatMap(_few_bins, answers, bins).with_output_types(Remark)
        )
        return (binned, remarks) | "WithRemarks" >> beam.Flatten()
