"""How series are cut into windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal, get_args

from recordmill.errors import ConfigError

GapPolicy = Literal["split", "fill", "reject"]
Fill = Literal["last", "missing"]
Resample = Literal["mean", "min", "max", "sum", "first", "last"]
SplitBy = Literal["series", "time"]
LabelFrom = Literal["last", "majority", "any", "ahead"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelRule:
    """Which class a window has.

    kind: that of its last row; the most frequent of its rows; `name` where any row has it, else
    that of the last row; or that of the row `rows` after its last one.
    """

    kind: LabelFrom = "last"
    name: str = ""
    rows: int = 0

    @classmethod
    def parse(cls, text: str) -> LabelRule:
        """Raises ConfigError."""
        kind, colon, rest = text.partition(":")
        match kind:
            case "last" | "majority" if not colon:
                return cls(kind=kind)
            case "any" if rest:
                return cls(kind=kind, name=rest)
            case "ahead" if rest.isascii() and rest.isdigit() and int(rest):
                return cls(kind=kind, rows=int(rest))
        raise ConfigError(
            "--window-label: expected last, majority, any:CLASS or ahead:ROWS, such as any:fault or"
            f" ahead:6, got {text!r}"
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Windows of `window` rows, the first of which are `stride` rows apart; times in microseconds.

    step: rows are brought to whole multiples of it, those of one by `resample`. max_gap: rows that
      are further apart do not follow each other; half as much again as the step unless given.
    gap_policy: whether a gap ends a run of rows, is filled, or spoils its series. fill: with the
      last row's values, or with none; gaps of more than `fill_rows` rows end a run all the same.
    label: the class of a window.
    split_by: whole series, or by time: then a split begins at each of `split_times`, by its name,
      or where the fractions of all rows say; rows up to `purge` after that are left out.

    Raises:
      ConfigError: numbers that make no sense, or options that exclude each other.
    """

    window: int
    stride: int
    step: int | None = None
    resample: Resample = "mean"
    max_gap: int | None = None
    gap_policy: GapPolicy = "split"
    fill: Fill = "last"
    fill_rows: int | None = None
    label: LabelRule = LabelRule()
    split_by: SplitBy = "series"
    split_times: tuple[tuple[str, int], ...] = ()
    purge: int = 0

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--gap-policy", self.gap_policy, get_args(GapPolicy)),
            ("--fill", self.fill, get_args(Fill)),
            ("--resample", self.resample, get_args(Resample)),
            ("--split-by", self.split_by, get_args(SplitBy)),
        ):
            if value not in known:
                raise ConfigError(f"{option}: expected one of {', '.join(known)}, got {value!r}")
        for option, number in (
            ("--window", self.window),
            ("--stride", self.stride),
            ("--step", self.step),
            ("--max-gap", self.max_gap),
            ("--fill-rows", self.fill_rows),
        ):
            if number is not None and number < 1:
                raise ConfigError(f"{option}: expected more than 0, got {number}")
        for option, given, needed, there in (
            ("--resample", self.resample != "mean", "--step", self.step is not None),
            ("--fill", self.fill != "last", "--gap-policy fill", self.gap_policy == "fill"),
            ("--fill-rows", self.fill_rows, "--gap-policy fill", self.gap_policy == "fill"),
            ("--split-times", self.split_times, "--split-by time", self.split_by == "time"),
            ("--purge", self.purge, "--split-by time", self.split_by == "time"),
        ):
            if given and not there:
                raise ConfigError(f"{option} is of use with {needed} only")
        times = [time for _, time in self.split_times]
        if times != sorted(set(times)):
            raise ConfigError("--split-times: expected them in the order of time, each once")

    @property
    def reach(self) -> int:
        """Rows that it takes for one window and its class."""
        return self.window + self.label.rows


def cuts_of(times: Mapping[str, int], first: str) -> tuple[tuple[str, int], ...]:
    """(split, when it begins) of splits by time; the first has no beginning."""
    return ((first, -(2**63)), *sorted(times.items(), key=lambda one: one[1]))
