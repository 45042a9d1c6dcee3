"""What is counted of one column: how many values there are, and what they are like."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from transforms import batch
from transforms.first_bits import FirstBits
from transforms.moments import Moments
from transforms.sketches import Distinct, TopValues
from transforms.user_columns import is_list

Type = Literal["int", "float", "string", "bytes"]
Time = Literal["date", "timestamp"]
Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]

LONGEST = 256  # bytes: longer texts are no top values

_SALT = batch.salt(0, "distinct")


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class Numbers:
    """What is counted of numbers.

    moments, bits, least, most: of the finite ones; of an int column least and most are ints, and
    None where there is none. below, above: infinities of either sign.
    """

    moments: Moments = Moments()  # noqa: RUF009, it is frozen
    bits: FirstBits = FirstBits()  # noqa: RUF009
    zeros: int = 0
    nans: int = 0
    below: int = 0
    above: int = 0
    least: float | None = None
    most: float | None = None

    @classmethod
    def of(cls, values: Ints | Floats) -> Numbers:
        """Of int64[n] or float64[n]."""
        floats = values.astype(np.float64, copy=False)
        is_finite = np.isfinite(floats)
        odd = floats[~is_finite]
        finite = values[is_finite] if len(odd) else values
        return cls(
            moments=Moments.of(finite.astype(np.float64, copy=False)),
            bits=FirstBits.of(finite.astype(np.float64, copy=False)),
            zeros=int((values == 0).sum()),
            nans=int(np.isnan(odd).sum()),
            below=int((odd == -np.inf).sum()),
            above=int((odd == np.inf).sum()),
            least=finite.min().item() + 0 if len(finite) else None,  # -0.0 is 0.0
            most=finite.max().item() + 0 if len(finite) else None,
        )

    @classmethod
    def sum(cls, several: Sequence[Numbers]) -> Numbers:
        """Of all values of several parts."""
        moments = Moments()
        for one in several:
            moments += one.moments
        return cls(
            moments=moments,
            bits=FirstBits.sum(one.bits for one in several),
            zeros=sum(one.zeros for one in several),
            nans=sum(one.nans for one in several),
            below=sum(one.below for one in several),
            above=sum(one.above for one in several),
            least=min((one.least for one in several if one.least is not None), default=None),
            most=max((one.most for one in several if one.most is not None), default=None),
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lengths:
    """Bytes of texts: of all together, of the shortest and of the longest."""

    total: int = 0
    least: int | None = None
    most: int | None = None

    @classmethod
    def of(cls, lengths: Ints) -> Lengths:
        """Of int64[n]."""
        if not len(lengths):
            return cls()
        return cls(total=int(lengths.sum()), least=int(lengths.min()), most=int(lengths.max()))

    @classmethod
    def sum(cls, several: Sequence[Lengths]) -> Lengths:
        """Of all texts of several parts."""
        return cls(
            total=sum(one.total for one in several),
            least=min((one.least for one in several if one.least is not None), default=None),
            most=max((one.most for one in several if one.most is not None), default=None),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ColumnStatistics:
    """What is counted of a column over some rows.

    records: those that have it. values: of all of them; fewest, largest: of one of them. numbers:
    of numbers. lengths: of texts. top: of texts that are UTF-8. time: what its integers stand for.
    """

    type: Type
    time: Time | None = None
    records: int = 0
    values: int = 0
    fewest: int | None = None
    largest: int | None = None
    distinct: Distinct = Distinct()  # noqa: RUF009
    numbers: Numbers | None = None
    lengths: Lengths | None = None
    top: TopValues | None = None

    @classmethod
    def sum(cls, several: Sequence[ColumnStatistics]) -> ColumnStatistics:
        """Of the same column over several groups of rows, at least one."""
        first = several[0]
        if len(several) == 1:
            return first
        numbers = [one.numbers for one in several if one.numbers is not None]
        lengths = [one.lengths for one in several if one.lengths is not None]
        top = [one.top for one in several if one.top is not None]
        return cls(
            type=first.type,
            time=first.time,
            records=sum(one.records for one in several),
            values=sum(one.values for one in several),
            fewest=min((one.fewest for one in several if one.fewest is not None), default=None),
            largest=max((one.largest for one in several if one.largest is not None), default=None),
            distinct=Distinct.sum(one.distinct for one in several),
            numbers=Numbers.sum(numbers) if numbers else None,
            lengths=Lengths.sum(lengths) if lengths else None,
            top=TopValues.sum(top) if top else None,
        )


class Column:
    """A column of a part of the data, ready to be counted over ranges of its rows."""

    def __init__(self, column: pa.Array) -> None:
        self.type = type_of(column.type)
        self._time = _time_of(column.type)
        self._valid, self._sizes, values = spread(column)
        self._edges = np.append(0, np.cumsum(self._sizes))
        self._numbers: Ints | Floats | None = None
        self._texts: pa.Array | None = None
        if self.type in ("int", "float"):
            self._numbers = numbers_of(values)
            self._hashes = _hash_numbers(self._numbers)
            return
        coded = values.cast(pa.large_binary()).dictionary_encode()
        self._codes = np.asarray(coded.indices).astype(np.int64)
        self._lengths = np.asarray(pc.binary_length(coded.dictionary)).astype(np.int64)
        self._hashes = batch.hash_strings(coded.dictionary)
        if self.type == "string":
            self._texts = coded.dictionary

    def count(self, start: int, end: int, *, most: int) -> ColumnStatistics:
        """Of the rows from start to end. most: different texts that are counted exactly."""
        valid, sizes = self._valid[start:end], self._sizes[start:end]
        there = sizes if valid.all() else sizes[valid]
        first, last = int(self._edges[start]), int(self._edges[end])
        found = ColumnStatistics(
            type=self.type,
            time=self._time,
            records=len(there),
            values=last - first,
            fewest=int(there.min()) if len(there) else None,
            largest=int(there.max()) if len(there) else None,
        )
        if self._numbers is not None:
            return dataclasses.replace(
                found,
                distinct=Distinct.of(self._hashes[first:last]),
                numbers=Numbers.of(self._numbers[first:last]),
            )
        counts = np.bincount(self._codes[first:last], minlength=len(self._lengths))
        codes = np.flatnonzero(counts)
        return dataclasses.replace(
            found,
            distinct=Distinct.of(self._hashes[codes]),
            lengths=Lengths.of(self._lengths[self._codes[first:last]]),
            top=self._top(codes, counts[codes], most=most),
        )

    def top(self, start: int, end: int, *, most: int) -> TopValues | None:
        """Of the rows from start to end alone."""
        if self._texts is None:
            return None
        first, last = int(self._edges[start]), int(self._edges[end])
        counts = np.bincount(self._codes[first:last], minlength=len(self._lengths))
        codes = np.flatnonzero(counts)
        return self._top(codes, counts[codes], most=most)

    def _top(self, codes: Ints, counts: Ints, *, most: int) -> TopValues | None:
        if self._texts is None:
            return None
        short = self._lengths[codes] <= LONGEST
        values = self._texts.take(pa.array(codes[short])).cast(pa.binary()).cast(pa.string())
        return TopValues.of(values, counts[short], most=most)


def spread(column: pa.Array) -> tuple[npt.NDArray[np.bool_], Ints, pa.Array]:
    """Which records have a column, bool[n]; how many values each has, int64[n]; all of those."""
    valid = np.asarray(column.is_valid())
    if not is_list(column.type):
        return valid, valid.astype(np.int64), column.drop_null()
    sizes = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    return valid, np.where(valid, sizes, 0), pc.list_flatten(column)


def type_of(kind: pa.DataType) -> Type:
    """What is counted of values of a type, or of lists of it."""
    one = kind.value_type if is_list(kind) else kind
    if pa.types.is_floating(one):
        return "float"
    if pa.types.is_string(one) or pa.types.is_large_string(one):
        return "string"
    return "bytes" if pa.types.is_binary(one) or pa.types.is_large_binary(one) else "int"


def _time_of(kind: pa.DataType) -> Time | None:
    one = kind.value_type if is_list(kind) else kind
    if pa.types.is_date(one):
        return "date"
    return "timestamp" if pa.types.is_timestamp(one) else None


def numbers_of(values: pa.Array) -> Ints | Floats:
    """int64[n] or float64[n] of values without null, as an Example has them."""
    kind = values.type
    if pa.types.is_floating(kind):
        return np.asarray(values.cast(pa.float64()))
    if pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz), safe=False)
    return np.asarray(values.cast(pa.int64()))


def _hash_numbers(values: Ints | Floats) -> batch.UInt64Array:
    """uint64[n]: equal for equal numbers, and for all NaN."""
    if values.dtype.kind == "f":
        values = np.where(np.isnan(values), np.nan, values + 0.0)  # -0.0 is 0.0
    return batch.mix(values.view(np.uint64), _SALT)
