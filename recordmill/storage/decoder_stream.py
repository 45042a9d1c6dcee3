"""Input files for decoders that take a read error for the end of the file."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from recordmill.errors import RunError
from recordmill.storage.input_files import open_file

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer


class DecoderStream:
    """An input file for FFmpeg and libsndfile, which take a read error for the end of the file.

    The first error is kept and raised by `check`, so that it never truncates a record. Seeks follow
    `seek_target`.
    """

    def __init__(self, path: str, *, size: int, mtime: int) -> None:
        self.name = path  # its extension helps FFmpeg to identify the format
        self._size = size
        self._file = open_file(path, size=size, mtime=mtime)
        self._error: RunError | None = None

    def read(self, size: int) -> bytes:
        if self._error is not None:
            return b""
        try:
            return self._file.read(size)
        except RunError as error:
            self._error = error
            return b""

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer).cast("B")
        data = self.read(len(view))
        view[: len(data)] = data
        return len(data)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        place = self._file.tell()
        try:
            return self._file.seek(seek_target(offset, whence, place=place, size=self._size))
        except RunError as error:
            self._error = self._error or error
            return place

    def tell(self) -> int:
        return self._file.tell()

    def close(self) -> None:
        self._file.close()

    def check(self) -> None:
        """Raise the error of the first read that failed, a StorageError or a ChangedInputError."""
        if self._error is not None:
            raise self._error


def seek_target(offset: int, whence: int, *, place: int, size: int) -> int:
    """Return the place of a seek within a file, counted from its beginning.

    Damaged files contain offsets outside of themselves, which a storage may refuse: a seek before
    the file stays where it is, and a seek past its end goes to its end.

    place: where the file is read now. size: of the file in bytes.
    """
    target = offset + {os.SEEK_SET: 0, os.SEEK_CUR: place, os.SEEK_END: size}[whence]
    return place if target < 0 else min(target, size)
