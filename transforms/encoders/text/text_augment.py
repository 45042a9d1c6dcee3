"""Random augmentations of the words of a text, for copies of a record.

Random numbers are a function of (seed, key, copy) and of the word's position, not of the order of
texts. Words are separated by ASCII whitespace for every tokenizer, so text in a script without
spaces does not change.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.tokenization.tokenizers import split_whitespace
from recordmill.transforms.model import batch
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.model.ragged import DictionaryStrings

_CHANCE = 0.1  # probability that a word is dropped, or swapped with the next one
_STEP = np.uint64(0x9E3779B97F4A7C15)


def augment_words(
    texts: pa.StringArray, rows: pa.RecordBatch, names: Iterable[str], *, seed: int
) -> pa.StringArray:
    """Augment the texts of copies; other rows keep their texts.

    texts: string[n].
    rows: the n rows, with the internal columns.
    names: names of augmentations, which are applied in a fixed order.

    An augmented text has single spaces between its words.
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
    """Drop each word with probability 0.1, but never all words of a text.

    ranks: uint64[rows], from which random numbers are derived.
    """
    draws = _draws(words, ranks, "word-dropout")
    stays = draws >= _CHANCE
    sizes = words.counts
    filled = np.flatnonzero(sizes)
    starts = words.offsets[filled]
    if filled.size:  # the word with the highest draw of a text always stays
        highest = np.maximum.reduceat(draws, starts)
        stays |= draws == np.repeat(highest, sizes[filled])
    return DictionaryStrings(
        codes=words.codes[stays],
        offsets=offsets_of(stays.astype(np.int64))[words.offsets],
        distinct=words.distinct,
    )


def swap_words(words: DictionaryStrings, ranks: UInt64Array) -> DictionaryStrings:
    """Swap neighbouring words with probability 0.1; a word is swapped at most once."""
    wish = _draws(words, ranks, "word-swap") < _CHANCE
    sizes = words.counts
    wish[words.offsets[1:][sizes > 0] - 1] = False  # the last word of a text has no next one
    # Of consecutive candidates every second one is swapped, beginning with the first.
    places = np.arange(len(wish))
    begins = np.maximum.accumulate(np.where(wish, -1, places))
    left = np.flatnonzero(wish & ((places - begins) % 2 == 1))
    codes = words.codes.copy()
    codes[left], codes[left + 1] = words.codes[left + 1], words.codes[left]
    return DictionaryStrings(codes=codes, offsets=words.offsets, distinct=words.distinct)


def _draws(words: DictionaryStrings, ranks: UInt64Array, purpose: str) -> npt.NDArray[np.float64]:
    """Return a random number in [0, 1) for each word, from the rank of its row and its position."""
    rows: Ints = words.rows
    places = np.arange(len(rows)) - words.offsets[:-1][rows]
    mixed = batch.mix(ranks[rows] + places.astype(np.uint64) * _STEP, batch.salt(0, purpose))
    draws: npt.NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64)
    return np.ldexp(draws, -53)
