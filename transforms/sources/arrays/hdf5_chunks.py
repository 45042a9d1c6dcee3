"""Check of the stored chunks of an HDF5 dataset before HDF5 reads them.

HDF5 does not compare the size of a decompressed chunk with the size of the chunk: where it is
smaller, values come from memory that was never written, or from beyond the buffer.

Source of the filters and their parameters:
https://support.hdfgroup.org/documentation/hdf5/latest/group___h5_z.html
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections.abc import Iterable, Sequence
from typing import Any

from recordmill.errors import Reason, RecordError

_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF = 1, 2, 3, 32000
_CHECKSUM_BYTES = 4  # that FLETCHER32 appends
_PIECE = 1 << 16  # bytes that are inflated at a time
_CHECKED = (_DEFLATE, _SHUFFLE, _FLETCHER32, _LZF)

Slices = Sequence[tuple[int, int]]  # (start, stop) along each axis


def check_filters(dataset: Any) -> None:
    """Raise RecordError unless the size of every decompressed chunk can be checked.

    dataset: an h5py.Dataset, stored in chunks.
    """
    filters = _filters(dataset)
    unknown = [name for code, name in filters if code not in _CHECKED]
    if unknown:
        raise RecordError(
            Reason.UNSUPPORTED,
            f"an HDF5 array with the filter {unknown[0]!r}: expected gzip, lzf, shuffle or"
            " fletcher32; rewrite it with 'h5repack -f GZIP=4'",
        )
    if sum(code in (_DEFLATE, _LZF) for code, _ in filters) > 1:
        raise RecordError(Reason.UNSUPPORTED, "an HDF5 array that is compressed twice")


def chunk_bytes(dataset: Any) -> int:
    """Return the size of a chunk in bytes, 0 if the dataset is not stored in chunks."""
    if not dataset.chunks:
        return 0
    size: int = dataset.id.get_type().get_size()
    if dataset.dtype.hasobject:  # texts: a length, and an address and a number in the global heap
        address, _ = dataset.file.id.get_create_plist().get_sizes()
        size = 4 + address + 4
    return int(math.prod(dataset.chunks)) * size


class ChunkCheck:
    """Check of the chunks of one dataset; each is checked once.

    dataset: an h5py.Dataset, stored in chunks, that passes `check_filters`.
    """

    def __init__(self, dataset: Any) -> None:
        self._id = dataset.id
        self._shape: tuple[int, ...] = dataset.shape
        self._chunks: tuple[int, ...] = dataset.chunks
        self._bytes = chunk_bytes(dataset)
        self._codes = [code for code, _ in _filters(dataset)]
        self._checked: set[tuple[int, ...]] = set()
        self._count: int = self._id.get_num_chunks()

    def check(self, slices: Slices) -> None:
        """Check the stored chunks of a part of the dataset.

        Raises:
          RecordError: a chunk has more or fewer bytes than its shape.
        """
        if not self._count:
            return
        for offset in self._offsets(slices):
            if offset not in self._checked:
                self._check_chunk(offset)
                self._checked.add(offset)

    def _offsets(self, slices: Slices) -> Iterable[tuple[int, ...]]:
        """Return the offsets of the chunks of a part, without most of those that are not stored.

        A damaged file may declare any number of chunks.
        """
        steps = [
            range(start // size * size, stop, size)
            for (start, stop), size in zip(slices, self._chunks, strict=True)
        ]
        if math.prod(map(len, steps)) <= self._count:
            return itertools.product(*steps)
        return [
            offset
            for offset in self._stored_offsets
            if all(at in step for at, step in zip(offset, steps, strict=True))
        ]

    @functools.cached_property
    def _stored_offsets(self) -> list[tuple[int, ...]]:
        offsets: list[tuple[int, ...]] = []
        self._id.chunk_iter(lambda chunk: offsets.append(chunk.chunk_offset))
        return offsets

    def _check_chunk(self, offset: tuple[int, ...]) -> None:
        info = self._id.get_chunk_info_by_coord(offset)
        if info.byte_offset is None:
            return  # not stored: HDF5 fills it
        codes = [code for bit, code in enumerate(self._codes) if not info.filter_mask >> bit & 1]
        if not any(code in (_DEFLATE, _LZF) for code in codes):
            size = info.size
        else:
            _, data = self._id.read_direct_chunk(offset)
            size = len(data)
            for code in reversed(codes):
                if code == _DEFLATE:
                    size = _inflated_size(data[:size], self._limit)
                elif code == _LZF:
                    size = _lzf_size(data[:size])
                elif code == _FLETCHER32:
                    size -= _CHECKSUM_BYTES
            codes = []
        size -= _CHECKSUM_BYTES * codes.count(_FLETCHER32)
        if size != self._bytes:
            how = "more" if size > self._bytes else f"{max(size, 0)}"
            raise RecordError(
                Reason.CORRUPT,
                f"its chunk at {list(offset)} decompresses to {how} bytes; expected {self._bytes}",
            )

    @property
    def _limit(self) -> int:
        return self._bytes + _CHECKSUM_BYTES * len(self._codes)


def _filters(dataset: Any) -> list[tuple[int, str]]:
    """Return (code, name) of the filters of a dataset, in the order of writing."""
    properties = dataset.id.get_create_plist()
    found = map(properties.get_filter, range(properties.get_nfilters()))
    return [(code, name.decode(errors="replace") or str(code)) for code, _, _, name in found]


def _inflated_size(data: bytes, limit: int) -> int:
    """Return the size of a zlib stream after decompression, or limit + 1 if it is larger."""
    stream = zlib.decompressobj()
    size = 0
    try:
        while not stream.eof:
            piece = stream.decompress(data, _PIECE)
            size += len(piece)
            data = stream.unconsumed_tail
            if size > limit:
                return limit + 1
            if not piece and not data:
                break
    except zlib.error as error:
        raise RecordError(Reason.CORRUPT, "a chunk that cannot be decompressed") from error
    if not stream.eof:
        raise RecordError(Reason.TRUNCATED, "a chunk whose compressed data ends early")
    return size


def _lzf_size(data: bytes) -> int:
    """Return the size of LZF data after decompression.

    Source: lzf_d.c of liblzf. A control byte below 32 precedes that many literals plus one, any
    other a back reference of its upper three bits plus two, whose 7 means that a byte follows.
    """
    at = size = 0
    end = len(data)
    try:
        while at < end:
            control = data[at]
            if control < 32:
                at += control + 2
                size += control + 1
                continue
            length = control >> 5
            if length == 7:
                at += 1
                length += data[at]
            at += 2
            size += length + 2
    except IndexError:
        at = end + 1
    if at > end:
        raise RecordError(Reason.TRUNCATED, "a chunk whose compressed data ends early")
    return size
