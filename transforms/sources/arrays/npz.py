"""Arrays in .npz archives. Uncompressed members are read directly, compressed ones as a whole."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import lzma
import struct
import zipfile
import zlib
from collections.abc import Iterator, Sequence

import numpy as np

from recordmill.errors import Reason, RecordError
from recordmill.storage.input_files import InputFile, open_file
from recordmill.transforms.sources.arrays.array_file import Array, ArrayFile, Span
from recordmill.transforms.sources.arrays.npy import HEAD, StoredArray, read_npy

MAGIC = b"PK\x03\x04"
EMPTY = b"PK\x05\x06"  # the beginning of an empty archive

_SUFFIX = ".npy"
_LOCAL_HEADER = struct.Struct("<4s22xHH")  # signature, lengths of the name and of the extra field
_ENCRYPTED = 0x1
_PIECE = 1 << 22  # bytes read at once for a checksum

# Errors of zipfile and its decompressors for damaged files.
_DAMAGED = (
    zipfile.BadZipFile,
    zlib.error,
    lzma.LZMAError,
    struct.error,
    EOFError,
    NotImplementedError,
    IndexError,
    KeyError,
    OverflowError,
    UnicodeError,
)


class NpzFile(ArrayFile):
    """A .npz file: a zip archive of .npy files."""

    def __init__(self, file: InputFile) -> None:
        super().__init__(file)
        self._stream = open_file(file.path, size=file.size, mtime=file.mtime)
        self._inflated: tuple[str, Array] | None = None
        try:
            with _reporting_damage():
                self._archive = zipfile.ZipFile(self._stream)
        except RecordError:
            self.close()
            raise

    def close(self) -> None:
        self._stream.close()
        super().close()

    def names(self) -> Sequence[str]:
        names = self._archive.namelist()
        return [name.removesuffix(_SUFFIX) for name in names if name.endswith(_SUFFIX)]

    def stored(self, name: str, *, texts: bool = False) -> StoredArray:
        with _reporting_damage():
            info = self._archive.getinfo(name + _SUFFIX)
        if info.flag_bits & _ENCRYPTED:
            raise RecordError(Reason.UNSUPPORTED, f"its array {name!r} is encrypted")
        if info.compress_type != zipfile.ZIP_STORED:
            with _reporting_damage(), self._archive.open(info) as member:
                head = member.read(HEAD)
            found = read_npy(head, info.file_size, member=name, texts=texts)
            return dataclasses.replace(found, offset=None, solid=True)
        begin = self._content(info)
        self._check_sum(info, begin)
        head = self.file.read(begin, min(info.file_size, HEAD))
        found = read_npy(head, info.file_size, member=name, texts=texts)
        return dataclasses.replace(found, offset=begin + (found.offset or 0))

    def _content(self, info: zipfile.ZipInfo) -> int:
        """Return the offset of the content of an uncompressed member. Raises RecordError."""
        at = info.header_offset
        if 0 <= at <= self.file.size - _LOCAL_HEADER.size:
            signature, name, extra = _LOCAL_HEADER.unpack(self.file.read(at, _LOCAL_HEADER.size))
            begin: int = at + _LOCAL_HEADER.size + name + extra
            if signature == MAGIC and begin + info.file_size <= self.file.size:
                return begin
        raise RecordError(Reason.CORRUPT, "its central directory does not match its content")

    def _check_sum(self, info: zipfile.ZipInfo, begin: int) -> None:
        """Compare an uncompressed member with its checksum, as its parts are read without one."""
        found = 0
        for at in range(begin, begin + info.file_size, _PIECE):
            size = min(_PIECE, begin + info.file_size - at)
            found = zlib.crc32(self.file.read(at, size), found)
        if found != info.CRC:
            raise RecordError(
                Reason.CORRUPT, f"a damaged archive: the checksum of {info.filename!r} differs"
            )

    def _load(self, stored: StoredArray, span: Span | None) -> Array:
        if self._inflated is None or self._inflated[0] != stored.member:
            self._inflated = stored.member, self._inflate(stored)
        array = self._inflated[1]
        if span is None:
            return array
        return array[(*(slice(None),) * span.axis, slice(span.start, span.stop))]

    def _inflate(self, stored: StoredArray) -> Array:
        with _reporting_damage(), self._archive.open(stored.member + _SUFFIX) as member:
            info = self._archive.getinfo(stored.member + _SUFFIX)
            member.read(info.file_size - stored.bytes)
            data = member.read(stored.bytes)  # zipfile verifies the checksum at the end
        if len(data) < stored.bytes:
            raise RecordError(Reason.TRUNCATED, f"its array {stored.member!r} ends early")
        shape = stored.shape[::-1] if stored.fortran else stored.shape
        array = stored.values(np.frombuffer(data, stored.layout)).reshape(shape)
        return array.T if stored.fortran else array


@contextlib.contextmanager
def _reporting_damage() -> Iterator[None]:
    """Raise the errors of a damaged archive as RecordError."""
    try:
        yield
    except RecordError:
        raise
    except _DAMAGED as error:
        raise RecordError(Reason.CORRUPT, "a damaged archive") from error
    except OSError as error:
        if error.errno != errno.EINVAL:  # of a place before the file
            raise
        raise RecordError(Reason.CORRUPT, "a damaged archive") from error
