"""Reuse of Beam's options between the pipelines of one test session.

Beam parses its options again for each pipeline, which takes 0.02 s of CPU, a tenth of a run on a
small dataset in a process that has made one before.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from recordmill.runners import beam_patches


@contextlib.contextmanager
def reused_options() -> Iterator[None]:
    """Parse equal options once inside the block, if a Beam that may be patched was imported."""
    with pytest.MonkeyPatch.context() as patch:
        if "apache_beam" in sys.modules and beam_patches.enabled():
            _patch(patch)
        yield


def _patch(patch: pytest.MonkeyPatch) -> None:
    from apache_beam import pipeline
    from apache_beam.options import pipeline_options

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

    options: Any = pipeline_options.PipelineOptions
    parsed: dict[Any, argparse.Namespace] = {}
    values: dict[Any, tuple[dict[str, Any], dict[str, Any]]] = {}
    init_others, get_other = options.__init__, options.__getattr__
    get_all_options = options.get_all_options
    # Each transform would look for IPython in all folders of the import path.
    patch.setattr(pipeline, "is_in_ipython", lambda: False)
    patch.setattr(pipeline, "alter_label_if_ipython", lambda transform, pvalueish: None)
    patch.setattr(options, "get_all_options", all_options)
    patch.setattr(options, "__init__", init)
    patch.setattr(options, "__getattr__", get_option)
    patch.setattr(pipeline_options._BeamArgumentParser, "_get_formatter", formatter)
