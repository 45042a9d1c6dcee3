"""Patches of Apache Beam while the in-process runner builds and runs a pipeline.

As in `beam_patches`, each is a function that makes one change in Beam.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from recordmill.runners import beam_patches


@contextlib.contextmanager
def in_process() -> Iterator[None]:
    """Apply those inside the block that no author of a pipeline notices."""
    with uncompressed_pickles(), unsampled_states():
        yield


@contextlib.contextmanager
def fewer_steps() -> Iterator[None]:
    """Leave out Beam's checks of types and functions, stack traces, and Beam's own metrics.

    For each transform, Beam compares the types of its input and output with those that it declares;
    pickles and unpickles the function, to find early whether it can be pickled; reads the
    function's source code, to warn of `return` beside `yield`; and keeps a stack trace, for errors
    in type hints. For each bundle, it reports counts and times, which are not used here. Types are
    inferred as ever, because coders follow from them: Beam's --no_pipeline_type_check would leave
    that out, too. Checked with Beam 2.77.0.
    """
    pickler, core, ptransform, decorators, bundle_processor = (
        sys.modules.get(f"apache_beam.{name}")
        for name in (
            *("internal.pickler", "transforms.core", "transforms.ptransform"),
            *("typehints.decorators", "runners.worker.bundle_processor"),
        )
    )
    transform, with_sides, hints, processor = (
        getattr(module, name, None)
        for module, name in (
            (ptransform, "PTransform"),
            (ptransform, "PTransformWithSideInputs"),
            (decorators, "IOTypeHints"),
            (bundle_processor, "BundleProcessor"),
        )
    )
    changes: tuple[tuple[Any, str, Any], ...] = (
        (transform, "type_check_inputs", _check_nothing),
        (transform, "type_check_outputs", _check_nothing),
        (with_sides, "type_check_inputs", _check_nothing),
        (pickler, "roundtrip", lambda function: function),
        (core, "_check_fn_use_yield_and_return", lambda function: False),
        (hints, "_make_origin", classmethod(lambda *_, **__: [])),
        (processor, "monitoring_infos", beam_patches.user_metrics),
    )
    with contextlib.ExitStack() as stack:
        for place, name, value in changes:
            if beam_patches.enabled() and name in getattr(place, "__dict__", {}):
                stack.callback(setattr, place, name, vars(place)[name])
                setattr(place, name, value)
        yield


def _check_nothing(transform: Any, values: Any) -> None:
    """Take the place of a method that checks the input or output of a transform."""


@contextlib.contextmanager
def uncompressed_pickles() -> Iterator[None]:
    """Pickle without compression inside the block: for pipelines that stay in this process.

    Beam compresses each function by bzip2, which takes longer than pickling it, and a pipeline of
    the in-process runner has about a hundred. Pickles that were compressed before are read as
    well. Saves 0.04 s. Checked with Beam 2.77.0.
    """
    pickler: Any = sys.modules.get("apache_beam.internal.cloudpickle_pickler")
    if not beam_patches.enabled() or not hasattr(pickler, "bz2"):
        yield
        return
    bz2 = pickler.bz2
    stored = ModuleType("bz2")

    def compress(data: bytes, compresslevel: int = 9) -> bytes:
        return data

    def decompress(data: bytes) -> bytes:
        is_compressed = data.startswith(b"BZh")  # pickles start with 0x80
        return bz2.decompress(data) if is_compressed else data

    stored.compress, stored.decompress = compress, decompress  # type: ignore[attr-defined]
    pickler.bz2 = stored
    try:
        yield
    finally:
        pickler.bz2 = bz2


@contextlib.contextmanager
def unsampled_states() -> Iterator[None]:
    """Sample no states of bundles inside the block: the in-process runner reports no durations.

    Each bundle starts a thread that samples its state, and ends when that thread wakes up. Saves
    0.02 s of wall time, and the CPU of 400 wake-ups per second. Checked with Beam 2.77.0.
    """
    statesampler: Any = sys.modules.get("apache_beam.runners.worker.statesampler")
    if not beam_patches.enabled() or not hasattr(statesampler, "StateSampler"):
        yield
        return
    sampler = statesampler.StateSampler
    methods = sampler.start, sampler.stop

    def start(self: Any) -> None:
        self.tracked_thread = threading.current_thread()
        statesampler.set_current_tracker(self)
        self.started = True

    def stop(self: Any) -> None:
        statesampler.set_current_tracker(None)
        self.finished = True

    sampler.start, sampler.stop = start, stop
    try:
        yield
    finally:
        sampler.start, sampler.stop = methods
