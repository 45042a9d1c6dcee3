"""Audio files as streams for decoders: small ones in memory, large ones read in ranges."""

from __future__ import annotations

import errno
import io

from recordmill.storage.decoder_stream import DecoderStream
from recordmill.storage.input_files import read_file

IN_MEMORY = 4 << 20  # bytes of a file that is read at once


class FileInMemory(io.BytesIO):
    """A small file. A seek before its beginning, which damaged files ask for, is ignored."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._view = memoryview(data)

    def read_at(self, offset: int, size: int) -> memoryview:
        return self._view[offset : offset + size]

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()

    def check(self) -> None:
        """Return; it was read as a whole."""


class FileInRanges(DecoderStream):
    """A large file. A seek before its beginning is ignored."""

    def read_at(self, offset: int, size: int) -> memoryview:
        """Return up to `size` bytes. Raises the error of a read that failed, as `check` does."""
        super().seek(offset)
        data = self.read(size)
        self.check()
        return memoryview(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self.tell()


AudioStream = FileInMemory | FileInRanges


def open_stream(path: str, *, size: int, mtime: int) -> AudioStream:
    """Open an audio file; arguments and errors are those of `input_files.open_file`."""
    if size <= IN_MEMORY:
        return FileInMemory(read_file(path, size=size, mtime=mtime))
    return FileInRanges(path, size=size, mtime=mtime)
