"""Statistics of a table's columns over split train, as transforms need them.

All statistics are counts, so the result does not depend on how rows are divided into parts: sums of
values and of squares as integers (`statistics.moments`), histograms of values by their first bits,
and counts of texts. A second pass finds medians and boundaries of buckets (`table_ranks`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import urllib.parse
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from recordmill import strict_json
from recordmill.errors import RunError
from recordmill.format.typed_json import damage_of
from recordmill.notes import Note
from recordmill.transforms.encoders.artifacts import read_artifact, vocabulary_lines
from recordmill.transforms.encoders.table_numbers import (
    NUMBERS_FILE,
    answers,
    collect,
    count_numbers,
    has_buckets,
    has_median,
    learn_numbers,
    merge,
    parse_numbers,
    questions_on,
)
from recordmill.transforms.encoders.table_options import (
    LEARNED_VALUES,
    ColumnTransform,
    TableOptions,
)
from recordmill.transforms.encoders.table_ranks import RankQuestion
from recordmill.transforms.encoders.table_types import check_names, check_types, text_of
from recordmill.transforms.encoders.tokenization.vocabulary import Vocabulary, most_frequent
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.model.user_columns import flat
from recordmill.transforms.statistics.moments import Moments

_ITEM, _COUNT = "item", "count"
_SEPARATOR = "\0"
_VALUE = "value"
_LINE_BREAK = "[\r\n]"  # not allowed in a vocabulary, which TensorFlow reads line by line


def filled(transform: ColumnTransform, column: pa.Array) -> pa.Array:
    """Return a column with missing values replaced by the value of `impute`."""
    if transform.impute is None:
        return column
    return column.fill_null(pa.scalar(transform.impute).cast(column.type))


def vocabulary_file(column: str) -> str:
    """Return the path, within the dataset, of the vocabulary of a column."""
    return f"vocabulary/{urllib.parse.quote(column, safe=' ()')}.txt"


def load_values(artifacts: Mapping[str, Artifact], column: str) -> Vocabulary:
    """Return the vocabulary of a column, read once per process."""
    return _load_values(artifacts[vocabulary_file(column)])


@functools.lru_cache(maxsize=1 << 10)
def _load_values(artifact: Artifact) -> Vocabulary:
    with damage_of(artifact.path):
        return Vocabulary(lines=string_array(vocabulary_lines(read_artifact(artifact))))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableAnalysis:
    """Analysis of the columns of train for the transforms in `options`.

    Args:
      options: Transforms of columns.
    """

    options: TableOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are analyzed."""
        return tuple(transform.column for transform in self._transforms)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files of statistics and vocabularies."""
        found = {
            vocabulary_file(one.column) if one.last in LEARNED_VALUES else NUMBERS_FILE
            for one in self._transforms
        }
        return tuple(sorted(found))

    @property
    def _transforms(self) -> list[ColumnTransform]:
        return [
            transform for transform in self.options.column_transforms().values() if transform.learns
        ]

    def check_columns(self, rows: pa.Schema) -> None:
        """Raise ConfigError if a column is missing, or has a type that cannot be transformed."""
        transforms = {one.column: one for one in self._transforms}
        check_names(transforms, rows)
        check_types(transforms, rows)

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count rows: `item` is the column, the statistic and its subject; `count` is int64."""
        return self.count_with(rows, {})

    def count_with(self, rows: pa.RecordBatch, moments: Mapping[str, Moments]) -> pa.RecordBatch:
        """Count rows as `count` does. moments: of the finite values of some columns."""
        columns = [(one, flat(rows[one.column])) for one in self._transforms]
        numeric = [one for one in columns if one[0].last not in LEARNED_VALUES]
        found = list(count_numbers(numeric, moments))
        items = [_SEPARATOR.join(item) for item, _ in found]
        parts = [_batch(items, [count for _, count in found])]
        for transform, column in columns:
            if transform.last in LEARNED_VALUES:
                parts.append(_count_values(transform, column))
        return batch.concat(parts)

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Keep all counts of numbers, and of values the `vocab_size` most frequent.

        Values need a count of at least `min_frequency`.
        """
        kept = []
        for transform in self._transforms:
            if transform.last in LEARNED_VALUES:
                of_column = pc.starts_with(counts[_ITEM], _value_prefix(transform.column))
                kept.append(self._most_frequent(counts.filter(of_column)))
                counts = counts.filter(pc.invert(of_column))
        return batch.concat([counts, *kept])

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Return the files of statistics and vocabularies, {path: content}.

        Raises:
            RunError: a column has no values in train.
        """
        files: dict[str, bytes] = {}
        numbers: dict[str, Any] = {}
        found = _by_column(counts)
        for transform in self._transforms:
            if transform.last in LEARNED_VALUES:
                prefix = _value_prefix(transform.column)
                mine = counts.filter(pc.starts_with(counts[_ITEM], prefix))
                lines = [item.removeprefix(prefix) for item, _ in _pairs(self._most_frequent(mine))]
                if not lines:
                    raise _no_values(transform.column, records, least=self.options.min_frequency)
                content = "".join(f"{line}\n" for line in lines).encode()
                files[vocabulary_file(transform.column)] = content
            else:
                learned = learn_numbers(transform, found[transform.column])
                if learned is None:
                    raise _no_values(transform.column, records)
                numbers[transform.column] = dataclasses.asdict(learned)
        if numbers:
            files[NUMBERS_FILE] = (
                strict_json.to_text(numbers, indent=1, sort_keys=True, ascii_only=True).encode()
                + b"\n"
            )
        return files

    @property
    def read_again(self) -> tuple[str, ...]:
        """Names of the columns whose medians or boundaries need a second pass."""
        return tuple(one.column for one in self._transforms if has_median(one) or has_buckets(one))

    def ask(self, counts: pa.RecordBatch) -> Sequence[RankQuestion]:
        """Return the questions for medians and boundaries."""
        found = _by_column(counts)
        asked: list[RankQuestion] = []
        for transform in self._transforms:
            if transform.column in self.read_again:
                asked += questions_on(transform, found[transform.column])
        return asked

    def collect(self, rows: pa.RecordBatch, questions: Sequence[RankQuestion]) -> pa.RecordBatch:
        """Return the values in the bins of the questions: `question`, `key` and `count`, int64."""
        return collect(rows, questions, self.options.column_transforms())

    def merge(self, collected: pa.RecordBatch) -> pa.RecordBatch:
        """Add up the counts of equal values of a question."""
        return merge(collected)

    def answer(
        self, question: RankQuestion, read: Callable[[], Iterable[pa.RecordBatch]]
    ) -> pa.RecordBatch:
        """Return an item for each value found."""
        found = answers(question, read)
        items = [_SEPARATOR.join((question.column, *item)) for item in found]
        return _batch(items, [1] * len(items))

    def notes(self, contents: Mapping[str, bytes], counts: pa.RecordBatch) -> Sequence[Note]:
        """Return a note for each column with fewer buckets than requested."""
        del counts
        if NUMBERS_FILE not in contents:
            return []
        learned = parse_numbers(contents[NUMBERS_FILE])
        return [
            _few_buckets(transform, 1 + len(learned[transform.column].boundaries))
            for transform in self._transforms
            if has_buckets(transform)
            and 1 + len(learned[transform.column].boundaries) < transform.size
        ]

    def _most_frequent(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        options = self.options
        return most_frequent(counts, least=options.min_frequency, at_most=options.vocab_size)


def _few_buckets(transform: ColumnTransform, buckets: int) -> Note:
    made = "1 bucket" if buckets == 1 else f"{buckets} buckets"
    return Note(
        "few-buckets",
        f"--bucketize {transform.column}={transform.size} makes {made}, because many values of"
        f" {transform.column!r} in train are equal, and equal values are in one bucket",
    )


def _no_values(column: str, records: int, *, least: int = 1) -> RunError:
    """Return the error for a column without values in train that occur `least` times."""
    often, advice = "", "remove the column from the options"
    if least > 1:
        often, advice = f" that occurs {least} times", f"lower --min-frequency, or {advice}"
    return RunError(
        f"column {column!r} has no value{often} in the {records} records of train, so its"
        f" statistics cannot be computed: {advice}"
    )


def _count_values(transform: ColumnTransform, column: pa.Array) -> pa.RecordBatch:
    values = text_of(filled(transform, column)).drop_null()
    values = values.filter(pc.invert(pc.match_substring_regex(values, _LINE_BREAK)))
    counted = pc.value_counts(values)
    items = pc.binary_join_element_wise(
        _value_prefix(transform.column), counted.field("values"), ""
    )
    return _batch(items, counted.field("counts"))


def _value_prefix(column: str) -> str:
    return f"{column}{_SEPARATOR}{_VALUE}{_SEPARATOR}"


def _by_column(counts: pa.RecordBatch) -> Mapping[str, dict[tuple[str, ...], int]]:
    """Return {column: {statistic: count}} of numeric columns."""
    found: dict[str, dict[tuple[str, ...], int]] = collections.defaultdict(dict)
    values = pc.match_substring(counts[_ITEM], f"{_SEPARATOR}{_VALUE}{_SEPARATOR}")
    for item, count in _pairs(counts.filter(pc.invert(values))):
        column, *statistic = item.split(_SEPARATOR)
        found[column][tuple(statistic)] = count
    return found


def _batch(items: Any, counts: Any) -> pa.RecordBatch:
    columns = [pa.array(items, pa.string()), pa.array(counts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=[_ITEM, _COUNT])


def _pairs(counts: pa.RecordBatch) -> Iterable[tuple[str, int]]:
    return zip(counts[_ITEM].to_pylist(), counts[_COUNT].to_pylist(), strict=True)
