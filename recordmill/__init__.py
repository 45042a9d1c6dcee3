"""Datasets of TFRecord files: reads what `recordmill` on the command line has written.

Nothing is imported before it is asked for: TensorFlow only by what returns a `tf.data.Dataset`,
PyTorch by what returns one of its own.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordmill.loading.loader import load
    from recordmill.reading.reader import Records, open, read  # noqa: A004, as gzip and wave do
    from recordmill.reading.torch_records import torch_dataset

__all__ = ["Records", "load", "open", "read", "torch_dataset"]

_PLACES = {
    "Records": "recordmill.reading.reader",
    "load": "recordmill.loading.loader",
    "open": "recordmill.reading.reader",
    "read": "recordmill.reading.reader",
    "torch_dataset": "recordmill.reading.torch_records",
}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES])
