"""Windowing options and the layout of windows, from the options of `recordmill sensor`."""

from __future__ import annotations

from recordmill.errors import ConfigError
from recordmill.job.staging import Staging
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.inputs.rows import RowsConfig
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.window_options import WindowOptions
from recordmill.transforms.sources.folders.number_labels import NumberLabels
from recordmill.transforms.windowing.complete_windows import CompleteWindows
from recordmill.transforms.windowing.window_tasks import Windowing

_OUTSIDE = "; --outside-label gives rows outside of all --intervals a class"


def windowing_of(
    config: CommonConfig, windows: WindowOptions, rows: Layout, records: Layout, staging: Staging
) -> Windowing:
    """Return how windows are cut. rows, records: layouts of the rows and of the windows."""
    by_series = windows.split_by == "series"
    rejects = config.unlabelled == "reject"
    return Windowing(
        options=windows,
        schema=records.columns,
        staging=staging,
        splits=config.fractions,
        by_series=by_series and not rows.presplit,
        by_group=by_series and rows.grouped,
        complete=CompleteWindows(
            labelled=records.labelled and rejects,
            numbers=window_numbers(config, rows),
            targets=windows.targets if rejects else (),
            advice=_OUTSIDE if windows.labelled_series else "",
        ),
    )


def window_numbers(config: CommonConfig, layout: Layout) -> NumberLabels | None:
    """Return the converter of window labels to numbers to predict; None if labels are classes.

    layout: layout of the rows.

    Raises:
      ConfigError: the rows have no label column.
    """
    kind = config.number_type
    if kind is None or not isinstance(config, RowsConfig):
        return None
    if not layout.labelled:
        raise ConfigError(
            f"--label-type {kind}: no label column was found: name it with --label-column"
        )
    parser = config.rows.make().value_parser
    return NumberLabels(label_type=kind, unlabelled=config.unlabelled, parser=parser)
