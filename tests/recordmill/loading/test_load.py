"""Records that recordmill.load returns, their order and their batches."""

import collections
import pathlib
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

import recordmill
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, make_dataset

RECORDS = 53
SHARDS = (20, 0, 13, 20)
FEATURES = {
    "number": Feature(dtype="int64"),
    "tokens": Feature(dtype="int64", shape=(None,), kind="index", size=100),
    "points": Feature(dtype="float32", shape=(2,)),
    "label": Feature(dtype="int64", kind="label"),
}
LABELS = ("few", "many")


def length(number: int) -> int:
    return number * 7 % 11


def row(number: int, *, offset: int = 0) -> Row:
    label = int(number % 4 > 0)
    return Row(
        key=str(number),
        label=LABELS[label],
        values={
            "number": [number],
            "tokens": [number] * length(number) or None,
            "points": [float(number), 0.5],
            "label": [label + offset],
        },
    )


def rows(first: int, counts=SHARDS, *, offset: int = 0) -> list[list[Row]]:
    numbers = iter(range(first, first + sum(counts)))
    return [[row(next(numbers), offset=offset) for _ in range(count)] for count in counts]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    folder = tmp_path_factory.mktemp("load") / "out"
    splits = {"train": rows(0), "validation": rows(100, (5,)), "test": []}
    make_dataset(folder, splits, features=FEATURES, labels=LABELS)
    return folder


def numbers(data) -> list[int]:
    """Of all records that come, in their order."""
    found = []
    for x, *_ in data:
        found += np.ravel(x.numpy() if not isinstance(x, dict) else x["number"].numpy()).tolist()
    return found


def load(folder, **options):
    return recordmill.load(folder, **{"inputs": "number"} | options)


def test_without_shuffle_records_come_in_the_order_of_read(folder) -> None:
    data = load(folder, batch_size=8)
    assert (
        numbers(data)
        == [*range(RECORDS)]
        == [int(r["number"]) for r in recordmill.read(folder, "train")]
    )
    assert len(data) == 7
    assert [x.shape[0] for x, _ in data] == [8] * 6 + [5]
    assert numbers(data) == [*range(RECORDS)], "and again"
    assert numbers(load(folder, split="validation")) == [*range(100, 105)]


def test_labels_and_what_is_learned_from(folder) -> None:
    x, y = next(iter(recordmill.load(folder, batch_size=4)))
    assert {name: value.dtype.name for name, value in x.items()} == {
        "number": "int64",
        "tokens": "int64",
        "points": "float32",
    }
    assert y.numpy().tolist() == [0, 1, 1, 1]
    (record,) = recordmill.load(folder, as_supervised=False).skip(3).take(1)
    assert {name: value.numpy().tolist() for name, value in record.items()} == {
        "number": 3,
        "tokens": [3] * 10,
        "points": [3.0, 0.5],
        "label": 1,
    }
    (x, y), *_ = recordmill.load(folder, inputs=["tokens", "points"], label="number")
    assert sorted(x) == ["points", "tokens"]
    assert y == 0


def test_one_hot_counts_from_the_offset(tmp_path) -> None:
    splits = {"train": rows(0, (4,), offset=1)}
    make_dataset(tmp_path / "out", splits, features=FEATURES, labels=LABELS, label_offset=1)
    data = load(tmp_path / "out", batch_size=4, one_hot=True, class_weights=True)
    ((_, y, weight),) = data
    np.testing.assert_array_equal(y, [[1, 0], [0, 1], [0, 1], [0, 1]])
    np.testing.assert_allclose(weight, [2, 2 / 3, 2 / 3, 2 / 3])
    ((_, y),) = load(tmp_path / "out", batch_size=4)
    assert y.numpy().tolist() == [1, 2, 2, 2]


def test_class_weights_give_all_classes_the_same_total(folder) -> None:
    totals: dict[int, float] = collections.defaultdict(float)
    for _, y, weight in load(folder, batch_size=8, class_weights=True):
        for one, w in zip(y.numpy(), weight.numpy(), strict=True):
            totals[int(one)] += w
    assert totals[0] == pytest.approx(totals[1]) == pytest.approx(RECORDS / 2)


def test_records_without_a_label_weigh_nothing(tmp_path) -> None:
    features = FEATURES | {"label": Feature(dtype="int64", shape=(None,), kind="label")}
    several = rows(0, (3,))
    several[0][1] = several[0][1].having(label=None)
    make_dataset(tmp_path / "out", {"train": several}, features=features, labels=LABELS)
    for options in ({"batch_size": 3}, {"batch_size": 3, "cache_decoded": True}):
        ((_, y, weight),) = load(tmp_path / "out", **options)
        assert y.numpy().tolist() == [0, 0, 1], "losses take no class that there is not"
        assert weight.numpy().tolist() == [1, 0, 1]
    assert [float(weight) for _, _, weight in load(tmp_path / "out")] == [1, 0, 1]


# --- order


@pytest.mark.parametrize("cache", [False, True])
def test_epochs_have_orders_of_their_own_that_repeat_under_the_seed(folder, cache) -> None:
    def epochs(seed: int) -> list[list[int]]:
        data = load(folder, shuffle=True, seed=seed, batch_size=8, cache_decoded=cache)
        return [numbers(data) for _ in range(3)]

    orders = epochs(1)
    assert all(sorted(order) == [*range(RECORDS)] for order in orders)
    assert len({tuple(order) for order in [*orders, range(RECORDS), *epochs(2)]}) == 7
    assert epochs(1) == orders
    repeated = load(folder, shuffle=True, seed=1, batch_size=8, repeat=3, cache_decoded=cache)
    assert len(repeated) == 21
    assert numbers(repeated) == [*orders[0], *orders[1], *orders[2]], "as one by one"


@pytest.mark.parametrize("options", [{}, {"repeat": 2}, {"start": 7}])
def test_the_global_seed_has_no_part_in_orders(folder, options) -> None:
    options = {"shuffle": True, "batch_size": 8} | options
    expected = numbers(load(folder, **options))
    try:
        for seed in (0, 1):
            tf.random.set_seed(seed)
            assert numbers(load(folder, **options)) == expected
    finally:
        tf.random.set_seed(None)


def test_no_batch_has_records_of_two_epochs(folder) -> None:
    sizes = [x.shape[0] for x, _ in load(folder, batch_size=20, repeat=2)]
    assert sizes == [20, 20, 13] * 2
    dropped = load(folder, batch_size=20, repeat=2, drop_remainder=True)
    assert [x.shape[0] for x, _ in dropped] == [20] * 4
    assert len(dropped) == 4
    assert dropped.element_spec[0].shape == (20,)


def test_repeat_without_end(folder) -> None:
    data = load(folder, repeat=True, batch_size=50)
    assert data.cardinality() == tf.data.INFINITE_CARDINALITY
    assert numbers(data.take(4)) == [*range(RECORDS)] * 2


# --- going on


@pytest.mark.parametrize(
    "options",
    [
        {"repeat": True},
        {"repeat": True, "shuffle": True},
        {"repeat": True, "shuffle": True, "cache_decoded": True},
        {"repeat": True, "shuffle": True, "batch_size": None},
        {"repeat": 3, "shuffle": True, "drop_remainder": True},
        {"repeat": 3, "shuffle": True, "order": "full"},
    ],
)
def test_a_run_goes_on_where_it_stopped(folder, options) -> None:
    options = {"batch_size": 8} | options
    whole = load(folder, **options)
    if options["repeat"] is True:
        whole = whole.take(18)
    batches = [x.numpy().tolist() for x, *_ in whole]
    for start in (1, 5, 7, 11):
        rest = load(folder, **options, start=start)
        if options["repeat"] is True:
            rest = rest.take(18 - start)
        assert len(rest) == len(whole) - start
        assert [x.numpy().tolist() for x, *_ in rest] == batches[start:], start


def test_whole_epochs_can_be_left_out_without_repeat(folder) -> None:
    data = load(folder, shuffle=True, batch_size=8)
    orders = [numbers(data) for _ in range(3)]
    later = load(folder, shuffle=True, batch_size=8, start=14)
    assert len(later) == 7
    assert numbers(later) == orders[2]


@pytest.mark.parametrize(
    "options",
    [
        {"shuffle": True, "repeat": 2},
        {"shuffle": True, "cache_decoded": True, "repeat": 2},
        {"inputs": "tokens", "shuffle": True, "batch_size": 4, "bucket_boundaries": [4, 8]},
    ],
)
def test_an_iterator_can_be_checkpointed(folder, tmp_path, options) -> None:
    options = {"batch_size": 8} | options
    iterator = iter(load(folder, **options))
    for _ in range(5):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "point"))
    rest = [x.numpy().tolist() for x, *_ in iterator]
    again = iter(load(folder, **options))
    tf.train.Checkpoint(iterator=again).restore(path)
    assert [x.numpy().tolist() for x, *_ in again] == rest
    assert rest


# --- hosts


@pytest.mark.parametrize(
    "options", [{}, {"shuffle": True}, {"shuffle": True, "cache_decoded": True}]
)
@pytest.mark.parametrize("batch_size", [None, 8])
def test_two_hosts_have_each_record_once_between_them(folder, options, batch_size) -> None:
    found, steps = [], set()
    for host in (0, 1):
        data = load(folder, shard=(2, host), batch_size=batch_size, **options)
        steps.add(len(data))
        assert len(data) == sum(1 for _ in data)
        for x, _, weight in data:
            pairs = zip(np.ravel(x.numpy()), np.ravel(weight.numpy()), strict=True)
            found += [int(number) for number, w in pairs if w > 0]
            assert set(np.ravel(weight.numpy()).tolist()) <= {0.0, 1.0}
    assert len(steps) == 1
    assert sorted(found) == [*range(RECORDS)]


def test_more_hosts_than_records(folder) -> None:
    found = []
    for host in range(7):
        data = load(folder, split="validation", shard=(7, host), batch_size=2)
        assert len(data) == 1
        ((x, _, weight),) = data
        assert x.shape == (1,)
        found += x.numpy()[weight.numpy() > 0].tolist()
    assert sorted(found) == [*range(100, 105)]


def test_hosts_without_padding_leave_out_what_is_over(folder) -> None:
    found = []
    for host in (0, 1):
        data = load(folder, shard=(2, host), batch_size=5, drop_remainder=True)
        assert len(data) == 5
        assert len(data.element_spec) == 2, "no weights"
        found += numbers(data)
    assert len(found) == len(set(found)) == 50


def test_hosts_of_a_dataset_without_classes_have_weights_too(folder) -> None:
    data = load(folder, shard=(2, 1), as_supervised=False, inputs="number", batch_size=50)
    ((batch),) = data
    assert batch["sample_weight"].numpy().tolist() == [1.0] * 26 + [0.0]


def test_distribution_strategies_take_it(folder) -> None:
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])

    def of(context):
        hosts = (context.num_input_pipelines, context.input_pipeline_id)
        size = context.get_per_replica_batch_size(8)
        return load(folder, batch_size=size, shuffle=True, shard=hosts)

    found = [x.numpy() for x, _, _ in strategy.distribute_datasets_from_function(of)]
    assert sorted(np.concatenate(found).tolist()) == [*range(RECORDS)]
    spread = strategy.experimental_distribute_dataset(load(folder, batch_size=8))
    assert sorted(np.concatenate([x.numpy() for x, _ in spread]).tolist()) == [*range(RECORDS)]


# --- what is of different length


def test_tokens_are_filled_up_to_the_longest_of_a_batch(folder) -> None:
    at = 0
    for x, _ in recordmill.load(folder, inputs="tokens", batch_size=4):
        size = x.shape[0]
        lengths = [length(number) for number in range(at, at + size)]
        expected = [
            [n] * length(n) + [0] * (max(lengths) - length(n)) for n in range(at, at + size)
        ]
        assert x.numpy().tolist() == expected
        at += size


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("inputs", ["tokens", "tokens,points"])
def test_tokens_are_filled_up_and_cut_to_a_length(folder, cache, inputs) -> None:
    data = recordmill.load(folder, inputs=inputs, batch_size=4, pad_to=6, cache_decoded=cache)
    spec = data.element_spec[0] if inputs == "tokens" else data.element_spec[0]["tokens"]
    assert spec.shape[1:] == (6,)
    found = [x if inputs == "tokens" else x["tokens"] for x, _ in data]
    expected = [([n] * length(n) + [0] * 6)[:6] for n in range(RECORDS)]
    assert np.concatenate(found).tolist() == expected


@pytest.mark.parametrize("cache", [False, True])
def test_tokens_stay_ragged(folder, cache) -> None:
    data = recordmill.load(
        folder, inputs="tokens", batch_size=4, padding="ragged", cache_decoded=cache
    )
    found = [tokens for x, _ in data for tokens in x.to_list()]
    assert found == [[n] * length(n) for n in range(RECORDS)]


def test_buckets_have_records_of_similar_length(folder) -> None:
    data = recordmill.load(folder, inputs="tokens", batch_size=4, bucket_boundaries=[3, 7])
    assert data.cardinality() == tf.data.UNKNOWN_CARDINALITY
    found = []
    for x, _ in data:
        sizes = np.count_nonzero(x.numpy(), axis=1)
        assert len({int(np.digitize(size, [3, 7])) for size in sizes if size}) <= 1
        assert x.shape[1] == max(sizes)
        found += x.numpy().max(axis=1, initial=0).tolist() if x.shape[1] else [0] * x.shape[0]
    assert len(found) == RECORDS
    assert {n for n in found if n} == {n for n in range(RECORDS) if length(n) and n}


# --- several datasets


def test_datasets_are_mixed_by_their_weights(folder, tmp_path) -> None:
    other = tmp_path / "other"
    make_dataset(other, {"train": rows(1000, (10, 7))}, features=FEATURES, labels=LABELS)
    data = load({folder: 3, other: 1}, shuffle=True, batch_size=10)
    assert data.cardinality() == tf.data.INFINITE_CARDINALITY
    found = numbers(data.take(200))
    assert 0.71 < sum(number < 1000 for number in found) / len(found) < 0.79
    counts = collections.Counter(found)
    # Each begins anew when it has ended: nothing comes twice more than anything else of its own.
    for some in (range(RECORDS), range(1000, 1017)):
        seen = [counts[number] for number in some]
        assert max(seen) - min(seen) <= 1
    again = load({folder: 3, other: 1}, shuffle=True, batch_size=10)
    assert numbers(again.take(200)) == found
    later = load({folder: 3, other: 1}, shuffle=True, batch_size=10, start=40)
    assert numbers(later.take(160)) == found[400:]
    unlike = load({folder: 3, other: 1}, shuffle=True, batch_size=10, seed=1)
    assert numbers(unlike.take(20)) != found[:200]


def test_class_weights_of_a_mixture_are_those_of_what_is_drawn(folder, tmp_path) -> None:
    other = tmp_path / "other"
    make_dataset(
        other, {"train": [[row(n) for n in (0, 4, 8, 1)]]}, features=FEATURES, labels=LABELS
    )
    totals = np.zeros(2)
    data = load({folder: 1, other: 1}, shuffle=True, class_weights=True, batch_size=100)
    for _, y, weight in data.take(40):
        np.add.at(totals, y.numpy(), weight.numpy())
    assert totals[0] / totals.sum() == pytest.approx(0.5, abs=0.03)


# --- the rest


def test_splits_without_records(folder) -> None:
    data = load(folder, split="test", batch_size=4)
    assert len(data) == 0
    assert [*data] == []
    assert [*load(folder, split="test", batch_size=4, shuffle=True, repeat=2)] == []
    with pytest.raises(ValueError, match="has no records in test for this host"):
        load(folder, split="test", repeat=True)


def test_what_is_cached_is_decoded_once(folder, tmp_path) -> None:
    """The files may go away after the first epoch; a file cache serves another run, too."""
    copy = tmp_path / "out"
    make_dataset(copy, {"train": rows(0)}, features=FEATURES, labels=LABELS)
    kept = load(copy, cache_decoded=True, batch_size=8)
    filed = load(copy, cache_decoded=tmp_path / "cache", batch_size=8)
    expected = numbers(kept)
    assert numbers(filed) == expected
    later = load(copy, cache_decoded=str(tmp_path / "cache"), batch_size=16)
    other = load(copy, cache_decoded=str(tmp_path / "cache"), batch_size=8, inputs="points")
    for shard in copy.glob("*.tfrecord-*"):
        shard.write_bytes(b"")
    assert numbers(kept) == numbers(filed) == numbers(later) == expected
    with pytest.raises(tf.errors.OpError):
        next(iter(other.skip(1)))


_KILLED = """
import os, signal, sys, recordmill
from recordmill.errors import ConfigError
folder, disturbed, cache = sys.argv[1:]
def load(cache):
    return recordmill.load(folder, inputs="number", cache_decoded=cache, batch_size=1)
try:
    load(disturbed)
except ConfigError as error:
    print(error, flush=True)
iterator = iter(load(cache))
next(iterator)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.long
def test_caches_of_another_process_that_writes_one_and_is_killed(tmp_path) -> None:
    """It disturbs nobody, and what it leaves can be begun anew."""
    folder = tmp_path / "out"  # of more records than are read ahead
    make_dataset(folder, {"train": rows(0, (5000,))}, features=FEATURES, labels=LABELS)
    data = load(folder, cache_decoded=tmp_path / "here", batch_size=4)
    next(iter(data))
    cache = tmp_path / "not there yet" / "cache"
    command = [sys.executable, "-c", _KILLED, folder, tmp_path / "here", cache]
    killed = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    assert "cache_decoded: another process is writing" in killed.stdout
    assert killed.returncode == -9
    assert [*cache.parent.glob("*.lockfile")]
    for _ in range(2):
        assert numbers(load(folder, cache_decoded=cache, batch_size=40)) == [*range(5000)]


def test_a_batch_in_which_nobody_has_a_value_is_like_others(tmp_path) -> None:
    several = [[row(0), row(11), row(1)]]  # 0 and 11 have no tokens
    make_dataset(tmp_path / "out", {"train": several}, features=FEATURES, labels=LABELS)
    for options in ({}, {"cache_decoded": True}):
        data = recordmill.load(tmp_path / "out", inputs="tokens", batch_size=2, **options)
        assert [x.numpy().tolist() for x, _ in data] == [[[0], [0]], [[1] * 7]]


def test_a_damaged_record_is_reported_when_it_is_read(tmp_path) -> None:
    make_dataset(tmp_path / "out", {"train": rows(0)}, features=FEATURES, labels=LABELS)
    shard = next((tmp_path / "out").glob("train.tfrecord-00002*"))
    content = bytearray(shard.read_bytes())
    content[100] ^= 255
    shard.write_bytes(content)
    with pytest.raises(tf.errors.DataLossError):
        numbers(load(tmp_path / "out"))


def test_names_of_files_that_are_not_text(tmp_path) -> None:
    folder = pathlib.Path(str(tmp_path), "odd \udcff name")
    make_dataset(folder, {"train": rows(0, (3,))}, features=FEATURES, labels=LABELS)
    assert numbers(load(folder)) == [0, 1, 2]


def test_the_end_of_an_epoch_waits_for_no_tuning(folder) -> None:
    for options in ({}, {"repeat": 2, "shuffle": True}, {"batch_size": 8, "cache_decoded": True}):
        settings = recordmill.load(folder, **options).options()
        assert settings.autotune.enabled is False  # its thread may sleep for minutes at the end
