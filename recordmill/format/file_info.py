"""Size and SHA-256 of files: of bytes, of a stream, or of a file while it is read."""

from __future__ import annotations

import dataclasses
import hashlib
import io
import re
from typing import TYPE_CHECKING, Annotated, BinaryIO

from recordmill.format.typed_json import Checked, Count

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer, WriteableBuffer

_SHA256 = re.compile("[0-9a-f]{64}")
_BLOCK = 1 << 20  # bytes read and hashed at once


def _sha256(value: str) -> str:
    if not _SHA256.fullmatch(value):
        raise ValueError(f"expected 64 hexadecimal digits, got {value[:80]!r}")
    return value


Sha256 = Annotated[str, Checked(_sha256)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileInfo:
    """The size of a file in bytes, and the sha256 (hex) of its content."""

    bytes: Count
    sha256: Sha256


def file_info(content: bytes) -> FileInfo:
    """Return the size and the hash of a file's content."""
    return FileInfo(bytes=len(content), sha256=hashlib.sha256(content).hexdigest())


def stream_info(stream: BinaryIO) -> FileInfo:
    """Read a stream to its end and return its size and hash."""
    hashing = HashingReader(stream)
    while hashing.read(_BLOCK):
        pass
    return hashing.info


def why_changed(found: FileInfo, stated: FileInfo) -> str | None:
    """Return how a file differs from the one in the manifest, as a predicate for messages.

    None if it does not differ.
    """
    if found == stated:
        return None
    if found.bytes != stated.bytes:
        what = f"is {found.bytes} bytes, the manifest says {stated.bytes}"
    else:
        what = f"has the sha256 {found.sha256}, the manifest says {stated.sha256}"
    return f"{what}: it changed after it was written"


class HashingReader(io.RawIOBase):
    """A raw stream that hashes every byte read through it.

    copy: a stream to which these bytes are also written, if given.
    """

    def __init__(self, file: BinaryIO, copy: BinaryIO | None = None) -> None:
        self._file = file
        self._copy = copy
        self._sha256 = hashlib.sha256()
        self._size = 0

    @property
    def info(self) -> FileInfo:
        """Size and hash of the bytes read so far."""
        return FileInfo(bytes=self._size, sha256=self._sha256.hexdigest())

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        block = self._file.read(memoryview(buffer).nbytes)
        memoryview(buffer)[: len(block)] = block
        self._sha256.update(block)
        self._size += len(block)
        if self._copy is not None:
            self._copy.write(block)
        return len(block)


class HashingWriter(io.RawIOBase):
    """A raw stream that hashes every byte written through it to a buffered stream."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._sha256 = hashlib.sha256()
        self._size = 0

    @property
    def info(self) -> FileInfo:
        """Size and hash of the bytes written so far."""
        return FileInfo(bytes=self._size, sha256=self._sha256.hexdigest())

    def writable(self) -> bool:
        return True

    def write(self, data: ReadableBuffer, /) -> int:
        count = self._file.write(data)
        self._sha256.update(data)
        self._size += count
        return count
