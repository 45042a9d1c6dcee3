"""MinHash signatures of texts, from which the Jaccard similarity of two texts is estimated.

Source: A. Broder, "On the resemblance and containment of documents", 1997. Texts are folded as
`--dedup` folds them (case, compatibility forms), and cut into words by UAX #29, so that punctuation
and white space do not count. The shingles of a text are its runs of five words. A text of one to
four words has one shingle, all its words, so that it resembles only texts of the same words. A text
without words has one shingle, all its characters but white space.

Value p of a signature is the smallest upper half of a[p] x + b[p] modulo 2^64 over the hashes x of
the shingles. Two signatures have an equal value with a probability of the Jaccard similarity of the
two sets of shingles.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill import unicode_tables
from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.text.duplicate_texts import fold_text
from recordmill.transforms.encoders.tokenization.words import find_words
from recordmill.transforms.model import batch
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.near_duplicates.bands import PERMUTATIONS

TEXT_HASH = "minhash-128-words-5/1"  # name of the hash; another number where values change
SHINGLE = 5  # words

_BLOCK = 1 << 14  # shingles at a time, whose values fit the processor's cache
_UPPER = np.uint64(32)

_NUMBERS = batch.mix(np.arange(2 * PERMUTATIONS, dtype=np.uint64), batch.salt(0, "minhash"))
_FACTORS = _NUMBERS[:PERMUTATIONS] | np.uint64(1)
_SUMMANDS = _NUMBERS[PERMUTATIONS:]


def minhash(texts: pa.StringArray) -> npt.NDArray[np.uint32]:
    """Return the signature of each text, uint32[n, 128].

    texts: string[n], without nulls.
    """
    signatures = np.empty((len(texts), PERMUTATIONS), np.uint32)
    shingles, offsets = _shingles(texts)
    # Blocks of whole texts; a longer text is a block by itself.
    start = 0
    while start < len(texts):
        end = int(np.searchsorted(offsets, offsets[start] + _BLOCK, "right")) - 1
        end = max(end, start + 1)
        some = shingles[offsets[start] : offsets[end]]
        starts = offsets[start:end] - offsets[start]
        for number in range(PERMUTATIONS):
            values = some * _FACTORS[number]
            values += _SUMMANDS[number]
            signatures[start:end, number] = np.minimum.reduceat(values, starts) >> _UPPER
        start = end
    return signatures


def estimate_similarity(
    a: npt.NDArray[np.unsignedinteger], b: npt.NDArray[np.unsignedinteger]
) -> npt.NDArray[np.float64]:
    """Return the estimated Jaccard similarity of texts, float64[n].

    a, b: unsigned[n, 128], signatures. The standard error is at most 0.045.
    """
    shares: npt.NDArray[np.float64] = np.count_nonzero(a == b, axis=-1) / PERMUTATIONS
    return shares


def _shingles(texts: pa.StringArray) -> tuple[UInt64Array, Ints]:
    """Return the hashes of the shingles of all texts, and the offsets of each text in them."""
    folded = string_array(unicode_tables.map_texts(fold_text, texts))
    words = find_words(folded)
    hashes = batch.hash_strings(words.distinct)[words.codes]
    counts = np.diff(words.offsets)
    sizes = np.maximum(counts - SHINGLE + 1, 1)
    offsets = offsets_of(sizes)
    # The first word of each shingle; texts of fewer words are replaced below.
    rows = np.repeat(np.arange(len(texts)), sizes)
    first = np.arange(offsets[-1]) - offsets[rows] + words.offsets[rows]
    found = np.zeros(offsets[-1], np.uint64)
    padded = np.concatenate([hashes, np.zeros(SHINGLE, np.uint64)])
    for place in range(SHINGLE):
        found = batch.mix(found ^ padded[first + place], _SALTS[place])
    for row in np.flatnonzero(counts < SHINGLE).tolist():
        own = hashes[words.offsets[row] : words.offsets[row + 1]]
        found[offsets[row] : offsets[row] + 1] = _hash_short(own, folded[row].as_py())
    return found, offsets


_SALTS = [batch.salt(place, "shingle") for place in range(SHINGLE)]


def _hash_short(words: UInt64Array, text: str) -> UInt64Array:
    """Return the hash of the one shingle of a text of fewer than five words, uint64[1]."""
    if not len(words):
        whole = string_array(["".join(text.split())])
        return batch.mix(batch.hash_strings(whole), batch.salt(0, "characters"))
    found = np.zeros(1, np.uint64)
    for word in words:
        found = batch.mix(found ^ word, batch.salt(len(words), "short"))
    return found
