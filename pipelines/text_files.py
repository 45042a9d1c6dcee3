"""The files that options of texts name: tokenizers and embeddings."""

from __future__ import annotations

import hashlib

from recordmill.errors import ConfigError, did_you_mean
from recordmill.storage.files import Location, PathError
from recordmill.transforms.encoders.text.embedding_files import EmbeddingFile
from recordmill.transforms.encoders.text.embeddings import PreparedEmbeddings
from recordmill.transforms.encoders.tokenization.subwords import (
    TokenizerFile,
    read_tokenizer_file,
)

BY_NAME = ("words", "whitespace", "chars", "bytes", "bpe")  # tokenizers without a file


def read_tokenizer(path: str) -> TokenizerFile:
    if "/" not in path and "." not in path:
        raise ConfigError(
            f"--tokenizer: expected {', '.join(BY_NAME)} or a file, got {path!r}"
            f"{did_you_mean(path, BY_NAME)}"
        )
    try:
        _expect_exists("--tokenizer", path)
        return read_tokenizer_file(path)
    except PathError as error:
        raise ConfigError(f"--tokenizer: {error}") from error


def prepare_embeddings(path: str, words: str | None) -> PreparedEmbeddings:
    file = EmbeddingFile(path=path, words=words)
    try:
        _expect_exists("--embeddings", path)
        if words is not None:
            _expect_exists("--embedding-words", words)
        return PreparedEmbeddings(file=file, sha256=file.sha256())
    except PathError as error:
        raise ConfigError(f"--embeddings: {error}") from error


def _expect_exists(flag: str, path: str) -> None:
    if not Location.parse(path).exists():
        raise ConfigError(f"{flag} {path}: there is no such file; check the path")


def fingerprint_of(name: str, file: TokenizerFile | None) -> str:
    """Return the identity of a tokenizer: its name, and the sha256 of its file's content."""
    return name if file is None else f"{name} {hashlib.sha256(file.content).hexdigest()}"
