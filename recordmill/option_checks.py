"""Checks of option values, for the command line, for runs, for runners and for `recordmill.load`.

Each raises ConfigError with the name of the option, what was expected and what was got.
"""

from __future__ import annotations

import math
import numbers
import operator
from collections.abc import Collection, Sequence
from typing import Any

from recordmill.errors import ConfigError, did_you_mean


def expect_whole(name: str, value: Any, *, least: int, below: int | None = None) -> int:
    """Return a whole number of at least `least`, and below `below`, if that is given.

    Integers of numpy are accepted, True and False are not.

    Raises:
      ConfigError: the value is no whole number, or out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        raise ConfigError(f"{name}: expected a whole number, got {value!r}") from None
    if number < least or (below is not None and number >= below) or isinstance(value, bool):
        expected = f"{least} or more" if below is None else f"{least} to {below - 1}"
        raise ConfigError(f"{name}: expected {expected}, got {value!r}")
    return number


def expect_fraction(name: str, value: Any) -> None:
    """Raise ConfigError unless the value is a number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigError(f"{name}: expected 0 to 1, got {value!r}")


def expect_seconds(name: str, value: Any) -> None:
    """Raise ConfigError unless the value is a finite number of 0 or more."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise ConfigError(f"{name}: expected 0 or more seconds, got {value!r}")


def is_number(value: Any) -> bool:
    """Return whether a value is an integer or a float, also of numpy; True and False are not."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def expect_one_of(name: str, value: Any, known: Collection[Any]) -> None:
    """Raise ConfigError unless the value is among the known ones."""
    if value not in known:
        raise ConfigError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def expect_some_of(name: str, values: Any, known: Sequence[str]) -> None:
    """Raise ConfigError unless all values are among the known ones."""
    if isinstance(values, str) or not isinstance(values, Collection):
        raise ConfigError(
            f"{name}: expected several values, such as [{known[0]!r}], got {values!r}"
        )
    for value in values:
        if value not in known:
            raise ConfigError(
                f"{name}: expected some of {', '.join(known)}, got"
                f" {value!r}{did_you_mean(str(value), known)}"
            )
