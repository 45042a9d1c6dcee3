"""Pictures in, pictures out: colours, geometry, passing through, and everything that is broken."""

import io
import pathlib
import re
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageOps
from PIL.ImageFile import ImageFile
from PIL.JpegImagePlugin import JpegImageFile

from recordmill.errors import ConfigError, Filtered, Reason, RecordError
from transforms.encoders.augment import generator_for
from transforms.encoders.geometry import plan_resize
from transforms.encoders.pixels import ImageOptions, decode, encode, process, read_header

# Pytest undoes the filter that silences Pillow's warnings; `test_pillow_does_not_warn` sees to it.
pytestmark = pytest.mark.filterwarnings("ignore:::PIL")

ROOT = pathlib.Path(__file__).parents[1]
ODD = ROOT.parent / "shared" / "data" / "odd_images"
RED, GREEN, BLUE, WHITE, BLACK = (
    (255, 0, 0),
    (0, 255, 0),
    (0, 0, 255),
    (255, 255, 255),
    (0, 0, 0),
)
AS_PNG = ImageOptions(image_format="png")
ALL_MODES = [ImageOptions(image_format="png", mode=mode) for mode in ("rgb", "gray", "rgba")]


def saved(image, kind="PNG", **options):
    out = io.BytesIO()
    image.save(out, kind, **options)
    return out.getvalue()


def levels(image):
    return np.asarray(image).astype(int)


def distance(one, other):
    """Mean absolute difference, in levels."""
    return float(np.abs(levels(one) - levels(other)).mean())


def reject(data, options=AS_PNG):
    with pytest.raises(RecordError) as caught:
        process(data, options)
    return caught.value


def photo(width=120, height=90):
    """A smooth picture with detail, the same everywhere."""
    y, x = np.mgrid[:height, :width]
    waves = [127 + 120 * np.sin(x / (7 + c) + y / (11 - c)) for c in range(3)]
    return Image.fromarray(np.stack(waves, axis=-1).astype(np.uint8))


@pytest.fixture(scope="module")
def jpeg():
    return saved(photo(), "JPEG", quality=95)


# Everything that is odd


@pytest.mark.parametrize(
    "options",
    [ImageOptions(size=(64, 64)), ImageOptions(image_format="png", max_pixels=3_000_000)],
    ids=["jpeg-64", "png"],
)
def test_every_odd_picture_is_a_picture_or_a_reject(options):
    outcomes, details = {}, set()
    for path in sorted(ODD.glob("*/*.*")):
        try:
            picture = process(path.read_bytes(), options)
        except RecordError as error:
            outcomes[path.name] = error.reason
            details.add(error.detail)
        else:
            with Image.open(io.BytesIO(picture.data)) as image:
                image.load()
                assert image.size == (picture.width, picture.height)
                assert (image.format.lower(), image.mode) == (picture.format, "RGB")
            if options.size:
                assert (picture.height, picture.width, picture.channels) == (64, 64, 3)
            outcomes[path.name] = None
    assert len(outcomes) > 440
    assert not [detail for detail in details if not detail or " object at " in detail]
    expected = {
        "hopper.bmp": None,
        "pil_sample_cmyk.jpg": None,
        "16bit.cropped.jp2": None,
        "hopper_bad_exif.jpg": None,
        "truncated_jpeg.jpg": Reason.TRUNCATED,
        "truncated_image.png": Reason.TRUNCATED,
        "bmp__b__shortfile.bmp": Reason.TRUNCATED,
        "broken_data_stream.png": Reason.CORRUPT,
        "broken.png": Reason.CORRUPT,
        "png_decompression_dos.png": Reason.CORRUPT,
        "bmp__b__reallybig.bmp": Reason.TOO_MANY_PIXELS,
        "decompression_bomb.gif": Reason.TOO_MANY_PIXELS,
        "decompression_bomb.ico": Reason.TOO_MANY_PIXELS,
        "10ct_32bit_128.tiff": Reason.UNSUPPORTED,
    }
    assert {name: outcomes.get(name) for name in expected} == expected
    assert sum(reason is None for reason in outcomes.values()) > 400


# Turned pictures


@pytest.mark.parametrize("family", ["Landscape", "Portrait"])
def test_every_orientation_comes_out_upright(family):
    # Small, because the files are JPEGs of their own: at full size they differ by up to 3.7 levels.
    options = ImageOptions(image_format="png", size=(150, 150), resize_mode="fit")
    upright = decode((ODD / f"exif/{family}_1.jpg").read_bytes(), options)
    assert distance(upright, upright.transpose(Image.Transpose.FLIP_LEFT_RIGHT)) > 20
    for turn in range(9):
        data = (ODD / f"exif/{family}_{turn}.jpg").read_bytes()
        result = decode(data, options)
        assert result.size == upright.size
        assert distance(result, upright) <= 2
        header = read_header(data, options)
        assert (header.width > header.height) == (family == "Landscape")


@pytest.mark.parametrize("turn", [3, 6, 7])
def test_at_full_size_turning_is_all_that_happens(turn):
    data = (ODD / f"exif/Portrait_{turn}.jpg").read_bytes()
    with Image.open(io.BytesIO(data)) as image:
        expected = ImageOps.exif_transpose(image)
    assert decode(data, AS_PNG).tobytes() == expected.tobytes()


TURNED = [
    None,
    Image.Transpose.FLIP_LEFT_RIGHT,
    Image.Transpose.ROTATE_180,
    Image.Transpose.FLIP_TOP_BOTTOM,
    Image.Transpose.TRANSPOSE,
    Image.Transpose.ROTATE_90,
    Image.Transpose.TRANSVERSE,
    Image.Transpose.ROTATE_270,
]  # how a camera that writes orientation 1, 2, ... has turned the picture


@pytest.mark.parametrize("resize_mode", ["crop", "pad", "stretch", "fit"])
@pytest.mark.parametrize("turn", range(2, 9))
def test_resizing_a_turned_picture_is_resizing_the_upright_one(turn, resize_mode):
    image = photo(121, 64)
    exif = Image.Exif()
    exif[0x0112] = turn
    options = ImageOptions(size=(31, 40), resize_mode=resize_mode, image_format="png")
    expected = decode(saved(image), options)
    result = decode(saved(image.transpose(TURNED[turn - 1]), exif=exif), options)
    assert result.size == expected.size
    # Not 0: an odd rest of padding is above, and below once turned.
    assert resize_mode == "pad" or distance(result, expected) < 0.5
    assert resize_mode != "pad" or distance(result, expected) < 8


def test_orientation_after_the_pixels_of_a_png():
    tiff = b"MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    data = saved(photo(20, 10))
    late = data[:-12] + chunk(b"eXIf", tiff) + data[-12:]
    result = process(late, AS_PNG)
    assert (result.width, result.height) == (10, 20)


def test_metadata_that_makes_no_sense_does_not_cost_the_picture(jpeg):
    for junk in (b"Exif\0\0", b"Exif\0\0MM\0*\xff\xff\xff\xff", b"Exif\0\0 nonsense"):
        app1 = b"\xff\xe1" + struct.pack(">H", len(junk) + 2) + junk
        assert distance(decode(jpeg[:2] + app1 + jpeg[2:], AS_PNG), decode(jpeg, AS_PNG)) == 0


# Colours


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


def test_pixels_without_an_8_bit_meaning():
    floats = saved(Image.fromarray(np.zeros((2, 2), np.float32)), "TIFF")
    assert str(reject(floats)) == (
        "unsupported: pixels of type floating point have no 8-bit meaning"
    )
    for extreme in (-1, 65536):
        integers = saved(Image.fromarray(np.full((2, 2), extreme, np.int32)), "TIFF")
        error = reject(integers)
        assert error.reason == Reason.UNSUPPORTED
        assert f"from {extreme} to {extreme}: expected 0 to 65535" in error.detail


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


# ICC profiles


def profile_of(primaries, gamma):
    """An ICC v2 profile: matrix of D50-adapted primaries (rows X, Y, Z), one gamma for all."""

    def tag(kind, body):
        return kind + bytes(4) + body

    def xyz(column):
        return tag(b"XYZ ", b"".join(struct.pack(">i", round(v * 65536)) for v in column))

    curve = tag(b"curv", struct.pack(">IH", 1, round(gamma * 256))) + bytes(2)
    white = (0.9642, 1.0, 0.8249)
    tags = {b"wtpt": xyz(white)} | {
        name: xyz([row[place] for row in primaries])
        for place, name in enumerate((b"rXYZ", b"gXYZ", b"bXYZ"))
    }
    tags |= {b"rTRC": curve, b"gTRC": curve, b"bTRC": curve}
    offset, table, body = 128 + 4 + 12 * len(tags), b"", b""
    for name, content in tags.items():
        table += name + struct.pack(">II", offset + len(body), len(content))
        body += content
    head = bytearray(128)
    head[8:12], head[12:24], head[36:40] = b"\2\x20\0\0", b"mntrRGB XYZ ", b"acsp"
    head[68:80] = struct.pack(">3i", *(round(v * 65536) for v in white))
    data = struct.pack(">I", len(tags)) + table + body
    head[:4] = struct.pack(">I", len(data) + 128)
    return bytes(head) + data


# Source: https://registry.color.org/rgb-registry/displayp3, adapted to D50.
DISPLAY_P3 = ((0.5151, 0.2920, 0.1571), (0.2412, 0.6922, 0.0666), (-0.0011, 0.0419, 0.7841))
SWAPPED = tuple(row[::-1] for row in DISPLAY_P3)  # red where blue was
SRGB = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()


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
def test_a_profile_of_srgb_or_a_broken_one_changes_nothing(profile, jpeg):
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


# Passing through


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "jpeg"), ("L", "jpeg"), ("RGB", "png"), ("L", "png"), ("RGBA", "png")],
)
@pytest.mark.parametrize("extra", [{}, {"icc_profile": SRGB}], ids=["bare", "srgb"])
def test_what_complies_passes_through_untouched(mode, kind, extra):
    data = saved(photo().convert(mode), kind, **extra)
    colours = {"RGB": "rgb", "L": "gray", "RGBA": "rgba"}[mode]
    picture = process(data, ImageOptions(mode=colours, image_format=kind, quality=10))
    assert picture.data == data
    assert (picture.format, picture.width, picture.height) == (kind, 120, 90)
    same_size = ImageOptions(size=(90, 120), mode=colours, image_format=kind)
    assert process(data, same_size).data == data


def chunk(kind, body):
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def _turned():
    exif = Image.Exif()
    exif[0x0112] = 3
    return exif


JPEG, PNG = ImageOptions(), AS_PNG
RGB = photo()
CASES = {
    "gray where rgb is asked for": (saved(RGB.convert("L"), "JPEG"), JPEG),
    "rgb where gray is asked for": (saved(RGB, "JPEG"), ImageOptions(mode="gray")),
    "cmyk": (saved(RGB.convert("CMYK"), "JPEG"), JPEG),
    "turned": (saved(RGB, "JPEG", exif=_turned()), JPEG),
    "a profile": (saved(RGB, "JPEG", icc_profile=profile_of(DISPLAY_P3, 2.2)), JPEG),
    "another format": (saved(RGB, "PNG"), JPEG),
    "a size": (saved(RGB, "JPEG"), ImageOptions(size=(30, 30))),
    "bytes after the end": (saved(RGB, "JPEG") + b"tail", JPEG),
    "palette": (saved(RGB.convert("P")), PNG),
    "alpha": (saved(RGB.convert("RGBA")), PNG),
    "no alpha": (saved(RGB), ImageOptions(image_format="png", mode="rgba")),
    "a transparent colour": (saved(RGB, transparency=(0, 0, 0)), PNG),
    "16 bits": (saved(Image.fromarray(np.zeros((4, 4), np.uint16))), ALL_MODES[1]),
    "animated": (saved(RGB, save_all=True, append_images=[RGB.rotate(90)]), PNG),
    "raw": (saved(RGB), ImageOptions(image_format="raw")),
    "a wrong checksum in the pixels": (saved(RGB)[:-14] + b"\1\1" + saved(RGB)[-12:], PNG),
}


@pytest.mark.parametrize("case", CASES)
def test_what_does_not_comply_is_made_anew(case):
    data, options = CASES[case]
    picture = process(data, options)
    assert picture.data != data
    if picture.format != "raw":
        again = process(picture.data, ImageOptions(mode=options.mode, image_format=picture.format))
        assert again.data == picture.data
    assert len(encode(decode(data, options), options)) == len(picture.data)


def test_four_bits_are_made_anew():
    header = struct.pack(">IIBBBBB", 2, 1, 4, 0, 0, 0, 0)
    data = b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header)
    data += chunk(b"IDAT", zlib.compress(b"\0\xf0")) + chunk(b"IEND", b"")
    picture = process(data, ALL_MODES[1])
    assert picture.data != data
    assert levels(Image.open(io.BytesIO(picture.data))).tolist() == [[255, 0]]


def test_augmented_pictures_do_not_pass_through(jpeg):
    picture = process(jpeg, ImageOptions(), ("brightness",), generator_for(0, key="k", copy=1))
    assert picture.data != jpeg
    with pytest.raises(ValueError, match="need a generator"):
        process(jpeg, ImageOptions(), ("brightness",))


def test_what_passes_through_decodes_fully(jpeg):
    assert reject(jpeg[:-2], ImageOptions()).reason == Reason.TRUNCATED


def test_no_metadata_is_written_along():
    exif = _turned()
    data = saved(RGB, "JPEG", exif=exif, comment=b"secret", icc_profile=profile_of(DISPLAY_P3, 2))
    for options in (JPEG, PNG):
        picture = process(data, options)
        assert b"secret" not in picture.data
        with Image.open(io.BytesIO(picture.data)) as image:
            assert not {"icc_profile", "exif", "comment", "transparency"} & image.info.keys()


# Geometry

SIDES = st.integers(1, 300)


@given(SIDES, SIDES, SIDES, SIDES, st.sampled_from(["crop", "pad", "stretch", "fit"]))
@settings(max_examples=400, deadline=None)
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
@settings(max_examples=60, deadline=None)
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


# Scaled decoding


def test_scaled_decoding_costs_no_quality(shared_data, monkeypatch):
    paths = sorted((shared_data / "photos").glob("*.JPEG"))[::7]
    pictures = [path.read_bytes() for path in paths]
    options = ImageOptions(size=(48, 48), image_format="raw")
    drafted = [decode(data, options) for data in pictures]
    monkeypatch.setattr(JpegImageFile, "draft", lambda *_: None)
    full = [decode(data, options) for data in pictures]
    differences = [distance(one, other) for one, other in zip(drafted, full, strict=True)]
    assert len(differences) >= 20
    assert 0 < np.mean(differences) <= 0.5


@given(st.integers(1, 900), st.integers(1, 900), st.integers(1, 60), st.integers(1, 60))
@settings(max_examples=40, deadline=None)
def test_scaled_decoding_never_enlarges(width, height, target_height, target_width):
    data = saved(Image.new("L", (width, height)), "JPEG")
    seen = []

    def spy(image, size, *arguments, **options):
        seen.append((image.size, size))
        return resize(image, size, *arguments, **options)

    resize = Image.Image.resize
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Image.Image, "resize", spy)
        for resize_mode in ("crop", "fit"):
            options = ImageOptions(size=(target_height, target_width), resize_mode=resize_mode)
            decode(data, options)
    for decoded, size in seen:
        assert decoded[0] >= min(width, size[0])
        assert decoded[1] >= min(height, size[1])


# Bombs and broken files


def png_header(width, height):
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", b"") + chunk(b"IEND", b"")


def icon_of(picture):
    return struct.pack("<HHHBBBBHHII", 0, 1, 1, 16, 16, 0, 0, 1, 32, len(picture), 22) + picture


def dib_header(width, height):
    return struct.pack("<IiiHHIIiiII", 40, width, height * 2, 1, 32, 0, 0, 0, 0, 0, 0)


BOMBS = {
    "png": png_header(50_000, 50_000),
    "png in an icon": icon_of(png_header(50_000, 50_000)),
    "bitmap in an icon": icon_of(dib_header(50_000, 50_000)),
    "bmp": b"BM" + struct.pack("<IIIIIIHH", 0, 0, 54, 40, 50_000, 50_000, 1, 24) + bytes(24),
    "tga": struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, 50_000, 50_000, 24, 0x20),
    "pnm": b"P6 50000 50000 255\n",
}


@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_is_rejected_by_its_header(bomb, monkeypatch):
    def load(*_):
        raise AssertionError("decoded a bomb")

    monkeypatch.setattr(ImageFile, "load", load)
    for act in (process, decode, read_header):
        with pytest.raises(RecordError) as caught:
            act(BOMBS[bomb], AS_PNG)
        assert caught.value.reason == Reason.TOO_MANY_PIXELS
        assert caught.value.detail == "50000x50000 pixels, more than --max-pixels 178956970"


def test_a_gif_whose_frame_is_larger_than_its_screen():
    data = saved(Image.new("P", (300, 300)), "GIF")
    assert data[6:10] == struct.pack("<HH", 300, 300)
    small_screen = data[:6] + struct.pack("<HH", 1, 1) + data[10:]
    error = reject(small_screen, ImageOptions(max_pixels=1000))
    assert str(error) == "too_many_pixels: 300x300 pixels, more than --max-pixels 1000"


def test_max_pixels_is_inclusive(jpeg):
    process(jpeg, ImageOptions(max_pixels=120 * 90))
    assert reject(jpeg, ImageOptions(max_pixels=120 * 90 - 1)).reason == Reason.TOO_MANY_PIXELS


def test_max_pixels_may_be_more_than_pillows_own_limit(monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 10)
    assert process(saved(photo()), AS_PNG).width == 120


def test_text_and_profiles_that_unfold():
    bomb = zlib.compress(bytes(100_000_000))
    for kind, head in ((b"zTXt", b"t\0\0"), (b"iCCP", b"p\0\0"), (b"iTXt", b"t\0\1\0\0\0")):
        data = saved(photo())
        error = reject(data[:33] + chunk(kind, head + bomb) + data[33:])
        assert str(error) == "corrupt: text or a profile in the PNG unfolds to megabytes"


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize("options", [JPEG, ImageOptions(size=(20, 20))], ids=["whole", "scaled"])
def test_a_truncated_jpeg_is_never_accepted(options, progressive):
    data = saved(photo(300, 200), "JPEG", progressive=progressive)
    places = [*np.linspace(2, len(data) - 3, 30).astype(int), len(data) - 2, len(data) - 1]
    for place in places:
        # Even where just the end marker is missing: all pixels may be there, but nobody knows.
        assert reject(data[:place], options).reason in (
            Reason.TRUNCATED,
            Reason.CORRUPT,
            Reason.NOT_AN_IMAGE if place < 3 else Reason.TRUNCATED,
        )


@pytest.mark.parametrize("kind", ["PNG", "GIF", "BMP", "TIFF", "WEBP", "PPM", "TGA", "AVIF"])
def test_other_formats_cut_in_half(kind):
    data = saved(photo(), kind)
    error = reject(data[: len(data) // 2])
    assert error.reason in (Reason.TRUNCATED, Reason.CORRUPT)


MESSAGES = {
    b"": "empty: the file is empty",
    b"<!DOCTYPE html><html>": (
        "not_an_image: starts with b'<!DOCTYPE ht', which is none of JPEG, PNG, GIF, WebP, BMP, "
        "TIFF, AVIF, JPEG 2000, PNM, ICO, TGA"
    ),
    bytes(100): "not_an_image: starts with b'\\x00\\x00",
    b"%!PS-Adobe-3.0 EPSF-3.0\n": "not_an_image: starts with b'%!PS-Adobe-3'",
    b"\xff\xd8\xff": "corrupt: starts as a JPEG, but its content is broken",
    b"\x89PNG\r\n\x1a\n" + bytes(40): "corrupt: starts as a PNG, but its content is broken",
    png_header(0, 5): "corrupt: starts as a PNG, but its content is broken",
    saved(photo(), "JPEG").replace(b"\0\x5a\0\x78\3", b"\0\0\0\x78\3"): (
        "corrupt: 120x0 pixels, by its header"
    ),
    saved(photo())[:-40]: "truncated: the PNG ends before the picture is complete",
    icon_of(b""): "corrupt: starts as a ICO, but its content is broken",
    b"P6 2 2 255\nxx": "truncated: the PNM ends before the picture is complete",
}


@pytest.mark.parametrize("data", MESSAGES, ids=range(len(MESSAGES)))
def test_messages(data):
    assert str(reject(data)).startswith(MESSAGES[data])


def test_pillow_does_not_warn():
    code = (
        "import pathlib, sys; from transforms.encoders.pixels import ImageOptions, process\n"
        "for path in sys.argv[1:]: process(pathlib.Path(path).read_bytes(), ImageOptions())"
    )
    names = ["hopper_unexpected.ico", "apng__chunk_multi_actl.png", "hopper_bad_exif.jpg"]
    paths = [str(ODD / "pillow" / name) for name in names]
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *paths],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.stderr, result.returncode) == ("", 0)


def test_min_size(jpeg):
    with pytest.raises(Filtered) as caught:
        process(jpeg, ImageOptions(min_size=91))
    assert caught.value.option == "min-size"
    assert process(jpeg, ImageOptions(min_size=90)).height == 90


def test_a_side_that_jpeg_cannot_hold():
    data = saved(Image.new("L", (65_501, 1)))
    assert str(reject(data, ImageOptions(mode="gray"))) == (
        "unsupported: 65501x1 pixels, more than the 65500 a side of a JPEG"
    )


def test_the_header_is_read_from_a_stream_without_its_pixels():
    data = saved(Image.effect_noise((1500, 1500), 100), "JPEG")

    class Counted(io.BytesIO):
        total = 0

        def read(self, size=-1):
            found = super().read(size)
            self.total += len(found)
            return found

    file = Counted(data)
    header = read_header(file, AS_PNG)
    assert (header.format, header.width, header.height) == ("JPEG", 1500, 1500)
    assert file.total < 5000 < len(data)


def test_errors_of_the_file_layer_stay_what_they_are():
    class Failing(io.BytesIO):
        def read(self, size=-1):
            if self.tell():
                raise RecordError(Reason.UNREADABLE, "Input/output error")
            return super().read(size)

    with pytest.raises(RecordError, match="unreadable: Input/output error"):
        read_header(Failing(saved(photo())), AS_PNG)


# Raw pixels


@pytest.mark.parametrize("options", ALL_MODES, ids=lambda options: options.mode)
def test_raw_bytes_are_the_pixels(options):
    raw = ImageOptions(image_format="raw", mode=options.mode)
    picture = process(saved(photo()), raw)
    pixels = np.frombuffer(picture.data, np.uint8)
    pixels = pixels.reshape(picture.height, picture.width, picture.channels)
    expected = decode(saved(photo()), options)
    np.testing.assert_array_equal(pixels.squeeze(), np.asarray(expected))


@pytest.mark.parametrize("mode", ["gray", "rgb", "rgba"])
@pytest.mark.parametrize("normalize", ["unit", "signed", "imagenet"])
def test_normalized_raw(normalize, mode):
    if normalize == "imagenet" and mode != "rgb":
        with pytest.raises(ConfigError, match="--normalize imagenet: its means are of --mode rgb"):
            ImageOptions(image_format="raw", normalize=normalize, mode=mode)
        return
    options = ImageOptions(image_format="raw", normalize=normalize, mode=mode)
    picture = process(saved(photo()), options)
    result = np.frombuffer(picture.data, "<f4")
    pixels = levels(decode(saved(photo()), options)).reshape(90, 120, picture.channels)
    expected = {
        "unit": pixels / 255,
        "signed": pixels / 127.5 - 1,
        "imagenet": (pixels[..., :3] / 255 - (0.485, 0.456, 0.406)[: picture.channels])
        / (0.229, 0.224, 0.225)[: picture.channels]
        if picture.channels == 3
        else None,
    }[normalize]
    np.testing.assert_allclose(result, expected.ravel(), atol=1e-6)
    if normalize == "signed":
        assert result.min() >= -1
        assert result.max() <= 1


def test_quality_matters(jpeg):
    sizes = [
        len(process(jpeg, ImageOptions(size=(60, 60), quality=quality)).data)
        for quality in (20, 60, 90)
    ]
    assert sizes == sorted(sizes)
    assert len(set(sizes)) == 3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": (0, 224)}, "--size: expected height and width from 1 to 65500"),
        ({"size": (224,)}, "--size: expected height and width"),
        ({"size": (60_000, 60_000)}, "--size: 60000x60000 is more than --max-pixels 178956970"),
        ({"size": (9, 9), "resize_mode": "none"}, "--resize-mode none: contradicts --size"),
        ({"resize_mode": "pad"}, "--resize-mode pad: needs a --size"),
        ({"resize_mode": "cover"}, "--resize-mode: expected one of crop, pad, stretch, fit, none"),
        ({"mode": "cmyk"}, "--mode: expected one of rgb, gray, rgba, got cmyk"),
        ({"mode": "rgba"}, "--mode rgba: JPEG holds no alpha; take --image-format png"),
        ({"image_format": "webp"}, "--image-format: expected one of jpeg, png, raw, got webp"),
        ({"quality": 0}, "--quality: expected 1 to 95, got 0"),
        ({"normalize": "unit"}, "--normalize unit: only --image-format raw holds floats, got jpeg"),
        ({"normalize": "zscore"}, "--normalize: expected one of none, unit, signed, imagenet"),
        ({"background": (0, 0, 256)}, "--background: expected red, green and blue from 0 to 255"),
        ({"max_pixels": 0}, "--max-pixels: expected 1 to"),
        ({"min_size": -1}, "--min-size: expected 0 to"),
    ],
)
def test_options_that_cannot_work(options, message):
    with pytest.raises(ConfigError, match=re.escape(message)):
        ImageOptions(**options)
