"""Augmentations: pure, deterministic, of the same size and mode, and with an effect."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageChops

from recordmill.errors import ConfigError
from recordmill.transforms.imaging.augment import AUGMENTATIONS, check_names
from recordmill.transforms.imaging.augment import augment as augment_and_tell
from recordmill.transforms.model.generators import generator_for
from tests.paths import ODD


@pytest.fixture(scope="module")
def photo():
    with Image.open(ODD / "pillow/flower.jpg") as image:
        return image.convert("RGB").resize((96, 64))


def augment(image, names, generator):
    return augment_and_tell(image, names, generator)[0]


def levels(image):
    return np.asarray(image).astype(int)


@pytest.mark.parametrize("mode", ["RGB", "L", "RGBA"])
@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_each_has_an_effect_and_keeps_size_and_mode(photo, name, mode):
    image = photo.convert(mode)
    before = image.tobytes()
    changed = 0
    for copy in range(8):
        result = augment(image, [name], generator_for(1, key="k", copy=copy))
        assert (result.size, result.mode) == (image.size, mode)
        changed += result.tobytes() != before
        again = augment(image, [name], generator_for(1, key="k", copy=copy))
        assert again.tobytes() == result.tobytes()
    assert image.tobytes() == before
    assert changed >= (2 if name == "flip" else 8)
    if name == "flip":
        assert changed < 8


def test_flip_mirrors(photo):
    mirrored = photo.transpose(Image.Transpose.FLIP_LEFT_RIGHT).tobytes()
    outcomes = {
        augment(photo, ["flip"], generator_for(1, key="k", copy=copy)).tobytes()
        for copy in range(8)
    }
    assert outcomes == {photo.tobytes(), mirrored}


def test_brightness_keeps_alpha(photo):
    image = photo.convert("RGBA")
    image.putalpha(77)
    for name in ("brightness", "contrast"):
        result = augment(image, [name], generator_for(1, key="k", copy=1))
        assert result.getchannel("A").getextrema() == (77, 77)


@given(
    width=st.integers(1, 60),
    height=st.integers(1, 60),
    copy=st.integers(0, 1000),
    seed=st.integers(),
)
@settings(max_examples=80)
def test_no_pixel_is_made_up(width, height, copy, seed):
    white = Image.new("L", (width, height), 255)
    result = augment(white, ["crop", "rotate"], generator_for(seed, key="k", copy=copy))
    assert result.size == white.size
    assert result.getextrema() == (255, 255)


def test_rotation_keeps_the_centre():
    image = Image.new("L", (41, 31))
    image.paste(255, (18, 13, 23, 18))
    for copy in range(5):
        weight = levels(augment(image, ["rotate"], generator_for(3, key="k", copy=copy)))
        ys, xs = np.indices(weight.shape)
        centre = (weight * xs).sum() / weight.sum(), (weight * ys).sum() / weight.sum()
        np.testing.assert_allclose(centre, (20, 15), atol=0.2)


def test_the_order_named_does_not_matter(photo):
    names = list(AUGMENTATIONS)
    one = augment(photo, names, generator_for(1, key="k", copy=1))
    other = augment(photo, names[::-1], generator_for(1, key="k", copy=1))
    assert ImageChops.difference(one, other).getbbox() is None


def test_generators_differ_by_each_part_and_are_the_same_everywhere():
    draws = {
        generator_for(seed, key=key, copy=copy).integers(2**62)
        for seed, key, copy in [(0, "a", 1), (1, "a", 1), (0, "b", 1), (0, "a", 2), (0, "1/a", 1)]
    }
    assert len(draws) == 5
    # Literal, so that another release of numpy or xxhash cannot change datasets unnoticed.
    assert generator_for(0, key="a", copy=1).integers(1000, size=4).tolist() == [21, 156, 776, 165]


def test_unknown_name():
    message = "augment: expected some of crop, flip, rotate, brightness, contrast, got 'blur'"
    with pytest.raises(ConfigError, match=re.escape(message)):
        check_names(["flip", "blur"])
