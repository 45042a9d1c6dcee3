"""torch_dataset has one order, in which any number of hosts and workers continues."""

import collections
import itertools
import json
import random

import numpy as np
import pytest
from torch.utils.data import DataLoader

import recordmill
from recordmill.errors import ConfigError
from recordmill.reading.epoch_order import epoch_order
from tests.numbered_records import (
    ORDERS,
    RECORDS,
    SEED,
    in_both_compressions,
    number_of,
    use_small_windows,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    """`none` and `gzip`: records in five shards of train, one of which is empty."""
    return in_both_compressions(tmp_path_factory.mktemp("resumed"))


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    """Windows of six blocks, of four or five records."""
    use_small_windows(monkeypatch)


def dataset(folder, **options):
    options = {"seed": SEED, "transform": number_of} | options
    return recordmill.torch_dataset(folder, "train", **options)


def batches(data, *, workers: int = 0, epoch: int | None = None) -> list[list[int]]:
    if epoch is not None:
        data.set_epoch(epoch)
    return [batch.tolist() for batch in DataLoader(data, batch_size=None, num_workers=workers)]


def whole(folder, options, epoch: int) -> list[int]:
    """The record numbers of an epoch, by the pure order."""
    records = recordmill.open(folder, "train")
    name = options.get("order", "windowed") if options else "stored"
    order = epoch_order(name, records.layout, seed=SEED, epoch=epoch)
    return order.record_numbers(np.arange(RECORDS)).tolist()


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_workers_and_batches_do_not_change_the_order(numbered, options, compression) -> None:
    folder = numbered / compression
    expected = whole(folder, options, 3)
    for workers in range(5):
        found = batches(dataset(folder, batch_size=8, **options), workers=workers, epoch=3)
        assert [len(batch) for batch in found] == [8] * 26 + [3]
        assert [*itertools.chain(*found)] == expected, workers
        single = dataset(folder, **options)
        single.set_epoch(3)
        loader = DataLoader(single, batch_size=None, num_workers=workers)
        assert [*loader] == expected, workers
    dropped = dataset(folder, batch_size=8, drop_remainder=True, **options)
    assert len(dropped) == 26
    assert [*itertools.chain(*batches(dropped, workers=3, epoch=3))] == expected[:208]


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_hosts_share_each_global_batch(numbered, options, compression) -> None:
    folder = numbered / compression
    expected = whole(folder, options, 0)
    for hosts in (2, 3, 5):
        parts = [
            batches(dataset(folder, batch_size=4, shard=(hosts, host), **options), workers=host % 3)
            for host in range(hosts)
        ]
        at = 0
        for step in itertools.zip_longest(*parts, fillvalue=()):
            records = [*itertools.chain(*step)]
            assert sorted(records) == sorted(expected[at : at + len(records)])
            at += len(records)
        assert at == RECORDS


@pytest.mark.parametrize("consumed", [0, 2])
@pytest.mark.parametrize("hosts", [2, 3])
def test_without_the_remainder_hosts_have_as_many_batches(numbered, hosts, consumed) -> None:
    """A batch of one host alone would wait for the others for ever."""
    folder, size = numbered / "none", 53
    start = recordmill.position(folder, step=consumed, global_batch=1, seed=SEED)
    parts = [
        dataset(
            folder, batch_size=size, shard=(hosts, host), shuffle=True, drop_remainder=True,
            start=start,
        )
        for host in range(hosts)
    ]  # fmt: skip
    steps = (RECORDS - consumed) // (hosts * size)
    assert steps == 1
    found = [batches(part) for part in parts]
    assert [[len(batch) for batch in part] for part in found] == [[size]] * hosts
    assert {len(part) for part in parts} == {RECORDS // (hosts * size)}
    records = [*itertools.chain(*itertools.chain(*found))]
    expected = whole(folder, {"shuffle": True}, 0)[consumed : consumed + hosts * size]
    assert sorted(records) == sorted(expected)


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_any_number_of_hosts_and_workers_continues(numbered, options, compression) -> None:
    """Ten interruptions over three epochs: each record comes once in each epoch."""
    folder = numbered / compression
    rng = random.Random(1)
    state, seen = None, collections.defaultdict(list)
    for _ in range(10):
        hosts, workers, size = rng.choice((1, 2, 3, 5)), rng.choice((0, 1, 2)), rng.randint(1, 9)
        steps = rng.randint(1, max(1, 2 * RECORDS // 7 // (hosts * size)))
        states = []
        for host in range(hosts):
            data = dataset(folder, batch_size=size, shard=(hosts, host), start=state, **options)
            epoch, left = data.epoch, steps
            while left:
                data.set_epoch(epoch)
                loader = DataLoader(data, batch_size=None, num_workers=workers)
                found = [batch.tolist() for batch in itertools.islice(loader, left)]
                seen[epoch] += [*itertools.chain(*found)]
                # An epoch ends after as many steps on the host that has the most records.
                begun = state["records"] if state and state["epoch"] == epoch else 0
                left -= min(left, -(-(RECORDS - begun) // (hosts * size)))
                epoch += 1
            if workers == 0:
                states.append(data.state_dict())
        state = recordmill.position(
            folder,
            step=steps,
            global_batch=hosts * size,
            seed=SEED,
            start=state,
            shuffle=bool(options),
            order=options.get("order"),
        )
        if hosts == 1 and state["records"]:
            assert states in ([], [state])
        state = json.loads(json.dumps(state))
        for epoch in seen:
            done = RECORDS if epoch < state["epoch"] else state["records"]
            assert sorted(seen[epoch]) == sorted(whole(folder, options, epoch)[:done])
    assert len(seen) >= 2


def test_states_of_single_records(numbered) -> None:
    data = dataset(numbered / "none", shuffle=True)
    expected = whole(numbered / "none", {"shuffle": True}, 2)
    data.set_epoch(2)
    assert data.state_dict()["records"] == 0
    found = [*itertools.islice(data, 50)]
    state = data.state_dict()
    assert {name: state[name] for name in ("epoch", "records", "seed", "order", "split")} == {
        "epoch": 2,
        "records": 50,
        "seed": SEED,
        "order": "windowed",
        "split": "train",
    }
    assert state["digest"] == recordmill.open(numbered / "none").manifest.digest
    other = dataset(numbered / "none", shuffle=True)
    other.load_state_dict(state)
    assert other.state_dict() == state
    assert other.epoch == 2
    rest = [*other]
    assert found + rest == expected
    assert other.state_dict() == state | {"records": RECORDS}
    other.set_epoch(3)
    assert [*other] == whole(numbered / "none", {"shuffle": True}, 3)


@pytest.mark.parametrize("workers", [0, 2])
def test_a_continued_epoch_is_not_repeated_in_silence(numbered, workers) -> None:
    folder = numbered / "none"
    state = recordmill.position(folder, step=3, global_batch=50, seed=SEED)
    data = dataset(folder, shuffle=True, batch_size=50, start=state)
    loader = DataLoader(data, batch_size=None, num_workers=workers)
    assert [len(batch) for batch in loader] == [50, 11]
    with pytest.raises(ConfigError, match="epoch 0 was already continued after 150 records: call"):
        next(iter(loader))
    data.set_epoch(1)
    assert [len(batch) for batch in loader] == [50, 50, 50, 50, 11]
    data.load_state_dict(state)
    assert [len(batch) for batch in loader] == [50, 11]


def test_states_of_workers_are_refused(numbered) -> None:
    data = dataset(numbered / "none", shuffle=True, batch_size=8)
    next(iter(DataLoader(data, batch_size=None, num_workers=2)))
    with pytest.raises(ConfigError, match="state_dict: the workers of a DataLoader read ahead"):
        data.state_dict()
    next(iter(data))
    assert data.state_dict()["records"] == 8


@pytest.mark.parametrize("workers", [0, 1, 3])
@pytest.mark.parametrize("steps", [1, 7, 26, 27])
def test_a_stateful_data_loader_continues(numbered, workers, steps) -> None:
    from torchdata.stateful_dataloader import StatefulDataLoader

    def loader():
        data = dataset(numbered / "none", shuffle=True, batch_size=8)
        data.set_epoch(4)
        return StatefulDataLoader(data, batch_size=None, num_workers=workers)

    first = loader()
    iterator = iter(first)
    found = [next(iterator).tolist() for _ in range(steps)]
    state = first.state_dict()
    again = loader()
    again.load_state_dict(state)
    rest = [batch.tolist() for batch in again]
    expected = whole(numbered / "none", {"shuffle": True}, 4)
    assert [*itertools.chain(*found, *rest)] == expected


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"seed": 8}, "start: the state was made with seed 8, but here it is 7: a run can only"),
        ({"digest": "ab"}, "start: the state was made with digest 'ab', but here it is '"),
        ({"order": "full"}, "made with order 'full', but here it is 'windowed'"),
        ({"split": None}, "made with split None, but here it is 'train'"),
        ({"records": RECORDS + 1}, "start\\['records'\\]: expected 0 to 211, got 212"),
        ({"epoch": -1}, "start\\['epoch'\\]: expected 0 to 2147483647, got -1"),
        ({"epoch": "1"}, "start\\['epoch'\\]: expected a whole number, got '1'"),
    ],
)
def test_states_of_other_runs_are_refused(numbered, change, message) -> None:
    state = recordmill.position(numbered / "none", step=1, global_batch=8, seed=SEED)
    with pytest.raises(ConfigError, match=message):
        dataset(numbered / "none", shuffle=True, start=state | change)
    with pytest.raises(ConfigError, match="expected a state with digest, epoch, filter"):
        dataset(numbered / "none", shuffle=True, start={"epoch": 1, "records": 8})
    ended = dataset(numbered / "none", shuffle=True, start=state | {"records": RECORDS})
    assert [*ended] == []


def test_gzip_is_not_read_at_random(numbered) -> None:
    with pytest.raises(ConfigError, match="order: 'full' reads single records, and a gzip shard"):
        dataset(numbered / "gzip", shuffle=True, order="full")
