"""Masks by recordmill.load, compared with those in the records."""

import json
import pathlib

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds
from PIL import Image

import recordmill
from recordmill.errors import ConfigError
from tests.image_runs import encoders_kept, make
from tests.painted_masks import COLOURS, opened, painted, png, shapes, write
from tests.painted_objects import coco, objects

SEMANTIC, OBJECTS = "image/segmentation/class/encoded", "image/object/mask"
SIZE = (60, 40)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Six images with masks of classes, and of 3 objects but for one image without any."""
    folder = tmp_path_factory.mktemp("masks")
    annotated = {}
    for number in range(6):
        ids, annotations = objects(number, SIZE)
        write(folder, f"images/{number}.png", png(painted(ids)))
        write(folder, f"masks/{number}.png", png(Image.fromarray(ids)))
        annotated[f"{number}.png"] = (SIZE, annotations if number else [])
    (folder / "coco.json").write_text(json.dumps(coco(annotated)))
    return folder


@pytest.fixture(scope="module")
def both(folder):
    """A dataset with masks of classes and of objects."""
    with encoders_kept():
        options = ("--annotations", folder / "coco.json", "--instance-masks", "--splits", "train=1")
        options = (*options, "--image-format", "png", "--size", "48", "--resize-mode", "stretch")
        source = ("--input", folder / "images", "--masks", folder / "masks")
        return make(folder / "both", *source, *options)


@pytest.fixture(scope="module")
def of_classes(folder):
    """A dataset of images of their own sizes, with masks of classes."""
    with encoders_kept():
        source = ("--input", folder / "images", "--masks", folder / "masks")
        return make(folder / "of_classes", *source, "--splits", "train=1", "--image-format", "png")


def nearest(pixels: np.ndarray) -> np.ndarray:
    """Return the class whose colour is nearest to each pixel."""
    return np.abs(pixels[..., None, :].astype(int) - COLOURS.astype(int)).sum(-1).argmin(-1)


def stored(made, name: str) -> list[list[np.ndarray]]:
    return [[opened(one) for one in example.get(name, ())] for example in made.examples().values()]


def test_elements_are_dictionaries_with_decoded_masks(both) -> None:
    (batch,) = recordmill.load(both.folder, batch_size=6)
    semantic, masks = batch[SEMANTIC].numpy(), batch[OBJECTS].numpy()
    assert semantic.shape == (6, 48, 48, 1)
    assert masks.shape == (6, 3, 48, 48)
    assert semantic.dtype == masks.dtype == np.uint8
    np.testing.assert_array_equal(semantic[..., 0], [one for (one,) in stored(both, SEMANTIC)])
    for found, expected in zip(masks, stored(both, OBJECTS), strict=True):
        padded = np.zeros((3, 48, 48), np.uint8)
        padded[: len(expected)] = np.array(expected).reshape(-1, 48, 48)
        np.testing.assert_array_equal(found, padded)
    assert sorted(len(one) for one in stored(both, OBJECTS)) == [0, 3, 3, 3, 3, 3]
    singly = [record[OBJECTS].numpy() for record in recordmill.load(both.folder)]
    assert sorted(len(one) for one in singly) == [0, 3, 3, 3, 3, 3]


@pytest.mark.parametrize("options", [{"as_supervised": True}, {"label": SEMANTIC}])
def test_the_mask_may_be_the_label(options, of_classes) -> None:
    (batch,) = recordmill.load(of_classes.folder, batch_size=6, image_size=(40, 60), **options)
    image, mask = batch
    assert image.shape == (6, 40, 60, 3)
    np.testing.assert_array_equal(mask[..., 0], [one for (one,) in stored(of_classes, SEMANTIC)])
    shown = (
        np.abs(image.numpy()[:, :, :, None].astype(int) - COLOURS.astype(int)).sum(-1).argmin(-1)
    )
    np.testing.assert_array_equal(shown, mask[..., 0])


@pytest.mark.parametrize("augment", [(), ("flip",), ("flip", "crop", "rotate")])
def test_masks_are_augmented_as_their_images(augment, of_classes) -> None:
    data = recordmill.load(
        of_classes.folder, batch_size=6, image_size=(160, 240), label=SEMANTIC, augment=augment
    )
    several = [mask.numpy() for _ in range(2) for _, mask in data]
    assert (several[0] != several[1]).any() == bool(augment)
    for image, mask in data:
        assert (nearest(image.numpy()) == mask.numpy()[..., 0]).mean() > 0.97


def test_objects_of_images_of_different_sizes(folder) -> None:
    with encoders_kept():
        options = ("--annotations", folder / "coco.json", "--instance-masks", "--splits", "train=1")
        made = make(folder / "sizes", "--input", folder / "images", *options)
    found = [record[OBJECTS].numpy() for record in recordmill.load(made.folder)]
    assert sorted(one.shape for one in found) == [(0, 0, 0), *[(3, 40, 60)] * 5]
    (batch,) = recordmill.load(made.folder, batch_size=6, image_size=32)
    assert batch[OBJECTS].shape == (6, 3, 32, 32)
    with pytest.raises(ConfigError, match="have different sizes"):
        recordmill.load(made.folder, inputs=OBJECTS, as_supervised=False, batch_size=6)


def test_masks_of_16_bits(folder, tmp_path: pathlib.Path) -> None:
    for number in range(6):
        ids = shapes(number, SIZE).astype(np.uint16) * 300
        write(tmp_path, f"masks/{number}.png", png(Image.fromarray(ids)))
    with encoders_kept():
        source = ("--input", folder / "images", "--masks", tmp_path / "masks", "--mask-depth", "16")
        made = make(tmp_path / "out", *source, "--splits", "train=1")
    for (_, mask), (expected,) in zip(
        recordmill.load(made.folder, label=SEMANTIC, cache_decoded=True),
        stored(made, SEMANTIC),
        strict=True,
    ):
        assert mask.dtype == tf.uint16
        np.testing.assert_array_equal(mask[..., 0], expected)


def test_tfds_decodes_masks(both, of_classes) -> None:
    for made in (both, of_classes):
        builder = tfds.builder_from_directory(str(made.folder))
        found = [*tfds.as_numpy(builder.as_dataset(split="train"))]
        for record, (expected,) in zip(found, stored(made, SEMANTIC), strict=True):
            np.testing.assert_array_equal(record[SEMANTIC][..., 0], expected)
        if made is both:
            for record, expected in zip(found, stored(made, OBJECTS), strict=True):
                np.testing.assert_array_equal(
                    np.reshape(record[OBJECTS], (-1, 48, 48)), np.reshape(expected, (-1, 48, 48))
                )
