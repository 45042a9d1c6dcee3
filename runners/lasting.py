"""Imports of what stays until the process ends: Beam and all that comes with it."""

import functools
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

# Beam brings along how to speak to services of which no pipeline here has need. They are two
# fifths of its import.
_CLIENTS = (
    "apache_beam.io.aws.s3filesystem",  # all of boto3
    "apache_beam.io.gcp.bigquery",
    "apache_beam.io.mongodbio",
)
_MUST_BE_THERE = "apache_beam.io.mongodbio"  # Beam can do without the others

_Parameters = tuple[list[str], list[Any]]  # names, and default values


@contextmanager
def lasting() -> Iterator[None]:
    """What is imported in here lasts until the end, and Beam is thousands of objects: the collector
    looks at them neither while they come nor ever again. At the exit alone that took a third of a
    second, and what is forked shares their pages.

    Beam comes without its clients; who imports one by its name after this gets it all the same.
    """
    left_out = [name for name in _CLIENTS if name not in sys.modules]
    gc.disable()
    try:
        for name in left_out:
            stub = ModuleType(name) if name == _MUST_BE_THERE else None  # None: there is none
            sys.modules[name] = stub  # type: ignore[assignment]
        yield
    finally:
        for name in left_out:
            del sys.modules[name]
        if "apache_beam.transforms.core" in sys.modules:
            _look_once_at_parameters(sys.modules["apache_beam.transforms.core"])
        gc.freeze()
        gc.enable()


def _look_once_at_parameters(core: Any) -> None:
    """Beam looks at the parameters of each method of a DoFn six times and more, and most of these
    are of its own base class: that was a fifth of a second of every job.
    """
    find: Callable[[Any], _Parameters] = core.get_function_args_defaults
    if hasattr(find, "__wrapped__"):  # it does so already
        return
    known: dict[Any, _Parameters] = {}

    @functools.wraps(find)
    def found(function: Any) -> _Parameters:
        method = getattr(function, "__func__", None)
        if method is None:
            return find(function)
        if method not in known:
            known[method] = find(function)
        names, defaults = known[method]
        return [*names], [*defaults]

    core.get_function_args_defaults = found
