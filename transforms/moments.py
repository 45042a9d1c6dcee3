"""Sums of floats without rounding: the same mean and deviation in whatever order parts are added.

A float64 is an integer times a power of two, and integers add up exactly. So values of about one
size are cut into three digits, integers so small that a float64 holds the sum of many, and of many
products of any two. What comes of it is put together as an integer of Python's, which has as many
bits as it needs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

_LOWEST = 1074  # the smallest float64 above 0 is 2 ** -1074
_ROWS = 1 << 13  # at once: what is computed of them should stay in the processor's cache
_WIDTH = 20  # bits of a digit: products of two of them, of _ROWS values, add up to 2 ** 53 at most
_NEXT = _WIDTH + 1  # bits to the next digit, as rounding leaves half a unit on either side
_RANGE = _WIDTH + 2 * _NEXT  # bits of all three
_SIZES = _RANGE - 52  # powers of two that values may be apart, so that the digits have all bits
_PLACE = 32  # bits of a digit that integers are carried in


@dataclasses.dataclass(frozen=True, kw_only=True)
class Moments:
    """Of `count` finite values: their sum, in units of 2 ** -1074, and that of their squares, in
    units of 2 ** -2148.
    """

    count: int = 0
    total: int = 0
    squares: int = 0

    @classmethod
    def of(cls, values: Floats) -> Moments:
        """Those of finite float64[n]."""
        total = squares = 0
        for start in range(0, len(values), _ROWS):
            sums = _sums(values[start : start + _ROWS])
            total += sums[0]
            squares += sums[1]
        return cls(count=len(values), total=total, squares=squares)

    def __add__(self, other: Moments) -> Moments:
        return Moments(
            count=self.count + other.count,
            total=self.total + other.total,
            squares=self.squares + other.squares,
        )

    def times(self, number: int) -> Moments:
        """Those of all values `number` times."""
        return Moments(
            count=self.count * number, total=self.total * number, squares=self.squares * number
        )

    @property
    def mean(self) -> float:
        """The float64 nearest to it; NaN of no values."""
        return float(self._mean) if self.count else math.nan

    @property
    def deviation(self) -> float:
        """That of the values themselves, as NumPy's `std` has it (not of a larger population)."""
        if not self.count:
            return math.nan
        variance = Fraction(self.squares, self.count << 2 * _LOWEST) - self._mean**2
        # Of numbers that a float64 holds, the square may be none.
        above, below = variance.numerator, variance.denominator
        half = (above.bit_length() - below.bit_length()) // 2
        scaled = Fraction(above << max(-2 * half, 0), below << max(2 * half, 0))
        return math.ldexp(math.sqrt(scaled), half)

    @property
    def _mean(self) -> Fraction:
        return Fraction(self.total, self.count << _LOWEST)


def digits(number: int) -> Iterator[tuple[int, int]]:
    """(place, digit) of an integer to the base 2 ** 32, none of them 0, all of its sign.

    Of several integers those of one place add up in an int64, if they are no more than 2 ** 31.
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
    """The sum of the integers that the digits are of."""
    return sum(digit << _PLACE * place for place, digit in several)


def _sums(values: Floats) -> tuple[int, int]:
    """The sums of values and of squares, in the units of `Moments`."""
    total = squares = 0
    while len(values):
        sizes = np.abs(values)
        exponent = math.frexp(float(sizes.max()))[1]
        small = sizes < math.ldexp(1.0, exponent - _SIZES)
        rest = values[:0]
        if small.any():
            rest = values[small & (sizes > 0)]
            values = values[~small]
        sums = _sums_of_digits(_digits(values, exponent))
        unit = exponent - _RANGE + _LOWEST
        total += _shift(sums[0], unit)
        squares += _shift(sums[1], 2 * unit)
        values = rest
    return total, squares


def _digits(values: Floats, exponent: int) -> tuple[Floats, Floats, Floats]:
    """Three integers each: a value below 2 ** exponent is (first << 42) + (second << 21) + third,
    times 2 ** (exponent - 62).
    """
    power = _WIDTH - exponent
    half = power // 2  # there may be no float64 of all of it
    scaled = values * math.ldexp(1.0, half) * math.ldexp(1.0, power - half)
    first = np.rint(scaled)
    scaled = (scaled - first) * (1 << _NEXT)
    second = np.rint(scaled)
    return first, second, (scaled - second) * (1 << _NEXT)


def _sums_of_digits(digits: tuple[Floats, Floats, Floats]) -> tuple[int, int]:
    """Of the integers that have these digits, and of their squares."""
    total = squares = 0
    for one, first in enumerate(digits):
        total += int(first.sum()) << _NEXT * (2 - one)
        for other, second in enumerate(digits[: one + 1]):
            product = int(np.dot(first, second))  # integers: in any order it is exact
            squares += product << _NEXT * (4 - one - other) + (one != other)
    return total, squares


def _shift(number: int, power: int) -> int:
    return number << power if power >= 0 else number >> -power
