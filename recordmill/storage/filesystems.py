"""Filesystems of pyarrow, and a function to call before the first of them starts threads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from pyarrow import fs

_prepare: Callable[[], None] | None = None


def before_threads(prepare: Callable[[], None]) -> None:
    """Register a function to call once, before the first client of a store starts threads.

    A process with threads cannot be forked safely.
    """
    global _prepare
    _prepare = prepare


def filesystem_of(uri: str) -> tuple[Any, str]:
    """Return the pyarrow filesystem of a URI, and the path in it.

    Raises:
      OSError, pa.ArrowException: the URI is invalid, or the store cannot be reached.
    """
    global _prepare
    prepare, _prepare = _prepare, None
    if prepare is not None:
        prepare()
    found: tuple[Any, str] = fs.FileSystem.from_uri(uri)
    return found
