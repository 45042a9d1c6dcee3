"""Chunks of WAV files and pages of Ogg files.

libsndfile reads both without an error if they are cut off.
"""

from __future__ import annotations

import dataclasses
import struct
from typing import Protocol

from recordmill.errors import Reason, RecordError

_CHUNK = struct.Struct("<4sI")
_FORMAT = struct.Struct("<HHIIHH")  # codec, channels, rate, bytes per second and per frame, bits
_EXTENSIBLE = 0xFFFE  # the codec is in the first bytes of the GUID that follows
_GUID = 24  # offset in the chunk
_MOST_CHUNKS = 256
_STREAMED = 0xFFFFFFFF  # the size that a writer states that cannot go back to the header
_PAGE = 27  # bytes of the header of an Ogg page, before the sizes of its segments
_MOST_PAGE = 65_307  # bytes of an Ogg page
_DTYPES = {(1, 16): "<i2", (3, 32): "<f4"}  # by codec and bits


class ReadableStream(Protocol):
    """A stream that can seek."""

    def read(self, size: int, /) -> bytes: ...

    def seek(self, offset: int, whence: int = 0, /) -> int: ...


@dataclasses.dataclass(frozen=True, kw_only=True)
class PcmLayout:
    """Place of the samples in a WAV file. dtype: numpy's name. offset: bytes."""

    rate: int
    channels: int
    frames: int
    dtype: str
    offset: int


def read_wav_layout(stream: ReadableStream, *, size: int) -> PcmLayout | None:
    """Find the samples of a WAV file of 16-bit or float samples; None for other files.

    size: of the file in bytes.

    Source: Multimedia Programming Interface and Data Specifications 1.0, IBM and Microsoft, 1991.

    Raises:
      RecordError: the samples end early.
    """
    stream.seek(0)
    if stream.read(4) != b"RIFF":
        return None
    at = 12
    form = b""
    for _ in range(_MOST_CHUNKS):
        stream.seek(at)
        head = stream.read(_CHUNK.size)
        if len(head) < _CHUNK.size:
            return None
        name, length = _CHUNK.unpack(head)
        at += _CHUNK.size
        if name == b"fmt ":
            form = stream.read(min(length, _GUID + 2))
        if name == b"data":
            if length == _STREAMED:
                length = size - at
            _check_missing(at + length - size)
            return _layout(form, at, length)
        at += length + length % 2
    return None


def _layout(form: bytes, offset: int, length: int) -> PcmLayout | None:
    if len(form) < _FORMAT.size:
        return None
    codec, channels, rate, _, block, bits = _FORMAT.unpack(form[: _FORMAT.size])
    if codec == _EXTENSIBLE and len(form) == _GUID + 2:
        codec = int.from_bytes(form[_GUID:], "little")
    dtype = _DTYPES.get((codec, bits))
    if dtype is None or not channels or block != channels * bits // 8:
        return None
    return PcmLayout(
        rate=rate, channels=channels, frames=length // block, dtype=dtype, offset=offset
    )


def check_ogg(stream: ReadableStream, *, size: int) -> None:
    """Check that the last page of an Ogg file is whole. Source: RFC 3533.

    size: of the file in bytes.

    Raises:
      RecordError: the file ends early.
    """
    start = max(size - 2 * _MOST_PAGE, 0)
    stream.seek(start)
    tail = stream.read(size - start)
    at = tail.rfind(b"OggS")
    page = tail[at:]
    if at < 0 or len(page) < _PAGE:
        return
    sizes = page[_PAGE : _PAGE + page[_PAGE - 1]]
    _check_missing(_PAGE + page[_PAGE - 1] + sum(sizes) - len(page))


def _check_missing(count: int) -> None:
    if count > 0:
        raise RecordError(Reason.TRUNCATED, f"its last {count} bytes are missing")
