"""Packing of texts into token sequences of one length, for language models."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.model.ragged import string_array

NAME = "@"  # separates the key of a pack's first text from the position in it


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Packs:
    """Token sequences of one length.

    ids, segments, positions: int64[packs, length]. Segments number the texts of a pack from 1; 0 is
        padding. Positions count from 0 in each segment.
    learned: int64[packs, length], the loss mask of conversations; None for texts.
    row: int64[packs], the text that each pack begins with.
    start: int64[packs], the position in that text's ids.
    used: number of ids that are not padding.
    """

    ids: Ints
    segments: Ints
    positions: Ints
    learned: Ints | None
    row: Ints
    start: Ints
    used: int

    def names(self, keys: pa.StringArray) -> pa.StringArray:
        """Return a unique name for each pack, given the unique keys of the texts."""
        first = keys.take(pa.array(self.row)).to_pylist()
        starts = self.start.tolist()
        return string_array([f"{key}{NAME}{at}" for key, at in zip(first, starts, strict=True)])


def pack(
    ids: Ints, offsets: Ints, *, length: int, padding: int, learned: Ints | None = None
) -> Packs:
    """Pack texts in their order; only the last pack may have padding.

    Args:
        ids: int64[...], ids of all texts.
        offsets: int64[texts + 1], offsets of the texts in `ids`.
        length: ids of a pack.
        padding: id that fills the last pack.
        learned: int64[...], the loss mask of the ids.
    """
    count = ids.size
    packs = -(-count // length)
    places = np.arange(count)
    begins = places % length == 0
    begins[offsets[:-1][offsets[:-1] < count]] = True
    first = np.arange(packs) * length
    pieces = np.cumsum(begins)
    segments = pieces - np.repeat(pieces[first] - 1, length)[:count]
    positions = places - np.maximum.accumulate(np.where(begins, places, 0))
    row = np.searchsorted(offsets, first, side="right") - 1

    def padded(values: Ints, fill: int) -> Ints:
        out = np.full(packs * length, fill)
        out[:count] = values
        return out.reshape(packs, length)

    return Packs(
        ids=padded(ids, padding),
        segments=padded(segments, 0),
        positions=padded(positions, 0),
        learned=None if learned is None else padded(learned, 0),
        row=row,
        start=first - offsets[row],
        used=count,
    )


def end_each(ids: Ints, offsets: Ints, end: int) -> tuple[Ints, Ints]:
    """Append the id `end` to each text; return ids and offsets."""
    return np.insert(ids, offsets[1:], end), offsets + np.arange(len(offsets))
