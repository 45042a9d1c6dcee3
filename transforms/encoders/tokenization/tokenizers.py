"""Built-in tokenizers: words, whitespace and characters, vectorized over rows."""

from __future__ import annotations

import functools
import unicodedata
from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill import unicode_tables
from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.encoders.tokenization.text_options import Tokenizer, Unicode
from recordmill.transforms.encoders.tokenization.words import find_words, word_edges
from recordmill.transforms.model.ragged import (
    DictionaryStrings,
    Flat,
    Places,
    blocks_of,
    byte_table,
    string_array,
    string_bytes,
    translate,
)

# Capitals whose lower case depends on their neighbours or has two code points. Python and
# TensorFlow handle them, Arrow does not.
_SPECIAL_CASE = "Σİ"


def normalize(texts: pa.StringArray, form: Unicode) -> pa.StringArray:
    """Apply a Unicode normalization to texts: string[n], without nulls."""
    if form == "none":
        return texts
    others = pc.invert(pc.string_is_ascii(texts))  # ASCII does not change
    # Arrow's function does not compose: https://github.com/apache/arrow/issues/51225.
    name: Literal["NFC", "NFKC"] = "NFC" if form == "nfc" else "NFKC"
    normalized = functools.partial(unicodedata.normalize, name)
    changed = unicode_tables.map_texts(normalized, texts.filter(others))
    return pc.replace_with_mask(texts, others, string_array(changed))


def lower(texts: pa.StringArray) -> pa.StringArray:
    """Convert to lower case by Unicode's full mapping: string[n], without nulls."""
    out = pc.utf8_lower(texts)
    data = string_bytes(texts)[0].tobytes()
    if not any(capital.encode() in data for capital in _SPECIAL_CASE):
        return out
    special = pc.match_substring_regex(texts, f"[{_SPECIAL_CASE}]")
    mapped = unicode_tables.map_texts(str.lower, texts.filter(special))
    return pc.replace_with_mask(out, special, string_array(mapped))


def tokenize(texts: pa.StringArray, tokenizer: Tokenizer) -> DictionaryStrings:
    """Return the tokens of texts (string[n], without nulls) by `words`, `whitespace` or `chars`."""
    match tokenizer:
        case "words":
            return words(texts)
        case "whitespace":
            return split_whitespace(texts)
        case "chars":
            return characters(texts)
    raise ValueError(f"expected words, whitespace or chars, got {tokenizer}")


def token_starts(flat: Flat, tokenizer: Tokenizer) -> Ints:
    """Return the byte offsets of the tokens of texts, int64[tokens]."""
    match tokenizer:
        case "words":
            return word_edges(flat)[0].astype(np.int64)
        case "whitespace":
            return _between_spaces(flat)[0].astype(np.int64)
        case "chars":
            heads = flat.data & 0xC0 != 0x80
            heads[flat.ends] = False  # the spaces between texts
            return np.flatnonzero(heads)
    raise ValueError(f"expected words, whitespace or chars, got {tokenizer}")


def words(texts: pa.StringArray) -> DictionaryStrings:
    """Return the words of texts in lower case, as defined in `word_pattern`."""
    # Words do not contain whitespace, and most strings between whitespace repeat.
    pieces = split_whitespace(texts)
    return pieces.split(find_words(lower(pieces.distinct)))


def split_whitespace(texts: pa.StringArray) -> DictionaryStrings:
    r"""Split at ASCII whitespace as tf.strings.split: space, \t, \n, \v, \f, \r."""
    flat = Flat.of(texts)
    return flat.cut(*_between_spaces(flat))


def _between_spaces(flat: Flat) -> tuple[Places, Places]:
    found = [np.zeros(0, np.int32)]
    before = 1
    for block in blocks_of(flat.data):
        space = np.append(before, translate(flat.data[block], _IS_SPACE))
        changes = np.flatnonzero(space[1:] != space[:-1]) + block.start
        found.append(changes.astype(np.int32))
        before = space[-1]
    edges = np.concatenate(found)
    return edges[::2], edges[1::2]


def characters(texts: pa.StringArray) -> DictionaryStrings:
    """Split into code points."""
    data, _ = string_bytes(texts)
    points = np.frombuffer(bytes(data).decode().encode("utf-32-le"), np.uint32)
    times = np.bincount(points)
    distinct = np.flatnonzero(times)
    codes = np.zeros(len(times), np.int64)
    codes[distinct] = np.arange(distinct.size)
    return DictionaryStrings(
        codes=codes[points],
        offsets=offsets_of(np.asarray(pc.utf8_length(texts)).astype(np.int64)),
        distinct=string_array(list(map(chr, distinct.tolist()))),
    )


_IS_SPACE = byte_table(np.isin(np.arange(256), list(b" \t\n\v\f\r")))
