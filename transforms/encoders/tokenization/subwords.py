"""Subword tokenizers from files: Hugging Face's tokenizer.json and SentencePiece models.

Each library is imported only if a file needs it. Threads of the libraries are off, as encoder
processes use all cores.
"""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import Any, Literal, Protocol

import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.optional_packages import import_package
from recordmill.storage.files import Location
from recordmill.tfrecord.flat_arrays import Ints
from recordmill.transforms.encoders.artifacts import read_artifact
from recordmill.transforms.encoders.tokenization.hugging_face import HuggingFace
from recordmill.transforms.encoders.tokenization.pairs import Joined, PairTemplate, Tokens
from recordmill.transforms.encoders.tokenization.text_options import (
    BEGIN,
    SEPARATOR,
    TextOptions,
)
from recordmill.transforms.model.chat import TEMPLATES, ChatTemplate
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.ragged import flattened

FileTokenizer = Literal["huggingface", "sentencepiece"]

MODEL_FILE = "vocabulary/sentencepiece.model"
_NAMES: Mapping[FileTokenizer, str] = {
    "huggingface": "vocabulary/tokenizer.json",
    "sentencepiece": MODEL_FILE,
}
_LIBRARIES: Mapping[FileTokenizer, str] = {
    "huggingface": "tokenizers",
    "sentencepiece": "sentencepiece",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenizerFile:
    """Tokenizer file of the user.

    tokenizer: format of the file.
    name: path in the dataset.
    content: bytes of the file.
    """

    tokenizer: FileTokenizer
    name: str
    content: bytes


class Subwords(Protocol):
    """Tokenizer that a file describes.

    size: greater than every id.
    padding: id of padding.
    edges: number of ids that are added to every text. pair_edges: the same for two joined texts.
    by_chance: a text may have other ids the next time.
    """

    size: int
    padding: int
    edges: int
    pair_edges: int
    by_chance: bool

    def encode(self, texts: pa.StringArray, *, max_length: int | None) -> tuple[Ints, Ints]:
        """Return the ids of texts, int64[...], and the offsets of texts, int64[n + 1].

        texts: string[n].
        max_length: ids of a text at most, including the tokens for beginning and end.
        """

    def encode_pairs(
        self, first: pa.StringArray, second: pa.StringArray, *, max_length: int | None
    ) -> Joined:
        """Return the ids of joined texts.

        first, second: string[n].
        max_length: ids of a pair at most; the longer text is cut first.
        """

    def ends(self, texts: pa.StringArray) -> tuple[Ints, Ints]:
        """Return where each token ends, in characters.

        Tokens for beginning and end are not included.

        Returns:
            Positions, int64[...], and the offsets of texts in them, int64[n + 1].
        """

    def id_of(self, token: str) -> int | None:
        """Return the id of a token; None if it has none."""


def read_tokenizer_file(path: str) -> TokenizerFile:
    """Read and validate a tokenizer file.

    Raises:
        ConfigError: the file is neither a tokenizer.json nor a SentencePiece model, or its library
            is not installed.
        StorageError: the file cannot be read.
    """
    content = Location.parse(path).read_bytes()
    tokenizer: FileTokenizer = "sentencepiece"
    if path.endswith(".json") or (not path.endswith(".model") and content[:1] == b"{"):
        tokenizer = "huggingface"
    try:
        _load(tokenizer, content, edge_tokens="auto")
    except _NotATokenizer as error:
        raise ConfigError(
            f"{option_name('tokenizer', path)}: expected a Hugging Face tokenizer.json or a"
            f" SentencePiece .model ({error})"
        ) from error
    return TokenizerFile(tokenizer=tokenizer, name=_NAMES[tokenizer], content=content)


def check_tokenizer_file(file: TokenizerFile, options: TextOptions) -> None:
    """Check that the options work with a tokenizer file.

    Raises:
        ConfigError: the tokenizer is random, has no end token, or chunks have no room for its
            tokens.
    """
    subwords = _load(file.tokenizer, file.content, edge_tokens=options.edge_tokens)
    if subwords.by_chance:
        raise ConfigError(
            f"{option_name('tokenizer')}: the model uses dropout, which gives other ids each time:"
            " set dropout to null in the file"
        )
    if options.joins:
        _check_pairs(subwords, options)
    if options.template is not None:
        _check_template(subwords, options.template, options.chat_template)
    if options.end_token is not None and subwords.id_of(options.end_token) is None:
        raise ConfigError(
            f"{option_name('end_token', options.end_token)}: the tokenizer file has no such token;"
            " use one of its tokens"
        )
    if options.chunk is not None and options.chunk - subwords.edges <= options.chunk_overlap:
        raise ConfigError(
            f"{option_name('chunk', options.chunk)}: expected more than {subwords.edges} tokens for"
            f" beginning and end plus {option_name('chunk_overlap', options.chunk_overlap)}"
        )


def _check_template(subwords: Subwords, template: ChatTemplate, name: str) -> None:
    """Raise ConfigError if the file lacks a special token of a template of conversations."""

    def lacking(one: ChatTemplate) -> list[str]:
        return [token for token in one.tokens if subwords.id_of(token) is None]

    if missing := lacking(template):
        fitting = next((other for other, one in TEMPLATES.items() if not lacking(one)), None)
        use = "another tokenizer" if fitting is None else option_name("chat_template", fitting)
        raise ConfigError(
            f"{option_name('chat_template', name)}: the tokenizer file has no token {missing[0]}:"
            f" use {use}, or add the token to the file"
        )


def _check_pairs(subwords: Subwords, options: TextOptions) -> None:
    if not subwords.pair_edges and options.edge_tokens != "no":
        raise ConfigError(
            f"{option_name('tokenizer')}: the file has no special tokens that separate two texts:"
            f" use {option_name('text_pairs', 'separate')}, or join them without a separator with"
            f" {option_name('edge_tokens')} no"
        )
    least = subwords.pair_edges + 2
    if options.max_length is not None and options.max_length < least:
        raise ConfigError(
            f"{option_name('max_length', options.max_length)}: expected {least} or more, for"
            f" {subwords.pair_edges} special tokens and a token of each text"
        )


def library(tokenizer: FileTokenizer) -> Any:
    """Import the library of a tokenizer.

    Raises:
        ConfigError: it is not installed.
    """
    return import_package(_LIBRARIES[tokenizer], extra="text", needed_for="--tokenizer")


def library_version(options: TextOptions) -> Mapping[str, str]:
    """Return {library: version} for the tokenizer of the options."""
    tokenizer = _of(options)
    return {_LIBRARIES[tokenizer]: str(library(tokenizer).__version__)}


def load_subwords(options: TextOptions, artifacts: Mapping[str, Artifact]) -> Subwords:
    """Return the tokenizer of the options, given or learned, loaded once per process."""
    tokenizer = _of(options)
    edges = options.edge_tokens if options.template is None else "no"
    return _load_artifact(tokenizer, artifacts[_NAMES[tokenizer]], edges)


def _of(options: TextOptions) -> FileTokenizer:
    return "huggingface" if options.splitter == "huggingface" else "sentencepiece"


def has_subwords(artifacts: Mapping[str, Artifact]) -> bool:
    """Return whether the artifacts have a tokenizer file; a learned one appears after analysis."""
    return any(name in artifacts for name in _NAMES.values())


@functools.lru_cache(maxsize=4)
def _load_artifact(tokenizer: FileTokenizer, artifact: Artifact, edge_tokens: str) -> Subwords:
    return _load(tokenizer, read_artifact(artifact), edge_tokens=edge_tokens)


class _NotATokenizer(ValueError):
    """Content that is not a tokenizer of the expected format."""


@functools.lru_cache(maxsize=2)
def _load(tokenizer: FileTokenizer, content: bytes, *, edge_tokens: str) -> Subwords:
    if tokenizer == "huggingface":
        return _hugging_face(content, edges=edge_tokens != "no")
    return _SentencePiece(content, edge_tokens)


def _hugging_face(content: bytes, *, edges: bool) -> HuggingFace:
    os.environ["TOKENIZERS_PARALLELISM"] = "false"  # read at every call
    tokenizers = library("huggingface")
    try:
        tokenizer = tokenizers.Tokenizer.from_str(content.decode())
    except Exception as error:
        raise _NotATokenizer("the library tokenizers cannot read it") from error
    return HuggingFace(tokenizer, edges=edges)


class _SentencePiece:
    def __init__(self, content: bytes, edge_tokens: str) -> None:
        try:
            if not content:  # the library accepts empty content
                raise RuntimeError("an empty file")
            self._model = library("sentencepiece").SentencePieceProcessor(model_proto=content)
        except RuntimeError as error:
            raise _NotATokenizer("the library sentencepiece cannot read it") from error
        self.by_chance = False
        self.padding = max(self._model.pad_id(), 0)
        self.size = int(self._model.get_piece_size())
        self._begin = edge_tokens == "yes" and self._model.bos_id() >= 0
        self._end = edge_tokens == "yes" and self._model.eos_id() >= 0
        self.edges = int(self._begin) + int(self._end)
        self._template = PairTemplate() if edge_tokens == "no" else self._find_template()
        self.pair_edges = self._template.size

    def _find_template(self) -> PairTemplate:
        """Return the special tokens of pairs: [CLS] and [SEP] as in ALBERT, else the end token."""
        begin, separator = self.id_of(BEGIN), self.id_of(SEPARATOR)
        if begin is not None and separator is not None:
            return PairTemplate.of(begin, separator)
        head = ((self._model.bos_id(), 0),) if self._begin else ()
        end = self._model.eos_id()
        if end < 0:
            return PairTemplate()
        return PairTemplate(head=head, middle=((end, 0),), tail=((end, 1),))

    def encode_pairs(
        self, first: pa.StringArray, second: pa.StringArray, *, max_length: int | None
    ) -> Joined:
        several = (
            self._model.encode(texts.to_pylist(), add_bos=False, add_eos=False, num_threads=1)
            for texts in (first, second)
        )
        tokens = (Tokens(*flattened(found)) for found in several)
        return self._template.join(*tokens, max_length=max_length)

    def encode(self, texts: pa.StringArray, *, max_length: int | None) -> tuple[Ints, Ints]:
        found = self._model.encode(
            texts.to_pylist(), add_bos=self._begin, add_eos=self._end, num_threads=1
        )
        if max_length is not None:
            end = [self._model.eos_id()] if self._end else []
            found = [
                ids if len(ids) <= max_length else ids[: max_length - len(end)] + end
                for ids in found
            ]
        return flattened(found)

    def ends(self, texts: pa.StringArray) -> tuple[Ints, Ints]:
        found = self._model.encode(
            texts.to_pylist(), out_type="offset_mapping", add_bos=False, add_eos=False
        )
        return flattened([[end for _, end in row["offsets"]] for row in found])

    def id_of(self, token: str) -> int | None:
        found = self._model.piece_to_id(token)
        return None if self._model.is_unknown(found) else int(found)
