"""Exact sums of floats and of their squares, for means and deviations.

The result does not depend on the order of parts. A float64 is an integer times a power of two, and
integers add without rounding. Values of similar size are split into a few digits: integers small
enough for a float64 to hold the sum of many of them, and of many products of two. The sums of
digits are combined into a Python int of any size.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.transforms.statistics.ranges import Ints

Floats = npt.NDArray[np.float64]

_LOWEST = 1074  # the smallest float64 above 0 is 2 ** -1074
_ROWS = 1 << 15  # values at once, so that intermediate arrays fit the processor's cache
_WIDTH = 19  # bits of a digit: the sum of _ROWS products of two digits is at most 2 ** 53
_NEXT = _WIDTH + 1  # bits between digits, as rounding leaves half a unit on either side
_DIGITS = 4  # enough for most values
_RANGE = _WIDTH + (_DIGITS - 1) * _NEXT  # bits of all digits
_SIZES = _RANGE - 52  # greatest ratio of values, as a power of two, whose digits keep all bits
_LONG = 1 << 9  # values in a range from which on one call per range is faster than one for all
_PLACE = 32  # bits of a digit in the transport form of integers


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moments:
    """Sums over `count` finite values.

    total: sum of the values, in units of 2 ** -1074.
    squares: sum of their squares, in units of 2 ** -2148.
    """

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: Floats) -> Moments:
        """Sum finite float64[n]."""
        return cls.of_ranges(values, np.array([0, len(values)]))[0]

    @classmethod
    def of_ranges(cls, values: Floats, edges: Ints) -> list[Moments]:
        """Return the moments of each range of finite float64[n]."""
        totals, squares = [0] * (len(edges) - 1), [0] * (len(edges) - 1)
        for start in range(0, len(values), _ROWS):
            block = values[start : start + _ROWS]
            for place, total, square in _sums(block, np.clip(edges - start, 0, len(block))):
                totals[place] += total
                squares[place] += square
        counts = np.diff(edges).tolist()
        return [
            cls(count=count, total=total, squares=square)
            for count, total, square in zip(counts, totals, squares, strict=True)
        ]

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            count=self.count + other.count,
            total=self.total + other.total,
            squares=self.squares + other.squares,
        )

    def times(self, number: int) -> Moments:
        """Return the moments of all values repeated `number` times."""
        return Moments(
            count=self.count * number, total=self.total * number, squares=self.squares * number
        )

    @property
    def mean(self) -> float:
        """Mean, rounded once to float64; NaN without values."""
        return self.total / (self.count << _LOWEST) if self.count else math.nan

    @property
    def deviation(self) -> float:
        """Standard deviation, divided by count as NumPy's `std`; NaN without values."""
        if not self.count:
            return math.nan
        # Of integers, as a Fraction would take most of its time to find common divisors.
        above = self.squares * self.count - self.total**2
        below = self.count**2 << 2 * _LOWEST
        # Scale: the variance may be out of range of a float64 although its root is not.
        half = (above.bit_length() - below.bit_length()) // 2
        scaled = (above << max(-2 * half, 0)) / (below << max(2 * half, 0))
        return math.ldexp(math.sqrt(scaled), half)


@runtime_checkable
class CountsWithMoments(Protocol):
    """An `Analysis` that counts faster if the moments of columns are known."""

    def count_with(self, rows: pa.RecordBatch, moments: Mapping[str, Moments]) -> pa.RecordBatch:
        """Return the counts of rows. moments: of the finite values of some of their columns."""


def digits(number: int) -> Iterator[tuple[int, int]]:
    """Yield (place, digit) of an integer to the base 2 ** 32; digits are not 0 and have its sign.

    The digits of up to 2 ** 31 integers at the same place can be added in an int64.
    """
    sign = -1 if number < 0 else 1
    rest, place = abs(number), 0
    while rest:
        digit = rest & (1 << _PLACE) - 1
        if digit:
            yield place, sign * digit
        rest >>= _PLACE
        place += 1


def from_digits(several: Iterable[tuple[int, int]]) -> int:
    """Return the sum of the integers with these digits."""
    return sum(digit << _PLACE * place for place, digit in several)


def _sums(values: Floats, edges: Ints) -> Iterator[tuple[int, int, int]]:
    """Yield (range, sum of values, sum of squares), possibly several times per range.

    Sums are in the units of `Moments`; those of a range add up to the sums over all of its values.

    values: at most _ROWS finite values.
    """
    while len(values):
        sizes = np.abs(values)
        exponent = math.frexp(float(sizes.max()))[1]
        digits = _digits(values, exponent)
        left = np.flatnonzero((sizes < math.ldexp(1.0, exponent - _SIZES)) & (sizes > 0))
        digits[:, left] = 0
        unit = exponent - _RANGE + _LOWEST
        filled = np.flatnonzero(edges[1:] > edges[:-1])
        several = zip(*_sums_of_digits(digits, edges[filled]), strict=True)
        for place, (total, square) in zip(filled.tolist(), several, strict=True):
            yield place, _shift(total, unit), _shift(square, 2 * unit)
        values, edges = values[left], np.searchsorted(left, edges)


def _digits(values: Floats, exponent: int) -> Floats:
    """Return the digits of values below 2 ** exponent: float64[_DIGITS, n], most significant first.

    Digits are integers to the base 2 ** _NEXT, of the values times 2 ** (_RANGE - exponent).
    """
    power = _WIDTH - exponent
    half = power // 2  # 2 ** power may be out of range of a float64
    rest = values * math.ldexp(1.0, half) * math.ldexp(1.0, power - half)
    digits = np.empty((_DIGITS, len(values)))
    for digit in digits:
        np.rint(rest, out=digit)
        rest -= digit
        rest *= 1 << _NEXT
    return digits


def _sums_of_digits(digits: Floats, starts: Ints) -> tuple[list[int], list[int]]:
    """Return the sums of the integers with these digits, and the sums of their squares, by range.

    starts: where each range starts, which is also where the one before it ends.
    """
    totals = np.add.reduceat(digits, starts, axis=1).astype(np.int64)
    squares = np.zeros((2 * _DIGITS - 1, len(starts)), np.int64)
    products = _sums_of_products(digits, starts)
    for place in range(_DIGITS):
        for other in range(_DIGITS):
            squares[place + other] += products[:, place, other]
    return _from_digits(totals), _from_digits(squares)


def _sums_of_products(digits: Floats, starts: Ints) -> Ints:
    """Return the sums of the products of any two digits, by range: int64[r, _DIGITS, _DIGITS].

    The sums are integers that are exact in any order.
    """
    count = digits.shape[1]
    if count >= _LONG * len(starts):
        edges = np.append(starts, count)
        ranges = [digits[:, start:end] for start, end in itertools.pairwise(edges.tolist())]
        return np.array([some @ some.T for some in ranges]).astype(np.int64)
    sums = np.empty((len(starts), _DIGITS, _DIGITS), np.int64)
    for place, digit in enumerate(digits):
        for other in range(place, _DIGITS):
            sums[:, place, other] = np.add.reduceat(digit * digits[other], starts)
            sums[:, other, place] = sums[:, place, other]
    return sums


def _from_digits(digits: npt.NDArray[np.int64]) -> list[int]:
    """Return the integers whose digits to the base 2 ** _NEXT are in the rows, highest first."""
    numbers = digits[0].astype(object)
    for digit in digits[1:]:
        numbers = (numbers << _NEXT) + digit
    found: list[int] = numbers.tolist()
    return found


def _shift(number: int, power: int) -> int:
    return number << power if power >= 0 else number >> -power
