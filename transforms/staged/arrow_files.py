"""Arrow files in staging: where the file system can map a file, nothing of it is copied."""

from __future__ import annotations

import os
from typing import Any

import pyarrow as pa

from recordmill.storage.files import Location


def open_arrow(place: Location) -> Any:
    """A file, for `pyarrow.ipc`."""
    return pa.memory_map(place.local_path) if _can_be_mapped(place) else place.open_input()


def read_range(place: Location, offset: int, length: int) -> pa.Buffer:
    """Some bytes of a file; of none but these anything is read."""
    if not _can_be_mapped(place):
        return pa.py_buffer(place.read_range(offset, length))
    with pa.memory_map(place.local_path) as file:
        file.seek(offset)
        return file.read_buffer(length)  # which keeps the file mapped


def _can_be_mapped(place: Location) -> bool:
    """A local file, with a name that pyarrow can spell."""
    return place.is_local and (
        os.fsencode(place.local_path) == place.local_path.encode("utf-8", "replace")
    )
