"""Pictures in, pictures out: every odd one, turned ones, passing through, raw pixels."""

import io
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.transforms.imaging.pixels import ImageOptions, decode, encode, process, read_header
from recordmill.transforms.model.generators import generator_for
from tests.paths import ODD
from tests.pictures import (
    ALL_MODES,
    AS_PNG,
    DISPLAY_P3,
    SRGB,
    chunk,
    distance,
    levels,
    photo,
    profile_of,
    reject,
    saved,
)

# Pytest undoes the filter that silences Pillow's warnings; `test_pillow_does_not_warn` sees to it.
pytestmark = pytest.mark.filterwarnings("ignore:::PIL")


@pytest.fixture(scope="module")
def jpeg():
    return saved(photo(), "JPEG", quality=95)


@pytest.mark.parametrize(
    "options",
    [ImageOptions(size=(64, 64)), ImageOptions(image_format="png", max_pixels=1_000_000)],
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
    assert len(outcomes) > 300
    assert not [detail for detail in details if not detail or " object at " in detail]
    expected = {
        "hopper.bmp": None,
        "pil_sample_cmyk.jpg": None,
        "16bit.cropped.jp2": None,
        "hopper_bad_exif.jpg": None,
        "apng__delay.png": None,
        "tiff_strip_cmyk_jpeg.tif": None,
        "truncated_jpeg.jpg": Reason.TRUNCATED,
        "truncated_image.png": Reason.TRUNCATED,
        "bmp__b__shortfile.bmp": Reason.TRUNCATED,
        "cross_scan_line_truncated.tga": Reason.TRUNCATED,
        "not_enough_data.jp2": Reason.TRUNCATED,
        "broken_data_stream.png": Reason.CORRUPT,
        "broken.png": Reason.CORRUPT,
        "crash-2020-10-test.tif": Reason.CORRUPT,
        "png_decompression_dos.png": Reason.CORRUPT,
        "bmp__b__reallybig.bmp": Reason.TOO_MANY_PIXELS,
        "bmp__b__badwidth.bmp": Reason.TOO_MANY_PIXELS,
        "decompression_bomb.gif": Reason.TOO_MANY_PIXELS,
        "decompression_bomb.ico": Reason.TOO_MANY_PIXELS,
        "10ct_32bit_128.tiff": Reason.UNSUPPORTED,
        "bmp__q__pal2.bmp": Reason.UNSUPPORTED,
    }
    assert {name: outcomes.get(name) for name in expected} == expected
    assert sum(reason is None for reason in outcomes.values()) > 255


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


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("RGB", "jpeg"), ("L", "jpeg"), ("RGB", "png"), ("L", "png"), ("RGBA", "png")],
)
@pytest.mark.parametrize("extra", [{}, {"icc_profile": SRGB}], ids=["bare", "srgb"])
def test_what_complies_passes_through_untouched(mode, kind, extra):
    data = saved(photo().convert(mode), kind, **extra)
    colours = {"RGB": "rgb", "L": "gray", "RGBA": "rgba"}[mode]
    quality = {"quality": 10} if kind == "jpeg" else {}
    picture = process(data, ImageOptions(mode=colours, image_format=kind, **quality))
    assert picture.data == data
    assert (picture.format, picture.width, picture.height) == (kind, 120, 90)
    same_size = ImageOptions(size=(90, 120), mode=colours, image_format=kind)
    assert process(data, same_size).data == data


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
        with pytest.raises(ConfigError, match=r"normalize=.imagenet.: requires mode=.rgb"):
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


def test_broken_avif_is_an_image_or_a_reject() -> None:
    """libavif reports some broken bytes as a RuntimeError."""
    out = io.BytesIO()
    Image.new("RGB", (8, 8), (200, 30, 90)).save(out, "AVIF")
    sound = out.getvalue()
    assert process(sound, ImageOptions()).width == 8
    rejected = 0
    for place in range(len(sound)):
        broken = bytearray(sound)
        broken[place] ^= 0xFF
        try:
            process(bytes(broken), ImageOptions())
        except RecordError:
            rejected += 1
    assert rejected > 50


def test_a_jpeg_of_thousands_of_scans_is_rejected() -> None:
    stream = io.BytesIO()
    noise = np.random.default_rng(3).integers(0, 255, (64, 64, 3), np.uint8)
    Image.fromarray(noise).save(stream, "JPEG", progressive=True)
    data = stream.getvalue()
    last = data.rindex(b"\xff\xda")
    bomb = data[:last] + data[last:-2] * 2000 + data[-2:]
    with pytest.raises(RecordError, match="scans of 4096 pixels") as error:
        process(bomb, ImageOptions(max_pixels=10_000))
    assert error.value.reason == Reason.TOO_MANY_PIXELS
    assert process(data, ImageOptions(max_pixels=10_000)).width == 64
