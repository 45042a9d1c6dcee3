"""What is learned of a table's columns from the records of train.

All of it is counted, so that it is the same whatever the parts that rows come in: sums of values
and of their squares as integers (`statistics.moments`), how many values there are by their first
bits, how often each text comes.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import json
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import RunError
from recordmill.transforms.encoders.table_options import (
    LEARNED_VALUES,
    MEAN,
    MEDIAN,
    Recipe,
    TableOptions,
)
from recordmill.transforms.encoders.tokenization.vocabulary import Vocabulary, most_frequent
from recordmill.transforms.model import batch
from recordmill.transforms.model.artifacts import read_artifact
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.model.user_columns import flat
from recordmill.transforms.statistics.bit_histogram import FirstBits, prefixes_of
from recordmill.transforms.statistics.moments import Moments, digits, from_digits

Floats = npt.NDArray[np.float64]

NUMBERS_FILE = "learned.json"

_ITEM, _COUNT = "item", "count"
_SEPARATOR = "\0"
_MISSING, _TOTAL, _SQUARES, _PREFIX, _EXTREME, _VALUE = (
    "missing",
    "total",
    "squares",
    "prefix",
    "extreme",
    "value",
)
_RAW, _COMPUTED = "raw", "computed"  # before clip and log, and after
_NO_LINE = "[\r\n]"  # TensorFlow reads a vocabulary line by line


def compute(recipe: Recipe, values: Floats) -> Floats:
    """What `clip` and `log` make of numbers, float64[n]."""
    if recipe.clip is not None:
        values = np.clip(values, *recipe.clip)
    return np.log1p(values) if recipe.log else values


def numbers_of(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """float64[n], and where there is none, bool[n]."""
    values = column.cast(pa.float64(), safe=False).fill_null(0.0)  # of large integers the nearest
    return np.asarray(values), np.asarray(column.is_null())


def text_of(column: pa.Array) -> pa.StringArray:
    """Values as a vocabulary has them."""
    return column.cast(pa.string())


def filled(recipe: Recipe, column: pa.Array) -> pa.Array:
    """Values, and where there is none the one that `impute` names."""
    if recipe.impute is None:
        return column
    return column.fill_null(pa.scalar(recipe.impute).cast(column.type))


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedNumbers:
    """What was learned of a column of numbers.

    fill: what stands where there was nothing, None where that stays so. mean, deviation, least,
    most: of all of train, imputed, clipped and logarithmised. boundaries: of buckets, ascending.
    """

    fill: float | None = None
    mean: float = 0.0
    deviation: float = 0.0
    least: float = 0.0
    most: float = 0.0
    boundaries: tuple[float, ...] = ()


def load_numbers(artifacts: Mapping[str, Artifact]) -> Mapping[str, LearnedNumbers]:
    """By column; read once per process."""
    return _load_numbers(artifacts[NUMBERS_FILE]) if NUMBERS_FILE in artifacts else {}


@functools.lru_cache(maxsize=4)
def _load_numbers(artifact: Artifact) -> Mapping[str, LearnedNumbers]:
    return parse_numbers(read_artifact(artifact))


def parse_numbers(content: bytes) -> Mapping[str, LearnedNumbers]:
    """What the file of numbers holds, by column."""
    return {
        column: LearnedNumbers(**(one | {"boundaries": tuple(one["boundaries"])}))
        for column, one in json.loads(content).items()
    }


def vocabulary_file(column: str) -> str:
    """Where the values of a column are published."""
    return f"vocabulary/{urllib.parse.quote(column, safe=' ()')}.txt"


def load_values(artifacts: Mapping[str, Artifact], column: str) -> Vocabulary:
    """The values of a column that were learned; read once per process."""
    return _load_values(artifacts[vocabulary_file(column)])


@functools.lru_cache(maxsize=1 << 10)
def _load_values(artifact: Artifact) -> Vocabulary:
    return Vocabulary(lines=string_array(read_artifact(artifact).decode().split("\n")[:-1]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableAnalysis:
    """Learns what `options` ask for."""

    options: TableOptions

    @property
    def columns(self) -> tuple[str, ...]:
        return tuple(recipe.column for recipe in self._recipes)

    @property
    def _recipes(self) -> list[Recipe]:
        return [recipe for recipe in self.options.recipes().values() if recipe.learns]

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`item`: column, what is counted, and of which; `count`: how many."""
        parts = [_batch([], [])]
        for recipe in self._recipes:
            column = flat(rows[recipe.column])
            if recipe.last in LEARNED_VALUES:
                parts.append(_count_values(recipe, column))
            else:
                found = list(_count_numbers(recipe, column))
                items = [_SEPARATOR.join((recipe.column, *item)) for item, _ in found]
                parts.append(_batch(items, [count for _, count in found]))
        return batch.concat(parts)

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """All numbers; of values those of `min_frequency` and more, `vocab_size` at most."""
        kept = []
        for recipe in self._recipes:
            if recipe.last in LEARNED_VALUES:
                of_column = pc.starts_with(counts[_ITEM], _value_prefix(recipe.column))
                kept.append(self._most_frequent(counts.filter(of_column)))
                counts = counts.filter(pc.invert(of_column))
        return batch.concat([counts, *kept])

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """The files of numbers and of values.

        Raises:
          RunError: a column has nothing in it.
        """
        files: dict[str, bytes] = {}
        numbers: dict[str, Any] = {}
        found: dict[str, dict[tuple[str, ...], int]] = collections.defaultdict(dict)
        values = pc.match_substring(counts[_ITEM], f"{_SEPARATOR}{_VALUE}{_SEPARATOR}")
        for item, count in _pairs(counts.filter(pc.invert(values))):
            column, *what = item.split(_SEPARATOR)
            found[column][tuple(what)] = count
        for recipe in self._recipes:
            if recipe.last in LEARNED_VALUES:
                prefix = _value_prefix(recipe.column)
                mine = counts.filter(pc.starts_with(counts[_ITEM], prefix))
                lines = [item.removeprefix(prefix) for item, _ in _pairs(self._most_frequent(mine))]
                if not lines:
                    raise self._nothing(recipe.column, records)
                content = "".join(f"{line}\n" for line in lines).encode()
                files[vocabulary_file(recipe.column)] = content
            else:
                learned = _learn_numbers(recipe, found[recipe.column])
                if learned is None:
                    raise self._nothing(recipe.column, records)
                numbers[recipe.column] = dataclasses.asdict(learned)
        if numbers:
            files[NUMBERS_FILE] = json.dumps(numbers, indent=1, sort_keys=True).encode() + b"\n"
        return files

    def _most_frequent(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        options = self.options
        return most_frequent(counts, least=options.min_frequency, at_most=options.vocab_size)

    def _nothing(self, column: str, records: int) -> RunError:
        often = f" that comes {self.options.min_frequency} times"
        return RunError(
            f"column {column!r} has no value{often if self.options.min_frequency > 1 else ''} in"
            f" the {records} records of train: there is nothing to learn"
        )


def _count_values(recipe: Recipe, column: pa.Array) -> pa.RecordBatch:
    values = text_of(filled(recipe, column)).drop_null()
    values = values.filter(pc.invert(pc.match_substring_regex(values, _NO_LINE)))
    counted = pc.value_counts(values)
    items = pc.binary_join_element_wise(_value_prefix(recipe.column), counted.field("values"), "")
    return _batch(items, counted.field("counts"))


def _value_prefix(column: str) -> str:
    return f"{column}{_SEPARATOR}{_VALUE}{_SEPARATOR}"


def _count_numbers(recipe: Recipe, column: pa.Array) -> Iterator[tuple[tuple[str, ...], int]]:
    values, missing = numbers_of(column)
    yield (_MISSING,), int(missing.sum())
    values = values[~missing]
    if recipe.impute in (MEAN, MEDIAN):
        yield from _count_floats(_RAW, values, quantiles=recipe.impute == MEDIAN)
    if recipe.last is not None:
        computed = compute(recipe, values)
        yield from _count_floats(_COMPUTED, computed, quantiles=recipe.last == "bucketize")


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


def _learn_numbers(recipe: Recipe, found: Mapping[tuple[str, ...], int]) -> LearnedNumbers | None:
    """None where there is no value to learn from."""
    missing = found.get((_MISSING,), 0)
    fill = None
    if recipe.impute is not None:
        fill = _fill(recipe.impute, found)
        if fill is None:
            return None
    if recipe.last is None:
        return LearnedNumbers(fill=fill)
    moments = _moments(_COMPUTED, found)
    extremes = [float.fromhex(what[2]) for what in found if what[:2] == (_COMPUTED, _EXTREME)]
    prefixes = _histogram(_COMPUTED, found)
    if fill is not None and missing:
        computed = compute(recipe, np.array([fill]))
        moments += Moments.of(computed).times(missing)
        extremes.append(float(computed[0]))
        prefixes[int(prefixes_of(computed)[0])] += missing
    if not moments.count:
        return None
    return LearnedNumbers(
        fill=fill,
        mean=moments.mean,
        deviation=moments.deviation,
        least=min(extremes),
        most=max(extremes),
        boundaries=tuple(FirstBits.of_counts(prefixes).boundaries(recipe.size or 1)),
    )


def _fill(impute: str, found: Mapping[tuple[str, ...], int]) -> float | None:
    if impute == MEAN:
        moments = _moments(_RAW, found)
        return moments.mean if moments.count else None
    if impute == MEDIAN:
        medians = FirstBits.of_counts(_histogram(_RAW, found)).quantiles(2)
        return medians[0] if medians else None
    return float(impute)


def _moments(which: str, found: Mapping[tuple[str, ...], int]) -> Moments:
    total, squares = (
        from_digits((int(what[2]), n) for what, n in found.items() if what[:2] == (which, of))
        for of in (_TOTAL, _SQUARES)
    )
    return Moments(count=found.get((which, _COUNT), 0), total=total, squares=squares)


def _histogram(which: str, found: Mapping[tuple[str, ...], int]) -> collections.Counter[int]:
    prefixes = ((int(what[2]), n) for what, n in found.items() if what[:2] == (which, _PREFIX))
    return collections.Counter(dict(prefixes))


def _batch(items: Any, counts: Any) -> pa.RecordBatch:
    columns = [pa.array(items, pa.string()), pa.array(counts, pa.int64())]
    return pa.RecordBatch.from_arrays(columns, names=[_ITEM, _COUNT])


def _pairs(counts: pa.RecordBatch) -> Iterable[tuple[str, int]]:
    return zip(counts[_ITEM].to_pylist(), counts[_COUNT].to_pylist(), strict=True)
