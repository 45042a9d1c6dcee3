"""Patches of Apache Beam that shorten the start and the stages of every job.

Each patch is a function below that makes one change in Beam. It applies only to the versions of
Beam in CHECKED_VERSIONS, and only if the attribute that it changes exists. With any other Beam, or
with RECORDMILL_BEAM_PATCHES=0 in the environment, Beam runs unchanged and jobs write the same
datasets. The figures are seconds of CPU per job, from docs/adr/0027-patches-of-beam.md.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import gc
import importlib.metadata
import os
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

CHECKED_VERSIONS = frozenset({"2.77.0"})
"""Versions of Beam with which every patch was checked."""

SWITCH = "RECORDMILL_BEAM_PATCHES"
"""Environment variable; the value 0 switches all patches off."""


@functools.cache
def enabled() -> bool:
    """Return whether patches apply in this process."""
    if os.environ.get(SWITCH) == "0":
        return False
    try:
        return importlib.metadata.version("apache-beam") in CHECKED_VERSIONS
    except importlib.metadata.PackageNotFoundError:
        return False


@contextlib.contextmanager
def permanent_imports() -> Iterator[None]:
    """Import Beam, and other modules that stay until the process ends, inside the block.

    Beam is patched at the end of the block. Garbage collection is off inside the block and later
    skips all objects that the block created: it would traverse the many functions and classes of
    Beam in vain, during the imports and at exit. That saves 0.25 s, with any version of Beam.
    """
    gc.disable()
    try:
        with _replaced_modules():
            yield
        apply_patches()
    finally:
        gc.freeze()
        gc.enable()


def apply_patches() -> None:
    """Patch those modules of Beam that have been imported and are not patched yet."""
    if not enabled():
        return
    for name, patch in _PATCHES.items():
        module = sys.modules.get(name)
        if module is None or patch in _applied:
            continue
        _applied.add(patch)
        with contextlib.suppress(AttributeError):  # there is nothing to patch in this Beam
            patch(module)


@contextlib.contextmanager
def _replaced_modules() -> Iterator[None]:
    """Replace modules while Beam is imported; later imports by name get the real modules."""
    replacements: dict[str, Any] = {}
    if enabled():
        for replace in _REPLACEMENTS:
            replacements |= replace()
    replacements = {name: new for name, new in replacements.items() if name not in sys.modules}
    sys.modules.update(replacements)
    try:
        yield
    finally:
        for name in replacements:
            del sys.modules[name]


def omit_bigquery() -> dict[str, Any]:
    """Omit the connector of BigQuery: apache_beam.io goes without it if it cannot be imported.

    Saves 0.05 s: it brings the clients of other services of Google. Checked with Beam 2.77.0.
    """
    return {"apache_beam.io.gcp.bigquery": None}  # None: the import raises ModuleNotFoundError


def omit_mongodb() -> dict[str, Any]:
    """Replace the connector of MongoDB by an empty module: apache_beam.io only re-exports it.

    Saves 0.06 s: it imports pymongo. Checked with Beam 2.77.0.
    """
    name = "apache_beam.io.mongodbio"
    return {name: ModuleType(name)}


def defer_beartype() -> dict[str, Any]:
    """Compare type hints that are classes by issubclass, and import beartype for all others.

    Saves 0.07 s: few pipelines compare others. Checked with Beam 2.77.0.
    """
    door, roar = ModuleType("beartype.door"), ModuleType("beartype.roar")

    class BeartypeDoorException(Exception):
        pass

    def is_subhint(sub: Any, base: Any) -> bool:
        if type(sub) is type and type(base) is type:
            return issubclass(sub, base)
        from beartype.door import is_subhint
        from beartype.roar import BeartypeDoorException as OriginalException

        try:
            return is_subhint(sub, base)
        except OriginalException as error:
            raise BeartypeDoorException from error

    door.is_subhint = is_subhint  # type: ignore[attr-defined]
    roar.BeartypeDoorException = BeartypeDoorException  # type: ignore[attr-defined]
    return {module.__name__: module for module in (door, roar)}


def cache_option_views(pipeline_options: ModuleType) -> None:
    """Create each view of pipeline options only once.

    Beam reads its options about ten times per transform, and each `view_as` builds and runs a new
    argument parser. A view holds only a reference to the values, which all views share. Saves
    0.16 s. Checked with Beam 2.77.0.
    """
    options: Any = pipeline_options.PipelineOptions
    view_as = options.view_as

    @functools.wraps(view_as)
    def cached_view_as(self: Any, cls: type[Any]) -> Any:
        if type(self) is not options:  # views of views, which pickling creates, are not kept
            return view_as(self, cls)
        views = self.__dict__.setdefault("_recordmill_views", {})
        if cls not in views:
            views[cls] = view_as(self, cls)
        return views[cls]

    options.view_as = cached_view_as


def cache_argument_defaults(core: ModuleType) -> None:
    """Inspect the signature of each method of a DoFn only once.

    Beam inspects all methods of a DoFn several times per stage, and most of them belong to the base
    class. Functions that are not methods are inspected each time. Saves 0.17 s. Checked with Beam
    2.77.0.
    """
    inspect: Callable[[Any], tuple[list[str], list[Any]]] = core.get_function_args_defaults
    known: dict[Any, tuple[list[str], list[Any]]] = {}

    @functools.wraps(inspect)
    def cached_inspect(method: Any) -> tuple[list[str], list[Any]]:
        function = getattr(method, "__func__", None)
        if function is None:
            return inspect(method)
        if function not in known:
            known[function] = inspect(method)
        names, defaults = known[function]
        return copy.copy(names), copy.copy(defaults)

    core.get_function_args_defaults = cached_inspect  # type: ignore[attr-defined]


def skip_empty_bundles(fn_runner: ModuleType) -> None:
    """Process no bundles without elements in the in-process runner.

    It makes one bundle per thread for each stage, though most stages of a job have one element.
    Saves 0.09 s with two threads. Checked with Beam 2.77.0.
    """
    parallel_manager: Any = fn_runner.ParallelBundleManager
    process_bundle = parallel_manager.process_bundle

    class PartitionedBuffer(list[list[bytes]]):
        """Encoded elements that were already distributed to the threads."""

        def partition(self, count: int) -> list[list[bytes]]:
            assert count == len(self)
            return self

    @functools.wraps(process_bundle)
    def process_nonempty_bundles(self: Any, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        count = self._num_workers
        parts = {name: buffer.partition(count) for name, buffer in inputs.items()}
        # The first thread also gets the timers.
        used = [n for n in range(count) if not n or any(any(part[n]) for part in parts.values())]
        self._num_workers = len(used)
        try:
            nonempty = {
                name: PartitionedBuffer([part[n] for n in used]) for name, part in parts.items()
            }
            return process_bundle(self, nonempty, *args, **kwargs)
        finally:
            self._num_workers = count

    parallel_manager.process_bundle = process_nonempty_bundles


_REPLACEMENTS: tuple[Callable[[], dict[str, Any]], ...] = (
    omit_bigquery,
    omit_mongodb,
    defer_beartype,
)
# By the module of Beam that each changes.
_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "apache_beam.options.pipeline_options": cache_option_views,
    "apache_beam.transforms.core": cache_argument_defaults,
    "apache_beam.runners.portability.fn_api_runner.fn_runner": skip_empty_bundles,
}
_applied: set[Callable[[ModuleType], None]] = set()
