"""Every record is read by one worker of one host, and orders are reproducible."""

import itertools
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

import recordmill
from recordmill.reading.worker_sharding import even_part, shuffled, shuffled_blocks, slice_ranges
from tests.make_dataset import make_dataset


@given(
    records=st.integers(0, 300),
    hosts=st.integers(1, 8),
    workers=st.integers(1, 8),
    size=st.integers(1, 50),
    seed=st.integers(0, 3),
)
def test_every_record_is_read_by_one_worker(records, hosts, workers, size, seed) -> None:
    found = []
    for host in range(hosts):
        mine = even_part(range(records), hosts, host)
        blocks = [mine[at : at + size] for at in range(0, len(mine), size)]
        for order in ([mine], shuffled_blocks(blocks, seed=seed, epoch=5)):
            parts = [
                slice_ranges(order, even_part(range(len(mine)), workers, n)) for n in range(workers)
            ]
            numbers = [[number for one in part for number in one] for part in parts]
            assert sorted(itertools.chain(*numbers)) == [*mine]
        found += numbers
    sizes = [len(one) for one in found]
    assert max(sizes) - min(sizes) <= 1
    assert sorted(itertools.chain(*found)) == [*range(records)]


@given(st.integers(0, 200), st.integers(1, 50))
def test_shuffling_returns_all_items(count, size) -> None:
    def order(**how: int) -> list[int]:
        return list(
            shuffled(iter(range(count)), size, **({"seed": 1, "epoch": 2, "worker": 3} | how))
        )

    assert sorted(order()) == [*range(count)]
    assert order() == order()
    # None comes before it is held.
    assert all(number < place + size for place, number in enumerate(order()))
    if count > 50 and size > 5:
        assert (
            len({tuple(order(**how)) for how in ({}, {"seed": 2}, {"epoch": 1}, {"worker": 1})})
            == 4
        )


def test_blocks_have_another_order_in_every_epoch() -> None:
    blocks = [range(at, at + 3) for at in range(0, 60, 3)]
    orders = [tuple(shuffled_blocks(blocks, seed=seed, epoch=1)) for seed in range(5)]
    orders += [tuple(shuffled_blocks(blocks, seed=0, epoch=epoch)) for epoch in range(5)]
    assert len(set(orders)) == 9
    assert shuffled_blocks(blocks, seed=0, epoch=1) == [*orders[0]]
    assert {frozenset(order) for order in orders} == {frozenset(blocks)}


@pytest.mark.parametrize(
    ("compression", "part", "expected"),
    [
        ("none", range(0, 8), [range(0, 3), range(3, 6), range(6, 8)]),
        ("none", range(1, 5), [range(1, 4), range(4, 5)]),
        ("none", range(4, 4), []),
        ("gzip", range(0, 8), [range(0, 3), range(3, 6), range(6, 8)]),
        ("gzip", range(1, 5), [range(1, 3), range(3, 5)]),
    ],
)
def test_blocks_of_records(compression, part, expected, tmp_path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    records = recordmill.open(tmp_path / "out")
    assert records.blocks(part, size=3) == expected
    assert records.blocks(part, size=100) == (
        expected if compression == "gzip" else [part] * bool(part)
    )
    size = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord-*"))
    assert records.mean_bytes == size / 8


def test_without_pytorch_the_message_says_what_there_is(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "recordmill.reading.torch_records", raising=False)
    with pytest.raises(ModuleNotFoundError, match="install torch; recordmill"):
        recordmill.torch_dataset("out")
