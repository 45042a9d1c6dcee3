"""Sums of floats without rounding: the same mean and deviation in whatever order parts are added.

A float64 is an integer times a power of two, and integers add up exactly. So values of about one
size are cut into a few digits, integers so small that a float64 holds the sum of many, and of many
products of any two. What comes of it is put together as an integer of Python's, which has as many
bits as it needs.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Iterable, Iterator
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from recordmill.transforms.statistics.ranges import Ints

Floats = npt.NDArray[np.float64]

_LOWEST = 1074  # the smallest float64 above 0 is 2 ** -1074
_ROWS = 1 << 15  # at once: what is computed of them should stay in the processor's cache
_WIDTH = 19  # bits of a digit: products of two of them, of _ROWS values, add up to 2 ** 53 at most
_NEXT = _WIDTH + 1  # bits to the next digit, as rounding leaves half a unit on either side
_DIGITS = 4  # so that rarely a value is too small for them
_RANGE = _WIDTH + (_DIGITS - 1) * _NEXT  # bits of all digits
_UNITS = [1 << _NEXT * place for place in reversed(range(_DIGITS))]
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
        return cls.of_ranges(values, np.array([0, len(values)]))[0]

    @classmethod
    def of_ranges(cls, values: Floats, edges: Ints) -> list[Moments]:
        """Those of each range of finite float64[n]."""
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


def _sums(values: Floats, edges: Ints) -> Iterator[tuple[int, int, int]]:
    """(range, the sum of some of its values, that of their squares), in the units of `Moments`;
    all of a range's together are of all of its values. _ROWS values at most.
    """
    while len(values):
        sizes = np.abs(values)
        exponent = math.frexp(float(sizes.max()))[1]
        digits = _digits(values, exponent)
        left = np.flatnonzero((sizes < math.ldexp(1.0, exponent - _SIZES)) & (sizes > 0))
        digits[:, left] = 0
        unit = exponent - _RANGE + _LOWEST
        for place, (start, end) in enumerate(itertools.pairwise(edges.tolist())):
            if start < end:
                total, square = _sums_of_digits(digits[:, start:end])
                yield place, _shift(total, unit), _shift(square, 2 * unit)
        values, edges = values[left], np.searchsorted(left, edges)


def _digits(values: Floats, exponent: int) -> Floats:
    """float64[_DIGITS, n]: integers to the base 2 ** _NEXT, the first one first, of values below
    2 ** exponent, times 2 ** (_RANGE - exponent).
    """
    power = _WIDTH - exponent
    half = power // 2  # there may be no float64 of all of it
    rest = values * math.ldexp(1.0, half) * math.ldexp(1.0, power - half)
    digits = np.empty((_DIGITS, len(values)))
    for digit in digits:
        np.rint(rest, out=digit)
        rest -= digit
        rest *= 1 << _NEXT
    return digits


def _sums_of_digits(digits: Floats) -> tuple[int, int]:
    """Of the integers that have these digits, and of their squares."""
    # Integers: in any order their sums are exact. As a product of matrices, of which these are few
    # rows, it would take three times as long.
    total = square = 0
    for place, (unit, digit) in enumerate(zip(_UNITS, digits, strict=True)):
        total += int(digit.sum()) * unit
        square += int(digit @ digit) * unit * unit
        for other, lower in zip(_UNITS[place + 1 :], digits[place + 1 :], strict=True):
            square += int(digit @ lower) * unit * other << 1
    return total, square


def _shift(number: int, power: int) -> int:
    return number << power if power >= 0 else number >> -power
