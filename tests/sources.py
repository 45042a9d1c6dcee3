"""The modules of the project as syntax trees."""

import ast
import functools
import gc
import pathlib

from tests.paths import ROOT

ROOMS = ("recordmill", "transforms", "pipelines", "runners")


@functools.cache
def modules() -> dict[pathlib.Path, ast.Module]:
    """Return the modules of the project; links below recordmill/ are not followed."""
    # Three quarters of the time would go into looking for garbage among the new nodes.
    gc.disable()
    try:
        return {
            path: ast.parse(path.read_text())
            for room in ROOMS
            for path in sorted((ROOT / room).rglob("*.py"))
            if not any(parent.is_symlink() for parent in path.parents)
        }
    finally:
        gc.enable()
