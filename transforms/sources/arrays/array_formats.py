"""Which format a file of arrays has: its content says so, not its name."""

from __future__ import annotations

from recordmill.errors import Reason, RecordError
from recordmill.storage.files import InputFile
from recordmill.transforms.sources.arrays import hdf5, npy, npz
from recordmill.transforms.sources.arrays.array_file import NOTHING, ArrayFile, NpyFile

_HEAD = max(hdf5.PLACES) + len(hdf5.MAGIC)
_PICKLE = b"\x80"  # of protocol 2 and later: its first opcode


def open_arrays(path: str, *, size: int, mtime: int) -> ArrayFile:
    """Opens a file of arrays, by its path or URI, if it is still what the listing saw.

    Raises:
      ChangedInputError: it is not.
      RecordError: it holds no arrays.
      ConfigError: the library for its format is not installed.
    """
    file = InputFile(path, size=size, mtime=mtime)
    try:
        head = file.read(0, min(size, _HEAD))
        if head.startswith(npy.MAGIC):
            return NpyFile(file)
        if head.startswith(npz.EMPTY):
            raise RecordError(Reason.EMPTY, NOTHING)
        if head.startswith(npz.MAGIC):
            return npz.NpzFile(file)
        if any(head.startswith(hdf5.MAGIC, place) for place in hdf5.PLACES):
            return hdf5.Hdf5File(file)
        if head.startswith(_PICKLE):
            raise RecordError(Reason.UNSUPPORTED, "perhaps a pickle, which is never read")
        raise RecordError(Reason.UNSUPPORTED, "neither .npy, .npz nor HDF5 by its content")
    except BaseException:
        file.close()
        raise
