"""The steps of Recordmill as Beam PTransforms, for custom pipelines.

A whole pipeline, from a folder of images to a published dataset::

    options = ImageOptions(size=(224, 224))
    run = RunSpec(
        output="out/",
        encoder=ImageEncoder(options=options),
        splits={"train": 0.8, "test": 0.2},
        seed=7,
    )
    with beam.Pipeline(runner="FnApiRunner") as pipeline:
        (
            pipeline
            | Read.from_source(FileTree(input="photos/"), run)
            | Check(check=HeaderCheck(options=options))
            | AssignSplits()
            | Analyze()
            | Rebalance("oversample")
            | Reshuffle()
            | WriteToTFRecord()
            | Publish()
        )

The commands are built from the same transforms (`pipelines/jobs/road.py`). Batches that a pipeline
makes itself enter with `StageBatches` in place of `Read`; `ReadBatches` leads back to batches in
memory.
"""

from __future__ import annotations

import ast
import functools
import importlib
import pathlib
from collections.abc import Mapping
from typing import Any


@functools.cache
def _modules() -> Mapping[str, str]:
    """Return {public name: its module}, from the stub beside this file, which mypy reads."""
    stub = ast.parse(pathlib.Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    return {alias.name: str(node.module) for node in imports for alias in node.names}


def __getattr__(name: str) -> Any:  # encoder processes import what is below here, without Beam
    if name == "__all__":
        return sorted(_modules())
    if name.startswith("__") or name not in _modules():
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_modules()[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_modules()])
