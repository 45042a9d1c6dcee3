"""Duplicate detection of texts, for --dedup."""

from __future__ import annotations

import dataclasses
import unicodedata
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from recordmill import unicode_tables
from recordmill.transforms.encoders.tokenization.vocabulary import TEXT
from recordmill.transforms.model.ragged import string_array


@dataclasses.dataclass(frozen=True, kw_only=True)
class SameText:
    """Treats texts as duplicates if they differ only in case, whitespace or compatibility forms.

    mode: treatment of duplicates, as in `recordmill.transforms.model.data_type.Duplicates`.
    columns: columns of texts; all of them have to be equal.
    """

    mode: Literal["drop", "group"]
    columns: tuple[str, ...] = (TEXT,)

    def names(self, rows: pa.RecordBatch) -> pa.StringArray:
        """Return a name for each row that is equal for duplicates: string[n]."""
        hashes = [duplicate_hash(rows[name]) for name in self.columns]
        return hashes[0] if len(hashes) == 1 else pc.binary_join_element_wise(*hashes, " ")


def duplicate_hash(texts: pa.StringArray) -> pa.StringArray:
    """Return the hash of each normalized text, 128 bits as hex: string[n]."""
    digest = xxhash.xxh3_128_hexdigest
    folded = unicode_tables.map_texts(fold_text, texts)
    return string_array([digest(" ".join(text.split()).encode()) for text in folded])


def fold_text(text: str) -> str:
    """Fold case and Unicode compatibility forms."""
    if text.isascii():
        return text.lower()
    # Case folding may leave the normal form.
    return unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold())
