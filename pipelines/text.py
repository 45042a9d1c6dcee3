"""Builds a balanced, shuffled, sharded TFRecord dataset of text, tokens, TF-IDF or embeddings.

    recordmill text --input reviews.csv --output out/ --tokenizer words --max-length 256

The input is a file of rows (CSV, TSV, JSONL, Parquet, Arrow, Avro, TFRecord, plain lines), a glob
pattern or a folder of such files, a folder of `class/...` or `split/class/...` with text files, or
a listing of text files.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
from typing import ClassVar

from recordmill.errors import ConfigError
from recordmill.format.ledger import INPUT
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.jobs.duplicate_rules import near_duplicates
from recordmill.pipelines.options.common.preprocessing import described
from recordmill.pipelines.options.inputs.rows import ListingConfig, RowsConfig
from recordmill.pipelines.options.inputs.text_inputs import texts_of
from recordmill.pipelines.text_files import (
    BY_NAME,
    fingerprint_of,
    prepare_embeddings,
    read_tokenizer,
)
from recordmill.transforms.encoders.preprocessed import PreprocessedEncoder
from recordmill.transforms.encoders.text.chunks import TextChunker
from recordmill.transforms.encoders.text.duplicate_texts import SameText
from recordmill.transforms.encoders.text.embeddings import NAME as EMBEDDINGS
from recordmill.transforms.encoders.text.text import TextEncoder
from recordmill.transforms.encoders.text.text_contents import TextSignatures
from recordmill.transforms.encoders.text.text_lengths import TextCheck
from recordmill.transforms.encoders.tokenization.subwords import check_tokenizer_file
from recordmill.transforms.encoders.tokenization.text_options import (
    TextFeature,
    TextOptions,
)
from recordmill.transforms.encoders.tokenization.vocabulary import text_columns
from recordmill.transforms.model.data_type import DataType, Prepared, Preprocessing
from recordmill.transforms.sources.rows.values.text_folders import Documents

TEXT = Group(30, "Text", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextConfig(RowsConfig, ListingConfig):
    """The options of `recordmill text`."""

    HEADING: ClassVar[Group] = TEXT

    text_column: str | None = option(
        None,
        metavar="COLUMN",
        help="Column with the text. Default: a column named text, sentence, message or the like, or"
        " the only column without another use.",
    )
    documents: Documents = option(
        "file",
        help="If the input is a folder of text files: make a record of each file, or of each line.",
    )
    tokenizer: str | None = option(
        None,
        shapes_bytes=False,
        metavar="|".join((*BY_NAME, "FILE")),
        help="Tokenizer. words: lower-cased words by Unicode word boundaries. whitespace: split at"
        " whitespace. chars: code points. bytes: UTF-8 bytes. bpe: byte pair encoding, learned from"
        " train. FILE: a Hugging Face tokenizer.json or a SentencePiece .model.",
    )
    texts: GroupValues[TextOptions] = option_group(
        TextOptions,
        group=TEXT,
        text_columns={"after": "text_column"},
        text_pairs={"after": "text_columns"},
        chat_column={"after": "text_pairs"},
        chat_template={"after": "chat_column", "shapes_bytes": False},
        unicode={"after": "documents"},
    )
    embeddings: str | None = option(
        None,
        after="tfidf_norm",
        shapes_bytes=False,
        metavar="FILE",
        help="Word vectors: the text format of GloVe, word2vec and fastText, word2vec's .bin, or"
        " .npy.",
    )
    embedding_words: str | None = option(
        None,
        after="embeddings",
        shapes_bytes=False,
        metavar="FILE",
        help="If --embeddings is an .npy file: its words, one per line.",
    )
    max_unknown: float | None = option(
        None,
        after="chunk_overlap",
        shapes_bytes=False,
        metavar="X",
        help="With --learned-from: fail, and publish nothing, if more than this fraction of the"
        " tokens of a split is not in the vocabulary, 0 to 1.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tokenizer in (None, *BY_NAME):  # a tokenizer file is checked when it is read
            self.text_options(self.tokenizer)
        if (self.embeddings is None) == ("embeddings" in self._features):
            raise ConfigError(
                "expected both --features embeddings and --embeddings FILE, or none of them: the"
                " file holds the vectors"
            )
        if not 0 <= (self.max_unknown or 0) <= 1:
            raise ConfigError(f"--max-unknown: expected 0 to 1, got {self.max_unknown:g}")

    @property
    def _features(self) -> tuple[TextFeature, ...]:
        given: tuple[TextFeature, ...] = self.texts["features"]
        return given if given or self.embeddings is None else ("embeddings",)

    def text_options(self, tokenizer: str | None) -> TextOptions:
        """Return the features of texts. Raises ConfigError for contradicting options.

        tokenizer: its name; for a tokenizer file the name of its format.
        """
        return self.texts.make(tokenizer=tokenizer, features=self._features)


def data_type(config: TextConfig) -> DataType:
    """Return the source, checks, analysis and encoder of texts."""
    file = None
    name = config.tokenizer
    if name is not None and name not in BY_NAME:
        file = read_tokenizer(name)
        name = file.tokenizer
    options = config.text_options(name)
    text_type = functools.partial(
        DataType,
        name="text",
        source=texts_of(
            config,
            documents=config.documents,
            text_column=config.text_column,
            options=options,
        ),
        check=TextCheck(options=options) if options.filters else None,
        duplicates=_same_text(config, options),
        content=None if config.near_duplicates == "none" else TextSignatures(),
        near=near_duplicates(config, "similarity"),
    )
    unlabelled = config.unlabelled == "keep"
    if config.preprocessing_fn is not None:
        return text_type(
            encoder=PreprocessedEncoder(unlabelled=unlabelled),
            analysis=Preprocessing(function=config.preprocessing_fn),
            shaping={"preprocessing_fn": described(config.preprocessing_fn)},
        )
    if config.max_unknown is not None and not options.learns:
        raise ConfigError(
            "--max-unknown: has no effect without a vocabulary, which --tokenizer words, whitespace"
            " and chars learn"
        )
    artifacts: dict[str, bytes | Prepared] = {}
    shaping = {} if name is None else {"tokenizer": fingerprint_of(name, file)}
    if options.template is not None:
        shaping["chat_template"] = options.chat_template
    if file is not None:
        check_tokenizer_file(file, options)
        artifacts[file.name] = file.content
    if config.embeddings is not None:
        table = prepare_embeddings(config.embeddings, config.embedding_words)
        artifacts[EMBEDDINGS] = table
        shaping["embeddings"] = table.sha256
    encoder = TextEncoder(options=options, unlabelled=unlabelled)
    return text_type(
        encoder=encoder,
        analysis=encoder.analysis,
        chunker=None if options.chunk is None else TextChunker(options=options),
        unit=INPUT if options.chunk is None else "chunk",
        artifacts=artifacts,
        shaping=shaping,
    )


def _same_text(config: TextConfig, options: TextOptions) -> SameText | None:
    if config.dedup == "none":
        return None
    return SameText(mode=config.dedup, columns=text_columns(options))


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["text", *sys.argv[1:]])
