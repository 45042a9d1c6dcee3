"""Parses untrusted JSON into typed values.

The annotations of a dataclass say what its JSON has to hold: `read_as` checks types, ranges and
names, and its errors name the field, such as `ledger.filtered: expected an object, got 7`.
"""

from __future__ import annotations

import contextlib
import dataclasses
import enum
import functools
import json
import math
import re
import reprlib
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, NoReturn, TypeVar

from recordmill import strict_json
from recordmill.errors import DamageError
from recordmill.option_checks import Between

Kind = TypeVar("Kind")
_Check = Callable[[Any], Any]

_short = reprlib.Repr()
_short.maxstring = _short.maxother = 100
_NUMBER = re.compile("-?[0-9]{1,19}")
_NAME = re.compile(r"\w+(/\w+)*", re.ASCII)


@dataclasses.dataclass(frozen=True)
class Checked:
    """A further check, for `Annotated`: it returns the value, or raises ValueError."""

    check: Callable[[Any], Any]


class Presence(enum.Enum):
    """For `Annotated`: fields that must be stated although the dataclass has a default."""

    REQUIRED = "required"


# Numbers of records, bytes and the like. Sums of a thousand of them fit into 64 bits.
MAX_COUNT = 2**53 - 1
Count = Annotated[int, Between(0, MAX_COUNT)]
StatedCount = Annotated[Count, Presence.REQUIRED]
Fraction = Annotated[float, Between(0, 1)]
JsonObject = dict[str, Any]


class FieldError(ValueError):
    """An invalid value of JSON. path: names and numbers that lead to it, the innermost first."""

    def __init__(self, what: str, *path: str) -> None:
        super().__init__(what, *path)
        self.what = what
        self.path = list(path)

    def __str__(self) -> str:
        path = "".join(reversed(self.path)).removeprefix(".")
        return f"{path}: {self.what}" if path else self.what


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
    """Raise errors of reading an untrusted file as DamageError.

    file: how the message names it. line: its line, counted from 1. advice: what to do.
    """
    where = file if line is None else f"{file}, line {line}"
    advice = f"; {advice}" if advice else ""
    try:
        yield
    except RecursionError:
        raise DamageError(f"{where} is damaged: it is nested too deeply{advice}") from None
    except ValueError as error:
        raise DamageError(f"{where} is damaged: {error}{advice}") from error


def read_as(kind: type[Kind], value: Any, *, open_ended: bool = False) -> Kind:
    """Return a value of JSON as a dataclass, a named tuple, or a type made of these.

    Supported are bool, int, float, str, enumerations of strings, Literal, None, Any, tuples, lists
    and mappings of them, `Annotated` with `Between`, `Checked` and `Presence`, and classes that
    have a method `from_json`, which gets the object.

    open_ended: accept unknown names, which a later version may have written.

    Raises:
      FieldError: a value has another type or is out of range, or a name is missing or unknown.
    """
    try:
        found: Kind = _check_for(typing.cast(Any, kind), open_ended=open_ended)(value)
    except RecursionError:
        raise FieldError("it is nested too deeply") from None
    return found


@functools.cache
def _check_for(kind: Any, *, open_ended: bool) -> _Check:
    """Return the function that checks and converts a value; it raises FieldError."""
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    inner = functools.partial(_check_for, open_ended=open_ended)
    if origin is Annotated:
        return _annotated(inner(arguments[0]), arguments[1:])
    if origin in (typing.Union, types.UnionType):
        return _either([inner(one) for one in arguments])
    if origin is Literal:
        return functools.partial(_literal, arguments)
    if origin is tuple and arguments[-1] is not Ellipsis:
        return functools.partial(_tuple, [inner(one) for one in arguments])
    if origin in (list, tuple, Sequence):
        return functools.partial(_list, list if origin is list else tuple, inner(arguments[0]))
    if origin in (dict, Mapping):
        key, of = arguments
        return functools.partial(_mapping, _number_key if key is int else inner(key), inner(of))
    if hasattr(kind, "from_json"):
        return functools.partial(_by_itself, kind.from_json)
    if dataclasses.is_dataclass(kind) or hasattr(kind, "_field_defaults"):
        return _object(kind, open_ended=open_ended)
    if isinstance(kind, type) and issubclass(kind, enum.StrEnum):
        return lambda value: kind(_literal(tuple(map(str, kind)), value))
    return _SIMPLE[kind]


def _unexpected(expected: str, value: Any) -> FieldError:
    got = f'"{_short.repr(value)[1:-1]}"' if isinstance(value, str) else _short.repr(value)
    return FieldError(f"expected {expected}, got {got}")


def _exact(kind: type, noun: str, value: Any) -> Any:
    if type(value) is not kind:  # not isinstance: JSON's true is not a number
        raise _unexpected(noun, value)
    return value


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise _unexpected("a number", value)
    try:
        found = float(value)
    except OverflowError:
        found = math.inf
    if not math.isfinite(found):  # such as 1e999
        raise _unexpected("a finite number", value)
    return found


def _none(value: Any) -> None:
    if value is not None:
        raise _unexpected("null", value)


_SIMPLE: Mapping[Any, _Check] = {
    bool: functools.partial(_exact, bool, "true or false"),
    int: functools.partial(_exact, int, "an integer"),
    float: _float,
    str: functools.partial(_exact, str, "a text"),
    type(None): _none,
    Any: lambda value: value,
}


def _annotated(check: _Check, limits: Sequence[Any]) -> _Check:
    for limit in limits:
        if isinstance(limit, Between):
            check = functools.partial(_between, check, limit)
        elif isinstance(limit, Checked):
            check = functools.partial(_further, check, limit.check)
    return check


def _between(check: _Check, limit: Between, value: Any) -> Any:
    found = check(value)
    if not limit.least <= found <= limit.most:
        most = "" if limit.most == MAX_COUNT and found <= MAX_COUNT else f" and <= {limit.most}"
        raise _unexpected(f"a number >= {limit.least}{most}", value)
    return found


def _further(check: _Check, further: Callable[[Any], Any], value: Any) -> Any:
    found = check(value)
    try:
        return further(found)
    except FieldError:
        raise
    except ValueError as error:
        raise FieldError(str(error)) from error


def _either(checks: Sequence[_Check]) -> _Check:
    nullable = _none in checks
    others = [check for check in checks if check is not _none]

    def either(value: Any) -> Any:
        if value is None and nullable:
            return None
        for check in others[:-1]:
            with contextlib.suppress(FieldError):
                return check(value)
        return others[-1](value)

    return either


def _literal(known: Sequence[Any], value: Any) -> Any:
    for one in known:
        if type(one) is type(value) and one == value:
            return one
    raise _unexpected(f"one of {', '.join(map(str, known))}", value)


def _tuple(checks: Sequence[_Check], value: Any) -> tuple[Any, ...]:
    if not isinstance(value, list | tuple) or len(value) != len(checks):
        raise _unexpected(f"a list of {len(checks)} values", value)
    return tuple(_at(f"[{n}]", check, value[n]) for n, check in enumerate(checks))


def _list(make: type[Any], check: _Check, value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise _unexpected("a list", value)
    return make([_at(f"[{n}]", check, one) for n, one in enumerate(value)])


def _mapping(check_key: _Check, check: _Check, value: Any) -> dict[Any, Any]:
    if type(value) is not dict:
        raise _unexpected("an object", value)
    return {_at("", check_key, key): _at(_step(key), check, one) for key, one in value.items()}


def _number_key(key: str) -> int:
    """Return the number of a key: those of JSON objects are texts."""
    if not _NUMBER.fullmatch(key):
        raise _unexpected("an integer", key)
    return int(key)


def _at(step: str, check: _Check, value: Any) -> Any:
    try:
        return check(value)
    except FieldError as error:
        error.path.append(step)
        raise


def _step(name: str) -> str:
    return f".{name}" if _NAME.fullmatch(name) else f"[{_short.repr(name)}]"


def _by_itself(from_json: Callable[[JsonObject], Any], value: Any) -> Any:
    if type(value) is not dict:
        raise _unexpected("an object", value)
    return _further(lambda data: data, from_json, value)


def _object(kind: Any, *, open_ended: bool) -> _Check:
    hints = typing.get_type_hints(kind, include_extras=True)
    if dataclasses.is_dataclass(kind):
        fields = [one for one in dataclasses.fields(kind) if one.init]
        missing = dataclasses.MISSING
        given = {f.name for f in fields if f.default is missing and f.default_factory is missing}
        names = [one.name for one in fields]
    else:
        names = [*kind._fields]
        given = {*names} - {*kind._field_defaults}
    checks: dict[str, _Check] = {}  # made when a value is checked: types may be recursive
    required = [
        name
        for name in names
        if name in given or Presence.REQUIRED in getattr(hints[name], "__metadata__", ())
    ]

    def check(value: Any) -> Any:
        if type(value) is not dict:
            raise _unexpected("an object", value)
        if not checks:
            checks.update({name: _check_for(hints[name], open_ended=open_ended) for name in names})
        for name in required:
            if name not in value:
                raise FieldError("it is missing", f".{name}")
        found = {}
        for name, one in value.items():
            if name in checks:
                found[name] = _at(f".{name}", checks[name], one)
            elif not open_ended:
                raise FieldError("the name is unknown", _step(name))
        try:
            return kind(**found)
        except ValueError as error:
            raise FieldError(str(error)) from error

    return check
