"""Byte pair encoding that is learned from train, as a SentencePiece model.

How often its words come is all that it takes, so however long train is, what is counted is its
words, and what is learned from are the most frequent of them.
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
from recordmill.transforms.encoders.tokenization.tokenizers import normalize, split_whitespace
from recordmill.transforms.encoders.tokenization.vocabulary import TEXT, most_frequent
from recordmill.transforms.model import batch

_WORDS = 1 << 20  # that it learns from
_LONGEST = 1000  # bytes of one
_ITEM, _COUNT = "item", "count"


@dataclasses.dataclass(frozen=True, kw_only=True)
class BpeAnalysis:
    """Learns a model of `options.vocab_size` pieces: 0 is padding, 1 what is unknown, then come the
    special tokens, 256 bytes for characters that train has not, and the pieces.
    """

    options: TextOptions

    @property
    def columns(self) -> tuple[str, ...]:
        return (TEXT,)

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """`item`: what stands between spaces; `count`: how often each comes."""
        words = split_whitespace(normalize(rows[TEXT], self.options.unicode))
        times = np.bincount(words.codes, minlength=len(words.distinct))
        counts = pa.RecordBatch.from_pydict({_ITEM: words.distinct, _COUNT: pa.array(times)})
        return counts.filter(pc.less_equal(pc.binary_length(counts[_ITEM]), _LONGEST))

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Those of `min_frequency` and more, a million of them at most."""
        return most_frequent(counts, least=self.options.min_frequency, at_most=_WORDS)

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """The model.

        Raises:
          RunError: there is no word to learn from, or there are too few for a model.
        """
        selected = self.select(counts)
        if not len(selected):
            raise RunError(
                f"no word of the {records} records of train is there --min-frequency "
                f"{self.options.min_frequency} times: lower it, or look at the texts"
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
                control_symbols=list(self.options.special_tokens),
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
    for some in pa.Table.from_batches([counts]).to_batches(max_chunksize=batch.ROWS):
        for word, count in zip(some[_ITEM].to_pylist(), some[_COUNT].to_pylist(), strict=True):
            yield f"{word}\t{count}"
