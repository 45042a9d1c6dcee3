"""Datasets of TFRecord files: reads what `recordmill` on the command line has written.

Nothing is imported before it is asked for, and TensorFlow only by what returns a `tf.data.Dataset`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordmill.loading.loader import load
    from recordmill.reader import Records, open, read  # noqa: A004, as gzip and wave do

__all__ = ["Records", "load", "open", "read"]

_PLACES = {
    "Records": "recordmill.reader",
    "load": "recordmill.loading.loader",
    "open": "recordmill.reader",
    "read": "recordmill.reader",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
