"""Gates: limits that refuse a run. A gate is shut unless a measured value is within its limit.

NaN compares false with every limit, and values that do not exist have none to compare, so limits
are compared here alone. docs/gates.md lists all gates.
"""

from __future__ import annotations


def is_within(
    value: float | None, *, least: float | None = None, most: float | None = None
) -> bool:
    """Return whether a value is within its limits.

    value: the measured value; None if it could not be measured, which is never within limits, nor
      is NaN. least, most: the limits, themselves allowed; None is no limit. Nothing is within NaN.
    """
    if value is None:
        return False
    return (least is None or value >= least) and (most is None or value <= most)


def fraction(part: int, whole: int) -> float | None:
    """Return part / whole; None if there is nothing to take a part of."""
    return part / whole if whole else None
