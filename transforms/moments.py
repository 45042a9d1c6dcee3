"""Sums of floats without rounding: the same mean and deviation in whatever order parts are added.

A float64 is an integer times a power of two, and integers add up exactly. Those of one power are
summed by limbs of 18 bits, whose sums and products have room in a float64, and then put together as
one integer of Python's, which has as many bits as it needs.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

_LOWEST = 1074  # the smallest float64 above 0 is 2 ** -1074
_LIMB = 18  # bits
_ROWS = 1 << 14  # at once: 2 ** 14 sums of two products of limbs have less than 53 bits
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
    def of(cls, values: npt.NDArray[np.float64]) -> Moments:
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


def _sums(values: npt.NDArray[np.float64]) -> tuple[int, int]:
    """The sums of values and of squares, in the units of `Moments`."""
    bits = np.ascontiguousarray(values).view(np.uint64)
    power = (bits >> np.uint64(52)).astype(np.int64) & 0x7FF
    mantissa = (bits & np.uint64((1 << 52) - 1)).astype(np.int64)
    mantissa[power > 0] |= 1 << 52  # a denormal has no leading one
    power = np.maximum(power, 1) - 1
    limbs = [(mantissa >> shift & (1 << _LIMB) - 1).astype(np.float64) for shift in (0, 18, 36)]
    low, middle, high = limbs
    sign = np.where(np.signbit(values), -1.0, 1.0)
    total = _put_together(power, [limb * sign for limb in limbs], power_unit=1)
    squares = _put_together(
        power,
        [
            low * low,
            2 * low * middle,
            2 * low * high + middle * middle,
            2 * middle * high,
            high * high,
        ],
        power_unit=2,
    )
    return total, squares


def _put_together(
    power: npt.NDArray[np.int64], limbs: list[npt.NDArray[np.float64]], *, power_unit: int
) -> int:
    """The sum of limb number i times 2 ** (18 i + power_unit * power) over all values and limbs."""
    least = int(power.min())
    powers = power - least
    result = 0
    for number, limb in enumerate(limbs):
        sums = np.bincount(powers, weights=limb)
        there = np.flatnonzero(sums)
        together = 0
        for shift, value in zip(there.tolist(), sums[there].tolist(), strict=True):
            together += int(value) << power_unit * shift
        result += together << _LIMB * number
    return result << power_unit * least
