"""The frames of a TFRecord file: sections, and blocks of payloads (`tfrecord.framing`).

A payload with a wrong checksum is a problem of one record. A damaged header is a problem of the
rest of the file, because it has the length of the record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import google_crc32c
import numpy as np
import numpy.typing as npt

from recordmill.errors import Reason
from recordmill.tfrecord.checksums import mask_crcs, masked_crc32c
from recordmill.tfrecord.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    FrameError,
    begins_frame,
    frame_headers,
    read_frames,
)
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.row_file import BadRow, FileSection

MISMATCH = "its content does not match its checksum"

_CHUNK = 1 << 18  # bytes read at once while headers are read
_MAPPED_ROWS = 1 << 14  # records of a mapped file in a block
_CUT_OFF = "the file ends inside it"
_unpack_length = struct.Struct("<Q").unpack_from


class FrameBlock(NamedTuple):
    """Records of a file.

    data: uint8[...]. offsets, lengths: int64[n], of the frames, in the (uncompressed) file.
    starts: int64[n], of the payloads in `data`. numbers: int64[n], from 0. bad: other records.
    """

    data: npt.NDArray[np.uint8]
    offsets: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    numbers: npt.NDArray[np.int64]
    bad: tuple[BadRow, ...] = ()

    @property
    def ends(self) -> npt.NDArray[np.int64]:
        """Ends of the payloads in `data`, int64[n]."""
        return self.starts + self.lengths - HEADER_BYTES - FOOTER_BYTES


def list_sections(stream: BinaryIO, size: int, *, section: int) -> Iterator[FileSection]:
    """Yield the sections of an uncompressed file; the rest after a damaged header is in the last.

    size: of the file. section: bytes of a section, about.
    """
    start = first = at = number = 0
    while at < size:
        stream.seek(at)
        data = stream.read(_CHUNK)
        frames = _whole_frames(data)
        ends = at + frames.starts + frames.lengths
        if not len(ends):
            if _problem(data, at, size) is not None:
                break
            ends = np.array([at + _length(data)])
        for end in ends.tolist():
            if at > start and (end > start + section or number - first >= limits.BATCH_ROWS):
                yield FileSection(start, at, first, at - start)
                start, first = at, number
            at, number = end, number + 1
    if size > start:
        yield FileSection(start, size, first, size - start)


def read_blocks(
    stream: BinaryIO, section: FileSection, *, size: int, max_bytes: int
) -> Iterator[FrameBlock]:
    """Yield the records of a section of an uncompressed file, after checking their checksums.

    size: of the file. max_bytes: of a record; larger ones are not read.
    """
    at, number = section.start, section.row
    while at < section.end:
        stream.seek(at)
        data = stream.read(min(section.end - at, limits.PART_BYTES))
        frames = _whole_frames(data)
        if not len(frames.starts):
            problem = _problem(data, at, size)
            if problem is not None:
                yield _only_bad(_rest(number, problem, at, size))
                return
            length = _length(data)
            if length - HEADER_BYTES - FOOTER_BYTES > max_bytes:
                why = f"{length} bytes, more than --max-row-bytes {max_bytes}"
                yield _only_bad(BadRow(number, Reason.TOO_LARGE, why))
                at, number = at + length, number + 1
                continue
            stream.seek(at)
            data = stream.read(length)
            frames = _whole_frames(data)
        yield _checked(data, frames, at, number)
        at += int(frames.starts[-1] + frames.lengths[-1])
        number += len(frames.starts)


def map_blocks(data: npt.NDArray[np.uint8]) -> Iterator[FrameBlock]:
    """Yield the records of a mapped file, without checking or reading their payloads.

    data: uint8[n], the file, which may be much larger than memory.
    """
    view = memoryview(data)  # type: ignore[arg-type]
    at = number = 0
    while at < len(data):
        frames = _whole_frames(view, at, most=_MAPPED_ROWS)
        count = len(frames.starts)
        end = int(frames.starts[-1] + frames.lengths[-1]) if count else at
        head = bytes(view[end : end + HEADER_BYTES])
        damaged = end < len(data) and count < _MAPPED_ROWS
        problem = _problem(head, end, len(data)) if damaged else None
        bad = () if problem is None else (_rest(number + count, problem, end, len(data)),)
        numbers = np.arange(count) + number
        starts = frames.starts + HEADER_BYTES
        yield FrameBlock(data, frames.starts, frames.lengths, starts, numbers, bad)
        if bad:
            return
        at, number = end, number + count


def is_intact(block: FrameBlock, row: int) -> bool:
    """Return whether the payload of a record of a mapped file matches its checksum."""
    start, end = int(block.starts[row]), int(block.ends[row])
    stored = int.from_bytes(block.data[end : end + FOOTER_BYTES].tobytes(), "little")
    return masked_crc32c(block.data[start:end].tobytes()) == stored


def inflated_blocks(stream: BinaryIO, *, max_bytes: int) -> Iterator[FrameBlock]:
    """Yield the records of a gzip file, after checking their checksums."""
    frames = read_frames(stream, compression="gzip", max_inflated=max_bytes)
    bad: tuple[BadRow, ...] = ()
    number = 0
    while not bad:
        payloads: list[bytes] = []
        offsets: list[int] = []
        held = 0
        try:
            for one in frames:
                payloads.append(one.payload)
                offsets.append(one.offset)
                held += len(one.payload)
                if held >= limits.PART_BYTES or len(payloads) == limits.BATCH_ROWS:
                    break
            else:
                if not payloads:
                    return
        except FrameError as error:
            why = error.what.replace("--max-record-bytes", "--max-row-bytes")
            why = f"{why} (at byte {error.offset} of the inflated file): no record after it is read"
            bad = (BadRow(number + len(payloads), Reason.CORRUPT, why),)
        sizes = np.array([len(one) for one in payloads], np.int64)
        yield FrameBlock(
            np.frombuffer(b"".join(payloads), np.uint8),
            np.array(offsets, np.int64),
            sizes + HEADER_BYTES + FOOTER_BYTES,
            np.cumsum(sizes) - sizes,
            np.arange(len(payloads)) + number,
            bad,
        )
        number += len(payloads)


class _Frames(NamedTuple):
    """Whole frames: int64[n] each, their bytes one after the other."""

    starts: npt.NDArray[np.int64]
    lengths: npt.NDArray[np.int64]


def _whole_frames(data: bytes | memoryview, at: int = 0, *, most: int = 1 << 62) -> _Frames:
    """Return the frames that follow each other in data, up to the first damaged header."""
    starts: list[int] = []
    size = len(data)
    last = size - HEADER_BYTES
    while at <= last and len(starts) < most:
        end = at + _unpack_length(data, at)[0] + HEADER_BYTES + FOOTER_BYTES
        if end > size:
            break
        starts.append(at)
        at = end
    edges = np.array([*starts, at], np.int64)
    lengths = np.diff(edges)
    if not len(lengths):
        return _Frames(edges[:-1], lengths)
    # All headers are compared at once with those of the lengths, which have valid checksums.
    raw = np.frombuffer(data, np.uint8)
    stored = raw[edges[:-1, None] + np.arange(HEADER_BYTES)]
    sizes = lengths - HEADER_BYTES - FOOTER_BYTES
    valid = sizes <= MAX_PAYLOAD_BYTES
    valid[valid] = (frame_headers(sizes[valid]) == stored[valid]).all(axis=1)
    count = len(valid) if valid.all() else int(np.argmin(valid))
    return _Frames(edges[:count], lengths[:count])


def _problem(head: bytes, at: int, size: int) -> str | None:
    """Return the problem of the header of the frame at `at` in a file, None without one."""
    if len(head) < HEADER_BYTES:
        return _CUT_OFF
    if not begins_frame(head[:HEADER_BYTES]):
        return "its length does not match its checksum"
    if _unpack_length(head, 0)[0] > MAX_PAYLOAD_BYTES:
        return f"it declares more than {MAX_PAYLOAD_BYTES} bytes, the limit for a record"
    return _CUT_OFF if at + _length(head) > size else None


def _length(head: bytes) -> int:
    """Return the bytes of the frame that begins with a header."""
    return int(_unpack_length(head, 0)[0]) + HEADER_BYTES + FOOTER_BYTES


def _checked(data: bytes, frames: _Frames, at: int, number: int) -> FrameBlock:
    """Return the records of frames that match their checksums. at: of `data` in the file."""
    starts = frames.starts + HEADER_BYTES
    ends = frames.starts + frames.lengths - FOOTER_BYTES
    value = google_crc32c.value
    pairs = zip(starts.tolist(), ends.tolist(), strict=True)
    crcs = np.array([value(data[start:end]) for start, end in pairs], np.uint32)
    raw = np.frombuffer(data, np.uint8)
    stored = raw[ends[:, None] + np.arange(FOOTER_BYTES)].view("<u4").reshape(-1)
    intact = mask_crcs(crcs) == stored
    numbers = np.arange(len(starts)) + number
    bad = tuple(
        BadRow(number + row, Reason.CORRUPT, f"{MISMATCH}, at byte {at + int(frames.starts[row])}")
        for row in np.flatnonzero(~intact).tolist()
    )
    return FrameBlock(
        raw,
        frames.starts[intact] + at,
        frames.lengths[intact],
        starts[intact],
        numbers[intact],
        bad,
    )


def _rest(number: int, problem: str, at: int, size: int) -> BadRow:
    """Return the problem of the rest of a file, which begins at `at` with a record."""
    reason = Reason.TRUNCATED if "ends" in problem else Reason.CORRUPT
    why = f"{problem}: the last {size - at} of {size} bytes of the file cannot be read"
    if at and size - at > at / number:
        why += f", about {round((size - at) * number / at)} records"
    return BadRow(number, reason, why)


def _only_bad(bad: BadRow) -> FrameBlock:
    none = np.zeros(0, np.int64)
    return FrameBlock(np.zeros(0, np.uint8), none, none, none, none, (bad,))
