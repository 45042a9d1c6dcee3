"""Protobuf varints: 7 bits per byte, lowest first, the top bit set in all bytes but the last.

Negative int64 values are written as the uint64 of the same bits, in ten bytes.
Source: https://protobuf.dev/programming-guides/encoding/#varints
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

MAX_VARINT_BYTES = 10  # of a 64-bit value

_BLOCK = 1 << 14  # values encoded at once, which bounds the memory used
_FEW_BYTES = 192  # up to this size a loop decodes faster than numpy
_INVALID = f"a varint is cut off or longer than {MAX_VARINT_BYTES} bytes"
_MASK_64 = (1 << 64) - 1
# _USED[size] masks the first `size` of 4 bytes: 4 bools, viewed as one integer.
_USED = np.array([[at < size for at in range(4)] for size in range(5)]).view("<u4").ravel()


def encode_varint(value: int) -> bytes:
    """Encode one value in 0..2**64-1."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def read_varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    """Decode one varint at data[at:end]; return its value (0..2**64-1) and the byte after it.

    Bits above the 64th are dropped, as protobuf does.

    Raises:
        ValueError: the varint is cut off or longer than ten bytes.
    """
    value = shift = 0
    for i in range(at, min(end, at + MAX_VARINT_BYTES)):
        byte = data[i]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & _MASK_64, i + 1
        shift += 7
    raise ValueError(f"a varint at byte {at} is cut off or longer than {MAX_VARINT_BYTES} bytes")


def encode_varints(
    values: npt.NDArray[np.int64],
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    """Encode int64[n]; return the concatenated varints, uint8[...], and their sizes, int64[n]."""
    data = [np.zeros(0, np.uint8)]
    sizes = np.empty(values.size, np.int64)
    for start in range(0, values.size, _BLOCK):
        block = slice(start, start + _BLOCK)
        data.append(_encode_block(values[block].view(np.uint64), sizes[block]))
    return np.concatenate(data), sizes


def _encode_block(
    values: npt.NDArray[np.uint64], sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Encode uint64[n], and write the sizes of the varints to `sizes`, int64[n]."""
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
    """Encode varints of up to 4 bytes; each is built in one uint32."""
    encoded = values & np.uint32(0x7F)
    size = np.ones(values.size, np.uint8)
    for place in range(1, -(-bits // 7)):
        low = np.uint32(1 << 7 * place)
        more = values >= low
        size += more
        encoded |= (values & low * np.uint32(0x7F)) << np.uint32(place)
        encoded |= more.astype("<u4") << np.uint32(8 * place - 1)  # top bit of the byte before
    sizes[:] = size
    return encoded.view(np.uint8)[_USED[size].view(np.bool_)]


def _encode_long(
    rest: npt.NDArray[np.uint64], bits: int, sizes: npt.NDArray[np.int64]
) -> npt.NDArray[np.uint8]:
    """Encode varints of any size; bits: the bit length of the largest value."""
    width = -(-bits // 7)
    rows = np.empty((rest.size, width), np.uint8)
    used = np.empty((rest.size, width), np.bool_)
    used[:, 0] = True
    sizes[:] = 1
    for i in range(width - 1):
        # The cast to uint8 drops the higher bits; the last byte's top bit is cleared below.
        rows[:, i] = rest.astype(np.uint8) | np.uint8(0x80)
        rest = rest >> np.uint64(7)
        used[:, i + 1] = more = rest != 0
        sizes += more
    rows[:, width - 1] = rest
    rows[np.arange(len(rows)), sizes - 1] &= 0x7F
    return rows[used]


def decode_varints(data: bytes) -> npt.NDArray[np.int64]:
    """Decode concatenated varints: bytes to int64[n].

    Raises:
        ValueError: a varint is cut off or longer than ten bytes.
    """
    if len(data) <= _FEW_BYTES:
        return _decode_few(data)
    raw = np.frombuffer(data, np.uint8)
    stops = np.flatnonzero(raw < 0x80) + 1
    starts = np.zeros_like(stops)
    starts[1:] = stops[:-1]
    sizes = stops - starts
    longest = int(sizes.max(initial=0))
    if longest > MAX_VARINT_BYTES or (raw.size and (not stops.size or stops[-1] != raw.size)):
        raise ValueError(_INVALID)
    values = np.zeros(stops.size, np.uint64)
    for i in range(longest):
        more = sizes > i
        part = raw[starts[more] + i].astype(np.uint64) & np.uint64(0x7F)
        values[more] |= part << np.uint64(7 * i)
    return values.view(np.int64)


def _decode_few(data: bytes) -> npt.NDArray[np.int64]:
    found = []
    value = shift = 0
    for byte in data:
        if byte < 0x80:
            found.append(value | byte << shift)
            value = shift = 0
        else:
            value |= (byte & 0x7F) << shift
            shift += 7
            if shift >= 7 * MAX_VARINT_BYTES:
                break
    if shift:
        raise ValueError(_INVALID)
    try:
        return np.array(found, np.uint64).view(np.int64)
    except OverflowError:  # bits above the 64th
        return np.array([one & _MASK_64 for one in found], np.uint64).view(np.int64)
