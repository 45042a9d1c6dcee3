"""Files in staging that are mapped into memory instead of copied."""

from __future__ import annotations

import os
import shutil
import tempfile
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.storage.files import Location
from recordmill.storage.storage_errors import call_with_retries, raise_storage_errors


def open_arrow(place: Location) -> Any:
    """Open an Arrow file for `pyarrow.ipc`, memory-mapped if it is local."""
    return _map(place) if _can_be_mapped(place) else place.open_input()


def read_range(place: Location, offset: int, length: int) -> pa.Buffer:
    """Return `length` bytes of a file from `offset`, without reading the rest of it."""
    if not _can_be_mapped(place):
        return pa.py_buffer(place.read_range(offset, length))
    with _map(place) as file:
        file.seek(offset)
        return file.read_buffer(length)  # the buffer keeps the file mapped


def map_array(place: Location, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Map a file of numbers into memory; one in an object store is copied to this machine first.

    Returns:
      A read-only array of `dtype`, one-dimensional.
    """
    if _can_be_mapped(place):
        with _map(place) as file:
            return np.frombuffer(file.read_buffer(), dtype)  # the buffer keeps the file mapped
    with tempfile.NamedTemporaryFile() as copy, place.open_input() as stored:
        shutil.copyfileobj(stored, copy, 8 << 20)
        copy.flush()
        return map_array(Location.parse(copy.name), dtype)


def _map(place: Location) -> Any:
    with raise_storage_errors("read", place), place.pinned(itself=True) as path:
        return call_with_retries(pa.memory_map, path)


def _can_be_mapped(place: Location) -> bool:
    """Return whether a file is local and its name is valid UTF-8, as pyarrow requires."""
    return place.is_local and (
        os.fsencode(place.local_path) == place.local_path.encode("utf-8", "replace")
    )
