"""Patches of Apache Beam that shorten the start and the stages of every job.

Each function below makes one change in Beam. It applies only to the versions in CHECKED_VERSIONS,
and only if the attributes that it changes exist. With any other Beam, or with
RECORDMILL_BEAM_PATCHES=0 in the environment, Beam runs unchanged and writes the same datasets.
The measurements are in docs/adr/0027-patches-of-beam.md.
"""

from __future__ import annotations

import bz2
import contextlib
import copy
import functools
import gc
import importlib
import importlib.metadata
import os
import sys
from collections.abc import Callable, Hashable, Iterator
from types import MethodType, ModuleType
from typing import Any

CHECKED_VERSIONS = frozenset({"2.77.0"})
"""Versions of Beam with which all patches were checked."""

SWITCH = "RECORDMILL_BEAM_PATCHES"
"""Environment variable; the value 0 switches all patches off."""

_SAMPLING_PERIOD_MS = 5


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
    """Import Beam, or other modules that stay loaded until the process ends, inside the block.

    Modules that recordmill never uses are not imported by Beam, and Beam is patched at the end of
    the block. Garbage collection is off inside the block, and later collections skip all objects
    that it created: thousands of classes and functions that would be traversed in vain, during the
    imports and at exit. That is no patch of Beam and applies to any version.
    """
    gc.disable()
    try:
        with _skip_modules():
            yield
        apply_patches()
    finally:
        gc.freeze()
        gc.enable()


def apply_patches() -> None:
    """Patch the modules of Beam that have been imported so far; each is patched only once."""
    if not enabled():
        return
    for name, patch in _PATCHES.items():
        module = sys.modules.get(name)
        if module is None or name in _applied:
            continue
        _applied.add(name)
        # This Beam is a modified one, which runs without the patch.
        with contextlib.suppress(AttributeError, AssertionError):
            patch(module)


@contextlib.contextmanager
def _skip_modules() -> Iterator[None]:
    """Import Beam inside the block without the modules that it never calls in recordmill.

    Modules that are imported by name after the block are the real ones.
    """
    stubs = _stub_modules() if enabled() else {}
    stubs = {name: stub for name, stub in stubs.items() if name not in sys.modules}
    modules: dict[str, Any] = sys.modules  # None makes an import raise ModuleNotFoundError
    modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]


def _stub_modules() -> dict[str, ModuleType | None]:
    return {
        **skip_s3(),
        **skip_bigquery(),
        **skip_mongodb(),
        **defer_http_client(),
        **defer_beartype(),
    }


def skip_s3() -> dict[str, ModuleType | None]:
    """Leave out apache_beam.io.aws.s3filesystem, which imports boto3 where that is installed.

    Checked with 2.77.0, whose filesystems catch the ImportError; recordmill reads S3 by pyarrow.
    """
    return {"apache_beam.io.aws.s3filesystem": None}


def skip_bigquery() -> dict[str, ModuleType | None]:
    """Leave out apache_beam.io.gcp.bigquery, which Beam imports if it can.

    Checked with 2.77.0, whose apache_beam.io catches the ImportError.
    """
    return {"apache_beam.io.gcp.bigquery": None}


def skip_mongodb() -> dict[str, ModuleType | None]:
    """Replace apache_beam.io.mongodbio, which imports pymongo, by an empty module.

    Checked with 2.77.0, whose apache_beam.io imports all names of the module and uses none.
    """
    return {"apache_beam.io.mongodbio": ModuleType("apache_beam.io.mongodbio")}


def defer_http_client() -> dict[str, ModuleType | None]:
    """Import apache_beam.internal.http_client, and httplib2 with it, only when it is called.

    Checked with 2.77.0, whose stager uses get_new_http to download remote files.
    """
    name = "apache_beam.internal.http_client"
    stub = ModuleType(name)

    def get_new_http(*args: Any, **kwargs: Any) -> Any:
        return importlib.import_module(name).get_new_http(*args, **kwargs)

    stub.get_new_http = get_new_http  # type: ignore[attr-defined]
    return {name: stub}


def defer_beartype() -> dict[str, ModuleType | None]:
    """Import beartype only for type hints that are not classes.

    Checked with 2.77.0, which calls is_subhint for each type that it compares.
    """
    door, roar = ModuleType("beartype.door"), ModuleType("beartype.roar")

    class BeartypeDoorException(Exception):
        pass

    def is_subhint(sub: Any, base: Any) -> bool:
        if type(sub) is type and type(base) is type:
            return issubclass(sub, base)
        from beartype.door import is_subhint
        from beartype.roar import BeartypeDoorException as RealException

        try:
            return is_subhint(sub, base)
        except RealException as error:
            raise BeartypeDoorException from error

    door.is_subhint = is_subhint  # type: ignore[attr-defined]
    roar.BeartypeDoorException = BeartypeDoorException  # type: ignore[attr-defined]
    return {module.__name__: module for module in (door, roar)}


def cache_method_parameters(core: ModuleType) -> None:
    """Inspect the signature of a method once for all DoFns that share it.

    Checked with 2.77.0: most methods of a DoFn are those of Beam's base class.
    """
    _call_once(core, "get_function_args_defaults", key=_function_of)


def cache_state_specs(userstate: ModuleType) -> None:
    """Search a class for state and timer parameters once, not once for each DoFn.

    Checked with 2.77.0. A DoFn with methods of its own is searched each time.
    """
    _call_once(userstate, "get_dofn_specs", key=_class_without_own_methods)


def skip_type_origins(decorators: ModuleType) -> None:
    """Record no stack trace for each type hint; Beam shows it when two types do not fit.

    Checked with 2.77.0.
    """
    assert callable(decorators.IOTypeHints._make_origin)
    decorators.IOTypeHints._make_origin = lambda *args, **kwargs: []


def compress_pickles_less(pickler: ModuleType) -> None:
    """Compress pickles with level 1 of bz2; level 9 allocates 8 MB for a kilobyte.

    Checked with 2.77.0. Any reader of bz2 reads the result.
    """
    assert pickler.bz2 is bz2
    light = ModuleType("bz2")
    light.compress = lambda data, compresslevel=1: bz2.compress(data, compresslevel=1)  # type: ignore[attr-defined]
    light.decompress = bz2.decompress  # type: ignore[attr-defined]
    pickler.bz2 = light  # type: ignore[attr-defined]


def sample_often(statesampler: ModuleType) -> None:
    """Sample the state of a bundle every 5 ms.

    A bundle ends when its sampling thread wakes up, which is after up to 200 ms otherwise. Checked
    with 2.77.0.
    """
    assert len(statesampler.StateSampler.__init__.__defaults__) == 1
    statesampler.StateSampler.__init__.__defaults__ = (_SAMPLING_PERIOD_MS,)


def _call_once(module: ModuleType, name: str, *, key: Callable[[Any], Hashable | None]) -> None:
    """Cache a function that returns two collections; callers get copies.

    key: of the argument; None for arguments that are not cached.
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
        return copy.copy(first), copy.copy(second)

    setattr(module, name, cached)


def _function_of(method: Any) -> Any:
    return getattr(method, "__func__", None)


def _class_without_own_methods(dofn: Any) -> type | None:
    own = any(isinstance(value, MethodType) for value in vars(dofn).values())
    return None if own else type(dofn)


_PATCHES: dict[str, Callable[[ModuleType], None]] = {
    "apache_beam.transforms.core": cache_method_parameters,
    "apache_beam.transforms.userstate": cache_state_specs,
    "apache_beam.typehints.decorators": skip_type_origins,
    "apache_beam.internal.cloudpickle_pickler": compress_pickles_less,
    "apache_beam.runners.worker.statesampler": sample_often,
}
_applied: set[str] = set()
