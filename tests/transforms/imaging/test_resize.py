"""Positions of pixels when an image is resized, and the cost of scaled decoding."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image
from PIL.JpegImagePlugin import JpegImageFile

from recordmill.transforms.imaging import pixels
from recordmill.transforms.imaging.geometry import plan_resize
from recordmill.transforms.imaging.pixels import ImageOptions, decode
from recordmill.transforms.imaging.resample import resize
from tests.examples_of_properties import many
from tests.paths import CLOTHING
from tests.pictures import (
    BLUE,
    GREEN,
    RED,
    distance,
    levels,
    photo,
    saved,
)

# Pytest undoes the filter that silences Pillow's warnings; `test_pillow_does_not_warn` sees to it.
pytestmark = pytest.mark.filterwarnings("ignore:::PIL")


SIDES = st.integers(1, 300)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(["crop", "pad", "stretch", "fit"]))
@settings(max_examples=many(4))
def test_geometry(width, height, target_height, target_width, resize_mode):
    options = ImageOptions(size=(target_height, target_width), resize_mode=resize_mode)
    plan = plan_resize((width, height), options)
    target = (target_width, target_height)
    assert plan.canvas == (target if resize_mode != "fit" else plan.inner)
    assert all(1 <= inner <= canvas for inner, canvas in zip(plan.inner, plan.canvas, strict=True))
    assert plan.window[0] <= width
    assert plan.window[1] <= height
    if resize_mode == "stretch":
        assert (plan.window, plan.inner) == ((width, height), target)
        return
    # Proportions are kept, but for the rounding of a side to whole pixels.
    across, down = plan.inner[0] / plan.window[0], plan.inner[1] / plan.window[1]
    assert abs(across - down) <= 0.51 * max(
        across / plan.inner[0], down / plan.inner[1]
    ) + 1e-9 or (1 in plan.inner)
    if resize_mode == "crop":
        assert plan.inner == target
        assert plan.window[0] == pytest.approx(width) or plan.window[1] == pytest.approx(height)
    if resize_mode == "pad":
        assert plan.inner[0] == target_width or plan.inner[1] == target_height
    if resize_mode == "fit":
        assert plan.inner[0] <= width
        assert plan.inner[1] <= height
        shrinks = width > target_width or height > target_height
        touches = plan.inner[0] == target_width or plan.inner[1] == target_height
        assert touches if shrinks else plan.inner == (width, height)


@given(SIDES, SIDES, st.integers(1, 80), st.integers(1, 80), st.sampled_from(["JPEG", "PNG"]))
@settings(max_examples=60)
def test_sizes_come_out_as_planned(width, height, target_height, target_width, kind):
    data = saved(Image.new("RGB", (width, height), (90, 120, 30)), kind)
    for resize_mode in ("crop", "pad", "stretch", "fit"):
        options = ImageOptions(
            size=(target_height, target_width), resize_mode=resize_mode, background=(90, 120, 30)
        )
        image = decode(data, options)
        assert image.size == plan_resize((width, height), options).canvas
        assert np.abs(levels(image) - (90, 120, 30)).max() <= 2  # no border, no dark rim


def test_crop_takes_the_centre():
    image = Image.new("RGB", (90, 30), RED)
    image.paste(GREEN, (30, 0, 60, 30))
    result = levels(decode(saved(image), ImageOptions(size=(10, 10), image_format="png")))
    assert (result[:, 1:-1] == GREEN).all()


def test_pad_fills_up_with_background_on_both_sides():
    options = ImageOptions(size=(30, 30), resize_mode="pad", background=BLUE, image_format="png")
    result = levels(decode(saved(Image.new("RGB", (60, 20), RED)), options))
    assert (result[:10] == BLUE).all()
    assert (result[10:20] == RED).all()
    assert (result[20:] == BLUE).all()


def test_shrinking_is_antialiased():
    checkers = Image.fromarray((np.indices((128, 128)).sum(axis=0) % 2 * 255).astype(np.uint8))
    options = ImageOptions(size=(16, 16), mode="gray", image_format="png")
    low, high = decode(saved(checkers), options).getextrema()
    assert 120 < low <= high < 135


def test_none_and_no_size_leave_the_size():
    for options in (ImageOptions(), ImageOptions(resize_mode="none")):
        assert decode(saved(photo(33, 44)), options).size == (33, 44)


def test_scaled_decoding_costs_no_quality(monkeypatch):
    paths = sorted(CLOTHING.rglob("*.jpg"))[::4]
    pictures = [path.read_bytes() for path in paths]
    options = ImageOptions(size=(48, 48), image_format="raw")
    drafted = [decode(data, options) for data in pictures]
    monkeypatch.setattr(JpegImageFile, "draft", lambda *_: None)
    full = [decode(data, options) for data in pictures]
    differences = [distance(one, other) for one, other in zip(drafted, full, strict=True)]
    assert len(differences) >= 20
    assert 0 < np.mean(differences) <= 0.5


@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=40)
def test_scaled_decoding_never_enlarges(width, height, target_height, target_width):
    data = saved(Image.new("L", (width, height)), "JPEG")
    seen = []

    def spy(image, size, box):
        seen.append((image.size, size))
        return resize(image, size, box)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pixels, "resize", spy)
        for resize_mode in ("crop", "fit"):
            options = ImageOptions(size=(target_height, target_width), resize_mode=resize_mode)
            decode(data, options)
    for decoded, size in seen:
        assert decoded[0] >= min(width, size[0])
        assert decoded[1] >= min(height, size[1])
