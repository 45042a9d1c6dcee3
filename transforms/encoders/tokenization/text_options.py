"""Options of the texts that are written, validated in the words of the command line."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection
from typing import Any, Literal, get_args

from recordmill.errors import ConfigError

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

_BPE_TOKENS = re.compile("<pad>|<unk>|<0x[0-9A-F]{2}>")  # in every learned `bpe` model


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """Tokenizer, features and limits of the texts that are written.

    Args:
      tokenizer: `words` are Unicode words in lower case; `whitespace` splits at ASCII whitespace
        and keeps the case; `chars` are code points; `bytes` are those of UTF-8; `bpe` are learned
        pieces of words; `huggingface` and `sentencepiece` use a file of the user. None: `words` if
        a feature needs tokens.
      features: `text`; `tokens`, their ids; `bow`, term counts; `tfidf`, weighted term counts;
        `embeddings`, word vectors. Empty: `tokens` if a tokenizer is given, else `text`.
      max_length: Number of ids of a record, which are cut or padded; None keeps all.
      vocab_size: Greatest number of learned tokens, without special tokens.
      min_frequency: Least count of a learned token in train.
      oov_buckets: Number of ids for unknown tokens, which share them by hash.
      special_tokens: Tokens with the first ids after the OOV buckets.
      ngrams: Greatest length of an n-gram that counts as a term of `bow` and `tfidf`.
      tfidf: `sparse` (indices and values) or `dense` (a number per line of the vocabulary).
      tfidf_norm: `l2` normalizes the weights of each record to length 1.
      pooling: `mean` writes the mean vector of a record's tokens, `none` all vectors.
      unicode: Unicode normalization, applied first.
      edge_tokens: Add the tokens for beginning and end of a tokenizer file; `auto` is the library's
        default: yes for huggingface, no for sentencepiece.
      min_chars, max_chars, min_tokens, max_tokens: Limits for records; others are left out.
        Characters are code points of the normalized text.
      augment: Augmentations of copies.
      pack: Number of ids of a record that is filled with several texts; None writes a record per
        text.
      end_token: Token after each packed text.
      chunk: Greatest number of tokens of a record; longer texts become several records.
      chunk_overlap: Number of tokens that a chunk shares with the previous one.
      text_columns: Columns with the texts of a record, if it has several.
      text_pairs: `join` makes one sequence of the tokens of two texts, `separate` makes features of
        each text; by default `join`.

    Raises:
        ConfigError: A value is invalid, or an option has no effect or contradicts another one.
    """

    tokenizer: Tokenizer | None = None
    features: tuple[TextFeature, ...] = ()
    max_length: int | None = None
    vocab_size: int = 20_000
    min_frequency: int = 1
    oov_buckets: int = 1
    special_tokens: tuple[str, ...] = ()
    ngrams: int = 1
    tfidf: Tfidf = "sparse"
    tfidf_norm: TfidfNorm = "l2"
    pooling: Pooling = "mean"
    unicode: Unicode = "none"
    edge_tokens: EdgeTokens = "auto"
    min_chars: int | None = None
    max_chars: int | None = None
    min_tokens: int | None = None
    max_tokens: int | None = None
    augment: tuple[TextAugmentation, ...] = ()
    pack: int | None = None
    end_token: str | None = None
    chunk: int | None = None
    chunk_overlap: int = 0
    text_columns: tuple[str, ...] = ()
    text_pairs: TextPairs | None = None

    def __post_init__(self) -> None:
        if self.tokenizer is not None:
            _expect_one_of("--tokenizer", self.tokenizer, Tokenizer)
        _expect_some_of("--features", self.features, TextFeature)
        _expect_one_of("--tfidf", self.tfidf, Tfidf)
        _expect_one_of("--tfidf-norm", self.tfidf_norm, TfidfNorm)
        _expect_one_of("--pooling", self.pooling, Pooling)
        _expect_one_of("--unicode", self.unicode, Unicode)
        _expect_one_of("--edge-tokens", self.edge_tokens, EdgeTokens)
        _expect_some_of("--augment", self.augment, TextAugmentation)
        _expect_between("--vocab-size", self.vocab_size, 1, 2**31 - 1)
        _expect_between("--min-frequency", self.min_frequency, 1, 2**62)
        _expect_between("--oov-buckets", self.oov_buckets, 1, 2**31 - 1)
        _expect_between("--ngrams", self.ngrams, 1, MAX_NGRAMS)
        _expect_between("--max-length", self.max_length, 1, 2**31 - 1)
        _expect_between("--pack", self.pack, 1, 2**31 - 1)
        _expect_between("--chunk", self.chunk, 1, 2**31 - 1)
        self._check_lengths()
        self._check_pack()
        self._check_chunk()
        self._check_special_tokens()
        self._check_effect()
        self._check_pairs()

    def _check_lengths(self) -> None:
        for unit in ("chars", "tokens"):
            least, most = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            _expect_between(f"--min-{unit}", least, 0, 2**62)
            _expect_between(f"--max-{unit}", most, 0, 2**62)
            if least is not None and most is not None and least > most:
                raise ConfigError(f"--min-{unit} {least}: expected at most --max-{unit} {most}")
        if self.counts_tokens and self.splitter in SUBWORDS:
            raise ConfigError(
                "--min-tokens, --max-tokens: not available with a subword tokenizer; use "
                "--min-chars or --max-chars"
            )
        if self.counts_tokens and self.splitter is None:
            raise ConfigError(
                "--min-tokens, --max-tokens: require --tokenizer; or use --min-chars or --max-chars"
            )

    def _check_pack(self) -> None:
        if self.end_token is not None and self.pack is None:
            raise ConfigError("--end-token: requires --pack")
        if self.pack is None:
            return
        if self.output_features != {"tokens"}:
            raise ConfigError(
                "--pack: writes tokens only; requires --tokenizer, and no --features but tokens"
            )
        if self.max_length is not None:
            raise ConfigError(
                "--max-length: cuts texts, while --pack continues them in the next record: use only"
                " one of them"
            )
        if self.end_token is None or self.splitter in FROM_FILE:  # checked with the file
            return
        if self.end_token not in self.special_tokens:
            raise ConfigError(
                f"--end-token {self.end_token}: has no id; add it to --special-tokens"
            )

    def _check_chunk(self) -> None:
        if self.chunk is None:
            if self.chunk_overlap:
                raise ConfigError("--chunk-overlap: requires --chunk")
            return
        if self.splitter is None:
            raise ConfigError("--chunk: requires --tokenizer")
        if self.splitter == "bpe":
            raise ConfigError(
                "--chunk: not available with --tokenizer bpe, which is learned after texts are cut;"
                " use another tokenizer, or the model file of an earlier run"
            )
        if self.splitter == "bytes" and self.chunk < 4:
            raise ConfigError(
                f"--chunk {self.chunk}: expected 4 or more, as a character may be 4 bytes"
            )
        # A character may have four tokens.
        most = self.chunk - (4 if self.splitter == "bytes" else 1)
        if not 0 <= self.chunk_overlap <= most:
            raise ConfigError(
                f"--chunk-overlap {self.chunk_overlap}: expected 0 to {max(most, 0)}, so that each "
                "chunk has new tokens"
            )

    def _check_pairs(self) -> None:
        if not self.text_columns:
            if self.text_pairs is not None:
                raise ConfigError(f"--text-pairs {self.text_pairs}: requires --text-columns")
            return
        given = ",".join(self.text_columns)
        if len({*self.text_columns}) < max(len(self.text_columns), 2):
            raise ConfigError(
                f"--text-columns {given}: expected two or more different columns, such as"
                " question,answer; --text-column names a single one"
            )
        for option, value in (("--pack", self.pack), ("--chunk", self.chunk)):
            if value is not None:
                raise ConfigError(
                    f"{option}: divides single texts, and --text-columns gives a record several:"
                    " leave one of them out"
                )
        others = sorted(self.output_features - {"text", "tokens"})
        if others and (self.joins or self.text_pairs == "join"):
            raise ConfigError(
                f"--features {others[0]}: needs single texts, and the tokens of --text-columns"
                " are joined; use --text-pairs separate"
            )
        if not self.joins:
            return
        if len(self.text_columns) > 2:
            raise ConfigError(
                f"--text-columns {given}: only two texts can be joined; use --text-pairs separate"
            )
        least = len(self.reserved_tokens) and 5  # three special tokens, and one of each text
        if self.max_length is not None and self.max_length < least:
            raise ConfigError(
                f"--max-length {self.max_length}: expected {least} or more, for {BEGIN}, two"
                f" {SEPARATOR} and a token of each text"
            )

    def _check_special_tokens(self) -> None:
        for token in self.special_tokens:
            if not token or "\n" in token or "\r" in token:
                raise ConfigError(
                    f"--special-tokens: expected tokens without line breaks, got {token!r}"
                )
            if token == UNKNOWN:
                raise ConfigError(f"--special-tokens: {UNKNOWN} already has the id 1; remove it")
            if self.special_tokens.count(token) > 1:
                raise ConfigError(f"--special-tokens: {token!r} is given twice")

    def _check_effect(self) -> None:
        """Check that every option has an effect, given the others."""
        terms = {"bow", "tfidf"} & self.output_features
        if terms and self.splitter not in LEARNING:
            raise ConfigError(
                f"--features {min(terms)}: requires a learned vocabulary, which --tokenizer "
                f"{self.splitter} does not have; use one of {', '.join(LEARNING)}"
            )
        used = self.counts_tokens or self.chunk is not None
        if "embeddings" in self.output_features and self.splitter not in LEARNING:
            raise ConfigError(
                f"--features embeddings: requires whole words, and --tokenizer {self.splitter} "
                f"splits them; use one of {', '.join(LEARNING)}"
            )
        if self.tokenizer is not None and self.output_features == {"text"} and not used:
            raise ConfigError(
                f"--tokenizer {self.tokenizer}: has no effect with --features text; add tokens to "
                "--features, or remove one of them"
            )
        by_token = "embeddings" in self.output_features and self.pooling == "none"
        wanting = {"--max-length": "tokens", "--pooling none": "embeddings"}
        given = [
            (
                "--max-length",
                self.max_length is not None,
                "tokens" in self.output_features or by_token,
            ),
            ("--pooling none", self.pooling == "none", "embeddings" in self.output_features),
            ("--ngrams", self.ngrams > 1, bool(terms)),
            ("--tfidf dense", self.tfidf == "dense", "tfidf" in self.output_features),
            ("--tfidf-norm none", self.tfidf_norm == "none", "tfidf" in self.output_features),
        ]
        for option, is_given, counts in given:
            if is_given and not counts:
                wanted = wanting.get(option, "tfidf")
                raise ConfigError(
                    f"{option}: has no effect without the feature {wanted}; add it to --features"
                )
        for name in ("vocab_size", "min_frequency", "oov_buckets"):
            can = LEARNING if name == "oov_buckets" else (*LEARNING, "bpe")
            learns = self.learns or (self.splitter == "bpe" and "bpe" in can)
            if getattr(self, name) != _DEFAULTS[name] and not learns:
                raise ConfigError(
                    f"--{name.replace('_', '-')}: requires a learned vocabulary; use --tokenizer "
                    f"{', '.join(can[:-1])} or {can[-1]}"
                )
        if self.splitter == "bpe" and self.vocab_size < 512:
            raise ConfigError(
                f"--vocab-size {self.vocab_size}: expected 512 or more with --tokenizer bpe, "
                "because 256 pieces are bytes"
            )
        taken = [token for token in self.special_tokens if _BPE_TOKENS.fullmatch(token)]
        if self.splitter == "bpe" and taken:
            raise ConfigError(
                f"--special-tokens: {taken[0]} already has an id with --tokenizer bpe; remove it"
            )
        if self.special_tokens and not self.learns and self.splitter not in ("bytes", "bpe"):
            raise ConfigError(
                "--special-tokens: requires a built-in tokenizer; a tokenizer file has its own "
                "special tokens, and --features text has none"
            )
        if self.edge_tokens != "auto" and self.splitter not in FROM_FILE:
            raise ConfigError(
                f"--edge-tokens {self.edge_tokens}: requires a tokenizer file, a tokenizer.json or "
                "a SentencePiece model, in --tokenizer"
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
        """Special tokens with ids before those of the vocabulary, also those of joined texts."""
        if not self.joins or self.splitter in FROM_FILE:
            return self.special_tokens
        own = [token for token in (BEGIN, SEPARATOR) if token not in self.special_tokens]
        return (*own, *self.special_tokens)

    @property
    def counts_tokens(self) -> bool:
        """True if records are left out by their number of tokens."""
        return self.min_tokens is not None or self.max_tokens is not None

    @property
    def filters(self) -> bool:
        """True if records are left out by their length."""
        return self.counts_tokens or self.min_chars is not None or self.max_chars is not None


_DEFAULTS = {field.name: field.default for field in dataclasses.fields(TextOptions)}


def _expect_one_of(option: str, value: str, choices: Any) -> None:
    if value not in get_args(choices):
        raise ConfigError(f"{option}: expected one of {', '.join(get_args(choices))}, got {value}")


def _expect_some_of(option: str, values: Collection[str], choices: Any) -> None:
    for value in values:
        if value not in get_args(choices):
            raise ConfigError(
                f"{option}: expected some of {', '.join(get_args(choices))}, got {value}"
            )


def _expect_between(option: str, value: int | None, low: int, high: int) -> None:
    if value is not None and not low <= value <= high:
        raise ConfigError(f"{option}: expected {low} to {high}, got {value}")
