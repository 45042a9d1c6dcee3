"""How text shall come out, validated once and in the words of the command line."""

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

LEARNING: tuple[Tokenizer, ...] = ("words", "whitespace", "chars")  # whose vocabulary is learned
FROM_FILE: tuple[Tokenizer, ...] = ("huggingface", "sentencepiece")
SUBWORDS: tuple[Tokenizer, ...] = ("bpe", *FROM_FILE)  # of a model, learned or given
UNKNOWN = "[UNK]"  # what TensorFlow calls a token that is not in the vocabulary
MAX_NGRAMS = 5

_OF_PIECES = re.compile("<pad>|<unk>|<0x[0-9A-F]{2}>")  # that every learned `bpe` has


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextOptions:
    """How a text shall come out.

    tokenizer: what splits it. `words` by Unicode's word boundaries, in lower case; `whitespace`
      where ASCII whitespace is, case as it is; `chars` code points; `bytes` of UTF-8; `bpe` pieces
      of words that are learned; huggingface and sentencepiece as a file of the user's says. None:
      `words` where a feature needs tokens.
    features: what a record holds: `text`; `tokens`, their ids; `bow`, how often which token comes;
      `tfidf`, that weighted; `embeddings`, vectors of a table. Empty: `tokens` where there is a
      tokenizer, else `text`.
    max_length: ids of a record, the rest is cut off or padded; None: as many as there are.
    vocab_size: tokens that are learned, at most, the most frequent; special ones come on top.
    min_frequency: times that a token comes in train at least, to be learned.
    oov_buckets: ids for tokens that are not in the vocabulary, shared by their hash.
    special_tokens: that get the first ids after those.
    ngrams: up to how many tokens next to each other count as one of `bow` and `tfidf`.
    tfidf: `sparse` (indices and values) or `dense` (a number per line of the vocabulary).
    tfidf_norm: `l2` gives every record's weights the length 1.
    pooling: `mean` gives a record the mean of its tokens' vectors, `none` all of them.
    unicode: the normalisation of the text, before all else.
    edge_tokens: whether a tokenizer's file adds its tokens for beginning and end; `auto` as its
      library does by itself: huggingface yes, sentencepiece no.
    min_chars, max_chars, min_tokens, max_tokens: records of less or more are left out. Characters
      are code points of the normalised text.
    augment: what changes in the copies of a record.
    pack: ids of a record that is filled with text after text; None: a record per text.
    end_token: that stands behind each text in there.
    chunk: tokens of a record, at most: of a longer text several are made. chunk_overlap: tokens
      that such a record has from the one before it.
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
        self._check_what_counts()

    def _check_lengths(self) -> None:
        for unit in ("chars", "tokens"):
            least, most = getattr(self, f"min_{unit}"), getattr(self, f"max_{unit}")
            _expect_between(f"--min-{unit}", least, 0, 2**62)
            _expect_between(f"--max-{unit}", most, 0, 2**62)
            if least is not None and most is not None and least > most:
                raise ConfigError(
                    f"--min-{unit} {least}: is more than --max-{unit} {most}, which leaves nothing"
                )
        if self.counts_tokens and self.splitter in SUBWORDS:
            raise ConfigError(
                "--min-tokens, --max-tokens: lengths are checked before a tokenizer's model is at "
                "hand; take --min-chars or --max-chars"
            )
        if self.counts_tokens and self.splitter is None:
            raise ConfigError(
                "--min-tokens, --max-tokens: say which tokens, with --tokenizer, or take "
                "--min-chars or --max-chars"
            )

    def _check_pack(self) -> None:
        if self.end_token is not None and self.pack is None:
            raise ConfigError("--end-token: stands between packed texts; add --pack")
        if self.pack is None:
            return
        if self.outcome != {"tokens"}:
            raise ConfigError(
                "--pack: fills records with tokens, and only with them; name a --tokenizer, and no "
                "other --features"
            )
        if self.max_length is not None:
            raise ConfigError(
                "--max-length: cuts texts off, and --pack goes on in the next record: leave one out"
            )
        if self.end_token is None or self.splitter in FROM_FILE:  # which is asked once it is read
            return
        if self.end_token not in self.special_tokens:
            raise ConfigError(
                f"--end-token {self.end_token}: has no id; name it among the --special-tokens too"
            )

    def _check_chunk(self) -> None:
        if self.chunk is None:
            if self.chunk_overlap:
                raise ConfigError("--chunk-overlap: is of chunks, and there are none; add --chunk")
            return
        if self.splitter is None:
            raise ConfigError("--chunk: counts tokens; say which, with --tokenizer")
        if self.splitter == "bpe":
            raise ConfigError(
                "--chunk: texts are cut before --tokenizer bpe is learned; take another one, or "
                "the model of an earlier run as a file"
            )
        if self.splitter == "bytes" and self.chunk < 4:
            raise ConfigError(
                f"--chunk {self.chunk}: expected 4 or more, as a character may be 4 bytes"
            )
        # A character may be four of the tokens.
        most = self.chunk - (4 if self.splitter == "bytes" else 1)
        if not 0 <= self.chunk_overlap <= most:
            raise ConfigError(
                f"--chunk-overlap {self.chunk_overlap}: expected 0 to {max(most, 0)}, so that a "
                "chunk has something new"
            )

    def _check_special_tokens(self) -> None:
        for token in self.special_tokens:
            if not token or "\n" in token or "\r" in token:
                raise ConfigError(
                    f"--special-tokens: expected tokens that can stand in a line, got {token!r}"
                )
            if token == UNKNOWN:
                raise ConfigError(
                    f"--special-tokens: {UNKNOWN} has an id already, which is 1; leave it out"
                )
            if self.special_tokens.count(token) > 1:
                raise ConfigError(f"--special-tokens: {token!r} stands there twice")

    def _check_what_counts(self) -> None:
        """Whether every option says something, given the others."""
        terms = {"bow", "tfidf"} & self.outcome
        if terms and self.splitter not in LEARNING:
            raise ConfigError(
                f"--features {min(terms)}: is of a vocabulary that is learned, which --tokenizer "
                f"{self.splitter} has not; take one of {', '.join(LEARNING)}"
            )
        used = self.counts_tokens or self.chunk is not None
        if "embeddings" in self.outcome and self.splitter not in LEARNING:
            raise ConfigError(
                f"--features embeddings: are of words, and --tokenizer {self.splitter} makes parts "
                f"of them; take one of {', '.join(LEARNING)}"
            )
        if self.tokenizer is not None and self.outcome == {"text"} and not used:
            raise ConfigError(
                f"--tokenizer {self.tokenizer}: says nothing with --features text; add tokens to "
                "--features, or leave one of them out"
            )
        by_token = "embeddings" in self.outcome and self.pooling == "none"
        wanting = {"--max-length": "tokens", "--pooling none": "embeddings"}
        given = [
            ("--max-length", self.max_length is not None, "tokens" in self.outcome or by_token),
            ("--pooling none", self.pooling == "none", "embeddings" in self.outcome),
            ("--ngrams", self.ngrams > 1, bool(terms)),
            ("--tfidf dense", self.tfidf == "dense", "tfidf" in self.outcome),
            ("--tfidf-norm none", self.tfidf_norm == "none", "tfidf" in self.outcome),
        ]
        for option, is_given, counts in given:
            if is_given and not counts:
                wanted = wanting.get(option, "tfidf")
                raise ConfigError(
                    f"{option}: says nothing without that feature; add {wanted} to --features"
                )
        for name in ("vocab_size", "min_frequency", "oov_buckets"):
            can = LEARNING if name == "oov_buckets" else (*LEARNING, "bpe")
            learns = self.learns or (self.splitter == "bpe" and "bpe" in can)
            if getattr(self, name) != _DEFAULTS[name] and not learns:
                raise ConfigError(
                    f"--{name.replace('_', '-')}: is about a vocabulary that is learned, and none "
                    f"is; take --tokenizer {', '.join(can[:-1])} or {can[-1]}"
                )
        if self.splitter == "bpe" and self.vocab_size < 512:
            raise ConfigError(
                f"--vocab-size {self.vocab_size}: expected 512 and more with --tokenizer bpe, as "
                "its first pieces are the 256 bytes"
            )
        taken = [token for token in self.special_tokens if _OF_PIECES.fullmatch(token)]
        if self.splitter == "bpe" and taken:
            raise ConfigError(
                f"--special-tokens: {taken[0]} has an id already with --tokenizer bpe; leave it out"
            )
        if self.special_tokens and not self.learns and self.splitter not in ("bytes", "bpe"):
            raise ConfigError(
                "--special-tokens: get ids of ours, and there are none; a tokenizer's file has its "
                "own, and text has none"
            )
        if self.edge_tokens != "auto" and self.splitter not in FROM_FILE:
            raise ConfigError(
                f"--edge-tokens {self.edge_tokens}: is about a tokenizer's file, a tokenizer.json "
                "or a SentencePiece model, and --tokenizer names none"
            )

    @property
    def outcome(self) -> frozenset[TextFeature]:
        """The features that a record holds."""
        if self.features:
            return frozenset(self.features)
        return frozenset({"text"} if self.tokenizer is None else {"tokens"})

    @property
    def splitter(self) -> Tokenizer | None:
        """The tokenizer in use; None where nothing needs one."""
        if self.tokenizer is None and self.outcome != {"text"}:
            return "words"
        return self.tokenizer

    @property
    def learns(self) -> bool:
        """Whether a vocabulary of whole tokens is learned from train."""
        return self.splitter in LEARNING and not self.outcome <= {"text", "embeddings"}

    @property
    def counts_tokens(self) -> bool:
        """Whether records are left out by their number of tokens."""
        return self.min_tokens is not None or self.max_tokens is not None

    @property
    def filters(self) -> bool:
        """Whether records are left out by their length."""
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
