"""Beam without what no pipeline here has need of, until somebody asks for it.

With itself it imports clients of services, a checker of types and a parser of HTTP headers; it
looks at the same methods again and again, remembers with every type where in the code it came up,
compresses what it pickles as if it were large, and ends each bundle by waiting for a thread that
sleeps: together that is over a second of every job.
"""

from __future__ import annotations

import bz2
import copy
import functools
import importlib
import sys
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from types import MethodType, ModuleType
from typing import Any

_CAN_DO_WITHOUT = ("apache_beam.io.aws.s3filesystem", "apache_beam.io.gcp.bigquery")  # all of boto3
_NEVER_CALLS = ("apache_beam.io.mongodbio",)
_HARDLY_CALLS = {"apache_beam.internal.http_client": "get_new_http"}
_SAMPLING_PERIOD = 5  # ms


@contextmanager
def light_beam() -> Iterator[None]:
    """What is imported in here may be Beam. Who imports by its name what was left out gets it."""
    stubs: dict[str, ModuleType | None] = dict.fromkeys(_CAN_DO_WITHOUT)
    stubs |= {name: ModuleType(name) for name in _NEVER_CALLS}
    stubs |= {module: _imported_late(module, name) for module, name in _HARDLY_CALLS.items()}
    stubs |= _types_by_classes()
    stubs = {name: stub for name, stub in stubs.items() if name not in sys.modules}
    modules: dict[str, Any] = sys.modules  # None: there is no such module
    modules.update(stubs)
    try:
        yield
    finally:
        for name in stubs:
            del sys.modules[name]
        if "apache_beam.transforms.core" in sys.modules:
            core, userstate = map(
                sys.modules.__getitem__,
                ("apache_beam.transforms.core", "apache_beam.transforms.userstate"),
            )
            _look_once(core, "get_function_args_defaults", _function_of)
            _look_once(userstate, "get_dofn_specs", _class_of)
            _forget_origins(sys.modules["apache_beam.typehints.decorators"])
            _compress_less(sys.modules["apache_beam.internal.cloudpickle_pickler"])
        if "apache_beam.runners.worker.statesampler" in sys.modules:
            _sample_often(sys.modules["apache_beam.runners.worker.statesampler"])


def _imported_late(module: str, name: str) -> ModuleType:
    def call(*args: Any, **kwargs: Any) -> Any:
        return getattr(importlib.import_module(module), name)(*args, **kwargs)

    stub = ModuleType(module)
    setattr(stub, name, call)
    return stub


def _types_by_classes() -> dict[str, ModuleType]:
    """What Beam takes of beartype, which is needed only where a type is no class."""
    door, roar = ModuleType("beartype.door"), ModuleType("beartype.roar")

    class BeartypeDoorException(Exception):
        pass

    def is_subhint(sub: Any, base: Any) -> bool:
        if type(sub) is type and type(base) is type:
            return issubclass(sub, base)
        from beartype.door import is_subhint
        from beartype.roar import BeartypeDoorException as ItsException

        try:
            return is_subhint(sub, base)
        except ItsException as error:
            raise BeartypeDoorException from error

    door.is_subhint = is_subhint  # type: ignore[attr-defined]
    roar.BeartypeDoorException = BeartypeDoorException  # type: ignore[attr-defined]
    return {module.__name__: module for module in (door, roar)}


def _look_once(module: ModuleType, name: str, key: Callable[[Any], Hashable | None]) -> None:
    """Has a function of Beam, which returns two collections, called once for a key.

    key: of what it is called with; None where it is to be called.
    """
    look: Callable[[Any], tuple[Any, Any]] = getattr(module, name)
    if hasattr(look, "__wrapped__"):  # it does so already
        return
    known: dict[Hashable, tuple[Any, Any]] = {}

    @functools.wraps(look)
    def looked(what: Any) -> tuple[Any, Any]:
        of = key(what)
        if of is None:
            return look(what)
        if of not in known:
            known[of] = look(what)
        first, second = known[of]
        return copy.copy(first), copy.copy(second)

    setattr(module, name, looked)


def _forget_origins(decorators: ModuleType) -> None:
    """A stack is formatted for each, for the message that a type does not fit another one."""
    decorators.IOTypeHints._make_origin = lambda *args, **kwargs: []


def _compress_less(pickler: ModuleType) -> None:
    """bz2 of level 9 lays out 8 MB to compress a kilobyte. Whoever reads it sees no difference."""
    light = ModuleType("bz2")
    light.compress = lambda data, compresslevel=1: bz2.compress(data, compresslevel=1)  # type: ignore[attr-defined]
    light.decompress = bz2.decompress  # type: ignore[attr-defined]
    pickler.bz2 = light  # type: ignore[attr-defined]


def _sample_often(statesampler: ModuleType) -> None:
    """A bundle ends when the thread that samples its state wakes up: after a tenth of the bundle's
    time, and up to 200 ms, as the pauses grow.
    """
    statesampler.StateSampler.__init__.__defaults__ = (_SAMPLING_PERIOD,)


def _function_of(function: Any) -> Callable[..., Any] | None:
    """Most methods of a DoFn are those of Beam's own base class."""
    return getattr(function, "__func__", None)


def _class_of(dofn: Any) -> type | None:
    """State and timers are parameters of a class's methods, unless a DoFn has some of its own."""
    own = any(isinstance(value, MethodType) for value in vars(dofn).values())
    return None if own else type(dofn)
