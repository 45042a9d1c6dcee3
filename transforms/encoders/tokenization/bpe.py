"""Training of byte pair encoding on split train, as a SentencePiece model.

The model is trained on word counts, so its cost depends on the number of distinct words, of which
the most frequent are used. Long words, such as sentences in a script without spaces, are cut.
"""

from __future__ import annotations

import collections
import dataclasses
import io
from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import RunError
from recordmill.notes import Note
from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.tokenization.subwords import MODEL_FILE, library
from recordmill.transforms.encoders.tokenization.text_options import TextOptions
from recordmill.transforms.encoders.tokenization.tokenizers import split_whitespace
from recordmill.transforms.encoders.tokenization.vocabulary import (
    all_texts,
    most_frequent,
    text_columns,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.ragged import string_array

_WORDS = 1 << 20  # distinct words used for training, at most
_LONGEST = 1000  # bytes: longer words are cut
# Items that count the words that are not used. They have a space, so they are not words.
_RARE, _BEYOND = "rare words", "words beyond the most frequent"
_NOTED = {_RARE: 0.5, _BEYOND: 0.0}  # from which share of the words on there is a note
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
        """Count words between spaces, long ones in parts: columns `item` and `count`."""
        words = split_whitespace(all_texts(rows, self.options))
        times = np.bincount(words.codes, minlength=len(words.distinct))
        return _cut_long_words(words.distinct, times)

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        """Keep the most frequent words with a count of at least `min_frequency`.

        The counts of the others are added up.
        """
        left_out = self.left_out(counts)
        words = counts.filter(pc.invert(_is_left_out(counts)))
        frequent = most_frequent(words, least=self.options.min_frequency, at_most=len(words))
        left_out[_RARE] += _total(words) - _total(frequent)
        left_out[_BEYOND] += _total(frequent[_WORDS:])
        others = {_ITEM: pa.array(list(left_out)), _COUNT: pa.array(list(left_out.values()))}
        return batch.concat([frequent[:_WORDS], pa.RecordBatch.from_pydict(others)])

    def left_out(self, counts: pa.RecordBatch) -> dict[str, int]:
        """Return how many words were left out by `select`, by reason."""
        found = counts.filter(_is_left_out(counts))
        items = zip(found[_ITEM].to_pylist(), found[_COUNT].to_pylist(), strict=True)
        return {_RARE: 0, _BEYOND: 0, **dict(items)}

    def notes(self, contents: Mapping[str, bytes], counts: pa.RecordBatch) -> Sequence[Note]:
        """Return a note if many words were left out, or there were too many distinct ones."""
        del contents
        selected = self.select(counts)
        left_out, total = self.left_out(selected), _total(selected)
        least = self.options.min_frequency
        texts = {
            _RARE: f"those that occur fewer than {least} times (--min-frequency)",
            _BEYOND: f"because they are learned from the {_WORDS:,} most frequent distinct words",
        }
        return [
            Note(
                "unlearned",
                f"byte pairs are learned without {share:.1%} of the words of train,"
                f" {texts[reason]}",
            )
            for reason, number in left_out.items()
            if (share := number / max(total, 1)) > _NOTED[reason]
        ]

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        """Train the model; return {path: content}.

        Raises:
            RunError: there are no words, or too few for a model.
        """
        selected = self.select(counts)
        selected = selected.filter(pc.invert(_is_left_out(selected)))
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


def _cut_long_words(words: pa.StringArray, times: Ints) -> pa.RecordBatch:
    """Return the counts of words, of those beyond `_LONGEST` the counts of their parts."""
    counts = pa.RecordBatch.from_pydict({_ITEM: words, _COUNT: pa.array(times)})
    is_long = pc.greater(pc.binary_length(words), _LONGEST)
    if not pc.any(is_long).as_py():
        return counts
    parts: collections.Counter[str] = collections.Counter()
    long = counts.filter(is_long)
    for word, count in zip(long[_ITEM].to_pylist(), long[_COUNT].to_pylist(), strict=True):
        for part in _parts(word.encode()):
            parts[part] += count
    short = counts.filter(pc.invert(is_long))
    repeated = pc.is_in(short[_ITEM], value_set=string_array(list(parts)))
    for word, count in zip(*(column.to_pylist() for column in short.filter(repeated)), strict=True):
        parts[word] += count
    columns = {_ITEM: string_array(list(parts)), _COUNT: pa.array(list(parts.values()), pa.int64())}
    return batch.concat([short.filter(pc.invert(repeated)), pa.RecordBatch.from_pydict(columns)])


def _parts(word: bytes) -> Iterator[str]:
    """Yield the parts of UTF-8, of up to `_LONGEST` bytes each, cut between characters."""
    start = 0
    while start < len(word):
        end = min(start + _LONGEST, len(word))
        while end < len(word) and word[end] & 0xC0 == 0x80:  # inside of a character
            end -= 1
        yield word[start:end].decode()
        start = end


def _is_left_out(counts: pa.RecordBatch) -> pa.BooleanArray:
    return pc.is_in(counts[_ITEM], value_set=pa.array([_RARE, _BEYOND]))


def _total(counts: pa.RecordBatch) -> int:
    return int(pc.sum(counts[_COUNT]).as_py() or 0)


def _lines(counts: pa.RecordBatch) -> Iterator[str]:
    for some in pa.Table.from_batches([counts]).to_batches(max_chunksize=limits.PART_ROWS):
        for word, count in zip(some[_ITEM].to_pylist(), some[_COUNT].to_pylist(), strict=True):
            yield f"{word}\t{count}"
