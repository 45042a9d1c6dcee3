"""Texts to a balanced, shuffled, verified TFRecord dataset of text, tokens or weights of terms.

    python -m recordmill text --input=reviews.csv --output=out/ --tokenizer=words --max-length=256

The input is a file of rows (CSV, TSV, JSONL, Parquet, Arrow, Avro, lines), a glob or a folder of
them, or a folder of `class/...` or `split/class/...` with text files. `recordmill text` is the same
command.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import sys
from typing import Literal, get_args

from recordmill.errors import ConfigError, did_you_mean
from recordmill.format.manifest import INPUT
from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import COLUMNS, refuse_given
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.preprocessing import described, refuse_features
from recordmill.pipelines.options.rows import RowsConfig
from recordmill.storage.files import Location, StorageError
from recordmill.transforms.encoders.preprocessed import PreprocessedEncoder
from recordmill.transforms.encoders.text.chunks import TextCutter
from recordmill.transforms.encoders.text.duplicate_texts import SameText
from recordmill.transforms.encoders.text.embedding_files import EmbeddingFile
from recordmill.transforms.encoders.text.embeddings import NAME as EMBEDDINGS
from recordmill.transforms.encoders.text.embeddings import PreparedEmbeddings
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.text.text_lengths import TextCheck
from recordmill.transforms.encoders.tokenization.bpe import BpeAnalysis
from recordmill.transforms.encoders.tokenization.subwords import (
    TokenizerFile,
    read_tokenizer_file,
    refuse_impossible,
)
from recordmill.transforms.encoders.tokenization.text_options import (
    EdgeTokens,
    Pooling,
    TextAugmentation,
    TextFeature,
    TextOptions,
    Tfidf,
    TfidfNorm,
    Unicode,
)
from recordmill.transforms.encoders.tokenization.vocabulary import VocabularyAnalysis
from recordmill.transforms.model.data_type import (
    Analysis,
    DataType,
    Prepared,
    Preprocessing,
    RowSource,
)
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.rows.row_inputs import holds_rows
from recordmill.transforms.sources.rows.text_trees import Documents, TextTree
from recordmill.transforms.sources.rows.texts import TextRows

TEXT = Group(30, "Text")
_BY_NAME = ("words", "whitespace", "chars", "bytes", "bpe")
_DEFAULT = TextOptions()
_COLUMNS = ("text_column", *COLUMNS)
_SHAPES = [field.name for field in dataclasses.fields(TextOptions) if field.name != "tokenizer"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig(RowsConfig):
    """The options of `recordmill text`."""

    text_column: str | None = option(
        None,
        group=TEXT,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column of the text. Default: one named text, sentence, message or the like, or the"
        " only one that is left.",
    )
    documents: Documents = option(
        "file",
        group=TEXT,
        shapes_bytes=True,
        help="What a record is in a folder of text files: a whole file, or a line.",
    )
    unicode: Unicode = option(
        _DEFAULT.unicode,
        group=TEXT,
        shapes_bytes=True,
        help="Normalisation of the text, before all else.",
    )
    tokenizer: str | None = option(
        None,
        group=TEXT,
        metavar="|".join((*_BY_NAME, "FILE")),
        help="What splits the text: words by Unicode's word boundaries, in lower case; whitespace;"
        " chars; bytes; bpe, learned from train; or a Hugging Face tokenizer.json or"
        " SentencePiece .model.",
    )
    features: tuple[TextFeature, ...] = option(
        (),
        group=TEXT,
        shapes_bytes=True,
        parse=values.some_of(*get_args(TextFeature)),
        repeat=True,
        metavar="NAME,...",
        help=f"What a record holds: {', '.join(get_args(TextFeature))}. Default: tokens with a"
        " --tokenizer, else text.",
    )
    max_length: int | None = option(
        None,
        group=TEXT,
        shapes_bytes=True,
        metavar="TOKENS",
        help="Cut off or pad every record to so many, with a mask and the length.",
    )
    vocab_size: int = option(
        _DEFAULT.vocab_size,
        group=TEXT,
        shapes_bytes=True,
        help="Tokens learned from train, the most frequent; special ones come on top.",
    )
    min_frequency: int = option(
        _DEFAULT.min_frequency,
        group=TEXT,
        shapes_bytes=True,
        help="Learn a token if it comes so often in train.",
    )
    oov_buckets: int = option(
        _DEFAULT.oov_buckets,
        group=TEXT,
        shapes_bytes=True,
        help="Ids that tokens out of the vocabulary share, by their hash.",
    )
    special_tokens: tuple[str, ...] = option(
        (),
        group=TEXT,
        shapes_bytes=True,
        parse=values.ordered_names,
        repeat=True,
        metavar="TOKEN,...",
        help="Get the first ids after padding and those.",
    )
    ngrams: int = option(
        _DEFAULT.ngrams,
        group=TEXT,
        shapes_bytes=True,
        metavar="N",
        help="Up to how many neighbours count as one term of bow and tfidf.",
    )
    tfidf: Tfidf = option(
        _DEFAULT.tfidf,
        group=TEXT,
        shapes_bytes=True,
        help="sparse: indices and values; dense: a number per line of the vocabulary.",
    )
    tfidf_norm: TfidfNorm = option(
        _DEFAULT.tfidf_norm,
        group=TEXT,
        shapes_bytes=True,
        help="l2 gives every record's weights the length 1.",
    )
    embeddings: str | None = option(
        None,
        group=TEXT,
        metavar="FILE",
        help="Vectors of words: text as of GloVe, word2vec and fastText, word2vec's .bin, or .npy.",
    )
    embedding_words: str | None = option(
        None,
        group=TEXT,
        metavar="FILE",
        help="The words of an .npy file, one a line.",
    )
    pooling: Pooling = option(
        _DEFAULT.pooling,
        group=TEXT,
        shapes_bytes=True,
        help="mean: a record is the mean of its tokens' vectors; none: it has all of them.",
    )
    edge_tokens: EdgeTokens = option(
        _DEFAULT.edge_tokens,
        group=TEXT,
        shapes_bytes=True,
        help="Whether a tokenizer's file adds its tokens for beginning and end; auto as its library"
        " does: Hugging Face yes, SentencePiece no.",
    )
    pack: int | None = option(
        None,
        group=TEXT,
        shapes_bytes=True,
        metavar="TOKENS",
        help="Fill every record with so many, text after text, for language models; with the number"
        " of the text in the record and the position in the text.",
    )
    end_token: str | None = option(
        None,
        group=TEXT,
        shapes_bytes=True,
        metavar="TOKEN",
        help="What stands behind each packed text: a token of the tokenizer's file, or a special"
        " one.",
    )
    chunk: int | None = option(
        None,
        group=TEXT,
        shapes_bytes=True,
        metavar="TOKENS",
        help="Make several records of a longer text, all in one split.",
    )
    chunk_overlap: int = option(
        0,
        group=TEXT,
        shapes_bytes=True,
        metavar="TOKENS",
        help="What a chunk has from the one before it.",
    )
    dedup: Literal["none", "drop", "group"] = option(
        "none",
        group=TEXT,
        shapes_bytes=True,
        help="Texts that differ in case and whitespace only: drop keeps one, group keeps them in"
        " one split.",
    )
    min_chars: int | None = option(
        None, group=TEXT, shapes_bytes=True, help="Leave out texts of fewer characters."
    )
    max_chars: int | None = option(
        None, group=TEXT, shapes_bytes=True, help="Leave out texts of more characters."
    )
    min_tokens: int | None = option(
        None, group=TEXT, shapes_bytes=True, help="Leave out texts of fewer tokens."
    )
    max_tokens: int | None = option(
        None, group=TEXT, shapes_bytes=True, help="Leave out texts of more tokens."
    )
    augment: tuple[TextAugmentation, ...] = option(
        (),
        group=TEXT,
        shapes_bytes=True,
        parse=values.some_of(*get_args(TextAugmentation)),
        repeat=True,
        metavar="NAME,...",
        help=f"Vary the oversampled copies: {', '.join(get_args(TextAugmentation))}.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preprocessing_fn is not None:
            kept = {"min_chars", "max_chars"}
            refuse_features(self, {"tokenizer", "embeddings", *_SHAPES} - kept)
        if self.tokenizer in (None, *_BY_NAME):  # of a file more is known once it is read
            self.text_options(self.tokenizer)
        if self.augment and self.balance != "oversample":
            raise ConfigError(
                "--augment varies oversampled copies, and there are none: add --balance oversample"
            )
        if self.dedup == "group" and self.group_column is not None:
            raise ConfigError(
                "--dedup group makes groups of its own, and --group-column names others: leave one"
                " out, or take --dedup drop"
            )
        if self.pack is not None and self.balance != "none":
            raise ConfigError(
                f"--balance {self.balance}: is of classes, and packed texts have none: leave one of"
                " --balance and --pack out"
            )
        if (self.embeddings is None) == ("embeddings" in self._features):
            raise ConfigError(
                "--features embeddings: are looked up in the table that --embeddings names; give"
                " both"
            )
        if self.embeddings is None and self.embedding_words is not None:
            raise ConfigError("--embedding-words: are those of --embeddings; name that too")

    @property
    def _features(self) -> tuple[TextFeature, ...]:
        if self.embeddings is not None and not self.features:
            return ("embeddings",)
        return self.features

    def text_options(self, tokenizer: str | None) -> TextOptions:
        """How texts shall come out, the tokenizer by its kind. Raises ConfigError."""
        shapes = {name: getattr(self, name) for name in _SHAPES} | {"features": self._features}
        return TextOptions(tokenizer=tokenizer, **shapes)  # type: ignore[arg-type]


def kind(config: TextConfig) -> DataType:
    """What texts put on the road."""
    file = None
    name = config.tokenizer
    if name is not None and name not in _BY_NAME:
        file = _read_file(name)
        name = file.tokenizer
    options = config.text_options(name)
    of_texts = functools.partial(
        DataType,
        name="text",
        source=_source(config),
        check=TextCheck(options=options) if options.filters else None,
        duplicates=None if config.dedup == "none" else SameText(mode=config.dedup),
    )
    unlabelled = config.unlabelled == "keep"
    if config.preprocessing_fn is not None:
        return of_texts(
            encoder=PreprocessedEncoder(unlabelled=unlabelled),
            analysis=Preprocessing(function=config.preprocessing_fn),
            shaping={"preprocessing_fn": described(config.preprocessing_fn)},
        )
    artifacts: dict[str, bytes | Prepared] = {}
    shaping = {} if name is None else {"tokenizer": _described(name, file)}
    if file is not None:
        refuse_impossible(file, options)
        artifacts[file.name] = file.content
    if config.embeddings is not None:
        table = _prepare_embeddings(config.embeddings, config.embedding_words)
        artifacts[EMBEDDINGS] = table
        shaping["embeddings"] = table.sha256
    return of_texts(
        encoder=TextEncoder(options=options, unlabelled=unlabelled),
        analysis=_analysis(options),
        cutter=None if options.chunk is None else TextCutter(options=options),
        unit=INPUT if options.chunk is None else "chunk",
        artifacts=artifacts,
        shaping=shaping,
    )


def _analysis(options: TextOptions) -> Analysis | None:
    if options.splitter == "bpe" and "tokens" in options.outcome:
        return BpeAnalysis(options=options)
    return VocabularyAnalysis(options=options) if options.learns else None


def _read_file(path: str) -> TokenizerFile:
    if "/" not in path and "." not in path:
        raise ConfigError(
            f"--tokenizer: expected {', '.join(_BY_NAME)} or a file, got {path!r}"
            f"{did_you_mean(path, _BY_NAME)}"
        )
    try:
        _expect_there("--tokenizer", path)
        return read_tokenizer_file(path)
    except StorageError as error:
        raise ConfigError(f"--tokenizer: {error}") from error


def _prepare_embeddings(path: str, words: str | None) -> PreparedEmbeddings:
    file = EmbeddingFile(path=path, words=words)
    try:
        _expect_there("--embeddings", path)
        if words is not None:
            _expect_there("--embedding-words", words)
        return PreparedEmbeddings(file=file, sha256=file.sha256())
    except StorageError as error:
        raise ConfigError(f"--embeddings: {error}") from error


def _expect_there(given: str, path: str) -> None:
    if not Location.parse(path).exists():
        raise ConfigError(f"{given} {path}: there is no such file; check the path")


def _described(name: str, file: TokenizerFile | None) -> str:
    """A tokenizer by what it does: its file may stand anywhere."""
    return name if file is None else f"{name} {hashlib.sha256(file.content).hexdigest()}"


def _source(config: TextConfig) -> RowSource:
    place = Location.parse(config.input)
    refuse_special(place)
    rows = config.row_format()
    if not place.is_dir() or rows.format != "auto" or holds_rows(config.input):
        return TextRows(
            input=config.input,
            format=rows,
            unlabelled=config.unlabelled,
            **{name: getattr(config, name) for name in _COLUMNS},
        )
    refuse_given(
        config,
        (*_COLUMNS, "delimiter", "columns"),
        f"is about tables, and --input {config.input!r} is a folder of text files: leave it out, or"
        " say --format",
    )
    return TextTree(
        root=config.input,
        documents=config.documents,
        encoding=config.encoding,
        unlabelled=config.unlabelled,
        max_row_bytes=config.max_row_bytes,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import main

    sys.exit(main(["text", *sys.argv[1:]]))
