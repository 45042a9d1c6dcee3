"""Frames of MPEG audio files (MP3, MP2), to find those that end early.

FFmpeg decodes as much of the last frame as the file holds, and reports no error.
"""

from __future__ import annotations

import functools
import struct

from recordmill.errors import Reason, RecordError
from recordmill.transforms.audio.audio_structure import RangeReader

_BITS = struct.Struct(">I")  # header of a frame
_HEADER = _BITS.size
_SEARCHED = 6 << 10  # last bytes of a file; the longest frame has 1729
_SURE = 3  # frames in a row; the first bytes of fewer may be other data
_SYNC = 0xFFE00000
_CONSTANT = 0xFFFE0C00  # bits of a header that are the same in all frames: version, layer, rate
_FORM = 0xFFF  # bits of a header after the sync, without the last 9
_VERSION_1 = 3
_LAYER_1, _LAYER_3 = 3, 1
_MONO = 3
_RATES = (44100, 48000, 32000)  # of version 1, by the index in the header
_DIVISORS = {3: 1, 2: 2, 0: 4}  # of these rates, by version (1, 2 and 2.5)
# kbit/s by the index in the header from 1 on; by whether the version is 1, and by layer.
_LOW = (8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160)
_BIT_RATES = {
    (True, 3): tuple(range(32, 449, 32)),
    (True, 2): (32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384),
    (True, 1): (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320),
    (False, 3): (32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256),
    (False, 2): _LOW,
    (False, 1): _LOW,
}
_ID3 = struct.Struct(">3s2xB4B")  # marker, flags and size in groups of 7 bits
_ID3_FOOTER = 0x10  # flag
_FIRST = 64  # bytes of the first frame that are read
_SIDE_INFO = {(True, False): 32, (True, True): 17, (False, False): 17, (False, True): 9}
_XING = struct.Struct(">4sI")  # marker and flags; the numbers of frames and bytes may follow
_HAS_FRAMES, _HAS_BYTES = 1, 2
_VBRI, _VBRI_BYTES = 36, 46  # offsets of the marker and of the number of bytes


def check_mpeg_end(file: RangeReader, *, size: int) -> None:
    """Check that an MPEG audio file has all bytes of its last frame, and those that it declares.

    A file that ends between two frames, and declares no size, is complete. Tags may follow the last
    frame. The size that the first frame of many encoders declares may count this frame and tags or
    not, so a file that has as many bytes is accepted, and so is a difference of one frame.

    size: of the file in bytes.

    Sources: ISO/IEC 11172-3, 2.4.1.3 and 2.4.2.3; ISO/IEC 13818-3; ID3v2.4.0, 3.1; Xing's
    VBR header SDK and Fraunhofer's VBRI header.

    Raises:
      RecordError: the file ends early.
    """
    start = _skip_id3(file)
    first = bytes(file.read_at(start, _FIRST))
    length = _frame_bytes(first)
    if length:
        declared = _declared_bytes(first)
        if declared > size + length:
            raise RecordError(
                Reason.TRUNCATED,
                f"its header declares {declared} bytes of audio, but the file has {size}",
            )
    begin = max(start, size - _SEARCHED)
    tail = bytes(file.read_at(begin, _SEARCHED))
    if _ends_in_frame(tail, is_start=begin == start and length > 0):
        raise RecordError(Reason.TRUNCATED, "it ends within a frame")


def _skip_id3(file: RangeReader) -> int:
    """Return the offset after the ID3v2 tags at the beginning."""
    at = 0
    while True:
        head = file.read_at(at, _ID3.size)
        if len(head) < _ID3.size:
            return at
        marker, flags, *groups = _ID3.unpack(head)
        if marker != b"ID3":
            return at
        size = functools.reduce(lambda value, group: value << 7 | group, groups, 0)
        at += _ID3.size + size + (_ID3.size if flags & _ID3_FOOTER else 0)


def _frame_bytes(head: bytes) -> int:
    """Return the bytes of the frame that begins with `head`, 0 if it is none of a known length."""
    if len(head) < _HEADER:
        return 0
    (bits,) = _BITS.unpack_from(head)
    return _bytes_of(bits >> 9 & _FORM) if bits & _SYNC == _SYNC else 0


@functools.cache
def _bytes_of(form: int) -> int:
    """Return the bytes of a frame by the 12 bits after the sync: version to padding."""
    version, layer, padding = form >> 10, form >> 8 & 3, form & 1
    bit_rate, rate = form >> 3 & 15, form >> 1 & 3
    if version not in _DIVISORS or not layer or bit_rate in (0, 15) or rate == len(_RATES):
        return 0
    is_1 = version == _VERSION_1
    bits = _BIT_RATES[is_1, layer][bit_rate - 1] * 1000
    hertz = _RATES[rate] // _DIVISORS[version]
    if layer == _LAYER_1:
        return (12 * bits // hertz + padding) * 4
    return (72 if layer == _LAYER_3 and not is_1 else 144) * bits // hertz + padding


def _declared_bytes(first: bytes) -> int:
    """Return the bytes from the first frame on that its encoder declares in it, 0 if unknown."""
    if first[_VBRI : _VBRI + 4] == b"VBRI":
        return int.from_bytes(first[_VBRI_BYTES : _VBRI_BYTES + 4], "big")
    is_1, is_mono = first[1] >> 3 & 3 == _VERSION_1, first[3] >> 6 == _MONO
    at = _HEADER + _SIDE_INFO[is_1, is_mono]
    marker, flags = _XING.unpack_from(first, at) if len(first) == _FIRST else (b"", 0)
    if marker not in (b"Xing", b"Info") or not flags & _HAS_BYTES:
        return 0
    at += _XING.size + (4 if flags & _HAS_FRAMES else 0)
    return int.from_bytes(first[at : at + 4], "big")


def _ends_in_frame(tail: bytes, *, is_start: bool) -> bool:
    """Return whether the last bytes of a file end within a frame. is_start: a frame begins them."""
    at = 0 if is_start else tail.find(b"\xff")
    sure = 1 if is_start else _SURE
    while at >= 0:
        end, count = _follow(tail, at)
        if count < sure:
            at = tail.find(b"\xff", at + 1)
            continue
        if end > len(tail):
            return True
        rest = tail[end:]
        if rest and len(rest) < _HEADER and rest[0] == 0xFF:
            return rest[1:2] in (b"", tail[at + 1 : at + 2])
        sure = _SURE
        at = tail.find(b"\xff", end)
    return False


def _follow(tail: bytes, at: int) -> tuple[int, int]:
    """Return the end and the number of the frames that follow each other from a place on."""
    count = 0
    last = len(tail) - _HEADER
    constant = _BITS.unpack_from(tail, at)[0] & _CONSTANT if at <= last else 0
    if constant & _SYNC != _SYNC:
        return at, count
    while at <= last:
        (bits,) = _BITS.unpack_from(tail, at)
        length = _bytes_of(bits >> 9 & _FORM) if bits & _CONSTANT == constant else 0
        if not length:
            break
        at += length
        count += 1
    return at, count
