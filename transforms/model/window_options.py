"""Options of windows over time series."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
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


def _in_order(given: Mapping[str, int]) -> tuple[tuple[str, int], ...]:
    return tuple(sorted(given.items(), key=lambda one: one[1]))


@dataclasses.dataclass(frozen=True, kw_only=True)
class WindowOptions:
    """Windows of `window` rows, starting every `stride` rows; times are in microseconds.

    The `help` of each option describes it; the fields below follow from other options.

    Attributes:
      time_feature: Name of the column of windows with the times of their rows; None without one.
      scale_by: Source of the mean and the scale of the columns in `scaled`; None for all of train.
      scaled: Transforms of the columns to scale, applied before the scaling.
      labelled_series: Series with intervals that give rows their classes; empty if a column does.
      zone_unknown: Whether no option gives the time zone of times.
      interval_classes: Each class of these intervals, and its first interval for messages.

    Raises:
      ConfigError: A number is out of range, or options exclude each other.
    """

    window: int = option(given=None, metavar="ROWS", help="Required: rows per window.")
    stride: int = option(
        given=None,
        metavar="ROWS",
        help="Rows from the start of one window to the start of the next. Default: --window.",
    )
    step: int | str | None = option(
        None,
        parse=values.step,
        show=values.show_step,
        metavar="auto|DURATION|COLUMN",
        help="auto, the default: rows are not resampled, and the step of a series is the most"
        " frequent distance between its rows. A duration, such as 10s or 1h: resample all series to"
        " multiples of it. A column with durations or seconds: resample each series to multiples of"
        " its own step.",
    )
    resample: Resample = option(
        "mean",
        help="How the numbers within a step are combined; other columns keep the last value.",
    )
    max_gap: int | None = option(
        None,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="Rows that are further apart than this have a gap between them. Default: 1.5 steps of"
        " the series.",
    )
    gap_policy: GapPolicy = option(
        "split",
        help="split: no window crosses a gap. fill: fill gaps as --fill says. reject: reject every"
        " series that has a gap.",
    )
    fill: Fill = option(
        "last",
        help="Fill gaps with copies of the row before, or with rows of missing values.",
    )
    fill_rows: int | None = option(
        None,
        metavar="ROWS",
        help="Do not fill gaps of more rows than this. Default: --window.",
    )
    label: LabelRule = option(
        LabelRule(),
        name="window_label",
        given="last",
        convert=LabelRule.parse,
        metavar="RULE",
        help="Class of a window. last, first: the class of its last or first row. majority: the"
        " most frequent class. any:CLASS: this class if any row has it, else that of the last"
        " row. all:CLASS: this class if all rows have it, else that of the last row with another"
        " one. ahead:ROWS: the class of the row this many rows after the last one. last, first and"
        " ahead:ROWS also choose a number (--label-type int, float).",
    )
    split_by: SplitBy = option(
        "series",
        help="series: all windows of a series go to one split. time: the earliest rows of all"
        " series go to train, later rows to the other splits. series-time: the same within"
        " each series.",
    )
    split_times: tuple[tuple[str, int], ...] = option(
        (),
        given={},
        convert=_in_order,
        parse=values.moments,
        show=values.show_moments,
        metavar="NAME=TIME,...",
        help="With --split-by time: start of each split, such as"
        " validation=2026-01-01,test=2026-02-01; train is everything before. Default: the times"
        " that give the fractions of --splits.",
    )
    purge: int = option(
        0,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="With --split-by time or series-time: drop the rows within this time after the start"
        " of a split.",
    )
    time_feature: str | None = None
    horizon: int = option(
        0,
        after="window_label",
        metavar="ROWS",
        help="Add the feature target: the values of the --target columns in this many rows after"
        " the window. Windows without these rows are not made.",
    )
    targets: tuple[str, ...] = option(
        (),
        name="target",
        after="horizon",
        parse=values.distinct_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns to predict, with --horizon. The feature target has the shape [horizon], or"
        " [horizon, columns] if there are several.",
    )
    last_window: tuple[str, ...] = option(
        (),
        after="static_columns",
        parse=values.names,
        repeat=True,
        metavar="all|SPLIT,...",
        help="Make only the last window of each series, in all splits or in these, such as test."
        " Names of splits need --split-by time or series-time, or splits that the input names.",
    )
    static_columns: tuple[str, ...] = option(
        (),
        after="target",
        parse=values.names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns with one value per series, such as a place. A window has this value once.",
    )
    scale_by: ZscoreBy | None = None
    scaled: tuple[ColumnTransform, ...] = ()
    labelled_series: tuple[str, ...] = ()
    zone_unknown: bool = False
    interval_classes: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        for name in ("window", "stride", "step", "max_gap", "fill_rows"):
            number = getattr(self, name)
            if isinstance(number, int) and number < 1:
                raise ConfigError(f"{option_name(name)}: expected more than 0, got {number}")
        fills = option_name("gap_policy", "fill"), self.gap_policy == "fill"
        targets, horizon = _targets(), option_name("horizon")
        over_time = f"{option_name('split_by', 'time')} or series-time"
        for name, given, needed, there in (
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
                raise ConfigError(f"{option_name(name)}: requires {needed}")
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
