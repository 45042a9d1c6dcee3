"""Random augmentations of the words of a text, for copies of a record.

Random numbers are a function of (seed, key, copy) and of the word's position, not of the order of
texts. Words are separated by ASCII whitespace for every tokenizer. In scripts without spaces
between words, such as Chinese and Thai, every letter with its marks, and every run of Katakana, is
a word.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.tokenization import word_pattern
from recordmill.transforms.encoders.tokenization.tokenizers import split_whitespace
from recordmill.transforms.encoders.tokenization.words import word_edges
from recordmill.transforms.model import batch
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.model.ragged import DictionaryStrings, Flat, string_array

Bools = npt.NDArray[np.bool_]

_CHANCE = 0.1  # probability that a word is dropped, or swapped with the next one
_STEP = np.uint64(0x9E3779B97F4A7C15)


def augment_words(
    texts: pa.StringArray, rows: pa.RecordBatch, names: Iterable[str], *, seed: int
) -> pa.StringArray:
    """Augment the texts of copies; other rows keep their texts.

    texts: string[n].
    rows: the n rows, with the internal columns.
    names: names of augmentations, which are applied in a fixed order.

    An augmented text has single spaces where white space separates its words.
    """
    copied = pa.array(batch.copies(rows) > 0)
    wanted = frozenset(names)
    if not wanted or not pc.any(copied).as_py():
        return texts
    chosen = texts.filter(copied)
    ranks = batch.order_ranks(rows.filter(copied), seed=seed)
    words, spaced = _split(chosen)
    if "word-dropout" in wanted:
        stays = kept_words(words, ranks)
        words, spaced = _keep(words, stays), _spaces_between(spaced, stays)
    if "word-swap" in wanted:
        words = swap_words(words, ranks)
    return pc.replace_with_mask(texts, copied, _join(words, spaced))


def _split(texts: pa.StringArray) -> tuple[DictionaryStrings, Bools]:
    """Return the words of texts, and whether white space precedes each, bool[words]."""
    words = split_whitespace(texts)
    unspaced = pc.match_substring_regex(words.distinct, word_pattern.UNSPACED)
    if not pc.any(unspaced).as_py():
        return words, np.ones(len(words.codes), np.bool_)
    flat = Flat.of(words.distinct)
    cuts, _ = word_edges(flat)
    # The first cut of a string moves to its start, and strings without such letters have no other.
    strings = np.searchsorted(flat.starts, cuts, "right") - 1
    later = np.append(False, strings[1:] == strings[:-1])[: len(cuts)]
    later &= np.asarray(unspaced)[strings]
    starts = np.sort(np.concatenate([flat.starts, cuts[later]])).astype(np.int32)
    ends = np.sort(np.concatenate([flat.ends, cuts[later]])).astype(np.int32)
    parts = flat.cut(starts, ends)
    split = words.split(parts)
    spaced = np.zeros(len(split.codes), np.bool_)
    spaced[offsets_of(parts.counts[words.codes])[:-1]] = True
    return split, spaced


def _join(words: DictionaryStrings, spaced: Bools) -> pa.StringArray:
    """Return texts of words, with a space before those of `spaced` but the first of a text."""
    if spaced.all():
        return pc.binary_join(_lists(words.offsets, words.distinct, words.codes), " ")
    spaced = spaced.copy()
    spaced[words.offsets[:-1][words.counts > 0]] = False
    strings = pa.concat_arrays([words.distinct, string_array(["", " "])])
    codes = np.empty(2 * len(words.codes), np.int64)
    codes[::2], codes[1::2] = len(words.distinct) + spaced, words.codes
    return pc.binary_join(_lists(2 * words.offsets, strings, codes), "")


def _lists(offsets: Ints, strings: pa.StringArray, codes: Ints) -> pa.ListArray:
    return pa.ListArray.from_arrays(
        pa.array(offsets.astype(np.int32)), strings.take(pa.array(codes))
    )


def _spaces_between(spaced: Bools, stays: Bools) -> Bools:
    """Return whether white space precedes each word that stays, or one dropped before it."""
    spaces = np.append(0, np.cumsum(spaced)[stays])
    return np.diff(spaces) > 0


def _keep(words: DictionaryStrings, stays: Bools) -> DictionaryStrings:
    return DictionaryStrings(
        codes=words.codes[stays],
        offsets=offsets_of(stays.astype(np.int64))[words.offsets],
        distinct=words.distinct,
    )


def kept_words(words: DictionaryStrings, ranks: UInt64Array) -> Bools:
    """Return which words stay, bool[words]; each is dropped with probability 0.1.

    At least one word of a text stays. ranks: uint64[rows], from which random numbers are derived.
    """
    draws = _draws(words, ranks, "word-dropout")
    stays = draws >= _CHANCE
    sizes = words.counts
    filled = np.flatnonzero(sizes)
    starts = words.offsets[filled]
    if filled.size:  # the word with the highest draw of a text always stays
        highest = np.maximum.reduceat(draws, starts)
        stays |= draws == np.repeat(highest, sizes[filled])
    return stays


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
