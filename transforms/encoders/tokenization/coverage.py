"""The share of tokens of split train that a vocabulary of an earlier dataset does not have."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import RunError
from recordmill.transforms.encoders.tokenization.terms import terms_of
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from recordmill.transforms.encoders.tokenization.vocabulary import (
    TOKENS_FILE,
    all_texts,
    load_vocabulary,
    text_columns,
)
from recordmill.transforms.model.data_type import Artifact

_KNOWN, _UNKNOWN = "known", "unknown"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyCoverage:
    """Analysis that learns nothing, and refuses texts with too many unknown tokens.

    tokens: the vocabulary. limit: the largest fraction of tokens, n-grams left out, that it may
    lack.
    """

    options: TextOptions
    tokens: Artifact
    limit: float

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are analyzed."""
        return text_columns(self.options)

    @property
    def files(self) -> tuple[str, ...]:
        """No file is learned."""
        return ()

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count the tokens that are known and those that are not."""
        assert self.options.splitter is not None
        texts = all_texts(rows, self.options)
        terms = terms_of(tokenize(texts, self.options.splitter), ngrams=1)
        counts = np.bincount(terms.codes, minlength=len(terms.distinct))
        is_known = load_vocabulary({TOKENS_FILE: self.tokens}).find(terms.distinct) >= 0
        known = int(counts[is_known].sum())
        found = {"item": [_KNOWN, _UNKNOWN], "count": [known, int(counts.sum()) - known]}
        return pa.RecordBatch.from_pydict(found)

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Keep all counts."""
        return counts

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Return no file.

        Raises:
            RunError: too many tokens are unknown.
        """
        found = dict(zip(counts["item"].to_pylist(), counts["count"].to_pylist(), strict=True))
        share = found[_UNKNOWN] / max(sum(found.values()), 1)
        if share > self.limit:
            raise RunError(
                f"{share:.3g} of the tokens in the {records} records of train are not in the"
                f" vocabulary of --learned-from, but --max-unknown allows {self.limit:g}: check the"
                " texts, learn again, or raise --max-unknown"
            )
        return {}
