"""What becomes of the columns of a table, each by itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable
from typing import Literal, get_args

from recordmill.errors import ConfigError, did_you_mean

DatePart = Literal["year", "month", "day", "weekday", "hour", "minute", "second"]
Last = Literal["zscore", "minmax", "bucketize", "one-hot", "vocabulary", "hash", "date-parts"]

NUMERIC: tuple[Last, ...] = ("zscore", "minmax", "bucketize")
NUMBERED: tuple[Last, ...] = ("bucketize", "hash")  # of as many ids as the option says
LEARNED_VALUES: tuple[Last, ...] = ("one-hot", "vocabulary")
OF_TEXT: tuple[Last, ...] = (*LEARNED_VALUES, "hash")
MEAN, MEDIAN = "mean", "median"


def parts_of(text: str) -> tuple[DatePart, ...]:
    """`year+month` -> its parts, each once. Raises ConfigError."""
    known: tuple[DatePart, ...] = get_args(DatePart)
    given = text.split("+")
    for part in given:
        if part not in known:
            raise ConfigError(
                f"--date-parts: there is no part {part!r}{did_you_mean(part, known)}; expected some"
                f" of {', '.join(known)}"
            )
    return tuple(part for part in known if part in given)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Recipe:
    """What becomes of one column, in this order.

    indicator: a feature says where there was nothing. impute: what stands there instead: mean,
    median, or a value. clip: between two numbers. log: ln(1 + x). last: what it becomes. size: how
    many buckets it has, or of values that were not learned. parts: of a date.
    """

    column: str
    indicator: bool = False
    impute: str | None = None
    clip: tuple[float, float] | None = None
    log: bool = False
    last: Last | None = None
    size: int = 0
    parts: tuple[DatePart, ...] = ()

    @property
    def is_numeric(self) -> bool:
        """Whether it is about numbers only."""
        computed = self.clip is not None or self.log or self.impute in (MEAN, MEDIAN)
        return computed or self.last in NUMERIC

    @property
    def learns(self) -> bool:
        """Whether there is something to learn from train."""
        return self.last in (*NUMERIC, *LEARNED_VALUES) or self.impute in (MEAN, MEDIAN)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableOptions:
    """What becomes of which columns.

    zscore, minmax, log, one_hot, vocabulary, indicator: columns. bucketize, hash: (column, number
    of buckets). clip: (column, least, most). impute: (column, mean, median or a value). date_parts:
    (column, parts). vocab_size, min_frequency, oov_buckets: of every column whose values are
    learned.

    Raises:
      ConfigError: two that exclude each other, or numbers that make no sense.
    """

    zscore: tuple[str, ...] = ()
    minmax: tuple[str, ...] = ()
    log: tuple[str, ...] = ()
    one_hot: tuple[str, ...] = ()
    vocabulary: tuple[str, ...] = ()
    indicator: tuple[str, ...] = ()
    bucketize: tuple[tuple[str, int], ...] = ()
    hash: tuple[tuple[str, int], ...] = ()
    clip: tuple[tuple[str, float, float], ...] = ()
    impute: tuple[tuple[str, str], ...] = ()
    date_parts: tuple[tuple[str, tuple[DatePart, ...]], ...] = ()
    vocab_size: int = 20_000
    min_frequency: int = 1
    oov_buckets: int = 1

    def __post_init__(self) -> None:
        for option in ("bucketize", "hash"):
            for column, size in getattr(self, option):
                if not 1 < size <= 2**31:
                    raise ConfigError(
                        f"--{option} {column}={size}: expected 2 buckets at least, and 2^31 at most"
                    )
        for column, least, most in self.clip:
            if not least < most:
                raise ConfigError(
                    f"--clip {column}={least:g}:{most:g}: expected LEAST:MOST, and {least:g} is not"
                    f" less than {most:g}"
                )
        for option, value, least in (
            ("--vocab-size", self.vocab_size, 1),
            ("--min-frequency", self.min_frequency, 1),
            ("--oov-buckets", self.oov_buckets, 1),
        ):
            if value < least:
                raise ConfigError(f"{option}: expected {least} or more, got {value}")
        self.recipes()

    def recipes(self) -> dict[str, Recipe]:
        """{column: what becomes of it}; of others nothing does."""
        made: dict[str, Recipe] = {}

        def change(column: str, **what: object) -> None:
            made[column] = dataclasses.replace(made.get(column, Recipe(column=column)), **what)  # type: ignore[arg-type]

        lasts: dict[str, Last] = {}
        for last, columns in self._lasts():
            for column in columns:
                if column in lasts:
                    raise ConfigError(
                        f"--{last} {column}: --{lasts[column]} has it too, and a column can become "
                        "one thing only: leave one out"
                    )
                lasts[column] = last
                change(column, last=last)
        for column, size in (*self.bucketize, *self.hash):
            change(column, size=size)
        for column in self.vocabulary:
            change(column, size=self.oov_buckets)
        for column, parts in self.date_parts:
            change(column, parts=parts)
        for column in self.indicator:
            change(column, indicator=True)
        for column, value in _once("--impute", self.impute):
            change(column, impute=value)
        for column, bounds in _once("--clip", [(c, (a, b)) for c, a, b in self.clip]):
            change(column, clip=bounds)
        for column in self.log:
            change(column, log=True)
        for column, recipe in made.items():
            if recipe.is_numeric and recipe.last is not None and recipe.last not in NUMERIC:
                raise ConfigError(
                    f"--{recipe.last} {column}: is of values as they are, and --clip, --log and "
                    "--impute mean or median make other numbers of them: leave one out"
                )
        return made

    def _lasts(self) -> Iterable[tuple[Last, Collection[str]]]:
        yield "zscore", self.zscore
        yield "minmax", self.minmax
        yield "bucketize", [column for column, _ in self.bucketize]
        yield "one-hot", self.one_hot
        yield "vocabulary", self.vocabulary
        yield "hash", [column for column, _ in self.hash]
        yield "date-parts", [column for column, _ in self.date_parts]


def _once(option: str, given: Iterable[tuple[str, object]]) -> Iterable[tuple[str, object]]:
    seen: set[str] = set()
    for column, value in given:
        if column in seen:
            raise ConfigError(f"{option}: column {column!r} stands there twice")
        seen.add(column)
        yield column, value
