"""Options of windows over time series."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.transforms.encoders.table_options import ColumnTransform, ZscoreBy

GapPolicy = Literal["split", "fill", "reject"]
Fill = Literal["last", "missing"]
Resample = Literal["mean", "min", "max", "sum", "first", "last"]
SplitBy = Literal["series", "time", "series-time"]
LabelFrom = Literal["last", "first", "majority", "any", "all", "ahead"]

EVERY_SPLIT = "all"  # in the place of names of splits


@dataclasses.dataclass(frozen=True, kw_only=True)
class LabelRule:
    """Rule for the class of a window.

    kind: `last` and `first`, the class of the last or first row; `majority`, the most frequent
        class of the rows; `any`, the class `name` if any row has it, else the class of the last
        row; `all`, the class `name` if all rows have it, else that of the last row with another
        one; `ahead`, the class of the row that is `rows` rows after the last one.
    """

    kind: LabelFrom = "last"
    name: str = ""
    rows: int = 0

    @property
    def chooses_row(self) -> bool:
        """True if a single row decides, so that the label may be a number."""
        return self.kind in ("last", "first", "ahead")

    @classmethod
    def parse(cls, text: str) -> LabelRule:
        """Parse the option's text, such as `any:fault`.

        Raises:
            ConfigError: the text is no such rule.
        """
        kind, colon, rest = text.partition(":")
        match kind:
            case "last" | "first" | "majority" if not colon:
                return cls(kind=kind)
            case "any" | "all" if rest:
                return cls(kind=kind, name=rest)
            case "ahead" if rest.isascii() and rest.isdigit() and int(rest):
                return cls(kind=kind, rows=int(rest))
        raise ConfigError(
            f"{option_name('label', flag='window-label')}: expected last, first, majority,"
            f" any:CLASS, all:CLASS or ahead:ROWS, such as any:fault or ahead:6, got {text!r}"
        )


def _targets(*value: str) -> str:
    return option_name("targets", *value, flag="target")


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Windows of `window` rows, starting every `stride` rows; times are in microseconds.

    step: rows are resampled to multiples of this time, or, if it is the name of a column, of the
        time that each row has there; rows of the same step are combined by `resample`. None keeps
        the rows.
    max_gap: rows further apart than this have a gap between them; by default 1.5 times the step,
        which is the most frequent distance between rows of a series if `step` is None.
    gap_policy: `split` ends a run of rows at a gap, `fill` fills the gap, `reject` rejects the
        series.
    fill: gaps are filled with the values of the last row, or with missing values.
    fill_rows: gaps of more rows than this end a run instead of being filled.
    label: rule for the class of a window.
    split_by: `series` assigns whole series to splits. `time` begins splits at
        `split_times`, (name, time) pairs, or by the split fractions over all rows; `series-time`
        by the split fractions over the rows of each series.
    purge: rows up to this time after a split begins are left out.
    time_feature: name of a column of the windows with the times of their rows; None for none.
    horizon: number of rows after a window that are its target; they follow it without a gap.
    targets: columns of the target.
    last_window: splits in which a series has only its last window; `all` stands for every split.
    static_columns: columns with one value per series.
    scale_by: what gives the mean and the scale of the columns in `scaled`; None if all of train.
    scaled: transforms of these columns, which come before the scaling.
    labelled_series: series with intervals that give rows their classes; empty if a column does.
    zone_unknown: whether no option gives the time zone of times.
    interval_classes: each class of these intervals, and its first interval for messages.

    Raises:
        ConfigError: a number is out of range, or options exclude each other.
    """

    window: int
    stride: int
    step: int | str | None = None
    resample: Resample = "mean"
    max_gap: int | None = None
    gap_policy: GapPolicy = "split"
    fill: Fill = "last"
    fill_rows: int | None = None
    label: LabelRule = LabelRule()
    split_by: SplitBy = "series"
    split_times: tuple[tuple[str, int], ...] = ()
    purge: int = 0
    time_feature: str | None = None
    horizon: int = 0
    targets: tuple[str, ...] = ()
    last_window: tuple[str, ...] = ()
    static_columns: tuple[str, ...] = ()
    scale_by: ZscoreBy | None = None
    scaled: tuple[ColumnTransform, ...] = ()
    labelled_series: tuple[str, ...] = ()
    zone_unknown: bool = False
    interval_classes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        for option in ("window", "stride", "step", "max_gap", "fill_rows"):
            number = getattr(self, option)
            if isinstance(number, int) and number < 1:
                raise ConfigError(f"{option_name(option)}: expected more than 0, got {number}")
        fills = option_name("gap_policy", "fill"), self.gap_policy == "fill"
        targets, horizon = _targets(), option_name("horizon")
        over_time = f"{option_name('split_by', 'time')} or series-time"
        for option, given, needed, there in (
            ("resample", self.resample != "mean", option_name("step"), self.step is not None),
            ("fill", self.fill != "last", *fills),
            ("fill_rows", self.fill_rows, *fills),
            (
                "split_times",
                self.split_times,
                option_name("split_by", "time"),
                self.split_by == "time",
            ),
            ("purge", self.purge, over_time, self.divides_time),
            ("horizon", self.horizon, targets, bool(self.targets)),
        ):
            if given and not there:
                raise ConfigError(f"{option_name(option)}: requires {needed}")
        if self.targets and self.horizon == 0:
            raise ConfigError(f"{targets}: requires {horizon}")
        if self.horizon < 0:
            raise ConfigError(f"{option_name('horizon')}: expected more than 0, got {self.horizon}")
        for name in self.static_columns:
            if name in self.targets:
                raise ConfigError(
                    f"{_targets(name)}: {option_name('static_columns')} says that it"
                    " has one value per series, and a target has one per row: leave it out of one"
                    " of them"
                )
        if EVERY_SPLIT in self.last_window and len(self.last_window) > 1:
            raise ConfigError(
                f"{option_name('last_window', ','.join(self.last_window))}: expected all, or names"
                " of splits"
            )
        times = [time for _, time in self.split_times]
        if times != sorted(set(times)):
            raise ConfigError(
                f"{option_name('split_times')}: expected distinct times in ascending order"
            )

    @property
    def divides_time(self) -> bool:
        """True if the time of a row decides its split."""
        return self.split_by != "series"

    @property
    def reach(self) -> int:
        """Number of rows needed for one window, its target and its class."""
        return self.window + max(self.horizon, self.label.rows)

    @property
    def extent(self) -> int:
        """Number of rows with values in a record: of the window and its target."""
        return self.window + self.horizon
