"""TokenizeText: tokens of texts, with a vocabulary learned from train."""

import dataclasses
import hashlib
from collections.abc import Callable, Sequence
from typing import TypeVar

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError, did_you_mean
from recordmill.option_checks import options_of
from recordmill.storage.files import Location, PathError
from recordmill.transforms.encoders.artifacts import vocabulary_lines
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.tokenization.subwords import (
    check_tokenizer_file,
    read_tokenizer_file,
)
from recordmill.transforms.encoders.tokenization.text_options import TextFeature, TextOptions
from recordmill.transforms.encoders.tokenization.vocabulary import TEXT, TOKENS_FILE
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.staged.records import RecordValues, Values, values_of
from recordmill.transforms.staged.step_order import VALUES, OrderedStep

T = TypeVar("T")

_BY_NAME = ("words", "whitespace", "chars", "bytes", "bpe")  # tokenizers without a file


def _named_text(rows: pa.RecordBatch, column: str) -> pa.RecordBatch:
    """Return rows whose text column has the name that the encoder reads."""
    names = rows.schema.names
    if column not in names:
        raise ConfigError(
            f"TokenizeText: text_column: expected a column of the records, got {column!r}: they"
            f" have {', '.join(names)}"
        )
    if TEXT in names:
        raise ConfigError(
            f"TokenizeText: text_column: {column!r} is renamed to {TEXT!r}, but the records have a"
            f" column {TEXT!r} already: rename or drop that column"
        )
    renamed = rows.rename_columns([TEXT if name == column else name for name in names])
    return renamed.replace_schema_metadata(rows.schema.metadata)


@dataclasses.dataclass(eq=False)
class TokenizeText(OrderedStep):
    """Select tokens as the features of texts: batches or `RecordValues` in, `RecordValues` out.

    `WriteToTFRecord` learns the vocabulary, from the records of train alone and before balancing,
    and tokenizes in its encoder processes. `EncodeExamples(TextEncoder(...))` has further options.

    Args:
      tokenizer: `words` (lower-cased Unicode words), `whitespace`, `chars`, `bytes`, `bpe` (byte
        pair encoding, learned), or a Hugging Face tokenizer.json or SentencePiece .model.
      features: Some of `tokens` (int64[n]), `bow`, `tfidf` and `text`.
      text_column: Column with the texts, strings.
      max_length: Number of tokens of a record: longer records are cut, shorter ones are padded, and
        a mask marks the padding. Default: all tokens, without padding.
      vocab_size: Maximum number of learned tokens; the most frequent are kept.
      min_frequency: Minimum count of a learned token in train.
      oov_buckets: Number of ids that unknown tokens share.
      special_tokens: Tokens with the first ids.
      ngrams: Maximum length of the n-grams that `bow` and `tfidf` count.
      vocabulary: Vocabulary file with a token per line, such as tokens.txt of an earlier dataset.
        Default: the vocabulary is learned.

    Raises:
      ConfigError: An option is invalid or has no effect, or a file cannot be read.

    Example::

        pipeline | ReadText("reviews/") | TokenizeText("words", max_length=128)
    """

    takes = VALUES

    tokenizer: str = "words"
    _: dataclasses.KW_ONLY
    features: Sequence[TextFeature] = ("tokens",)
    text_column: str = TEXT
    max_length: int | None = None
    vocab_size: int = 20_000
    min_frequency: int = 1
    oov_buckets: int = 1
    special_tokens: Sequence[str] = ()
    ngrams: int = 1
    vocabulary: str | None = None

    def _check_together(self) -> None:
        self._artifacts: dict[str, Artifact] = {}
        name = self.tokenizer
        file = None
        if name not in _BY_NAME:
            if not isinstance(name, str) or ("/" not in name and "." not in name):
                raise ConfigError(
                    f"TokenizeText: tokenizer: expected one of {', '.join(_BY_NAME)}, or the path"
                    f" of a tokenizer file, got {name!r}{did_you_mean(str(name), _BY_NAME)}"
                )
            file = _read("tokenizer", name, read_tokenizer_file)
            self._artifacts[file.name] = _artifact(name, file.content)
        with options_of("TokenizeText"):
            self._options = TextOptions(
                tokenizer=name if file is None else file.tokenizer,  # type: ignore[arg-type]
                features=tuple(self.features),
                max_length=self.max_length,
                vocab_size=self.vocab_size,
                min_frequency=self.min_frequency,
                oov_buckets=self.oov_buckets,
                special_tokens=tuple(self.special_tokens),
                ngrams=self.ngrams,
            )
        if file is not None:
            check_tokenizer_file(file, self._options)
        if self.vocabulary is not None:
            self._take_vocabulary(self.vocabulary)

    def _take_vocabulary(self, path: str) -> None:
        if not self._options.learns or "tfidf" in self._options.output_features:
            raise ConfigError(
                "TokenizeText: vocabulary: expected the tokenizer words, whitespace or chars, with"
                f" the features tokens and bow, got {self.tokenizer!r} with {self.features!r}"
            )
        content = _read("vocabulary", path, lambda path: Location.parse(path).read_bytes())
        try:
            vocabulary_lines(content)
        except ValueError as error:
            raise ConfigError(f"TokenizeText: vocabulary: {path}: {error}") from error
        self._artifacts[TOKENS_FILE] = _artifact(path, content)

    def expand(self, records: Values) -> RecordValues:
        values = values_of(records)
        batches = values.batches
        if self.text_column != TEXT:
            batches |= "NameText" >> beam.Map(_named_text, self.text_column).with_output_types(
                pa.RecordBatch
            )
        before, text_options = values.options.encoder, self._options
        if isinstance(before, TextEncoder):  # `ReadText` knows the columns
            text_options = dataclasses.replace(
                text_options, text_columns=before.options.text_columns
            )
        unlabelled = bool(getattr(before, "unlabelled", False))
        options = dataclasses.replace(
            values.options,
            encoder=TextEncoder(options=text_options, unlabelled=unlabelled),
            artifacts=self._artifacts,
        )
        return values._replace(batches=batches, options=options)


def _read(option: str, path: str, read: Callable[[str], T]) -> T:
    try:
        return read(path)
    except PathError as error:
        raise ConfigError(f"TokenizeText: {option}: {error}") from error


def _artifact(path: str, content: bytes) -> Artifact:
    return Artifact(path=path, sha256=hashlib.sha256(content).hexdigest())
