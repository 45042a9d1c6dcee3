"""Sums of floats without rounding: the same mean and deviation in whatever order parts are added.

A float64 is an integer times a power of two, and integers add up exactly. So values are rounded to
a power of two that leaves room in a float64 for the sum of all of them, then what rounding took
away, until nothing is left; the sums are put together as one integer of Python's, which has as many
bits as it needs. A square is its product and what rounding took away from that, which is a float64,
too (T. J. Dekker, A floating-point technique for extending the available precision, 1971).
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
_BITS = 53  # of a float64
_SPLITTER = 2.0**27 + 1  # halves the bits of a float64
_NEAR = 256  # powers of two that values begin at whose squares are far from overflow and underflow
_ROWS = 1 << 13  # at once: what is computed of them should stay in the processor's cache
_DIGIT = 32  # bits


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
        digit = rest & (1 << _DIGIT) - 1
        if digit:
            yield place, sign * digit
        rest >>= _DIGIT
        place += 1


def from_digits(several: Iterable[tuple[int, int]]) -> int:
    """The sum of the integers that the digits are of."""
    return sum(digit << _DIGIT * place for place, digit in several)


def _sums(values: Floats) -> tuple[int, int]:
    """The sums of values and of squares, in the units of `Moments`."""
    powers = np.frexp(values)[1]
    if powers.min() > -_NEAR and powers.max() < _NEAR:
        return _sums_of_near(values, power=0)
    total = squares = 0
    steps = powers // _NEAR
    for step in np.unique(steps).tolist():
        power = step * _NEAR
        sums = _sums_of_near(np.ldexp(values[steps == step], -power), power=power)
        total += sums[0]
        squares += sums[1]
    return total, squares


def _sums_of_near(values: Floats, *, power: int) -> tuple[int, int]:
    """Those of values times 2 ** power."""
    large = values * _SPLITTER
    high = large - (large - values)
    low = values - high
    products = values * values
    lost = ((high * high - products) + 2 * high * low) + low * low
    unit = power + _LOWEST
    return _sum(values, unit), _sum(products, 2 * unit) + _sum(lost, 2 * unit)


def _sum(values: Floats, power: int) -> int:
    """The sum times 2 ** power, which is an integer."""
    total = 0
    room = len(values).bit_length() + 1
    while largest := max(float(values.max()), -float(values.min())):
        unit = math.frexp(largest)[1] + room - _BITS
        anchor = math.ldexp(1.5, unit + _BITS - 1)  # next to it float64 are 2 ** unit apart
        rounded = values + anchor - anchor
        found = int(math.ldexp(float(rounded.sum()), -unit))
        shift = unit + power
        total += found << shift if shift >= 0 else found >> -shift
        values = values - rounded
    return total
