"""Checks of option values, for the command line, for runs, for runners and for `recordmill.load`.

Each raises ConfigError with the name of the option, what was expected and what was got. Items of
lists in one text are separated by commas; a name with a comma is in double quotes, as in CSV.
"""

from __future__ import annotations

import math
import numbers
import operator
import re
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from recordmill.errors import ConfigError, did_you_mean

_QUOTED = re.compile(r'\s*"((?:[^"]|"")*)"([^",]*)(?:,|$)')
_NEEDS_QUOTES = re.compile(r'^["\s]|,|\s$')


class Item(str):
    """An item of a list in a file, which `split_list` does not split."""

    __slots__ = ()


def split_list(text: str, *, trim: bool = True) -> list[str]:
    """Return the items of a list, such as `a,b` or `"a, b",c`.

    Quotes begin an item: the list `"a, b"=1,c=2` has the items `a, b=1` and `c=2`.
    trim: whether to leave out white space around items, except inside of quotes.

    Raises:
      ValueError: a quote is not closed.
    """
    if isinstance(text, Item):
        return [str(text)]
    items, start = [], 0
    while start <= len(text):
        found = _QUOTED.match(text, start)
        end = found.end() if found else (text.find(",", start) + 1 or len(text) + 1)
        item = text[start : end - 1]
        if found:
            rest = found[2].rstrip() if trim else found[2]
            item = found[1].replace('""', '"') + rest
            end += not found[0].endswith(",")
        elif item.lstrip().startswith('"'):
            raise ValueError(
                "expected a name in double quotes, in which a quote is written twice; got"
                f" {item.strip()}"
            )
        items.append(item.strip() if trim and not found else item)
        start = end
    return items


def list_text(names: Iterable[str]) -> str:
    """Return the inverse of `split_list`."""
    return ",".join(map(list_item, names))


def list_item(name: str) -> str:
    """Return a name as an item of a list, in quotes if it needs them."""
    return '"' + name.replace('"', '""') + '"' if _NEEDS_QUOTES.search(name) else name


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
