"""Reuse of Beam's work on functions, types and options between the pipelines of one test session.

Beam inspects the same functions, converts the same types and parses its options again for each
pipeline. In a process that has made a dataset before, that is a quarter of the CPU of a run on a
small dataset. The first run of a process gains little, so this reuse is not part of
`runners/beam_patches.py`.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import sys
import weakref
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType
from typing import Any

import pytest

from recordmill.runners import beam_patches


@contextlib.contextmanager
def reused_inspections() -> Iterator[None]:
    """Inspect each function once inside the block, if a Beam that may be patched was imported."""
    with pytest.MonkeyPatch.context() as patch:
        if "apache_beam" in sys.modules and beam_patches.enabled():
            _patch(patch)
        yield


def _patch(patch: pytest.MonkeyPatch) -> None:
    from apache_beam import pipeline
    from apache_beam.options import pipeline_options
    from apache_beam.transforms import core, util
    from apache_beam.typehints import decorators, native_type_compatibility, typehints
    from apache_beam.typehints.decorators import IOTypeHints

    def get_option(self: Any, name: str) -> Any:
        """Find an option without sorting the names of all."""
        is_option = not name.startswith("_") and hasattr(self._visible_options, name)
        return self._all_options[name] if is_option else get_other(self, name)

    def formatter(self: argparse.ArgumentParser) -> argparse.HelpFormatter:
        """Check the help of an option without asking for the size of the terminal."""
        return argparse.HelpFormatter(self.prog, width=80)

    def init(self: Any, flags: Sequence[str] | None = None, **others: Any) -> None:
        """Parse the same flags into the same options once."""
        if not isinstance(flags, list | tuple) or others:
            init_others(self, flags, **others)
            return
        key = type(self), *flags
        if key not in parsed:
            init_others(self, flags)
            parsed[key] = copy.deepcopy(self._visible_options)
        self._flags = flags
        self._visible_options = copy.deepcopy(parsed[key])
        self._all_options = vars(self._visible_options).copy()

    def all_options(self: Any, **which: bool) -> dict[str, Any]:
        """Return the values of equal options without another parser of all that Beam has."""
        key = type(self), *self._flags, *which.items()
        if key not in values or values[key][0] != self._all_options:
            values[key] = self._all_options.copy(), get_all_options(self, **which)
        return copy.deepcopy(values[key][1])

    def convert_once(hint: Any) -> Any:
        """Convert a type once; those that cannot be hashed are converted each time."""
        try:
            if hint not in converted:
                converted[hint] = convert(hint)
            return converted[hint]
        except TypeError:
            return convert(hint)

    def is_consistent_once(sub: Any, base: Any) -> bool:
        """Compare two types once; those that cannot be hashed are compared each time."""
        try:
            if (sub, base) not in consistent:
                consistent[sub, base] = is_consistent_with(sub, base)
            return consistent[sub, base]
        except TypeError:
            return is_consistent_with(sub, base)

    options: Any = pipeline_options.PipelineOptions
    parsed: dict[Any, argparse.Namespace] = {}
    values: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
    converted: dict[Any, Any] = {}
    consistent: dict[tuple[Any, Any], bool] = {}
    is_consistent_with = typehints.is_consistent_with
    init_others, convert = options.__init__, native_type_compatibility.convert_to_beam_type
    get_other, get_all_options = options.__getattr__, options.get_all_options
    hints = _once_per_function(IOTypeHints.from_callable)
    patch.setattr(IOTypeHints, "from_callable", staticmethod(hints))
    get_signature = _once_per_function(decorators.get_signature)
    for module in (decorators, core, util):
        patch.setattr(module, "get_signature", get_signature)
    for module in (decorators, native_type_compatibility):
        patch.setattr(module, "convert_to_beam_type", convert_once)
    for module in (core, typehints):
        patch.setattr(module, "is_consistent_with", is_consistent_once)
    # Each transform would look for IPython in all folders of the import path.
    patch.setattr(pipeline, "is_in_ipython", lambda: False)
    patch.setattr(pipeline, "alter_label_if_ipython", lambda transform, pvalueish: None)
    patch.setattr(options, "get_all_options", all_options)
    patch.setattr(options, "__init__", init)
    patch.setattr(options, "__getattr__", get_option)
    patch.setattr(pipeline_options._BeamArgumentParser, "_get_formatter", formatter)


def _once_per_function(inspect: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Keep the results for functions and bound methods; other callables are inspected each time."""
    results: weakref.WeakKeyDictionary[Any, dict[bool, Any]] = weakref.WeakKeyDictionary()

    def inspect_once(method: Any) -> Any:
        function = getattr(method, "__func__", method)
        if not isinstance(function, FunctionType):
            return inspect(method)
        found = results.setdefault(function, {})
        is_bound = function is not method
        if is_bound not in found:
            found[is_bound] = inspect(method)
        return found[is_bound]

    return inspect_once
