"""Pieces of texts that a tokenizer.json makes the same tokens of wherever they stand, so that one
which comes again and again is tokenized once.

Most such files split texts into words before anything else, and no word goes on behind a space that
stands alone. A piece is what stands between two such spaces, with the one before it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.format.row_assembly import Ints
from recordmill.transforms.model.ragged import DictionaryStrings, Flat, byte_table, translate

# They change characters by themselves, or with marks that follow them; none of them goes to the
# ends of a text, or puts something there.
_CHANGES = ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents", "BertNormalizer")
# They split what the first of them, which splits at spaces, has left.
_LATER = ("ByteLevel", "Digits", "Punctuation", "Whitespace", "WhitespaceSplit", "BertPreTokenizer")
_AT_SPACES = ("Whitespace", "WhitespaceSplit", "BertPreTokenizer")
# The patterns of cl100k, which Llama 3 has too, and of Qwen 2: a space begins a word or is one.
_PATTERNS = tuple(
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}" + digits + r"| ?[^\s\p{L}\p{N}]+"
    r"[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    for digits in ("", "{1,3}")
)


def splits_at_spaces(tokenizer: Any) -> bool:
    """Whether a space between two characters that are none ends a word, and all that is known of
    the text before it, for a `tokenizers.Tokenizer`.
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
    """What a part of a tokenizer does, as its file has it."""
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
    """The pieces of texts, string[n], no null; of an empty text one, which is empty too."""
    flat = Flat.of(texts)
    data = flat.data
    alone = translate(data, _IS_SPACE).view(np.bool_)
    alone[1:] &= translate(data[:-1], _ENDS_NO_SPACE).view(np.bool_)
    alone[:-1] &= translate(data[1:], _BEGINS_NO_SPACE).view(np.bool_)
    alone[flat.ends] = alone[flat.starts] = False  # the spaces between texts, and what begins one
    spaces = np.flatnonzero(alone)
    starts = _merged(flat.starts, spaces)
    return flat.cut(starts.astype(np.int32), _merged(spaces, flat.ends).astype(np.int32))


def _merged(one: Ints, other: Ints) -> Ints:
    return np.sort(np.concatenate([one, other]), kind="stable")


def _bytes_but(*spaces: int) -> bytes:
    """For `translate`: 0 for these and for what ASCII calls no mark, letter or digit."""
    good = np.ones(256, np.bool_)
    good[:0x21] = False
    good[[0x7F, *spaces]] = False
    return byte_table(good)


_IS_SPACE = byte_table(np.arange(256) == 0x20)
# The first and the last bytes of all characters that Unicode calls white space, or did once; other
# characters have them too, and around these nothing is cut.
_WHITE_SPACE = "".join(map(chr, (
    0x85, 0xA0, 0x1680, 0x180E, *range(0x2000, 0x200C), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000,
    0xFEFF,
)))  # fmt: skip
_BEGINS_NO_SPACE = _bytes_but(*{mark.encode()[0] for mark in _WHITE_SPACE})
_ENDS_NO_SPACE = _bytes_but(*{mark.encode()[-1] for mark in _WHITE_SPACE})
