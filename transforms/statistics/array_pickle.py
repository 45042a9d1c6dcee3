"""Pickles of objects that hold many small arrays, such as statistics of wide tables.

A pickle of an array takes microseconds and about 150 bytes beside its values. Here all arrays of a
dtype are stored as one array, in the order in which the objects refer to them.

Pickles may come from files in staging: only statistics, arrays and numbers are loaded.
"""

from __future__ import annotations

import contextlib
import gc
import io
import pickle
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.transforms.statistics.ranges import pieces

Array = npt.NDArray[Any]

_OURS = "recordmill.transforms."
_NUMPY = ("_frombuffer", "_reconstruct", "scalar")  # functions of NumPy 1 and 2
# Names that may be loaded, by module; pyarrow's functions make arrays, buffers and types.
_LOADED: Mapping[str, Sequence[str]] = {
    "numpy": ("dtype", "ndarray"),
    **{
        f"numpy.{core}.{module}": _NUMPY
        for core in ("core", "_core")
        for module in ("multiarray", "numeric")
    },
    "pyarrow.lib": ("_restore_array", "py_buffer", "type_for_alias"),
    "collections": ("Counter", "OrderedDict", "defaultdict"),
    "fractions": ("Fraction",),
    "builtins": ("dict", "frozenset", "set"),
}


class _Pickler(pickle.Pickler):
    """Pickler that leaves out the values of one-dimensional arrays, and keeps them in `arrays`."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self.arrays: dict[str, list[Array]] = {}

    def persistent_id(self, thing: object) -> str | None:
        if type(thing) is not np.ndarray or thing.ndim != 1 or thing.dtype.hasobject:
            return None
        dtype: str = thing.dtype.str
        self.arrays.setdefault(dtype, []).append(thing)
        return dtype


class _SafeUnpickler(pickle.Unpickler):
    """Unpickler of our own classes and of those in `_LOADED`."""

    def find_class(self, module: str, name: str) -> Any:
        is_ours = module.startswith(_OURS)
        if "." not in name and (is_ours or name in _LOADED.get(module, ())):
            found = super().find_class(module, name)
            if isinstance(found, type) or not is_ours:
                return found
        raise pickle.UnpicklingError(f"expected statistics, got {module}.{name}")


class _Unpickler(_SafeUnpickler):
    """Unpickler that takes arrays from `arrays`, in the order in which they were left out."""

    def __init__(self, file: io.BytesIO, arrays: dict[str, tuple[Array, Array]]) -> None:
        super().__init__(file)
        self._arrays = {
            dtype: iter(pieces(values, edges)) for dtype, (values, edges) in arrays.items()
        }

    def persistent_load(self, dtype: str) -> Array:
        return next(self._arrays[dtype])


def dumps(thing: object) -> bytes:
    """Return the pickle of an object."""
    file = io.BytesIO()
    pickler = _Pickler(file)
    pickler.dump(thing)
    joined = {
        dtype: (np.concatenate(arrays), np.cumsum([0, *map(len, arrays)]))
        for dtype, arrays in pickler.arrays.items()
    }
    return pickle.dumps((file.getvalue(), joined), protocol=pickle.HIGHEST_PROTOCOL)


def loads(pickled: bytes) -> Any:
    """Return the object of a pickle; its arrays are views of a few large ones."""
    content, arrays = _SafeUnpickler(io.BytesIO(pickled)).load()
    with _without_collector():
        return _Unpickler(io.BytesIO(content), arrays).load()


@contextlib.contextmanager
def _without_collector() -> Iterator[None]:
    """Switch the garbage collector off: it would visit new objects, all in use, again and again."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
