"""Gates: limits that refuse a run unless a measured value is within them.

All limits are compared here, so that NaN and missing values are handled alike. docs/gates.md lists
all gates.
"""

from __future__ import annotations


def is_within(
    value: float | None, *, least: float | None = None, most: float | None = None
) -> bool:
    """Return whether a value is within its limits.

    value: the measured value. NaN, and None if it could not be measured, are never within limits.
    least, most: inclusive limits; None is no limit. No value is within a limit of NaN.
    """
    if value is None:
        return False
    return (least is None or value >= least) and (most is None or value <= most)


def fraction(part: int, whole: int) -> float | None:
    """Return part / whole; None if the whole is 0."""
    return part / whole if whole else None
