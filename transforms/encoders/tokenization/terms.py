"""Terms of rows: tokens and n-grams of neighbouring tokens."""

from __future__ import annotations

import dataclasses

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Ints, offsets_of
from recordmill.transforms.model.ragged import DictionaryStrings

BETWEEN = " "  # joins the tokens of an n-gram, as in TensorFlow and scikit-learn


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Terms:
    """Terms of rows, in no particular order: term i is distinct[codes[i]] in row rows[i].

    codes, rows: int64[terms].
    distinct: string, without nulls or duplicates.
    """

    codes: Ints
    rows: Ints
    distinct: pa.StringArray


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class TermCounts:
    """Number of occurrences of each term in each row, sorted by row and index.

    indices, counts: int64[k]; row r has the range from offsets[r] to offsets[r + 1].
    offsets: int64[rows + 1].
    """

    indices: Ints
    counts: Ints
    offsets: Ints

    @property
    def rows(self) -> Ints:
        """Row of each index, int64[k]."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))


def terms_of(tokens: DictionaryStrings, *, ngrams: int) -> Terms:
    """Return all tokens, and all n-grams of 2 to `ngrams` tokens of a row."""
    rows, size = tokens.rows, len(tokens.distinct)
    ends = tokens.offsets[1:][rows]
    codes, distinct = tokens.codes, tokens.distinct
    parts = [Terms(codes=codes, rows=rows, distinct=distinct)]
    starts = np.arange(len(codes))
    for length in range(2, ngrams + 1):
        fits = starts + length <= ends[starts]
        starts, codes = starts[fits], codes[fits]
        # A number per pair of shorter n-gram and added token.
        grown = pa.array(codes * size + tokens.codes[starts + length - 1]).dictionary_encode()
        heads, tails = np.divmod(np.asarray(grown.dictionary), max(size, 1))
        distinct = pc.binary_join_element_wise(
            distinct.take(pa.array(heads)), tokens.distinct.take(pa.array(tails)), BETWEEN
        )
        codes = np.asarray(grown.indices).astype(np.int64)
        parts.append(Terms(codes=codes, rows=rows[starts], distinct=distinct))
    return _together(parts)


def _together(parts: list[Terms]) -> Terms:
    if len(parts) == 1:
        return parts[0]
    bases = offsets_of(np.array([len(part.distinct) for part in parts]))
    return Terms(
        codes=np.concatenate([part.codes + base for part, base in zip(parts, bases, strict=False)]),
        rows=np.concatenate([part.rows for part in parts]),
        distinct=pa.concat_arrays([part.distinct for part in parts]),
    )


def count_by_row(codes: Ints, rows: Ints, *, size: int, number: int) -> TermCounts:
    """Count codes (0 to size - 1; int64[k]) in each of `number` rows."""
    pairs, counts = np.unique(rows * size + codes, return_counts=True)
    found, indices = np.divmod(pairs, max(size, 1))
    offsets = offsets_of(np.bincount(found, minlength=number))
    return TermCounts(indices=indices, counts=counts.astype(np.int64), offsets=offsets)
