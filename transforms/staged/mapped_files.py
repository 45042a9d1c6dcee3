"""Reads of staged files: local ones are mapped into memory, those in a store can be read ahead."""

from __future__ import annotations

import itertools
import os
import shutil
import tempfile
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.storage.files import Location
from recordmill.storage.read_ahead import InputRange, RangesAhead
from recordmill.storage.storage_errors import call_with_retries, raise_storage_errors

T = TypeVar("T")


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


def read_ahead(
    items: Sequence[T],
    ranges: Iterable[tuple[int, Location, int, int]],
    *,
    most: int | None = None,
) -> Iterable[T]:
    """Return the items; ranges in a store are read while earlier items are processed.

    `read_or_take` takes these. Iterate over the result as over that of `input_files.read_ahead`.

    ranges: (index of the item, file, offset, length), in the order of the items; all files are on
      the same filesystem. most: as in `RangesAhead.of_items`.
    """
    left = iter(ranges)
    first = next(left, None)
    if first is None or first[1].is_local:
        return items
    found = itertools.chain([first], left)
    wanted = ((index, _range(place, offset, size)) for index, place, offset, size in found)
    return _ahead.of_items(items, wanted, most=most)


def read_or_take(place: Location, offset: int, length: int, *, again: bool = False) -> bytes:
    """Return up to `length` bytes at `offset`, if possible those of `read_ahead`.

    again: whether those were damaged; then the file is read.
    """
    if not place.is_local and not again:
        with raise_storage_errors("read", place):
            found = _ahead.take(_range(place, offset, length))
        if found is not None:
            return found
    return place.read_range(offset, length)


def _range(place: Location, offset: int, length: int) -> InputRange:
    return InputRange(str(place), None, offset, offset + length)


def _read_once(wanted: InputRange) -> bytes:
    place = Location.parse(wanted.path)
    return place.store.read_range(place.path, wanted.start, wanted.end - wanted.start)


_ahead = RangesAhead(_read_once)


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
