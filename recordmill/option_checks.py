"""Checks of option values, for the command line, runs, runners and `recordmill.load`.

Each check raises ConfigError with the name of the option, the expected value and the actual value.
`check_options` checks all options of a class by their annotations. In a list that is one string,
commas separate the items; an item with a comma is in double quotes, as in CSV.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import inspect
import math
import numbers
import operator
import os
import re
import reprlib
import shlex
import types
import typing
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_names import are_flags, option_name

_QUOTED = re.compile(r'\s*"((?:[^"]|"")*)"([^",]*)(?:,|$)')
_NEEDS_QUOTES = re.compile(r'^["\s]|,|\s$')


class Item(str):
    """An item of a list in a file, which `split_list` does not split."""

    __slots__ = ()


def split_list(text: str, *, trim: bool = True) -> list[str]:
    """Return the items of a list, such as `a,b` or `"a, b",c`.

    Quotes stand at the beginning of an item: `"a, b"=1,c=2` has the items `a, b=1` and `c=2`.

    Args:
      text: The list.
      trim: Whether to strip white space around items, except inside quotes.

    Raises:
      ValueError: A quote is not closed.
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
    """Return the items of a list as one string, which `split_list` splits."""
    return ",".join(map(list_item, names))


def list_item(name: str) -> str:
    """Return a name as an item of a list, in quotes if it needs them."""
    return '"' + name.replace('"', '""') + '"' if _NEEDS_QUOTES.search(name) else name


def types_option(name: str, kind: str) -> str:
    """Return `--types NAME=TYPE` for a column, with the quotes that a shell needs."""
    return f"--types {shlex.quote(f'{list_item(name)}={kind}')}"


def expect_whole(name: str, value: Any, *, least: int, below: int | None = None) -> int:
    """Return a whole number that is at least `least`, and below `below` if `below` is given.

    NumPy integers are accepted; True and False are not.

    Raises:
      ConfigError: The value is not a whole number, or out of range.
    """
    try:
        number = operator.index(value)
    except TypeError:
        number = None
    if number is None or isinstance(value, bool):
        raise ConfigError(f"{name}: expected a whole number, got {value!r}")
    if number < least or (below is not None and number >= below):
        expected = f"{least} or more" if below is None else f"{least} to {below - 1}"
        raise ConfigError(f"{name}: expected {expected}, got {value!r}")
    return number


def expect_shard(value: Any) -> tuple[int, int]:
    """Return the option `shard`: (hosts, index of this host).

    Raises:
      ConfigError: it is not such a pair.
    """
    if not isinstance(value, Sequence) or len(value) != 2:
        raise ConfigError(f"shard: expected (hosts, index), such as (4, 0), got {value!r}")
    hosts = expect_whole("shard", value[0], least=1)
    index = expect_whole("shard", value[1], least=0)
    if index >= hosts:
        raise ConfigError(
            f"shard: expected (hosts, index) with an index below {hosts}, got {value!r}"
        )
    return hosts, index


def expect_fraction(name: str, value: Any) -> None:
    """Raise ConfigError unless the value is a number from 0 to 1."""
    if not is_number(value) or not 0 <= value <= 1:
        raise ConfigError(f"{name}: expected 0 to 1, got {value!r}")


def expect_seconds(name: str, value: Any) -> None:
    """Raise ConfigError unless the value is a finite number of 0 or more."""
    if not is_number(value) or not 0 <= value < math.inf:
        raise ConfigError(f"{name}: expected 0 or more seconds, got {value!r}")


def is_number(value: Any) -> bool:
    """Return whether a value is an integer or a float, of Python or NumPy, and not a bool."""
    return isinstance(value, numbers.Real) and not isinstance(value, bool)


def expect_one_of(name: str, value: Any, known: Collection[Any]) -> None:
    """Raise ConfigError unless the value is a known one."""
    if value not in known:
        raise ConfigError(f"{name}: expected one of {', '.join(known)}, got {value!r}")


def unknown_option(owner: str, name: str, known: Sequence[str], takes: str) -> ConfigError:
    """Return the error for an option that does not exist.

    Args:
      owner: Name of the step or function.
      name: Name of the option.
      known: Names of which the nearest is suggested.
      takes: A clause that says which options there are.
    """
    return ConfigError(f"{owner}: unknown option {name!r}{did_you_mean(name, known)}; {takes}")


def expect_some_of(name: str, values: Any, known: Sequence[str]) -> None:
    """Raise ConfigError unless all values are known ones."""
    if isinstance(values, str) or not isinstance(values, Collection):
        raise ConfigError(
            f"{name}: expected a list of values, such as [{known[0]!r}], got {values!r}"
        )
    for value in values:
        if value not in known:
            raise ConfigError(
                f"{name}: expected some of {', '.join(known)}, got"
                f" {value!r}{did_you_mean(str(value), known)}"
            )


@dataclasses.dataclass(frozen=True)
class Between:
    """Range of a number, for `Annotated`."""

    least: float
    most: float


@dataclasses.dataclass(frozen=True)
class Flag:
    """Name of the flag of an option, for `Annotated`, if it differs from the name of the field."""

    name: str


@dataclasses.dataclass(frozen=True)
class Expected:
    """Description of the values of an option, for `Annotated`, if the type is not enough."""

    values: str


_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100
_owner: list[str] = []  # the step that passes options on to a class


@contextlib.contextmanager
def options_of(owner: str) -> Iterator[None]:
    """Use the name of a step in messages about options that the step passes on to a class."""
    _owner.append(owner)
    try:
        yield
    finally:
        _owner.pop()


def check_options(thing: Any, together: Callable[[], None] | None = None) -> None:
    """Check the options of an instance of a dataclass by the annotations of its fields.

    Ranges are `Annotated` with `Between`. Where the annotation says so, lists become tuples, paths
    become strings, and NumPy numbers become Python numbers.

    Args:
      thing: The instance.
      together: Further checks, of options that depend on each other.

    Raises:
      ConfigError: A value has the wrong type, or is out of range. The message names the class.
    """
    owner = _owner[-1] if _owner else type(thing).__name__
    kind: Any = type(thing)
    for name, (hint, flag) in _declared(kind).items():
        value = getattr(thing, name)
        found = check_option(owner, name, value, hint, flag=flag)
        if found is not value:
            object.__setattr__(thing, name, found)
    if together is not None:
        try:
            together()
        except ConfigError as error:
            if are_flags() or str(error).startswith(f"{owner}: "):
                raise
            raise ConfigError(f"{owner}: {error}") from error


def check_option(
    owner: str, name: str, value: Any, annotation: Any, *, flag: str | None = None
) -> Any:
    """Return the value of an option, converted to its annotation as by `check_options`.

    Args:
      owner: Name of the step or class.
      name: Name of the option.
      value: The value that was given.
      annotation: Annotation of the field.
      flag: Name of the flag, if it differs from the name of the option.

    Raises:
      ConfigError: The value has the wrong type, or is out of range.
    """
    try:
        return _checked(annotation, value)
    except _MisfitError as error:
        problem = f"expected {error}, got {_shown(value)}{did_you_mean(str(value), error.known)}"
    if are_flags():
        raise ConfigError(f"{option_name(name, flag=flag)}: {problem}")
    raise ConfigError(f"{owner}: {name}: {problem}")


def _shown(value: Any) -> str:
    return f"the class {value.__name__}" if isinstance(value, type) else _short.repr(value)


class _MisfitError(ValueError):
    """A value that does not fit its annotation; the message is the expected value."""

    def __init__(self, expected: str, known: Sequence[Any] = ()) -> None:
        super().__init__(expected)
        self.known = [one for one in known if isinstance(one, str)]


@functools.cache
def _declared(kind: type) -> Mapping[str, tuple[Any, str | None]]:
    """Return {field: (annotation, flag)} of the fields that are options."""
    hints: dict[str, Any] = {}
    for base in reversed(kind.__mro__):
        if "__dataclass_fields__" in vars(base):
            hints |= inspect.get_annotations(base, eval_str=True)
    names = [one.name for one in dataclasses.fields(kind) if one.init]
    return {
        name: (hints[name], next((one.name for one in _notes(hints[name], Flag)), None))
        for name in names
        if not name.startswith("_")
    }


def _notes(hint: Any, kind: type | tuple[type, ...]) -> list[Any]:
    return [one for one in getattr(hint, "__metadata__", ()) if isinstance(one, kind)]


def _checked(hint: Any, value: Any) -> Any:
    """Return a value, converted to its annotation. Raises _MisfitError."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        try:
            found = _checked(arguments[0], value)
        except _MisfitError:
            for description in _notes(hint, Expected):
                raise _MisfitError(description.values) from None
            raise
        for limit in _notes(hint, Between):
            if isinstance(found, numbers.Real) and not limit.least <= found <= limit.most:
                raise _MisfitError(_range(limit))
        return found
    if origin in (typing.Union, types.UnionType):
        return _either(arguments, value)
    if origin is Literal:
        if not any(type(one) is type(value) and one == value for one in arguments):
            raise _MisfitError(_noun(hint), arguments)
        return value
    if origin in (tuple, frozenset, list, Sequence, Collection):
        return _items(hint, value)
    if origin in (dict, Mapping):
        if not isinstance(value, Mapping):
            raise _MisfitError(_noun(hint))
        found = {
            _part(hint, arguments[0], key): _part(hint, arguments[1], one)
            for key, one in value.items()
        }
        same = all(found[key] is one for key, one in value.items())
        return value if same else found
    if origin is Callable:
        if not callable(value):
            raise _MisfitError("a function")
        return value
    simple = _SIMPLE.get(hint)
    if simple is not None:
        return simple(value)
    kind = origin or hint
    if isinstance(kind, type) and (isinstance(value, type) or not isinstance(value, kind)):
        raise _MisfitError(_noun(kind))
    return value


def _either(hints: Sequence[Any], value: Any) -> Any:
    failed = []
    for hint in hints:
        try:
            return _checked(hint, value)
        except _MisfitError as error:
            failed.append(error)
    known = [name for error in failed for name in error.known]
    # None stands for an option that is not given.
    texts = [text for error in failed if (text := str(error)) != "None"]
    raise _MisfitError(" or ".join(texts), known)


def _items(hint: Any, value: Any) -> Any:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    kinds = (frozenset, set) if origin is frozenset else (list, tuple)
    if origin is Collection or origin is Sequence:
        fits = isinstance(value, origin) and not isinstance(value, str | bytes)
    else:
        fits = isinstance(value, kinds)
    is_fixed = origin is tuple and arguments[-1] is not Ellipsis
    if not fits or (is_fixed and len(value) != len(arguments)):
        raise _MisfitError(_noun(hint))
    each = arguments if is_fixed else [arguments[0]] * len(value)
    found = [_part(hint, kind, one) for kind, one in zip(each, value, strict=True)]
    if origin is tuple and (not isinstance(value, tuple) or [*value] != found):
        return tuple(found)
    return value


def _part(hint: Any, kind: Any, value: Any) -> Any:
    """Return a checked value that is part of another one."""
    try:
        return _checked(kind, value)
    except _MisfitError as error:
        if error.known:
            raise _MisfitError(f"some of {', '.join(error.known)}", error.known) from None
        raise _MisfitError(_noun(hint)) from None


def _noun(hint: Any) -> str:
    """Return a noun for the values of an annotation."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        for one in _notes(hint, (Between, Expected)):
            return one.values if isinstance(one, Expected) else _range(one)
        return _noun(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " or ".join(_noun(one) for one in arguments if one is not type(None))
    if origin is Literal:
        first = "one of " if len(arguments) > 1 else ""
        return first + ", ".join(map(str, arguments))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"({', '.join(map(_noun, arguments))})"
    if origin in (tuple, frozenset, list, Sequence, Collection):
        name = {frozenset: "a set", tuple: "a tuple"}.get(origin, "a list")
        return f"{name} of {_PLURALS.get(arguments[0], _noun(arguments[0]))}"
    if origin in (dict, Mapping):
        return f"a dict {{{_noun(arguments[0])}: {_noun(arguments[1])}}}"
    kind = origin or hint
    if kind in _NOUNS:
        return _NOUNS[kind]
    if getattr(kind, "_is_protocol", False):
        own = [name for name in vars(kind) if not name.startswith("_")]
        article = "an" if kind.__name__[0] in "AEIOU" else "a"
        return f"{article} {kind.__name__} (an object with {', '.join(sorted(own))})"
    return str(getattr(kind, "__name__", kind))


def _range(limit: Between) -> str:
    if limit.most == math.inf:
        return f"{limit.least} or more"
    return f"{limit.least} to {limit.most}"


def _none(value: Any) -> None:
    if value is not None:
        raise _MisfitError("None")


def _boolean(value: Any) -> Any:
    if type(value) is not bool:
        raise _MisfitError("True or False")
    return value


def _whole(value: Any) -> Any:
    if type(value) is int:
        return value
    if isinstance(value, bool) or not hasattr(value, "__index__"):
        raise _MisfitError("a whole number")
    return operator.index(value)


def _real(value: Any) -> Any:
    if type(value) in (int, float):
        return value
    if not is_number(value):
        raise _MisfitError("a number")
    return float(value)


def _text(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    if not isinstance(value, str):
        raise _MisfitError("a string")
    return value


def _any(value: Any) -> Any:
    return value


_SIMPLE: Mapping[Any, Callable[[Any], Any]] = {
    Any: _any, type(None): _none, bool: _boolean, int: _whole, float: _real, str: _text,
}  # fmt: skip
_NOUNS: Mapping[Any, str] = {
    type(None): "None", bool: "True or False", int: "a whole number", float: "a number",
    str: "a string", Any: "a value", os.PathLike: "a path",
}  # fmt: skip
_PLURALS: Mapping[Any, str] = {int: "whole numbers", float: "numbers", str: "strings"}
