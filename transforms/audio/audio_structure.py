"""Chunks of WAV and CAF files, pages of Ogg files, and headers of FLAC, AIFF, AU and W64 files.

libsndfile reads most of them without an error if they are cut off.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple, Protocol

from recordmill.errors import Reason, RecordError
from recordmill.transforms.audio.audio_files import AudioHeader, SampleDigest

_SIGNATURES = (
    (re.compile(rb"(RIFF|RIFX|RF64|BW64)....WAVE", re.DOTALL), "wav"),
    (re.compile(rb"riff\x2e\x91\xcf\x11"), "w64"),
    (re.compile(rb"FORM....AIF[FC]", re.DOTALL), "aiff"),
    (re.compile(rb"fLaC"), "flac"),
    (re.compile(rb"OggS"), "ogg"),
    (re.compile(rb"\.snd"), "au"),
    (re.compile(rb"caff"), "caf"),
)
HEAD = 16  # bytes that identify a format
_CHUNKS = {  # headers of chunks, by the marker of the file
    b"RIFF": struct.Struct("<4sI"),
    b"RF64": struct.Struct("<4sI"),
    b"BW64": struct.Struct("<4sI"),
    b"RIFX": struct.Struct(">4sI"),
}
_SIZES = struct.Struct("<8xQ")  # of the file and of the samples, in the chunk ds64 of RF64
_CAF_CHUNK = struct.Struct(">4sq")  # name and size of a chunk of CAF; the size may be -1
_CAF_PACKETS = struct.Struct(">8xqi")  # samples, and those before the first, in the chunk pakt
_FORMAT = struct.Struct("<HHIIHH")  # codec, channels, rate, bytes per second and per frame, bits
# Most files have no chunk before the samples or after them.
_PLAIN_FORMAT = b"fmt " + _FORMAT.size.to_bytes(4, "little")
_PLAIN_BYTES = 44  # before the samples
_EXTENSIBLE = 0xFFFE  # the codec is in the first bytes of the GUID that follows
_GUID = 24  # offset in the chunk
_MOST_CHUNKS = 256
_STREAMED = 0xFFFFFFFF  # states that the size is in the chunk ds64, or unknown
# Programs that write to a pipe cannot go back to the header, and state a large size instead. From
# these sizes on, a size beyond the end of the file is such a size: SoX states 0x7FFFF000 in WAV,
# and as many frames as 0x7F000000 bytes hold in AIFF. Sizes of 64 bits are if they are negative.
_PIPED = 0x7FFFF000
_PIPED_AIFF = 0x7F000000
_PIPED_64 = 1 << 63
_OGG = b"OggS\0"  # with the version
_PAGE = 27  # bytes of the header of an Ogg page, before the sizes of its segments
_MOST_PAGE = 65_307  # bytes of an Ogg page
_PAGE_FLAGS = 5  # byte of a page
_FIRST_PAGE, _LAST_PAGE = 2, 4  # flags: of a stream
_FIRST = _OGG + bytes([_FIRST_PAGE])
_CRC = slice(22, 26)  # of a page
_MIRRORED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))  # bytes in reverse bit order
_SEARCHED = 1 << 22  # bytes at a time
# The marker, the header of the block STREAMINFO, whose type is 0, and in it the most samples of a
# frame, the sample rate (20 bits), channels less 1 (3), bits per sample less 1 (5) and samples per
# channel (36), which may be 0.
_FLAC = struct.Struct(">4sI2xH6xQ")
_STREAM_INFO_BYTES = 34
_FLAC_BYTES = 8 + _STREAM_INFO_BYTES
_MD5_BYTES = 16  # the last ones of STREAMINFO; zeros if the writer did not compute it
_LAST_BLOCK = 0x80  # flag of the last block of metadata, beside its type
_PADDING, _SEEK_TABLE, _COMMENT = 1, 3, 4
_SEEK_POINT = 18  # bytes
_DTYPES = {(1, 16): "<i2", (3, 32): "<f4"}  # by codec and bits


class RangeReader(Protocol):
    """A file that is read in ranges."""

    def read_at(self, offset: int, size: int) -> memoryview:
        """Return up to `size` bytes; fewer only at the end of the file."""


class PcmLayout(NamedTuple):
    """Place of the samples in a WAV file. dtype: numpy's name. offset: bytes."""

    rate: int
    channels: int
    frames: int
    dtype: str
    offset: int


class PacketTable(NamedTuple):
    """Numbers of samples of a CAF file. first: of the encoder's delay. frames: after it."""

    first: int
    frames: int


def recognize_format(head: bytes) -> str | None:
    """Return the format of a file by its first `HEAD` bytes; None for other formats."""
    return next((name for signature, name in _SIGNATURES if signature.match(head)), None)


def read_wav_layout(file: RangeReader, *, size: int) -> PcmLayout | None:
    """Find the samples of a WAV file of 16-bit or float samples; None for other files.

    The chunks of RIFX are checked, too, but their samples are not found.

    size: of the file in bytes.

    Source: Multimedia Programming Interface and Data Specifications 1.0, IBM and Microsoft, 1991;
    for RF64 EBU Tech 3306, for BW64 ITU-R BS.2088.

    Raises:
      RecordError: the samples end early, are in two chunks, or are not in the stated size.
    """
    start = bytes(file.read_at(0, _PLAIN_BYTES))
    marker = start[:4]
    header = _CHUNKS.get(marker)
    if header is None:
        return None
    if marker == b"RIFF" and start[12:20] == _PLAIN_FORMAT and start[36:40] == b"data":
        length = int.from_bytes(start[40:], "little")
        if length == size - _PLAIN_BYTES:  # no other chunk follows
            return _layout(start[20:36], _PLAIN_BYTES, length)
    at = 12
    form = b""
    data: tuple[int, int] | None = None  # offset and length
    large: int | None = None  # length of samples of 4 GiB and more
    for _ in range(_MOST_CHUNKS):
        head = file.read_at(at, header.size)
        if len(head) < header.size:
            break
        name, length = header.unpack(head)
        at += header.size
        if name == b"ds64":
            sizes = file.read_at(at, _SIZES.size)
            (large,) = _SIZES.unpack(sizes) if len(sizes) == _SIZES.size else (None,)
        if name == b"fmt " and data is None:
            form = bytes(file.read_at(at, min(length, _GUID + 2)))
        if name == b"data":
            if data is not None:
                raise RecordError(
                    Reason.UNSUPPORTED,
                    "its samples are in two data chunks, of which some programs read the first and"
                    " others the last: save it with one",
                )
            stated = header.unpack(start[: header.size])[1] + header.size  # of the whole file
            if not length and stated <= at < size:
                raise RecordError(
                    Reason.TRUNCATED,
                    f"its header states no samples, but {size - at} bytes follow: the program that"
                    " wrote it did not finish it; convert it, or write it again",
                )
            if length == _STREAMED and large and large < _PIPED_64:
                length = large
            elif length >= _PIPED and at + length > size:
                length = size - at
            _check_missing(at + length - size)
            data = at, length
        at += length + length % 2
    return _layout(form, *data) if data is not None and marker != b"RIFX" else None


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


class FlacLayout(NamedTuple):
    """Metadata of a FLAC file.

    stream_info: the block STREAMINFO. bits: per sample. most_samples: of a frame, per channel.
    """

    header: AudioHeader
    stream_info: bytes
    bits: int
    most_samples: int


def read_flac_layout(file: RangeReader) -> FlacLayout | None:
    """Return the metadata of a FLAC file, None for other files. Source: RFC 9639.

    Raises:
      StorageError: the file could not be read.
    """
    return parse_flac_layout(bytes(file.read_at(0, _FLAC_BYTES)))


def parse_flac_layout(head: bytes) -> FlacLayout | None:
    """Return the metadata of a FLAC file by its first bytes, None for other files."""
    if len(head) < _FLAC_BYTES:
        return None
    marker, block, most_samples, numbers = _FLAC.unpack_from(head)
    if marker != b"fLaC" or block & 0x7FFFFFFF != _STREAM_INFO_BYTES:
        return None
    bits = (numbers >> 36 & 31) + 1
    md5 = head[-_MD5_BYTES:]
    header = AudioHeader(
        format="flac",
        rate=numbers >> 44,
        channels=(numbers >> 41 & 7) + 1,
        frames=(numbers & (1 << 36) - 1) or None,
        digest=SampleDigest(md5, bits) if any(md5) else None,
    )
    return FlacLayout(header, head[-_STREAM_INFO_BYTES:], bits, most_samples)


def find_flac_frames(data: memoryview) -> int | None:
    """Return the offset of the first frame of a FLAC file; None if its metadata are unusual.

    Usual ones are, after STREAMINFO, comments, seek tables and padding without damage.
    """
    at = _FLAC_BYTES
    is_last = bool(data[4] & _LAST_BLOCK)
    while not is_last:
        if at + 4 > len(data):
            return None
        is_last = bool(data[at] & _LAST_BLOCK)
        kind, size = data[at] & ~_LAST_BLOCK, int.from_bytes(data[at + 1 : at + 4], "big")
        at += 4
        if not (
            kind == _PADDING
            or (kind == _SEEK_TABLE and size % _SEEK_POINT == 0)
            or (kind == _COMMENT and _is_comment(data[at : at + size]))
        ):
            return None
        at += size
    return at


def _is_comment(block: memoryview) -> bool:
    """Return whether the vendor and the comments of a block VORBIS_COMMENT fill it."""

    def number(at: int) -> int:
        return int.from_bytes(block[at : at + 4], "little")

    at = 4 + number(0)
    count = number(at)
    at += 4
    while count and at < len(block):
        at += 4 + number(at)
        count -= 1
    return not count and at == len(block)


def check_ogg(file: RangeReader, *, size: int) -> None:
    """Check that an Ogg file is one stream whose pages are whole. Source: RFC 3533.

    libsndfile skips damaged pages, so that their samples are missing from its output.

    size: of the file in bytes.

    Raises:
      RecordError: the file ends early, a page is damaged, or another stream follows.
    """
    at = flags = 0
    heads = True  # the first pages of streams that run at the same time
    for page in _pages(file, size=size):
        if _page_crc(page) != int.from_bytes(page[_CRC], "little"):
            what = f"its page at byte {at} is damaged: its checksum does not match"
            raise RecordError(Reason.CORRUPT, what)
        flags = page[_PAGE_FLAGS]
        heads = heads and bool(flags & _FIRST_PAGE)
        if flags & _FIRST_PAGE and not heads:
            raise _several_streams()
        at += len(page)
    if not flags & _LAST_PAGE:
        if len(file.read_at(at, _PAGE)) == _PAGE:
            raise RecordError(Reason.CORRUPT, f"no page begins at byte {at}")
        raise RecordError(
            Reason.TRUNCATED,
            "its last page is missing: copy it again, or convert it if the program that wrote it"
            " did not finish it",
        )
    for start in range(at, size, _SEARCHED):
        if _FIRST in bytes(file.read_at(start, _SEARCHED + len(_FIRST) - 1)):
            raise _several_streams()


def _pages(file: RangeReader, *, size: int) -> Iterator[bytes]:
    """Yield the contiguous pages from the beginning of a file.

    Raises:
      RecordError: the file ends inside a page.
    """
    start = at = 0
    block = b""
    while True:
        if at + _MOST_PAGE > start + len(block) and start + len(block) < size:
            start, block = at, bytes(file.read_at(at, _SEARCHED))
        head = block[at - start : at - start + _PAGE]
        if len(head) < _PAGE or not head.startswith(_OGG):
            return
        count = head[_PAGE - 1]
        length = _PAGE + count + sum(block[at - start + _PAGE : at - start + _PAGE + count])
        _check_missing(at + length - size)
        yield block[at - start : at - start + length]
        at += length


def _several_streams() -> RecordError:
    return RecordError(
        Reason.UNSUPPORTED,
        "several streams, one after the other, of which decoders read the first: join them into"
        " one stream, or write each to a file of its own",
    )


def _page_crc(page: bytes) -> int:
    """Return the checksum of a page: CRC-32 from the highest bit on, of the page without it."""
    data = page[: _CRC.start] + bytes(4) + page[_CRC.stop :]
    # zlib takes the lowest bit of each byte first, and inverts the checksum before and after.
    mirrored = zlib.crc32(data.translate(_MIRRORED), 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int.from_bytes(mirrored.to_bytes(4, "little").translate(_MIRRORED), "big")


def read_packet_table(file: RangeReader, *, size: int) -> PacketTable | None:
    """Check the chunks of a CAF file, and return its packet table; None if it has none.

    size: of the file in bytes. Source: Apple Core Audio Format Specification 1.0.

    Raises:
      RecordError: the samples or the table end early.
    """
    at = 8
    table = None
    for _ in range(_MOST_CHUNKS):
        head = file.read_at(at, _CAF_CHUNK.size)
        if len(head) < _CAF_CHUNK.size:
            break
        name, length = _CAF_CHUNK.unpack(head)
        at += _CAF_CHUNK.size
        if length < 0:  # up to the end of the file
            break
        if name in (b"data", b"pakt"):
            _check_missing(at + length - size)
        if name == b"pakt" and length >= _CAF_PACKETS.size:
            frames, first = _CAF_PACKETS.unpack(file.read_at(at, _CAF_PACKETS.size))
            table = PacketTable(first, frames) if frames > 0 <= first else None
        at += length
    return table


def check_declared_size(file: RangeReader, name: str, *, size: int) -> None:
    """Check the size that the header of an AIFF, AU, CAF or W64 file declares.

    name: of the format. size: of the file in bytes.

    Raises:
      RecordError: the file ends early.
    """
    head = bytes(file.read_at(0, _PAGE))
    declared = 0
    if name == "aiff":
        declared = int.from_bytes(head[4:8], "big")  # without these eight bytes, if it is right
        declared = 0 if declared >= _PIPED_AIFF else declared
    elif name == "au" and head[8:12] != b"\xff" * 4:  # unknown
        declared = int.from_bytes(head[4:8], "big") + int.from_bytes(head[8:12], "big")
    elif name == "w64":
        declared = int.from_bytes(head[16:24], "little")
        declared = 0 if declared >= _PIPED_64 else declared
    elif name == "caf":
        read_packet_table(file, size=size)
    _check_missing(declared - size)


def _check_missing(count: int) -> None:
    if count > 0:
        raise RecordError(Reason.TRUNCATED, f"its last {count} bytes are missing")
