"""Imports of what stays until the process ends: Beam and all that comes with it."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

from recordmill.runners.beam_patches import light_beam


@contextmanager
def lasting() -> Iterator[None]:
    """What is imported in here lasts until the end, and Beam is thousands of objects: the collector
    looks at them neither while they come nor ever again. At the exit alone that took a third of a
    second, and what is forked shares their pages.
    """
    gc.disable()
    try:
        with light_beam():
            yield
    finally:
        gc.freeze()
        gc.enable()
