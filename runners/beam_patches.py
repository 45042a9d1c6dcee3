"""Patches of Apache Beam that save time or memory in every job.

Each patch is a function, here or in `omitted_modules`, that makes one change in Beam. It applies
only to the versions of Beam in CHECKED_VERSIONS, and only if the attribute that it changes exists.
With any other Beam, or with RECORDMILL_BEAM_PATCHES=0 in the environment, Beam runs unchanged and
jobs write the same datasets. The figures are seconds of CPU per job, from
docs/adr/0027-patches-of-beam.md.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import os
import sys
from collections.abc import Callable, Hashable, Iterator
from types import MethodType, ModuleType
from typing import Any

from recordmill.installed_versions import installed_version
from recordmill.runners import omitted_modules
from recordmill.runners.deferred_methods import deferred_methods

CHECKED_VERSIONS = frozenset({"2.77.0"})
"""Versions of Beam with which every patch was checked."""

SWITCH = "RECORDMILL_BEAM_PATCHES"
"""Environment variable; the value 0 switches all patches off."""

_SAMPLING_PERIOD_MS = 5


@functools.cache
def enabled() -> bool:
    """Return whether patches apply in this process."""
    if os.environ.get(SWITCH) == "0":
        return False
    try:
        return installed_version("apache-beam") in CHECKED_VERSIONS
    except ModuleNotFoundError:
        return False


@contextlib.contextmanager
def permanent_imports() -> Iterator[None]:
    """Import Beam, and other modules that stay until the process ends, inside the block.

    Beam is patched at the end of the block. Garbage collection is off inside the block and later
    skips all objects that the block created: it would traverse the many functions and classes of
    Beam in vain, during the imports and at exit. That saves 0.23 s of wall time, with any version
    of Beam. If the block imports nothing, as in the second run of a process, collection skips
    nothing more: otherwise the garbage of the first run would never be freed. Dataclasses get
    deferred methods.
    """
    imported = len(sys.modules)
    gc.disable()
    try:
        with _replaced_modules(), deferred_methods() if enabled() else contextlib.nullcontext():
            yield
        apply_patches()
    finally:
        if len(sys.modules) > imported:
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
        for replace in omitted_modules.REPLACEMENTS:
            replacements |= replace()
    replacements = {name: new for name, new in replacements.items() if name not in sys.modules}
    sys.modules.update(replacements)
    try:
        yield
    finally:
        for name, new in replacements.items():
            if sys.modules.get(name, ...) is new:
                del sys.modules[name]


def cache_option_views(pipeline_options: ModuleType) -> None:
    """Create each view of pipeline options only once.

    Beam reads its options about ten times per transform, and each `view_as` builds and runs a new
    argument parser. A view holds only a reference to the values, which all views share. Saves
    0.17 s. Checked with Beam 2.77.0.
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
    class. Functions that are not methods are inspected each time. Saves 0.14 s. Checked with Beam
    2.77.0.
    """

    def function_of(method: Any) -> Any:
        return getattr(method, "__func__", None)

    _cache_pair(core, "get_function_args_defaults", key=function_of)


def cache_state_specs(userstate: ModuleType) -> None:
    """Search each class of DoFns only once for states and timers.

    They are parameters of its methods. A DoFn that has methods in its own attributes is searched
    each time. Saves 0.05 s. Checked with Beam 2.77.0.
    """

    def class_of(dofn: Any) -> Any:
        own_methods = any(isinstance(value, MethodType) for value in vars(dofn).values())
        return None if own_methods else type(dofn)

    _cache_pair(userstate, "get_dofn_specs", key=class_of)


def _cache_pair(module: ModuleType, name: str, *, key: Callable[[Any], Hashable | None]) -> None:
    """Cache a function that returns two collections; its callers get copies of them.

    key: of the argument; None for an argument that is not cached.
    """
    function: Callable[[Any], tuple[Any, Any]] = getattr(module, name)
    cache: dict[Hashable, tuple[Any, Any]] = {}

    @functools.wraps(function)
    def cached(argument: Any) -> tuple[Any, Any]:
        index = key(argument)
        if index is None:
            return function(argument)
        if index not in cache:
            cache[index] = function(argument)
        first, second = cache[index]
        return first.copy(), second.copy()

    setattr(module, name, cached)


def sample_state_often(statesampler: ModuleType) -> None:
    """Sample the state of a bundle every 5 ms.

    A bundle ends when the thread that samples its state wakes up, which is after up to 200 ms
    otherwise. Saves 0.08 s of wall time in a job of three seconds. Checked with Beam 2.77.0.
    """
    init: Any = statesampler.StateSampler.__init__
    if init.__defaults__ == (statesampler.DEFAULT_SAMPLING_PERIOD_MS,):
        init.__defaults__ = (_SAMPLING_PERIOD_MS,)


def measure_cached_state_alone(statecache: ModuleType) -> None:
    """Measure the size of cached state without listing the globals of all modules first.

    Beam lists them for each side input of each bundle, to exclude them from the measurement. But it
    follows no modules, functions or classes, so it reaches none of them anyway. Saves 0.06 s, and
    more where TensorFlow is imported too. Checked with Beam 2.77.0.
    """
    objsize: Any = statecache.objsize
    referents, size, is_measured = (
        getattr(statecache, name) for name in ("_get_referents_func", "_size_func", "_filter_func")
    )

    @functools.wraps(statecache.get_deep_size)
    def get_deep_size(*objects: Any) -> int:
        size_in_bytes: int = objsize.get_deep_size(
            *objects,
            get_size_func=size,
            get_referents_func=referents,
            filter_func=is_measured,
            exclude_modules_globals=False,
        )
        return size_in_bytes

    statecache.get_deep_size = get_deep_size  # type: ignore[attr-defined]


def report_user_metrics_alone() -> None:
    """Report only a pipeline's own counters to Flink, not those that Beam adds to each transform.

    Whenever the state of a job is requested, its JobManager prints all counters as JSON, and each
    heartbeat carries them. Saves the JobManager 4 ms of CPU per request. Checked with Beam 2.77.0.
    """
    bundle_processor: Any = _imported("runners.worker.bundle_processor")
    if enabled() and hasattr(bundle_processor, "BundleProcessor"):
        bundle_processor.BundleProcessor.monitoring_infos = _user_metrics


def _user_metrics(bundle_processor: Any) -> list[Any]:
    """Return the counters of the pipeline in a bundle: Beam's BundleProcessor.monitoring_infos."""
    found: dict[Any, Any] = {}
    for name, operation in bundle_processor.ops.items():
        found |= operation.user_monitoring_infos(name)
    return [*found.values()]


@contextlib.contextmanager
def fewer_steps() -> Iterator[None]:
    """Leave out Beam's checks of functions while a command's pipeline is built.

    Beam pickles and unpickles each function, to find early whether it can be pickled; reads its
    source code, to warn of `return` beside `yield`; and keeps a stack trace for each transform, for
    errors in type hints. Checked with Beam 2.77.0.
    """
    changes: tuple[tuple[Any, str, Any], ...] = (
        (_imported("internal.pickler"), "roundtrip", lambda function: function),
        (_imported("transforms.core"), "_check_fn_use_yield_and_return", lambda function: False),
        (
            getattr(_imported("typehints.decorators"), "IOTypeHints", None),
            *("_make_origin", classmethod(lambda *_, **__: [])),
        ),
    )
    with contextlib.ExitStack() as stack:
        for place, name, value in changes:
            if enabled() and name in getattr(place, "__dict__", {}):
                stack.callback(setattr, place, name, vars(place)[name])
                setattr(place, name, value)
        yield


def _imported(name: str) -> ModuleType | None:
    return sys.modules.get(f"apache_beam.{name}")


# By the module of Beam that each changes.
_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "apache_beam.options.pipeline_options": cache_option_views,
    "apache_beam.transforms.core": cache_argument_defaults,
    "apache_beam.transforms.userstate": cache_state_specs,
    "apache_beam.runners.worker.statecache": measure_cached_state_alone,
    "apache_beam.runners.worker.statesampler": sample_state_often,
}
_applied: set[Callable[[ModuleType], None]] = set()
