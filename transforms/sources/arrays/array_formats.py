"""Opening of files of arrays. The content of a file decides its format, not its name."""

from __future__ import annotations

from recordmill.errors import Reason, RecordError
from recordmill.format.file_content import identify
from recordmill.storage.input_files import InputFile
from recordmill.transforms.sources.arrays import hdf5, npy, npz
from recordmill.transforms.sources.arrays.array_file import NO_ARRAYS, ArrayFile, NpyFile

_HEAD = max(hdf5.PLACES) + len(hdf5.MAGIC)


def open_arrays(path: str, *, size: int, mtime: int) -> ArrayFile:
    """Open a file of arrays by its path or URI.

    Args:
      path: path or URI.
      size: listed size in bytes.
      mtime: listed modification time in ns since the epoch.

    Raises:
      ChangedInputError: the file has changed since it was listed.
      RecordError: the file holds no arrays.
      ConfigError: the library for its format is not installed.
    """
    file = InputFile(path, size=size, mtime=mtime)
    try:
        head = file.read(0, min(size, _HEAD))
        if head.startswith(npy.MAGIC):
            return NpyFile(file)
        if head.startswith(npz.EMPTY):
            raise RecordError(Reason.EMPTY, NO_ARRAYS)
        if head.startswith(npz.MAGIC):
            return npz.NpzFile(file)
        if any(head.startswith(hdf5.MAGIC, place) for place in hdf5.PLACES):
            return hdf5.Hdf5File(file)
        content = identify(head)
        found = "" if content is None else f", but {content}"
        raise RecordError(Reason.UNSUPPORTED, f"its content is neither .npy, .npz nor HDF5{found}")
    except BaseException:
        file.close()
        raise
