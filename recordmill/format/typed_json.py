"""Takes values out of parsed JSON, each of the type that is expected, or says what it is instead.

They raise KeyError for what is not there and ValueError for what is of another type.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

Value = TypeVar("Value", str, int, float, list[Any], dict[str, Any])


def typed(value: Any, name: str, kind: type[Value]) -> Value:
    """The value, which is called `name`."""
    if type(value) is not kind:  # not isinstance: true is no number here
        raise ValueError(f"expected {name!r} to be {kind.__name__}, got {value!r}")
    return value


def take(data: Mapping[str, Any], name: str, kind: type[Value]) -> Value:
    """data[name]."""
    return typed(data[name], name, kind)


def take_mapping(data: Mapping[str, Any], name: str, kind: type[Value]) -> dict[str, Value]:
    """An object whose values are all of a kind."""
    values = take(data, name, dict)
    return {key: typed(value, f"{name}/{key}", kind) for key, value in values.items()}


def take_texts(data: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """A list of strings."""
    return tuple(typed(value, f"{name}[]", str) for value in take(data, name, list))


def as_object(value: Any) -> dict[str, Any]:
    """The value, if it is an object."""
    if not isinstance(value, dict):
        raise ValueError(f"expected an object, got {value!r}")
    return value
