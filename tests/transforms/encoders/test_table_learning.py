"""Values learned from columns, and their transforms, compared with NumPy and plain Python."""

import itertools
import json

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.errors import ConfigError, RunError
from recordmill.transforms.encoders.table_learning import TableAnalysis
from recordmill.transforms.encoders.table_numbers import NUMBERS_FILE
from recordmill.transforms.encoders.table_options import TableOptions, parts_of
from recordmill.transforms.encoders.tables import TableCheck, TableEncoder
from recordmill.transforms.model import batch
from recordmill.transforms.planning.learning import add_up
from tests.texts import context_of

NUMBERS = st.lists(
    st.one_of(st.none(), st.floats(-1e6, 1e6).map(lambda x: round(x, 3)), st.integers(-9, 9)),
    min_size=1,
    max_size=40,
)


def rows_of(**columns):
    size = len(next(iter(columns.values())))
    ours = {batch.KEY: pa.array([str(row) for row in range(size)])}
    arrays = {n: c if isinstance(c, pa.Array) else pa.array(c) for n, c in columns.items()}
    return pa.RecordBatch.from_pydict(ours | arrays)


def learn(options, *parts):
    analysis = TableAnalysis(options=options)
    selected = analysis.select(add_up([analysis.count(part) for part in parts]))
    questions = analysis.ask(selected)
    collected = [analysis.collect(part, questions) for part in parts]
    answers = [
        analysis.answer(
            question,
            lambda place=place: [
                part.filter(pc.equal(part["question"], place)) for part in collected
            ],
        )
        for place, question in enumerate(questions)
    ]
    return analysis.learn(add_up([selected, *answers]), records=sum(map(len, parts)))


def encode(options, rows, folder, *train):
    context = context_of(folder, learn(options, *(train or [rows])))
    encoder = TableEncoder(options=options)
    columns = encoder.encode(rows, context).columns
    declared = encoder.features(rows.schema, context)
    assert set(columns.schema.names) == set(declared)
    return {name: columns[name].to_pylist() for name in columns.schema.names}, declared


@given(values=NUMBERS, cut=st.integers(0, 40))
def test_what_is_learned_does_not_depend_on_the_parts(values, cut):
    options = TableOptions(zscore=("x",), bucketize=(("y", 4),), impute=(("y", "median"),))
    column = pa.array(values, pa.float64())
    whole = rows_of(x=column, y=column)
    parts = [part for part in (whole.slice(0, cut), whole.slice(cut)) if len(part)]
    if column.null_count == len(column):
        with pytest.raises(RunError, match=r"no value in the .* records of train"):
            learn(options, whole)
        return
    assert learn(options, whole) == learn(options, *parts) == learn(options, *reversed(parts))


@pytest.mark.parametrize("impute", [None, "mean", "median", "2.5"])
@pytest.mark.parametrize("log", [False, True])
def test_zscore(tmp_path, impute, log):
    values = np.random.default_rng(0).integers(0, 200, 1001).astype(float)
    there = np.arange(1001) % 7 > 0
    options = TableOptions(
        zscore=("x",),
        log=("x",) if log else (),
        clip=(("x", 3, 150),),
        impute=(("x", impute),) if impute else (),
    )
    rows = rows_of(x=pa.array(values, mask=~there))
    found, declared = encode(options, rows, tmp_path, rows.slice(0, 300), rows.slice(300))
    assert declared["x"].shape == (() if impute else (None,))
    expected = values.copy()
    median = np.quantile(values[there], 0.5, method="inverted_cdf")
    fills = {"mean": values[there].mean(), "median": median, "2.5": 2.5}
    if impute:
        expected[~there] = fills[impute]
    else:
        assert [value is None for value in found["x"]] == (~there).tolist()
        expected = expected[there]
    expected = np.clip(expected, 3, 150)
    if log:
        expected = np.log(1 + expected)
    expected = (expected - expected.mean()) / expected.std()
    made = np.array([value for value in found["x"] if value is not None])
    np.testing.assert_allclose(made, expected, atol=1e-6)


def test_minmax_and_constant_columns(tmp_path):
    options = TableOptions(minmax=("x", "same"), zscore=("flat",))
    rows = rows_of(x=[3.0, -1.0, 7.0], same=[4, 4, 4], flat=[0.1, 0.1, 0.1])
    found, _ = encode(options, rows, tmp_path)
    assert found == {"x": [0.5, 0, 1], "same": [0, 0, 0], "flat": [0, 0, 0]}


def test_buckets_hold_equally_many(tmp_path):
    options = TableOptions(bucketize=(("x", 4), ("skewed", 4)))
    rows = rows_of(x=list(range(200)), skewed=[0] * 150 + list(range(50)))
    found, declared = encode(options, rows, tmp_path)
    counts = np.bincount(found["x"])
    assert len(counts) == 4
    assert counts.min() >= 49
    assert max(found["skewed"]) < 3, "equal values are in one bucket"
    assert declared["x"].size == 4
    for one, other in itertools.pairwise(zip(found["x"], range(200), strict=True)):
        assert one[0] <= other[0]


def test_boundaries_part_values_equally():
    values = np.random.default_rng(1).lognormal(3, 4, 5000) * np.repeat([1, -1], 2500)
    options = TableOptions(bucketize=(("x", 10),))
    learned = json.loads(learn(options, rows_of(x=values))[NUMBERS_FILE])["x"]["boundaries"]
    np.testing.assert_allclose(learned, np.sort(values)[500::500], rtol=0)


def test_values_become_ids_or_ones(tmp_path):
    train = rows_of(city=["b", "a", "b", None, "c\n", "a", "b"], code=[7, 7, None, 8, 8, 7, 9])
    options = TableOptions(
        one_hot=("city",), vocabulary=("code",), oov_buckets=2, indicator=("city",)
    )
    rows = rows_of(city=["a", "zzz", None, "b"], code=[9, 7, None, 12])
    found, declared = encode(options, rows, tmp_path, train)
    assert found["city"] == [[0, 1], [0, 0], [0, 0], [1, 0]]
    assert found["city/missing"] == [0, 0, 1, 0]
    assert found["code"][:3] == [5, 3, 0]
    assert found["code"][3] in (1, 2)
    assert (declared["city"].shape, declared["code"].size) == ((2,), 6)


def test_vocabularies_are_cut_by_frequency(tmp_path):
    rows = rows_of(city=["x"] * 5 + ["y"] * 3 + ["z"] * 3 + ["once"])
    options = TableOptions(vocabulary=("city",), vocab_size=2, min_frequency=2)
    found, _ = encode(options, rows, tmp_path)
    assert found["city"] == [2] * 5 + [3] * 3 + [1] * 4


def test_a_value_that_stands_for_none_is_learned_too(tmp_path):
    train = rows_of(city=["a", None, None, "b", None, "a"], code=[7, None, 7, None, 8, None])
    options = TableOptions(
        one_hot=("city",), vocabulary=("code",), impute=(("city", "none"), ("code", "9"))
    )
    found, _ = encode(options, rows_of(city=["b", None], code=[None, 8]), tmp_path, train)
    assert found == {"city": [[0, 0, 1], [1, 0, 0]], "code": [2, 4]}


def test_hashes_are_those_of_tensorflow(tmp_path):
    import tensorflow as tf

    options = TableOptions(hash=(("city", 10), ("code", 100)), impute=(("city", "none"),))
    rows = rows_of(city=["Paris", "", None, "Köln"], code=[1, None, -7, 10**12])
    found, _ = encode(options, rows, tmp_path)
    cities = tf.strings.to_hash_bucket_fast(["Paris", "", "none", "Köln"], 10)
    codes = tf.strings.to_hash_bucket_fast(["1", "-7", "1000000000000"], 100)
    assert found["city"] == cities.numpy().tolist()
    assert [code for code in found["code"] if code is not None] == codes.numpy().tolist()
    assert found["code"][1] is None


def test_parts_of_dates(tmp_path):
    days = pa.array(["2024-02-29", None, "1969-07-20"]).cast(pa.date32())
    times = pa.array(["2024-02-29 23:59:58", "2000-01-01 00:00:00", None]).cast(pa.timestamp("us"))
    options = TableOptions(
        date_parts=(
            ("day", parts_of("year+month+day+weekday")),
            ("time", parts_of("hour+minute+second")),
        )
    )
    found, _ = encode(options, rows_of(day=days, time=times), tmp_path)
    assert found == {
        "day/year": [2024, None, 1969],
        "day/month": [2, None, 7],
        "day/day": [29, None, 20],
        "day/weekday": [4, None, 7],
        "time/hour": [23, 0, None],
        "time/minute": [59, 0, None],
        "time/second": [58, 0, None],
    }


def test_numbers_that_no_feature_holds_are_told():
    options = TableOptions(log=("x",), clip=(("capped", 0, 10),))
    rows = rows_of(
        x=[1.0, -1.0, None, float("inf"), -0.5],
        y=[1e39, 0.0, None, 0.0, -3e38],
        capped=[1e300, 0.0, 0.0, 0.0, 0.0],
        n=[2**60, 0, 0, 0, 0],
    )
    sorted_ = TableCheck(options=options).check(rows)
    assert sorted_.kept.tolist() == [2, 4]
    assert [(reject.key, reject.detail) for reject in sorted_.rejects] == [
        (
            "0",
            "column 'y': 1e+39 is not a finite float32 (if it is an id such as 7E70, --types"
            " y=string keeps the text)",
        ),
        ("1", "column 'x': ln(1 + -1) is not defined"),
        ("3", "column 'x': inf is not a finite float32"),
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"zscore": ("x",), "minmax": ("x",)}, "--minmax x: conflicts with --zscore x"),
        ({"one_hot": ("x",), "log": ("x",)}, "--one-hot x: uses values as they are"),
        ({"hash": (("x", 1),)}, "--hash x=1: expected 2 to"),
        ({"clip": (("x", 3, 3),)}, "--clip x=3:3: expected MIN:MAX, and 3 is not less than 3"),
        ({"oov_buckets": 0}, "--oov-buckets: expected 1 or more, got 0"),
    ],
)
def test_options_that_exclude_each_other_are_reported(options, words):
    with pytest.raises(ConfigError, match=words):
        TableOptions(**options)


def test_unknown_date_parts_are_reported():
    with pytest.raises(ConfigError, match=r"unknown part 'yaer' \(did you mean 'year'\?\)"):
        parts_of("yaer+month")
