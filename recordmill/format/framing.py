"""The TFRecord wire format: frames with masked CRC32C checksums, plain or as gzip members.

A frame is the payload's length (uint64, little-endian), the masked checksum of those 8 bytes
(uint32), the payload, and the masked checksum of the payload (uint32).
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

from recordmill.format.crc import changes

Compression = Literal["none", "gzip"]

HEAD = 12  # bytes before the payload
TAIL = 4  # bytes after it
LARGEST = (1 << 31) - 1  # bytes of a payload: the most that a protobuf message can hold

_MASK_DELTA = 0xA282EAD8
_CHUNK = 1 << 18  # bytes read, or inflated, at once: they stay in the processor's cache
_GZIP_CHUNK = 1 << 16  # bytes read of a gzip stream; zlib copies what is left of it per member
_CUT_OFF = "the file ends inside a record"
_GZIP_MAGIC = b"\x1f\x8b"
# Deflate, no flags, no time, no extra flags, unknown system: zlib would fill in the machine's own.
_GZIP_HEADER = _GZIP_MAGIC + b"\x08\x00\x00\x00\x00\x00\x00\xff"


class FrameError(ValueError):
    """A stream that is not whole frames.

    record: number of the first record that cannot be read, from 0 (where a gzip stream is damaged
      it may be an earlier one: what was inflated together is lost together).
    offset: where its frame begins, in bytes of the uncompressed stream.
    what: what is wrong, in our own words.
    """

    def __init__(self, *, record: int, offset: int, what: str) -> None:
        super().__init__(f"record {record}, at byte {offset}: {what}")
        self.record = record
        self.offset = offset
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return _frame_error, (self.record, self.offset, self.what)


def _frame_error(record: int, offset: int, what: str) -> FrameError:
    return FrameError(record=record, offset=offset, what=what)


class Frame(NamedTuple):
    """A record as it stands in a file; `offset` is its frame's, in the uncompressed stream."""

    offset: int
    payload: bytes


def masked_crc32c(data: bytes) -> int:
    """The checksum that frames carry: CRC32C, rotated and shifted, uint32."""
    crc: int = google_crc32c.value(data)
    return (((crc >> 15) | (crc << 17)) + _MASK_DELTA) & 0xFFFFFFFF


def mask_crcs(crcs: npt.NDArray[np.uint32]) -> npt.NDArray[np.uint32]:
    """Masks CRC32C values, uint32[n] to uint32[n], as `masked_crc32c` does."""
    return ((crcs >> np.uint32(15)) | (crcs << np.uint32(17))) + np.uint32(_MASK_DELTA)


_LENGTH_ZERO = np.uint32(google_crc32c.value(bytes(8)))


def frame_heads(lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.uint8]:
    """What stands before payloads of these lengths, uint8[n, 12].

    Raises ValueError for a length outside 0..`LARGEST`.
    """
    if lengths.size and not 0 <= lengths.min() <= lengths.max() <= LARGEST:
        raise ValueError(
            f"a record holds 0 to {LARGEST} bytes, got {lengths.max()}: store less in one record"
        )
    heads = np.zeros(lengths.size, np.dtype([("length", "<u8"), ("crc", "<u4")]))
    heads["length"] = lengths
    crcs = np.full(lengths.size, _LENGTH_ZERO)
    for i in range(4):
        crcs ^= changes(7 - i)[(lengths >> 8 * i) & 0xFF]
    heads["crc"] = mask_crcs(crcs)
    return heads.view(np.uint8).reshape(-1, HEAD)


def frame(payload: bytes) -> bytes:
    """One payload as a frame."""
    length = struct.pack("<Q", len(payload))
    return b"".join(
        (
            length,
            struct.pack("<I", masked_crc32c(length)),
            payload,
            struct.pack("<I", masked_crc32c(payload)),
        )
    )


def gzip_member(data: bytes) -> bytes:
    """Data as one gzip member; equal data give equal bytes (with the same zlib).

    A file may be any number of members one after another, so they can be compressed side by side.
    No data are no bytes: at a member of nothing TensorFlow's reader takes the file to be over, and
    says nothing about the records after it. Source: RFC 1952; tried with TensorFlow 2.21.
    """
    if not data:
        return b""
    deflate = zlib.compressobj(6, zlib.DEFLATED, -zlib.MAX_WBITS)
    trailer = struct.pack("<II", zlib.crc32(data), len(data) & 0xFFFFFFFF)
    return b"".join((_GZIP_HEADER, deflate.compress(data), deflate.flush(), trailer))


def compression_of(head: bytes) -> Compression:
    """How a file is compressed that begins with these bytes, `HEAD` of them where it has so many.

    The length of a frame may begin as gzip does, so that its checksum is asked first.
    """
    if head.startswith(_GZIP_MAGIC) and not _begins_frame(head):
        return "gzip"
    return "none"


def _begins_frame(head: bytes) -> bool:
    return len(head) == HEAD and masked_crc32c(head[:8]) == int.from_bytes(head[8:], "little")


def payload_of(data: bytes) -> bytes:
    """The payload of one whole frame, both checksums checked.

    Raises:
        FrameError: it is damaged, or not one frame just as long as the data.
    """
    payloads, _, damage = _whole_frames(data)
    if damage is None and (not payloads or len(payloads[0]) != len(data) - HEAD - TAIL):
        damage = _DamageError(f"its frame does not take the {len(data)} bytes that are given")
    if damage is not None:
        raise FrameError(record=0, offset=0, what=str(damage))
    return payloads[0]


def read_frames(stream: BinaryIO, *, compression: Compression) -> Iterator[Frame]:
    """Yields the records of a TFRecord stream, every checksum checked.

    A stream without a byte holds no records, compressed or not, as for TensorFlow.

    Raises:
        FrameError: the stream is damaged; the records before the one it names have been yielded.
    """
    chunks = _plain(stream) if compression == "none" else _inflated(stream)
    parts: list[bytes] = []  # of frames that are not whole yet
    held, wanted = 0, HEAD
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
        # Joined when there is enough: a length that lies about the file must not be allocated.
        if held < wanted:
            continue
        data = b"".join(parts)
        payloads, wanted, damage = _whole_frames(data)
        at = 0
        for payload in payloads:
            yield Frame(offset + at, payload)
            at += HEAD + len(payload) + TAIL
        record += len(payloads)
        offset += at
        parts, held = [data[at:]], len(data) - at
    if damage is not None:
        what, cause = str(damage), damage.__cause__
        raise FrameError(record=record, offset=offset, what=what) from cause


class _DamageError(Exception):
    """What is wrong, before it is known in which record."""


_unpack_head = struct.Struct("<QI").unpack_from


def _whole_frames(data: bytes) -> tuple[list[bytes], int, _DamageError | None]:
    """The payloads of whole frames, how many bytes the next one takes, as far as that is known, and
    what is wrong with it.
    """
    payloads: list[bytes] = []
    at, size = 0, len(data)
    while at + HEAD <= size:
        length, crc = _unpack_head(data, at)
        if masked_crc32c(data[at : at + 8]) != crc:
            return payloads, 0, _DamageError("length checksum does not match")
        if length > LARGEST:
            what = f"claims {length} bytes; a record holds {LARGEST} at most"
            return payloads, 0, _DamageError(what)
        end = at + HEAD + length
        if end + TAIL > size:
            return payloads, end + TAIL - at, None
        payload = data[at + HEAD : end]
        if masked_crc32c(payload) != int.from_bytes(data[end : end + TAIL], "little"):
            return payloads, 0, _DamageError("payload checksum does not match")
        payloads.append(payload)
        at = end + TAIL
    return payloads, HEAD, None


def _plain(stream: BinaryIO) -> Iterator[bytes]:
    while chunk := stream.read(_CHUNK):
        yield chunk


def _inflated(stream: BinaryIO) -> Iterator[bytes]:
    """Yields the content of all gzip members, never more than `_CHUNK` bytes at once."""
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
