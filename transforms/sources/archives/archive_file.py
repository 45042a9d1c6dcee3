"""Reader of the bytes of an archive, and results of listing it: members and their problems."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import NamedTuple

from recordmill.errors import Reason
from recordmill.storage.files import Location, shown
from recordmill.storage.input_files import InputFile
from recordmill.storage.members import Member, Method
from recordmill.transforms.model import limits
from recordmill.transforms.sources.files.walks import File

_LOCAL_STEP = 1 << 14  # bytes read at once while headers are read
_REMOTE_STEP = 1 << 20
MOST_NAME = 4096  # bytes
ZIP_BEGINNINGS = (b"PK\x03\x04", b"PK\x05\x06")  # with files, and without one


class ListedMember(NamedTuple):
    """A file in an archive, as in `members.Member`.

    name: as its header spells it. label: class from a file next to it; None without one.
    expected: the class that this file lacks, for messages.
    """

    name: str
    offset: int
    length: int
    size: int
    method: Method
    crc: int
    label: str | None = None
    expected: str | None = None

    def at(self, archive: File) -> Member:
        """Return the place of the member in an archive."""
        return Member(
            archive=archive.path,
            archive_size=archive.size,
            offset=self.offset,
            length=self.length,
            size=self.size,
            method=self.method,
            crc=self.crc,
            name=self.name,
        )


class MemberProblem(NamedTuple):
    """A member that cannot be read. name: '' for a problem of the archive as a whole."""

    name: str
    reason: Reason
    detail: str


def is_member_name(name: bytes) -> bool:
    """Return whether a name is neither empty nor too long, and has no zero byte."""
    return 0 < len(name) <= MOST_NAME and b"\0" not in name


def bad_name(name: bytes, why: str) -> MemberProblem:
    """Return the problem of a member whose name cannot be used."""
    text = name[: MOST_NAME // 16].replace(b"\0", b"\\0").decode("utf-8", "backslashreplace")
    return MemberProblem(text or "(no name)", Reason.BAD_NAME, why)


def tidy_name(name: str) -> str | None:
    """Return the path of a member inside its archive: './a//b' becomes 'a/b', and so does '/a/b'.

    None if it leads out of the archive.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    return None if ".." in parts else "/".join(parts)


class ArchiveReader:
    """Reads headers of an archive; reads that are close together share a request."""

    def __init__(self, file: File) -> None:
        self.size = file.size
        self.name = shown(file.path)
        self._file = InputFile(file.path, size=file.size, mtime=file.mtime)
        place = Location.parse(file.path)
        self.is_zip = place.name.lower().endswith(".zip")
        self._step = _LOCAL_STEP if place.is_local else _REMOTE_STEP
        self._start = 0
        self._data = b""

    def __enter__(self) -> ArchiveReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def read(self, offset: int, length: int) -> bytes:
        """Return up to `length` bytes at `offset`; fewer only at the end of the archive."""
        end = min(offset + length, self.size)
        if offset < self._start or end > self._start + len(self._data):
            step = min(max(length, self._step), self.size - offset)
            self._data = self._file.read(offset, step) if step > 0 else b""
            self._start = offset
        return self._data[offset - self._start : end - self._start]


def not_listed(files: int, text: str) -> Iterator[MemberProblem]:
    """Yield a problem of the archive for each file that cannot be listed: one at least."""
    count = min(max(files, 1), limits.PART_ROWS)
    yield from itertools.repeat(MemberProblem("", Reason.CORRUPT, text), count)


def damaged(where: str) -> MemberProblem:
    """Return the problem of an archive that cannot be listed to its end."""
    return MemberProblem("", Reason.CORRUPT, f"{where}: the files after it are not listed")
