"""References to parts of the records of a TFRecord file."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.storage.members import Member
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.tfrecords.tfrecord_file import PLACES, range_names


def record_parts(
    file: File,
    places: Sequence[npt.NDArray[np.int64]],
    keys: Sequence[str | None],
    heads: Sequence[bytes | None],
) -> list[str]:
    """Return references to parts of records.

    places: offsets and lengths of the frames, sizes of the parts and their starts: int64[n] each.
    keys: for messages. heads: bytes before each part.
    """
    members = zip(*(one.tolist() for one in places), keys, heads, strict=True)
    return [
        Member(
            *(file.path, file.size, at, frame, size, "record", 0),
            *((key or "").replace("\0", ""), start, head or b""),
        ).reference
        for at, frame, size, start, key, head in members
    ]


def mask_references(
    file: File, columns: pa.RecordBatch, feature: str, keys: Sequence[str | None]
) -> list[pa.Array]:
    """Return references to the masks of records, as `annotations.MASK_COLUMNS`."""
    offset, length = (np.asarray(columns[name]) for name in PLACES[:2])
    start, size = (np.asarray(columns[name]) for name in range_names(feature))
    paths = record_parts(file, (offset, length, size, start), keys, [b""] * len(keys))
    absent = (start < 0) | (size == 0)
    mtime = np.full(len(size), file.mtime)
    return [
        pa.array(paths, pa.string(), mask=absent),
        *(pa.array(numbers, pa.int64(), mask=absent) for numbers in (size, mtime)),
    ]
