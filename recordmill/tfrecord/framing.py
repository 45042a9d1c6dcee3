"""The TFRecord wire format: frames with masked CRC32C checksums, plain or in gzip members.

A frame is the payload's length (uint64, little-endian), the masked checksum of those 8 bytes
(uint32), the payload, and the masked checksum of the payload (uint32). The first two are the
header (12 bytes), the last is the footer (4 bytes).
Source: https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Literal, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.checksums import crc_changes, mask_crcs, masked_crc32c

Compression = Literal["none", "gzip"]

HEADER_BYTES = 12
FOOTER_BYTES = 4
MAX_PAYLOAD_BYTES = (1 << 31) - 1  # the size limit of a protobuf message
# A compressed record of more is refused by default: a megabyte can stand for a gigabyte of zeros.
MAX_RECORD_BYTES = 257 << 20  # an array of the default --max-array-bytes fits

_INFLATED_PER_BYTE = 64  # bytes of a record that one byte of its file may stand for

_CHUNK = 1 << 18  # bytes to read or inflate at once: a chunk stays in the processor's cache
_LEAST_CHUNK = 1 << 12
_GZIP_CHUNK = 1 << 16  # bytes to read of a gzip stream; zlib copies the remainder for each member
_CUT_OFF = "the file ends inside a record"
_GZIP_MAGIC = b"\x1f\x8b"
# Deflate, no flags, no time, no extra flags, unknown system: zlib would write the machine's own.
_GZIP_HEADER = _GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\xff"


def inflated_limit(file_bytes: int, given: int | None = None) -> int:
    """Return the size of the largest record that is inflated from a file of so many bytes.

    given: the choice of the caller; None for a limit in proportion to the file.
    """
    if given is not None:
        return given
    return max(MAX_RECORD_BYTES, min(file_bytes * _INFLATED_PER_BYTE, MAX_PAYLOAD_BYTES))


class FrameError(ValueError):
    """A damaged stream of frames.

    record: number of the first unreadable record, from 0. In a damaged gzip stream it may be an
      earlier one, because bytes are inflated in blocks and a block is lost as a whole.
    offset: the first byte of that record's frame, in the uncompressed stream.
    what: description of the damage.
    """

    def __init__(self, *, record: int, offset: int, what: str) -> None:
        super().__init__(f"record {record}, at byte {offset}: {what}")
        self.record = record
        self.offset = offset
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return _frame_error, (type(self), self.record, self.offset, self.what)


class FrameSizeError(FrameError):
    """A record of a compressed stream that is larger than the caller allows."""


def _frame_error(kind: type[FrameError], record: int, offset: int, what: str) -> FrameError:
    return kind(record=record, offset=offset, what=what)


class Frame(NamedTuple):
    """A record of a file: its payload, and the offset of its frame in the uncompressed stream."""

    offset: int
    payload: bytes


_CRC_OF_LENGTH_0 = np.uint32(google_crc32c.value(bytes(8)))


def frame_headers(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """Return the headers of payloads of these lengths: uint8[n, 12].

    Raises:
        ValueError: a length is outside 0..`MAX_PAYLOAD_BYTES`.
    """
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= MAX_PAYLOAD_BYTES:
        raise ValueError(
            f"a record holds 0 to {MAX_PAYLOAD_BYTES} bytes, got {lengths.max()}: store less in one"
            " record"
        )
    headers = np.zeros(lengths.size, np.dtype([("length", "<u8"), ("crc", "<u4")]))
    headers["length"] = lengths
    crcs = np.full(lengths.size, _CRC_OF_LENGTH_0)
    for i in range(4):  # the upper four bytes of a valid length are 0
        crcs ^= crc_changes(7 - i)[(lengths >> 8 * i) & 0xFF]
    headers["crc"] = mask_crcs(crcs)
    return headers.view(np.uint8).reshape(-1, HEADER_BYTES)


def frame(payload: bytes) -> bytes:
    """Return the frame of one payload."""
    length = struct.pack("<Q", len(payload))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc32c(length)),
            payload,
            struct.pack("<I", masked_crc32c(payload)),
        )
    )


def payload_crcs(
    data: bytes | bytearray | memoryview, lengths: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint32]:
    """Return the masked checksums of payloads as they are stored in their frames: uint32[n].

    data: the frames, one after the other. lengths: int64[n], their bytes.
    """
    footers = np.cumsum(lengths)[:, None] + np.arange(-FOOTER_BYTES, 0)
    crcs: npt.NDArray[np.uint32] = np.frombuffer(data, np.uint8)[footers].view("<u4").reshape(-1)
    return crcs


def gzip_member(data: bytes | bytearray | memoryview) -> bytes:
    """Compress data into one gzip member. Equal data give equal bytes (with the same zlib).

    A gzip file may consist of any number of members, so they can be compressed in parallel.
    Empty data give no bytes at all: TensorFlow's reader takes an empty member for the end of the
    file, and silently ignores the records after it. Source: RFC 1952; tried with TensorFlow 2.21.
    """
    if not data:
        return b""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    trailer = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_GZIP_HEADER, deflate.compress(data), deflate.flush(), trailer))


def compression_of(head: bytes) -> Compression:
    """Detect the compression of a file by its first `HEADER_BYTES` bytes (fewer if it is shorter).

    The length of an uncompressed frame may begin with gzip's magic number, so its checksum is
    tested first.
    """
    if head.startswith(_GZIP_MAGIC) and not begins_frame(head):
        return "gzip"
    return "none"


def begins_frame(head: bytes) -> bool:
    """Return whether the first `HEADER_BYTES` bytes of a file are the header of a frame."""
    if len(head) != HEADER_BYTES:
        return False
    return masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little")


def payload_of(data: bytes) -> bytes:
    """Return the payload of one complete frame, after checking both checksums.

    Raises:
        FrameError: the frame is damaged, or its length differs from that of the data.
    """
    payloads, _, damage = _whole_frames(data)
    if damage is None and (
        not payloads or len(payloads[0]) != len(data) - HEADER_BYTES - FOOTER_BYTES
    ):
        damage = _DamageError(f"expected one frame of {len(data)} bytes")
    if damage is not None:
        raise FrameError(record=0, offset=0, what=str(damage))
    return payloads[0]


def read_frames(
    stream: BinaryIO,
    *,
    compression: Compression,
    max_inflated: int = MAX_PAYLOAD_BYTES,
    limited_by: str = "--max-record-bytes",
    expected: int = _CHUNK,
) -> Iterator[Frame]:
    """Yield the records of a TFRecord stream, checking every checksum.

    An empty stream holds no records, compressed or not, as in TensorFlow.

    max_inflated: bytes of the largest record that is inflated.
    limited_by: the option of this limit, for messages.
    expected: size of the frames that will be read, in bytes, if the stream has many more.

    Raises:
        FrameSizeError: a record is larger than `max_inflated`.
        FrameError: the stream is damaged. The records before the damaged one have been yielded.
    """
    chunks = _plain(stream, expected) if compression == "none" else _inflated(stream)
    parts: list[bytes] = []  # bytes of an incomplete frame
    held, needed = 0, HEADER_BYTES
    record = offset = 0
    damage: _DamageError | None = None
    while damage is None:
        try:
            chunk = next(chunks, b"")
        except _DamageError as error:
            damage = error
            break
        if not chunk:
            damage = _DamageError(_CUT_OFF) if held else None
            break
        parts.append(chunk)
        held += len(chunk)
        # Nothing is allocated by the length in the header, which may be wrong.
        if held < needed:
            continue
        data = b"".join(parts)
        parts = []
        payloads, needed, damage = _whole_frames(data)
        at = 0
        for payload in payloads:
            yield Frame(offset + at, payload)
            at += HEADER_BYTES + len(payload) + FOOTER_BYTES
        record += len(payloads)
        offset += at
        parts, held = [data[at:]], len(data) - at
        size = needed - HEADER_BYTES - FOOTER_BYTES
        if compression == "gzip" and damage is None and size > max_inflated:
            what = f"claims {size} bytes, but {limited_by} allows {max_inflated}"
            raise FrameSizeError(record=record, offset=offset, what=what)
    if damage is not None:
        what, cause = str(damage), damage.__cause__
        raise FrameError(record=record, offset=offset, what=what) from cause


class _DamageError(Exception):
    """Damage of a stream, raised before the number of the record is known."""


_unpack_header = struct.Struct("<QI").unpack_from


def _whole_frames(data: bytes) -> tuple[list[bytes], int, _DamageError | None]:
    """Split data into frames.

    Returns the payloads of the complete frames, the number of bytes that the next frame takes (or
    its header, if that is incomplete), and the damage of the next frame, if any.
    """
    payloads: list[bytes] = []
    at, size = 0, len(data)
    while at + HEADER_BYTES <= size:
        length, crc = _unpack_header(data, at)
        if masked_crc32c(data[at : at + 8]) != crc:
            return payloads, 0, _DamageError("length checksum does not match")
        if length > MAX_PAYLOAD_BYTES:
            what = f"claims {length} bytes; a record holds {MAX_PAYLOAD_BYTES} at most"
            return payloads, 0, _DamageError(what)
        end = at + HEADER_BYTES + length
        if end + FOOTER_BYTES > size:
            return payloads, end + FOOTER_BYTES - at, None
        payload = data[at + HEADER_BYTES : end]
        if masked_crc32c(payload) != int.from_bytes(data[end : end + FOOTER_BYTES], "little"):
            return payloads, 0, _DamageError("payload checksum does not match")
        payloads.append(payload)
        at = end + FOOTER_BYTES
    return payloads, HEADER_BYTES, None


def _plain(stream: BinaryIO, expected: int) -> Iterator[bytes]:
    size = min(max(expected, _LEAST_CHUNK), _CHUNK)
    while chunk := stream.read(size):
        yield chunk


def _inflated(stream: BinaryIO) -> Iterator[bytes]:
    """Yield the content of all gzip members, at most `_CHUNK` bytes at a time."""
    member = None
    rest = b""
    while chunk := rest or stream.read(_GZIP_CHUNK):
        if member is None:
            if not _GZIP_MAGIC.startswith(chunk[:2]):
                raise _DamageError("not a gzip stream")
            member = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            content = member.decompress(chunk, _CHUNK)
        except zlib.error as error:
            raise _DamageError("the gzip stream is damaged") from error
        if content:
            yield content
        rest = member.unused_data if member.eof else member.unconsumed_tail
        if member.eof:
            member = None
    if member is not None:
        raise _DamageError("the file ends inside a gzip member")
