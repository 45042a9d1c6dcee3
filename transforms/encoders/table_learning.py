"""Statistics of a table's columns over split train, which transforms need.

All statistics are counts, so the result does not depend on how rows are divided into parts: sums of
values and of squares as integers (`statistics.moments`), histograms of values by their first bits,
and counts of texts. A second pass finds medians and boundaries of buckets (`table_ranks`).
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import RunError
from recordmill.notes import Note
from recordmill.transforms.encoders.artifacts import read_artifact
from recordmill.transforms.encoders.table_options import (
    LEARNED_VALUES,
    MEAN,
    MEDIAN,
    ColumnTransform,
    TableOptions,
)
from recordmill.transforms.encoders.table_ranks import (
    RankQuestion,
    boundary_questions,
    find,
    in_bins,
    median_question,
)
from recordmill.transforms.encoders.tokenization.vocabulary import Vocabulary, most_frequent
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.model.second_look import QUESTION
from recordmill.transforms.model.user_columns import flat
from recordmill.transforms.statistics.bit_histogram import FirstBits
from recordmill.transforms.statistics.exact_ranks import add_up, values_of_keys
from recordmill.transforms.statistics.moments import Moments, digits, from_digits

Floats = npt.NDArray[np.float64]

NUMBERS_FILE = "learned.json"

_ITEM, _COUNT = "item", "count"
_SEPARATOR = "\0"
_MISSING, _TOTAL, _SQUARES, _PREFIX, _EXTREME, _VALUE, _RANKED = (
    "missing",
    "total",
    "squares",
    "prefix",
    "extreme",
    "value",
    "ranked",
)
_RANK_KEY = "key"
_RAW, _COMPUTED = "raw", "computed"  # before and after clip and log
_LINE_BREAK = "[\r\n]"  # not allowed in a vocabulary, which TensorFlow reads line by line


def compute(transform: ColumnTransform, values: Floats) -> Floats:
    """Apply `clip` and `log` to numbers, float64[n]."""
    if transform.clip is not None:
        values = np.clip(values, *transform.clip)
    return np.log1p(values) if transform.log else values


def numbers_of(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the values of a column, float64[n], and the mask of missing ones, bool[n]."""
    values = column.cast(pa.float64(), safe=False).fill_null(0.0)  # rounds large integers
    return np.asarray(values), np.asarray(column.is_null())


def text_of(column: pa.Array) -> pa.StringArray:
    """Return the values of a column as text, as in a vocabulary."""
    return column.cast(pa.string())


def filled(transform: ColumnTransform, column: pa.Array) -> pa.Array:
    """Return a column with missing values replaced by the value of `impute`."""
    if transform.impute is None:
        return column
    return column.fill_null(pa.scalar(transform.impute).cast(column.type))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedNumbers:
    """Statistics of a numeric column.

    fill: replacement of missing values; None leaves them missing.
    mean, deviation, least, most: of all values of train after imputing, clipping and log.
    boundaries: of buckets, ascending.
    """

    fill: float | None = None
    mean: float = 0.0
    deviation: float = 0.0
    least: float = 0.0
    most: float = 0.0
    boundaries: tuple[float, ...] = ()


def load_numbers(artifacts: Mapping[str, Artifact]) -> Mapping[str, LearnedNumbers]:
    """Return the statistics of numeric columns, {column: statistics}, read once per process."""
    return _load_numbers(artifacts[NUMBERS_FILE]) if NUMBERS_FILE in artifacts else {}


@functools.lru_cache(maxsize=4)
def _load_numbers(artifact: Artifact) -> Mapping[str, LearnedNumbers]:
    return parse_numbers(read_artifact(artifact))


def parse_numbers(content: bytes) -> Mapping[str, LearnedNumbers]:
    """Parse the file of statistics: {column: statistics}."""
    return {
        column: LearnedNumbers(**(one | {"boundaries": tuple(one["boundaries"])}))
        for column, one in json.loads(content).items()
    }


def vocabulary_file(column: str) -> str:
    """Return the path, within the dataset, of the vocabulary of a column."""
    return f"vocabulary/{urllib.parse.quote(column, safe=' ()')}.txt"


def load_values(artifacts: Mapping[str, Artifact], column: str) -> Vocabulary:
    """Return the vocabulary of a column, read once per process."""
    return _load_values(artifacts[vocabulary_file(column)])


@functools.lru_cache(maxsize=1 << 10)
def _load_values(artifact: Artifact) -> Vocabulary:
    return Vocabulary(lines=string_array(read_artifact(artifact).decode().split("\n")[:-1]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableAnalysis:
    """Analysis of the columns of train for the transforms in `options`."""

    options: TableOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are analyzed."""
        return tuple(transform.column for transform in self._transforms)

    @property
    def _transforms(self) -> list[ColumnTransform]:
        return [
            transform for transform in self.options.column_transforms().values() if transform.learns
        ]

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count rows: `item` is the column, the statistic and its subject; `count` is int64."""
        parts = [_batch([], [])]
        for transform in self._transforms:
            column = flat(rows[transform.column])
            if transform.last in LEARNED_VALUES:
                parts.append(_count_values(transform, column))
            else:
                found = list(_count_numbers(transform, column))
                items = [_SEPARATOR.join((transform.column, *item)) for item, _ in found]
                parts.append(_batch(items, [count for _, count in found]))
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
                learned = _learn_numbers(transform, found[transform.column])
                if learned is None:
                    raise _no_values(transform.column, records)
                numbers[transform.column] = dataclasses.asdict(learned)
        if numbers:
            files[NUMBERS_FILE] = json.dumps(numbers, indent=1, sort_keys=True).encode() + b"\n"
        return files

    @property
    def read_again(self) -> tuple[str, ...]:
        """Names of the columns whose medians or boundaries need a second pass."""
        return tuple(one.column for one in self._transforms if _has_median(one) or _has_buckets(one))

    def ask(self, counts: pa.RecordBatch) -> Sequence[RankQuestion]:
        """Return the questions for medians and boundaries."""
        found = _by_column(counts)
        asked: list[RankQuestion] = []
        for transform in self._transforms:
            if transform.column in self.read_again:
                asked += _questions(transform, found[transform.column])
        return asked

    def collect(self, rows: pa.RecordBatch, questions: Sequence[RankQuestion]) -> pa.RecordBatch:
        """Return the values in the bins of the questions: `question`, `key` and `count`, int64."""
        by_values: dict[tuple[str, bool], list[int]] = collections.defaultdict(list)
        for place, question in enumerate(questions):
            by_values[question.column, question.parts > 0].append(place)
        transforms = self.options.column_transforms()
        parts = [_ranked_batch(*[np.zeros(0, np.int64)] * 3)]
        for (column, is_computed), places in by_values.items():
            values, missing = numbers_of(flat(rows[column]))
            values = values[~missing]
            if is_computed:
                values = compute(transforms[column], values)
            asked = [questions[place] for place in places]
            index, keys, times = in_bins(values, asked)
            parts.append(_ranked_batch(np.array(places)[index], keys, times))
        return batch.concat(parts)

    def merge(self, collected: pa.RecordBatch) -> pa.RecordBatch:
        """Add up the counts of equal values of a question."""
        columns = [_RANK_KEY, _COUNT]
        parts = [_ranked_batch(*[np.zeros(0, np.int64)] * 3)]
        questions = np.asarray(collected[QUESTION])
        for place in np.unique(questions).tolist():
            some = collected.filter(pa.array(questions == place))
            keys, times = add_up(*(np.asarray(some[name]) for name in columns))
            parts.append(_ranked_batch(np.full(len(keys), place), keys, times))
        return batch.concat(parts)

    def answer(
        self, question: RankQuestion, read: Callable[[], Iterable[pa.RecordBatch]]
    ) -> pa.RecordBatch:
        """Return an item for each value found."""

        def read_keys() -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
            for some in read():
                yield np.asarray(some[_RANK_KEY]), np.asarray(some[_COUNT])

        which = _COMPUTED if question.parts else _RAW
        start = _SEPARATOR.join((question.column, which, _RANKED, ""))
        items = [f"{start}{key}" for key in find(question, read_keys).tolist()]
        return _batch(items, [1] * len(items))

    def notes(self, contents: Mapping[str, bytes]) -> Sequence[Note]:
        """Return a note for each column with fewer buckets than requested."""
        if NUMBERS_FILE not in contents:
            return []
        learned = parse_numbers(contents[NUMBERS_FILE])
        return [
            _few_buckets(transform, 1 + len(learned[transform.column].boundaries))
            for transform in self._transforms
            if _has_buckets(transform)
            and 1 + len(learned[transform.column].boundaries) < transform.size
        ]

    def _most_frequent(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        options = self.options
        return most_frequent(counts, least=options.min_frequency, at_most=options.vocab_size)


def _has_median(transform: ColumnTransform) -> bool:
    return transform.impute == MEDIAN


def _has_buckets(transform: ColumnTransform) -> bool:
    return transform.last == "bucketize"


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


def _count_numbers(
    transform: ColumnTransform, column: pa.Array
) -> Iterator[tuple[tuple[str, ...], int]]:
    values, missing = numbers_of(column)
    yield (_MISSING,), int(missing.sum())
    values = values[~missing]
    if transform.impute in (MEAN, MEDIAN):
        yield from _count_floats(_RAW, values, quantiles=_has_median(transform))
    if transform.last is not None:
        computed = compute(transform, values)
        yield from _count_floats(_COMPUTED, computed, quantiles=_has_buckets(transform))


def _count_floats(
    which: str, values: Floats, *, quantiles: bool
) -> Iterator[tuple[tuple[str, ...], int]]:
    moments = Moments.of(values)
    yield (which, _COUNT), moments.count
    for what, number in ((_TOTAL, moments.total), (_SQUARES, moments.squares)):
        for place, digit in digits(number):
            yield (which, what, str(place)), digit
    if len(values):
        for extreme in {values.min(), values.max()}:
            yield (which, _EXTREME, float(extreme + 0.0).hex()), 1  # -0.0 is 0.0
    if quantiles:
        bits = FirstBits.of(values)
        for prefix, count in zip(bits.prefixes.tolist(), bits.counts.tolist(), strict=True):
            yield (which, _PREFIX, str(prefix)), count


def _learn_numbers(
    transform: ColumnTransform, found: Mapping[tuple[str, ...], int]
) -> LearnedNumbers | None:
    """Return the statistics of a numeric column; None if it has no value."""
    missing = found.get((_MISSING,), 0)
    fill = None
    if transform.impute is not None:
        fill = _fill(transform.impute, found)
        if fill is None:
            return None
    if transform.last is None:
        return LearnedNumbers(fill=fill)
    moments = _moments(_COMPUTED, found)
    extremes = [float.fromhex(what[2]) for what in found if what[:2] == (_COMPUTED, _EXTREME)]
    if fill is not None and missing:
        computed = compute(transform, np.array([fill]))
        moments += Moments.of(computed).times(missing)
        extremes.append(float(computed[0]))
    if not moments.count:
        return None
    return LearnedNumbers(
        fill=fill,
        mean=moments.mean,
        deviation=moments.deviation,
        least=min(extremes),
        most=max(extremes),
        boundaries=tuple(_ranked(_COMPUTED, found)),
    )


def _fill(impute: str, found: Mapping[tuple[str, ...], int]) -> float | None:
    if impute == MEAN:
        moments = _moments(_RAW, found)
        return moments.mean if moments.count else None
    if impute == MEDIAN:
        medians = _ranked(_RAW, found)
        return medians[0] if medians else None
    return float(impute)


def _moments(which: str, found: Mapping[tuple[str, ...], int]) -> Moments:
    total, squares = (
        from_digits((int(what[2]), n) for what, n in found.items() if what[:2] == (which, of))
        for of in (_TOTAL, _SQUARES)
    )
    return Moments(count=found.get((which, _COUNT), 0), total=total, squares=squares)


def _histogram(which: str, found: Mapping[tuple[str, ...], int]) -> FirstBits:
    prefixes = ((int(what[2]), n) for what, n in found.items() if what[:2] == (which, _PREFIX))
    return FirstBits.of_counts(dict(prefixes))


def _ranked(which: str, found: Mapping[tuple[str, ...], int]) -> list[float]:
    """Return the answers to the questions on a column, ascending."""
    keys = sorted(int(what[2]) for what in found if what[:2] == (which, _RANKED))
    values: list[float] = values_of_keys(np.array(keys, np.int64)).tolist()
    return values


def _questions(
    transform: ColumnTransform, found: Mapping[tuple[str, ...], int]
) -> Iterator[RankQuestion]:
    column, missing = transform.column, found.get((_MISSING,), 0)
    if _has_median(transform):
        question = median_question(column, _histogram(_RAW, found))
        if question is None:
            return
        yield question
    if not _has_buckets(transform):
        return
    fill = None
    if transform.impute is None:
        missing = 0
    elif not _has_median(transform):
        fill = _fill(transform.impute, found)
        if fill is None:
            return
        fill = float(compute(transform, np.array([fill]))[0])
    yield from boundary_questions(
        column, _histogram(_COMPUTED, found), parts=transform.size, missing=missing, fill=fill
    )


def _by_column(counts: pa.RecordBatch) -> Mapping[str, dict[tuple[str, ...], int]]:
    """Return {column: {statistic: count}} of numeric columns."""
    found: dict[str, dict[tuple[str, ...], int]] = collections.defaultdict(dict)
    values = pc.match_substring(counts[_ITEM], f"{_SEPARATOR}{_VALUE}{_SEPARATOR}")
    for item, count in _pairs(counts.filter(pc.invert(values))):
        column, *statistic = item.split(_SEPARATOR)
        found[column][tuple(statistic)] = count
    return found


def _ranked_batch(questions: Any, keys: Any, times: Any) -> pa.RecordBatch:
    columns = [pa.array(array, pa.int64()) for array in (questions, keys, times)]
    return pa.RecordBatch.from_arrays(columns, names=[QUESTION, _RANK_KEY, _COUNT])


def _batch(items: Any, counts: Any) -> pa.RecordBatch:
    columns = [pa.array(items, pa.string()), pa.array(counts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=[_ITEM, _COUNT])


def _pairs(counts: pa.RecordBatch) -> Iterable[tuple[str, int]]:
    return zip(counts[_ITEM].to_pylist(), counts[_COUNT].to_pylist(), strict=True)
