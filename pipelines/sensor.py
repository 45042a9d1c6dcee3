"""Builds a balanced, shuffled, sharded TFRecord dataset of windows from time series.

    recordmill sensor --input 'plant/*.csv' --output out/ --time-column time --window 24

The input is a file (CSV, TSV, JSONL, Parquet, Arrow, Avro, TFRecord), a glob pattern, or a folder
of files.
A row is one time step of a series; a record is a window of consecutive rows.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import ClassVar, Literal

from recordmill.errors import ConfigError
from recordmill.format.ledger import WINDOW
from recordmill.pipelines.options import values
from recordmill.pipelines.options.columns import ColumnsConfig, making, reading
from recordmill.pipelines.options.config import refuse_given
from recordmill.pipelines.options.declaration import Group, option
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.window_options import LabelRule, SplitBy, WindowOptions
from recordmill.transforms.sources.rows.interval_file import read_intervals
from recordmill.transforms.sources.rows.sample_times import TimeUnit
from recordmill.transforms.sources.rows.sensor_rows import SensorRows
from recordmill.transforms.windowing.window_layout import AHEAD

SERIES = Group(27, "Series")
WINDOWS = Group(28, "Windows")


_BY_CONTENT = "compares records by their content, but windows of a series share rows"


def _show_unit(unit: str | None) -> str:
    return unit or "s"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SensorConfig(ColumnsConfig):
    """The options of `recordmill sensor`."""

    REFUSED: ClassVar[Mapping[str, str]] = {
        "key_column": "gives keys to rows, and windows have keys of their own",
        "conflicts": "decides between rows of one key, and windows have keys of their own",
        "weight_column": "gives weights to rows, and records are windows",
        "label_separator": "gives rows several classes, and windows have one",
        **dict.fromkeys(("dedup", "exclude_like"), _BY_CONTENT),
        **dict.fromkeys(("near_duplicates", "near_distance", "near_similarity"), _BY_CONTENT),
    }

    time_column: tuple[str, ...] = option(
        (),
        group=SERIES,
        shapes_bytes=True,
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Required: column with the time of a row, or several columns, such as Date,Time."
        " --date-parts can make features of it, under the name of the first column.",
    )
    time_format: str | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="FORMAT",
        help="Format of the times, as for Python's strptime, such as '%d/%m/%Y %H:%M'; %Z takes"
        " only names of UTC. Default: ISO 8601, or numbers since 1970. Times without a time zone"
        " are in --input-time-zone.",
    )
    time_unit: TimeUnit | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        show=_show_unit,
        help="Unit of times that are numbers since 1970; excel, matlab: days as these count"
        " them. Default: s, but numbers such as 20260131 are an error, because they look like"
        " dates.",
    )
    input_time_zone: str | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="ZONE",
        help="Time zone of times without one, such as Europe/Berlin, with its daylight saving time."
        " When clocks are set back, the order of the rows tells the two hours apart. Default: UTC.",
    )
    series_column: str | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column with the name of the series of a row. Default: every file is a series.",
    )
    join_files: bool = option(
        False, group=SERIES, shapes_bytes=True, help="Join all files into one series."
    )
    step: int | str | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        parse=values.step,
        show=values.show_step,
        metavar="auto|DURATION|COLUMN",
        help="auto, the default: rows are not resampled, and the step of a series is the most"
        " frequent distance between its rows. A duration, such as 10s or 1h: resample all series to"
        " multiples of it. A column with durations or seconds: resample each series to multiples of"
        " its own step.",
    )
    resample: Literal["mean", "min", "max", "sum", "first", "last"] = option(
        "mean",
        group=SERIES,
        shapes_bytes=True,
        help="How the numbers within a step are combined; other columns keep the last value.",
    )
    max_gap: int | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="Rows that are further apart than this have a gap between them. Default: 1.5 steps of"
        " the series.",
    )
    gap_policy: Literal["split", "fill", "reject"] = option(
        "split",
        group=SERIES,
        shapes_bytes=True,
        help="split: no window crosses a gap. fill: fill gaps as --fill says. reject: reject every"
        " series that has a gap.",
    )
    fill: Literal["last", "missing"] = option(
        "last",
        group=SERIES,
        shapes_bytes=True,
        help="Fill gaps with copies of the row before, or with rows of missing values.",
    )
    fill_rows: int | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="ROWS",
        help="Do not fill gaps of more rows than this. Default: --window.",
    )

    window: int | None = option(
        None, group=WINDOWS, shapes_bytes=True, metavar="ROWS", help="Required: rows per window."
    )
    stride: int | None = option(
        None,
        group=WINDOWS,
        shapes_bytes=True,
        metavar="ROWS",
        help="Rows from the start of one window to the start of the next. Default: --window.",
    )
    window_label: str = option(
        "last",
        group=WINDOWS,
        shapes_bytes=True,
        metavar="RULE",
        help="Class of a window. last, first: the class of its last or first row. majority: the"
        " most frequent class. any:CLASS: this class if any row has it, else that of the last"
        " row. all:CLASS: this class if all rows have it, else that of the last row with another"
        " one. ahead:ROWS: the class of the row this many rows after the last one. last, first and"
        " ahead:ROWS also choose a number (--label-type int, float).",
    )
    intervals: str | None = option(
        None,
        group=WINDOWS,
        metavar="FILE",
        help="Classes of rows by intervals of time: a CSV file with the columns series, start, end"
        " and label, a JSON list of such objects, or a file such as NAB's combined_windows.json."
        " --window-label then works as with a column.",
    )
    outside_label: str | None = option(
        None,
        group=WINDOWS,
        shapes_bytes=True,
        metavar="CLASS",
        help="Class of the rows outside of all --intervals. Default: no class; normal for a file"
        " such as NAB's.",
    )
    horizon: int = option(
        0,
        group=WINDOWS,
        shapes_bytes=True,
        metavar="ROWS",
        help="Add the feature target: the values of the --target columns in this many rows after"
        " the window. Windows without these rows are not made.",
    )
    target: tuple[str, ...] = option(
        (),
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.distinct_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns to predict, with --horizon. The feature target has the shape [horizon], or"
        " [horizon, columns] if there are several.",
    )
    static_columns: tuple[str, ...] = option(
        (),
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns with one value per series, such as a place. A window has this value once.",
    )
    last_window: tuple[str, ...] = option(
        (),
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="all|SPLIT,...",
        help="Make only the last window of each series, in all splits or in these, such as test."
        " Names of splits need --split-by time or series-time, or splits that the input names.",
    )
    zscore_by: Literal["series", "window"] | None = option(
        None,
        group=WINDOWS,
        shapes_bytes=True,
        help="Mean and deviation for --zscore. series: of the rows of the series in train. window:"
        " of the rows of the window. Both become the features COLUMN/mean and COLUMN/scale."
        " Default: of all of train.",
    )
    sequence_example: bool = option(
        False,
        group=WINDOWS,
        shapes_bytes=True,
        help="Write SequenceExamples, with a feature list per column and a step per row.",
    )
    split_by: SplitBy = option(
        "series",
        group=WINDOWS,
        shapes_bytes=True,
        help="series: all windows of a series go to one split. time: the earliest rows of all"
        " series go to train, later rows to the other splits. series-time: the same within"
        " each series.",
    )
    split_times: Mapping[str, int] = option(
        {},
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.moments,
        show=values.show_moments,
        metavar="NAME=TIME,...",
        help="With --split-by time: start of each split, such as"
        " validation=2026-01-01,test=2026-02-01; train is everything before. Default: the times"
        " that give the fractions of --splits.",
    )
    purge: int = option(
        0,
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="With --split-by time or series-time: drop the rows within this time after the start"
        " of a split.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for flag, given in (("--time-column", self.time_column or None), ("--window", self.window)):
            if given is None:
                raise ConfigError(f"{flag} is required; see recordmill sensor --help")
        if self.time_format is not None and self.time_unit not in (None, "s"):
            raise ConfigError(
                f"--time-unit {self.time_unit}: is the unit of times that are numbers, and"
                " --time-format reads text: leave one of them out"
            )
        if self.number_type and not LabelRule.parse(self.window_label).chooses_row:
            raise ConfigError(
                f"--window-label {self.window_label}: chooses a class, but with --label-type"
                f" {self.label_type} the label is a number: expected last, first or ahead:ROWS"
            )
        if self.split_by != "series":
            refuse_given(
                self,
                ("split_column", "group_column", "group_from", "stratify"),
                f"contradicts --split-by {self.split_by}: leave one of them out",
            )
        if unknown := sorted(set(self.split_times).difference(self.fractions)):
            raise ConfigError(
                f"--split-times {unknown[0]}: expected names of --splits, got {unknown[0]!r}"
            )
        if self.intervals is None and self.outside_label is not None:
            raise ConfigError("--outside-label: has no effect without --intervals; add it")
        if self.intervals is not None:
            refuse_given(
                self,
                ("label_column", "label_type"),
                "contradicts --intervals, which gives the classes: leave one of them out",
            )
        if self.intervals is not None and self.label_from != "top":
            raise ConfigError(
                f"--label-from {self.label_from}: contradicts --intervals, which gives the classes:"
                " leave one of them out"
            )
        self.window_options()
        if self.zscore_by is not None and self.preprocessing_fn is not None:
            raise ConfigError(
                "--zscore-by: scales columns, and --preprocessing-fn makes all features: leave one"
                " of them out"
            )
        if self.sequence_example and self.preprocessing_fn is not None:
            raise ConfigError(
                "--sequence-example: cannot be combined with --preprocessing-fn, which makes"
                " Examples: leave one of them out"
            )

    def window_options(self) -> WindowOptions:
        """Return how series are cut into windows. Raises ConfigError."""
        assert self.window is not None
        return WindowOptions(
            window=self.window,
            stride=self.window if self.stride is None else self.stride,
            step=self.step,
            resample=self.resample,
            max_gap=self.max_gap,
            gap_policy=self.gap_policy,
            fill=self.fill,
            fill_rows=self.fill_rows,
            label=LabelRule.parse(self.window_label),
            split_by=self.split_by,
            split_times=tuple(sorted(self.split_times.items(), key=lambda one: one[1])),
            purge=self.purge,
            time_feature=self.time_feature,
            horizon=self.horizon,
            targets=self.target,
            last_window=self.last_window,
            static_columns=self.static_columns,
            scale_by=self.zscore_by,
            zone_unknown=self.input_time_zone is None
            and "%z" not in (self.time_format or "").lower(),
            scaled=tuple(
                transform
                for transform in self.table_options().column_transforms().values()
                if transform.by is not None
            ),
        )

    @property
    def time_feature(self) -> str | None:
        """Name of the (first) time column if --date-parts makes features of it, else None."""
        return next((name for name in self.time_column[:1] if name in self.date_parts), None)


def data_type(config: SensorConfig) -> DataType:
    """Return the source, windows, check, analysis and encoder of time series."""
    options = reading(config, kind="series")
    if config.number_type:  # rows keep labels as text; those that decide a window become numbers
        options |= {"label_type": "class", "number_labels": True}
    made = making(config, sequences=config.sequence_example, not_steps=(AHEAD,))
    windows, shaping = config.window_options(), made.pop("shaping", {})
    if config.intervals is not None:
        intervals = read_intervals(
            config.intervals,
            outside=config.outside_label,
            time_format=config.time_format,
            unit=config.time_unit or "s",
            zone=config.input_time_zone,
        )
        options |= {"intervals": intervals, "label_type": "none"}
        windows = dataclasses.replace(
            windows, labelled_series=intervals.series, interval_classes=intervals.classes
        )
        shaping = {**shaping, "intervals": intervals.sha256}
    options["used"] = tuple(name for name in options["used"] if name != config.time_feature)
    return DataType(
        name="sensor",
        source=SensorRows(
            unlabelled="keep",  # --unlabelled applies to windows, not to rows
            time_columns=config.time_column,
            time_format=config.time_format,
            time_unit=config.time_unit,
            time_zone=config.input_time_zone,
            series_column=config.series_column,
            step_column=config.step if isinstance(config.step, str) else None,
            joined=config.join_files,
            **options,
        ),
        **made,
        windows=windows,
        shaping=shaping,
        unit=WINDOW,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["sensor", *sys.argv[1:]])
