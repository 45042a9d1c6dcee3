"""Joining of the tokens of two texts to one sequence with type ids, as BERT has them.

Source of the truncation: `LongestFirst` in tokenizers/src/utils/truncation.rs of Hugging Face.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.model.ragged import stretches


class Tokens(NamedTuple):
    """Ids of texts, int64[...], and the offsets of texts in them, int64[n + 1]."""

    ids: Ints
    offsets: Ints


class Joined(NamedTuple):
    """Ids and type ids of joined texts, int64[...] each, and their offsets, int64[n + 1]."""

    ids: Ints
    types: Ints
    offsets: Ints


@dataclasses.dataclass(frozen=True, kw_only=True)
class PairTemplate:
    """Special tokens before, between and after two texts, as (id, type id).

    types: type ids of the tokens of the first and the second text.
    """

    head: tuple[tuple[int, int], ...] = ()
    middle: tuple[tuple[int, int], ...] = ()
    tail: tuple[tuple[int, int], ...] = ()
    types: tuple[int, int] = (0, 1)

    @classmethod
    def of(cls, begin: int, separator: int) -> PairTemplate:
        """Return the template of BERT: begin, first text, separator, second text, separator."""
        return cls(head=((begin, 0),), middle=((separator, 0),), tail=((separator, 1),))

    @property
    def size(self) -> int:
        """Number of special tokens."""
        return len(self.head) + len(self.middle) + len(self.tail)

    def join(self, first: Tokens, second: Tokens, *, max_length: int | None) -> Joined:
        """Join the texts of two columns.

        max_length: ids of a pair at most, with special tokens; the longer text is cut first.
        """
        sizes = np.diff(first.offsets), np.diff(second.offsets)
        if max_length is not None:
            sizes = longest_first(*sizes, room=max_length - self.size)
        offsets = offsets_of(sizes[0] + sizes[1] + self.size)
        ids = np.empty(int(offsets[-1]), np.int64)
        types = np.empty(len(ids), np.int64)
        at = offsets[:-1]
        parts = zip((self.head, self.middle), (first, second), sizes, self.types, strict=True)
        for special, text, size, kind in parts:
            at = _put(special, at, ids, types)
            places = stretches(at, size)
            ids[places] = text.ids[stretches(text.offsets[:-1], size)]
            types[places] = kind
            at = at + size
        _put(self.tail, at, ids, types)
        return Joined(ids, types, offsets)


def _put(special: tuple[tuple[int, int], ...], at: Ints, ids: Ints, types: Ints) -> Ints:
    """Write special tokens at a place of each row, and return the places after them."""
    for token, kind in special:
        ids[at], types[at] = token, kind
        at = at + 1
    return at


def longest_first(first: Ints, second: Ints, *, room: int) -> tuple[Ints, Ints]:
    """Return the lengths of both texts after truncation to `room` tokens in all: int64[n] each.

    The longer text is cut first; if both are cut, they have the same length, or the longer text of
    the two, or else the second one, has one token more.
    """
    shorter = np.minimum(first, second)
    longer = np.maximum(shorter, room - shorter)
    both = shorter + longer > room
    shorter = np.where(both, room // 2, shorter)
    longer = np.where(both, room // 2 + room % 2, longer)
    swapped = first > second
    return (
        np.minimum(first, np.where(swapped, longer, shorter)),
        np.minimum(second, np.where(swapped, shorter, longer)),
    )
