"""Small random changes to the words of a text, for copies of a record.

What is drawn is a function of (seed, key, copy) and of the word's place, never of the order in
which texts come. Words are what ASCII whitespace separates, whatever the tokenizer: text of a
script without spaces stays as it is.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.row_assembly import Ints, offsets_of
from recordmill.transforms.encoders.tokenization.tokenizers import split_whitespace
from recordmill.transforms.model import batch
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.model.ragged import DictionaryStrings

_CHANCE = 0.1  # of a word to be dropped, of two neighbours to change places
_STEP = np.uint64(0x9E3779B97F4A7C15)


def augment_words(
    texts: pa.StringArray, rows: pa.RecordBatch, names: Iterable[str], *, seed: int
) -> pa.StringArray:
    """Varies the texts of copies; rows that are no copies keep theirs.

    texts: string[n]. rows: the n rows, with our columns. names: of augmentations, done in a fixed
    order. A text that is varied has single spaces between its words.
    """
    copied = pa.array(batch.copies(rows) > 0)
    wanted = frozenset(names)
    if not wanted or not pc.any(copied).as_py():
        return texts
    chosen = texts.filter(copied)
    ranks = batch.order_ranks(rows.filter(copied), seed=seed)
    words = split_whitespace(chosen)
    if "word-dropout" in wanted:
        words = drop_words(words, ranks)
    if "word-swap" in wanted:
        words = swap_words(words, ranks)
    lists = pa.ListArray.from_arrays(
        pa.array(words.offsets.astype(np.int32)), words.distinct.take(pa.array(words.codes))
    )
    return pc.replace_with_mask(texts, copied, pc.binary_join(lists, " "))


def drop_words(words: DictionaryStrings, ranks: UInt64Array) -> DictionaryStrings:
    """Leaves each word out with a chance of 0.1, but never all of a text.

    ranks: uint64[rows], what the draws of each row are derived from.
    """
    draws = _draws(words, ranks, "word-dropout")
    stays = draws >= _CHANCE
    sizes = words.counts
    filled = np.flatnonzero(sizes)
    starts = words.offsets[filled]
    if filled.size:  # of a text that would lose all, the word of the highest draw stays
        highest = np.maximum.reduceat(draws, starts)
        stays |= draws == np.repeat(highest, sizes[filled])
    return DictionaryStrings(
        codes=words.codes[stays],
        offsets=offsets_of(stays.astype(np.int64))[words.offsets],
        distinct=words.distinct,
    )


def swap_words(words: DictionaryStrings, ranks: UInt64Array) -> DictionaryStrings:
    """Lets each two neighbours change places with a chance of 0.1; a word moves once at most."""
    wish = _draws(words, ranks, "word-swap") < _CHANCE
    sizes = words.counts
    wish[words.offsets[1:][sizes > 0] - 1] = False  # the last of a text has no neighbour after it
    # Of wishes in a row every second is granted, from the first on.
    places = np.arange(len(wish))
    begins = np.maximum.accumulate(np.where(wish, -1, places))
    left = np.flatnonzero(wish & ((places - begins) % 2 == 1))
    codes = words.codes.copy()
    codes[left], codes[left + 1] = words.codes[left + 1], words.codes[left]
    return DictionaryStrings(codes=codes, offsets=words.offsets, distinct=words.distinct)


def _draws(words: DictionaryStrings, ranks: UInt64Array, purpose: str) -> npt.NDArray[np.float64]:
    """A number from [0, 1) for each word, by its row's rank and its place in the row."""
    rows: Ints = words.rows
    places = np.arange(len(rows)) - words.offsets[:-1][rows]
    mixed = batch.mix(ranks[rows] + places.astype(np.uint64) * _STEP, batch.salt(0, purpose))
    draws: npt.NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64)
    return np.ldexp(draws, -53)
