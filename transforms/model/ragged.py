"""Rows of any number of strings or numbers, as flat arrays: what text becomes once it is split."""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Iterator, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.row_assembly import Bytes, Ints, offsets_of

_Number = TypeVar("_Number", bound=np.generic)
Places = Ints | npt.NDArray[np.int32]

_BLOCK = 1 << 18  # bytes


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class DictionaryStrings:
    """Rows of strings, of which equal ones share a code: whatever is done to a string is done once,
    however often it comes. String i is distinct[codes[i]].

    codes: int64[strings]. offsets: int64[rows + 1], where rows begin and end in `codes`. distinct:
    string, no null, none of them twice.
    """

    codes: Ints
    offsets: Ints
    distinct: pa.StringArray

    @property
    def counts(self) -> Ints:
        """Strings of each row, int64[rows]."""
        return np.diff(self.offsets)

    @property
    def rows(self) -> Ints:
        """The row of each string, int64[strings]."""
        return np.repeat(np.arange(len(self.offsets) - 1), self.counts)

    def split(self, parts: DictionaryStrings) -> DictionaryStrings:
        """Every string in its parts: row c of `parts` holds those of the string of code c."""
        codes, edges = picked(parts.codes, parts.offsets, self.codes)
        return DictionaryStrings(codes=codes, offsets=edges[self.offsets], distinct=parts.distinct)


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Flat:
    """Texts one after another, a space after each of them, as UTF-8.

    data: uint8[...]. starts: int64[texts], where each text begins.
    """

    data: Bytes
    starts: Ints

    @classmethod
    def of(cls, texts: pa.StringArray) -> Flat:
        """Of string[n], no null."""
        ends = pa.repeat(pa.scalar("", texts.type), len(texts))
        data, edges = string_bytes(pc.binary_join_element_wise(texts, ends, " "))
        return cls(data=data, starts=edges[:-1])

    @functools.cached_property
    def ends(self) -> Ints:
        """Where each text ends, int64[texts]."""
        return np.append(self.starts[1:], self.data.size) - 1 if self.starts.size else self.starts

    def cut(self, starts: Places, stops: Places) -> DictionaryStrings:
        """The stretches data[starts[i]:stops[i]], ascending, each within one text."""
        edges = np.empty(2 * len(starts), np.int32)
        edges[::2], edges[1::2] = starts, stops
        # Stretches and gaps between them are strings of the one buffer; then gaps are left out.
        count = max(len(edges) - 1, 0)
        buffers = [None, pa.py_buffer(edges), pa.py_buffer(self.data)]
        both = pa.Array.from_buffers(pa.string(), count, buffers)
        coded = both.take(pa.array(np.arange(0, count, 2, dtype=np.int32))).dictionary_encode()
        return DictionaryStrings(
            codes=np.asarray(coded.indices).astype(np.int64),
            offsets=np.append(np.searchsorted(starts, self.starts), len(starts)),
            distinct=coded.dictionary,
        )


def stretches(starts: Ints, sizes: Ints) -> Ints:
    """The indices starts[i], starts[i] + 1, ... of each stretch, one stretch after another."""
    ends = offsets_of(sizes)
    return np.arange(ends[-1]) + np.repeat(starts - ends[:-1], sizes)


def list_array(values: npt.NDArray[np.generic], offsets: Ints) -> pa.ListArray:
    """Rows of numbers as Arrow's lists."""
    return pa.ListArray.from_arrays(pa.array(offsets.astype(np.int32)), pa.array(values))


def picked(values: Ints, offsets: Ints, rows: Ints) -> tuple[Ints, Ints]:
    """The values of some of the rows, one after another in the order given, and their edges."""
    starts = offsets[rows]
    sizes = offsets[rows + 1] - starts
    return values[stretches(starts, sizes)], offsets_of(sizes)


def flattened(rows: Sequence[Sequence[int]]) -> tuple[Ints, Ints]:
    """Rows of integers as one, int64[...], and where they begin and end in it, int64[n + 1]."""
    edges = offsets_of(np.fromiter(map(len, rows), np.int64, len(rows)))
    values = np.fromiter(itertools.chain.from_iterable(rows), np.int64, int(edges[-1]))
    return values, edges


def binary_array(values: Sequence[bytes | memoryview]) -> pa.LargeBinaryArray:
    """Large values. `pa.array(list)` would import pandas where it is installed (0.9 s)."""
    offsets = offsets_of(np.array([len(value) for value in values], np.int64))
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(values))]
    return pa.Array.from_buffers(pa.large_binary(), len(values), buffers)


def fixed_lists(table: npt.NDArray[np.generic]) -> pa.FixedSizeListArray:
    """Rows of numbers, [rows, width], as Arrow's lists of that width."""
    return pa.FixedSizeListArray.from_arrays(pa.array(table.ravel()), table.shape[1])


def padded(
    values: npt.NDArray[_Number], offsets: Ints, *, length: int, fill: int
) -> tuple[npt.NDArray[_Number], Ints]:
    """The first `length` values of each row, [rows, length], `fill` where a row has fewer; and how
    many of them are the row's own, int64[rows].
    """
    sizes = np.minimum(np.diff(offsets), length)
    table = np.full((sizes.size, length), fill, values.dtype)
    table[np.arange(length) < sizes[:, None]] = values[stretches(offsets[:-1], sizes)]
    return table, sizes


def string_bytes(strings: pa.StringArray) -> tuple[Bytes, Ints]:
    """The UTF-8 of all strings, uint8[...], and where they begin and end in it, int64[n + 1]."""
    if not len(strings):  # then Arrow may have no buffers
        return np.zeros(0, np.uint8), np.zeros(1, np.int64)
    _, offsets, data = strings.buffers()
    edges = np.frombuffer(offsets, np.int32, len(strings) + 1, strings.offset * 4).astype(np.int64)
    start, stop = int(edges[0]), int(edges[-1])
    return np.frombuffer(data or b"", np.uint8)[start:stop], edges - start


def string_array(texts: Sequence[str]) -> pa.StringArray:
    """Texts as Arrow's. `pa.array(list)` would import pandas where it is installed (0.9 s)."""
    data = [text.encode() for text in texts]
    offsets = offsets_of(np.array([len(text) for text in data], np.int64)).astype(np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(data))]
    return pa.Array.from_buffers(pa.string(), len(data), buffers)


def blocks_of(data: Bytes) -> Iterator[slice]:
    """The data in parts that stay in the processor's cache, however long it is."""
    for start in range(0, data.size, _BLOCK):
        yield slice(start, min(start + _BLOCK, data.size))


def translate(data: Bytes, table: bytes) -> Bytes:
    """table[byte] for each byte, uint8[n], writable: in a third of the time that numpy takes."""
    return np.frombuffer(bytearray(data.tobytes().translate(table)), np.uint8)


def byte_table(values: npt.NDArray[np.bool_]) -> bytes:
    """A table for `translate`: 1 where the values (up to 256 of them) are true."""
    return values.astype(np.uint8).tobytes().ljust(256, b"\0")
