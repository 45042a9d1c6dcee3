"""Orders of epochs: permutations, of good quality, that hosts and workers share."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.reading import epoch_order as orders
from recordmill.reading.epoch_order import (
    SHUFFLED,
    OrderLayout,
    WindowedOrder,
    epoch_order,
    host_positions,
    worker_batches,
)

LAYOUTS = st.builds(
    OrderLayout,
    shards=st.lists(st.integers(0, 60), max_size=6).map(tuple),
    record_bytes=st.sampled_from([10.0, orders.WINDOW_BYTES / 20, orders.WINDOW_BYTES / 150]),
    seekable=st.booleans(),
    salt=st.sampled_from(["", "ab"]),
)


def layout(records: int, *, record_bytes: float = 17_000, shards: int = 8, seekable: bool = True):
    ends = [records * number // shards for number in range(shards + 1)]
    counts = tuple(stop - start for start, stop in itertools.pairwise(ends))
    return OrderLayout(shards=counts, record_bytes=record_bytes, seekable=seekable, salt="ab")


def numbers(name: str, of: OrderLayout, *, seed: int = 0, epoch: int = 0) -> np.ndarray:
    return epoch_order(name, of, seed=seed, epoch=epoch).record_numbers(np.arange(of.records))


@given(
    LAYOUTS,
    st.sampled_from(["stored", *SHUFFLED]),
    st.integers(0, 2**63 - 1),
    st.integers(0, 2**40),
)
def test_an_epoch_has_each_record_once(of, name, seed, epoch) -> None:
    whole = numbers(name, of, seed=seed, epoch=epoch)
    assert sorted(whole.tolist()) == [*range(of.records)]
    # Any positions, in any order, have the records that they have in the whole epoch.
    some = np.random.default_rng(0).permutation(of.records)[: of.records // 2]
    order = epoch_order(name, of, seed=seed, epoch=epoch)
    assert order.record_numbers(some).tolist() == whole[some].tolist()


@pytest.mark.parametrize("seekable", [True, False])
@pytest.mark.parametrize("name", SHUFFLED)
def test_seeds_epochs_and_datasets_have_their_own_orders(name, seekable) -> None:
    of = layout(5000, seekable=seekable)
    other = OrderLayout(shards=of.shards, record_bytes=17_000, seekable=seekable, salt="ac")
    found = [numbers(name, of, seed=seed, epoch=epoch) for seed in (0, 1) for epoch in (0, 1, 2)]
    found.append(numbers(name, other))
    assert len({tuple(one) for one in found}) == 7
    assert numbers(name, of, seed=1, epoch=2).tolist() == found[5].tolist()
    assert numbers("stored", of).tolist() == [*range(5000)]


def test_orders_stay_the_same_in_later_versions() -> None:
    """A training run that is continued after an update has no record twice."""
    of = OrderLayout(shards=(5, 0, 7), record_bytes=orders.WINDOW_BYTES / 4, seekable=True, salt="")
    assert (of.lanes, of.block, of.windows, of.short) == (3, 1, 4, 0)
    found = {name: numbers(name, of, seed=7, epoch=1).tolist() for name in SHUFFLED}
    assert found == {
        "windowed": [1, 4, 7, 3, 11, 2, 8, 9, 5, 0, 6, 10],
        "full": [9, 8, 1, 0, 7, 11, 6, 4, 5, 2, 10, 3],
    }
    gzip = OrderLayout(shards=(5, 0, 7), record_bytes=1e7, seekable=False, salt="")
    expected = [7, 5, 6, 10, 8, 9, 11, 1, 0, 4, 3, 2]
    assert numbers("windowed", gzip, seed=7, epoch=1).tolist() == expected


@given(LAYOUTS, st.integers(0, 3))
def test_a_window_reads_whole_blocks(of, seed) -> None:
    order = WindowedOrder(of, seed=seed, epoch=0)
    windows = [order.window(number) for number in range(-(-of.records // of.window))]
    assert np.concatenate([[], *windows]).tolist() == numbers("windowed", of, seed=seed).tolist()
    for window in windows:
        runs = 1 + np.count_nonzero(np.diff(np.sort(window)) != 1)
        assert runs <= of.lanes + 1 if of.seekable else runs <= 1 + len(of.shards)


@pytest.mark.parametrize("hosts", [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 96])
def test_hosts_read_blocks_of_their_own(hosts) -> None:
    of = layout(5 * 96 * 20 + 77)
    assert (of.lanes, of.windows) == (96, 5)
    order = WindowedOrder(of, seed=0, epoch=0)
    for window in range(of.windows):
        found = order.window(window)
        parts = [np.sort(found[host::hosts]) for host in range(hosts)]
        assert {len(part) for part in parts} == {96 // hosts * of.block}
        runs = [1 + np.count_nonzero(np.diff(part) != 1) for part in parts]
        assert max(runs) <= 96 // hosts


# Blocks of 20 records move together, so there are only as many independent positions as blocks.
@pytest.mark.parametrize(
    ("name", "seekable", "together"), [("full", True, 1), ("windowed", True, 20)]
)
def test_positions_are_independent_of_the_order_on_disk(name, seekable, together) -> None:
    of = layout(20_000, seekable=seekable)
    bins, expected = 20, 20_000 / 20**2
    squares, ranks, between = [], [], []
    for seed in range(20):
        found = numbers(name, of, seed=seed)
        counts, _, _ = np.histogram2d(np.arange(20_000), found, bins=bins)
        squares.append(((counts - expected) ** 2 / expected).sum() / (bins - 1) ** 2)
        ranks.append(np.corrcoef(np.arange(20_000), found)[0, 1])
        later = np.argsort(numbers(name, of, seed=seed, epoch=1))
        between.append(np.corrcoef(np.argsort(found), later)[0, 1])
    assert 0.9 < np.mean(squares) / together < 1.1 if together == 1 else np.mean(squares) < together
    scale = (20_000 / together) ** -0.5
    for found in (ranks, between):
        assert abs(np.mean(found)) < 4 * scale / 20**0.5
        assert 0.5 * scale / together**0.5 < np.std(found) < 1.6 * scale
        assert max(map(abs, found)) < 4 * scale


@pytest.mark.parametrize("name", SHUFFLED)
def test_records_spread_evenly_over_positions(name) -> None:
    """Over the seeds, every part of the files is spread evenly over the positions."""
    of = layout(4001, record_bytes=orders.WINDOW_BYTES / 300)
    counts = np.zeros((20, 10))
    for seed in range(200):
        places = np.argsort(numbers(name, of, seed=seed))
        counts += np.histogram2d(np.arange(4001) * 20 // 4001, places, bins=(20, 10))[0]
    together = of.block if name == "windowed" else 1
    expected = counts.sum() / counts.size
    assert ((counts - expected) ** 2 / expected).sum() / 171 < 1.4 * together


def test_small_datasets_have_many_orders() -> None:
    for name in SHUFFLED:
        found = {tuple(numbers(name, layout(4, shards=1), seed=seed)) for seed in range(400)}
        assert len(found) == 24, name


def test_a_full_order_takes_no_memory() -> None:
    of = layout(10**15, shards=1000)
    order = epoch_order("full", of, seed=0, epoch=0)
    assert len({*order.record_numbers(np.arange(10**15 - 100, 10**15)).tolist()}) == 100


# --- hosts and workers


@given(
    records=st.integers(0, 200),
    stops=st.lists(st.tuples(st.integers(1, 9), st.integers(1, 7), st.integers(0, 9)), max_size=5),
)
def test_any_number_of_hosts_continues_an_epoch(records, stops) -> None:
    found: list[int] = []
    consumed = 0
    for hosts, batch, steps in [*stops, (1, 1, records)]:
        parts = [
            host_positions(records, consumed=consumed, hosts=hosts, host=host)
            for host in range(hosts)
        ]
        assert max(map(len, parts)) - min(map(len, parts)) <= 1
        for part in parts:
            found += part[: steps * batch]
        consumed = min(consumed + steps * batch * hosts, records)
        assert sorted(found) == [*range(consumed)]
    assert len(found) == records


@given(st.integers(0, 60), st.integers(1, 9), st.integers(1, 5), st.integers(0, 20))
def test_workers_take_turns(records, batch, workers, consumed) -> None:
    mine = host_positions(records, consumed=consumed, hosts=1, host=0)
    whole = [mine[at : at + batch] for at in range(0, len(mine), batch)]
    parts = [worker_batches(mine, batch=batch, workers=workers, worker=k) for k in range(workers)]
    turns = itertools.chain.from_iterable(itertools.zip_longest(*parts))
    assert [one for one in turns if one is not None] == whole
