"""The frames of a TFRecord file: sections, and blocks of payloads (`tfrecord.framing`).

A payload with a wrong checksum is a problem of one record. A damaged header is a problem of the
rest of the file, because it has the length of the record.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.errors import Reason
from recordmill.tfrecord.checksums import masked_crc32c
from recordmill.tfrecord.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    MAX_PAYLOAD_BYTES,
    FrameError,
    read_frames,
)
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.row_file import BadRow, FileSection

MISMATCH = "its content does not match its checksum"

_CHUNK = 1 << 18  # bytes read at once while headers are read
_header = struct.Struct("<QI").unpack_from


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
    start = row = 0
    for row_number, at, end in _walk(stream, size):
        if (end > start + section and at > start) or row_number - row >= limits.BATCH_ROWS:
            yield FileSection(start, at, row, at - start)
            start, row = at, row_number
    if size > start:
        yield FileSection(start, size, row, size - start)


def _walk(stream: BinaryIO, size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (number, start, end) of each frame by its header, up to a damaged one."""
    at = number = begin = 0
    data = b""
    while at < size:
        if at + HEADER_BYTES > begin + len(data):
            stream.seek(at)
            begin, data = at, stream.read(_CHUNK)
        if at + HEADER_BYTES > begin + len(data) or _problem(data, at - begin) is not None:
            return
        end = at + HEADER_BYTES + int(_header(data, at - begin)[0]) + FOOTER_BYTES
        if end > size:
            return
        yield number, at, end
        number, at = number + 1, end


def _problem(data: bytes, at: int) -> str | None:
    length, crc = _header(data, at)
    if masked_crc32c(data[at : at + 8]) != crc:
        return "its length does not match its checksum"
    if length > MAX_PAYLOAD_BYTES:
        return f"it claims {length} bytes; a record holds {MAX_PAYLOAD_BYTES} at most"
    return None


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
        block, taken = _parsed(data, at, number)
        if not taken:
            problem = "the file ends inside it" if len(data) < HEADER_BYTES else _problem(data, 0)
            length = 0 if problem else HEADER_BYTES + int(_header(data, 0)[0]) + FOOTER_BYTES
            if problem is None and at + length > size:
                problem = "the file ends inside it"
            if problem is not None:
                yield _only_bad(_rest(number, problem, size - at))
                return
            if length - HEADER_BYTES - FOOTER_BYTES > max_bytes:
                why = f"{length} bytes, more than --max-row-bytes {max_bytes}"
                block = _only_bad(BadRow(number, Reason.TOO_LARGE, why))
                taken = length
            else:
                stream.seek(at)
                block, taken = _parsed(stream.read(length), at, number)
        yield block
        at += taken
        number += len(block.numbers) + len(block.bad)


def map_blocks(
    data: npt.NDArray[np.uint8], section: FileSection, *, size: int
) -> Iterator[FrameBlock]:
    """Yield the records of a section of a file in memory, without checking their payloads.

    data: uint8[size], usually a mapped file, of which only headers are read.
    """
    view = memoryview(data)  # type: ignore[arg-type]
    at, number = section.start, section.row
    offsets: list[int] = []
    problem: str | None = None
    while at < section.end:
        head = bytes(view[at : at + HEADER_BYTES])
        problem = "the file ends inside it" if len(head) < HEADER_BYTES else _problem(head, 0)
        end = at + HEADER_BYTES + int(_header(head, 0)[0]) + FOOTER_BYTES if not problem else size
        if problem is None and end > size:
            problem = "the file ends inside it"
        if problem is not None:
            break
        offsets.append(at)
        at = end
    edges = np.array([*offsets, at], np.int64)
    numbers = np.arange(len(offsets)) + number
    bad = () if problem is None else (_rest(number + len(offsets), problem, size - at),)
    yield FrameBlock(data, edges[:-1], np.diff(edges), edges[:-1] + HEADER_BYTES, numbers, bad)


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


def _parsed(data: bytes, at: int, number: int) -> tuple[FrameBlock, int]:
    """Return the whole records at the start of data, and the bytes that they take."""
    starts, ends, numbers, bad = [], [], [], []
    here, size = 0, len(data)
    while here + HEADER_BYTES <= size and _problem(data, here) is None:
        start = here + HEADER_BYTES
        end = start + int(_header(data, here)[0])
        if end + FOOTER_BYTES > size:
            break
        if masked_crc32c(data[start:end]) == int.from_bytes(
            data[end : end + FOOTER_BYTES], "little"
        ):
            starts.append(start)
            ends.append(end)
            numbers.append(number)
        else:
            why = f"{MISMATCH}, at byte {at + here}"
            bad.append(BadRow(number, Reason.CORRUPT, why))
        number += 1
        here = end + FOOTER_BYTES
    first, last = np.array(starts, np.int64), np.array(ends, np.int64)
    return FrameBlock(
        np.frombuffer(data, np.uint8),
        first - HEADER_BYTES + at,
        last - first + HEADER_BYTES + FOOTER_BYTES,
        first,
        np.array(numbers, np.int64),
        tuple(bad),
    ), here


def _rest(number: int, problem: str, rest: int) -> BadRow:
    """Return the problem of the rest of a file."""
    reason = Reason.TRUNCATED if "ends" in problem else Reason.CORRUPT
    why = f"{problem}: the last {rest} bytes of the file cannot be read"
    return BadRow(number, reason, why)


def _only_bad(bad: BadRow) -> FrameBlock:
    none = np.zeros(0, np.int64)
    return FrameBlock(np.zeros(0, np.uint8), none, none, none, none, (bad,))
