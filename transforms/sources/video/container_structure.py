"""Structure of containers that FFmpeg does not report: second videos, empty chunks, lost indexes.

FFmpeg reads only the first video after `cat a.mp4 b.mp4`. Structure of MP4 and MOV: ISO/IEC
14496-12, 4.2. Structure of FLV: Adobe Flash Video File Format 10.1, annex E. Structure of AVI:
Microsoft's AVI RIFF File Reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from recordmill.errors import Reason, RecordError
from recordmill.format.file_content import unknown_media
from recordmill.notes import count_of

_BOXES = 4096  # top-level boxes of an MP4 that are read, at most
_BOX_HEAD = 8  # bytes, before a size of 64 bits
_TAGS = 4096  # tags of an FLV that are read, at most
_RAW = ("h264", "hevc", "m4v", "mpegvideo", "mjpeg", "av1", "obu")  # FFmpeg's names
_FLV = b"FLV"
_TAG_HEAD = 11  # bytes
_CHUNKS = 4096  # chunks at the end of an AVI that are read, at most
_CHUNK_HEAD = 8  # bytes


class _File(Protocol):
    """A readable, seekable binary file."""

    def read(self, size: int) -> bytes: ...
    def seek(self, offset: int, whence: int = 0) -> int: ...


def has_second_mp4(file: _File, size: int) -> bool:
    """Return whether a second header (`ftyp` or `moov`) begins a video that FFmpeg does not read.

    FFmpeg does read fragments (`moof`) that follow a repeated header. size: of the file in bytes.
    """
    seen: set[bytes] = set()
    is_second = False
    for kind, _ in _boxes(file, size):
        if kind in (b"ftyp", b"moov"):
            is_second |= kind in seen
            seen.add(kind)
        elif kind == b"moof":
            is_second = False
    return is_second


def has_cut_index(file: _File, size: int) -> bool:
    """Return whether an MP4 ends within its index (`moov`). size: of the file in bytes."""
    return any(kind == b"moov" and stop > size for kind, stop in _boxes(file, size))


def _boxes(file: _File, size: int) -> Iterator[tuple[bytes, int]]:
    """Yield (type, offset of the end) of the top-level boxes of an MP4 of `size` bytes."""
    at = 0
    for _ in range(_BOXES):
        if at + _BOX_HEAD > size:
            return
        file.seek(at)
        head = file.read(2 * _BOX_HEAD)
        length, least = int.from_bytes(head[:4], "big"), _BOX_HEAD
        if length == 1:  # 64 bits follow
            length, least = int.from_bytes(head[_BOX_HEAD:], "big"), 2 * _BOX_HEAD
        # 0: the box extends to the end of the file; else there is no box here
        is_last = length < least
        yield head[4:_BOX_HEAD], size if is_last else at + length
        if is_last:
            return
        at += length


def has_second_flv(file: _File, at: int) -> bool:
    """Return whether a second FLV header follows the tag at byte `at`, or tags after it."""
    for _ in range(_TAGS):
        file.seek(at)
        head = file.read(_TAG_HEAD)
        if head.startswith(_FLV):
            return True
        if len(head) < _TAG_HEAD:
            return False
        at += _TAG_HEAD + int.from_bytes(head[1:4], "big") + 4  # 4: size of the tag, repeated
    return False


def empty_chunks(file: _File, at: int, stream: int) -> int:
    """Return the number of empty chunks of a stream in the rest of an AVI.

    An empty chunk repeats the frame before it.

    at: offset of the first chunk of the rest. stream: number of the stream.
    """
    name = b"%02d" % stream
    found = 0
    for _ in range(_CHUNKS):
        file.seek(at)
        head = file.read(_CHUNK_HEAD)
        if len(head) < _CHUNK_HEAD or head[:4] in (b"idx1", b"RIFF"):
            break
        length = int.from_bytes(head[4:], "little")
        found += head[:2] == name and not length
        # The chunks of a list follow its type of 4 bytes.
        at += _CHUNK_HEAD + (4 if head[:4] == b"LIST" else length + length % 2)
    return found


def open_error(head: bytes) -> RecordError:
    """Return the error for a file that FFmpeg cannot open, given its first bytes."""
    if head[4:8] == b"ftyp":
        return index_error()
    if head.startswith(b"\x1a\x45\xdf\xa3"):
        return RecordError(Reason.CORRUPT, "a Matroska file whose header cannot be read")
    return unknown_media("a video", head)


def index_error() -> RecordError:
    """Return the error for an MP4 without a usable index."""
    return RecordError(Reason.TRUNCATED, "an MP4 whose index cannot be read, or was never written")


def timeless_error(form: str) -> RecordError:
    """Return the error for a video of which no frame has a time. form: FFmpeg's name of it."""
    if form in _RAW:
        return RecordError(
            Reason.UNSUPPORTED,
            "frames without times, as in a raw stream: put it into a container, such as with"
            " ffmpeg -i FILE -c copy FILE.mp4",
        )
    return RecordError(
        Reason.TRUNCATED,
        "no frame has a time: the index of the file is missing, as after an incomplete copy",
    )


def concatenation_error(frames: int) -> RecordError:
    """Return the error for a file of several videos. frames: of the first."""
    return RecordError(
        Reason.UNSUPPORTED,
        f"the file holds several videos, the first of {count_of(frames, 'frame')}: join them with"
        " ffmpeg -f concat, or split them",
    )
