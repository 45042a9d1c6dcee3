"""Options for the columns of a table; each column is transformed on its own."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import Annotated, Any, Literal, get_args

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_checks import Between, check_options
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.transforms.encoders.time_zones import zone_of

DatePart = Literal["year", "month", "day", "weekday", "hour", "minute", "second"]
ZscoreBy = Literal["series", "window"]
Last = Literal["zscore", "minmax", "bucketize", "one-hot", "vocabulary", "hash", "date-parts"]

_AtLeastOne = Annotated[int, Between(1, math.inf)]

NUMERIC: tuple[Last, ...] = ("zscore", "minmax", "bucketize")
NUMBERED: tuple[Last, ...] = ("bucketize", "hash")  # integer ids below the size in the option
LEARNED_VALUES: tuple[Last, ...] = ("one-hot", "vocabulary")
OF_TEXT: tuple[Last, ...] = (*LEARNED_VALUES, "hash")
MEAN, MEDIAN = "mean", "median"


def parts_of(text: str) -> tuple[DatePart, ...]:
    """Parse date parts such as `year+month`; each part occurs once.

    Raises:
        ConfigError: a part does not exist.
    """
    known: tuple[DatePart, ...] = get_args(DatePart)
    given = text.split("+")
    for part in given:
        if part not in known:
            raise ConfigError(
                f"{option_name('date_parts')}: unknown part {part!r}{did_you_mean(part, known)};"
                f" expected some of {', '.join(known)}"
            )
    return tuple(part for part in known if part in given)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnTransform:
    """Transform of one column, in the order of the fields.

    indicator: add a feature that marks missing values.
    impute: replacement of missing values: mean, median, or a value.
    clip: (least, most) to clip to.
    log: apply ln(1 + x).
    last: final step; None keeps the values.
    size: number of buckets, or of ids for unknown values (`vocabulary`).
    parts: parts of a date, for `date-parts`. time_zone: name of the time zone for these parts.
    by: what has a mean and a scale of its own, for `zscore`; None if they are those of train.
    """

    column: str
    indicator: bool = False
    impute: str | None = None
    clip: tuple[float, float] | None = None
    log: bool = False
    last: Last | None = None
    size: int = 0
    parts: tuple[DatePart, ...] = ()
    time_zone: str | None = None
    by: ZscoreBy | None = None

    @property
    def is_numeric(self) -> bool:
        """True if the transform applies to numbers only."""
        computed = self.clip is not None or self.log or self.impute in (MEAN, MEDIAN)
        return computed or self.last in NUMERIC

    @property
    def learns(self) -> bool:
        """True if the transform needs statistics of split train."""
        return self.learns_last or self.impute in (MEAN, MEDIAN)

    @property
    def learns_last(self) -> bool:
        """True if the final step needs statistics of split train."""
        return self.last in (*NUMERIC, *LEARNED_VALUES) and self.by is None


def _columns(help_text: str, after: str | None = None) -> Any:
    return option(
        (), parse=values.names, repeat=True, after=after, metavar="COLUMN,...", help=help_text
    )


def _by_column(
    convert: Callable[[Mapping[str, str]], Any],
    metavar: str,
    help_text: str,
    after: str | None = None,
) -> Any:
    return option(
        (),
        given={},
        convert=convert,
        parse=values.by_column,
        repeat=True,
        after=after,
        metavar=metavar,
        help=help_text,
    )


def _numbers(name: str, given: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    found = []
    for column, text in given.items():
        try:
            found.append((column, values.whole_number(text)))
        except ValueError as error:
            raise ConfigError(f"{option_name(name)} {column}={text}: {error}") from error
    return tuple(found)


def _bounds(given: Mapping[str, str]) -> tuple[tuple[str, float, float], ...]:
    bounds = []
    for column, text in given.items():
        least, colon, most = text.partition(":")
        try:
            bounds.append((column, float(least or "-inf"), float(most or "inf")))
        except ValueError:
            colon = ""
        if not colon:
            raise ConfigError(
                f"{option_name('clip')} {column}={text}: expected MIN:MAX, such as 0:100"
            )
    return tuple(bounds)


def _pairs(given: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    return tuple(given.items())


def _date_parts(given: Mapping[str, str]) -> tuple[tuple[str, tuple[DatePart, ...]], ...]:
    return tuple((column, parts_of(text)) for column, text in given.items())


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """Transforms of the columns of a table.

    Args:
      zscore, minmax, log, one_hot, vocabulary, indicator: Names of columns.
      zscore_by: `zscore` uses the mean and scale of each `series` or `window`; None uses the mean
        and scale of train.
      bucketize, hash: (column, number of buckets).
      clip: (column, minimum, maximum).
      impute: (column, value), or `mean` or `median` instead of the value.
      date_parts: (column, parts).
      time_zone: Name of the time zone for the parts of timestamps.
      vocab_size, min_frequency, oov_buckets: Options of all learned vocabularies, as in
        `TextOptions`.

    Raises:
        ConfigError: A number is out of range, or options exclude each other.
    """

    zscore: tuple[str, ...] = _columns(
        "Subtract the mean and divide by the standard deviation, both of train.", after="log"
    )
    minmax: tuple[str, ...] = _columns(
        "Scale the minimum of train to 0 and its maximum to 1.", after="zscore"
    )
    log: tuple[str, ...] = _columns("Replace x by ln(1 + x).", after="clip")
    one_hot: tuple[str, ...] = _columns(
        "One-hot encode the values that occur in train.", after="bucketize"
    )
    vocabulary: tuple[str, ...] = _columns(
        "Replace values by ids, learned from train.", after="one_hot"
    )
    indicator: tuple[str, ...] = _columns("Add the feature COLUMN/missing: 1 if there is no value.")
    bucketize: tuple[tuple[str, int], ...] = _by_column(
        functools.partial(_numbers, "bucketize"),
        "COLUMN=N,...",
        "Replace numbers by the index of one of N quantile buckets of train.",
        after="minmax",
    )
    hash: tuple[tuple[str, int], ...] = _by_column(
        functools.partial(_numbers, "hash"),
        "COLUMN=N,...",
        "Replace values by one of N ids, by their hash.",
        after="vocabulary",
    )
    clip: tuple[tuple[str, float, float], ...] = _by_column(
        _bounds, "COLUMN=MIN:MAX,...", "Clip numbers to this range.", after="impute"
    )
    impute: tuple[tuple[str, str], ...] = _by_column(
        _pairs,
        "COLUMN=VALUE,...",
        "Fill missing values with the mean, the median, or this value.",
        after="indicator",
    )
    date_parts: tuple[tuple[str, tuple[DatePart, ...]], ...] = _by_column(
        _date_parts,
        "COLUMN=PART+PART,...",
        "Split dates and timestamps into year, month, day, weekday (Monday is 1), hour, minute,"
        " second.",
    )
    time_zone: str | None = option(
        None,
        metavar="ZONE",
        help="With --date-parts: split timestamps by the clock of this time zone, such as"
        " Europe/Berlin. Timestamps without a time zone are UTC.",
    )
    zscore_by: ZscoreBy | None = option(
        None,
        help="Mean and deviation for --zscore. series: of the rows of the series in train. window:"
        " of the rows of the window. Both become the features COLUMN/mean and COLUMN/scale."
        " Default: of all of train.",
    )
    vocab_size: _AtLeastOne = option(
        20_000,
        help="Maximum number of values to learn per column; the most frequent are kept.",
    )
    min_frequency: _AtLeastOne = option(
        1, help="Learn only values that occur at least this often in train."
    )
    oov_buckets: _AtLeastOne = option(
        1, help="Number of ids that out-of-vocabulary values share, by their hash."
    )

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        for name in ("bucketize", "hash"):
            for column, size in getattr(self, name):
                if not 1 < size <= 2**31:
                    raise ConfigError(
                        f"{option_name(name)} {column}={size}: expected 2 to 2^31 buckets"
                    )
        for column, least, most in self.clip:
            if not least < most:
                raise ConfigError(
                    f"{option_name('clip')} {column}={least:g}:{most:g}: expected MIN:MAX, and"
                    f" {least:g} is not less than {most:g}"
                )
        if self.time_zone is not None:
            zone_of(self.time_zone)
            if not self.date_parts:
                raise ConfigError(
                    f"{option_name('time_zone')}: requires {option_name('date_parts')}"
                )
        if self.zscore_by is not None and not self.zscore:
            raise ConfigError(
                f"{option_name('zscore_by', self.zscore_by)}: requires {option_name('zscore')},"
                " which names the columns"
            )
        self.column_transforms()

    def column_transforms(self) -> Mapping[str, ColumnTransform]:
        """Return {column: transform}; other columns keep their values."""
        return _column_transforms(self)

    def lasts(self) -> Iterable[tuple[Last, Collection[str]]]:
        yield "zscore", self.zscore
        yield "minmax", self.minmax
        yield "bucketize", [column for column, _ in self.bucketize]
        yield "one-hot", self.one_hot
        yield "vocabulary", self.vocabulary
        yield "hash", [column for column, _ in self.hash]
        yield "date-parts", [column for column, _ in self.date_parts]


@functools.lru_cache(maxsize=8)  # every chunk of rows needs them
def _column_transforms(options: TableOptions) -> Mapping[str, ColumnTransform]:
    """Return {column: transform}.

    Raises:
        ConfigError: the options contradict each other.
    """
    made: dict[str, ColumnTransform] = {}

    def change(column: str, **what: Any) -> None:
        transform = made.get(column, ColumnTransform(column=column))
        made[column] = dataclasses.replace(transform, **what)

    lasts: dict[str, Last] = {}
    for last, columns in options.lasts():
        for column in columns:
            if column in lasts:
                raise ConfigError(
                    f"{_named(last)} {column}: conflicts with {_named(lasts[column])} {column};"
                    " use only one of them"
                )
            lasts[column] = last
            change(column, last=last)
    for column, size in (*options.bucketize, *options.hash):
        change(column, size=size)
    for column in options.vocabulary:
        change(column, size=options.oov_buckets)
    for column, parts in options.date_parts:
        change(column, parts=parts, time_zone=options.time_zone)
    for column in options.zscore:
        change(column, by=options.zscore_by)
    for column in options.indicator:
        change(column, indicator=True)
    for column, value in _once("impute", options.impute):
        change(column, impute=value)
    for column, bounds in _once("clip", [(c, (a, b)) for c, a, b in options.clip]):
        change(column, clip=bounds)
    for column in options.log:
        change(column, log=True)
    for column, transform in made.items():
        if transform.is_numeric and transform.last is not None and transform.last not in NUMERIC:
            raise ConfigError(
                f"{_named(transform.last)} {column}: uses values as they are, and cannot follow"
                f" {option_name('clip')}, {option_name('log')} or {option_name('impute')} mean or"
                " median, which change them"
            )
    return MappingProxyType(made)


def _named(last: Last) -> str:
    return option_name(last.replace("-", "_"))


def _once(option: str, given: Iterable[tuple[str, object]]) -> Iterable[tuple[str, object]]:
    seen: set[str] = set()
    for column, value in given:
        if column in seen:
            raise ConfigError(f"{option_name(option)}: column {column!r} is given twice")
        seen.add(column)
        yield column, value
