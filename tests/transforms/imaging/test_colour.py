"""From any pixel type to 8-bit sRGB."""

import dataclasses
import io
import struct

import numpy as np
import pytest
from PIL import Image, ImageCms

from recordmill.errors import Reason
from recordmill.transforms.imaging.pixels import ImageOptions, decode
from tests.paths import ODD
from tests.pictures import (
    ALL_MODES,
    AS_PNG,
    BLACK,
    BLUE,
    DISPLAY_P3,
    GREEN,
    RED,
    SRGB,
    SWAPPED,
    WHITE,
    distance,
    levels,
    photo,
    profile_of,
    reject,
    saved,
)

# Pytest undoes the filter that silences Pillow's warnings; `test_pillow_does_not_warn` sees to it.
pytestmark = pytest.mark.filterwarnings("ignore:::PIL")


def test_cmyk_as_adobe_writes_it_inverted():
    # Pillow writes and reads the inverted kind, as Photoshop does; TIFF holds the other.
    colours = [RED, GREEN, BLUE, WHITE, BLACK]
    cmyk = [(0, 255, 255, 0), (255, 0, 255, 0), (255, 255, 0, 0), (0, 0, 0, 0), (0, 0, 0, 255)]
    image = Image.new("CMYK", (80, 16))
    for place, ink in enumerate(cmyk):
        image.paste(ink, (place * 16, 0, place * 16 + 16, 16))
    for data in (saved(image, "JPEG", quality=95), saved(image, "TIFF")):
        result = decode(data, AS_PNG)
        for place, colour in enumerate(colours):
            assert np.abs(np.subtract(result.getpixel((place * 16 + 8, 8)), colour)).max() <= 4


def test_real_cmyk_photo_looks_like_its_rgb_twin():
    size = ImageOptions(size=(50, 50), image_format="png")
    cmyk = decode((ODD / "pillow/pil_sample_cmyk.jpg").read_bytes(), size)
    rgb = decode((ODD / "pillow/pil_sample_rgb.jpg").read_bytes(), size)
    assert distance(cmyk, rgb) < 12


def test_palette_with_transparency_shows_the_background():
    image = Image.new("P", (2, 1))
    image.putpalette([*RED, *BLUE])
    image.putpixel((1, 0), 1)
    for data in (saved(image, transparency=1), saved(image, "GIF", transparency=1)):
        options = ImageOptions(image_format="png", background=GREEN)
        assert levels(decode(data, options)).tolist() == [[list(RED), list(GREEN)]]
        seen_through = levels(decode(data, ALL_MODES[2]))
        assert seen_through[0, :, 3].tolist() == [255, 0]


def test_half_transparent_is_mixed_with_the_background():
    data = saved(Image.new("RGBA", (1, 1), (255, 0, 0, 128)))
    blue = ImageOptions(image_format="png", background=BLUE)
    assert decode(data, blue).getpixel((0, 0)) == (128, 0, 127)
    gray = ImageOptions(image_format="png", mode="gray", background=BLUE)
    assert decode(data, gray).getpixel((0, 0)) == pytest.approx(0.299 * 128 + 0.114 * 127, abs=1)
    assert decode(data, AS_PNG).getpixel((0, 0)) == (255, 127, 127)


def test_what_is_transparent_does_not_bleed_when_resized():
    image = Image.new("RGBA", (64, 64), (255, 0, 0, 0))
    image.paste((0, 0, 255, 255), (0, 0, 33, 64))
    options = ImageOptions(image_format="png", size=(8, 8))
    result = levels(decode(saved(image), options))
    assert (result[..., 0] == result[..., 1]).all()  # white to blue, no red


@pytest.mark.parametrize("key", [RED, (0, 0, 0)])
def test_a_colour_that_stands_for_none(key):
    data = saved(Image.new("RGB", (3, 3), key), transparency=key)
    assert decode(data, AS_PNG).getpixel((1, 1)) == WHITE


def test_one_bit():
    image = Image.new("1", (4, 1))
    image.putpixel((2, 0), 1)
    for options in ALL_MODES[:2]:
        for data in (saved(image), saved(image, "TIFF"), saved(image, "BMP")):
            result = levels(decode(data, options)).reshape(4, -1)
            assert result[:, 0].tolist() == [0, 0, 255, 0]


@pytest.mark.parametrize("kind", ["PNG", "TIFF", "PPM", "JPEG2000"])
def test_sixteen_bits_are_scaled_not_clipped(kind):
    values = np.array([[0, 128, 129, 257, 32768, 65534, 65535]], np.uint16)
    expected = np.round(values / 257).astype(int)
    image = Image.fromarray(np.repeat(values, 8, axis=0))
    assert image.mode == "I;16"
    options = {"JPEG2000": {"irreversible": False}}.get(kind, {})
    result = levels(decode(saved(image, kind, **options), ALL_MODES[1]))
    np.testing.assert_array_equal(result[:1], expected)


def test_sixteen_bit_gray_with_a_transparent_level():
    image = Image.fromarray(np.array([[0, 40000, 65535]], np.uint16))
    data = saved(image, transparency=40000)
    options = ImageOptions(image_format="png", mode="gray", background=(9, 9, 9))
    assert levels(decode(data, options)).tolist() == [[0, 9, 255]]


def test_twelve_bits_of_a_tiff_are_scaled_by_their_own_range():
    packed = bytes([0xFF, 0xF0, 0x00])  # 4095, 0
    tags = [(256, 4, 2), (257, 4, 1), (258, 3, 12), (259, 3, 1), (262, 3, 1), (273, 4, 8)]
    tags += [(277, 3, 1), (278, 4, 1), (279, 4, 3)]
    directory = b"".join(struct.pack("<HHII", tag, kind, 1, value) for tag, kind, value in tags)
    data = b"II*\0" + struct.pack("<I", 12) + packed + b"\0"
    data += struct.pack("<H", len(tags)) + directory + bytes(4)
    assert levels(decode(data, ALL_MODES[1])).tolist() == [[255, 0]]
    deep = decode(data, dataclasses.replace(ALL_MODES[1], depth="16"))
    assert deep.pixels.ravel().tolist() == [65535, 0]


def test_pixels_without_an_8_bit_meaning():
    floats = saved(Image.fromarray(np.zeros((2, 2), np.float32)), "TIFF")
    assert str(reject(floats)) == (
        "unsupported: the pixels are floating point, which has no range of its own;"
        " --intensity-window LOW:HIGH maps a range to black and white"
    )
    for extreme in (-1, 65536):
        integers = saved(Image.fromarray(np.full((2, 2), extreme, np.int32)), "TIFF")
        error = reject(integers)
        assert error.reason == Reason.UNSUPPORTED
        assert f"from {extreme} to {extreme}: expected 0 to 65535" in error.detail


@pytest.mark.parametrize("dtype", [np.uint8, np.uint16, np.int32, np.float32])
def test_a_window_of_intensities(dtype):
    values = np.array([[0, 10, 60], [110, 111, 200]], dtype)
    data = saved(Image.fromarray(values), "TIFF")
    options = dataclasses.replace(ALL_MODES[1], intensity_window=(10, 110))
    expected = [[0, 0, 128], [255, 255, 255]]
    assert levels(decode(data, options)).tolist() == expected
    if dtype == np.float32:
        missing = saved(Image.fromarray(np.array([[np.nan, np.inf]], dtype)), "TIFF")
        assert levels(decode(missing, options)).tolist() == [[0, 255]]


def test_a_window_changes_what_could_stay_as_it_is():
    values = np.array([[0, 128, 255]], np.uint8)
    options = dataclasses.replace(ALL_MODES[1], resize_mode="none", intensity_window=(128, 255))
    assert levels(decode(saved(Image.fromarray(values)), options)).tolist() == [[0, 0, 255]]


def test_lab():
    lab = ImageCms.applyTransform(
        Image.new("RGB", (4, 4), (200, 60, 40)),
        ImageCms.buildTransform(
            ImageCms.createProfile("sRGB"), ImageCms.createProfile("LAB"), "RGB", "LAB"
        ),
    )
    result = decode(saved(lab, "TIFF"), AS_PNG).getpixel((1, 1))
    assert np.abs(np.subtract(result, (200, 60, 40))).max() <= 3


def test_first_frame_of_an_animation():
    frames = [Image.new("RGB", (8, 8), colour) for colour in (RED, GREEN, BLUE)]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        lossless = {"lossless": True} if kind == "WEBP" else {}
        data = saved(frames[0], kind, save_all=True, append_images=frames[1:], **lossless)
        assert decode(data, AS_PNG).getpixel((4, 4)) == RED


def test_a_gray_frame_of_a_gif_whose_other_frames_are_coloured():
    gray = Image.frombytes("L", (16, 16), bytes(range(256)))
    data = saved(gray, "GIF")
    palette, flags = data[13:781], data[790]
    assert (data[781:782], flags & 0x80) == (b",", 0)
    coloured = data[:13] + palette[::-1] + data[781:790] + bytes([flags | 0x87]) + palette
    data = coloured + data[791:]
    with Image.open(io.BytesIO(data)) as image:
        assert image.mode == "L"
    assert distance(decode(data, AS_PNG), gray.convert("RGB")) == 0


@pytest.mark.parametrize("options", ALL_MODES, ids=lambda options: options.mode)
@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_any_mode_to_any_mode(mode, options):
    image = photo(16, 12)
    image = image.convert("L").convert("I") if mode == "I;16" else image.convert(mode)
    if mode == "I;16":
        image = Image.fromarray((np.asarray(image) * 257).astype(np.uint16))
    result = decode(saved(image, "TIFF" if mode == "CMYK" else "PNG"), options)
    assert len(result.getbands()) == options.channels
    gray = photo(16, 12).convert("L")
    assert distance(result.convert("RGB").convert("L"), gray) < {"1": 60, "P": 20}.get(mode, 4)


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "TIFF", "WEBP"])
def test_a_wide_profile_is_converted_to_srgb(kind):
    image = Image.new("RGB", (16, 16), (200, 100, 100))
    data = saved(image, kind, icc_profile=profile_of(DISPLAY_P3, 2.2), quality=95)
    red, green, blue = decode(data, AS_PNG).getpixel((8, 8))
    # By the matrices: P3's (200, 100, 100) is about (214, 95, 97) in sRGB.
    assert 208 <= red <= 220
    assert 88 <= green <= 99
    assert 90 <= blue <= 101


def test_a_profile_of_swapped_channels_swaps_them():
    data = saved(Image.new("RGB", (4, 4), (220, 120, 30)), icc_profile=profile_of(SWAPPED, 2.2))
    red, _, blue = decode(data, AS_PNG).getpixel((1, 1))
    assert blue > 200
    assert red < 60
    # With alpha, too, and in the colours of a palette.
    image = Image.new("RGBA", (4, 4), (220, 120, 30, 50))
    red, _, blue, alpha = decode(
        saved(image, icc_profile=profile_of(SWAPPED, 2.2)), ALL_MODES[2]
    ).getpixel((1, 1))
    assert (blue > 200, red < 60, alpha) == (True, True, 50)


@pytest.mark.parametrize("profile", [SRGB, b"no profile at all", b"", b"\x80" * 300])
def test_a_profile_of_srgb_or_a_broken_one_changes_nothing(profile):
    data = saved(photo(), icc_profile=profile)
    assert distance(decode(data, AS_PNG), photo()) == 0


def test_a_profile_for_other_pixels_is_no_profile_for_these():
    data = saved(photo().convert("L"), icc_profile=profile_of(SWAPPED, 2.2))
    assert distance(decode(data, ALL_MODES[1]), photo().convert("L")) == 0


def test_gray_of_a_jpeg_with_a_profile_is_gray_of_the_converted_colours():
    image = Image.new("RGB", (16, 16), (220, 20, 20))
    data = saved(image, "JPEG", quality=95, icc_profile=profile_of(SWAPPED, 2.2))
    expected = decode(data, AS_PNG).convert("L").getpixel((8, 8))
    assert decode(data, ALL_MODES[1]).getpixel((8, 8)) == pytest.approx(expected, abs=1)
    assert expected < 60  # blue is darker than red
