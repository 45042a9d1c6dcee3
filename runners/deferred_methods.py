"""Methods of dataclasses, compiled when they are first looked up instead of when a class is made.

Python 3.11 and 3.12 compile every method of a dataclass by itself. Imports of a job make 300
dataclasses, and most of them are never instantiated, compared or printed. Saves 0.08 s of CPU per
job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import sys
from collections.abc import Callable, Iterator
from typing import Any

_PYTHONS = ((3, 11), (3, 12))  # from 3.13 on, all methods of a class are compiled at once


class _DeferredMethod:
    """A method that is compiled when it is first looked up, and replaced by the compiled one."""

    __slots__ = ("__name__", "_compile", "_compiled")

    def __init__(self, name: str, compile_now: Callable[[], Any]) -> None:
        self.__name__ = name
        self._compile = compile_now
        self._compiled: Any = None

    def __get__(self, instance: object, owner: type[Any]) -> Any:
        method, name = self._method(), self.__name__
        for cls in owner.__mro__:
            if cls.__dict__.get(name) is self:
                method.__qualname__ = f"{cls.__qualname__}.{name}"
                setattr(cls, name, method)
        return method.__get__(instance, owner)

    def __call__(self, *args: Any) -> Any:
        """Call the method; Python wraps `__repr__`, so that it is not looked up."""
        return self._method()(*args)

    def _method(self) -> Any:
        if self._compiled is None:
            self._compiled = self._compile()
        return self._compiled


@contextlib.contextmanager
def deferred_methods() -> Iterator[None]:
    """Defer the methods of dataclasses that are made inside the block."""
    now: Any = [getattr(dataclasses, name, None) for name in ("_create_fn", "_init_fn")]
    if None in now or sys.version_info[:2] not in _PYTHONS:
        yield
        return
    create, init = now

    def create_later(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "__init__":  # called by `init`, once it is looked up
            return create(name, *args, **kwargs)
        return _DeferredMethod(name, functools.partial(create, name, *args, **kwargs))

    def init_later(*args: Any) -> Any:
        return _DeferredMethod("__init__", functools.partial(init, *args))

    dataclasses._create_fn = create_later  # type: ignore[attr-defined]
    dataclasses._init_fn = init_later  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dataclasses._create_fn, dataclasses._init_fn = create, init  # type: ignore[attr-defined]
