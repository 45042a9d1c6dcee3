"""Batches: hashes, ranks and the bytes that travel."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import xxhash
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from recordmill.transforms.model import batch

WORDS = st.text(max_size=6)
UINT64 = st.integers(0, 2**64 - 1)
VALUES = {
    "text": st.none() | WORDS,
    "number": st.none() | st.integers(-(2**63), 2**63 - 1),
    "real": st.none() | st.floats(),
    "data": st.none() | st.binary(max_size=4),
    "boxes": st.none() | st.lists(st.floats(0, 1, width=32), max_size=3),
    "time": st.none() | st.integers(-(2**62), 2**62),
}
SCHEMA = pa.schema(
    {
        "text": pa.string(),
        "number": pa.int64(),
        "real": pa.float64(),
        "data": pa.binary(),
        "boxes": pa.list_(pa.float32()),
        "time": pa.timestamp("ns"),
    }
)
ROWS = st.lists(st.fixed_dictionaries(VALUES), max_size=12)


def table(rows):
    return pa.RecordBatch.from_pylist(rows, SCHEMA)


def keyed(keys, **columns):
    return pa.RecordBatch.from_pydict({batch.KEY: pa.array(keys, pa.string()), **columns})


def sums(batches):
    """Sums of the hashes of rows, of which a fingerprint is made."""
    return [
        sum(int(part.sum(dtype=np.uint64)) for part in parts) % 2**64
        for parts in zip(*map(batch.hash_rows, batches), strict=True)
    ]


@given(st.lists(st.none() | WORDS, max_size=9))
def test_hashes_are_xxh3_of_utf8(texts):
    expected = [0 if text is None else xxhash.xxh3_64_intdigest(text.encode()) for text in texts]
    assert batch.hash_strings(pa.array(texts, pa.string())).tolist() == expected


def test_hashes_are_xxh3_of_every_size_wherever_a_text_stands():
    source = np.random.default_rng(0).bytes(1 << 15)
    ends = np.cumsum([*range(300), *range(300), *range(40)] * 40) % len(source)
    texts = [source[end - size : end] for size, end in enumerate(ends.tolist()) if size <= end]
    texts = [text[: n % 70] for n, text in enumerate(texts)] + [source[:n] for n in range(300)]
    expected = [xxhash.xxh3_64_intdigest(text) for text in texts]
    assert {len(text) for text in texts} >= {*range(70)}
    assert batch.hash_strings(pa.array(texts, pa.binary())).tolist() == expected


@given(st.lists(st.none() | st.integers(0, 3), max_size=9))
def test_codes_are_of_values_that_are_there(numbers):
    names = pa.array(["a", "b", "c", "d"])
    column = pa.DictionaryArray.from_arrays(pa.array(numbers, pa.int16()), names)
    expected = column.to_pylist()
    for some in (column, column.cast(pa.string())):
        codes, values = batch.encode(some)
        assert [None if code < 0 else values[code].as_py() for code in codes] == expected
        assert {*values.to_pylist()} == {*expected} - {None}


@given(st.lists(UINT64, min_size=1, unique=True), UINT64)
def test_mixing_is_a_bijection_as_splitmix64_defines_it(values, salt):
    mixed = batch.mix(np.array(values, np.uint64), salt)
    assert len(set(mixed.tolist())) == len(values)
    x = (values[0] + salt) % 2**64
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) % 2**64
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) % 2**64
    assert int(mixed[0]) == x ^ (x >> 31)


def test_purposes_and_seeds_are_independent():
    values = batch.hash_strings(pa.array([str(i) for i in range(20_000)]))
    salts = [batch.salt(seed, purpose) for seed in (0, 1) for purpose in ("split", "order")]
    ranks = [batch.mix(values, salt).astype(np.float64) for salt in salts]
    between = np.abs(np.corrcoef(ranks) - np.eye(len(salts)))
    assert between.max() < 0.03  # 4 standard errors of 1 / sqrt(20 000)


@given(st.lists(UINT64, min_size=1), st.integers(1, 100_000))
def test_scaling_keeps_the_order_and_stays_inside(ranks, parts):
    scaled = batch.scale(np.sort(np.array(ranks, np.uint64)), parts)
    assert (np.diff(scaled) >= 0).all()
    assert 0 <= scaled[0] <= scaled[-1] < parts


def test_scaling_reaches_both_ends():
    assert batch.scale(np.array([0, 2**64 - 1], np.uint64), 7).tolist() == [0, 6]


@given(ROWS, st.randoms(use_true_random=False), st.integers(1, 5))
def test_the_sum_of_row_hashes_knows_neither_order_nor_batches(rows, random, size):
    shuffled = random.sample(rows, len(rows))
    cut = [table(shuffled[at : at + size]) for at in range(0, len(rows), size)]
    assert sums([table(rows)]) == sums(cut or [table([])])


@pytest.mark.parametrize(
    ("column", "one", "other"),
    [
        ("text", "", None),
        ("text", "a", "b"),
        ("number", 0, None),
        ("number", -1, None),
        ("real", 0.0, None),
        ("boxes", [], None),
        ("boxes", [0.5], [0.5, 0.5]),
        ("time", 0, None),
    ],
)
def test_row_hashes_tell_values_apart(column, one, other):
    first, second = batch.hash_rows(table([{column: one}, {column: other}]))
    assert first[0] != first[1]
    assert second[0] != second[1]


def test_row_hashes_tell_columns_apart():
    hashed = batch.hash_rows(table([{"number": 1}, {"time": 1}]))[0]
    assert hashed[0] != hashed[1]


def test_units_are_groups_and_else_keys():
    rows = keyed(
        ["a", "b", "c", "d"], **{batch.GROUP: pa.array(["g", None, "g", "d"], pa.string())}
    )
    units = batch.unit_hashes(rows)
    own = batch.hashes(rows)
    assert units[0] == units[2]
    assert units[1] == own[1]
    assert units[3] != own[3]  # the group "d" is not the key "d"
    assert len(set(units.tolist())) == 3


@given(st.lists(st.tuples(st.integers(0, 3), WORDS, st.integers(0, 2)), max_size=12))
def test_order_is_by_rank_then_key_then_copy(rows):
    ranks = np.array([rank for rank, _, _ in rows], np.uint64)
    copies = pa.array([copy for _, _, copy in rows], pa.int32())
    order = batch.sort_order(ranks, keyed([key for _, key, _ in rows], **{batch.COPY: copies}))
    ordered = [rows[at] for at in order]
    assert ordered == sorted(rows, key=lambda row: (row[0], row[1].encode(), row[2]))


@given(ROWS, st.data())
def test_bytes_hold_the_rows_of_a_slice(rows, data):
    start = data.draw(st.integers(0, len(rows)))
    part = table(rows).slice(start, data.draw(st.integers(0, len(rows) - start)))
    back = batch.from_bytes(batch.to_bytes(part))
    assert repr(back.drop_columns("time").to_pylist()) == repr(
        part.drop_columns("time").to_pylist()
    )  # repr: NaN is not NaN
    assert back.schema == SCHEMA


def test_bytes_of_a_slice_are_small():
    rows = keyed([f"key {i:06d}" for i in range(50_000)])
    assert len(batch.to_bytes(rows.slice(100, 50))) < 2_000


def test_order_of_a_hundred_thousand_is_uniform():
    """Neighbours in the input land anywhere: chi-square over 100 x 100 cells."""
    count, cells = 100_000, 100
    rows = batch.with_hash(keyed([f"images/{i}.jpg" for i in range(count)]))
    ranks = batch.order_ranks(rows, seed=3)
    place = np.argsort(np.argsort(ranks))
    observed = np.histogram2d(np.arange(count), place, bins=cells)[0]
    assert stats.chisquare(observed.ravel()).pvalue > 1e-3
    assert abs(np.corrcoef(place[1:], place[:-1])[0, 1]) < 0.02
    shards = np.bincount(batch.scale(ranks, 64), minlength=64)
    assert stats.chisquare(shards).pvalue > 1e-3


def test_copies_of_a_record_land_anywhere():
    count = 20_000
    keys = keyed(["same"] * count, **{batch.COPY: pa.array(np.arange(count), pa.int32())})
    ranks = batch.order_ranks(keys, seed=3)
    assert stats.kstest(ranks.astype(np.float64) / 2**64, "uniform").pvalue > 1e-3


def test_places_are_named_by_file_and_row():
    places = batch.places(["a#b.csv"], np.array([1, 12]))
    assert places.type == batch.PLACES
    names = batch.place_names(places)
    assert names.to_pylist() == ["a#b.csv#1", "a#b.csv#12"]
    assert batch.place_names(names) is names
    rows = pa.RecordBatch.from_pydict({batch.KEY: pa.nulls(2, pa.string()), batch.SOURCE: places})
    assert batch.lineage(rows) == names


def test_places_name_the_file_of_each_row():
    of = np.array([0, 2, 2], np.int32)
    places = batch.places(["a.csv", "b.csv", "c.csv"], np.array([7, 1, 2]), of)
    assert batch.place_names(places).to_pylist() == ["a.csv#7", "c.csv#1", "c.csv#2"]


@pytest.mark.parametrize("name", [batch.SOURCE, batch.PLACE])
def test_bytes_of_places_do_not_depend_on_the_order_in_which_files_met(name):
    files = [batch.places([file], np.arange(1, 4)) for file in ("b", "a", "c")]
    pieces = [pa.RecordBatch.from_pydict({name: places}) for places in files]
    found = []
    for order in ([0, 1, 2], [2, 0, 1]):
        joined = batch.concat([pieces[number] for number in order])
        by_name = pc.sort_indices(batch.place_names(joined[name]))[:5]  # without the file c
        rows = batch.with_sorted_files(joined.take(by_name))
        assert batch.place_names(rows[name]).to_pylist() == ["a#1", "a#2", "a#3", "b#1", "b#2"]
        found.append(batch.to_bytes(rows))
    assert found[0] == found[1]


TEXTS = [["ab", "cd", "éf"], ["", ""], ["a", None], ["é", "ab"], ["same", "size"]]


@given(st.sampled_from(TEXTS), st.data())
def test_rows_are_taken_from_slices_and_chunks(texts, data):
    several = st.lists(st.sampled_from(texts), max_size=9)
    chunks = data.draw(st.lists(several, min_size=1, max_size=3))
    joined = [text for chunk in chunks for text in chunk]
    if not joined:
        return
    columns = [pa.array(["-", *chunk], pa.string())[1:] for chunk in chunks]
    table = pa.table({"a": pa.chunked_array(columns), "b": range(len(joined))})
    order = data.draw(st.lists(st.integers(0, len(joined) - 1), min_size=1, max_size=20))
    expected = {"a": [joined[at] for at in order], "b": order}
    for rows in (table, table.combine_chunks().to_batches()[0], table.select(["a"])):
        found = batch.take(rows, np.array(order, np.int64))
        found.validate(full=True)
        assert found.to_pydict() == {name: expected[name] for name in rows.schema.names}
