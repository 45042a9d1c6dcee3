"""Functions that take values of an expected type out of parsed JSON.

They raise KeyError for a missing value, and ValueError for a value of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value", str, int, float, list[Any], dict[str, Any])


def typed(value: Any, name: str, kind: type[Value]) -> Value:
    """Return the value if it has the type `kind`; name: how errors refer to it."""
    if type(value) is not kind:  # not isinstance: JSON's true is not a number
        raise ValueError(f"expected {name!r} to be {kind.__name__}, got {value!r}")
    return value


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
        raise ValueError(f"expected an object, got {value!r}")
    return value
