"""Methods of dataclasses, compiled when they are first called instead of when a class is made.

Python 3.11 and 3.12 compile every method of a dataclass by itself. Imports of a job make 300
dataclasses, and hardly any of them is compared or printed. Saves 0.04 s of CPU per job.
"""

from __future__ import annotations

import contextlib
import dataclasses
import sys
from collections.abc import Iterator
from typing import Any

_PYTHONS = ((3, 11), (3, 12))  # from 3.13 on, all methods of a class are compiled at once
# All but __init__, of which callers and Beam inspect the signature.
_METHODS = frozenset(
    f"__{name}__" for name in ("repr", "eq", "lt", "le", "gt", "ge", "hash", "setattr", "delattr")
)


@contextlib.contextmanager
def deferred_methods() -> Iterator[None]:
    """Defer the methods of dataclasses that are made inside the block."""
    compile_now: Any = getattr(dataclasses, "_create_fn", None)
    if compile_now is None or sys.version_info[:2] not in _PYTHONS:
        yield
        return

    def compile_later(name: str, *args: Any, **kwargs: Any) -> Any:
        if name not in _METHODS:
            return compile_now(name, *args, **kwargs)
        compiled: Any = None

        def method(*given: Any) -> Any:
            nonlocal compiled
            if compiled is None:
                compiled = compile_now(name, *args, **kwargs)
            return compiled(*given)

        method.__name__ = name
        return method

    dataclasses._create_fn = compile_later  # type: ignore[attr-defined]
    try:
        yield
    finally:
        dataclasses._create_fn = compile_now  # type: ignore[attr-defined]
