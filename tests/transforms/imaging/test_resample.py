"""Scaling by itself: against the same filter in floating point, and the same on every processor."""

import subprocess
import sys

import numpy as np
import pytest
from cykooz_resizer import CpuExtensions, Resizer
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from recordmill.transforms.imaging import resample
from recordmill.transforms.imaging.resample import resize
from tests.examples_of_properties import many
from tests.pictures import levels

SIDES = st.integers(1, 70)
MODES = st.sampled_from(["L", "RGB", "CMYK"])


def noise(mode, size):
    width, height = size
    bands = len(Image.new(mode, (1, 1)).getbands())
    pixels = np.random.default_rng(0).integers(0, 256, (height, width, bands), np.uint8)
    return Image.merge(mode, [Image.fromarray(pixels[..., band]) for band in range(bands)])


def triangle(side, low, high, target):
    """The weights of every source pixel for every target pixel: float64[target, side]."""
    scale = (high - low) / target
    reach = max(scale, 1.0)
    centres = low + (np.arange(target) + 0.5) * scale
    weights = np.maximum(1 - abs(np.arange(side) + 0.5 - centres[:, None]) / reach, 0)
    return weights / weights.sum(axis=1, keepdims=True)


def scaled(pixels, size, box):
    left, top, right, bottom = box
    down = triangle(pixels.shape[0], top, bottom, size[1])
    across = triangle(pixels.shape[1], left, right, size[0])
    return np.einsum("yj,jic,xi->yxc", down, pixels.astype(float), across, optimize=True)


def bands(image):
    return np.asarray(image).reshape(image.height, image.width, -1)


@st.composite
def boxes(draw, side):
    """(from, to) within a side, as floating point numbers, at least half a pixel apart."""
    low = draw(st.one_of(st.just(0.0), st.floats(0, side - 0.5)))
    return low, draw(st.one_of(st.just(float(side)), st.floats(low + 0.5, side)))


@given(MODES, SIDES, SIDES, SIDES, SIDES, st.data())
@settings(max_examples=many(3))
def test_scaling_is_the_triangle_filter(mode, width, height, across, down, data):
    left, right = data.draw(boxes(width))
    top, bottom = data.draw(boxes(height))
    box = (left, top, right, bottom)
    image = noise(mode, (width, height))
    wanted = scaled(bands(image), (across, down), box)
    for library in (resample.simd, None):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(resample, "simd", library)
            result = resize(image, (across, down), box)
        assert (result.mode, result.size) == (mode, (across, down))
        assert np.abs(bands(result) - wanted).max() <= 1.1  # rounded after either direction


@pytest.mark.parametrize("mode", ["L", "LA", "RGB", "RGBA", "CMYK"])
def test_the_same_on_every_processor(mode, monkeypatch):
    image = noise(mode, (211, 157))
    box = (3.3, 1.7, 207.9, 150.2)
    made = {}
    for extensions in CpuExtensions:

        class Limited(Resizer):
            def __init__(self, extensions=extensions):
                super().__init__()
                self.cpu_extensions = extensions

        with monkeypatch.context() as patch:
            patch.setattr(resample.simd, "Resizer", Limited)
            made[extensions] = [resize(image, size, box).tobytes() for size in ((64, 48), (300, 9))]
    assert len(made) >= 3
    assert len({tuple(each) for each in made.values()}) == 1


@pytest.mark.parametrize("mode", ["LA", "RGBA"])
def test_what_is_transparent_does_not_bleed(mode):
    image = Image.new(mode, (40, 40), (255, 0) if mode == "LA" else (255, 255, 255, 0))
    image.paste((90, 255) if mode == "LA" else (90, 90, 90, 255), (0, 0, 21, 40))
    result = bands(resize(image, (10, 10), (0, 0, 40, 40)))
    seen = result[..., -1] > 0
    assert seen[:, :6].all()
    assert not seen[:, 6:].any()
    assert np.abs(result[seen][:, :-1].astype(int) - 90).max() <= 2


def test_large_pictures_which_pillow_keeps_in_pieces():
    rows = np.linspace(0, 255, 5000)[:, None, None].repeat(4000, axis=1).repeat(3, axis=2)
    image = Image.fromarray(rows.astype(np.uint8))  # 80 MB, in blocks of 16
    result = levels(resize(image, (40, 50), (0, 0, 4000, 5000)))
    wanted = np.asarray(image.resize((40, 50), Image.Resampling.BILINEAR)).astype(int)
    assert np.abs(result - wanted).max() <= 1


@pytest.mark.parametrize(
    ("mode", "colour"),
    [("L", (128,)), ("LA", (128, 255)), ("RGB", (128,) * 3), ("RGBA", (128, 128, 128, 255))],
)
@pytest.mark.parametrize("side", [65_536, 65_537, 3_000_000])
def test_weights_do_not_vanish(mode, colour, side):
    image = Image.new(mode, (side, 2), colour)
    for lying in (image, image.transpose(Image.Transpose.TRANSPOSE)):
        for size in ((1, 1), (3, 2), (2, 3)):
            result = bands(resize(lying, size, (0, 0, *lying.size)))
            allowed = np.where(np.array(colour) == 255, 0, 1)  # what is opaque stays so
            assert (np.abs(result.astype(int) - colour) <= allowed).all()


def test_nothing_between_is_larger_than_source_and_result():
    code = """if True:
        import resource
        from PIL import Image
        from recordmill.transforms.imaging.resample import resize
        image = Image.new("RGB", (2_000_000, 2), (10, 20, 30))
        resource.setrlimit(resource.RLIMIT_AS, (1 << 30, 1 << 30))
        assert resize(image, (224, 224), (0, 0, *image.size)).getpixel((9, 9)) == (10, 20, 30)
    """
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr


def test_what_scales_is_told(monkeypatch):
    assert resample.versions()["cykooz-resizer"].startswith("4.")
    monkeypatch.setattr(resample, "simd", None)
    assert resample.versions() == {}
