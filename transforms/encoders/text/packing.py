"""Sequences of one length for language models: texts one after another, cut where one is full."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from recordmill.format.row_assembly import Ints
from recordmill.transforms.model.ragged import string_array

NAME = "@"  # stands between the key of the text that a pack begins with and where in it that is


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Packs:
    """ids, segments, positions: int64[packs, length].

    segments: 1 for the first text of a pack, 2 for the next, 0 for padding. positions: from 0 on
    in what a pack has of a text. row, start: int64[packs], the text that each begins with, and at
    which of its ids. used: ids that are no padding.
    """

    ids: Ints
    segments: Ints
    positions: Ints
    row: Ints
    start: Ints
    used: int

    def names(self, keys: pa.StringArray) -> pa.StringArray:
        """A name for each pack, given the keys of the texts: as unique as these are."""
        first = keys.take(pa.array(self.row)).to_pylist()
        starts = self.start.tolist()
        return string_array([f"{key}{NAME}{at}" for key, at in zip(first, starts, strict=True)])


def pack(ids: Ints, offsets: Ints, *, length: int, padding: int) -> Packs:
    """Packs texts in their order; only the last pack may have padding.

    Args:
      ids: int64[...], those of all texts.
      offsets: int64[texts + 1], where texts begin and end in `ids`.
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
        row=row,
        start=first - offsets[row],
        used=count,
    )


def end_each(ids: Ints, offsets: Ints, end: int) -> tuple[Ints, Ints]:
    """Texts with an id more at their ends."""
    return np.insert(ids, offsets[1:], end), offsets + np.arange(len(offsets))
