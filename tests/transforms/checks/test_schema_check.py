"""Records against rules, one kind of rule at a time."""

import datetime
import re

import numpy as np
import pyarrow as pa
import pytest

from recordmill.errors import ConfigError, Reason
from recordmill.profile.schema_rules import SchemaRules, parse
from recordmill.transforms.checks.schema_check import SchemaCheck
from recordmill.transforms.checks.schema_columns import check_columns
from recordmill.transforms.checks.violations import Violations, dataset_violations
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import RowOutcome
from recordmill.transforms.model.source import Layout
from recordmill.transforms.statistics.dataset_statistics import Statistics
from recordmill.transforms.statistics.infer_schema import infer_schema

NAN, INF = float("nan"), float("inf")


def rows_of(**columns):
    arrays = {n: c if isinstance(c, pa.Array) else pa.array(c) for n, c in columns.items()}
    size = len(next(iter(arrays.values())))
    ours = {
        batch.KEY: pa.array([f"k{row}" for row in range(size)]),
        batch.LABEL: pa.nulls(size, pa.string()),
        batch.SPLIT: pa.repeat("train", size),
    }
    return pa.RecordBatch.from_pydict(ours | arrays)


def rejected(rows: pa.RecordBatch, schema: str | SchemaRules) -> dict[str, str]:
    """{key: why}, and the others are kept."""
    rules = parse(schema) if isinstance(schema, str) else schema
    outcome = SchemaCheck(rules=rules, labelled=False).check(rows)
    assert all(reject.reason == Reason.OUT_OF_SCHEMA for reject in outcome.rejects)
    assert all(reject.stage == "check" for reject in outcome.rejects)
    found = {reject.key: reject.detail for reject in outcome.rejects}
    kept = [f"k{row}" for row in outcome.kept.tolist()]
    assert sorted([*found, *kept]) == sorted(rows[batch.KEY].to_pylist())
    return found


def floats(*values):
    return pa.array(values, pa.float64(), from_pandas=False)


# {what: (column, the rest of its feature, {row: why})}
RULES = {
    "presence": (
        pa.array([1, None, 3]),
        "presence { min_fraction: 1 }",
        {1: "no value, but the schema requires min_fraction 1"},
    ),
    "no presence": (pa.array([1, None, 3]), "presence { min_fraction: 0.9 }", {}),
    "int_domain": (
        pa.array([-1, 0, 9, 10, None]),
        "int_domain { min: 0 max: 9 }",
        {0: "-1, but the schema allows 0 to 9", 3: "10, but the schema allows 0 to 9"},
    ),
    "beyond float64": (
        pa.array([2**53, 2**53 + 1]),
        f"int_domain {{ max: {2**53} }}",
        {1: f"{2**53 + 1}, but the schema allows at most {2**53}"},
    ),
    "float_domain": (
        floats(0.1, 0.099, 44.6, 44.7, NAN),
        "float_domain { min: 0.1 max: 44.6 }",
        {
            1: "0.099, but the schema allows 0.1 to 44.6",
            3: "44.7, but the schema allows 0.1 to 44.6",
        },
    ),
    "one bound": (
        floats(-1, 1, INF),
        "float_domain { min: 0 }",
        {0: "-1, but the schema allows at least 0.0"},
    ),
    "infinity beyond a bound": (
        floats(1, INF),
        "float_domain { max: 2 }",
        {1: "inf, but the schema allows at most 2.0"},
    ),
    "nan": (
        floats(1, NAN),
        "float_domain { disallow_nan: true }",
        {1: "nan, which the schema disallows"},
    ),
    "inf": (
        floats(1, -INF, INF, 1e39),
        "float_domain { disallow_inf: true }",
        {1: "-inf, which the schema disallows", 2: "inf, which the schema disallows"},
    ),
    "whole numbers as numbers": (
        pa.array([1, 5]),
        "type: FLOAT float_domain { max: 2.5 }",
        {1: "5, but the schema allows at most 2.5"},
    ),
    "numbers as whole ones": (
        floats(1.0, 1.5),
        "int_domain { }",
        {1: "1.5 is not an integer"},
    ),
    "string_domain": (
        pa.array(["a", "b", "A", None, ""]),
        'string_domain { value: "a" value: "b" }',
        {2: "'A', but the schema allows 'a', 'b'", 4: "'', but the schema allows 'a', 'b'"},
    ),
    "many words": (
        pa.array(["z" * 99]),
        "string_domain { " + " ".join(f'value: "{n}"' for n in range(9)) + " }",
        {0: "'" + "z" * 59 + "..., but the schema allows '0', '1', '2', '3', '4' and 4 others"},
    ),
    "bytes": (
        pa.array([b"a", b"\xff"]),
        'string_domain { value: "a" }',
        {1: "b'\\xff', but the schema allows 'a'"},
    ),
    "integers as texts": (
        pa.array(["3", "-1", "x", "9" * 30, "+2"]),
        "type: BYTES int_domain { min: 0 max: 5 }",
        {
            1: "-1, but the schema allows 0 to 5",
            2: "'x' is not an integer",
            3: f"'{'9' * 30}' is not an integer",
        },
    ),
    "numbers as texts": (
        pa.array(["3.5", "-1e9", "x"]),
        "float_domain { min: 0 }",
        {1: "-1e+09, but the schema allows at least 0.0", 2: "'x' is not a number"},
    ),
    "bool_domain of numbers": (
        pa.array([0, 1, 2]),
        "bool_domain { }",
        {2: "2, but the schema allows 0 and 1"},
    ),
    "bool_domain of texts": (
        pa.array(["yes", "no", "Yes"]),
        'bool_domain { true_value: "yes" false_value: "no" }',
        {2: "'Yes', but the schema allows 'yes', 'no'"},
    ),
    "days": (
        pa.array([datetime.date(1970, 1, 1), datetime.date(1970, 2, 1)]),
        "type: INT int_domain { min: 0 max: 9 }",
        {1: "31, but the schema allows 0 to 9"},
    ),
    "value_count": (
        pa.array([[1], [], None, [1, 2, 3, 4]]),
        "value_count { min: 1 max: 3 }",
        {1: "0 values, but the schema allows 1 to 3", 3: "4 values, but the schema allows 1 to 3"},
    ),
    "shape": (
        pa.array([[1, 2], [1]]),
        "shape { dim { size: 2 } }",
        {1: "1 value, but the schema allows 2"},
    ),
    "shape of one value": (pa.array([1, None]), "shape { }", {}),
    "values of lists": (
        pa.array([[1, 2], [3, -4, -5], [], None]),
        "int_domain { min: 0 }",
        {1: "-4, but the schema allows at least 0"},
    ),
    "lists of one length": (
        pa.array([[1.0, NAN], [1.0, 2.0]], pa.list_(pa.float64(), 2)),
        "float_domain { disallow_nan: true }",
        {0: "nan, which the schema disallows"},
    ),
    "mass": (
        pa.array(["a", "x"]),
        'string_domain { value: "a" } distribution_constraints { min_domain_mass: 0.9 }',
        {},
    ),
}


@pytest.mark.parametrize("what", RULES)
def test_a_rule_rejects_what_is_out_of_it_and_nothing_else(what):
    column, feature, expected = RULES[what]
    rows = rows_of(x=column, other=pa.array(np.arange(len(column))))
    found = rejected(rows, f'feature {{ name: "x" {feature} }} feature {{ name: "other" }}')
    assert found == {f"k{row}": f"column 'x': {why}" for row, why in expected.items()}


def test_the_first_column_of_the_schema_is_reported():
    rows = rows_of(a=[1, 9], b=[9, 9])
    schema = 'feature { name: "b" int_domain { max: 5 } } feature { name: "a" int_domain {max: 5} }'
    assert rejected(rows, schema) == {
        "k0": "column 'b': 9, but the schema allows at most 5",
        "k1": "column 'b': 9, but the schema allows at most 5",
    }


def test_another_check_comes_first():
    class Odd:
        def check(self, rows):
            return RowOutcome(
                kept=np.flatnonzero(np.asarray(rows["x"]) % 2), filtered=[("k0", "odd")]
            )

    rules = parse('feature { name: "x" int_domain { max: 4 } }')
    outcome = SchemaCheck(rules=rules, labelled=False, first=Odd()).check(
        rows_of(x=[0, 1, 2, 3, 4, 5, 6])
    )
    assert outcome.kept.tolist() == [1, 3]
    assert [reject.key for reject in outcome.rejects] == ["k5"]
    assert outcome.filtered == [("k0", "odd")]


def test_what_stays_is_counted_with_the_smallest_keys():
    rules = parse('feature { name: "x" int_domain { max: 4 } }'
                  'feature { name: "y" presence { min_fraction: 1 } }')  # fmt: skip
    rows = rows_of(x=[9, 1, 9, 9, 9, None], y=[None, 1, 1, 1, None, None])
    columns = {"x": rows["x"], "y": rows["y"]}
    halves = [
        Violations.of(rows[batch.KEY][part], {n: c[part] for n, c in columns.items()}, rules)
        for part in (slice(0, 3), slice(3, 6))
    ]
    for parts in (halves, halves[::-1]):
        found = Violations.sum(parts)
        assert found.records == 5
        assert found.columns["x"][0] == 4
        assert [key for key, _ in found.columns["x"][1]] == ["k0", "k2", "k3"]
        assert found.columns["y"] == (
            1, (("k5", "no value, but the schema requires min_fraction 1"),)
        )  # fmt: skip
        assert found.summary() == (
            "5 records violate the schema, by column 'x' of 4, such as"
            " k0: 9, but the schema allows at most 4, k2: 9, but the schema allows at most 4,"
            " k3: 9, but the schema allows at most 4; 'y' of 1, such as"
            " k5: no value, but the schema requires min_fraction 1"
        )
    assert Violations.sum([]).summary() is None


@pytest.mark.parametrize(
    ("feature", "expected"),
    [
        ("presence { min_fraction: 0.75 }", "2 of 4 records have a value, .* min_fraction 0.75"),
        ("presence { min_fraction: 0.5 }", None),
        (
            "presence { min_count: 3 }",
            "2 records have a value, but the schema requires min_count 3",
        ),
        ("presence { min_count: 2 }", None),
        ("unique_constraints { min: 3 }", "2 different values, but the schema allows at least 3"),
        ("unique_constraints { max: 1 }", "2 different values, but the schema allows 0 to 1"),
        (
            'string_domain { value: "a" } distribution_constraints { min_domain_mass: 0.6 }',
            "1 of 2 values are in its domain, but the schema requires min_domain_mass 0.6",
        ),
        (
            'string_domain { value: "a" } distribution_constraints { min_domain_mass: 0.5 }',
            None,
        ),
    ],
)
def test_a_dataset_is_judged_as_a_whole(feature, expected):
    rules = parse(f'feature {{ name: "x" {feature} }}')
    rows = rows_of(x=["a", None, "b", None])
    violations = Violations.of(rows[batch.KEY], {"x": rows["x"]}, rules)
    assert violations.records == 0
    found = Statistics.of(rows, {"x": rows["x"]}).whole()
    told = list(dataset_violations(found, violations, rules))
    if expected is None:
        assert told == []
    else:
        (sentence,) = told
        assert sentence.startswith("column 'x': ")
        assert re.search(expected, sentence)


def test_a_dataset_of_too_many_records():
    rules = parse("dataset_constraints { max_examples_count: 1 }")
    rows = rows_of(x=[1, 2])
    found = Statistics.of(rows, {"x": rows["x"]}).whole()
    assert list(dataset_violations(found, Violations(), rules)) == [
        "2 records, but the schema allows 0 to 1"
    ]


SCHEMA = 'feature { name: "a" type: INT } feature { name: "b" type: FLOAT }'
COLUMNS = {
    "missing": ({"a": pa.int64()}, "has no column 'b'.*it has 'a'.*PLANNED"),
    "unexpected": (
        {"a": pa.int64(), "b": pa.float32(), "B": pa.int64()},
        r"no feature 'B'.*--drop-columns",
    ),
    "of text": ({"a": pa.string(), "b": pa.float32()}, "column 'a' has type string.*type: INT"),
    "of numbers": (
        {"a": pa.float64(), "b": pa.float32()},
        "'a' has type double.*expected type: FLO",
    ),
}


@pytest.mark.parametrize("what", COLUMNS)
def test_columns_that_are_not_those_of_the_schema(what):
    columns, expected = COLUMNS[what]
    layout = Layout(columns=pa.schema(columns), labelled=False, grouped=False)
    with pytest.raises(ConfigError, match=expected):
        check_columns(parse(SCHEMA), layout, None)


@pytest.mark.parametrize(
    "columns",
    [
        {"a": pa.int64(), "b": pa.float64()},
        {"a": pa.bool_(), "b": pa.int64()},
        {"a": pa.date32(), "b": pa.list_(pa.float32())},
    ],
)
def test_columns_that_are_those_of_the_schema(columns):
    layout = Layout(columns=pa.schema(columns), labelled=True, grouped=False)
    check_columns(parse(SCHEMA), layout, None)
    later = f'{SCHEMA} feature {{ name: "c" lifecycle_stage: PLANNED }}'
    check_columns(parse(later), layout, None)
    check_columns(parse(f'{later} feature {{ name: "label" type: BYTES }}'), layout, None)


def test_an_inferred_schema_tells_of_dates_and_times():
    rows = rows_of(
        day=pa.array([1, None], pa.date32()), at=pa.array([1, 2], pa.timestamp("us")), n=[1, 2]
    )
    columns = {name: rows[name] for name in ("day", "at", "n")}
    text = infer_schema(Statistics.of(rows, columns).whole())
    assert "#   --types day=date,at=timestamp\n" in text
    parse(text)
    assert "--types" not in infer_schema(Statistics.of(rows, {"n": columns["n"]}).whole())


def test_records_keep_the_schema_that_is_inferred_from_them():
    rows = rows_of(
        whole=[1, 2**62 + 1, -5, 0],
        number=[0.1, 44.6, 1e300, -0.3],
        sparse=[None, 0.7, None, None],
        odd=floats(1, NAN, INF, 2),
        word=["a", "b", "a", "ü"],
        many=pa.array([[1, 2], [3], [4, 5, 6], [1]]),
        three=pa.array([[1, 2, 3]] * 4),
        blob=pa.array([b"\xff", b"", b"1", b"2"]),
        none=pa.nulls(4, pa.string()),
    )
    columns = {name: rows[name] for name in rows.schema.names if not name.startswith("__")}
    text = infer_schema(Statistics.of(rows, columns).whole())
    rules = parse(text)
    assert list(rules.columns) == list(columns)
    assert rejected(rows, rules) == {}
    assert rules.columns["word"].domain.values == ("a", "b", "ü")
    assert rules.columns["three"].values == (3, 3)
    assert rules.columns["many"].values == (1, None)
    assert rules.columns["whole"].domain.most == 2**62 + 1
    assert rules.columns["number"].required
    assert not rules.columns["sparse"].required
    found = rejected(rows_of(**{**columns, "whole": pa.array([2**62 + 2, 0, 0, -6])}), rules)
    assert list(found) == ["k0", "k3"]
