"""Reads and loads datasets that the `recordmill` command has written, and runs custom pipelines.

Names are imported when they are first used: only `load` imports TensorFlow, only `torch_dataset`
and `torch_source` PyTorch, and only `run` Beam.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from recordmill.loading.decode import Decode
    from recordmill.loading.loader import load
    from recordmill.pipelines.custom import run
    from recordmill.reading.ordered_records import grain_source
    from recordmill.reading.position import position
    from recordmill.reading.reader import Records, read
    from recordmill.reading.torch_records import torch_dataset
    from recordmill.reading.torch_source import torch_source
    from recordmill.report.opened_dataset import open  # noqa: A004, as gzip and wave do

__all__ = [
    "Decode",
    "Records",
    "grain_source",
    "load",
    "open",
    "position",
    "read",
    "run",
    "torch_dataset",
    "torch_source",
]

_MODULES = {
    "Decode": "recordmill.loading.decode",
    "Records": "recordmill.reading.reader",
    "grain_source": "recordmill.reading.ordered_records",
    "load": "recordmill.loading.loader",
    "open": "recordmill.report.opened_dataset",
    "position": "recordmill.reading.position",
    "read": "recordmill.reading.reader",
    "run": "recordmill.pipelines.custom",
    "torch_dataset": "recordmill.reading.torch_records",
    "torch_source": "recordmill.reading.torch_source",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_MODULES])
