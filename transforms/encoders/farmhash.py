"""FarmHash's Fingerprint64 of many strings at once, the hash of `tf.strings.to_hash_bucket_fast`.

Source: github.com/google/farmhash, src/farmhash.cc, namespace farmhashna. Strings of the same range
    of lengths are hashed together as uint64 arrays, whose arithmetic wraps around as in C.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.transforms.model.ragged import string_bytes

UInt64Array = npt.NDArray[np.uint64]
_Ints = npt.NDArray[np.int64]
_Pair = tuple[UInt64Array, UInt64Array]

_K0 = np.uint64(0xC3A5C85C97CB3127)
_K1 = np.uint64(0xB492B66FBE98F273)
_K2 = np.uint64(0x9AE16A3B2F90404F)


def fingerprint64(strings: pa.StringArray) -> UInt64Array:
    """Return the fingerprint of each string's UTF-8, uint64[n]; `strings` has no nulls."""
    data, edges = string_bytes(strings)
    text = _Bytes(data)
    lengths = np.diff(edges)
    hashes = np.full(len(strings), _K2)  # the hash of the empty string
    for least, most, method in _METHODS:
        rows = np.flatnonzero((lengths >= least) & (lengths <= most))
        if rows.size:
            hashes[rows] = method(text, edges[rows], lengths[rows])
    return hashes


class _Bytes:
    """Buffer with little-endian reads of 1, 4 and 8 bytes at any offset."""

    def __init__(self, data: npt.NDArray[np.uint8]) -> None:
        padded = np.zeros(data.size + 8, np.uint8)
        padded[: data.size] = data
        self._bytes = padded
        self._words = np.ndarray((data.size + 1,), "<u8", padded, 0, (1,))
        self._halves = np.ndarray((data.size + 1,), "<u4", padded, 0, (1,))

    def byte(self, at: _Ints) -> UInt64Array:
        return self._bytes[at].astype(np.uint64)

    def half(self, at: _Ints) -> UInt64Array:
        return self._halves[at].astype(np.uint64)

    def word(self, at: _Ints) -> UInt64Array:
        return self._words[at].astype(np.uint64, copy=False)


def _rotate(value: UInt64Array, right: int) -> UInt64Array:
    return (value >> np.uint64(right)) | (value << np.uint64(64 - right))


def _shift_mix(value: UInt64Array) -> UInt64Array:
    return value ^ (value >> np.uint64(47))


def _join(u: UInt64Array, v: UInt64Array, factor: UInt64Array) -> UInt64Array:
    """Compute HashLen16 of C++."""
    a = _shift_mix((u ^ v) * factor)
    return _shift_mix((v ^ a) * factor) * factor


def _factor(lengths: _Ints) -> UInt64Array:
    return _K2 + lengths.astype(np.uint64) * np.uint64(2)


def _up_to_3(text: _Bytes, at: _Ints, lengths: _Ints) -> UInt64Array:
    first, middle, last = text.byte(at), text.byte(at + lengths // 2), text.byte(at + lengths - 1)
    y = first + (middle << np.uint64(8))
    z = lengths.astype(np.uint64) + (last << np.uint64(2))
    return _shift_mix(y * _K2 ^ z * _K0) * _K2


def _up_to_7(text: _Bytes, at: _Ints, lengths: _Ints) -> UInt64Array:
    u = lengths.astype(np.uint64) + (text.half(at) << np.uint64(3))
    return _join(u, text.half(at + lengths - 4), _factor(lengths))


def _up_to_16(text: _Bytes, at: _Ints, lengths: _Ints) -> UInt64Array:
    factor = _factor(lengths)
    a, b = text.word(at) + _K2, text.word(at + lengths - 8)
    return _join(_rotate(b, 37) * factor + a, (_rotate(a, 25) + b) * factor, factor)


def _ends(text: _Bytes, at: _Ints, lengths: _Ints, first: np.uint64) -> tuple[UInt64Array, _Pair]:
    """Return (a, the two values) computed from the first and the last 16 bytes."""
    factor = _factor(lengths)
    a, b = text.word(at) * first, text.word(at + 8)
    c, d = text.word(at + lengths - 8) * factor, text.word(at + lengths - 16) * _K2
    return a, (_rotate(a + b, 43) + _rotate(c, 30) + d, a + _rotate(b + _K2, 18) + c)


def _up_to_32(text: _Bytes, at: _Ints, lengths: _Ints) -> UInt64Array:
    _, (u, v) = _ends(text, at, lengths, _K1)
    return _join(u, v, _factor(lengths))


def _up_to_64(text: _Bytes, at: _Ints, lengths: _Ints) -> UInt64Array:
    factor = _factor(lengths)
    a, (y, v) = _ends(text, at, lengths, _K2)
    z = _join(y, v, factor)
    e, f = text.word(at + 16) * factor, text.word(at + 24)
    g = (y + text.word(at + lengths - 32)) * factor
    h = (z + text.word(at + lengths - 24)) * factor
    u = _rotate(e + f, 43) + _rotate(g, 30) + h
    return _join(u, e + _rotate(f + a, 18) + g, factor)


def _longer(text: _Bytes, at: _Ints, lengths: _Ints) -> UInt64Array:
    """Hash strings of more than 64 bytes: blocks of 64 bytes, then the last 64 bytes.

    Strings with the same number of blocks are hashed together.
    """
    hashes = np.zeros(len(at), np.uint64)
    blocks = (lengths - 1) // 64
    for count in np.unique(blocks).tolist():
        rows = np.flatnonzero(blocks == count)
        hashes[rows] = _long(text, at[rows], lengths[rows], count)
    return hashes


class _State:
    """State of 56 bytes that each block of 64 bytes updates."""

    def __init__(self, x: UInt64Array, y: UInt64Array, z: UInt64Array) -> None:
        zero = np.zeros_like(x)
        self.x, self.y, self.z = x, y, z
        self.v: _Pair = (zero, zero)
        self.w: _Pair = (zero, zero)

    def add(self, text: _Bytes, at: _Ints, factor: UInt64Array, nine: np.uint64) -> None:
        (v1, v2), (w1, w2) = self.v, self.w
        x = _rotate(self.x + self.y + v1 + text.word(at + 8), 37) * factor
        y = _rotate(self.y + v2 + text.word(at + 48), 42) * factor
        x ^= w2 * nine
        y += v1 * nine + text.word(at + 40)
        z = _rotate(self.z + w1, 33) * factor
        self.v = _weak(text, at, v2 * factor, x + w1)
        self.w = _weak(text, at + 32, z + w2, y + text.word(at + 16))
        self.x, self.y, self.z = z, y, x


def _weak(text: _Bytes, at: _Ints, a: UInt64Array, b: UInt64Array) -> _Pair:
    """Compute WeakHashLen32WithSeeds of C++."""
    w, x, y, z = (text.word(at + step) for step in (0, 8, 16, 24))
    a = a + w
    b = _rotate(b + a + z, 21)
    total = a + x + y
    return total + z, b + _rotate(total, 44) + a


def _long(text: _Bytes, at: _Ints, lengths: _Ints, blocks: int) -> UInt64Array:
    seed = np.full(len(at), 81, np.uint64)
    y = seed * _K1 + np.uint64(113)
    z = _shift_mix(y * _K2 + np.uint64(113)) * _K2
    state = _State(seed * _K2 + text.word(at), y, z)
    factor = np.full(len(at), _K1)
    for block in range(blocks):
        state.add(text, at + 64 * block, factor, np.uint64(1))
    factor = _K1 + ((state.z & np.uint64(0xFF)) << np.uint64(1))
    (v1, v2), (w1, w2) = state.v, state.w
    w1 = w1 + ((lengths - 1) % 64).astype(np.uint64)
    v1 = v1 + w1
    state.v, state.w = (v1, v2), (w1 + v1, w2)
    state.add(text, at + lengths - 64, factor, np.uint64(9))
    u = _join(state.v[0], state.w[0], factor) + _shift_mix(state.y) * _K0 + state.z
    return _join(u, _join(state.v[1], state.w[1], factor) + state.x, factor)


_MOST = np.iinfo(np.int64).max
_METHODS = (
    (1, 3, _up_to_3),
    (4, 7, _up_to_7),
    (8, 16, _up_to_16),
    (17, 32, _up_to_32),
    (33, 64, _up_to_64),
    (65, _MOST, _longer),
)
