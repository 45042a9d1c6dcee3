"""Images with 16 bits per channel, compared pixel by pixel with NumPy."""

import dataclasses
import io
import itertools
import struct
import zlib

import numpy as np
import pytest
from PIL import Image

from recordmill.errors import ConfigError, Reason
from recordmill.image_constants import MAX_LEVEL_CHANGE
from recordmill.transforms.imaging import pixels as imaging
from recordmill.transforms.imaging.augment import AUGMENTATIONS, augment
from recordmill.transforms.imaging.bit_depth import (
    can_keep_16_bits,
    correct_raw_modes,
    stored_bits,
    to_16_bits,
)
from recordmill.transforms.imaging.headers import open_image
from recordmill.transforms.imaging.image16 import Image16
from recordmill.transforms.imaging.pixels import ImageOptions, process
from tests.images16 import png16, read_png16, tiff, waves
from tests.pictures import DISPLAY_P3, SRGB, chunk, photo, profile_of, reject, saved

# Pytest undoes the filter that silences Pillow's warnings; `test_pillow_does_not_warn` sees to it.
pytestmark = pytest.mark.filterwarnings("ignore:::PIL")

MODES = {1: "gray", 3: "rgb", 4: "rgba"}  # by the number of channels


def raw(**options):
    return ImageOptions(image_format="raw", depth="16", **options)


def read(data, options):
    """Return the written pixels of a file: uint16[height, width, channels]."""
    made = process(data, options)
    shape = (made.height, made.width, made.channels)
    return np.frombuffer(made.data, "<u2").reshape(shape).astype(int)


def files_of(pixels):
    """Return files with the same 16-bit pixels, by the name of their kind."""
    channels = pixels.shape[2]
    extra = 2 if channels == 4 else None
    files = {"png": png16(pixels)}
    for order, planar, deflate in itertools.product("<>", (False, channels > 1), (False, True)):
        if not (planar and deflate):  # Pillow reads only 8 bits of those
            name = f"tiff{order}{'planar' if planar else ''}{'deflate' if deflate else ''}"
            files[name] = tiff(pixels, order=order, planar=planar, deflate=deflate, extra=extra)
    if channels == 3:
        head = f"P6 {pixels.shape[1]} {pixels.shape[0]} 65535\n".encode()
        files["ppm"] = head + pixels.astype(">u2").tobytes()
    return files


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_pixels_of_files_keep_16_bits(channels):
    pixels = waves(channels=channels)
    for name, data in files_of(pixels).items():
        result = read(data, raw(mode=MODES[channels]))
        assert (result == pixels).all(), name


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_png_of_16_bits_is_read_back(channels):
    pixels = waves(height=70, channels=channels)  # more rows than are filtered at once
    options = ImageOptions(image_format="png", depth="16", mode=MODES[channels])
    made = process(tiff(pixels, extra=2 if channels == 4 else None), options)
    assert (read_png16(made.data) == pixels).all()
    high = np.asarray(Image.open(io.BytesIO(made.data))).reshape(pixels.shape)
    assert (high == (pixels if channels == 1 else pixels >> 8)).all()
    assert len(made.data) < len(png16(pixels))


def test_compliant_png_keeps_its_bytes_and_8_bits_do_not():
    options = ImageOptions(image_format="png", depth="16")
    deep, shallow = png16(waves()), saved(photo())
    assert process(deep, options).data == deep
    assert (
        read_png16(process(shallow, options).data) == np.asarray(photo()).astype(int) * 257
    ).all()
    assert process(deep, dataclasses.replace(options, depth="8")).data[24] == 8
    transparent = png16(waves(channels=2))  # Pillow's mode is that of RGBA
    assert process(transparent, dataclasses.replace(options, mode="rgba")).data[25] == 6


def test_files_of_8_bits_give_257_times_the_levels():
    image = photo()
    for kind in ("PNG", "JPEG", "GIF", "WEBP", "BMP"):
        data = saved(image, kind)
        for options in (raw(size=(40, 50)), raw(mode="gray"), raw(mode="rgba", size=(30, 30))):
            shallow = process(data, dataclasses.replace(options, depth="8"))
            levels = np.frombuffer(shallow.data, np.uint8).astype(int)
            assert (read(data, options).ravel() == levels * 257).all()


def test_alpha_and_transparent_colours():
    pixels = waves(channels=2)
    gray, alpha = pixels[..., :1].astype(float), pixels[..., 1:] / 65535
    options = raw(mode="gray", background=(0, 0, 0))
    assert np.abs(read(png16(pixels), options) - gray * alpha).max() <= 1
    options = raw(background=(255, 255, 255))
    expected = np.repeat(65535 + (gray - 65535) * alpha, 3, axis=2)
    assert np.abs(read(png16(pixels), options) - expected).max() <= 1

    colours = waves()
    colours[3, 5] = colours[4, 6] = (12345, 777, 65535)
    key = struct.pack(">IHHH", 6, 12345, 777, 65535)
    data = png16(colours, chunk(b"tRNS", key[4:]))
    alpha = read(data, raw(mode="rgba"))[..., 3]
    assert np.argwhere(alpha == 0).tolist() == [[3, 5], [4, 6]]
    assert (np.unique(alpha) == (0, 65535)).all()


def test_premultiplied_tiff_is_divided_by_alpha():
    straight = waves(channels=4).astype(float)
    straight[..., 3] = straight[..., 3] / 2 + 30000
    weighted = straight.copy()
    weighted[..., :3] *= straight[..., 3:] / 65535
    data = tiff(np.rint(weighted).astype(np.uint16), extra=1)
    assert np.abs(read(data, raw(mode="rgba")) - np.rint(straight)).max() <= 2


def test_gray_of_colours_and_colours_of_gray():
    pixels = waves()
    luma = pixels @ np.array([0.299, 0.587, 0.114])
    assert np.abs(read(png16(pixels), raw(mode="gray"))[..., 0] - luma).max() <= 1
    gray = waves(channels=1)
    assert (read(png16(gray), raw()) == gray).all()


def test_twelve_bits_and_windows():
    pixels = waves(channels=1, top=4095)
    data = png16(pixels)
    assert (read(data, raw(mode="gray")) == pixels).all()  # the file does not state 12 bits
    for low, high in ((0, 4095), (100, 3000)):
        scaled = np.clip((pixels.astype(float) - low) / (high - low), 0, 1) * 65535
        window = raw(mode="gray", intensity_window=(low, high))
        assert np.abs(read(data, window) - scaled).max() <= 0.5
        assert (read(png16(waves()), dataclasses.replace(window, mode="rgb")) == waves()).all()
    floats = waves(channels=1).astype(np.float32) / 65535
    window = raw(mode="gray", intensity_window=(0, 1))
    assert (read(tiff(floats, kind=3), window) == waves(channels=1)).all()


def triangle(size, source, start, stop):
    """Return the weights of an antialiased triangle filter: float64[size, source]."""
    scale = (stop - start) / size
    support = max(scale, 1)
    centres = start + (np.arange(size) + 0.5) * scale
    distance = np.abs(np.arange(source) + 0.5 - centres[:, None]) / support
    weights = np.clip(1 - distance, 0, None)
    return weights / weights.sum(axis=1, keepdims=True)


@pytest.mark.parametrize("channels", [1, 3])
def test_resize_is_a_triangle_filter(channels):
    pixels = waves(height=60, width=90, channels=channels)
    data = png16(pixels)
    options = raw(mode=MODES[channels], size=(20, 20), resize_mode="stretch")
    expected = np.einsum(
        "yh,xw,hwc->yxc", triangle(20, 60, 0, 60), triangle(20, 90, 0, 90), pixels.astype(float)
    )
    assert np.abs(read(data, options) - expected).max() <= 1
    centre = np.einsum(
        "yh,xw,hwc->yxc", triangle(20, 60, 0, 60), triangle(20, 90, 15, 75), pixels.astype(float)
    )
    crop = dataclasses.replace(options, resize_mode="crop")
    assert np.abs(read(data, crop) - centre).max() <= 1


def test_padding_is_the_background():
    pixels = waves(height=20, width=10)
    padded = read(png16(pixels), raw(size=(20, 20), resize_mode="pad", background=(255, 128, 0)))
    assert (padded[:, 5:15] == pixels).all()
    assert (padded[:, :5] == np.array([65535, 128 * 257, 0])).all()
    gray = read(png16(pixels[..., :1]), raw(mode="gray", size=(20, 20), resize_mode="pad"))
    assert (gray[:, 15:] == 65535).all()


def test_transparent_colours_do_not_bleed_when_resized():
    pixels = np.zeros((64, 64, 4), np.uint16)
    pixels[:, :, 0] = 65535
    pixels[:, :33] = (0, 0, 65535, 65535)
    result = read(png16(pixels), raw(mode="rgba", size=(8, 8)))
    assert (result[..., 0][result[..., 3] > 0] == 0).all()
    assert (result[:, :3] == (0, 0, 65535, 65535)).all()


@pytest.mark.parametrize("turn", range(1, 9))
def test_orientations(turn):
    exif = Image.Exif()
    exif[0x0112] = turn
    pixels = waves(height=6, width=9)
    data = png16(pixels, chunk(b"eXIf", exif.tobytes().removeprefix(b"Exif\0\0")))
    upright = imaging.UPRIGHT.get(turn)
    bands = [Image.fromarray(np.ascontiguousarray(pixels[..., band])) for band in range(3)]
    expected = [np.asarray(band if upright is None else band.transpose(upright)) for band in bands]
    for one in (data, tiff(pixels, orientation=turn), tiff(pixels, orientation=turn, deflate=True)):
        assert (read(one, raw()) == np.stack(expected, axis=-1)).all()


@pytest.mark.parametrize("name", AUGMENTATIONS)
def test_augmentations_agree_with_8_bits(name):
    """Twice the same draws: on 8 bits by Pillow, and on 16 bits."""
    image = photo()
    for mode in ("RGB", "L", "RGBA"):
        shallow = image.convert(mode)
        deep, step = augment(Image16.of_8_bits(shallow), [name], np.random.default_rng(3))
        pillow, same_step = augment(shallow, [name], np.random.default_rng(3))
        assert step == same_step
        levels = np.asarray(pillow).astype(float).reshape(deep.pixels.shape)
        assert np.abs(deep.pixels / 257 - levels).max() <= 1.5
        if mode == "RGBA":
            assert (deep.pixels[..., 3] == 65535).all()


def test_brightness_reaches_the_whole_range():
    pixels = waves(channels=1)
    rng = np.random.default_rng(3)
    deep, _ = augment(Image16(pixels), ["brightness"], np.random.default_rng(3))
    factor = rng.uniform(1 - MAX_LEVEL_CHANGE, 1 + MAX_LEVEL_CHANGE)
    assert np.abs(deep.pixels - np.clip(pixels * factor, 0, 65535)).max() <= 1
    assert deep.pixels.max() > 40_000


def test_floats_are_scaled_by_65535():
    pixels = waves()
    for how, expected in (("unit", pixels / 65535), ("signed", pixels / 32767.5 - 1)):
        made = process(png16(pixels), raw(normalize=how))
        floats = np.frombuffer(made.data, "<f4").reshape(pixels.shape)
        assert np.abs(floats - expected).max() < 1e-6


def test_reduction_to_8_bits_is_by_the_full_range_and_reported():
    pixels = waves(channels=1, top=4095)
    gray = ImageOptions(image_format="raw", mode="gray")
    made = process(png16(pixels), gray)
    assert made.reduced == pixels.max()
    levels = np.frombuffer(made.data, np.uint8)
    assert (levels == np.rint(pixels / 257).ravel()).all()
    assert len(np.unique(levels)) <= 17
    colour = ImageOptions(image_format="raw")
    for name, data in files_of(waves(top=4095)).items():
        made = process(data, colour)
        assert made.reduced == (0x10FF if name == "ppm" else 0x0FFF), name
        if name != "ppm":  # Pillow rounds those
            assert (np.frombuffer(made.data, np.uint8) == (waves(top=4095) >> 8).ravel()).all()
    for options in (dataclasses.replace(gray, depth="8"), dataclasses.replace(gray, depth="16")):
        assert process(png16(pixels), options).reduced is None
    assert (
        process(png16(pixels), dataclasses.replace(gray, intensity_window=(0, 9))).reduced is None
    )
    assert process(saved(photo()), colour).reduced is None


def test_pixels_that_pillow_reads_with_8_bits_are_reported():
    """Compressed planes, JPEG 2000, and colour profiles other than sRGB."""
    pixels = waves()
    profiled = png_with_profile(pixels, profile_of(DISPLAY_P3, 2.2))
    for data in (tiff(pixels, planar=True, deflate=True), profiled):
        shallow = process(data, ImageOptions(image_format="raw"))
        levels = np.frombuffer(shallow.data, np.uint8).astype(int)
        assert (read(data, raw()).ravel() == levels * 257).all()
        assert process(data, raw()).reduced == shallow.reduced == pixels.max() | 0xFF
    assert (read(png_with_profile(pixels, SRGB), raw()) == pixels).all()
    gray = Image.fromarray(waves(channels=1)[..., 0])
    assert (read(saved(gray, "JPEG2000"), raw(mode="gray")) == waves(channels=1)).all()


def test_headers_tell_which_files_keep_16_bits():
    """By the head of a file it is known whether decoding it gives more than 8 bits."""
    profiled = png_with_profile(waves(), profile_of(DISPLAY_P3, 2.2))
    gray = Image.fromarray(waves(channels=1)[..., 0])
    plain = b"P3 2 1 65535 " + b"65535 256 1 0 0 7\n"
    files = {
        **{
            f"{name} of {n}": data
            for n in MODES
            for name, data in files_of(waves(channels=n)).items()
        },
        "compressed planes": tiff(waves(), planar=True, deflate=True),
        "profile": profiled,
        "gray JPEG 2000": saved(gray, "JPEG2000"),
        "JPEG 2000 of 8 bits": saved(photo(), "JPEG2000"),
        "plain PPM": plain,
        "PNG of 8 bits": saved(photo(), "PNG"),
        "JPEG": saved(photo(), "JPEG"),
    }
    found = {}
    for name, data in files.items():
        told = can_keep_16_bits(open_image(io.BytesIO(data), raw()), data[:65536])
        image = open_image(io.BytesIO(data), raw())
        correct_raw_modes(image)
        image.load()
        found[name] = told
        assert told == (stored_bits(image, data) > 8 and to_16_bits(image, data) is not None), name
    shallow = {"compressed planes", "profile", "plain PPM"}
    assert {name for name, told in found.items() if not told} == {
        *shallow,
        *("JPEG 2000 of 8 bits", "PNG of 8 bits", "JPEG"),
    }


def png_with_profile(pixels, profile):
    return png16(pixels, chunk(b"iCCP", b"profile\0\0" + zlib.compress(profile)))


def test_depth_that_the_format_lacks():
    with pytest.raises(ConfigError, match=r"depth=.16.: image_format=.jpeg. .* or raw"):
        ImageOptions(depth="16")
    with pytest.raises(ConfigError, match=r"depth: expected one of auto, 8, 16, got .12"):
        ImageOptions(depth="12")


def test_integers_beyond_16_bits_are_rejected():
    pixels = np.array([[[0], [70000]]], np.int32)
    error = reject(tiff(pixels, kind=2), raw(mode="gray"))
    assert error.reason == Reason.UNSUPPORTED
    assert "--intensity-window LOW:HIGH" in error.detail


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("deflate", [False, True])
def test_numbers_of_both_byte_orders(order, deflate):
    pixels = waves(channels=1)
    whole, floats = raw(mode="gray"), raw(mode="gray", intensity_window=(0, 1))
    for stored, kind, options, expected in (
        ((pixels // 2).astype(np.int16), 2, whole, pixels // 2),
        (pixels.astype(np.int32), 2, whole, pixels),
        ((pixels / 65535).astype(np.float32), 3, floats, pixels),
    ):
        data = tiff(stored, kind=kind, order=order, deflate=deflate)
        assert (read(data, options) == expected).all()


def test_tiff_in_which_0_is_white_is_inverted():
    pixels = waves(channels=1)
    data = tiff(65535 - pixels, photometric=0)
    assert (read(data, raw(mode="gray")) == pixels).all()
    assert (read(data, raw(mode="gray", intensity_window=(0, 65535))) == pixels).all()
    shallow = process(data, ImageOptions(image_format="raw", mode="gray"))
    assert (np.frombuffer(shallow.data, np.uint8) == np.rint(pixels / 257).ravel()).all()


def test_types_of_tiff_that_pillow_cannot_open_are_named():
    floats = waves(channels=1) / 65535
    advice = (
        "; Pillow reads only 32-bit floating point in 1 channel: convert the file to that, and use"
        " --intensity-window LOW:HIGH"
    )
    cases = {
        "64-bit floating point in 1 channel" + advice: tiff(floats, kind=3),
        "16-bit floating point in 1 channel" + advice: tiff(floats.astype(np.float16), kind=3),
        "32-bit floating point in 3 channels" + advice: tiff(waves().astype(np.float32), kind=3),
        "32-bit integers in 3 channels, which Pillow cannot read": tiff(waves().astype(np.uint32)),
        "16-bit integers in 5 channels, which Pillow cannot read": tiff(waves(channels=5), extra=0),
    }
    for text, data in cases.items():
        error = reject(data)
        assert (error.reason, error.detail) == (Reason.UNSUPPORTED, f"a TIFF of {text}")
    assert reject(tiff(floats, kind=99)).reason == Reason.CORRUPT


@pytest.mark.parametrize("top", [4095, 65535])
def test_window_of_the_range_of_the_image(top):
    pixels = waves(channels=1, top=top).astype(float)
    low, high = pixels.min(), pixels.max()
    expected = (pixels - low) / (high - low)
    data = png16(pixels.astype(np.uint16))
    deep = read(data, raw(mode="gray", intensity_window="image"))
    assert np.abs(deep - expected * 65535).max() <= 0.5
    options = ImageOptions(image_format="raw", mode="gray", intensity_window="image")
    levels = np.frombuffer(process(data, options).data, np.uint8)
    assert np.abs(levels - expected.ravel() * 255).max() <= 0.5


def test_window_of_the_range_of_floats_that_are_not_finite():
    floats = np.array([[[np.nan], [-np.inf], [1.5], [2.5], [2.0], [np.inf]]], np.float32)
    result = read(tiff(floats, kind=3), raw(mode="gray", intensity_window="image"))
    assert result.ravel().tolist() == [0, 0, 0, 65535, 32768, 65535]
    for value in (7.0, np.nan):
        constant = tiff(np.full((2, 3, 1), value, np.float32), kind=3)
        assert not read(constant, raw(mode="gray", intensity_window="image")).any()
    error = reject(tiff(floats, kind=3))
    assert error.detail.startswith("the pixels are floating point")


@pytest.mark.parametrize(("flags", "bits"), [(0x00, 8), (0x40, 10), (0x60, 12)])
def test_bits_of_files_that_pillow_reads_with_8(flags, bits):
    avif = saved(photo(), "AVIF")  # Pillow decodes it when it is opened
    data = bytearray(avif)
    data[data.find(b"av1C") + 6] |= flags
    assert stored_bits(open_image(io.BytesIO(avif), raw()), bytes(data)) == bits
    data = bytearray(saved(photo(), "JPEG2000"))
    data[data.find(b"\xff\x4f\xff\x51") + 42] = bits - 1
    assert stored_bits(open_image(io.BytesIO(data), raw()), bytes(data)) == bits
    plain = f"P3 1 1 {(1 << bits) - 1} 1 2 3".encode()
    assert stored_bits(open_image(io.BytesIO(plain), raw()), plain) == bits
