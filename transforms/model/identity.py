"""Text that identifies an encoder: equal in every process and run for equal encoders.

The name of the staging folder depends on it, so that a run continues an earlier one of the same
encoder only. A module that is imported states its version itself (`Encoder.versions`). A script
is edited between two runs, so the code of its classes counts as well. That hash is not in the
manifest, because bytecode depends on the version of Python, and datasets do not.
"""

from __future__ import annotations

import dis
import hashlib
import re
from collections.abc import Iterator
from types import CodeType, FunctionType
from typing import Any

from recordmill.processes.by_value import is_local

_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")
_SIMPLE = (bool, int, float, complex, str, bytes, type(None))


def describe(thing: object) -> str:
    """Return the repr of an object; without addresses, and with the fields of plain classes."""
    if type(thing).__repr__ is object.__repr__ and hasattr(thing, "__dict__"):
        fields = (f"{name}={describe(value)}" for name, value in sorted(vars(thing).items()))
        return f"{type(thing).__qualname__}({', '.join(fields)})"
    return _ADDRESS.sub("", repr(thing))


def code_hash(thing: object) -> str | None:
    """Return a hash of the code of an object whose class other processes cannot import.

    It covers the methods, and the functions, classes and simple values of its module that they use.
    Returns None for other objects.
    """
    if not is_local(type(thing)):
        return None
    lines = _lines([type(thing), *getattr(thing, "__dict__", {}).values()], set())
    return hashlib.sha256("\n".join(lines).encode(errors="backslashreplace")).hexdigest()


def _lines(things: Any, visited: set[int]) -> Iterator[str]:
    """Yield lines of text for each object, and for what their code uses."""
    for thing in things:
        thing = getattr(thing, "__func__", thing)  # of class and static methods
        if isinstance(thing, property):
            yield from _lines([thing.fget], visited)
        elif isinstance(thing, _SIMPLE):
            yield repr(thing)
        elif isinstance(thing, list | tuple):
            yield from _lines(thing, visited)
        elif isinstance(thing, set | frozenset):
            yield from sorted(_lines(thing, visited))
        elif isinstance(thing, dict):
            yield from _lines([*thing, *thing.values()], visited)
        elif id(thing) in visited:
            continue
        elif isinstance(thing, FunctionType) and is_local(thing):
            visited.add(id(thing))
            yield from _code_lines(thing.__code__)
            used = [thing.__globals__.get(name) for name in _names(thing.__code__)]
            cells = [_content(cell) for cell in thing.__closure__ or ()]
            yield from _lines([used, cells, thing.__defaults__, thing.__kwdefaults__], visited)
        elif isinstance(thing, type) and is_local(thing):
            visited.add(id(thing))
            own = {name: value for name, value in vars(thing).items() if _is_own(name, value)}
            yield thing.__qualname__
            yield from _lines([thing.__bases__, dict(sorted(own.items()))], visited)
        elif isinstance(thing, FunctionType | type):
            yield f"{thing.__module__}.{thing.__qualname__}"


def _is_own(name: str, value: object) -> bool:
    """Return whether the author of a class wrote this attribute."""
    return not name.startswith("__") or isinstance(
        value, FunctionType | classmethod | staticmethod | property
    )


def _code_lines(code: CodeType) -> Iterator[str]:
    yield code.co_code.hex()
    yield repr(code.co_names)
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _code_lines(value)
        else:
            yield repr(sorted(map(repr, value))) if isinstance(value, frozenset) else repr(value)


def _names(code: CodeType) -> list[str]:
    """Return the names of the globals that a function reads."""
    inner = [value for value in code.co_consts if isinstance(value, CodeType)]
    found = {one.argval for one in dis.get_instructions(code) if one.opname == "LOAD_GLOBAL"}
    return sorted(found.union(*map(_names, inner)))


def _content(cell: Any) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # it is not filled yet
        return None
