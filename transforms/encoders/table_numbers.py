"""Statistics of numeric columns over split train: counts, questions for ranks, and results.

Counts of a column are {statistic: count}, for example of values with the same first bits.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Annotated

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.typed_json import Checked, Presence, damage_of, parse_json, read_as
from recordmill.option_checks import Between
from recordmill.transforms.encoders.artifacts import read_artifact
from recordmill.transforms.encoders.table_options import MEAN, MEDIAN, ColumnTransform
from recordmill.transforms.encoders.table_ranks import (
    RankQuestion,
    boundary_questions,
    find,
    in_bins,
    median_question,
)
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.second_look import QUESTION
from recordmill.transforms.model.user_columns import flat
from recordmill.transforms.statistics.bit_histogram import FirstBits
from recordmill.transforms.statistics.exact_ranks import add_up, values_of_keys
from recordmill.transforms.statistics.moments import Moments, digits, from_digits
from recordmill.transforms.statistics.ranges import Ints, edges_of

Floats = npt.NDArray[np.float64]

NUMBERS_FILE = "learned.json"

_MISSING, _COUNT, _TOTAL, _SQUARES, _PREFIX, _EXTREME, _RANKED = (
    "missing",
    "count",
    "total",
    "squares",
    "prefix",
    "extreme",
    "ranked",
)
_RAW, _COMPUTED = "raw", "computed"  # before and after clip and log
_KEY = "key"


def compute(transform: ColumnTransform, values: Floats) -> Floats:
    """Apply `clip` and `log` to numbers, float64[n]."""
    if transform.clip is not None:
        values = np.clip(values, *transform.clip)
    return np.log1p(values) if transform.log else values


def numbers_of(column: pa.Array) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Return the values of a column, float64[n], and the mask of missing ones, bool[n]."""
    if column.type != pa.float64():
        column = column.cast(pa.float64(), safe=False)  # rounds large integers
    if not column.null_count:  # calls of Arrow take longer than the values of a short column
        return column.to_numpy(), np.zeros(len(column), np.bool_)
    return np.asarray(column.fill_null(0.0)), np.asarray(column.is_null())


def _ascending(boundaries: tuple[float, ...]) -> tuple[float, ...]:
    if any(one >= other for one, other in itertools.pairwise(boundaries)):
        raise ValueError("expected ascending numbers")
    return boundaries


_StatedFloat = Annotated[float, Presence.REQUIRED]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LearnedNumbers:
    """Statistics of a numeric column.

    fill: replacement of missing values; None leaves them missing.
    mean, deviation, least, most: of all values of train after imputing, clipping and log.
    boundaries: of buckets, ascending.
    """

    fill: Annotated[float | None, Presence.REQUIRED] = None
    mean: _StatedFloat = 0.0
    deviation: Annotated[float, Between(0, sys.float_info.max), Presence.REQUIRED] = 0.0
    least: _StatedFloat = 0.0
    most: _StatedFloat = 0.0
    boundaries: Annotated[tuple[float, ...], Checked(_ascending), Presence.REQUIRED] = ()


def load_numbers(artifacts: Mapping[str, Artifact]) -> Mapping[str, LearnedNumbers]:
    """Return the statistics of numeric columns, {column: statistics}, read once per process."""
    return _load_numbers(artifacts[NUMBERS_FILE]) if NUMBERS_FILE in artifacts else {}


@functools.lru_cache(maxsize=4)
def _load_numbers(artifact: Artifact) -> Mapping[str, LearnedNumbers]:
    with damage_of(artifact.path):
        return parse_numbers(read_artifact(artifact))


def parse_numbers(content: bytes) -> Mapping[str, LearnedNumbers]:
    """Parse the file of statistics: {column: statistics}.

    Raises:
        ValueError: the content is invalid.
    """
    return read_as(dict[str, LearnedNumbers], parse_json(content))


def has_median(transform: ColumnTransform) -> bool:
    return transform.impute == MEDIAN


def has_buckets(transform: ColumnTransform) -> bool:
    return transform.last == "bucketize"


def count_numbers(
    several: Iterable[tuple[ColumnTransform, pa.Array]], known: Mapping[str, Moments]
) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the counts of numeric columns: (column, statistic and its subject), count.

    known: moments of the finite values of some columns, before clip and log.
    """
    counted: list[tuple[str, str, bool, bool, Floats]] = []
    for transform, column in several:
        values, missing = numbers_of(column)
        yield (transform.column, _MISSING), int(missing.sum())
        values = values[~missing]
        if transform.impute in (MEAN, MEDIAN):
            counted.append((transform.column, _RAW, True, has_median(transform), values))
        if transform.learns_last:
            computed = compute(transform, values)
            is_plain = transform.clip is None and not transform.log
            quantiles = has_buckets(transform)
            counted.append((transform.column, _COMPUTED, is_plain, quantiles, computed))
    moments = [known.get(name) if is_plain else None for name, _, is_plain, *_ in counted]
    others = [place for place, one in enumerate(moments) if one is None]
    edges = edges_of([len(counted[place][-1]) for place in others])
    joined = np.concatenate([np.zeros(0), *(counted[place][-1] for place in others)])
    for place, one in zip(others, Moments.of_ranges(joined, edges), strict=True):
        moments[place] = one
    for (name, which, _, quantiles, values), sums in zip(counted, moments, strict=True):
        assert sums is not None
        assert sums.count == len(values), (name, sums.count, len(values))
        for item, count in _count_floats(which, values, sums, quantiles=quantiles):
            yield (name, *item), count


def _count_floats(
    which: str, values: Floats, moments: Moments, *, quantiles: bool
) -> Iterator[tuple[tuple[str, ...], int]]:
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


def learn_numbers(
    transform: ColumnTransform, found: Mapping[tuple[str, ...], int]
) -> LearnedNumbers | None:
    """Return the statistics of a numeric column; None if it has no value."""
    missing = found.get((_MISSING,), 0)
    fill = None
    if transform.impute is not None:
        fill = _fill(transform.impute, found)
        if fill is None:
            return None
    if not transform.learns_last:
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


def questions_on(
    transform: ColumnTransform, found: Mapping[tuple[str, ...], int]
) -> Iterator[RankQuestion]:
    column, missing = transform.column, found.get((_MISSING,), 0)
    if has_median(transform):
        question = median_question(column, _histogram(_RAW, found))
        if question is None:
            return
        yield question
    if not has_buckets(transform):
        return
    fill = None
    if transform.impute is None:
        missing = 0
    elif not has_median(transform):
        fill = _fill(transform.impute, found)
        if fill is None:
            return
        fill = float(compute(transform, np.array([fill]))[0])
    yield from boundary_questions(
        column, _histogram(_COMPUTED, found), parts=transform.size, missing=missing, fill=fill
    )


def collect(
    rows: pa.RecordBatch,
    questions: Sequence[RankQuestion],
    transforms: Mapping[str, ColumnTransform],
) -> pa.RecordBatch:
    """Return the values in the bins of the questions: `question`, `key` and `count`, int64."""
    by_values: dict[tuple[str, bool], list[int]] = collections.defaultdict(list)
    for place, question in enumerate(questions):
        by_values[question.column, question.parts > 0].append(place)
    parts = [_NO_VALUES]
    for (column, is_computed), places in by_values.items():
        values, missing = numbers_of(flat(rows[column]))
        values = values[~missing]
        if is_computed:
            values = compute(transforms[column], values)
        index, keys, counts = in_bins(values, [questions[place] for place in places])
        parts.append(counted_keys(np.array(places)[index], keys, counts))
    return batch.concat(parts)


def merge(collected: pa.RecordBatch) -> pa.RecordBatch:
    """Add up the counts of equal values of a question."""
    parts = [_NO_VALUES]
    questions = np.asarray(collected[QUESTION])
    for place in np.unique(questions).tolist():
        some = collected.filter(pa.array(questions == place))
        keys, counts = add_up(np.asarray(some[_KEY]), np.asarray(some[_COUNT]))
        parts.append(counted_keys(np.full(len(keys), place), keys, counts))
    return batch.concat(parts)


def answers(
    question: RankQuestion, read: Callable[[], Iterable[pa.RecordBatch]]
) -> Iterator[tuple[str, ...]]:
    """Yield a statistic for each value that a question asks for."""

    which = _COMPUTED if question.parts else _RAW
    for key in find(question, functools.partial(read_counted, read)).tolist():
        yield which, _RANKED, str(key)


def read_counted(read: Callable[[], Iterable[pa.RecordBatch]]) -> Iterator[tuple[Ints, Ints]]:
    """Yield (keys, counts) of batches of `counted_keys`, int64[m] each."""
    for some in read():
        yield np.asarray(some[_KEY]), np.asarray(some[_COUNT])


def counted_keys(questions: Ints, keys: Ints, counts: Ints) -> pa.RecordBatch:
    """Return a batch with the columns `question`, `key` and `count`, int64 each."""
    columns = [pa.array(array, pa.int64()) for array in (questions, keys, counts)]
    return pa.RecordBatch.from_arrays(columns, names=[QUESTION, _KEY, _COUNT])


_NO_VALUES = counted_keys(*[np.zeros(0, np.int64)] * 3)
