"""Writes JSON. NaN and infinities are errors, because JSON has no such numbers.

A value that does not exist is null; where it may be missing, a sentence beside it says why.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any


def to_text(
    value: Any,
    *,
    sort_keys: bool = False,
    indent: int | None = None,
    ascii_only: bool = False,
    compact: bool = False,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """Return a value as JSON.

    compact: leave out spaces. default: returns plain data for other values.

    Raises:
      ValueError: a number is NaN or infinite.
    """
    return json.dumps(
        value,
        sort_keys=sort_keys,
        indent=indent,
        ensure_ascii=ascii_only,
        separators=(",", ":") if compact else None,
        default=default,
        allow_nan=False,
    )


def show(value: Any) -> None:
    """Print a value as JSON, for --json."""
    print(to_text(value, indent=2))
