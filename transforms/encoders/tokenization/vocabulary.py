"""Vocabularies: ids of tokens, learning from split train, and published files.

`vocabulary/tokens.txt` holds one token per line, UTF-8: special tokens, then learned tokens by
descending count, equal counts by ascending UTF-8. TensorFlow's StringLookup(mask_token="") and
TextVectorization load the file as it is and use the same ids: 0 is padding, then come the ids of
unknown tokens (1 is [UNK]), then the lines. The tokens of an n-gram are joined by spaces.

`vocabulary/idf.npy` holds float64[lines], the smooth inverse document frequency of scikit-learn:
ln((1 + n) / (1 + d)) + 1 for a token in d of the n records of train.
"""

from __future__ import annotations

import dataclasses
import functools
import io
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import RunError
from recordmill.format.typed_json import damage_of
from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.artifacts import (
    parse_frequencies,
    read_artifact,
    vocabulary_lines,
)
from recordmill.transforms.encoders.farmhash import fingerprint64
from recordmill.transforms.encoders.tokenization.chat_tokens import Turns
from recordmill.transforms.encoders.tokenization.terms import count_by_row, terms_of
from recordmill.transforms.encoders.tokenization.text_options import UNKNOWN, TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import normalize, tokenize
from recordmill.transforms.model import batch
from recordmill.transforms.model.chat import TURNS
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import string_array

TEXT = "text"  # name of the column
TOKENS_FILE = "vocabulary/tokens.txt"
IDF_FILE = "vocabulary/idf.npy"

_ITEM, _COUNT, _DOCUMENTS = "item", "count", "documents"


def text_columns(options: TextOptions) -> tuple[str, ...]:
    """Return the names of the columns of texts."""
    return options.text_columns or (TEXT,)


def analyzed_columns(options: TextOptions) -> tuple[str, ...]:
    """Return the names of the columns that `all_texts` reads."""
    turns = () if options.template is None else (TURNS,)
    return (*text_columns(options), *turns)


def all_texts(rows: pa.RecordBatch, options: TextOptions) -> pa.StringArray:
    """Return the normalized texts of rows, one column after another.

    Conversations are the texts between special tokens.
    """
    if options.template is not None:
        return Turns.of(rows, options).plain_texts(options.template)
    columns = text_columns(options)
    texts = [rows[name] for name in columns]
    joined = texts[0] if len(texts) == 1 else pa.concat_arrays(texts)
    return normalize(joined, options.unicode)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Vocabulary:
    """Vocabulary of tokens.

    lines: lines of the file.
    idf: float64[lines], inverse document frequencies, or None.
    """

    lines: pa.StringArray
    idf: npt.NDArray[np.float64] | None = None

    def find(self, tokens: pa.StringArray) -> Ints:
        """Return the line number of each token from 0, int64[n]; -1 for unknown tokens."""
        if len(tokens) > len(self.lines) // 4:  # Arrow hashes all lines in every call
            lines = pc.index_in(tokens, value_set=self.lines)
            return np.asarray(lines.fill_null(-1)).astype(np.int64)
        numbers = self._numbers
        found = (numbers.get(token, -1) for token in tokens.to_pylist())
        return np.fromiter(found, np.int64, len(tokens))

    @functools.cached_property
    def _numbers(self) -> dict[str, int]:
        return {line: number for number, line in enumerate(self.lines.to_pylist())}

    def ids(self, tokens: pa.StringArray, *, oov_buckets: int) -> Ints:
        """Return the id of each token, int64[n]."""
        found = self.find(tokens)
        ids = found + 1 + oov_buckets
        unknown = np.flatnonzero(found < 0)
        ids[unknown] = 1
        if oov_buckets > 1 and unknown.size:
            hashes = fingerprint64(tokens.take(pa.array(unknown)))
            ids[unknown] += (hashes % np.uint64(oov_buckets)).astype(np.int64)
        return ids


def load_vocabulary(artifacts: Mapping[str, Artifact]) -> Vocabulary:
    """Return the learned vocabulary, read once per process."""
    return _load(artifacts[TOKENS_FILE], artifacts.get(IDF_FILE))


@functools.lru_cache(maxsize=4)
def _load(tokens: Artifact, idf: Artifact | None) -> Vocabulary:
    with damage_of(tokens.path):
        lines = vocabulary_lines(read_artifact(tokens))
    if idf is None:
        return Vocabulary(lines=string_array(lines))
    with damage_of(idf.path):
        weights = parse_frequencies(read_artifact(idf))
        if len(weights) != len(lines):
            raise ValueError(
                f"it has {len(weights)} numbers, but {TOKENS_FILE} has {len(lines)} lines"
            )
    return Vocabulary(lines=string_array(lines), idf=weights)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabularyAnalysis:
    """Analysis that learns a vocabulary, and document frequencies for tfidf.

    Args:
      options: Options of the encoder.
    """

    options: TextOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are analyzed."""
        return analyzed_columns(self.options)

    @property
    def files(self) -> tuple[str, ...]:
        """Names of the files of the vocabulary."""
        idf = (IDF_FILE,) if "tfidf" in self.options.output_features else ()
        return (TOKENS_FILE, *idf)

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count tokens and n-grams: columns `item`, `count` and, for tfidf, `documents`."""
        options = self.options
        assert options.splitter is not None
        texts = all_texts(rows, options)
        terms = terms_of(tokenize(texts, options.splitter), ngrams=options.ngrams)
        size = len(terms.distinct)
        columns = {
            _ITEM: terms.distinct,
            _COUNT: pa.array(np.bincount(terms.codes, minlength=size)),
        }
        if "tfidf" in options.output_features:
            by_row = count_by_row(terms.codes, terms.rows, size=size, number=len(texts))
            columns[_DOCUMENTS] = pa.array(np.bincount(by_row.indices, minlength=size))
        counts = pa.RecordBatch.from_pydict(columns)
        return counts.filter(self._may_be_a_line(counts))

    def _may_be_a_line(self, counts: pa.RecordBatch) -> pa.BooleanArray:
        """Return which items can be lines of a file that TensorFlow reads, bool[n].

        It reads line by line and drops carriage returns.
        """
        items = counts[_ITEM]
        broken = pc.match_substring_regex(items, "[\r\n]")
        unknown = pc.or_(broken, pc.equal(items, UNKNOWN))
        return pc.and_(pc.greater(counts[_COUNT], 0), pc.invert(unknown))

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the `vocab_size` most frequent tokens, and special tokens.

        Tokens need a count of at least `min_frequency`.
        """
        special = pc.is_in(counts[_ITEM], value_set=self._special)
        learned = most_frequent(
            counts.filter(pc.invert(special)),
            least=self.options.min_frequency,
            at_most=self.options.vocab_size,
        )
        return batch.concat([counts.filter(special), learned])

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Return the files of the vocabulary, {path: content}.

        Raises:
            RunError: there are no tokens.
        """
        selected = self.select(counts)
        special = self._special
        learned = selected.filter(pc.invert(pc.is_in(selected[_ITEM], value_set=special)))
        if not len(learned):
            raise RunError(
                f"no token in the {records} records of train occurs"
                f" {self.options.min_frequency} times: lower --min-frequency, or check the texts"
            )
        lines = pa.concat_arrays([special, learned[_ITEM]])
        files = {TOKENS_FILE: "".join(f"{line}\n" for line in lines.to_pylist()).encode()}
        if "tfidf" in self.options.output_features:
            places = pc.index_in(lines, value_set=selected[_ITEM])
            documents = selected[_DOCUMENTS].take(places).fill_null(0)
            texts = records * len(text_columns(self.options))
            files[IDF_FILE] = _npy(inverse_frequency(np.asarray(documents), texts))
        return files

    @property
    def _special(self) -> pa.StringArray:
        return string_array(self.options.reserved_tokens)


def most_frequent(counts: pa.RecordBatch, *, least: int, at_most: int) -> pa.RecordBatch:
    """Return at most `at_most` items with a count of at least `least`, by descending count."""
    found = counts.filter(pc.greater_equal(counts[_COUNT], least))
    # Equal counts are sorted by UTF-8, as Arrow compares strings.
    order = [(_COUNT, "descending"), (_ITEM, "ascending")]
    return found.take(pc.sort_indices(found, sort_keys=order)[:at_most])


def inverse_frequency(documents: Ints, records: int) -> npt.NDArray[np.float64]:
    """Return the weights of tokens, float64[n], given the number of records with each, int64[n]."""
    return np.log((1 + records) / (1 + documents)) + 1


def _npy(array: npt.NDArray[np.float64]) -> bytes:
    out = io.BytesIO()
    np.save(out, array, allow_pickle=False)
    return out.getvalue()
