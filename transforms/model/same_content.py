"""Duplicates by content: records are equal if what was read for them is equal."""

from __future__ import annotations

import dataclasses
from typing import Literal

import pyarrow as pa

from recordmill.transforms.model import batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class SameContent:
    """Treats records as duplicates if the hashes of their contents are equal.

    mode: treatment of duplicates, as in `recordmill.transforms.model.data_type.Duplicates`.
    """

    mode: Literal["drop", "group"]

    def names(self, rows: pa.RecordBatch) -> pa.StringArray:
        """Return the hash of the content of each row, as hex: string[n]."""
        return batch.hex_of(rows[batch.CONTENT])
