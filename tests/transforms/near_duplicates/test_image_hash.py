"""Bits of the perceptual hash: fixed, near those of imagehash, and close for edited photos."""

import itertools

import numpy as np
import pytest
from PIL import Image

from recordmill.transforms.near_duplicates import image_hash
from recordmill.transforms.near_duplicates.image_hash import FLAT, hamming, hash_pixels
from tests.paths import ROOT

PHOTOS = ROOT / "tests" / "data" / "clothing"

# imagehash 4.3.2 with Pillow 13: phash(image).
IMAGEHASH = {
    "dress/08e1576e-1a7c-4a80-813d-f6914b010a8a.jpg": 0xD03B45867BA54F94,
    "hat/d8b6e902-1bb0-41a8-9ffd-25309c18f1ee.jpg": 0xBD68C0956D0FC764,
    "longsleeve/ceaa1a39-4aa3-4492-a7ba-173a5f2a3fb8.jpg": 0xF3334CCC48233737,
    "outwear/66bccc96-dc5c-466c-91f1-871327f3b660.jpg": 0xA3B1F4668386C1CF,
    "pants/78043895-d366-406a-a5a2-18d865e87ada.jpg": 0xA92696D8C4DCD2DA,
    "shirt/69a2aafb-a8ef-4734-9b78-ed7289171319.jpg": 0xFBEAC005871E9E70,
    "shoes/8a4f3de1-5971-48f6-ad93-64a6a1dec148.jpg": 0xEB04B51FD2704D1B,
    "skirt/48895e87-ae51-4c7e-98ae-2855991264d1.jpg": 0xED94C02B9FE47885,
    "t-shirt/3a55a101-9ff9-4fd3-945b-5c7d1ad67653.jpg": 0xD42A630A7C947BB5,
    "t-shirt/9da8a351-3fd3-401f-9d17-fd94e58bc9a8.jpg": 0xEFD4D0A5B023D61A,
}


def photo(name):
    return Image.open(PHOTOS / name).convert("RGB")


def hash_image(image):
    return hash_pixels(np.asarray(image))


@pytest.mark.parametrize("name", IMAGEHASH)
def test_bits_are_near_those_of_imagehash(name):
    assert hamming(hash_image(photo(name)), np.uint64(IMAGEHASH[name])) <= 4


def pattern(height, width, channels):
    """Pixels that any machine computes alike."""
    y, x = np.mgrid[:height, :width]
    layers = [((x * y) // (97 + k) + x // (k + 2)) % 256 for k in range(channels)]
    return np.stack(layers, axis=-1).astype(np.uint8)


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((300, 900, 3), 0x8001070F1FDFDEDC),
        ((60, 90, 1), None),
        ((5, 2000, 4), None),
    ],
)
def test_bits_are_those_of_exact_integers(shape, expected):
    pixels = pattern(*shape)
    assert int(hash_pixels(pixels)) == exact_hash(pixels)
    if expected is not None:
        assert int(hash_pixels(pixels)) == expected


def exact_hash(pixels):
    """The hash as the docstring has it, in Python's integers."""
    height, width, channels = pixels.shape
    rows = pixels[[(2 * i + 1) * height // 256 for i in range(128)]].astype(object)
    rows = rows.reshape(32, 4, width, channels).sum(axis=1)
    if width > 512:
        rows = rows[:, [(2 * i + 1) * width // 1024 for i in range(512)]]
    weights = (64,) if channels == 1 else (19, 38, 7)
    grey = sum(rows[..., k] * weight for k, weight in enumerate(weights))
    down, across = cosines(32), cosines(grey.shape[1])
    frequencies = (down @ grey @ across.T).ravel().tolist()
    middle = sorted(frequencies)[31]
    return int("".join("1" if value > middle else "0" for value in frequencies), 2)


def cosines(size):
    places = np.arange(size)
    weights = np.empty((8, size), object)
    for k in range(8):
        row = [round(1024 * value) for value in np.cos(np.pi * (2 * places + 1) * k / (2 * size))]
        if k % 2:
            assert sum(row) == 0
        elif k:
            for middle in {(size - 1) // 2, size // 2}:
                row[middle] -= sum(row) // (1 + (size % 2 == 0)) if middle == size // 2 else 0
            if size % 2 == 0:
                row[size // 2 - 1] = row[size // 2]
        weights[k] = row
    return weights


def test_no_weight_is_close_to_the_middle_of_two_integers():
    # Otherwise cosines of another library could be rounded to another integer.
    for size in range(1, 513):
        angles = np.outer(np.arange(8), 2 * np.arange(size) + 1) * (np.pi / (2 * size))
        values = 1024 * np.cos(angles)
        assert np.abs(np.abs(values - np.floor(values)) - 0.5).min() > 1e-7


def test_edited_photos_are_near_and_others_are_not():
    originals = [photo(name) for name in IMAGEHASH]
    hashes = np.array([hash_image(image) for image in originals])
    half = [image.resize((image.width // 2, image.height // 2)) for image in originals]
    brighter = [image.point(lambda value: value * 1.1) for image in originals]
    for edited in (half, brighter):
        copies = np.array([hash_image(image) for image in edited])
        assert (hamming(hashes, copies) <= 4).all()
    pairs = itertools.combinations(hashes, 2)
    assert all(hamming(one, other) > 12 for one, other in pairs)


def test_grey_colour_and_alpha():
    grey = pattern(200, 300, 1)
    colour = np.repeat(grey, 3, axis=2)
    alpha = np.concatenate([colour, pattern(200, 300, 1)], axis=2)
    assert hash_pixels(grey) == hash_pixels(colour) == hash_pixels(alpha)


def test_flat_images_have_one_hash():
    sizes = [(1, 1, 1), (7, 5, 3), (300, 1001, 4), (2, 512, 3)]
    for value in (0, 1, 77, 255):
        assert {hash_pixels(np.full(size, value, np.uint8)) for size in sizes} == {FLAT}


@pytest.mark.parametrize(
    "pixels",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 2), np.uint8),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((4, 4, 3), np.float32),
    ],
)
def test_other_arrays_are_refused(pixels):
    with pytest.raises(ValueError, match=r"expected pixels as uint8\[height, width, 1, 3 or 4\]"):
        hash_pixels(pixels)


def test_the_name_of_the_hash():
    assert image_hash.IMAGE_HASH == "dct-64/1"
