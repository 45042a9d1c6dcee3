"""Training of byte pair encoding on split train, as a SentencePiece model.

The model is trained on word counts, so its cost depends on the number of distinct words, of which
the most frequent are used.
"""

from __future__ import annotations

import dataclasses
import io
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import RunError
from recordmill.transforms.encoders.tokenization.subwords import MODEL_FILE, library
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import split_whitespace
from recordmill.transforms.encoders.tokenization.vocabulary import (
    all_texts,
    most_frequent,
    text_columns,
)
from recordmill.transforms.model import limits

_WORDS = 1 << 20  # distinct words used for training, at most
_LONGEST = 1000  # bytes: longer words are ignored
_ITEM, _COUNT = "item", "count"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BpeAnalysis:
    """Analysis that trains a model of `options.vocab_size` pieces.

    Id 0 is padding and 1 is unknown. Then come the special tokens, 256 bytes for characters that do
    not occur in train, and the learned pieces.
    """

    options: TextOptions

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns that are analyzed."""
        return text_columns(self.options)

    @property
    def files(self) -> tuple[str, ...]:
        """Name of the model."""
        return (MODEL_FILE,)

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Count words between spaces: columns `item` and `count`."""
        words = split_whitespace(all_texts(rows, self.options))
        times = np.bincount(words.codes, minlength=len(words.distinct))
        counts = pa.RecordBatch.from_pydict({_ITEM: words.distinct, _COUNT: pa.array(times)})
        return counts.filter(pc.less_equal(pc.binary_length(counts[_ITEM]), _LONGEST))

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the most frequent words with a count of at least `min_frequency`."""
        return most_frequent(counts, least=self.options.min_frequency, at_most=_WORDS)

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Train the model; return {path: content}.

        Raises:
            RunError: there are no words, or too few for a model.
        """
        selected = self.select(counts)
        if not len(selected):
            raise RunError(
                f"no word in the {records} records of train occurs"
                f" {self.options.min_frequency} times: lower --min-frequency, or check the texts"
            )
        model = io.BytesIO()
        try:
            library("sentencepiece").SentencePieceTrainer.train(
                sentence_iterator=_lines(selected),
                input_format="tsv",
                model_writer=model,
                model_type="bpe",
                vocab_size=self.options.vocab_size,
                hard_vocab_limit=False,
                character_coverage=1.0,
                byte_fallback=True,
                control_symbols=list(self.options.reserved_tokens),
                normalization_rule_name="identity",
                remove_extra_whitespaces=False,
                pad_id=0,
                unk_id=1,
                bos_id=-1,
                eos_id=-1,
                num_threads=1,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise RunError(
                f"--tokenizer bpe: cannot learn {self.options.vocab_size} pieces from the "
                f"{len(selected)} words of train ({error})"
            ) from error
        return {MODEL_FILE: model.getvalue()}


def _lines(counts: pa.RecordBatch) -> Iterator[str]:
    for some in pa.Table.from_batches([counts]).to_batches(max_chunksize=limits.PART_ROWS):
        for word, count in zip(some[_ITEM].to_pylist(), some[_COUNT].to_pylist(), strict=True):
            yield f"{word}\t{count}"
