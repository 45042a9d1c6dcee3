"""Audio files as streams for decoders: small ones in memory, large ones read in ranges."""

from __future__ import annotations

import io
import os

from recordmill.storage.decoder_stream import DecoderStream, seek_target
from recordmill.storage.input_files import read_file

IN_MEMORY = 4 << 20  # bytes of a file that is read at once


class FileInMemory(io.BytesIO):
    """A small file. Seeks follow `seek_target`."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._view = memoryview(data)

    def read_at(self, offset: int, size: int) -> memoryview:
        return self._view[offset : offset + size]

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        return super().seek(seek_target(offset, whence, place=self.tell(), size=len(self._view)))

    def check(self) -> None:
        """Return; it was read as a whole."""


class FileInRanges(DecoderStream):
    """A large file."""

    def read_at(self, offset: int, size: int) -> memoryview:
        """Return up to `size` bytes. Raises the error of a read that failed, as `check` does."""
        self.seek(offset)
        data = self.read(size)
        self.check()
        return memoryview(data)


AudioStream = FileInMemory | FileInRanges


def open_stream(path: str, *, size: int, mtime: int) -> AudioStream:
    """Open an audio file; arguments and errors are those of `input_files.open_file`."""
    if size <= IN_MEMORY:
        return FileInMemory(read_file(path, size=size, mtime=mtime))
    return FileInRanges(path, size=size, mtime=mtime)
