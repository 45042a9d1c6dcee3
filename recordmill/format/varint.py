"""Varints: 7 bits a byte, lowest first, the top bit set on all bytes but the last.

Negative int64 are written as the uint64 of the same bits, in ten bytes.
Source: https://protobuf.dev/programming-guides/encoding/#varints
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

LONGEST = 10  # bytes of a varint of 64 bits

_BLOCK = 1 << 14  # values encoded at once, so that memory stays small
_FEW = 32  # bytes of varints that a loop decodes before numpy has begun
_SIXTY_FOUR = (1 << 64) - 1
# By size, which of 4 bytes are used: bools, as integers of 4 bytes.
_USED = np.array([[at < size for at in range(4)] for size in range(5)]).view("<u4").ravel()


def encode_varint(value: int) -> bytes:
    """One value in 0..2**64-1."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Reads one value (0..2**64-1) from data[at:end]; returns it and where the next byte stands.

    Bits above the 64th are dropped, as protobuf does. Raises ValueError for a varint cut off or
    longer than ten bytes.
    """
    value = shift = 0
    for i in range(at, min(end, at + LONGEST)):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _SIXTY_FOUR, i + 1
        shift += 7
    raise ValueError(f"a varint at byte {at} is cut off or longer than {LONGEST} bytes")


def encode_varints(
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Encodes int64[n] as varints one after another, uint8[...]; their sizes are the int64[n]."""
    data = [np.zeros(0, np.uint8)]
    sizes = np.empty(values.size, np.int64)
    for start in range(0, values.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        data.append(_encode_block(values[block].view(np.uint64), sizes[block]))
    return np.concatenate(data), sizes


def _encode_block(
    values: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Encodes uint64[n] and fills in sizes, int64[n]."""
    bits = int(values.max()).bit_length()
    if bits <= 7:
        sizes[:] = 1
        return values.astype(np.uint8)
    if bits <= 28:
        return _encode_short(values.astype("<u4"), bits, sizes)
    return _encode_long(values, bits, sizes)


def _encode_short(
    values: npt.NDArray[np.uint32], bits: int, sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Of up to 4 bytes, which are laid in an integer each: uint32[n]."""
    laid = values & np.uint32(0x7F)
    size = np.ones(values.size, np.uint8)
    for place in range(1, -(-bits // 7)):
        low = np.uint32(1 << 7 * place)
        more = values >= low
        size += more
        laid |= (values & low * np.uint32(0x7F)) << np.uint32(place)
        laid |= more.astype("<u4") << np.uint32(8 * place - 1)  # the byte before goes on
    sizes[:] = size
    return laid.view(np.uint8)[_USED[size].view(np.bool_)]


def _encode_long(
    rest: npt.NDArray[np.uint64], bits: int, sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    width = -(-bits // 7)
    rows = np.empty((rest.size, width), np.uint8)
    used = np.empty((rest.size, width), np.bool_)
    used[:, 0] = True
    sizes[:] = 1
    for i in range(width - 1):
        # The cast to uint8 drops the bits above; the top bit is taken back below.
        rows[:, i] = rest.astype(np.uint8) | np.uint8(0x80)
        rest = rest >> np.uint64(7)
        used[:, i + 1] = more = rest != 0
        sizes += more
    rows[:, width - 1] = rest
    rows[np.arange(len(rows)), sizes - 1] &= 0x7F
    return rows[used]


def decode_varints(data: bytes) -> npt.NDArray[np.int64]:
    """Decodes varints one after another. Raises ValueError where one is cut off or too long."""
    if len(data) <= _FEW:
        few = []
        at = 0
        while at < len(data):
            value, at = read_varint(data, at, len(data))
            few.append(value)
        return np.array(few, np.uint64).view(np.int64)
    raw = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(raw < 0x80) + 1
    starts = np.zeros_like(stops)
    starts[1:] = stops[:-1]
    sizes = stops - starts
    longest = int(sizes.max(initial=0))
    if longest > LONGEST or (raw.size and (not stops.size or stops[-1] != raw.size)):
        raise ValueError(f"a varint is cut off or longer than {LONGEST} bytes")
    values = np.zeros(stops.size, np.uint64)
    for i in range(longest):
        more = sizes > i
        part = raw[starts[more] + i].astype(np.uint64) & np.uint64(0x7F)
        values[more] |= part << np.uint64(7 * i)
    return values.view(np.int64)
