"""Options of the texts that are written."""

from __future__ import annotations

import dataclasses
import re
from typing import Annotated, Literal, get_args

from recordmill.errors import ConfigError
from recordmill.option_checks import Between, check_options
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.transforms.model.chat import TEMPLATES, ChatTemplate, TemplateName

Tokenizer = Literal["words", "whitespace", "chars", "bytes", "bpe", "huggingface", "sentencepiece"]
TextFeature = Literal["text", "tokens", "bow", "tfidf", "embeddings"]
Unicode = Literal["none", "nfc", "nfkc"]
Tfidf = Literal["sparse", "dense"]
TfidfNorm = Literal["l2", "none"]
Pooling = Literal["mean", "none"]
EdgeTokens = Literal["auto", "yes", "no"]
TextAugmentation = Literal["word-dropout", "word-swap"]
TextPairs = Literal["join", "separate"]

LEARNING: tuple[Tokenizer, ...] = ("words", "whitespace", "chars")  # have a learned vocabulary
FROM_FILE: tuple[Tokenizer, ...] = ("huggingface", "sentencepiece")
SUBWORDS: tuple[Tokenizer, ...] = ("bpe", *FROM_FILE)  # have a model, learned or given
UNKNOWN = "[UNK]"  # TensorFlow's name for tokens that are not in the vocabulary
BEGIN, SEPARATOR = "[CLS]", "[SEP]"  # BERT's names for the special tokens of joined texts
MAX_NGRAMS = 5

_Length = Annotated[int, Between(1, 2**31 - 1)]
_Count = Annotated[int, Between(1, 2**62)]
_Limit = Annotated[int, Between(0, 2**62)]

_BPE_TOKENS = re.compile("<pad>|<unk>|<0x[0-9A-F]{2}>")  # in every learned `bpe` model


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Tokenizer, features and limits of the texts that are written.

    Args:
      tokenizer: `words` are Unicode words in lower case; `whitespace` splits at ASCII whitespace
        and keeps the case; `chars` are code points; `bytes` are UTF-8 bytes; `bpe` are learned
        pieces of words; `huggingface` and `sentencepiece` use a file of the user. None: `words` if
        a feature needs tokens.
      features: `text`; `tokens`, their ids; `bow`, term counts; `tfidf`, weighted term counts;
        `embeddings`, word vectors. Empty: `tokens` if a tokenizer is given, else `text`.
      max_length: Number of ids of a record: more ids are cut, fewer are padded; None keeps all.
      vocab_size: Maximum number of learned tokens, without special tokens.
      min_frequency: Minimum count of a learned token in train.
      oov_buckets: Number of ids for unknown tokens, which share them by hash.
      special_tokens: Tokens with the first ids after the OOV buckets.
      ngrams: Maximum length of an n-gram that counts as a term of `bow` and `tfidf`.
      tfidf: `sparse` (indices and values) or `dense` (a number per line of the vocabulary).
      tfidf_norm: `l2` normalizes the weights of each record to length 1.
      pooling: `mean` writes the mean vector of a record's tokens, `none` all vectors.
      unicode: Unicode normalization, applied first.
      edge_tokens: Add the tokens for beginning and end of a tokenizer file; `auto` is the library's
        default: yes for huggingface, no for sentencepiece.
      min_chars, max_chars, min_tokens, max_tokens: Limits for records; others are left out.
        Characters are code points of the normalized text.
      augment: Augmentations of copies.
      pack: Number of ids of an Example that is filled with several texts; None writes an Example
        per text.
      end_token: Token after each packed text.
      chunk: Maximum number of tokens of a record; longer texts become several records.
      chunk_overlap: Number of tokens that a chunk shares with the previous one.
      text_columns: Columns with the texts of a record, if it has several.
      text_pairs: `join` makes one sequence of the tokens of two texts, `separate` makes features of
        each text. None is `join`.
      chat_column: Column with conversations; None for texts.
      chat_template: Template that renders conversations.

    Raises:
        ConfigError: A value is invalid, or an option has no effect or contradicts another one.
    """

    tokenizer: Tokenizer | None = None
    features: tuple[TextFeature, ...] = option(
        (),
        parse=values.some_of(*get_args(TextFeature)),
        repeat=True,
        metavar="NAME,...",
        help=f"Features of a record: {', '.join(get_args(TextFeature))}. Default: tokens with"
        " --tokenizer, embeddings with --embeddings, else text.",
    )
    max_length: _Length | None = option(
        None,
        metavar="TOKENS",
        help="Truncate or pad every record to this many tokens, and add a mask and the length.",
    )
    vocab_size: Annotated[int, Between(1, 2**31 - 1)] = option(
        20_000,
        help="Maximum number of tokens to learn from train; the most frequent are kept. Special"
        " tokens are added to them.",
    )
    min_frequency: _Count = option(
        1, help="Learn only tokens that occur at least this often in train."
    )
    oov_buckets: Annotated[int, Between(1, 2**31 - 1)] = option(
        1, help="Number of ids that out-of-vocabulary tokens share, by their hash."
    )
    special_tokens: tuple[str, ...] = option(
        (),
        parse=values.ordered_names,
        repeat=True,
        metavar="TOKEN,...",
        help="Special tokens; they get the first ids after padding and --oov-buckets.",
    )
    ngrams: Annotated[int, Between(1, MAX_NGRAMS)] = option(
        1, metavar="N", help="Use n-grams of up to N tokens as terms of bow and tfidf."
    )
    tfidf: Tfidf = option(
        "sparse",
        help="sparse: indices and values. dense: a vector with a number per vocabulary entry.",
    )
    tfidf_norm: TfidfNorm = option(
        "l2", help="l2 scales the TF-IDF vector of each record to length 1."
    )
    pooling: Pooling = option(
        "mean",
        help="mean: write the mean of the tokens' vectors. none: write the vector of each token.",
    )
    unicode: Unicode = option("none", help="Unicode normalization of the text, applied first.")
    edge_tokens: EdgeTokens = option(
        "auto",
        help="Whether to add the begin and end tokens of a tokenizer file. auto: yes for Hugging"
        " Face, no for SentencePiece, as in these libraries.",
    )
    min_chars: _Limit | None = option(None, help="Drop texts with fewer characters.")
    max_chars: _Limit | None = option(None, help="Drop texts with more characters.")
    min_tokens: _Limit | None = option(None, help="Drop texts with fewer tokens.")
    max_tokens: _Limit | None = option(None, help="Drop texts with more tokens.")
    augment: tuple[TextAugmentation, ...] = option(
        (),
        parse=values.some_of(*get_args(TextAugmentation)),
        repeat=True,
        metavar="NAME,...",
        help=f"Augmentations of oversampled copies: {', '.join(get_args(TextAugmentation))}.",
    )
    pack: _Length | None = option(
        None,
        after="edge_tokens",
        metavar="TOKENS",
        help="Pack texts into records of exactly this many tokens, for language models, and add"
        " tokens/segments and tokens/positions.",
    )
    end_token: str | None = option(
        None,
        after="pack",
        metavar="TOKEN",
        help="Token to append to each packed text: a token of the tokenizer file, or one of"
        " --special-tokens.",
    )
    chunk: _Length | None = option(
        None,
        after="end_token",
        metavar="TOKENS",
        help="Cut longer texts into records of up to this many tokens, all in the same split.",
    )
    chunk_overlap: int = option(
        0,
        after="chunk",
        metavar="TOKENS",
        help="Tokens that a chunk shares with the chunk before it.",
    )
    text_columns: tuple[str, ...] = option(
        (),
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns with the texts of a record, if it has several, such as question,answer.",
    )
    text_pairs: TextPairs | None = option(
        None,
        help="join: one sequence of the tokens of two texts, with [CLS], [SEP] and type ids."
        " separate: features of each text, under the name of its column. Default: join.",
    )
    chat_column: str | None = option(
        None,
        metavar="COLUMN",
        help="Column with conversations, such as messages: lists of role and content, or of from"
        " and value. Writes their tokens, and a loss mask, 1 for the assistant's messages.",
    )
    chat_template: TemplateName = option(
        "chatml", help="With --chat-column: the special tokens and texts around each message."
    )

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        self._check_lengths()
        self._check_pack()
        self._check_chunk()
        self._check_special_tokens()
        self._check_effect()
        self._check_pairs()
        self._check_chat()

    def _check_lengths(self) -> None:
        for unit in ("chars", "tokens"):
            least, most = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            if least is not None and most is not None and least > most:
                raise ConfigError(
                    f"{option_name(f'min_{unit}', least)}: expected at most"
                    f" {option_name(f'max_{unit}', most)}"
                )
        if self.counts_tokens and self.splitter in SUBWORDS:
            raise ConfigError(
                f"{option_name('min_tokens')}, {option_name('max_tokens')}: not available with a"
                f" subword tokenizer; use {option_name('min_chars')} or {option_name('max_chars')}"
            )
        if self.counts_tokens and self.splitter is None:
            raise ConfigError(
                f"{option_name('min_tokens')}, {option_name('max_tokens')}: require"
                f" {option_name('tokenizer')}; or use {option_name('min_chars')} or"
                f" {option_name('max_chars')}"
            )

    def _check_pack(self) -> None:
        if self.end_token is not None and self.pack is None:
            raise ConfigError(f"{option_name('end_token')}: requires {option_name('pack')}")
        if self.pack is None:
            return
        if self.output_features != {"tokens"}:
            raise ConfigError(
                f"{option_name('pack')}: writes tokens only; requires {option_name('tokenizer')},"
                f" and no {option_name('features')} but tokens"
            )
        if self.max_length is not None:
            raise ConfigError(
                f"{option_name('max_length')}: cuts texts, while {option_name('pack')} continues"
                " them in the next record: use only one of them"
            )
        if self.end_token is None or self.splitter in FROM_FILE:  # checked with the file
            return
        if self.end_token not in self.special_tokens:
            raise ConfigError(
                f"{option_name('end_token', self.end_token)}: has no id; add it to"
                f" {option_name('special_tokens')}"
            )

    def _check_chunk(self) -> None:
        if self.chunk is None:
            if self.chunk_overlap:
                raise ConfigError(
                    f"{option_name('chunk_overlap')}: requires {option_name('chunk')}"
                )
            return
        if self.splitter is None:
            raise ConfigError(f"{option_name('chunk')}: requires {option_name('tokenizer')}")
        if self.splitter == "bpe":
            raise ConfigError(
                f"{option_name('chunk')}: not available with {option_name('tokenizer', 'bpe')},"
                " which is learned after texts are cut; use another tokenizer, or the model file of"
                " an earlier run"
            )
        if self.splitter == "bytes" and self.chunk < 4:
            raise ConfigError(
                f"{option_name('chunk', self.chunk)}: expected 4 or more, as a character may be 4"
                " bytes"
            )
        # A character may have four tokens.
        most = self.chunk - (4 if self.splitter == "bytes" else 1)
        if not 0 <= self.chunk_overlap <= most:
            raise ConfigError(
                f"{option_name('chunk_overlap', self.chunk_overlap)}: expected 0 to {max(most, 0)},"
                " so that each chunk has new tokens"
            )

    def _check_pairs(self) -> None:
        if not self.text_columns:
            if self.text_pairs is not None:
                raise ConfigError(
                    f"{option_name('text_pairs', self.text_pairs)}: requires"
                    f" {option_name('text_columns')}"
                )
            return
        given = ",".join(self.text_columns)
        if len({*self.text_columns}) < max(len(self.text_columns), 2):
            raise ConfigError(
                f"{option_name('text_columns', given)}: expected two or more different columns,"
                f" such as question,answer; {option_name('text_column')} names a single one"
            )
        for name, value in (("pack", self.pack), ("chunk", self.chunk)):
            if value is not None:
                raise ConfigError(
                    f"{option_name(name)}: divides single texts, and"
                    f" {option_name('text_columns')} gives a record several: leave one of them out"
                )
        others = sorted(self.output_features - {"text", "tokens"})
        if others and (self.joins or self.text_pairs == "join"):
            raise ConfigError(
                f"{option_name('features', others[0])}: needs single texts, and the tokens of"
                f" {option_name('text_columns')} are joined; use"
                f" {option_name('text_pairs', 'separate')}"
            )
        if not self.joins:
            return
        if len(self.text_columns) > 2:
            raise ConfigError(
                f"{option_name('text_columns', given)}: only two texts can be joined; use"
                f" {option_name('text_pairs', 'separate')}"
            )
        least = len(self.reserved_tokens) and 5  # three special tokens, and one of each text
        if self.max_length is not None and self.max_length < least:
            raise ConfigError(
                f"{option_name('max_length', self.max_length)}: expected {least} or more, for"
                f" {BEGIN}, two {SEPARATOR} and a token of each text"
            )

    def _check_chat(self) -> None:
        if self.chat_column is None:
            return
        if "tokens" not in self.output_features:
            raise ConfigError(
                f"{option_name('chat_column', self.chat_column)}: requires"
                f" {option_name('tokenizer')}, because the loss mask has a value for each token"
            )
        if self.splitter in ("bpe", "sentencepiece"):
            raise ConfigError(
                f"{option_name('chat_column', self.chat_column)}: not available with a"
                " SentencePiece model, which adds a space before each part of a conversation; use"
                " a Hugging Face tokenizer.json, or a built-in tokenizer other than bpe"
            )

    def _check_special_tokens(self) -> None:
        for token in self.special_tokens:
            if not token or "\n" in token or "\r" in token:
                raise ConfigError(
                    f"{option_name('special_tokens')}: expected tokens without line breaks, got"
                    f" {token!r}"
                )
            if token == UNKNOWN:
                raise ConfigError(
                    f"{option_name('special_tokens')}: {UNKNOWN} already has the id 1; remove it"
                )
            if self.special_tokens.count(token) > 1:
                raise ConfigError(f"{option_name('special_tokens')}: {token!r} is given twice")

    def _check_effect(self) -> None:
        """Check that every option has an effect, given the others."""
        terms = {"bow", "tfidf"} & self.output_features
        if terms and self.splitter not in LEARNING:
            raise ConfigError(
                f"{option_name('features', min(terms))}: requires a learned vocabulary, which"
                f" {option_name('tokenizer', self.splitter)} does not have; use one of"
                f" {', '.join(LEARNING)}"
            )
        used = self.counts_tokens or self.chunk is not None
        if "embeddings" in self.output_features and self.splitter not in LEARNING:
            raise ConfigError(
                f"{option_name('features')} embeddings: requires whole words, and"
                f" {option_name('tokenizer', self.splitter)} splits them; use one of"
                f" {', '.join(LEARNING)}"
            )
        if self.tokenizer is not None and self.output_features == {"text"} and not used:
            raise ConfigError(
                f"{option_name('tokenizer', self.tokenizer)}: has no effect with"
                f" {option_name('features', 'text')}; add tokens to {option_name('features')}, or"
                " remove one of them"
            )
        by_token = "embeddings" in self.output_features and self.pooling == "none"
        has_tokens = "tokens" in self.output_features or by_token
        has_vectors = "embeddings" in self.output_features
        has_weights = "tfidf" in self.output_features
        for named, is_given, feature, counts in (
            (("max_length",), self.max_length is not None, "tokens", has_tokens),
            (("pooling", "none"), self.pooling == "none", "embeddings", has_vectors),
            (("ngrams",), self.ngrams > 1, "tfidf", bool(terms)),
            (("tfidf", "dense"), self.tfidf == "dense", "tfidf", has_weights),
            (("tfidf_norm", "none"), self.tfidf_norm == "none", "tfidf", has_weights),
        ):
            if is_given and not counts:
                raise ConfigError(
                    f"{option_name(*named)}: has no effect without the feature {feature}; add it"
                    f" to {option_name('features')}"
                )
        for name in ("vocab_size", "min_frequency", "oov_buckets"):
            can = LEARNING if name == "oov_buckets" else (*LEARNING, "bpe")
            learns = self.learns or (self.splitter == "bpe" and "bpe" in can)
            if getattr(self, name) != _DEFAULTS[name] and not learns:
                raise ConfigError(
                    f"{option_name(name)}: requires a learned vocabulary; use"
                    f" {option_name('tokenizer')} {', '.join(can[:-1])} or {can[-1]}"
                )
        if self.splitter == "bpe" and self.vocab_size < 512:
            raise ConfigError(
                f"{option_name('vocab_size', self.vocab_size)}: expected 512 or more with"
                f" {option_name('tokenizer', 'bpe')}, because 256 pieces are bytes"
            )
        taken = [token for token in self.special_tokens if _BPE_TOKENS.fullmatch(token)]
        if self.splitter == "bpe" and taken:
            raise ConfigError(
                f"{option_name('special_tokens')}: {taken[0]} already has an id with"
                f" {option_name('tokenizer', 'bpe')}; remove it"
            )
        if self.special_tokens and not self.learns and self.splitter not in ("bytes", "bpe"):
            raise ConfigError(
                f"{option_name('special_tokens')}: requires a built-in tokenizer; a tokenizer file"
                f" has its own special tokens, and {option_name('features', 'text')} has none"
            )
        if self.edge_tokens != "auto" and self.splitter not in FROM_FILE:
            raise ConfigError(
                f"{option_name('edge_tokens', self.edge_tokens)}: requires a tokenizer file, a"
                f" tokenizer.json or a SentencePiece model, in {option_name('tokenizer')}"
            )

    @property
    def output_features(self) -> frozenset[TextFeature]:
        """Features of a record."""
        if self.features:
            return frozenset(self.features)
        return frozenset({"text"} if self.tokenizer is None else {"tokens"})

    @property
    def splitter(self) -> Tokenizer | None:
        """Tokenizer in use; None if no feature needs one."""
        if self.tokenizer is None and self.output_features != {"text"}:
            return "words"
        return self.tokenizer

    @property
    def learns(self) -> bool:
        """True if a vocabulary of whole tokens is learned from train."""
        return self.splitter in LEARNING and not self.output_features <= {"text", "embeddings"}

    @property
    def joins(self) -> bool:
        """True if the tokens of two texts become one sequence."""
        tokens = "tokens" in self.output_features
        return bool(self.text_columns) and self.text_pairs != "separate" and tokens

    @property
    def reserved_tokens(self) -> tuple[str, ...]:
        """Special tokens with ids before those of the vocabulary, also those that join texts."""
        if self.splitter in FROM_FILE:
            return self.special_tokens
        needed: tuple[str, ...] = (BEGIN, SEPARATOR) if self.joins else ()
        needed = needed if self.template is None else self.template.tokens
        own = [token for token in needed if token not in self.special_tokens]
        return (*own, *self.special_tokens)

    @property
    def template(self) -> ChatTemplate | None:
        """Template of conversations; None for texts."""
        return None if self.chat_column is None else TEMPLATES[self.chat_template]

    @property
    def counts_tokens(self) -> bool:
        """True if records are left out by their number of tokens."""
        return self.min_tokens is not None or self.max_tokens is not None

    @property
    def filters(self) -> bool:
        """True if records are left out by their length."""
        return self.counts_tokens or self.min_chars is not None or self.max_chars is not None


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(TextOptions)}
