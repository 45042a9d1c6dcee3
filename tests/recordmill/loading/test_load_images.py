"""Pictures by recordmill.load: decoded, resized, varied, normalised."""

import io
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

import recordmill
from recordmill.loading import images
from recordmill.loading.options import AUGMENTATIONS
from recordmill.tfrecord.features import Feature
from recordmill.transforms.imaging import augment as when_written
from recordmill.transforms.model.generators import generator_for
from tests.make_dataset import Row, make_dataset

SIDE = 48
COPIES = 12
_GENERATOR = np.random.default_rng(1)


def smooth() -> np.ndarray:
    """A picture of colours that change slowly, without black."""
    x, y = np.meshgrid(np.linspace(0, 1, SIDE), np.linspace(0, 1, SIDE))
    return np.stack([80 + 120 * x, 90 + 100 * y, 100 + 90 * (1 - x)], -1).astype(np.uint8)


def png(pixels: np.ndarray) -> bytes:
    out = io.BytesIO()
    Image.fromarray(pixels.squeeze()).save(out, "PNG")
    return out.getvalue()


def write(folder: pathlib.Path, several: list[np.ndarray], **feature: object) -> pathlib.Path:
    height, width, channels = several[0].shape
    declared = Feature(
        dtype="string",
        **{"kind": "image", "raw_dtype": "uint8", "raw_shape": (height, width, channels)} | feature,
    )
    features = {"picture": declared, "label": Feature(dtype="int64", kind="label")}
    is_raw = declared.kind == "raw"
    rows = [
        Row(
            key=str(number),
            label="a",
            values={"picture": [one.tobytes() if is_raw else png(one)], "label": [0]},
        )
        for number, one in enumerate(several)
    ]
    make_dataset(folder, {"train": [rows], "validation": [rows]}, features=features, labels=("a",))
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    return write(tmp_path_factory.mktemp("pictures") / "out", [smooth()] * COPIES)


def loaded(folder, **options) -> np.ndarray:
    batches = recordmill.load(folder, **{"batch_size": 5} | options)
    return np.concatenate([x.numpy() for x, *_ in batches])


def test_pixels_are_those_that_were_written(folder) -> None:
    found = loaded(folder)
    assert found.dtype == np.uint8
    np.testing.assert_array_equal(found, [smooth()] * COPIES)


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pictures_of_every_number_of_channels(channels, tmp_path) -> None:
    pixels = _GENERATOR.integers(0, 256, (6, 7, channels), dtype=np.uint8)
    for kind in ("image", "raw"):
        folder = write(tmp_path / kind, [pixels] * 2, kind=kind)
        np.testing.assert_array_equal(loaded(folder), [pixels] * 2)
        varied = loaded(folder, augment=AUGMENTATIONS)
        assert varied.shape == (2, 6, 7, channels)
        assert varied.dtype == np.uint8
        if channels == 4:
            levels = loaded(folder, augment="brightness,contrast")
            np.testing.assert_array_equal(levels[..., 3], [pixels[..., 3]] * 2, "alpha stays")
            assert (levels[..., :3] != pixels[..., :3]).any()


def test_resizing_is_antialiased_and_leaves_the_right_size_alone(folder) -> None:
    np.testing.assert_array_equal(loaded(folder, image_size=SIDE), loaded(folder))
    small = loaded(folder, image_size=(12, 24))
    assert small.shape == (COPIES, 12, 24, 3)
    expected = Image.fromarray(smooth()).resize((24, 12), Image.Resampling.BILINEAR)
    difference = np.abs(small[0].astype(int) - np.asarray(expected))
    assert difference.mean() < 0.5
    assert difference.max() <= 2


def test_checkers_that_are_made_small_become_grey(tmp_path) -> None:
    checkers = ((np.indices((64, 64)).sum(0) % 2) * 255).astype(np.uint8)[..., None]
    small = loaded(write(tmp_path / "out", [checkers]), image_size=8)
    assert np.abs(small.astype(int) - 127).max() <= 16, "every other pixel would be 0 or 255"


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_every_augmentation_changes_pictures_and_repeats_under_the_seed(folder, name) -> None:
    """In batches of every size."""

    def epochs(count: int, **options) -> list[np.ndarray]:
        data = recordmill.load(folder, augment=name, **options)
        return [np.concatenate([x.numpy() for x, _ in data]) for _ in range(count)]

    found, second = epochs(2, batch_size=5)
    changed = [(one != smooth()).any() for one in found]
    assert sum(changed) > (1 if name == "flip" else COPIES - 2)
    assert len({one.tobytes() for one in found}) == (2 if name == "flip" else COPIES)
    assert (second != found).any(), "another epoch, another change"
    np.testing.assert_array_equal(epochs(2, batch_size=1), [found, second])
    for batch_size in (1, 5):
        assert (epochs(1, batch_size=batch_size, seed=1)[0] != found).any()


def test_what_a_record_becomes_does_not_depend_on_the_batch_or_on_the_cache(folder) -> None:
    by_five = loaded(folder, augment=AUGMENTATIONS)
    by_one = [x.numpy() for x, _ in recordmill.load(folder, augment=AUGMENTATIONS)]
    np.testing.assert_array_equal(by_five, by_one)
    np.testing.assert_array_equal(
        by_five, loaded(folder, augment=AUGMENTATIONS, cache_decoded=True)
    )


def test_flips_mirror_left_and_right_every_second_time(tmp_path) -> None:
    pixels = _GENERATOR.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    found = loaded(write(tmp_path / "out", [pixels] * 400), augment="flip", batch_size=50)
    mirrored = sum((one == pixels[:, ::-1]).all() for one in found)
    assert mirrored + sum((one == pixels).all() for one in found) == 400
    assert 150 < mirrored < 250


@pytest.mark.parametrize("names", [["crop"], ["rotate"], ["crop", "flip", "rotate"]])
@pytest.mark.parametrize("shape", [(32, 32, 3), (20, 40, 3), (40, 20, 3)])
def test_no_pixel_is_made_up(names, shape) -> None:
    """White stays white in the corners, whatever is turned and cropped."""
    white = tf.fill(shape, tf.constant(255, tf.uint8))
    for seed in range(40):
        varied = images.augment(white, names, tf.constant([seed, 0], tf.int64))
        assert int(tf.reduce_min(varied)) == 255


def test_crops_and_rotations_take_what_those_when_writing_take(folder) -> None:
    """By the means and the spread of many: what is drawn comes from different generators."""
    for name in ("crop", "rotate", "brightness", "contrast"):
        here = loaded(write_many(folder, 300), augment=name, batch_size=50).astype(float)
        there = np.array(
            [
                np.asarray(
                    when_written.augment(
                        Image.fromarray(smooth()),
                        [name],
                        generator_for(1, key=str(number), copy=1),
                    )[0]
                )
                for number in range(300)
            ],
            float,
        )
        np.testing.assert_allclose(here.mean(0), there.mean(0), atol=3, err_msg=name)
        np.testing.assert_allclose(here.std(0), there.std(0), atol=3, err_msg=name)


def write_many(folder: pathlib.Path, count: int) -> pathlib.Path:
    many = folder.parent / f"many-{count}"
    return many if many.exists() else write(many, [smooth()] * count)


@pytest.mark.parametrize(
    ("how", "expected"),
    [
        ("unit", lambda x: x / 255),
        ("signed", lambda x: x / 127.5 - 1),
        ("imagenet", lambda x: (x / 255 - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]),
    ],
)
def test_pixels_are_normalised(folder, how, expected) -> None:
    for options in ({}, {"batch_size": None}, {"cache_decoded": True}):
        data = recordmill.load(folder, **{"batch_size": 4} | options, normalize=how)
        x, _ = next(iter(data))
        assert x.dtype == tf.float32
        one = x.numpy() if options.get("batch_size", 4) is None else x[0].numpy()
        np.testing.assert_allclose(one, expected(smooth().astype(float)), atol=1e-5)


def test_pictures_of_different_size_are_resized_or_ragged(tmp_path) -> None:
    several = [smooth()[: 10 + n, : 20 - n] for n in range(5)]
    folder = write(tmp_path / "out", several, raw_shape=(None, None, 3))
    assert loaded(folder, image_size=16).shape == (5, 16, 16, 3)
    ((x, _),) = recordmill.load(folder, batch_size=5, padding="ragged")
    for one, expected in zip(x, several, strict=True):
        np.testing.assert_array_equal(one.to_tensor(), expected)
    found = [x.numpy() for x, _ in recordmill.load(folder, augment="flip,rotate")]
    assert [one.shape for one in found] == [one.shape for one in several]


def test_jpeg_and_formats_of_others_are_decoded(tmp_path) -> None:
    content = {}
    for kind in ("JPEG", "BMP", "GIF"):
        out = io.BytesIO()
        Image.fromarray(smooth()).save(out, kind)
        content[kind] = out.getvalue()
    features = {
        "picture": Feature(dtype="string", kind="image"),
        "label": Feature(dtype="int64", kind="label"),
    }
    rows = [
        Row(key=kind, label="a", values={"picture": [data], "label": [0]})
        for kind, data in content.items()
    ]
    make_dataset(tmp_path / "out", {"train": [rows]}, features=features, labels=("a",))
    found = loaded(tmp_path / "out", image_size=SIDE)
    for one in found:
        assert np.abs(one.astype(int) - smooth()).mean() < 6
