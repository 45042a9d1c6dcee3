"""Statistics of one column."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.profile.statistics_file import LONGEST
from recordmill.transforms.model import batch
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.statistics import ranges
from recordmill.transforms.statistics.number_table import Numbers, NumberTable, Time
from recordmill.transforms.statistics.ranges import Counted, Ints
from recordmill.transforms.statistics.sketches import Distinct, TopValues, in_order

Type = Literal["int", "float", "string", "bytes"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class NumberStatistics:
    """Statistics of numbers.

    nans: number of NaN.
    below, above: numbers of negative and positive infinities.
    least, most: of the finite values, ints for a column of ints; None without values.
    """

    nans: int
    below: int
    above: int
    least: float | None
    most: float | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class Lengths:
    """Lengths of texts in bytes: their sum, the least and the greatest."""

    total: int = 0
    least: int | None = None
    most: int | None = None

    @classmethod
    def of_ranges(cls, lengths: Ints, different: Counted) -> list[Lengths]:
        """Return the lengths of each range of texts.

        lengths: int64[n], the length of each code.
        different: counts of the codes of each range.
        """
        each = lengths[different.values]
        totals = different._replace(counts=different.counts * each).totals()
        several = zip(totals, ranges.extremes(each, different.edges), strict=True)
        return [cls(total=total, least=least, most=most) for total, (least, most) in several]

    @classmethod
    def sum(cls, several: Sequence[Lengths]) -> Lengths:
        """Add the lengths of several parts."""
        return cls(
            total=sum(one.total for one in several),
            least=min((one.least for one in several if one.least is not None), default=None),
            most=max((one.most for one in several if one.most is not None), default=None),
        )


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class ColumnStatistics:
    """Statistics of a column over some rows.

    records: number of records that have the column.
    values: number of values in all records.
    fewest, largest: least and greatest number of values of one record.
    distinct: estimate of the number of distinct values.
    numbers: statistics of numbers.
    lengths: lengths of texts and bytes.
    top: most frequent values of UTF-8 text.
    time: meaning of the column's integers, if they are times.
    """

    type: Type
    time: Time | None = None
    records: int = 0
    values: int = 0
    fewest: int | None = None
    largest: int | None = None
    distinct: Distinct = Distinct()  # noqa: RUF009
    numbers: NumberStatistics | None = None
    lengths: Lengths | None = None
    top: TopValues | None = None

    @classmethod
    def sum(cls, several: Sequence[ColumnStatistics]) -> ColumnStatistics:
        """Add the statistics of the same texts over several groups of rows, at least one."""
        first = several[0]
        if len(several) == 1:
            return first
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
            lengths=Lengths.sum(lengths) if lengths else None,
            top=TopValues.sum(top) if top else None,
        )


def number_columns(table: NumberTable) -> Iterator[ColumnStatistics]:
    """Yield the statistics of each column of a table."""
    columns = (table.records, table.values, table.fewest, table.largest)
    numbers = (table.finite, table.nans, table.below, table.above, table.least, table.most)
    several = zip(*(one.tolist() for one in (*columns, *numbers)), table.distinct(), strict=True)
    for records, values, fewest, largest, finite, *odd, least, most, distinct in several:
        nans, below, above = odd
        yield ColumnStatistics(
            type="float" if table.is_float else "int",
            time=table.time,
            records=records,
            values=values,
            fewest=fewest if records else None,
            largest=largest if records else None,
            distinct=distinct,
            numbers=NumberStatistics(
                nans=nans,
                below=below,
                above=above,
                least=least if finite else None,
                most=most if finite else None,
            ),
        )


class Columns:
    """Columns of one Arrow type of one part, sorted so that statistics of ranges can be computed.

    They are handled as one array that holds one column after another, because calls for the few
    hundred values of a column of a wide table take longer than their work.

    columns: at least one. order: int64[n], the order of the rows.
    """

    def __init__(self, columns: Sequence[pa.Array], order: Ints) -> None:
        column = columns[0] if len(columns) == 1 else pa.concat_arrays(columns)
        self._starts = np.arange(len(columns)) * len(order)  # the first row of each column
        order = pa.array((self._starts[:, None] + order).ravel())
        self.type = type_of(column.type)
        self._time = _time_of(column.type)
        if self.type in ("string", "bytes") and not is_list(column.type):
            column = column.dictionary_encode()  # reorders codes instead of texts
        self._valid, self._sizes, values = spread(column.take(order))
        self._edges = np.append(0, np.cumsum(self._sizes))
        self._numbers: Numbers | None = None
        if self.type in ("int", "float"):
            self._numbers = numbers_of(values)
            return
        self._codes, texts = in_order(values.dictionary_encode())
        texts = texts.cast(pa.large_binary())
        self._lengths = np.asarray(pc.binary_length(texts)).astype(np.int64)
        self._hashes = batch.hash_strings(texts)
        if self.type == "string":  # long texts are not counted as top values
            short = pc.if_else(pa.array(self._lengths <= LONGEST), texts, b"")
            self._short = short.cast(pa.binary()).cast(pa.string())

    @property
    def is_numeric(self) -> bool:
        """True if the columns hold numbers, false for texts and bytes."""
        return self._numbers is not None

    def count_numbers(self, edges: Ints) -> NumberTable:
        """Return the statistics of each range of rows of the first column, then of the next, etc.

        edges: ranges of the rows of a column.
        """
        assert self._numbers is not None
        edges = self._of_all(edges)
        sizes, of_rows = ranges.choose(self._sizes, self._valid, edges)
        of_values = self._edges[edges]
        return NumberTable.of_ranges(
            self._numbers, of_values, sizes=sizes, record_edges=of_rows, time=self._time
        )

    def count_texts(self, edges: Ints) -> Iterator[list[ColumnStatistics]]:
        """Yield the statistics of each range of rows, without top values, for each column.

        edges: ranges of the rows of a column.
        """
        ranges_of_column = len(edges) - 1
        edges = self._of_all(edges)
        sizes, of_rows = ranges.choose(self._sizes, self._valid, edges)
        of_values = self._edges[edges]
        different = ranges.count_equal(self._codes, of_values)
        found = [
            ColumnStatistics(
                type=self.type,
                records=records,
                values=values,
                fewest=fewest,
                largest=largest,
                distinct=distinct,
                lengths=length,
            )
            for records, values, (fewest, largest), distinct, length in zip(
                np.diff(of_rows).tolist(),
                np.diff(of_values).tolist(),
                ranges.extremes(sizes, of_rows),
                Distinct.of_ranges(self._hashes[different.values], different.edges),
                Lengths.of_ranges(self._lengths, different),
                strict=True,
            )
        ]
        for start in range(0, len(found), ranges_of_column):
            yield found[start : start + ranges_of_column]

    def _of_all(self, edges: Ints) -> Ints:
        """Return the ranges of the rows of all columns, from those of one column."""
        return np.append(0, (self._starts[:, None] + edges[1:]).ravel())

    def top(self, column: int, start: int, end: int, *, most: int) -> TopValues:
        """Return the most frequent texts of the rows from start to end of a column.

        most: number of distinct texts that are counted exactly.
        """
        start, end = self._starts[column] + (start, end)
        counts = np.bincount(self._codes[self._edges[start] : self._edges[end]])
        codes = np.flatnonzero(counts)
        codes = codes[self._lengths[codes] <= LONGEST]
        return TopValues.of(self._short.take(pa.array(codes)), counts[codes], most=most)


def spread(column: pa.Array) -> tuple[npt.NDArray[np.bool_], Ints, pa.Array]:
    """Return the records that have a column, their numbers of values, and all values.

    Returns:
        The mask of records, bool[n]; numbers of values, int64[n]; and the concatenated values.
    """
    valid = np.ones(len(column), np.bool_)
    if column.null_count:
        valid = np.asarray(column.is_valid())
    if not is_list(column.type):
        return valid, valid.astype(np.int64), column.drop_null()
    sizes = np.asarray(pc.list_value_length(column).fill_null(0)).astype(np.int64)
    return valid, np.where(valid, sizes, 0), pc.list_flatten(column)


def type_of(kind: pa.DataType) -> Type:
    """Return the type of statistics for values of an Arrow type, or for lists of them."""
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


def numbers_of(values: pa.Array) -> Numbers:
    """Return values without nulls as int64[n] or float64[n], as in an Example."""
    kind = values.type
    if pa.types.is_floating(kind):
        return np.asarray(values.cast(pa.float64()))
    if pa.types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    elif pa.types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz), safe=False)
    return np.asarray(values.cast(pa.int64()))
