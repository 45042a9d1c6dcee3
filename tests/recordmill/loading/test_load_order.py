"""recordmill.load has the order of all loaders, in which any number of hosts continues."""

import itertools
import pathlib
import random

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import recordmill
from recordmill.errors import ConfigError
from recordmill.loading import graph_order
from recordmill.reading import epoch_order as orders
from recordmill.reading.epoch_order import OrderLayout, epoch_order
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, make_dataset
from tests.numbered_records import ORDERS, RECORDS, SEED, use_small_windows


@pytest.fixture(scope="module")
def numbered(tmp_path_factory) -> pathlib.Path:
    """`none` and `gzip`: records in five shards of train, one of which is empty."""
    folder = tmp_path_factory.mktemp("order")
    rows = [
        Row(key=str(number), label=None, values={"number": [number], "filling": [0.0] * 20})
        for number in range(RECORDS)
    ]
    shards = [rows[:60], rows[60:61], [], rows[61:150], rows[150:]]
    features = {
        "number": Feature(dtype="int64"),
        "filling": Feature(dtype="float32", shape=(20,)),
    }
    for compression in ("none", "gzip"):
        splits = {"train": shards, "test": [rows[:3]]}
        make_dataset(folder / compression, splits, features=features, compression=compression)
    return folder


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    """Windows of six blocks, of four or five records."""
    use_small_windows(monkeypatch)


def load(folder, **options):
    return recordmill.load(folder, **{"inputs": "number", "seed": SEED} | options)


def steps(data) -> list[list[int]]:
    """The record numbers of each batch, without padding."""
    found = []
    for batch in data.as_numpy_iterator():
        weights = batch.get("sample_weight", np.ones(len(batch["number"])))
        found.append(batch["number"][weights > 0].tolist())
    return found


def whole(folder, options, epoch: int) -> list[int]:
    """The record numbers of an epoch, by the pure order."""
    records = recordmill.open(folder, "train")
    name = options.get("order", "windowed") if options else "stored"
    order = epoch_order(name, records.layout, seed=SEED, epoch=epoch)
    return order.record_numbers(np.arange(RECORDS)).tolist()


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_epochs_have_the_order_of_all_loaders(numbered, options, compression) -> None:
    folder = numbered / compression
    expected = [*itertools.chain(*(whole(folder, options, epoch) for epoch in range(3)))]
    data = load(folder, batch_size=8, repeat=3, **options)
    found = steps(data)
    assert len(found) == len(data) == 81
    assert [*itertools.chain(*found)] == expected
    one_by_one = load(folder, batch_size=50, **options)
    assert [*itertools.chain(*(itertools.chain(*steps(one_by_one)) for _ in range(3)))] == expected


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_any_number_of_hosts_continues(numbered, options, compression) -> None:
    """Interruptions over three epochs: each record comes once in each, in the order of all."""
    folder = numbered / compression
    rng = random.Random(2)
    sequence = [*itertools.chain(*(whole(folder, options, epoch) for epoch in range(8)))]
    state = None
    for hosts in (1, 3, 2, 8, 5, 1):
        size = rng.randint(3, 9)
        count = rng.randint(3, 130 // (hosts * size) + 3)
        parts = [
            steps(
                load(
                    folder,
                    batch_size=size,
                    shard=(hosts, host),
                    repeat=True,
                    start=state or 0,
                    **options,
                ).take(count)
            )
            for host in range(hosts)
        ]
        begin = state["epoch"] * RECORDS + state["records"] if state else 0
        state = recordmill.position(
            folder,
            step=count,
            global_batch=hosts * size,
            seed=SEED,
            start=state,
            shuffle=bool(options),
            order=options.get("order"),
        )
        at = begin
        for step in zip(*parts, strict=True):
            records = [*itertools.chain(*step)]
            assert sorted(records) == sorted(sequence[at : at + len(records)])
            at += len(records)
        assert at == state["epoch"] * RECORDS + state["records"]
    assert state["epoch"] >= 1


def test_hosts_have_as_many_steps_after_a_start(numbered) -> None:
    folder = numbered / "none"
    state = recordmill.position(folder, step=3, global_batch=40, seed=SEED)
    for drop in (False, True):
        found = []
        for host in range(4):
            data = load(
                folder,
                batch_size=10,
                shuffle=True,
                shard=(4, host),
                repeat=2,
                start=state,
                drop_remainder=drop,
            )
            found.append(steps(data))
            # 91 of 211 records are left: 23 for each host, one of which is padding.
            assert len(data) == len(found[-1]) == (2 + 5 if drop else 3 + 6)
        records = [[*itertools.chain(*(found[host][at] for host in range(4)))] for at in range(2)]
        expected = whole(folder, {"shuffle": True}, 0)[120:200]
        assert sorted(records[0]) == sorted(expected[:40])
        assert sorted(records[1]) == sorted(expected[40:])


def test_a_state_at_the_end_of_an_epoch_starts_the_next(numbered) -> None:
    folder = numbered / "none"
    state = recordmill.position(folder, step=0, global_batch=1, seed=SEED) | {"records": RECORDS}
    data = load(folder, batch_size=100, shuffle=True, start=state)
    assert [*itertools.chain(*steps(data))] == whole(folder, {"shuffle": True}, 1)
    # Three batches of 64 are consumed, and 19 records fill no batch.
    options = {"batch_size": 64, "shuffle": True, "drop_remainder": True}
    dropped = load(folder, **options, start=state | {"records": 192})
    assert [*itertools.chain(*steps(dropped))] == whole(folder, {"shuffle": True}, 1)[:192]


@pytest.mark.parametrize("options", [{"shuffle": True}, {"shuffle": True, "order": "full"}])
def test_a_checkpoint_continues_in_later_epochs(numbered, tmp_path, options) -> None:
    options = {"batch_size": 50, "repeat": 3, **options}
    iterator = iter(load(numbered / "none", **options))
    for _ in range(4):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "point"))
    again = iter(load(numbered / "none", **options))
    tf.train.Checkpoint(iterator=again).restore(path)
    found = [*itertools.chain(*(batch["number"].numpy().tolist() for batch in again))]
    epochs = [whole(numbered / "none", options, epoch) for epoch in range(3)]
    assert found == [*itertools.chain(*epochs)][200:]


@pytest.mark.parametrize(
    ("options", "change", "message"),
    [
        ({"shuffle": True}, {"seed": 8}, "made with seed 8, but here it is 7"),
        ({"shuffle": True, "order": "full"}, {}, "made with order 'windowed', but here it is"),
        ({}, {}, "made with order 'windowed', but here it is 'stored'"),
        ({"shuffle": True}, {"digest": "0"}, "made with digest '0', but here it is"),
        (
            {"shuffle": True, "cache_decoded": True},
            {},
            "start: a shuffled cache_decoded has an order of its own",
        ),
        ({"shuffle": True}, {"records": 8}, "start: 8 of 211 records is within an epoch; set rep"),
        ({"shuffle": True, "repeat": 2}, {"epoch": 2}, "is after the end of 2 epochs"),
    ],
)
def test_states_that_cannot_be_continued(numbered, options, change, message) -> None:
    state = recordmill.position(numbered / "none", step=0, global_batch=8, seed=SEED) | change
    with pytest.raises(ConfigError, match=message):
        load(numbered / "none", **options, start=state)


def test_a_shard_that_ends_early_is_no_shorter_epoch(tmp_path) -> None:
    rows = [Row(key=str(n), label=None, values={"number": [n]}) for n in range(40)]
    make_dataset(tmp_path / "out", {"train": [rows]}, features={"number": Feature(dtype="int64")})
    data = load(tmp_path / "out", batch_size=8, shuffle=True)
    (shard,) = (tmp_path / "out").glob("train.tfrecord-*")
    content = shard.read_bytes()
    shard.write_bytes(content[: len(content) // 2])  # between two records
    with pytest.raises(tf.errors.OpError):
        steps(data)


# --- the same numbers as NumPy's


@settings(max_examples=20, deadline=None)
@given(records=st.integers(1, 10**15), seed=st.integers(0, 2**63 - 1), epoch=st.integers(0, 2**40))
def test_graphs_have_the_numbers_of_numpy(records, seed, epoch) -> None:
    layout = OrderLayout(shards=(records,), record_bytes=1, seekable=True, salt="a")
    keys = graph_order.epoch_keys(layout.seed_key(seed), tf.constant(epoch, tf.int64))
    for domain, key in enumerate(keys):
        expected = orders.epoch_key(layout.seed_key(seed), epoch, domain)
        assert int(key.numpy()) == int(expected[0])
    positions = np.unique(np.linspace(0, records - 1, 5).astype(np.int64))
    full = epoch_order("full", layout, seed=seed, epoch=epoch).record_numbers(positions)
    found = graph_order.full_order(records, keys, tf.constant(positions))
    assert found.numpy().tolist() == full.tolist()
    rows = np.arange(24).reshape(2, 12) + seed % 1000
    places = graph_order.hash_order(keys[orders.RECORDS], tf.constant(rows)).numpy()
    key = orders.epoch_key(layout.seed_key(seed), epoch, orders.RECORDS)
    assert np.take_along_axis(rows, places, 1).tolist() == orders.shuffle(key, rows).tolist()
