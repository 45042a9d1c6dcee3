"""Share of the tokens of each split that the vocabulary of an earlier dataset lacks."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import RunError
from recordmill.format.split_names import TRAIN, in_order
from recordmill.gates import fraction, is_within
from recordmill.notes import count_of
from recordmill.transforms.encoders.tokenization.terms import terms_of
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import tokenize
from recordmill.transforms.encoders.tokenization.vocabulary import (
    TOKENS_FILE,
    all_texts,
    analyzed_columns,
    load_vocabulary,
)
from recordmill.transforms.model.data_type import Artifact

_RECORDS, _KNOWN, _UNKNOWN = "records", "known", "unknown"


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyCoverage:
    """Analysis that learns nothing, and refuses texts with too many unknown tokens.

    tokens: the vocabulary. limit: the largest fraction of the tokens of a split, n-grams left out,
    that it may lack.
    """

    options: TextOptions
    tokens: Artifact
    limit: float

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are analyzed."""
        return analyzed_columns(self.options)

    @property
    def files(self) -> tuple[str, ...]:
        """No file is learned."""
        return ()

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count records of train; a planning pass counts those of all splits instead."""
        return self.count_splits(rows, pa.repeat(TRAIN, len(rows)))

    def count_splits(self, rows: pa.RecordBatch, splits: pa.Array) -> pa.RecordBatch:
        """Count the records of each split, and the tokens that are known and those that are not."""
        found: dict[str, int] = {}
        for split in splits.unique().drop_null().to_pylist():
            some = rows.filter(pc.equal(splits, split))
            known, unknown = self._tokens(some)
            counts = {_RECORDS: len(some), _KNOWN: known, _UNKNOWN: unknown}
            found |= {f"{kind}/{split}": count for kind, count in counts.items()}
        columns = {
            "item": pa.array([*found], pa.string()),
            "count": pa.array([*found.values()], pa.int64()),
        }
        return pa.RecordBatch.from_pydict(columns)

    def _tokens(self, rows: pa.RecordBatch) -> tuple[int, int]:
        """Return the numbers of known and unknown tokens."""
        assert self.options.splitter is not None
        texts = all_texts(rows, self.options)
        terms = terms_of(tokenize(texts, self.options.splitter), ngrams=1)
        counts = np.bincount(terms.codes, minlength=len(terms.distinct))
        is_known = load_vocabulary({TOKENS_FILE: self.tokens}).find(terms.distinct) >= 0
        return int(counts[is_known].sum()), int(counts[~is_known].sum())

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Keep all counts."""
        return counts

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Check the limit, and return no file. records: number of records of train.

        Raises:
            RunError: too many tokens of a split are unknown, or it has no tokens.
        """
        found = dict(zip(counts["item"].to_pylist(), counts["count"].to_pylist(), strict=True))
        splits = [item.partition("/")[2] for item in found if item.startswith(f"{_RECORDS}/")]
        if not splits:
            raise RunError("no record is left to compare with --max-unknown: check the input")
        for split in in_order(splits):
            of_split, known, unknown = (
                found[f"{kind}/{split}"] for kind in (_RECORDS, _KNOWN, _UNKNOWN)
            )
            where = f"the {count_of(of_split, 'record')} of {split}"
            share = fraction(unknown, known + unknown)
            if share is None:
                raise RunError(
                    f"{where} have no tokens to compare with --max-unknown {self.limit:g}: check"
                    " the texts, or leave out --max-unknown"
                )
            if not is_within(share, most=self.limit):
                raise RunError(
                    f"{share:.3g} of the tokens in {where} are not in the vocabulary of"
                    f" --learned-from, but --max-unknown allows {self.limit:g}: check the texts,"
                    " learn again, or raise --max-unknown"
                )
        return {}
