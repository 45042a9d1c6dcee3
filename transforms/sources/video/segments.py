"""Segments of videos: their start and end in seconds, in columns of a listing."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from recordmill import unicode_tables
from recordmill.errors import ConfigError, did_you_mean

Segment = tuple[float | None, float | None]  # start and end in seconds


def read_seconds(
    rows: pa.RecordBatch, option: str, column: str | None
) -> tuple[pa.Array, dict[int, str]]:
    """Return a column of seconds (nulls without column) and the invalid rows, {row: message}.

    Raises:
      ConfigError: the column does not exist, or does not hold numbers.
    """
    if column is None:
        return pa.nulls(len(rows), pa.float64()), {}
    names = [name for name in rows.schema.names if not name.startswith("__")]
    if column not in names:
        raise ConfigError(
            f"--{option}-column: the listing has no column {column!r}"
            f"{did_you_mean(column, names)}; it has {', '.join(names)}"
        )
    values = rows[column]
    if pa.types.is_null(values.type):
        return pa.nulls(len(rows), pa.float64()), {}
    if pa.types.is_string(values.type):  # the type of a column with one value that is not a number
        return parse_seconds(values.to_pylist(), column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ConfigError(
            f"--{option}-column: expected seconds as numbers, but {column!r} has type {values.type}"
        )
    return values.cast(pa.float64()), {}


def parse_seconds(texts: Sequence[str | None], column: str) -> tuple[pa.Array, dict[int, str]]:
    """Parse seconds. Returns float64[n], null if empty or invalid, and {row: message}."""
    found: list[float | None] = []
    faults = {}
    for row, text in enumerate(texts):
        try:
            if text and unicode_tables.has_later(text):  # float takes the digits of any script
                raise ValueError(text)
            found.append(float(text) if text else None)
        except ValueError:
            found.append(None)
            faults[row] = f"{column}: expected seconds as a number, got {str(text)[:40]!r}"
    return pa.array(found, pa.float64()), faults


def seconds_text(seconds: float | None) -> str:
    """Return seconds as text, for a key."""
    return "" if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".")
