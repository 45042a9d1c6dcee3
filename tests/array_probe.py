"""Reading of an array file in an encoder process, as damaged HDF5 files can crash their library."""

import os

from recordmill.errors import Reason, RecordError
from recordmill.transforms.sources.arrays.array_formats import open_arrays

_MOST_BYTES = 1 << 27  # of an array, as commands have --max-array-bytes


def kind_of_array(path: str) -> str | RecordError:
    """Return the kind of the dtype of the array in a file, read as a whole, or its reject."""
    status = os.stat(path)
    try:
        with open_arrays(path, size=status.st_size, mtime=status.st_mtime_ns) as file:
            found = file.find(None)
            if found.bytes > _MOST_BYTES:
                return RecordError(Reason.TOO_LARGE, f"{found.bytes} bytes")
            return file.read(found).dtype.kind
    except RecordError as error:
        return error
