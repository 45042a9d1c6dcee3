"""Signatures of texts, for near duplicates."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa

from recordmill.transforms.encoders.tokenization.vocabulary import TEXT
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import RowOutcome
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.near_duplicates.text_minhash import minhash


@dataclasses.dataclass(frozen=True)
class TextSignatures:
    """Reader of the MinHash signature of each text; the source tells the content itself."""

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, dict[str, pa.Array]]:
        """Return the signature of each text; all rows are kept."""
        signatures = fixed_lists(minhash(rows[TEXT]))
        return RowOutcome(kept=np.arange(len(rows))), {batch.NEAR: signatures}
