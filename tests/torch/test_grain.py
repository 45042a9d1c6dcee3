"""With Grain itself: grain_source has the order of torch_dataset, on any number of hosts."""

import itertools
import json
import random

import grain
import numpy as np
import pytest
from torch.utils.data import DataLoader

import recordmill
from tests.numbered_records import (
    RECORDS,
    SEED,
    number_of,
    numbered_dataset,
    numbers_of_epochs,
    use_small_windows,
)
from tests.reading_page import pictures_dataset, python_of

EPOCHS = 3
FULL = {"shuffle": True, "order": "full"}  # spawned workers have no small windows
HOSTS = (1, 2, 3, 5, 8)
ORDERS = [
    pytest.param({"shuffle": True}, id="windowed"),
    pytest.param({"shuffle": True, "order": "full"}, id="full"),
    pytest.param({}, id="stored"),
]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    return numbered_dataset(tmp_path_factory.mktemp("numbered") / "out")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    """Windows of six blocks, of four or five records."""
    use_small_windows(monkeypatch)


def source(folder, options, **others):
    return recordmill.grain_source(
        folder, "train", seed=SEED, epochs=EPOCHS, transform=number_of, **options, **others
    )


def together(parts) -> list[int]:
    """The items of several hosts, which take turns."""
    rounds = itertools.zip_longest(*parts)
    return [int(item) for item in itertools.chain(*rounds) if item is not None]


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("hosts", HOSTS)
def test_hosts_share_the_order(numbered, hosts, options) -> None:
    records = source(numbered, options)
    wanted = numbers_of_epochs(numbered, options, EPOCHS)
    data = grain.MapDataset.source(records)
    assert len(data) == EPOCHS * RECORDS
    parts = [data[host::hosts] for host in range(hosts)]
    assert together(parts) == wanted
    threads = grain.ReadOptions(num_threads=4, prefetch_buffer_size=16)
    assert together([part.to_iter_dataset(threads) for part in parts]) == wanted
    batches = [[*part.batch(4, drop_remainder=True)] for part in parts]
    for step, several in enumerate(zip(*batches, strict=False)):
        at = step * 4 * hosts
        assert sorted(np.concatenate(several)) == sorted(wanted[at : at + 4 * hosts])
    loaders = [
        grain.DataLoader(
            data_source=records,
            sampler=grain.samplers.SequentialSampler(len(records)),
            shard_options=grain.sharding.ShardOptions(host, hosts),
        )
        for host in range(hosts)
    ]
    assert together(loaders) == wanted[: len(wanted) // hosts * hosts]


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_processes_share_the_order(numbered, workers) -> None:
    records, wanted = source(numbered, FULL), numbers_of_epochs(numbered, FULL, EPOCHS)
    parts = [
        grain.MapDataset.source(records)[host::2]
        .batch(8, drop_remainder=True)
        .to_iter_dataset()
        .mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
        for host in range(2)
    ]
    several = [np.concatenate([*part]).tolist() for part in parts]
    assert together(several) == wanted[: len(wanted) // 16 * 16]
    loader = grain.DataLoader(
        data_source=records,
        sampler=grain.samplers.SequentialSampler(len(records)),
        operations=[grain.transforms.Batch(8)],
        worker_count=workers,
    )
    # Without a remainder, as each worker makes batches of its own records.
    assert sorted(np.concatenate([*itertools.islice(loader, 50)]).tolist()) == sorted(wanted[:400])


def test_batches_are_read_together(numbered, monkeypatch) -> None:
    """Grain asks for the items of a batch at once, if told to."""
    monkeypatch.setattr(
        "grain._src.python.dataset.transformations.batch._is_batch_map_pushdown_experiment_enabled",
        lambda: True,
    )
    records = source(numbered, {"shuffle": True})
    calls = []
    monkeypatch.setattr(
        records, "_getitems", lambda indices: calls.append(indices) or [*map(int, indices)]
    )
    assert grain.MapDataset.source(records)[1::2].batch(4)[1].tolist() == [9, 11, 13, 15]
    assert calls == [[9, 11, 13, 15]]


@pytest.mark.parametrize("workers", [0, 2])
def test_the_state_of_an_iterator_continues(numbered, workers) -> None:
    def iterator():
        data = grain.MapDataset.source(source(numbered, FULL)).batch(8)
        data = data.to_iter_dataset()
        if workers:
            data = data.mp_prefetch(grain.MultiprocessingOptions(num_workers=workers))
        return iter(data)

    first = iterator()
    found = [next(first) for _ in range(11)]
    state = json.loads(json.dumps(first.get_state()))
    again = iterator()
    again.set_state(state)
    items = np.concatenate([*found, *again]).tolist()
    assert items == numbers_of_epochs(numbered, FULL, EPOCHS)


def test_the_state_of_a_data_loader_belongs_to_its_source(numbered) -> None:
    def loader(options):
        records = source(numbered, options)
        sampler = grain.samplers.SequentialSampler(len(records))
        return grain.DataLoader(data_source=records, sampler=sampler)

    iterator = iter(loader({"shuffle": True}))
    found = [int(next(iterator)) for _ in range(300)]
    state = iterator.get_state()
    again = iter(loader({"shuffle": True}))
    again.set_state(state)
    assert [*found, *map(int, again)] == numbers_of_epochs(numbered, {"shuffle": True}, EPOCHS)
    other = iter(loader(FULL))
    with pytest.raises(ValueError, match="DataSource in checkpoint does not match"):
        other.set_state(state)


@pytest.mark.parametrize("options", ORDERS)
def test_any_number_of_hosts_continues_in_grain_and_torch(numbered, options) -> None:
    """Ten interruptions over three epochs, at each of which the loader may change."""
    rng = random.Random(3)
    wanted, found, state, loaders = numbers_of_epochs(numbered, options, EPOCHS), [], None, set()
    shuffled = {"shuffle": bool(options), "order": options.get("order"), "seed": SEED}
    while len(found) < len(wanted):
        hosts, size = rng.choice(HOSTS), rng.randint(1, 6)
        records = source(numbered, options, start=state)
        left = RECORDS - (state["records"] if state else 0)
        loader = rng.choice(("grain", "torch")) if left >= hosts * size else "grain"
        loaders.add(loader)
        steps = rng.randint(1, max(1, 60 // (hosts * size)))
        if loader == "grain":
            batches = [
                [
                    *itertools.islice(
                        grain.MapDataset.source(records)[host::hosts].batch(size), steps
                    )
                ]
                for host in range(hosts)
            ]
            state = records.state(min(steps * hosts * size, len(records)))
        else:
            steps = min(steps, left // (hosts * size))
            several = [
                recordmill.torch_dataset(
                    numbered, "train", batch_size=size, shard=(hosts, host), start=state,
                    transform=number_of, **shuffled,
                )
                for host in range(hosts)
            ]  # fmt: skip
            batches = [
                [*itertools.islice(DataLoader(one, batch_size=None), steps)] for one in several
            ]
            state = recordmill.position(
                numbered, step=steps, global_batch=hosts * size, start=state, **shuffled
            )
        items = [int(item) for several in batches for batch in several for item in batch]
        assert sorted(items) == sorted(wanted[len(found) : len(found) + len(items)])
        found += items
        state = json.loads(json.dumps(state))
        if len(found) < len(wanted):
            assert (state["epoch"], state["records"]) == divmod(len(found), RECORDS)
    assert loaders == {"grain", "torch"}


def test_load_continues_what_grain_began(numbered) -> None:
    records = source(numbered, {"shuffle": True})
    state = records.state(2 * 5 * 8)
    data = recordmill.load(
        numbered, batch_size=7, shuffle=True, seed=SEED, repeat=EPOCHS, start=state,
        inputs="number",
    )  # fmt: skip
    found = [int(number) for batch in data for number in batch["number"].numpy()]
    assert found == numbers_of_epochs(numbered, {"shuffle": True}, EPOCHS)[80:]


def test_seeds_of_transformations_differ_between_epochs(numbered) -> None:
    """Items have numbers of their own in every epoch, unlike with Grain's `repeat`."""
    data = (
        grain.MapDataset.source(source(numbered, {}))
        .seed(1)
        .random_map(lambda item, rng: (item, int(rng.integers(1 << 30))))
    )
    drawn = {data[5 + epoch * RECORDS] for epoch in range(EPOCHS)}
    assert {item for item, _ in drawn} == {5}
    assert len(drawn) == EPOCHS


def test_the_example_of_the_page_on_resuming_runs(tmp_path, monkeypatch) -> None:
    pictures_dataset(tmp_path / "out", records=6500)
    monkeypatch.chdir(tmp_path)
    made, _, _, continued, *_ = python_of("resume.md")
    namespace: dict = {}
    exec(made, namespace)
    exec(continued, namespace)
    steps = (2 * 6500 - 6400) // (4 * 16)
    assert namespace["step"] == steps - 1
    place = divmod(6400 + steps * 4 * 16, 6500)
    assert (namespace["state"]["epoch"], namespace["state"]["records"]) == place
