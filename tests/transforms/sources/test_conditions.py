"""Conditions of --where: their syntax, and which rows fulfil them."""

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError
from recordmill.transforms.sources.row_formats.reading.row_file import Rows
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.row_formats.where.condition_syntax import parse_condition
from recordmill.transforms.sources.row_formats.where.conditions import (
    RowFilter,
    check_condition,
    truth_of,
)

DAY = datetime.date(2026, 1, 31)
ROWS = {
    "n": pa.array([1, 2, None, 2**60 + 1]),
    "x": pa.array([0.5, float("nan"), 3.0, 1e18]),
    "name": pa.array(["ann", "Bob", None, ""]),
    "yes": pa.array([True, False, None, True]),
    "day": pa.array([DAY, DAY.replace(day=1), None, DAY]),
    "at": pa.array([datetime.datetime(2026, 1, 31, 12), None, None, None], pa.timestamp("ns")),
    "zoned": pa.array([datetime.datetime(2026, 1, 31, 12)] * 4, pa.timestamp("us", "Asia/Tokyo")),
    "tags": pa.array([["a", "b"], [], None, ["b", None]]),
    "code": pa.array([1, 2, 3, 2**64 - 1], pa.uint64()),
    "price": pa.array([decimal.Decimal("1.50"), None, decimal.Decimal("2.25"), None]),
    "kind": pa.array(["u", "v", "u", None]).dictionary_encode(),
    "total price": pa.array([1, 2, 3, 4]),
    "user.age": pa.array([4, 3, 2, 1]),
    "class": pa.array(["p", "q", "p", "q"]),
}
TYPES = {
    name: column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    for name, column in ROWS.items()
}


def rows(text: str) -> list[int]:
    """The numbers of the rows that fulfil a condition."""
    condition = parse_condition(text)
    check_condition(condition, TYPES, where="rows.csv")
    return [row for row, found in enumerate(truth_of(condition, ROWS, 4).to_pylist()) if found]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("n > 1", [1, 3]),
        ("not n > 1", [0]),  # a comparison with a missing value is missing, and so is its opposite
        ("n > 1 or name is None", [1, 2, 3]),
        ("n is not None", [0, 1, 3]),
        ("not (n is None)", [0, 1, 3]),
        ("n in (1, 2)", [0, 1]),
        ("n not in (1, 2)", [3]),
        ("n in [1.0, -2]", [0]),
        ("1 < n <= 2", [1]),
        ("n == 1152921504606846977", [3]),
        ("n > 0.5", [0, 1, 3]),  # the largest is no float64
        ("x >= 0", [0, 2, 3]),
        ("x is None", [1]),  # NaN is a missing value
        ("n + x * 2 == 2", [0]),
        ("n / (n - 1) == 2", [1]),  # a division by zero is missing
        ("(n + n) / 2 == n", [0, 1, 3]),
        ("-n == -1", [0]),
        ("n > x", [0, 3]),
        ("name == 'ann'", [0]),
        ('name in ("ann", "Bob")', [0, 1]),
        ("name < 'a'", [1, 3]),
        ("'b' in name", [1]),
        ("'b' in tags", [0, 3]),
        ("'b' not in tags", [1]),
        ("yes", [0, 3]),
        ("not yes", [1]),
        ("yes == True and yes", [0, 3]),
        ("day >= '2026-01-31'", [0, 3]),
        ("day in ('2026-01-01', '2025-01-01')", [1]),
        ("at > '2026-01-31 11:59'", [0]),
        ("zoned == '2026-01-31T12:00'", [0, 1, 2, 3]),  # without a zone it is in UTC
        ("zoned == '2026-01-31T13:00+01:00'", [0, 1, 2, 3]),
        ("code > 2", [2, 3]),
        ("code > -1", [0, 1, 2, 3]),
        ("price > 1.5", [2]),
        ("price == 1.5 or price > 2", [0, 2]),
        ("kind == 'u'", [0, 2]),
        ("`total price` > 2 and user.age < 2", [3]),
        ("`class` == 'p' and '`' != name", [0]),
        ("`user.age` == 4", [0]),
        (" n == 1\n or n == 2 ", [0, 1]),
        ("n > 2024 - 10 - 2012", [3]),
    ],
)
def test_rows_that_fulfil_a_condition(text, found):
    assert rows(text) == found


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "expected a condition such as 'age >= 18', got nothing"),
        ("1 < 2", "expected the name of a column, got constants only"),
        ("n = 1", "write == to compare with a value"),
        ("n <> 1", "write != for <>"),
        ("n > 1 AND x < 2", "write and, or, not, in, is None in lower case"),
        ("n is null", "write `x is None` for a missing value"),
        ("n == None", "write `x is None` for a missing value"),
        ("n in (1, None)", "write `x is None` for a missing value"),
        ("n is 1", "`is` compares with None only"),
        ("n in 3", "expected values in brackets, such as (1, 2), or a column; got 3"),
        ("n in ()", "expected values between the brackets"),
        ("(n > 1) & (x < 2)", "write `and` and `or` instead of & and |"),
        ("open('/etc/passwd')", "functions are not supported; got open('/etc/passwd')"),
        ("n.__class__.__bases__ == 1 if n else 2", "expected a column, a value, a comparison"),
        ("[n for n in (1, 2)]", "expected a column, a value, a comparison"),
        ("lambda: n", "expected a column, a value, a comparison"),
        ("(n := 3) > 2", "expected a column, a value, a comparison"),
        ("n > 2**3", "expected a column, a value, a comparison"),
        ("f'{n}' == 'a'", "expected a column, a value, a comparison"),
        ("n == b'x'", "expected a text, a number, True or False"),
        ("n == 99999999999999999999", "expected an integer of 64 bits"),
        ("n == -'x'", "expected a number after the sign"),
        ("class == 'p'", "in backticks"),
        ("n >", "it cannot be parsed"),
        ("day >= 2024-06-01", "put dates in quotes, such as '2024-06-01', and spaces between"),
        ("name >= 2024-10-10", "put dates in quotes, such as '2024-06-01', and spaces between"),
        ("n >= 2024-10-10", "calculation; got 2024-10-10"),
        ("day >= 1.6.2024", "put dates in quotes"),
        ("day >= 12/6/2024 and n > 3", "calculation; got 12/6/2024"),
        ("n > '\0'", "it cannot be parsed"),
        ("(" * 500 + "n", "((((...: expected"),
        ("nn > 1", "no column 'nn' in rows.csv (did you mean 'n'?): it has 'n', 'x'"),
        ("user.ages > 1", "no column 'user.ages' in rows.csv (did you mean 'user.age'?)"),
        ("n > 'a'", "> needs values of one type, got numbers and text; in rows.csv 'n' has"),
        ("name > 3", "> needs values of one type, got text and numbers"),
        ("yes > 3", "got true or false and numbers"),
        ("name + 1 > 2", "+ needs numbers, got text"),
        ("n", "expected a condition, got numbers: compare it"),
        ("n and yes", "expected a condition, got numbers: compare it"),
        ("tags == 'a'", "== needs values of one type, got list<"),
        ("3 in n", "`in` needs a list, or texts; got numbers"),
        ("3 in tags", "== needs values of one type, got text and numbers"),
        ("day > 'soon'", "expected a date such as '2026-01-31', got 'soon'"),
        ("at > '31.1.2026'", "expected a time such as '2026-01-31', got '31.1.2026'"),
        ("name >= '20.03.2024'", "column 'name' of rows.csv is text, which has no order with '20."),
        ("'01/02/2024' <= kind < 'x'", "column 'kind' of rows.csv is text, which has no order"),
        ("n > 1 or not name < '2024-3-1 10:00'", "write dates and times as 2026-01-31 or 2026-01-"),
        ("name < '2024-03-01 9:00'", "no order with '2024-03-01 9:00'"),
        ("name < '2024-02-30'", "'2024-02-30' is not a date: this day or time does not exist"),
        ("name < '2024-02'", "no order with '2024-02'"),
        ("name > '3-Mar-2024'", "no order with '3-Mar-2024'"),
        ("at > '2026-01-31T12:30Z'", "expected a time without a time zone, because the column has"),
        (
            "at in ('2026-01-31 12:30+02:00',)",
            "the column has none, got '2026-01-31 12:30+02:00'; in",
        ),
        ("day >= '2024-06'", "expected a date such as '2026-01-31', got '2024-06'; in rows.csv"),
        ("day >= '2024-06'", "'day' has dates"),
        ("day > 3", "got dates and numbers"),
        ("day == name", "a column of times is compared with a text, not with a column"),
    ],
)
def test_conditions_that_cannot_be(text, why):
    with pytest.raises(ConfigError) as error:
        rows(text)
    assert why in str(error.value)


DATES = ["2024-03-01", "2024-03-20 10:00", "25/01/2024", "20240321", None, "March 3, 2024", "new"]


@pytest.mark.parametrize(
    ("text", "kept", "bad"),
    [
        ("date >= '2024-03-02'", [1], [2, 3, 5, 6]),
        ("not '2024-03-02' <= date", [0], [2, 3, 5, 6]),
        ("date > '2024-03-02' or n == 2", [1, 2], [3, 5, 6]),  # does not depend on the date
        ("date > '2024-03-02' and n != 2", [1], [3, 5, 6]),
        ("date == '2024-03-01'", [0], []),
        ("date in ('2024-03-01', '20240321')", [0, 3], []),
        ("date != '2024-03-01'", [1, 2, 3, 5, 6], []),
        ("date != 'new'", [0, 1, 2, 3, 5], []),
        ("date == '25/01/2024'", [2], []),
        ("date > 'm'", [6], []),
    ],
)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_texts_that_are_not_dates_have_no_order_with_dates(text, kept, bad, kind):
    columns = {"date": pa.array(DATES, kind), "n": pa.array(range(len(DATES)))}
    found, left_out = filtered(text, columns)
    assert (found.numbers - 1).tolist() == kept
    assert [one.number - 1 for one in found.bad] == bad
    assert left_out.get("where", 0) == len(DATES) - len(kept) - len(bad)
    assert all(one.why.startswith("--where: column 'date' is text, which") for one in found.bad)


def test_a_block_of_dates_in_another_form():
    with pytest.raises(ConfigError) as error:
        filtered("date >= '2024-02-10'", {"date": pa.array(["25/01/2024", "09/03/2024"] * 3)})
    assert str(error.value) == (
        "--where date >= '2024-02-10': column 'date' is text, which is compared with '2024-02-10':"
        " expected a date such as 2026-01-31, got '25/01/2024'"
    )


TIMES = [
    *("2024-06-01T10:00:00", "2024-06-01 10:00:00", "2024-06-01T10:00", "2024-06-01T10:00:00.250"),
    *("2024-06-01T10:00:00Z", "2024-06-01T15:00:00+05:00", "2024-06-01", "2024-06-02", "soon"),
]


@pytest.mark.parametrize(
    ("text", "kept", "bad"),
    [
        ("at <= '2024-06-01T10:00'", [0, 1, 2, 4, 5, 6], [8]),
        ("at < '2024-06-01T10:00:00.0'", [6], [8]),
        ("'2024-06-01T10:00:00' < at", [3, 7], [8]),
        ("at == '2024-06-01 10:00'", [0, 1, 2, 4, 5], []),
        ("at != '2024-06-01T10:00:00.25' and at < '2024-06-01T11:00'", [0, 1, 2, 4, 5, 6], [8]),
        ("at in ('2024-06-02', '2024-06-01T11:00+01:00')", [0, 1, 2, 4, 5, 7], []),
        ("at >= '2024-06-01T10:00:00+00:00'", [0, 1, 2, 3, 4, 5, 7], [8]),
        ("at == '2024-06-01T15:00+0500'", [0, 1, 2, 4, 5], []),
        ("at <= '2024-06-01'", [6], [8]),
        ("at == 'soon'", [8], []),
    ],
)
def test_times_in_text_are_compared_as_times_or_rejected(text, kept, bad):
    found, _ = filtered(text, {"at": pa.array(TIMES)})
    bad_rows = [one.number - 1 for one in found.bad]
    assert ((found.numbers - 1).tolist(), bad_rows) == (kept, bad)


_CLOCKS = st.builds(
    "2024-06-0{}T0{}:00{}".format,
    st.sampled_from("12"),
    st.sampled_from("01"),
    st.sampled_from(["", ":00", ":30", ":00.0", ":00.50", ":30.5"]),
)


@given(
    st.lists(_CLOCKS, min_size=1, max_size=5),
    _CLOCKS,
    st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
    st.sampled_from(["", "Z", "-03:30"]),
)
def test_times_of_any_precision_have_their_order(times, literal, comparison, zone):
    texts = pa.array([time + zone for time in times])
    kind = pa.timestamp("us", "UTC" if zone else None)
    columns = {
        "text": texts,
        "time": pa.array(map(datetime.datetime.fromisoformat, texts.to_pylist()), kind),
    }
    condition = f"{{}} {comparison} '{literal}{zone}'"
    as_text, as_time = (filtered(condition.format(name), columns)[0] for name in columns)
    assert as_text.numbers.tolist() == as_time.numbers.tolist()
    assert not as_text.bad


def filtered(text: str, columns: dict[str, pa.Array]) -> tuple[Rows, dict[str, int]]:
    """The rows that a filter leaves, and the counts of others."""
    table = pa.RecordBatch.from_pydict(columns)
    types = {name: column.type for name, column in columns.items()}
    rows = Rows(columns=table, numbers=np.arange(1, len(table) + 1))
    return RowFilter.of(text, types, where="rows.csv").apply(rows, ValueParser())


def test_thousands_of_conditions():
    text = " or ".join(f"n == {n}" for n in range(1500))
    assert rows(text) == [0, 1]
    with pytest.raises(ConfigError, match="at most 10000 names, values and operators"):
        parse_condition(" or ".join([text] * 3))


_NUMBERS = st.sampled_from([None, 0, 1, 2])


def _conditions() -> st.SearchStrategy[str]:
    compared = st.builds(
        "{} {} {}".format,
        st.sampled_from("ab"),
        st.sampled_from(["==", "!=", "<", "<=", ">", ">="]),
        st.sampled_from(["a", "b", "0", "1"]),
    )
    missing = st.builds("{} is None".format, st.sampled_from("ab"))
    among = st.builds("{} in (0, 2)".format, st.sampled_from("ab"))
    return st.recursive(
        compared | missing | among,
        lambda one: (
            st.builds("({}) {} ({})".format, one, st.sampled_from(["and", "or"]), one)
            | st.builds("not ({})".format, one)
        ),
        max_leaves=6,
    )


@given(_conditions(), st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=6))
def test_missing_values_are_those_of_sql(text, pairs):
    import sqlite3

    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE t (row, a, b)")
    database.executemany("INSERT INTO t VALUES (?, ?, ?)", [(n, *p) for n, p in enumerate(pairs)])
    sql = text.replace("==", "=").replace("is None", "is NULL")
    wanted = [row for (row,) in database.execute(f"SELECT row FROM t WHERE {sql} ORDER BY row")]
    condition = parse_condition(text)
    columns = {
        name: pa.array([pair[place] for pair in pairs], pa.int64())
        for place, name in enumerate("ab")
    }
    check_condition(condition, {"a": pa.int64(), "b": pa.int64()}, where="t")
    found = np.asarray(truth_of(condition, columns, len(pairs)).fill_null(False), bool)
    assert [row for row, is_in in enumerate(found) if is_in] == wanted
