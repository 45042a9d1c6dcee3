"""Counts of several ranges of a column at once, compared with plain Python, range by range."""

import itertools
import math
import struct
from collections import Counter
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from recordmill.transforms.statistics.column_statistics import Columns, number_columns
from recordmill.transforms.statistics.sketches import KEPT

ODD = [
    math.nan,
    math.inf,
    -math.inf,
    -0.0,
    0.0,
    5e-324,
    -5e-324,
    1.7e308,
    -1.7e308,
    1e-300,
    2.0**53,
]
INTS = [-(2**63), 2**63 - 1, 2**53 + 1, 0, 1, -1]
FLOATS = st.one_of(st.none(), st.sampled_from(ODD), st.floats())
WHOLE = st.one_of(st.none(), st.sampled_from(INTS), st.integers(-(2**63), 2**63 - 1))
TEXTS = st.one_of(st.none(), st.text("aü", max_size=3))
CUTS = st.lists(st.integers(0, 40), max_size=6)


def counted(values, cuts):
    """[(the values of a range, what is counted of them)]; values in reverse order of the column."""
    edges = np.array([0, *sorted(min(cut, len(values)) for cut in cuts), len(values)])
    order = np.arange(len(values))[::-1]
    other = values.take(pa.array(np.roll(order, 1)))
    # The statistics do not depend on the columns that are counted together with this one.
    columns = Columns([other, values.take(pa.array(order)), other], order)
    if columns.is_numeric:
        size = len(edges) - 1
        found = _of_table(columns.count_numbers(edges).take(np.arange(size, 2 * size)))
    else:
        _, found, _ = columns.count_texts(edges)
    plain = values.to_pylist()
    ranges = [plain[start:end] for start, end in itertools.pairwise(edges.tolist())]
    return list(zip(ranges, found, strict=True))


def _of_table(table):
    """[(the statistics of a column, its moments, its histogram, its number of zeros)]"""
    bits = [table.bits.column(number) for number in range(len(table))]
    return list(
        zip(number_columns(table), table.moments(), bits, table.zeros.tolist(), strict=True)
    )


def prefix(value, dropped):
    bits = int.from_bytes(struct.pack(">d", abs(float(value)))) >> dropped
    return -bits if value < 0 else bits


def check_records(rows, found):
    there = [row for row in rows if row is not None]
    values = [one for row in there for one in (row if isinstance(row, list) else [row])]
    sizes = [len(row) if isinstance(row, list) else 1 for row in there]
    assert (found.records, found.values) == (len(there), len(values))
    assert (found.fewest, found.largest) == (min(sizes, default=None), max(sizes, default=None))
    return values


def check_numbers(rows, counts):
    found, moments, bits, zeros = counts
    values = check_records(rows, found)
    numbers = found.numbers
    finite = [one for one in values if math.isfinite(one)]
    exact = [Fraction(float(one)) for one in finite]
    assert moments.count == len(exact)
    assert Fraction(moments.total, 1 << 1074) == sum(exact)
    assert Fraction(moments.squares, 1 << 2148) == sum(one * one for one in exact)
    expected = Counter(prefix(one, bits.dropped) for one in finite)
    held = zip(bits.prefixes.tolist(), bits.counts.tolist(), strict=True)
    assert list(held) == sorted(expected.items())
    assert zeros == values.count(0)
    assert numbers.nans == sum(one != one for one in values)
    assert (numbers.below, numbers.above) == (values.count(-math.inf), values.count(math.inf))
    extremes = min(finite, default=None), max(finite, default=None)
    assert (numbers.least, numbers.most) == extremes
    assert "-0.0" not in {str(numbers.least), str(numbers.most)}
    different = {one for one in values if one == one} | {"nan" for one in values if one != one}
    assert found.distinct.count == len(different)


@given(values=st.lists(FLOATS, max_size=40), cuts=CUTS)
@example(values=[*ODD, None, *ODD], cuts=[0, 0, 3, 4, 11, 12, 12])
def test_floats(values, cuts):
    for rows, found in counted(pa.array(values, pa.float64(), from_pandas=False), cuts):
        check_numbers(rows, found)


@given(values=st.lists(WHOLE, max_size=40), cuts=CUTS)
@example(values=[*INTS, None, *INTS], cuts=[0, 1, 2, 2, 7])
def test_integers(values, cuts):
    for rows, found in counted(pa.array(values, pa.int64()), cuts):
        check_numbers(rows, found)


@given(values=st.lists(st.one_of(st.none(), st.lists(st.floats(), max_size=3))), cuts=CUTS)
def test_lists(values, cuts):
    for rows, found in counted(pa.array(values, pa.list_(pa.float64())), cuts):
        check_numbers(rows, found)


@pytest.mark.parametrize("kind", [pa.string(), pa.large_binary(), pa.list_(pa.string())])
@given(values=st.lists(TEXTS, max_size=40), cuts=CUTS)
def test_texts(kind, values, cuts):
    if pa.types.is_list(kind):
        values = [value and list(value) for value in values]
    for rows, found in counted(pa.array(values, kind), cuts):
        texts = check_records(rows, found)
        sizes = [len(text.encode() if isinstance(text, str) else text) for text in texts]
        lengths = found.lengths
        assert lengths.total == sum(sizes)
        assert (lengths.least, lengths.most) == (min(sizes, default=None), max(sizes, default=None))
        assert found.distinct.count == len(set(texts))


def test_more_values_than_are_summed_at_once():
    """Values of full precision, so far apart that no digits have all of them."""
    generator = np.random.default_rng(0)
    sizes = np.ldexp(np.nextafter(1, 0), [0, 0, 0, -20, -40, 900, -1000])
    values = generator.choice([*sizes, *-sizes, *ODD], 100_000)
    for rows, found in counted(pa.array(values, from_pandas=False), [5, 70_000, 70_001]):
        check_numbers(rows, found)


def test_of_many_different_values_the_smallest_hashes_are_kept():
    values = np.random.default_rng(0).normal(size=20_000)
    (_, (one, *_)), (_, (other, *_)) = counted(pa.array(np.repeat(values, 2)), [30_000])
    size = len(values)
    table = Columns([pa.array(values)], np.arange(size)).count_numbers(np.arange(size + 1))
    every = np.concatenate([found.hashes for found in table.distinct()])
    assert one.distinct.hashes.tolist() == sorted(every[:15_000].tolist())[:KEPT]
    assert other.distinct.hashes.tolist() == sorted(every[15_000:].tolist())[:KEPT]
