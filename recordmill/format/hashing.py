"""Files that are hashed while they are read."""

from __future__ import annotations

import hashlib
import io
from typing import TYPE_CHECKING, BinaryIO

from recordmill.format.manifest import FileInfo

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class HashingReader(io.RawIOBase):
    """Hashes what is read through it, and writes it to `copy` where that is asked for."""

    def __init__(self, file: BinaryIO, copy: BinaryIO | None = None) -> None:
        self._file = file
        self._copy = copy
        self._sha256 = hashlib.sha256()
        self._size = 0

    @property
    def info(self) -> FileInfo:
        """Of what was read up to now."""
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
