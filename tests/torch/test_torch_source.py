"""torch_source with samplers: the order of torch_dataset, for map-style datasets."""

import itertools

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler, RandomSampler, default_collate

import recordmill
from recordmill.errors import ConfigError
from tests.make_dataset import make_dataset
from tests.numbered_records import RECORDS, SEED, number_of, numbered_dataset, use_small_windows

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    return numbered_dataset(tmp_path_factory.mktemp("numbered") / "out")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    """Windows of six blocks, of four or five records."""
    use_small_windows(monkeypatch)


def source(folder, **options):
    return recordmill.torch_source(
        folder, "train", **{"shuffle": True, "seed": SEED, "transform": number_of} | options
    )


def epoch_of(folder, epoch: int, **options) -> list[int]:
    data = recordmill.torch_dataset(
        folder, "train", shuffle=True, seed=SEED, transform=number_of, **options
    )
    data.set_epoch(epoch)
    return [*data]


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("hosts", [1, 2, 3, 5])
def test_a_distributed_sampler_has_the_order(numbered, hosts, workers) -> None:
    data = source(numbered)
    for epoch in (0, 4):
        data.set_epoch(epoch)
        parts = []
        for host in range(hosts):
            sampler = DistributedSampler(
                data, num_replicas=hosts, rank=host, shuffle=False, drop_last=True
            )
            loader = DataLoader(data, batch_size=8, sampler=sampler, num_workers=workers)
            parts.append([int(number) for batch in loader for number in batch])
        found = [*itertools.chain(*zip(*parts, strict=True))]
        assert found == epoch_of(numbered, epoch)[: RECORDS // hosts * hosts]


@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_persistent_workers_see_the_epoch(numbered, context) -> None:
    data = source(numbered, order="full")
    loader = DataLoader(
        data, batch_size=10, num_workers=2, persistent_workers=True, multiprocessing_context=context
    )
    for epoch in (0, 1, 5):
        data.set_epoch(epoch)
        found = [int(number) for batch in loader for number in batch]
        assert found == epoch_of(numbered, epoch, order="full")


def test_it_continues_another_run(numbered) -> None:
    state = recordmill.position(numbered, step=4, global_batch=25, seed=SEED, start=None)
    data = source(numbered, start=state)
    assert len(data) == RECORDS - 100
    assert data[:] == epoch_of(numbered, 0)[100:]
    assert data.state(11) == state | {"records": 111}
    assert data.state(111) == state | {"epoch": 1, "records": 0}
    data.set_epoch(0)
    with pytest.raises(ConfigError, match=r"the rest of epoch 0, and .* then call set_epoch.1."):
        data.set_epoch(1)  # the sampler would leave out 100 records
    data = source(numbered)
    data.set_epoch(1)
    assert data[:] == epoch_of(numbered, 1)
    later = source(numbered, start=data.state(30))
    assert later.epoch == 1
    assert later[:] == epoch_of(numbered, 1)[30:]
    with pytest.raises(ConfigError, match="epoch: expected 0 to 2147483647, got -1"):
        data.set_epoch(-1)


def test_a_sampler_that_shuffles(numbered) -> None:
    data = recordmill.torch_source(numbered, "train", features=["number"])
    sampler = RandomSampler(data, generator=torch.Generator().manual_seed(3))
    found = [number for batch in DataLoader(data, 8, sampler=sampler) for number in batch["number"]]
    assert found != sorted(found)
    assert sorted(map(int, found)) == [*range(RECORDS)]


def test_default_collate_takes_it(tmp_path) -> None:
    make_dataset(tmp_path / "out")
    data = recordmill.torch_source(tmp_path / "out", "train", features=["grid", "caption"])
    assert default_collate([data[0]])["grid"].shape == (1, 2, 2)
    assert isinstance(data[0]["caption"], list)
    assert isinstance(recordmill.open(tmp_path / "out", "train")[0]["caption"], np.ndarray)
