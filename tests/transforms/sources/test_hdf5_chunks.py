"""The check of stored chunks of HDF5 takes time by what is stored, not by what is declared."""

import h5py
import numpy as np
import pytest

from recordmill.errors import RecordError
from recordmill.transforms.sources.arrays.hdf5_chunks import ChunkCheck

_ROWS = 1 << 40


def test_chunks_that_are_not_stored_are_not_visited(tmp_path) -> None:
    """In most of a terabyte no chunk is stored; one of two that are has too few bytes."""
    with h5py.File(tmp_path / "x.h5", "w") as file:
        data = file.create_dataset("x", (_ROWS, 4), "<i2", chunks=(1, 2), compression="gzip")
        data[5] = np.arange(4)
        data[_ROWS - 1] = np.arange(4)
        data.id.write_direct_chunk((_ROWS - 1, 2), b"no zlib stream")
        check = ChunkCheck(data)
        check.check([(0, _ROWS - 1), (0, 4)])
        check.check([(0, _ROWS), (0, 2)])
        for rows in ((0, _ROWS), (_ROWS - 1, _ROWS)):
            with pytest.raises(RecordError, match="cannot be decompressed"):
                check.check([rows, (1, 4)])
