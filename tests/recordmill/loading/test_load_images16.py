"""Images with 16 bits per channel by recordmill.load, compared with NumPy."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import recordmill
from recordmill.loading.options import AUGMENTATIONS
from recordmill.tfrecord.features import Feature
from tests.images16 import png16, waves
from tests.make_dataset import Row, make_dataset


def write(folder: pathlib.Path, kind: str, pixels: np.ndarray) -> pathlib.Path:
    """Write a dataset of two records with the same image, as PNG or as raw pixels."""
    stored = png16(pixels) if kind == "image" else pixels.astype("<u2").tobytes()
    declared = Feature(dtype="string", kind=kind, raw_dtype="uint16", raw_shape=pixels.shape)
    features = {"picture": declared, "label": Feature(dtype="int64", kind="label")}
    values = {"picture": [stored], "label": [0]}
    rows = [Row(key=key, label="a", values=values) for key in "ab"]
    make_dataset(folder, {"train": [rows]}, features=features, labels=("a",))
    return folder


def loaded(folder: pathlib.Path, **options: object) -> np.ndarray:
    (batch,) = [x for x, _ in recordmill.load(folder, **{"batch_size": 2} | options)]
    assert isinstance(batch, tf.Tensor)
    return batch.numpy()


@pytest.mark.parametrize("kind", ["image", "raw"])
@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_keep_16_bits(kind, channels, tmp_path) -> None:
    pixels = waves(channels=channels)
    folder = write(tmp_path / "out", kind, pixels)
    found = loaded(folder)
    assert found.dtype == np.uint16
    np.testing.assert_array_equal(found, [pixels] * 2)
    singly = [x.numpy() for x, _ in recordmill.load(folder, cache_decoded=True)]
    np.testing.assert_array_equal(singly, [pixels] * 2)
    varied = loaded(folder, augment=AUGMENTATIONS)
    assert varied.shape == found.shape
    assert varied.dtype == np.uint16
    assert varied.max() > 20_000, "the range is that of 16 bits"


def test_floats_are_scaled_by_65535(tmp_path) -> None:
    folder = write(tmp_path / "out", "image", waves())
    np.testing.assert_allclose(loaded(folder, normalize="unit")[0], waves() / 65535, atol=1e-6)
    signed = loaded(folder, normalize="signed")[0]
    np.testing.assert_allclose(signed, waves() / 32767.5 - 1, atol=1e-6)


def test_brightness_multiplies_all_levels(tmp_path) -> None:
    pixels = waves(channels=1)
    found = loaded(write(tmp_path / "out", "raw", pixels), augment="brightness")[0].astype(float)
    inside = (found > 1000) & (found < 65535)
    factors = found[inside] / pixels[inside]
    assert np.ptp(factors) < 1e-2
    assert abs(factors.mean() - 1) > 1e-3


def test_resize_keeps_levels_between_those_of_8_bits(tmp_path) -> None:
    pixels = np.full((8, 8, 3), 1000, np.uint16)
    pixels[::2] = 1100
    small = loaded(write(tmp_path / "out", "image", pixels), image_size=4)
    assert small.dtype == np.uint16
    assert np.abs(small[:, 1:-1].astype(int) - 1050).max() <= 1
