"""The columns of rows that options read as numbers: those to predict, and weights."""

from __future__ import annotations

from recordmill.job.input_facts import ColumnRoles
from recordmill.transforms.sources.files.number_labels import LabelType
from recordmill.transforms.sources.files.references import Unlabelled
from recordmill.transforms.sources.row_formats.row_file import Rows
from recordmill.transforms.sources.row_formats.value_parsing import ValueParser
from recordmill.transforms.sources.rows.label_types import (
    read_numbers,
    rows_out_of_range,
    rows_without_number,
)
from recordmill.transforms.sources.rows.record_columns import InvalidRows
from recordmill.transforms.sources.rows.weights import invalid_weights


def with_numbers(
    rows: Rows, roles: ColumnRoles, label_type: LabelType | None, value_parser: ValueParser
) -> Rows:
    """Return rows with these columns as numbers, null if missing, without rows of other values."""
    if roles.target is not None:
        rows = read_numbers(rows, roles.target, label_type, value_parser)
    if roles.weight is not None:
        rows = read_numbers(rows, roles.weight, "float", value_parser)
    return rows


def invalid_numbers(rows: Rows, roles: ColumnRoles, *, unlabelled: Unlabelled) -> list[InvalidRows]:
    """Return the rows whose number to predict or weight cannot be used.

    rows: as `with_numbers` returns them. unlabelled: whether rows without a number are kept.
    """
    faults = []
    if roles.target is not None:
        faults.append(rows_out_of_range(rows, roles.target))
        if unlabelled == "reject":
            faults.append(rows_without_number(rows, roles.target))
    if roles.weight is not None:
        faults.append(invalid_weights(rows, roles.weight))
    return faults
