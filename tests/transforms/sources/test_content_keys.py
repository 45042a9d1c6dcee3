"""Keys of rows by content: the spelling of a cell does not depend on the type of its column."""

import datetime
import decimal

import pyarrow as pa
import pytest

from recordmill.transforms.model import batch
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.rows.columns.content_keys import content_hashes

MOMENT = datetime.datetime(2026, 1, 31, 18, 0, 0, 250_000)


def keys(parser: ValueParser | None = None, **columns: pa.Array) -> list[str]:
    hashes = content_hashes(pa.RecordBatch.from_pydict(columns), parser or ValueParser())
    return batch.hex_of(hashes).to_pylist()


@pytest.mark.parametrize(
    "spellings",
    [
        [pa.array([n], kind) for n, kind in ((1, pa.int8()), (1, pa.int64()), (1, pa.uint32()))]
        + [pa.array([1.0], pa.float32()), pa.array([1.0]), pa.array([True])]
        + [pa.array([text]) for text in ("1", "1.0", "+1", "1e0", "01", "true", "TRUE")]
        + [pa.array([decimal.Decimal("1.00")]), pa.array(["1"]).dictionary_encode()],
        [pa.array([0.1]), pa.array([0.1], pa.float32()), pa.array(["0.10"]), pa.array([".1"])],
        [pa.array([-0.0]), pa.array([0]), pa.array(["-0"]), pa.array([False])],
        [
            pa.array([2**63 + 2048], pa.uint64()),
            pa.array([float(2**63 + 2048)]),
            pa.array([str(2**63 + 2048)]),
        ],
        *(
            [pa.array([number], kind), pa.array([decimal.Decimal(number)])]
            + [pa.array([text.format(number)]) for text in ("{}", "{:+}", "{:+023}")]
            for number, kind in (
                (2**53 + 1, pa.int64()),
                (-(2**53) - 1, pa.int64()),
                (2**63 - 1, pa.int64()),
                (2**64 - 1, pa.uint64()),
            )
        ),
        [pa.array([MOMENT], kind) for kind in map(pa.timestamp, ("us", "ns", "ms"))]
        + [pa.array([MOMENT], pa.timestamp("us", "UTC"))]
        + [pa.array([text]) for text in (str(MOMENT), f"{MOMENT}000", f"{MOMENT.isoformat()}Z")]
        + [pa.array(["2026-01-31 19:00:00.25+01:00"])],
        [
            pa.array([MOMENT.date()]),
            pa.array(["2026-01-31"]),
            pa.array(["2026-01-31 00:00"]),
            pa.array([MOMENT.date()], pa.date64()),
        ],
        [pa.array(["né"]), pa.array(["né"], pa.large_string()), pa.array(["né".encode()])],
        [pa.array([[1, 2]]), pa.array([[1.0, 2.0]]), pa.array([["1", "2"]])]
        + [
            pa.array([[1, 2]], kind) for kind in (pa.list_(pa.int8(), 2), pa.large_list(pa.int64()))
        ],
        [
            pa.array([None], pa.int64()),
            pa.array([float("nan")]),
            pa.array([""]),
            pa.array(["NaN"]),
            pa.nulls(1),
            pa.array([[]], pa.list_(pa.int64())),
            pa.array([b""]),
        ],
    ],
)
def test_a_value_has_one_spelling(spellings):
    assert len({keys(x=one)[0] for one in spellings}) == 1
    long_text = pa.array(["x" * 100])
    assert {keys(x=one)[0] for one in spellings}.isdisjoint(keys(x=long_text))


@pytest.mark.parametrize("base", [2**53, -(2**62), 2**63 - 200, 10**20, 10**30])
def test_large_integers_are_equal_only_with_all_their_digits(base):
    numbers = [base + n for n in range(200)]
    found = keys(x=pa.array(map(str, numbers)))
    assert len(set(found)) == 200
    if abs(base) < 2**63:
        assert keys(x=pa.array(numbers, pa.int64())) == found


@pytest.mark.parametrize("kind", [pa.string(), pa.large_string(), pa.binary()])
def test_short_texts_among_long_ones_have_the_same_keys(kind):
    texts = ["1.50", "true", "2026-01-31", "", None, "né", "né"]
    alone = keys(x=pa.array(texts).cast(kind), y=pa.array(range(len(texts))))
    longer = pa.array([*texts, "x" * 1000]).cast(kind)
    assert keys(x=longer, y=pa.array(range(len(longer))))[:-1] == alone


def test_other_values_columns_and_places_have_other_keys():
    columns = [
        {"x": pa.array([value])}
        for value in ("1 ", "one", "2026-01-31", "2026-02-31", "ONE", "0x1", "1_0", "é", "yes")
    ]
    columns += [{"x": pa.array([number])} for number in (0, 1, 2, -1, 1.5, float("inf"))]
    columns += [{"x": pa.array([some])} for some in ([1, 2], [2, 1], [1], [1, 2, 0], ["a"])]
    columns += [{"y": pa.array([1])}, {"x": pa.array([1]), "y": pa.array([2])}]
    columns += [{"x": pa.array([2]), "y": pa.array([1])}]
    found = [keys(**one)[0] for one in columns]
    assert len(set(found)) == len(found)
    assert all(len(key) == 32 and int(key, 16) >= 0 for key in found)


def test_neither_order_nor_missing_columns_nor_neighbours_matter():
    x, y = pa.array([1, 2, 3]), pa.array(["a", None, "c"])
    expected = keys(x=x, y=y)
    assert keys(y=y, x=x) == expected
    assert keys(x=x, y=y, z=pa.array([None, float("nan"), None])) == expected
    assert keys(x=pa.array(["1", "2", "3"]), y=y, __label__=pa.array(["p", "q", "r"])) == expected
    assert keys(x=x.slice(1), y=y.slice(1)) == expected[1:]
    with_odd = keys(x=pa.array(["1", "2", "3", "hello"]), y=pa.array(["a", "", "c", "d"]))
    assert with_odd[:3] == expected
    lists = pa.array([["a"], None, ["b", "c"]])
    assert keys(x=lists.slice(2)) == keys(x=lists)[2:]


def test_the_decimal_separator_is_that_of_the_files():
    assert keys(ValueParser(decimal=","), x=pa.array(["1,5", "a"]))[0] == keys(x=pa.array([1.5]))[0]
    assert keys(x=pa.array(["1,5"])) != keys(x=pa.array([1.5]))
