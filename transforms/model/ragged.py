"""Ragged rows of strings or numbers as flat NumPy arrays with offsets, and their Arrow forms."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.flat_arrays import Bytes, Ints, offsets_of

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer

_Number = TypeVar("_Number", bound=np.generic)
Places = Ints | npt.NDArray[np.int32]

_BLOCK = 1 << 18  # bytes

# Short strings as numbers: their bytes, and their size in the highest byte. Long ones: their code.
_SHORT = 7  # bytes, at most
_MANY = 1 << 17  # strings; fewer fit the processor's cache
_SHORT_MASKS = np.array([(1 << 8 * size) - 1 for size in range(_SHORT + 1)], np.uint64)
_SIZE_BITS = np.uint64(8 * _SHORT)
_IS_LONG = np.uint64(1 << 63)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DictionaryStrings:
    """Ragged rows of strings, dictionary-encoded: string i is distinct[codes[i]].

    A function of a string is computed once per distinct string.

    codes: int64[strings]. offsets: int64[rows + 1], the range of each row in `codes`. distinct:
        string, without nulls or duplicates.
    """

    codes: Ints
    offsets: Ints
    distinct: pa.StringArray

    @property
    def counts(self) -> Ints:
        """Number of strings of each row, int64[rows]."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Ints:
        """Row of each string, int64[strings]."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def split(self, parts: DictionaryStrings) -> DictionaryStrings:
        """Replace every string by its parts: row c of `parts` holds the parts of the string of code
        c.
        """
        codes, edges = picked(parts.codes, parts.offsets, self.codes)
        return DictionaryStrings(codes=codes, offsets=edges[self.offsets], distinct=parts.distinct)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Flat:
    """UTF-8 of texts in one buffer, each text followed by a space.

    data: uint8[...]. starts: int64[texts], the offset of each text.
    """

    data: Bytes
    starts: Ints

    @classmethod
    def of(cls, texts: pa.StringArray) -> Flat:
        """Build the buffer from string[n] without nulls."""
        ends = pa.repeat(pa.scalar("", texts.type), len(texts))
        data, edges = string_bytes(pc.binary_join_element_wise(texts, ends, " "))
        return cls(data=data, starts=edges[:-1])

    @functools.cached_property
    def ends(self) -> Ints:
        """Offset of the end of each text, int64[texts]."""
        return np.append(self.starts[1:], self.data.size) - 1 if self.starts.size else self.starts

    def cut(self, starts: Places, stops: Places) -> DictionaryStrings:
        """Return the strings data[starts[i]:stops[i]], which ascend, each within one text."""
        codes, distinct = _encode(self.data, starts, stops)
        edges = np.searchsorted(starts, self.starts.astype(starts.dtype))
        return DictionaryStrings(
            codes=codes, offsets=np.append(edges, len(starts)), distinct=distinct
        )


def _encode(data: Bytes, starts: Places, stops: Places) -> tuple[Ints, pa.StringArray]:
    """Dictionary-encode the strings data[starts[i]:stops[i]], which ascend.

    Arrow encodes numbers twice as fast as strings, so short strings are encoded as their bytes and
    their size in one number, and long strings as their code.
    """
    sizes = stops - starts
    long = np.flatnonzero(sizes > _SHORT)
    # In scripts other than Latin, many strings are long.
    if len(starts) < _MANY or 3 * long.size > len(starts):
        return _encode_strings(data, starts, stops)
    long_codes, long_strings = _encode_strings(data, starts[long], stops[long])
    every = np.append(data, np.zeros(8, np.uint8))
    keys = np.ndarray((data.size + 1,), "<u8", every, strides=(1,))[starts]
    keys &= _SHORT_MASKS[np.minimum(sizes, _SHORT)]
    keys |= sizes.astype(np.uint64) << _SIZE_BITS
    keys[long] = long_codes.astype(np.uint64) | _IS_LONG
    coded = pa.array(keys).dictionary_encode()
    distinct = np.asarray(coded.dictionary)
    is_long = distinct >= _IS_LONG
    sizes = (distinct[~is_long] >> _SIZE_BITS).astype(np.int64)
    table = distinct[~is_long].astype("<u8").view(np.uint8).reshape(-1, 8)
    short_strings = flat_strings(table[np.arange(8) < sizes[:, None]], offsets_of(sizes))
    places = np.cumsum(~is_long) - 1
    places[is_long] = len(sizes) + (distinct[is_long] ^ _IS_LONG).astype(np.int64)
    strings = pa.concat_arrays([short_strings, long_strings]).take(pa.array(places))
    return np.asarray(coded.indices).astype(np.int64), strings


def _encode_strings(data: Bytes, starts: Places, stops: Places) -> tuple[Ints, pa.StringArray]:
    edges = np.empty(2 * len(starts), np.int32)
    edges[::2], edges[1::2] = starts, stops
    # The strings and the gaps between them share one buffer; every second one is taken.
    count = max(len(edges) - 1, 0)
    buffers = [None, pa.py_buffer(edges), pa.py_buffer(data)]
    both = pa.Array.from_buffers(pa.string(), count, buffers)
    coded = both.take(pa.array(np.arange(0, count, 2, dtype=np.int32))).dictionary_encode()
    return np.asarray(coded.indices).astype(np.int64), coded.dictionary


def stretches(starts: Ints, sizes: Ints) -> Ints:
    """Return the indices starts[i] .. starts[i] + sizes[i] - 1 of every range i, concatenated."""
    ends = offsets_of(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)


def list_array(values: npt.NDArray[np.generic], offsets: Ints) -> pa.ListArray:
    """Return ragged rows of numbers as an Arrow list array."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def picked(values: Ints, offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """Return the values of the given rows, concatenated in their order, and the offsets of these
    rows.
    """
    starts = offsets[rows]
    sizes = offsets[rows + 1] - starts
    return values[stretches(starts, sizes)], offsets_of(sizes)


def flattened(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Return rows of integers as flat values, int64[...], and offsets, int64[n + 1]."""
    edges = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    values = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(edges[-1]))
    return values, edges


def binary_array(values: Sequence[bytes | memoryview]) -> pa.LargeBinaryArray:
    """Return large binary values as an Arrow array.

    `pa.array(list)` would import pandas if it is installed, which takes 0.9 s.
    """
    return cut_binary(b"".join(values), [len(value) for value in values])


def cut_binary(data: ReadableBuffer, sizes: Sequence[int]) -> pa.LargeBinaryArray:
    """Return bytes as consecutive binary values of the given sizes, without copying them."""
    offsets = offsets_of(np.array(sizes, np.int64))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.large_binary(), len(sizes), buffers)


def fixed_lists(table: npt.NDArray[np.generic]) -> pa.FixedSizeListArray:
    """Return numbers[rows, width] as an Arrow array of fixed-size lists."""
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), table.shape[1])


def padded(
    values: npt.NDArray[_Number], offsets: Ints, *, length: int, fill: int
) -> tuple[npt.NDArray[_Number], Ints]:
    """Return each row padded or cut to `length`, [rows, length], and its number of values,
    int64[rows].

    The number of values counts no padding. fill: the value of the padding.
    """
    sizes = np.minimum(np.diff(offsets), length)
    table = np.full((sizes.size, length), fill, values.dtype)
    table[np.arange(length) < sizes[:, None]] = values[stretches(offsets[:-1], sizes)]
    return table, sizes


def string_bytes(strings: pa.StringArray) -> tuple[Bytes, Ints]:
    """Return the UTF-8 of all strings, uint8[...], and the offsets of the strings in it, int64[n +
    1].
    """
    if not len(strings):  # then Arrow may have no buffers
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = strings.buffers()
    edges = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4).astype(np.int64)
    start, stop = int(edges[0]), int(edges[-1])
    return np.frombuffer(data or b"", np.uint8)[start:stop], edges - start


def string_array(texts: Sequence[str]) -> pa.StringArray:
    """Return texts as an Arrow array.

    `pa.array(list)` would import pandas if it is installed, which takes 0.9 s.
    """
    data = [text.encode() for text in texts]
    offsets = offsets_of(np.array([len(text) for text in data], np.int64))
    return flat_strings(b"".join(data), offsets)


def flat_strings(data: Bytes | bytes, offsets: Ints) -> pa.StringArray:
    """Return the consecutive strings of UTF-8 data, string[n]. offsets: int64[n + 1]."""
    buffers = [None, pa.py_buffer(offsets.astype(np.int32)), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.string(), len(offsets) - 1, buffers)


def blocks_of(data: Bytes) -> Iterator[slice]:
    """Yield slices of the data that fit the processor's cache."""
    for start in range(0, data.size, _BLOCK):
        yield slice(start, min(start + _BLOCK, data.size))


def translate(data: Bytes, table: bytes) -> Bytes:
    """Return table[byte] for each byte, uint8[n], writable; three times as fast as NumPy's
    indexing.
    """
    return np.frombuffer(bytearray(data.tobytes().translate(table)), np.uint8)


def byte_table(values: npt.NDArray[np.bool_]) -> bytes:
    """Return a table for `translate` that maps byte i to values[i] as 0 or 1, and bytes beyond to
    0.
    """
    return values.astype(np.uint8).tobytes().ljust(256, b"\0")
