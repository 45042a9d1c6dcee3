"""The ends of WAV and Ogg files, which libsndfile reads without an error if they are cut off."""

from __future__ import annotations

import struct
from typing import Protocol

from recordmill.errors import Reason, RecordError

_CHUNK = struct.Struct("<4sI")
_MOST_CHUNKS = 256
_STREAMED = 0xFFFFFFFF  # the size that a writer states that cannot go back to the header
_PAGE = 27  # bytes of the header of an Ogg page, before the sizes of its segments
_MOST_PAGE = 65_307  # bytes of an Ogg page


class _Stream(Protocol):
    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


def check_not_cut(stream: _Stream, name: str, *, size: int) -> None:
    """Check that a file is as long as it states, as far as its format does.

    name: of the format. size: of the file in bytes.

    Raises:
      RecordError: the file ends early.
    """
    missing = 0
    if name == "wav":
        missing = _missing_in_wav(stream, size)
    elif name == "ogg":
        missing = _missing_in_ogg(stream, size)
    if missing > 0:
        raise RecordError(Reason.TRUNCATED, f"its last {missing} bytes are missing")


def _missing_in_wav(stream: _Stream, size: int) -> int:
    """Return the number of missing bytes of the samples; 0 if the header does not tell.

    Source: Multimedia Programming Interface and Data Specifications 1.0, IBM and Microsoft, 1991.
    """
    stream.seek(0)
    if stream.read(4) != b"RIFF":
        return 0
    at = 12
    for _ in range(_MOST_CHUNKS):
        stream.seek(at)
        head = stream.read(_CHUNK.size)
        if len(head) < _CHUNK.size:
            return 0
        name, length = _CHUNK.unpack(head)
        at += _CHUNK.size
        if name == b"data":
            return 0 if length == _STREAMED else at + length - size
        at += length + length % 2
    return 0


def _missing_in_ogg(stream: _Stream, size: int) -> int:
    """Return the number of missing bytes of the last page. Source: RFC 3533."""
    start = max(size - 2 * _MOST_PAGE, 0)
    stream.seek(start)
    tail = stream.read(size - start)
    at = tail.rfind(b"OggS")
    if at < 0:
        return 0
    page = tail[at:]
    if len(page) < _PAGE:
        return _PAGE - len(page)
    sizes = page[_PAGE : _PAGE + page[_PAGE - 1]]
    whole = _PAGE + page[_PAGE - 1] + sum(sizes)
    return whole - len(page)
