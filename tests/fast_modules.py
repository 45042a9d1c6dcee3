"""A pytest plugin that collects the fast test modules only: `pytest -p tests.fast_modules`.

A module is slow if it imports TensorFlow, the command line, what starts processes, or a client of
S3 that only all tests have, itself or through another module of tests.
"""

from __future__ import annotations

import ast
import functools
import pathlib
from collections.abc import Iterator

from tests.paths import ROOT

_SLOW = frozenset(
    {
        "boto3",
        "multiprocessing",
        "recordmill.pipelines.cli",
        "subprocess",
        "tensorflow",
        "tensorflow_datasets",
    }
)


def pytest_ignore_collect(collection_path: pathlib.Path) -> bool | None:
    """Return True for a slow module, without importing it."""
    is_module = collection_path.suffix == ".py" and collection_path.is_relative_to(ROOT / "tests")
    return True if is_module and is_slow(collection_path) else None


@functools.cache
def is_slow(path: pathlib.Path) -> bool:
    """Return whether a module of tests is slow."""
    for name in _imports(path):
        if name in _SLOW:
            return True
        place = ROOT / name.replace(".", "/")
        helper = place.with_suffix(".py")
        if name.startswith("tests.") and helper != path and helper.exists() and is_slow(helper):
            return True
    return False


def _imports(path: pathlib.Path) -> Iterator[str]:
    """Yield modules that a module imports anywhere, and names that may be modules."""
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                yield from (name.name for name in names)
            case ast.ImportFrom(module=str(module), names=names, level=0):
                yield module
                yield from (f"{module}.{name.name}" for name in names)
