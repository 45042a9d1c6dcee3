"""Check of columns that have one value per series: groups, steps and static columns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from recordmill.errors import RunError
from recordmill.options.durations import show_duration
from recordmill.transforms.model import batch
from recordmill.transforms.windowing.series_steps import STEP
from recordmill.transforms.windowing.time_survey import SERIES

_GROUPS_DIFFER = (
    "groups: series {series!r} has group {first} in {key}, and {other} in {other_key}, but a series"
    " goes to one split as a whole: use --series-column, or leave --group-column or --group-from"
    " out"
)
_STEPS_DIFFER = (
    "--step: series {series!r} has the step {first} in {key}, and {other} in {other_key}: give a"
    " series one step, or name the series with --series-column"
)
_NOT_STATIC = (
    "--static-columns {column}: series {series!r} has {first} in {key}, and {other} in {other_key},"
    " but a static column has one value per series: leave it out, so that windows hold a value per"
    " row"
)


class ConstantColumns:
    """Checks that each series has one value in the columns that need it.

    by_group: whether groups decide the split of a series, so that it must have one.
    """

    def __init__(self, static_columns: Sequence[str], *, by_group: bool) -> None:
        groups = [(batch.GROUP, _GROUPS_DIFFER)] if by_group else []
        static = [(name, _NOT_STATIC) for name in static_columns]
        self._messages = dict([*groups, (STEP, _STEPS_DIFFER), *static])
        # {column: {series: (its value, key of a row that has it)}}
        self._found: dict[str, dict[str, tuple[Any, str]]] = {name: {} for name in self._messages}

    def check(self, rows: pa.RecordBatch) -> None:
        """Check the rows of the next cell.

        Raises:
          RunError: a series has several values.
        """
        for column in self._messages:
            if column in rows.schema.names:
                self._check(rows, column)

    def _check(self, rows: pa.RecordBatch, column: str) -> None:
        found = self._found[column]
        arrays = [rows[SERIES], rows[column], rows[batch.KEY]]
        several = pa.table(arrays, ["series", "value", "key"])
        each = several.group_by(["series", "value"]).aggregate([("key", "min")])
        for one in each.sort_by("key_min").to_pylist():
            value, key = found.setdefault(one["series"], (one["value"], one["key_min"]))
            if value != one["value"]:
                pair = (value, one["value"])
                shown = [show_duration(v) if column == STEP else _quoted(v) for v in pair]
                raise RunError(
                    self._messages[column].format(
                        column=column, series=one["series"], first=shown[0], key=key,
                        other=shown[1], other_key=one["key_min"],
                    )
                )  # fmt: skip


def _quoted(value: Any) -> str:
    return "no value" if value is None else repr(value)
