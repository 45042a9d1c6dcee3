"""References to members of archives and to ranges of staged files, which open like paths of files.

A reference is a string in the column of paths: the path of the archive, the place of the member,
and its name, separated by zero bytes, which no path contains. So members are handled like files:
nothing is unpacked, and rows hold only references.

Formats: a tar holds the content of a member unchanged. In a zip, the content follows a local header
(APPNOTE.TXT 4.3.7), unchanged or compressed by deflate; the directory of the zip declares its size
and CRC-32. A range of a staged file (`staged`) is stored by this job, with a hash of its content.
A TFRecord file is an archive of records: the content of a member is a part of a record, whose frame
is read and checked as a whole.
"""

from __future__ import annotations

import struct
import zlib
from typing import Literal, NamedTuple, Self, cast

from recordmill.errors import Reason, RecordError

MARK = "\0"
LOCAL_HEADER = 30  # bytes, before the name and the extra field
MOST_INFLATED = 256 << 20  # bytes: a compressed member is inflated in memory as a whole

Method = Literal["tar", "stored", "deflated", "staged", "record"]

_LOCAL = struct.Struct("<4s22xHH")  # signature, lengths of the name and of the extra field
_SIGNATURE = b"PK\x03\x04"
_SLACK = 128  # bytes of an extra field that are read with the header


class Member(NamedTuple):
    """The place of a member in its archive.

    archive: path or URI of the archive, or of a staged file. archive_size: its bytes; 0 for a
    staged file. offset: of the content, but in a zip of the local header, and in a TFRecord file of
    the frame. length: stored bytes. size: bytes of the content. crc: CRC-32 of the content in a
    zip, the lower half of its xxh3_128 in a staged file. name: path inside the archive. start: of
    the content in the payload of a record. head: bytes that a record does not hold, before the
    content.
    """

    archive: str
    archive_size: int
    offset: int
    length: int
    size: int
    method: Method
    crc: int
    name: str
    start: int = 0
    head: bytes = b""

    @classmethod
    def of(cls, path: str) -> Self | None:
        """Return the member that a reference names, None for the path of a file."""
        if MARK not in path:
            return None
        archive, place, name = path.split(MARK)
        method, *numbers = place.split(",")
        if method == "record":
            archive_size, offset, length, size, start = map(int, numbers[:5])
            head = bytes.fromhex(numbers[5])
            return cls(archive, archive_size, offset, length, size, "record", 0, name, start, head)
        archive_size, offset, length, size, crc = map(int, numbers)
        return cls(archive, archive_size, offset, length, size, cast("Method", method), crc, name)

    @property
    def reference(self) -> str:
        """The text that `of` turns into this member."""
        numbers = (self.archive_size, self.offset, self.length, self.size)
        last = (self.start, self.head.hex()) if self.method == "record" else (self.crc,)
        place = ",".join((self.method, *map(str, (*numbers, *last))))
        return f"{self.archive}{MARK}{place}{MARK}{self.name}"

    @property
    def is_bare(self) -> bool:
        """True if the content is stored as it is, without a header."""
        return self.method in ("tar", "staged")

    @property
    def in_zip(self) -> bool:
        """True if the content follows a local header."""
        return self.method in ("stored", "deflated")

    @property
    def span(self) -> tuple[int, int]:
        """The range of bytes to read for the content: (offset, length).

        In a zip it ends too early if the extra field of the local header is longer than expected.
        """
        if not self.in_zip:
            return self.offset, self.length
        around = LOCAL_HEADER + len(self.name.encode()) + _SLACK + self.length
        return self.offset, min(around, self.archive_size - self.offset)

    def start_in(self, header: bytes) -> int:
        """Return the position of the content relative to `offset`.

        header: the first bytes at `offset`, at least `LOCAL_HEADER` for a zip; else ignored.

        Raises:
          RecordError: there is no local header, or the content does not fit into the archive.
        """
        if not self.in_zip:
            return 0
        if len(header) < LOCAL_HEADER or not header.startswith(_SIGNATURE):
            raise RecordError(Reason.CORRUPT, "the archive is damaged: the file has no header")
        _, name, extra = _LOCAL.unpack_from(header)
        start = LOCAL_HEADER + int(name) + int(extra)
        if self.offset + start + self.length > self.archive_size:
            raise RecordError(Reason.CORRUPT, "the archive is damaged: it ends inside the file")
        return start

    def content(self, stored: bytes) -> bytes:
        """Return the content, given the stored bytes. Never inflates more than the declared size.

        Raises:
          RecordError: it has another size or checksum than declared, or is no valid deflate stream.
        """
        if self.is_bare:
            return stored
        if self.method == "record":
            return self._part_of_record(stored)
        data = self._inflated(stored) if self.method == "deflated" else stored
        self.check(len(data), zlib.crc32(data))
        return data

    def check(self, size: int, crc: int) -> None:
        """Raise RecordError unless the content of a zip member has the declared size and CRC-32."""
        if size != self.size:
            raise RecordError(
                Reason.CORRUPT, f"its size is not the {self.size} bytes that the archive declares"
            )
        if crc != self.crc:
            raise RecordError(Reason.CORRUPT, "its CRC-32 is not the one that the archive declares")

    def _part_of_record(self, frame: bytes) -> bytes:
        from recordmill.tfrecord.framing import FrameError, payload_of  # it imports NumPy

        try:
            payload = payload_of(frame)
        except FrameError as error:
            what = f"the record at byte {self.offset} is damaged: {error.what}"
            raise RecordError(Reason.CORRUPT, what) from error
        return self.head + payload[self.start : self.start + self.size - len(self.head)]

    def _inflated(self, stored: bytes) -> bytes:
        stream = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            # One byte more than declared is enough to find a wrong size.
            data = stream.decompress(stored, self.size + 1)
        except zlib.error as error:
            raise RecordError(Reason.CORRUPT, "invalid deflate data in the archive") from error
        if len(data) == self.size and not stream.eof:
            raise RecordError(Reason.CORRUPT, "its deflate data in the archive has no end")
        return data


def archive_of(path: str) -> str:
    """Return the archive that a reference names, or the path of a file itself."""
    return path.partition(MARK)[0]


def shown_reference(path: str) -> str:
    """Return a path for messages: ARCHIVE: NAME for a reference to a member."""
    archive, _, rest = path.partition(MARK)
    name = rest.partition(MARK)[2]
    return f"{archive}: {name}" if name else archive
