"""Parsing of JSON that may be damaged, and functions that take values out of it.

The latter raise KeyError for a missing value, and ValueError for a value of another type.
"""

from __future__ import annotations

import contextlib
import json
import math
import reprlib
from collections.abc import Iterator, Mapping
from typing import Any, NoReturn, TypeVar

from recordmill import strict_json
from recordmill.errors import DamageError

_MAX_COUNT = 2**63 - 1
_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100

Value = TypeVar("Value", str, int, float, list[Any], dict[str, Any])


def parse_json(content: bytes) -> Any:
    """Return the value of a JSON text.

    Raises:
      ValueError: it is not one that Recordmill writes: not JSON, not UTF-8, nested too deeply, or
        it has NaN, a number of thousands of digits, or an unpaired surrogate.
    """
    try:
        value = json.loads(content, parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    except ValueError as error:
        if "int_max_str_digits" in str(error):
            raise ValueError("a number has thousands of digits") from None
        raise
    if b"\\ud" in content.lower():  # surrogates, which are written as pairs
        try:
            strict_json.to_text(value).encode()
        except UnicodeEncodeError:
            raise ValueError("a text has an unpaired surrogate") from None
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"expected a number, got {name}")


@contextlib.contextmanager
def damage_of(file: str, *, line: int | None = None, advice: str = "") -> Iterator[None]:
    """Raise errors of reading a file that Recordmill wrote as DamageError.

    file: how the message names it. line: its line, counted from 1. advice: what to do.
    """
    where = file if line is None else f"{file}, line {line}"
    advice = f"; {advice}" if advice else ""
    try:
        yield
    except RecursionError:
        raise DamageError(f"{where} is damaged: it is nested too deeply{advice}") from None
    except KeyError as error:
        raise DamageError(f"{where} is damaged: it lacks {error}{advice}") from error
    except (ValueError, TypeError) as error:
        raise DamageError(f"{where} is damaged: {error}{advice}") from error


def typed(value: Any, name: str, kind: type[Value]) -> Value:
    """Return the value if it has the type `kind`; name: how errors refer to it."""
    if type(value) is not kind:  # not isinstance: JSON's true is not a number
        raise ValueError(f"expected {name!r} to be {kind.__name__}, got {_short.repr(value)}")
    if isinstance(value, float) and not math.isfinite(value):  # such as 1e999
        raise ValueError(f"expected {name!r} to be a finite number, got {value}")
    return value


def take_count(data: Mapping[str, Any], name: str) -> int:
    """Return data[name], a number of records, bytes or the like."""
    return _count(data[name], name)


def take_counts(data: Mapping[str, Any], name: str) -> dict[str, int]:
    """Return data[name], an object of such numbers."""
    values = take(data, name, dict)
    return {key: _count(value, f"{name}/{key}") for key, value in values.items()}


def _count(value: Any, name: str) -> int:
    if not 0 <= typed(value, name, int) <= _MAX_COUNT:
        raise ValueError(f"expected {name!r} to be 0 to {_MAX_COUNT}, got {value:.3g}")
    return int(value)


def take(data: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """Return data[name]."""
    return typed(data[name], name, kind)


def take_mapping(data: Mapping[str, Any], name: str, kind: type[Value]) -> dict[str, Value]:
    """Return data[name], an object whose values all have the type `kind`."""
    values = take(data, name, dict)
    return {key: typed(value, f"{name}/{key}", kind) for key, value in values.items()}


def take_texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Return data[name], a list of strings."""
    return tuple(typed(value, f"{name}[]", str) for value in take(data, name, list))


def as_object(value: Any) -> dict[str, Any]:
    """Return the value if it is an object."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {_short.repr(value)}")
    return value
