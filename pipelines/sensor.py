"""Builds a balanced, shuffled, sharded TFRecord dataset of windows from time series.

    recordmill sensor --input 'plant/*.csv' --output out/ --time-column time --window 24

The input is a file (CSV, TSV, JSONL, Parquet, Arrow, Avro, TFRecord), a glob pattern, or a folder
of files.
A row is one time step of a series; a record is a window of consecutive rows.
"""

from __future__ import annotations

import dataclasses
import sys

from recordmill.errors import ConfigError
from recordmill.format.ledger import WINDOW
from recordmill.options import values
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.options.inputs.columns import (
    TABLE,
    ColumnsConfig,
    making,
    reading,
    scaled_by_row,
)
from recordmill.transforms.encoders.table_options import TableOptions
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.sources.row_formats.values.sample_times import TimeUnit
from recordmill.transforms.sources.rows.series.interval_file import read_intervals
from recordmill.transforms.sources.rows.series.sensor_rows import SensorRows
from recordmill.transforms.windowing.window_layout import AHEAD

SERIES = Group(27, "Series", shapes_bytes=True)
WINDOWS = Group(28, "Windows", shapes_bytes=True)


_OF_SERIES = ("step", "resample", "max_gap", "gap_policy", "fill", "fill_rows")


def _show_unit(unit: str | None) -> str:
    return unit or "s"


@dataclasses.dataclass(frozen=True, kw_only=True)
class SensorConfig(ColumnsConfig):
    """The options of `recordmill sensor`."""

    time_column: tuple[str, ...] = option(
        (),
        group=SERIES,
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Required: column with the time of a row, or several columns, such as Date,Time."
        " --date-parts can make features of it, under the name of the first column.",
    )
    time_format: str | None = option(
        None,
        group=SERIES,
        metavar="FORMAT",
        help="Format of the times, as for Python's strptime, such as '%d/%m/%Y %H:%M'; %Z takes"
        " only names of UTC. Default: ISO 8601, or numbers since 1970. Times without a time zone"
        " are in --input-time-zone.",
    )
    time_unit: TimeUnit | None = option(
        None,
        group=SERIES,
        show=_show_unit,
        help="Unit of times that are numbers since 1970; excel, matlab: days as these count"
        " them. Default: s, but numbers such as 20260131 are an error, because they look like"
        " dates.",
    )
    input_time_zone: str | None = option(
        None,
        group=SERIES,
        metavar="ZONE",
        help="Time zone of times without one, such as Europe/Berlin, with its daylight saving time."
        " When clocks are set back, the order of the rows tells the two hours apart. Default: UTC.",
    )
    series_column: str | None = option(
        None,
        group=SERIES,
        metavar="COLUMN",
        help="Column with the name of the series of a row. Default: every file is a series.",
    )
    join_files: bool = option(False, group=SERIES, help="Join all files into one series.")
    windows: GroupValues[WindowOptions] = option_group(
        WindowOptions,
        group=WINDOWS,
        **{name: {"group": SERIES} for name in _OF_SERIES},
    )
    table: GroupValues[TableOptions] = option_group(
        TableOptions, group=TABLE, zscore_by={"group": WINDOWS, "after": "last_window"}
    )
    intervals: str | None = option(
        None,
        after="window_label",
        group=WINDOWS,
        shapes_bytes=False,
        metavar="FILE",
        help="Classes of rows by intervals of time: a CSV file with the columns series, start, end"
        " and label, a JSON list of such objects, or a file such as NAB's combined_windows.json."
        " --window-label then works as with a column.",
    )
    outside_label: str | None = option(
        None,
        after="intervals",
        group=WINDOWS,
        metavar="CLASS",
        help="Class of the rows outside of all --intervals. Default: no class; normal for a file"
        " such as NAB's.",
    )
    sequence_example: bool = option(
        False,
        after="zscore_by",
        group=WINDOWS,
        help="Write SequenceExamples, with a feature list per column and a step per row.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        given = self.windows
        for flag, value in (("--time-column", self.time_column), ("--window", given["window"])):
            if value in (None, ()):
                raise ConfigError(f"{flag} is required; see recordmill sensor --help")
        if unknown := sorted(set(given["split_times"]).difference(self.fractions)):
            raise ConfigError(
                f"--split-times {unknown[0]}: expected names of --splits, got {unknown[0]!r}"
            )
        self.window_options()

    def window_options(self) -> WindowOptions:
        """Return how series are cut into windows. Raises ConfigError."""
        given, table = self.windows, self.table.make()
        return given.make(
            stride=given["window"] if given["stride"] is None else given["stride"],
            time_feature=self.time_feature,
            scale_by=table.zscore_by,
            zone_unknown=self.input_time_zone is None
            and "%z" not in (self.time_format or "").lower(),
            scaled=scaled_by_row(table),
        )

    @property
    def time_feature(self) -> str | None:
        """Name of the (first) time column if --date-parts makes features of it, else None."""
        dates = self.table["date_parts"]
        return next((name for name in self.time_column[:1] if name in dates), None)


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
            step_column=windows.step if isinstance(windows.step, str) else None,
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
