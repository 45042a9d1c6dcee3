"""Files of word vectors: text, word2vec's binary format, and NumPy arrays.

Text files are those of GloVe, word2vec and fastText.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import io
import zlib
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyarrow import csv

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location

Floats = npt.NDArray[np.float32]
Block = tuple[list[bytes], Floats]  # words as UTF-8, and float32[words, width]

_BLOCK = 16 << 20  # bytes that are parsed at once
_WORD = 1 << 16  # bytes, more than any word has


@dataclasses.dataclass(frozen=True, kw_only=True)
class EmbeddingFile:
    """File of word vectors, whose format follows from its name.

    `.npy` is an array, with its words in the file `words`, one per line. `.bin` is word2vec's
    binary format. Others are text. Text and binary files may be compressed as `.gz`.

    Raises:
        ConfigError: `words` is missing for an array, or given for another format.
    """

    path: str
    words: str | None = None

    def __post_init__(self) -> None:
        if self._is_array and self.words is None:
            raise ConfigError(
                f"{option_name('embeddings', self.path)}: has no words; name a file with one word"
                f" per line with {option_name('embedding_words')}"
            )
        if not self._is_array and self.words is not None:
            raise ConfigError(
                f"{option_name('embedding_words', self.words)}: only for .npy files, and"
                f" {option_name('embeddings', self.path)} has its own words"
            )

    @property
    def _is_array(self) -> bool:
        return self.path.endswith(".npy")

    def sha256(self) -> str:
        """Return the SHA-256 of the files' content, hex."""
        digest = hashlib.sha256()
        for path in (self.path, self.words):
            if path is not None:
                with Location.parse(path).open_input() as file:
                    while data := file.read(_BLOCK):
                        digest.update(data)
        return digest.hexdigest()

    def read(self) -> Iterator[Block]:
        """Yield blocks of words and vectors, all of the same width.

        Raises:
            ConfigError: the file has another format, or vectors have different widths.
            StorageError: the file cannot be read.
        """
        with self._open() as file:
            if self._is_array:
                yield from self._read_array(file)
            elif self.path.removesuffix(".gz").endswith(".bin"):
                yield from self._read_binary(file)
            else:
                yield from self._read_text(file)

    @contextlib.contextmanager
    def _open(self) -> Iterator[BinaryIO]:
        with Location.parse(self.path).open_input() as file:
            if not self.path.endswith(".gz"):
                yield file
                return
            try:
                with gzip.GzipFile(fileobj=file) as unpacked:
                    yield io.BufferedReader(unpacked)
                    while unpacked.read(_BLOCK):  # its checksum is at the end
                        pass
            except (EOFError, gzip.BadGzipFile, zlib.error) as error:
                raise self._unusable(str(error)) from error

    def _unusable(self, what: str) -> ConfigError:
        return ConfigError(f"{option_name('embeddings', self.path)}: {what}")

    def _read_array(self, file: BinaryIO) -> Iterator[Block]:
        assert self.words is not None
        words = Location.parse(self.words).read_bytes().split(b"\n")
        words = [word.removesuffix(b"\r") for word in words[: -1 if not words[-1] else None]]
        try:
            version = np.lib.format.read_magic(file)
            read_header = getattr(np.lib.format, f"read_array_header_{version[0]}_0")
            shape, by_column, dtype = read_header(file)
        except (ValueError, AttributeError) as error:
            raise self._unusable("expected an array written by numpy.save") from error
        if by_column:
            raise self._unusable("is in Fortran order; save numpy.ascontiguousarray of it")
        if len(shape) != 2 or dtype.kind != "f":
            raise self._unusable(
                f"expected rows of floats, [words, width], got {dtype} of shape {shape}"
            )
        if shape[0] != len(words):
            raise self._unusable(f"has {shape[0]} rows, but {self.words} has {len(words)} words")
        rows = max(_BLOCK // max(shape[1] * dtype.itemsize, 1), 1)
        for start in range(0, len(words), rows):
            some = words[start : start + rows]
            data = file.read(len(some) * shape[1] * dtype.itemsize)
            if len(data) < len(some) * shape[1] * dtype.itemsize:
                raise self._unusable("is truncated")
            yield some, np.frombuffer(data, dtype).reshape(-1, shape[1]).astype(np.float32)

    def _read_binary(self, file: BinaryIO) -> Iterator[Block]:
        count, width = _size(file.readline(_WORD)) or (0, 0)
        if not width:
            raise self._unusable("expected the number of words and their width in the first line")
        size = 4 * width
        data, at, words, starts = b"", 0, list[bytes](), list[int]()
        for _ in range(count):
            end = data.find(b" ", at)
            if end < 0 or len(data) < end + 1 + size:
                yield from _cut(data, words, starts, width)
                words, starts = [], []
                data = data[at:] + file.read(max(_BLOCK, _WORD + size))
                at = 0
                end = data.find(b" ")
                if end < 0 or len(data) < end + 1 + size:
                    raise self._unusable(f"ends before the last of its {count} words")
            words.append(data[at:end].lstrip(b"\n"))
            starts.append(end + 1)
            at = end + 1 + size
        yield from _cut(data, words, starts, width)

    def _read_text(self, file: BinaryIO) -> Iterator[Block]:
        first = file.readline(_BLOCK)
        size = _size(first)
        width = len(first.split()) - 1 if size is None else size[1]
        if width < 1:
            raise self._unusable("expected lines of a word and its numbers, separated by spaces")
        rest = first if size is None else b""
        number = 1 if size is None else 2
        count = 0
        while True:
            data = file.read(_BLOCK)
            whole, newline, after = (rest + data).rpartition(b"\n")
            if not data:
                whole, newline, after = rest, b"", b""
            lines = whole + newline
            if b"\0" in lines:
                raise self._unusable("is not text; word2vec's binary format has the extension .bin")
            lines = lines.replace(b"\r\n", b"\n").replace(b"\t", b" ").replace(b" \n", b"\n")
            if lines.strip(b"\n"):
                block = self._parse(lines, width, number)
                count += len(block[0])
                yield block
                number += lines.count(b"\n")
            rest = after
            if not data:
                break
        if size is not None and count != size[0]:
            raise self._unusable(f"has {count} words, but its first line declares {size[0]}")

    def _parse(self, lines: bytes, width: int, number: int) -> Block:
        """Parse lines; `number` is the line number of the first one."""
        names = ["word", *map(str, range(width))]
        types = {"word": pa.binary(), **dict.fromkeys(names[1:], pa.float32())}
        try:
            table = csv.read_csv(
                io.BytesIO(lines),
                read_options=csv.ReadOptions(column_names=names, use_threads=False),
                parse_options=csv.ParseOptions(delimiter=" ", quote_char=False),
                convert_options=csv.ConvertOptions(
                    column_types=types, null_values=[], strings_can_be_null=False
                ),
            )
        except pa.ArrowInvalid:
            return self._parse_slowly(lines, width, number)
        vectors = np.empty((len(table), width), np.float32)
        for column, name in enumerate(names[1:]):
            vectors[:, column] = table[name].to_numpy()
        return table["word"].to_pylist(), vectors

    def _parse_slowly(self, lines: bytes, width: int, number: int) -> Block:
        """Parse lines in which a word has a space, or find the error."""
        words: list[bytes] = []
        rows: list[list[float]] = []
        for at, line in enumerate(lines.split(b"\n"), number):
            if not line:
                continue
            word, *fields = line.rsplit(b" ", width)
            try:
                rows.append([float(field) for field in fields])
            except ValueError as error:
                raise self._unusable(f"line {at} has an invalid number: {error}") from error
            got = len(fields)
            with contextlib.suppress(ValueError):
                if b" " in word:  # either a word with spaces or too many numbers
                    got += len([float(field) for field in word.split(b" ")[1:]])
            if got != width:
                raise self._unusable(
                    f"line {at} has {got} numbers, expected {width} as in previous lines"
                )
            words.append(word)
        return words, np.array(rows, np.float32).reshape(-1, width)


def _cut(data: bytes, words: list[bytes], starts: list[int], width: int) -> Iterator[Block]:
    if words:
        found = b"".join([data[start : start + 4 * width] for start in starts])
        yield words, np.frombuffer(found, "<f4").reshape(-1, width).astype(np.float32)


def _size(line: bytes) -> tuple[int, int] | None:
    """Return the number of words and their width if the line is a header, else None."""
    fields = line.split()
    if len(fields) == 2 and all(field.isdigit() for field in fields):
        return int(fields[0]), int(fields[1])
    return None
