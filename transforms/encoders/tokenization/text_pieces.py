"""Pieces of texts with the same tokens in every context, for the cache of a tokenizer.json.

Most tokenizer files first split texts into words, and no word extends across a single space between
other characters. A piece is the text between two such spaces, including the space before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.model.ragged import DictionaryStrings, Flat, byte_table, translate

# Normalizers that change characters alone or with the marks after them, and do not strip or add
# anything at the ends of a text.
_CHANGES = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer")
# Pre-tokenizers that split the results of the first one, which splits at spaces.
_LATER = ("ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "BertPreTokenizer")
_AT_SPACES = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")
# Patterns of cl100k and Llama 3, and of Qwen 2: a space begins a word or is one.
_PATTERNS = tuple(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+"
    r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for digits in ("", "{1,3}")
)


def splits_at_spaces(tokenizer: Any) -> bool:
    """Return whether a `tokenizers.Tokenizer` tokenizes the pieces of a text independently.

    It does if a single space between two other characters always ends a word.
    """
    added = tokenizer.get_added_tokens_decoder().values()
    first, *later = _steps(tokenizer.pre_tokenizer, "pretokenizers") or [{}]
    return (
        _is_at_spaces(first)
        and all(step["type"] in _LATER for step in later)
        and all(step["type"] in _CHANGES for step in _steps(tokenizer.normalizer, "normalizers"))
        and not any(token.rstrip or " " in token.content for token in added)
    )


def _steps(step: Any, of_sequence: str) -> Sequence[Mapping[str, Any]]:
    """Return the steps of a tokenizer's component, as described in its file."""
    if step is None:
        return []
    described: dict[str, Any] = json.loads(step.__getstate__())
    steps: Sequence[Mapping[str, Any]] = described.get(of_sequence, [described])
    return steps


def _is_at_spaces(step: Mapping[str, Any]) -> bool:
    match step.get("type"):
        case "ByteLevel":
            return bool(step.get("use_regex", True))
        case "Split":
            known = step.get("pattern", {}).get("Regex") in _PATTERNS
            return known and step.get("behavior") == "Isolated" and not step.get("invert")
    return step.get("type") in _AT_SPACES


def pieces(texts: pa.StringArray) -> DictionaryStrings:
    """Return the pieces of texts (string[n], without nulls); an empty text has one empty piece."""
    flat = Flat.of(texts)
    data = flat.data
    alone = translate(data, _IS_SPACE).view(np.bool_)
    alone[1:] &= translate(data[:-1], _ENDS_NO_SPACE).view(np.bool_)
    alone[:-1] &= translate(data[1:], _BEGINS_NO_SPACE).view(np.bool_)
    alone[flat.ends] = alone[flat.starts] = False  # no cuts between texts and at their start
    spaces = np.flatnonzero(alone)
    starts = _merged(flat.starts, spaces)
    return flat.cut(starts.astype(np.int32), _merged(spaces, flat.ends).astype(np.int32))


def _merged(one: Ints, other: Ints) -> Ints:
    return np.sort(np.concatenate([one, other]), kind="stable")


def _bytes_but(*spaces: int) -> bytes:
    """Return a table for `translate`: 0 for these bytes, ASCII spaces and controls, else 1."""
    good = np.ones(256, np.bool_)
    good[:0x21] = False
    good[[0x7F, *spaces]] = False
    return byte_table(good)


_IS_SPACE = byte_table(np.arange(256) == 0x20)
# All characters that are or were white space in Unicode. Texts are not cut next to characters that
# share the first or last byte of one of them.
_WHITE_SPACE = "".join(map(chr, (
    0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x200C), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000,
    0xFEFF,
)))  # fmt: skip
_BEGINS_NO_SPACE = _bytes_but(*{mark.encode()[0] for mark in _WHITE_SPACE})
_ENDS_NO_SPACE = _bytes_but(*{mark.encode()[-1] for mark in _WHITE_SPACE})
