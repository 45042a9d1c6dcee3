"""Decode in PyTorch and Grain: batches of the same images by each loader."""

import grain
import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, DistributedSampler

import recordmill
from recordmill.reading.loading_speed import LoadingTask, installed, measure
from tests.reading_page import pictures_dataset

RECORDS = 70
DECODE = recordmill.Decode(image_size=(8, 6), augment="flip,crop,contrast", normalize="unit")
OPTIONS = {"shuffle": True, "order": "full", "seed": 7, "transform": DECODE}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures") / "out"
    pictures_dataset(folder, records=RECORDS)
    return folder


@pytest.fixture(scope="module")
def wanted(folder):
    """The batches of two epochs, as recordmill.load has them on one host."""
    data = recordmill.load(
        folder, batch_size=8, shuffle=True, order="full", seed=7, repeat=2, image_size=(8, 6),
        augment="flip,crop,contrast", normalize="unit",
    )  # fmt: skip
    return [*data.as_numpy_iterator()]


def expect_equal(found, wanted) -> None:
    assert len(found) == len(wanted)
    for (images, labels), (other_images, other_labels) in zip(found, wanted, strict=True):
        assert np.asarray(images).dtype == np.float32
        np.testing.assert_allclose(images, other_images, atol=3 / 255)
        np.testing.assert_array_equal(labels, other_labels)


@pytest.mark.parametrize("workers", [0, 2])
def test_torch_has_the_batches_of_load(folder, wanted, workers) -> None:
    data = recordmill.torch_dataset(folder, "train", batch_size=8, **OPTIONS)
    found = []
    for epoch in range(2):
        data.set_epoch(epoch)
        found += [*DataLoader(data, batch_size=None, num_workers=workers)]
    assert isinstance(found[0][0], torch.Tensor)
    expect_equal(found, wanted)


def test_samplers_have_the_batches_of_load(folder, wanted) -> None:
    data = recordmill.torch_source(folder, "train", **OPTIONS)
    sampler = DistributedSampler(data, num_replicas=1, rank=0, shuffle=False)
    found = []
    for epoch in range(2):
        data.set_epoch(epoch)
        found += [*DataLoader(data, batch_size=8, sampler=sampler, num_workers=2)]
    expect_equal(found, wanted)


def test_grain_has_the_batches_of_load(folder, wanted) -> None:
    found = []
    for epoch in range(2):
        start = recordmill.position(folder, step=epoch, global_batch=RECORDS, order="full", seed=7)
        source = recordmill.grain_source(folder, "train", epochs=epoch + 1, start=start, **OPTIONS)
        data = grain.MapDataset.source(source).batch(8).to_iter_dataset()
        found += [*data.mp_prefetch(grain.MultiprocessingOptions(num_workers=1))]
    expect_equal(found, wanted)


@pytest.mark.parametrize("workers", [0, 1])
def test_bench_load_measures_torch(folder, workers) -> None:
    task = LoadingTask(
        dataset=str(folder), split="train", batch_size=8, image_size=None, seconds=1e-6
    )
    assert "torch_dataset" in installed()
    assert measure("torch_dataset", workers, task).records >= 8
