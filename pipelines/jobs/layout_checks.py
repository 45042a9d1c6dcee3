"""Checks of options against places and the layout of the rows, before any work starts."""

from __future__ import annotations

import dataclasses
import os

from recordmill.errors import ConfigError
from recordmill.job.staging import Listing, Staging
from recordmill.options.declaration import value_of
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.storage.files import Location, shown
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import OBJECTS
from recordmill.transforms.model.data_type import DataType, needs_classes
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.model.window_options import EVERY_SPLIT, WindowOptions
from recordmill.transforms.planning.refusals import unknown_splits
from recordmill.transforms.staged.listing import layout_of


def layout_of_records(data_type: DataType, listing: Listing, staging: Staging) -> Layout:
    """Return the layout of the records, as they were listed or as workers will make them."""
    layout = layout_of(data_type.source, listing, staging)
    rules = (data_type.duplicates, data_type.near)
    by_content = any(rule is not None and rule.mode == "group" for rule in rules)
    return dataclasses.replace(
        layout, grouped=layout.grouped or by_content or data_type.chunker is not None
    )


def check_splits(config: CommonConfig, windows: WindowOptions | None, rows: Layout) -> None:
    """Raise ConfigError if options and the input both divide the rows into splits."""
    source = rows.split_source
    if source is None:
        return
    by_option = any(one.split is not None for one in config.input)
    ignore = (
        "leave the split out of --input" if by_option else "pass --split-from none to ignore it"
    )
    if windows is not None and windows.divides_time:
        raise ConfigError(
            f"--split-by {windows.split_by}: contradicts the split of each row, which comes from"
            f" {source}: {ignore}"
        )
    some = 0 < sum(one.split is None for one in config.input) < len(config.input)
    if config.split_column is not None or some:  # records without a split are divided
        return
    for flag, value in (("--splits", config.splits), ("--stratify", config.stratify)):
        if value:
            given = "" if value is True else " " + ",".join(f"{n}={x:g}" for n, x in value.items())
            raise ConfigError(
                f"{flag}{given}: contradicts the split of each record, which comes from {source}:"
                f" leave {flag} out, or {ignore}"
            )


def check_layout(config: CommonConfig, windows: WindowOptions | None, layout: Layout) -> None:
    """Raise ConfigError if an option names an unknown split, or needs classes that do not exist.

    layout: of the records, which are windows if `windows` is given.
    """
    problems = unknown_splits(config.num_shards, windows, config.fractions)
    if problems and not layout.presplit:
        raise ConfigError(problems[0])
    if windows is not None and windows.split_by == "series" and not layout.presplit:
        _refuse_unknown_train(windows)
    rule = None if windows is None else windows.label.kind
    # Boxes have classes, whether images have them or not.
    boxes = value_of(config, "annotations") or OBJECTS in layout.columns.names
    for flag, wanted in (
        (f"--window-label {rule}", rule not in (None, "last") and config.number_type is None),
        (f"--balance {config.balance}", config.balance != "none"),
        ("--limit-per-class", config.limit_per_class is not None),
        ("--label-offset", config.label_offset not in (None, 0) and not boxes),
        ("--fold-labels", config.fold_labels and not boxes),
        ("--stratify", config.stratify and batch.STRATUM not in layout.columns.names),
    ):
        if wanted and not layout.labelled and config.label_bins is None:
            raise needs_classes(flag, [field.name for field in user_fields(layout.columns)])


def _refuse_unknown_train(windows: WindowOptions) -> None:
    """Raise ConfigError if an option needs the splits of rows, before windows are cut."""
    if windows.scale_by == "series":
        raise ConfigError(
            "--zscore-by series: needs rows of every series in train, and with --split-by series a"
            " series of another split has none there: use --zscore-by window, or --split-by time"
            " or series-time"
        )
    if windows.last_window not in ((), (EVERY_SPLIT,)):
        raise ConfigError(
            f"--last-window {','.join(windows.last_window)}: needs the splits of rows, and with"
            " --split-by series they are assigned to whole windows: use --last-window all, or"
            " --split-by time or series-time"
        )


def check_not_nested(source: Location, output: Location) -> None:
    """Check that the output does not lie in the input.

    Raises:
      ConfigError: the next run would list the dataset as input.
    """
    if (source.root, source.query) != (output.root, output.query):
        return
    inner, outer = f"{output.path.rstrip('/')}/", f"{source.path.rstrip('/')}/"
    if source.is_local:
        inner, outer = (f"{os.path.realpath(path)}/" for path in (inner, outer))
    if inner.startswith(outer):
        raise ConfigError(
            f"--output {shown(output)} lies inside --input {shown(source)}: its files would be"
            " listed as input by the next run; choose a folder outside of it"
        )
