"""Contents of other datasets: records that equal one of them are left out."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.storage.files import Location
from recordmill.transforms.model import batch

OPTION = "exclude-like"  # the option that filters known contents

_Pairs = npt.NDArray[np.void]
_PAIR = np.dtype([("first", "<u8"), ("second", "<u8")])
_BIG_ENDIAN = np.dtype([("first", ">u8"), ("second", ">u8")])


@dataclasses.dataclass(frozen=True, kw_only=True)
class KnownContents:
    """The contents of the records of other datasets, as a file of hashes.

    path: path or URI of the file during the job. It holds `pairs_of` the contents, in ascending
      order, each once.
    """

    path: str

    def contains(self, hashes: pa.Array) -> npt.NDArray[np.bool_]:
        """Return whether each content is known: bool[n]. hashes: binary(16)[n]."""
        known = _load(self.path)
        pairs = pairs_of(hashes)
        at = np.searchsorted(known["first"], pairs["first"])
        found = np.zeros(len(pairs), np.bool_)
        open_ = np.arange(len(pairs))
        while len(open_):  # once, unless different contents share half of their hashes
            open_ = open_[at[open_] < len(known)]
            open_ = open_[known["first"][at[open_]] == pairs["first"][open_]]
            found[open_] |= known["second"][at[open_]] == pairs["second"][open_]
            open_ = open_[~found[open_]]
            at[open_] += 1
        return found


def pairs_of(hashes: pa.Array) -> _Pairs:
    """Return hashes as pairs of words. hashes: binary(16)[n], without nulls."""
    data = hashes.buffers()[1] or b""
    return np.frombuffer(data, _BIG_ENDIAN, len(hashes), 16 * hashes.offset).astype(_PAIR)


def without_known(
    rows: pa.RecordBatch, known: KnownContents | None
) -> tuple[pa.RecordBatch, list[dict[str, str | None]]]:
    """Leave out the rows of known content.

    Returns:
      The other rows, and the key and the label of each row that was left out.
    """
    if known is None or not len(rows):
        return rows, []
    if batch.CONTENT not in rows.schema.names:
        raise ConfigError("--exclude-like: the source does not give the content of records")
    found = known.contains(rows[batch.CONTENT])
    if not found.any():
        return rows, []
    lines = left_out_lines(rows.filter(pa.array(found)))
    return rows.filter(pa.array(~found)), [
        {**line, "reason": OPTION, "same_as": None} for line in lines
    ]


def left_out_lines(rows: pa.RecordBatch) -> list[dict[str, str | None]]:
    """Return the key, label and split of each row, and its file and row if the key is a hash."""
    names = [batch.KEY, batch.LABEL, batch.SPLIT]
    names += [batch.SOURCE] if batch.SOURCE in rows.schema.names else []
    found: list[dict[str, str | None]] = (
        rows.select(names).rename_columns([name.strip("_") for name in names]).to_pylist()
    )
    return found


@functools.lru_cache(maxsize=1)
def _load(path: str) -> _Pairs:
    place = Location.parse(path)
    if place.is_local:
        size = place.size() // _PAIR.itemsize
        return np.memmap(place.path, _PAIR, "r", shape=(size,)) if size else np.zeros(0, _PAIR)
    return np.frombuffer(place.read_bytes(), _PAIR)
