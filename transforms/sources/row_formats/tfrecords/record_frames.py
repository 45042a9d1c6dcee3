"""The frames of a TFRecord file: sections, and blocks of payloads (`tfrecord.framing`).

A payload with a wrong checksum is a problem of one record. After a damaged header, which has the
length of the record, reading continues at the next frame that is followed by another one or by the
end of the file; each record that the bytes between may hold counts as a reject. Damage of a gzip
file is an error, because the number of its further records is unknown.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
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
    begins_frame,
    frame_headers,
    read_frames,
)
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.row_file import BadRow, FileSection

MISMATCH = "its content does not match its checksum"

_CHUNK = 1 << 18  # bytes read at once while headers are read
_MAPPED_ROWS = 1 << 14  # records of a mapped file in a block
_CUT_OFF = "the file ends inside it"
_LEAST_FRAME = HEADER_BYTES + FOOTER_BYTES
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
        return self.starts + self.lengths - _LEAST_FRAME


def list_sections(stream: BinaryIO, size: int, *, section: int) -> Iterator[FileSection]:
    """Yield the sections of an uncompressed file; damaged bytes are never divided.

    size: of the file. section: bytes of a section, about.
    """
    read = _reader(stream)
    start = first = at = number = 0
    while at < size:
        data = read(at, _CHUNK)
        frames = _whole_frames(data)
        ends = at + frames.starts + frames.lengths
        records = 1
        if not len(ends):
            problem = _problem(read, at, size)
            if problem is None:
                end = at + _length(data)
            else:
                end = _next_frame(read, at, size)
                records = len(_skipped(read, number, problem, at, end, size))
            ends = np.array([end])
        for end in ends.tolist():
            if at > start and (end > start + section or number - first >= limits.PART_ROWS):
                yield FileSection(start, at, first, at - start)
                start, first = at, number
            at, number = end, number + records
    if size > start:
        yield FileSection(start, size, first, size - start)


def read_blocks(
    stream: BinaryIO, section: FileSection, *, size: int, max_bytes: int
) -> Iterator[FrameBlock]:
    """Yield the records of a section of an uncompressed file, after checking their checksums.

    size: of the file. max_bytes: of a record; larger ones are not read.
    """
    read = _reader(stream)
    at, number = section.start, section.row
    while at < section.end:
        data = read(at, min(section.end - at, limits.PART_BYTES))
        frames = _whole_frames(data)
        if not len(frames.starts):
            problem = _problem(read, at, size)
            if problem is not None:
                end = _next_frame(read, at, size)
                bad = _skipped(read, number, problem, at, end, size)
                yield _only_bad(*bad)
                at, number = end, number + len(bad)
                continue
            length = _length(data)
            if length - _LEAST_FRAME > max_bytes:
                why = f"{length} bytes, more than --max-row-bytes {max_bytes}"
                yield _only_bad(BadRow(number, Reason.TOO_LARGE, why))
                at, number = at + length, number + 1
                continue
            data = read(at, length)
            frames = _whole_frames(data)
        yield _checked(data, frames, at, number)
        at += int(frames.starts[-1] + frames.lengths[-1])
        number += len(frames.starts)


def map_blocks(data: npt.NDArray[np.uint8]) -> Iterator[FrameBlock]:
    """Yield the records of a mapped file, without checking or reading their payloads.

    data: uint8[n], the file, which may be much larger than memory.
    """
    view = memoryview(data)  # type: ignore[arg-type]
    size = len(data)

    def read(at: int, count: int) -> bytes:
        return bytes(view[at : at + count])

    at = number = 0
    while at < size:
        frames = _whole_frames(view, at, most=_MAPPED_ROWS)
        count = len(frames.starts)
        numbers = np.arange(count) + number
        number += count
        if count:
            at = int(frames.starts[-1] + frames.lengths[-1])
        problem = _problem(read, at, size) if at < size else None
        bad: tuple[BadRow, ...] = ()
        if problem is not None:
            end = _next_frame(read, at, size)
            bad = _skipped(read, number, problem, at, end, size)
            at, number = end, number + len(bad)
        starts = frames.starts + HEADER_BYTES
        yield FrameBlock(data, frames.starts, frames.lengths, starts, numbers, bad)


def is_intact(block: FrameBlock, row: int) -> bool:
    """Return whether the payload of a record of a mapped file matches its checksum."""
    start, end = int(block.starts[row]), int(block.ends[row])
    stored = int.from_bytes(block.data[end : end + FOOTER_BYTES].tobytes(), "little")
    return masked_crc32c(block.data[start:end].tobytes()) == stored


def inflated_blocks(stream: BinaryIO, *, max_bytes: int) -> Iterator[FrameBlock]:
    """Yield the records of a gzip file, after checking their checksums.

    Raises:
      FrameError: as `read_frames`.
    """
    frames = read_frames(
        stream, compression="gzip", max_inflated=max_bytes, limited_by="--max-row-bytes"
    )
    number = 0
    while True:
        payloads: list[bytes] = []
        offsets: list[int] = []
        held = 0
        for one in frames:
            payloads.append(one.payload)
            offsets.append(one.offset)
            held += len(one.payload)
            if held >= limits.PART_BYTES or len(payloads) == limits.PART_ROWS:
                break
        if not payloads:
            return
        sizes = np.array([len(one) for one in payloads], np.int64)
        yield FrameBlock(
            np.frombuffer(b"".join(payloads), np.uint8),
            np.array(offsets, np.int64),
            sizes + _LEAST_FRAME,
            np.cumsum(sizes) - sizes,
            np.arange(len(payloads)) + number,
        )
        number += len(payloads)


_Read = Callable[[int, int], bytes]
"""Function that returns up to as many bytes of a file as its second argument, from an offset on."""


def _reader(stream: BinaryIO) -> _Read:
    def read(at: int, count: int) -> bytes:
        stream.seek(at)
        return stream.read(count)

    return read


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
        end = at + _unpack_length(data, at)[0] + _LEAST_FRAME
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
    sizes = lengths - _LEAST_FRAME
    valid = sizes <= MAX_PAYLOAD_BYTES
    valid[valid] = (frame_headers(sizes[valid]) == stored[valid]).all(axis=1)
    count = len(valid) if valid.all() else int(np.argmin(valid))
    return _Frames(edges[:count], lengths[:count])


def _problem(read: _Read, at: int, size: int) -> str | None:
    """Return the problem of the header of the frame at `at` in a file, None without one."""
    head = read(at, HEADER_BYTES)
    if len(head) < HEADER_BYTES:
        return _CUT_OFF
    if not begins_frame(head):
        return "its length does not match its checksum"
    if _unpack_length(head, 0)[0] > MAX_PAYLOAD_BYTES:
        return f"it declares more than {MAX_PAYLOAD_BYTES} bytes, the limit for a record"
    return _CUT_OFF if at + _length(head) > size else None


def _next_frame(read: _Read, damaged: int, size: int) -> int:
    """Return the offset of the first frame after a damaged one, or the size of the file.

    Frames have no marks. Any 12 bytes may be a valid header by chance, or be one inside a record
    that contains another TFRecord file. So the frame must end with the file, or before a header.
    """

    def is_followed(start: int) -> bool:
        end = start + _length(read(start, HEADER_BYTES))
        return end == size or (end < size and begins_frame(read(end, HEADER_BYTES)))

    at = damaged + 1
    while at + _LEAST_FRAME <= size:
        data = read(at, _CHUNK)
        for start in _header_starts(data):
            if is_followed(at + start):
                return at + start
        at += len(data) - HEADER_BYTES + 1
    return size


def _header_starts(data: bytes) -> list[int]:
    """Return the offsets of valid headers in data."""
    raw = np.frombuffer(data, np.uint8)
    windows = np.lib.stride_tricks.sliding_window_view(raw, HEADER_BYTES)
    # In a valid length the upper four bytes are 0, and so is the sign bit of the lower four.
    starts = np.flatnonzero((windows[:, 3] < 128) & ~windows[:, 4:8].any(axis=1))
    heads = windows[starts]
    lengths = np.ascontiguousarray(heads[:, :8]).view("<i8").reshape(-1)
    found: list[int] = starts[(frame_headers(lengths) == heads).all(axis=1)].tolist()
    return found


def _length(head: bytes) -> int:
    """Return the bytes of the frame that begins with a header."""
    return int(_unpack_length(head, 0)[0]) + _LEAST_FRAME


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


def _skipped(
    read: _Read, number: int, problem: str, at: int, end: int, size: int
) -> tuple[BadRow, ...]:
    """Return the records that the bytes from `at` to `end`, the next frame, may hold.

    number: of the first of them, which equals the number of records before `at`. size: of the file,
    which is also `end` if no frame follows.
    """
    if end == size:
        why = f"{problem}: the last {size - at} of {size} bytes of the file cannot be read"
        if problem == _CUT_OFF:
            return (BadRow(number, Reason.TRUNCATED, why),)
    else:
        if problem == _CUT_OFF:
            problem = "its length reaches beyond the end of the file"
        place = f"the bytes from {at} to {end}, where the next intact record begins,"
        why = f"{problem}: {place} are skipped"
    records = 1 if at == 0 or _is_one_record(read, at, end) else round((end - at) * number / at)
    if records > 1:
        why += f", about {records} records"
    numbers = range(number, number + min(max(records, 1), limits.PART_ROWS))
    return tuple(BadRow(one, Reason.CORRUPT, why) for one in numbers)


def _is_one_record(read: _Read, at: int, end: int) -> bool:
    """Return whether bytes are one frame of which only the header is damaged."""
    if not _LEAST_FRAME <= end - at <= limits.PART_BYTES:
        return False
    data = read(at, end - at)
    stored = int.from_bytes(data[-FOOTER_BYTES:], "little")
    return masked_crc32c(data[HEADER_BYTES:-FOOTER_BYTES]) == stored


def _only_bad(*bad: BadRow) -> FrameBlock:
    none = np.zeros(0, np.int64)
    return FrameBlock(np.zeros(0, np.uint8), none, none, none, none, bad)
