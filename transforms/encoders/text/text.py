"""Texts as Examples: tokens, term counts, weights, embeddings and the text itself."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill import unicode_tables
from recordmill.option_checks import check_options
from recordmill.tfrecord.features import Feature, Features
from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.labels import label_columns, label_feature
from recordmill.transforms.encoders.text.embeddings import NAME, load_embeddings
from recordmill.transforms.encoders.text.packing import end_each, pack
from recordmill.transforms.encoders.text.text_augment import augment_words
from recordmill.transforms.encoders.text.text_lengths import TextCheck
from recordmill.transforms.encoders.tokenization.bpe import BpeAnalysis
from recordmill.transforms.encoders.tokenization.chat_tokens import Turns
from recordmill.transforms.encoders.tokenization.subwords import library_version
from recordmill.transforms.encoders.tokenization.terms import TermCounts, count_by_row, terms_of
from recordmill.transforms.encoders.tokenization.text_options import (
    SUBWORDS,
    TextOptions,
    TfidfNorm,
)
from recordmill.transforms.encoders.tokenization.token_ids import TokenIds
from recordmill.transforms.encoders.tokenization.tokenizers import normalize, tokenize
from recordmill.transforms.encoders.tokenization.vocabulary import (
    TEXT,
    Vocabulary,
    VocabularyAnalysis,
    analyzed_columns,
    load_vocabulary,
    text_columns,
)
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import (
    Analysis,
    Context,
    Encoded,
    RowCheck,
    RowOutcome,
)
from recordmill.transforms.model.ragged import (
    DictionaryStrings,
    fixed_lists,
    list_array,
    padded,
)
from recordmill.transforms.model.user_columns import merged, user_fields, with_users

T = TypeVar("T")

TYPE_IDS = "tokens/type_ids"  # 0 for the first of two joined texts, 1 for the second
# 1 for the tokens of a conversation that count in the loss: those of the assistant's messages
LOSS_MASK = "tokens/loss_mask"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextEncoder:
    """Encoder of the column `text`, or of the columns that `text_columns` of the options names.

    Conversations are the columns `text` and `__turns__`.

    Learned vocabularies and tokenizer files are artifacts of the context.

    Args:
      options: Tokenizer, features and limits of the texts.
      unlabelled: Rows without a label may occur; they have no label feature.
    """

    options: TextOptions
    unlabelled: bool = False

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def analysis(self) -> Analysis | None:
        """Learns the vocabulary or the model of byte pairs; None if the features need neither."""
        options = self.options
        if options.splitter == "bpe" and "tokens" in options.output_features:
            return BpeAnalysis(options=options)
        return VocabularyAnalysis(options=options) if options.learns else None

    def row_check(self, *, balanced: bool = False) -> RowCheck | None:
        """Return the check of lengths, if there are limits."""
        del balanced
        return TextCheck(options=self.options) if self.options.filters else None

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record.

        Sizes of vocabularies are None until these are known.

        Raises:
            ConfigError: a column of the user has an unsupported type or the name of a feature.
        """
        if self.options.pack is not None:
            return self._pack_features(context)
        declared: Features = {}
        made = self._text_features(context)
        for column in text_columns(self.options):
            declared = merged(declared, self._named(column, made), where="input")
        if self.options.joins:
            declared = merged(declared, self._pair_features(context), where="input")
        if context.labels:
            label = {"label": label_feature(rows, unlabelled=self.unlabelled)}
            declared = merged(declared, label, where="input")
        return with_users(declared, self._user_fields(rows), where="input")

    @property
    def needed_columns(self) -> tuple[str, ...]:
        """Names of the columns of texts or conversations."""
        return analyzed_columns(self.options)

    def _user_fields(self, rows: pa.Schema) -> list[pa.Field]:
        return [field for field in user_fields(rows) if field.name not in self.needed_columns]

    def _named(self, column: str, made: Mapping[str, T]) -> dict[str, T]:
        """Return features of a text under the prefix of its column, if there are several texts."""
        if not self.options.text_columns:
            return dict(made)
        return {column if name == TEXT else f"{column}/{name}": made[name] for name in made}

    def _pair_features(self, context: Context) -> dict[str, Feature]:
        tokens = self._token_features(context)
        types = dataclasses.replace(tokens["tokens"], kind="value", size=None)
        return {**tokens, TYPE_IDS: types}

    def _pack_features(self, context: Context) -> dict[str, Feature]:
        shape = (self.options.pack,)
        tokens = Feature(dtype="int64", shape=shape, kind="index", size=self._ids(context).size)
        names = ["tokens/segments", "tokens/positions", *self._loss_masks]
        return {"tokens": tokens, **dict.fromkeys(names, Feature(dtype="int64", shape=shape))}

    @property
    def _loss_masks(self) -> tuple[str, ...]:
        """Name of the loss mask, if the texts are conversations."""
        return () if self.options.template is None else (LOSS_MASK,)

    def _ids(self, context: Context) -> TokenIds:
        return TokenIds(options=self.options, artifacts=context.artifacts)

    def _text_features(self, context: Context) -> dict[str, Feature]:
        options = self.options
        declared: dict[str, Feature] = {}
        lines = self._ids(context).lines
        indices = Feature(dtype="int64", shape=(None,), kind="index", size=lines)
        if "text" in options.output_features:
            declared["text"] = Feature(dtype="string", kind="text")
        if "tokens" in options.output_features and not options.joins:
            declared |= self._token_features(context)
        if "bow" in options.output_features:
            declared["bow/indices"] = indices
            declared["bow/counts"] = Feature(dtype="int64", shape=(None,))
        if "tfidf" in options.output_features and options.tfidf == "sparse":
            declared["tfidf/indices"] = indices
            declared["tfidf/values"] = Feature(dtype="float32", shape=(None,))
        elif "tfidf" in options.output_features:
            declared["tfidf"] = Feature(dtype="float32", shape=(lines,))
        if "embeddings" in options.output_features:
            width = load_embeddings(context.artifacts).width if NAME in context.artifacts else None
            tokens = () if options.pooling == "mean" else (options.max_length,)
            declared["embeddings"] = Feature(dtype="float32", shape=(*tokens, width))
        return declared

    def _token_features(self, context: Context) -> dict[str, Feature]:
        length = self.options.max_length
        size = self._ids(context).size
        tokens = Feature(dtype="int64", shape=(length,), kind="index", size=size)
        mask = Feature(dtype="int64", shape=(length,))
        declared = {"tokens": tokens, **dict.fromkeys(self._loss_masks, mask)}
        if length is not None:
            declared |= {"tokens/mask": mask, "tokens/length": Feature(dtype="int64")}
        return declared

    def versions(self) -> Mapping[str, str]:
        """Return the versions of the libraries and of Unicode that affect the features."""
        splitter = self.options.splitter
        if splitter in SUBWORDS:
            found = dict(library_version(self.options))
        else:
            found = {"pyarrow": pa.__version__} if splitter == "words" else {}
        if self.options.unicode != "none":
            found["unicode"] = unicode_tables.VERSION
        return found

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode all rows; invalid texts have been rejected by the source or a check."""
        options = self.options
        if options.pack is not None:
            return self._pack(rows, context)
        columns: dict[str, pa.Array] = {}
        several = self._texts(rows, context)
        single = not options.joins and options.template is None
        for column, texts in zip(text_columns(options), several, strict=True):
            made = {"text": texts} if "text" in options.output_features else {}
            if options.output_features != {"text"} and single:
                made |= self._token_columns(texts, context)
            columns |= self._named(column, made)
        if options.joins:
            columns |= self._pair_columns(several, context)
        if options.template is not None:
            columns |= self._chat_columns(rows, context)
        if context.labels:
            columns["label"] = label_columns(rows, context).numbers
        columns |= {field.name: rows[field.name] for field in self._user_fields(rows.schema)}
        kept = RowOutcome(kept=np.arange(len(rows)))
        return Encoded(columns=pa.RecordBatch.from_pydict(columns), rows=kept)

    def _texts(self, rows: pa.RecordBatch, context: Context) -> list[pa.StringArray]:
        """Return the texts of each column, normalized and augmented; conversations rendered."""
        options = self.options
        if options.template is not None:
            needed = "text" in options.output_features
            return [Turns.of(rows, options).texts(options.template)] if needed else [rows[TEXT]]
        return [
            augment_words(
                normalize(rows[column], options.unicode),
                rows,
                options.augment,
                seed=context.seed + place,
            )
            for place, column in enumerate(text_columns(options))
        ]

    def _pack(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode all texts as records of `options.pack` ids."""
        options, known = self.options, self._ids(context)
        assert options.pack is not None
        learned = None
        if options.template is None:
            ids, edges = known.of_texts(*self._texts(rows, context))
        else:
            ids, edges, learned = known.of_conversations(Turns.of(rows, options))
        if options.end_token is not None:
            if learned is not None:
                learned, _ = end_each(learned, edges, 0)
            ids, edges = end_each(ids, edges, known.of_token(options.end_token))
        packs = pack(ids, edges, length=options.pack, padding=known.padding, learned=learned)
        columns = {
            "tokens": fixed_lists(packs.ids),
            "tokens/segments": fixed_lists(packs.segments),
            "tokens/positions": fixed_lists(packs.positions),
        }
        if packs.learned is not None:
            columns[LOSS_MASK] = fixed_lists(packs.learned)
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=RowOutcome(kept=np.arange(len(rows))),
            names=packs.names(rows[batch.KEY]),
            filled=(packs.used, packs.ids.size),
        )

    def _pair_columns(
        self, several: Sequence[pa.StringArray], context: Context
    ) -> dict[str, pa.Array]:
        """Return the features of two joined texts."""
        known = self._ids(context)
        joined = known.of_pairs(*several)
        columns = self._id_columns(joined.ids, joined.offsets, known.padding)
        return {**columns, TYPE_IDS: self._id_flags(joined.types, joined.offsets)}

    def _chat_columns(self, rows: pa.RecordBatch, context: Context) -> dict[str, pa.Array]:
        """Return the tokens of conversations, and their loss mask."""
        known = self._ids(context)
        rendered = known.of_conversations(Turns.of(rows, self.options))
        columns = self._id_columns(rendered.ids, rendered.offsets, known.padding)
        return {**columns, LOSS_MASK: self._id_flags(rendered.learned, rendered.offsets)}

    def _tokens(self, texts: pa.StringArray) -> DictionaryStrings | None:
        """Split texts once for all features; None if no feature needs these tokens."""
        options = self.options
        if not options.learns and "embeddings" not in options.output_features:
            return None
        assert options.splitter is not None
        return tokenize(texts, options.splitter)

    def _token_columns(self, texts: pa.StringArray, context: Context) -> dict[str, pa.Array]:
        options = self.options
        tokens = self._tokens(texts)
        columns: dict[str, pa.Array] = {}
        if "tokens" in options.output_features:
            known = self._ids(context)
            found = known.of_texts(texts, tokens, max_length=options.max_length)
            columns |= self._id_columns(*found, known.padding)
        if "bow" in options.output_features or "tfidf" in options.output_features:
            assert tokens is not None
            lines = load_vocabulary(context.artifacts)
            columns |= self._term_columns(_count_lines(tokens, lines, ngrams=options.ngrams), lines)
        if "embeddings" in options.output_features:
            assert tokens is not None
            table = load_embeddings(context.artifacts)
            mean = options.pooling == "mean"
            columns["embeddings"] = (
                table.mean(tokens) if mean else table.of_tokens(tokens, length=options.max_length)
            )
        return columns

    def _id_columns(self, ids: Ints, offsets: Ints, padding: int) -> dict[str, pa.Array]:
        length = self.options.max_length
        if length is None:
            return {"tokens": list_array(ids, offsets)}
        table, sizes = padded(ids, offsets, length=length, fill=padding)
        mask = np.arange(length) < sizes[:, None]
        return {
            "tokens": fixed_lists(table),
            "tokens/mask": fixed_lists(mask.astype(np.int64)),
            "tokens/length": pa.array(sizes),
        }

    def _id_flags(self, flags: Ints, offsets: Ints) -> pa.Array:
        """Return a number per id as a column, padded as the ids are with zeros."""
        length = self.options.max_length
        if length is None:
            return list_array(flags, offsets)
        return fixed_lists(padded(flags, offsets, length=length, fill=0)[0])

    def _term_columns(self, counts: TermCounts, known: Vocabulary) -> dict[str, pa.Array]:
        columns = {}
        if "bow" in self.options.output_features:
            columns["bow/indices"] = list_array(counts.indices, counts.offsets)
            columns["bow/counts"] = list_array(counts.counts, counts.offsets)
        if "tfidf" in self.options.output_features:
            values = _weigh(counts, known, norm=self.options.tfidf_norm).astype(np.float32)
            if self.options.tfidf == "sparse":
                columns["tfidf/indices"] = list_array(counts.indices, counts.offsets)
                columns["tfidf/values"] = list_array(values, counts.offsets)
            else:
                dense = np.zeros((len(counts.offsets) - 1, len(known.lines)), np.float32)
                dense[counts.rows, counts.indices] = values
                columns["tfidf"] = fixed_lists(dense)
        return columns


def _count_lines(tokens: DictionaryStrings, known: Vocabulary, *, ngrams: int) -> TermCounts:
    """Return how often each line of the vocabulary occurs in each row, ignoring unknown terms."""
    terms = terms_of(tokens, ngrams=ngrams)
    lines = known.find(terms.distinct)[terms.codes]
    found = lines >= 0
    return count_by_row(
        lines[found],
        terms.rows[found],
        size=len(known.lines),
        number=len(tokens.offsets) - 1,
    )


def _weigh(counts: TermCounts, known: Vocabulary, *, norm: TfidfNorm) -> npt.NDArray[np.float64]:
    """Return the count of each term times its inverse document frequency, float64[k].

    norm: `l2` divides by the root of the row's sum of squares.
    """
    assert known.idf is not None
    values = counts.counts * known.idf[counts.indices]
    if norm == "none":
        return values
    rows = counts.rows
    squares = np.bincount(rows, weights=values**2, minlength=len(counts.offsets) - 1)
    return values / np.sqrt(squares)[rows]
