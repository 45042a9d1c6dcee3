"""Series of sensors to a balanced, shuffled, verified TFRecord dataset of windows.

    python -m recordmill sensor --input=plant/*.csv --output=out/ --time-column=time --window=24

The input is a file of rows (CSV, TSV, JSONL, Parquet, Arrow, Avro), a glob or a folder of them.
`recordmill sensor` is the same command.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.columns import ColumnsConfig, making, reading
from recordmill.pipelines.options.config import refuse_given
from recordmill.pipelines.options.declaration import Group, option
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.window_options import LabelRule, WindowOptions
from recordmill.transforms.sources.rows.sensors import SensorRows

SERIES = Group(27, "Series")
WINDOWS = Group(28, "Windows")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SensorConfig(ColumnsConfig):
    """The options of `recordmill sensor`."""

    time_column: tuple[str, ...] = option(
        (),
        group=SERIES,
        shapes_bytes=True,
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Needed: when a row is, in one column or in several, such as Date,Time.",
    )
    time_format: str | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="FORMAT",
        help="How times are written, as strptime has it, such as '%d/%m/%Y %H:%M'. Default: ISO"
        " 8601, or numbers since 1970. Without a zone they are UTC.",
    )
    time_unit: Literal["s", "ms", "us", "ns"] = option(
        "s", group=SERIES, shapes_bytes=True, help="What times count that are numbers."
    )
    series_column: str | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="COLUMN",
        help="The name of the series of a row. Default: every file is a series.",
    )
    join_files: bool = option(
        False, group=SERIES, shapes_bytes=True, help="All files together are one series."
    )
    step: int | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="Bring rows to whole multiples of it, such as 10s or 1h. Default: as they are, and the"
        " step is the most frequent distance of two.",
    )
    resample: Literal["mean", "min", "max", "sum", "first", "last"] = option(
        "mean",
        group=SERIES,
        shapes_bytes=True,
        help="What becomes of the numbers of one step; of all else it is the last.",
    )
    max_gap: int | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="Rows that are further apart have a gap between them. Default: a step and a half.",
    )
    gap_policy: Literal["split", "fill", "reject"] = option(
        "split",
        group=SERIES,
        shapes_bytes=True,
        help="No window crosses a gap; or gaps are filled; or a series that has one is rejected.",
    )
    fill: Literal["last", "missing"] = option(
        "last",
        group=SERIES,
        shapes_bytes=True,
        help="What fills a gap: the row before it, or rows without values.",
    )
    fill_rows: int | None = option(
        None,
        group=SERIES,
        shapes_bytes=True,
        metavar="ROWS",
        help="Gaps of more rows are not filled. Default: those of a window.",
    )

    window: int | None = option(
        None, group=WINDOWS, shapes_bytes=True, metavar="ROWS", help="Needed: rows of a window."
    )
    stride: int | None = option(
        None,
        group=WINDOWS,
        shapes_bytes=True,
        metavar="ROWS",
        help="From the start of a window to the next one's. Default: a whole window.",
    )
    window_label: str = option(
        "last",
        group=WINDOWS,
        shapes_bytes=True,
        metavar="RULE",
        help="The class of a window: last (that of its last row), majority, any:CLASS (that one if"
        " any row has it, else the last row's), ahead:ROWS (of the row so many after the last).",
    )
    sequence_example: bool = option(
        False,
        group=WINDOWS,
        shapes_bytes=True,
        help="Write SequenceExamples: a feature list per column, with a step per row.",
    )
    split_by: Literal["series", "time"] = option(
        "series",
        group=WINDOWS,
        shapes_bytes=True,
        help="Whole series go to one split; or the first rows go to train, later ones to the other"
        " splits.",
    )
    split_times: Mapping[str, int] = option(
        {},
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.moments,
        show=values.show_moments,
        metavar="NAME=TIME,...",
        help="When splits begin, such as validation=2026-01-01,test=2026-02-01; train is before."
        " Default: where --splits say.",
    )
    purge: int = option(
        0,
        group=WINDOWS,
        shapes_bytes=True,
        parse=values.duration,
        show=values.show_duration,
        metavar="DURATION",
        help="Leave out so much of the time after each split begins.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for flag, given in (("--time-column", self.time_column), ("--window", self.window)):
            if not given:
                raise ConfigError(f"{flag} is needed: see recordmill sensor --help")
        refuse_given(
            self, ("key_column",), "names rows, and windows have names of their own: leave it out"
        )
        if self.split_by == "time":
            refuse_given(
                self,
                ("split_column", "group_column", "stratify"),
                "says otherwise than --split-by time what goes to which split: leave one out",
            )
        if unknown := sorted(set(self.split_times).difference(self.splits)):
            raise ConfigError(
                f"--split-times {unknown[0]}: expected names of --splits, got {unknown[0]!r}"
            )
        self.window_options()
        if self.sequence_example and self.preprocessing_fn is not None:
            raise ConfigError(
                "expected one of --sequence-example and --preprocessing-fn, which makes Examples:"
                " leave one out"
            )

    def window_options(self) -> WindowOptions:
        """How series are cut. Raises ConfigError."""
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
        )


def kind(config: SensorConfig) -> DataType:
    """What series put on the road."""
    return DataType(
        name="sensor",
        source=SensorRows(
            unlabelled="keep",  # a window's class is what counts
            time_columns=config.time_column,
            time_format=config.time_format,
            time_unit=config.time_unit,
            series_column=config.series_column,
            joined=config.join_files,
            **reading(config),
        ),
        **making(config, sequences=config.sequence_example),
        windows=config.window_options(),
        unit="window",
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import main

    sys.exit(main(["sensor", *sys.argv[1:]]))
