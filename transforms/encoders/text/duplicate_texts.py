"""Which texts are the same to a reader: what --dedup goes by."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Literal

import pyarrow as pa
import xxhash

from recordmill.transforms.encoders.tokenization.vocabulary import TEXT
from recordmill.transforms.model.ragged import string_array


@dataclasses.dataclass(frozen=True, kw_only=True)
class SameText:
    """Texts that differ in case, whitespace or Unicode's compatible forms only are the same.

    mode: what becomes of them, as `recordmill.transforms.model.data_type.Duplicates` says.
    """

    mode: Literal["drop", "group"]

    def names(self, rows: pa.RecordBatch) -> pa.StringArray:
        return duplicate_hash(rows[TEXT])


def duplicate_hash(texts: pa.StringArray) -> pa.StringArray:
    """The hash of each text as it is compared, 128 bits as hex: string[n]."""
    digest = xxhash.xxh3_128_hexdigest
    return string_array([digest(_compared(text).encode()) for text in texts.to_pylist()])


def _compared(text: str) -> str:
    """Folded (NFKC, case), with single spaces between its words."""
    if not text.isascii():
        # Folding takes some texts out of the normal form again.
        folded = unicodedata.normalize("NFKC", text).casefold()
        return " ".join(unicodedata.normalize("NFKC", folded).split())
    return " ".join(text.lower().split())
