"""Broken files and bombs: a reject each, in words that stay the same."""

import io
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
from PIL import Image
from PIL.ImageFile import ImageFile

from recordmill.errors import Filtered, Reason, RecordError
from recordmill.storage.files import StorageError
from recordmill.transforms.imaging.pixels import ImageOptions, decode, process, read_header
from tests.paths import ODD, ROOT
from tests.pictures import (
    AS_PNG,
    chunk,
    photo,
    reject,
    saved,
)

# Pytest undoes the filter that silences Pillow's warnings; `test_pillow_does_not_warn` sees to it.
pytestmark = pytest.mark.filterwarnings("ignore:::PIL")


@pytest.fixture(scope="module")
def jpeg():
    return saved(photo(), "JPEG", quality=95)


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


def test_a_frame_of_a_gif_is_not_allocated_before_its_size_is_checked(monkeypatch):
    data = saved(Image.new("P", (300, 300)), "GIF")
    image = data.index(b",", 13)
    erased_after = b"!\xf9\4\x09\0\0\0\0"
    data = data[:6] + struct.pack("<HH", 1, 1) + data[10:image] + erased_after + data[image:]
    monkeypatch.setattr(Image.core, "fill", lambda *_: pytest.fail("a frame was allocated"))
    error = reject(data, ImageOptions(max_pixels=1000))
    assert str(error) == "too_many_pixels: 300x300 pixels, more than --max-pixels 1000"


def test_a_gif_with_megabytes_of_comments():
    data = saved(Image.new("P", (3, 3)), "GIF")
    image = data.index(b",", 13)
    block = b"\xff" + b"c" * 255
    ordinary = data[:image] + b"!\xfe" + block * 100 + b"\0" + data[image:]
    assert process(ordinary, AS_PNG).width == 3
    for comments in (b"!\xfe" + block * 6000 + b"\0", b"!\xfe\1c\0" * 6000):
        error = reject(data[:image] + comments + data[image:])
        assert str(error) == "corrupt: the comments of the GIF have megabytes"


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
        assert str(error) == "corrupt: text or a profile in the PNG decompresses to megabytes"


@pytest.mark.parametrize("progressive", [False, True])
@pytest.mark.parametrize(
    "options", [ImageOptions(), ImageOptions(size=(20, 20))], ids=["whole", "scaled"]
)
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
        "not_an_image: an HTML page, such as an error page of a server: download the file again"
    ),
    b"\n<?xml version='1.0'?>\n<!-- drawn -->\n<svg xmlns='http://www.w3.org/2000/svg'/>": (
        "not_an_image: an SVG, which is not a raster image: convert it to pixels"
    ),
    b"<svg width='9'/>": "not_an_image: an SVG, which is not a raster image: convert it to pixels",
    b"<?xml version='1.0'?><html/>": "not_an_image: an HTML page, such as",
    b"<?xml version='1.0'?><Error/>": (
        "not_an_image: an XML document, such as an error response of a server: expected one of JPEG"
    ),
    bytes(100): "not_an_image: nothing but zero bytes, as after an interrupted copy: copy it again",
    b"\7" * 100: "not_an_image: starts with b'\\x07\\x07",
    b"\xff\x0a\0\0": "unsupported: a JPEG XL image: convert it to JPEG or PNG",
    b"%PDF-1.7\n": "not_an_image: a PDF: expected one of JPEG",
    b"%!PS-Adobe-3.0 EPSF-3.0\n": "not_an_image: starts with b'%!PS-Adobe-3'",
    b"\xff\xd8\xff": "corrupt: has the signature of JPEG, but Pillow cannot open it",
    b"\x89PNG\r\n\x1a\n" + bytes(40): "corrupt: no chunk begins at byte 8 of the PNG",
    png_header(0, 5): "corrupt: has the signature of PNG, but Pillow cannot open it",
    saved(photo(), "JPEG").replace(b"\0\x5a\0\x78\3", b"\0\0\0\x78\3"): (
        "corrupt: has the signature of JPEG, but Pillow cannot open it"
    ),
    saved(photo())[:-40]: "truncated: the PNG ends before the image is complete",
    icon_of(b""): "corrupt: has the signature of ICO, but Pillow cannot open it",
    b"P6 2 2 255\nxx": "truncated: the PNM ends before the image is complete",
}


@pytest.mark.parametrize("data", MESSAGES, ids=range(len(MESSAGES)))
def test_messages(data):
    assert str(reject(data)).startswith(MESSAGES[data])


def test_the_reject_of_an_unsupported_tiff_names_both_causes():
    entries = ((256, 4), (257, 4), (258, 8), (262, 2), (273, 8), (277, 2), (278, 4), (279, 32))
    head = b"II*\0" + struct.pack("<IH", 8, len(entries))
    directory = b"".join(struct.pack("<HHII", tag, 3, 1, value) for tag, value in entries)
    data = head + directory + bytes(36)  # RGB, as it says, of two samples per pixel
    assert str(reject(data)) == (
        "corrupt: has the signature of TIFF, but Pillow cannot open it: corrupt, or an unsupported "
        "variant"
    )


def test_pillow_does_not_warn():
    code = (
        "import pathlib, sys\n"
        "from recordmill.transforms.imaging.pixels import ImageOptions, process\n"
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
        "unsupported: 65501x1 pixels: the sides of a JPEG have at most 65500"
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
                raise StorageError("cannot read it: input/output error")
            return super().read(size)

    with pytest.raises(StorageError, match="cannot read it: input/output error"):
        read_header(Failing(saved(photo())), AS_PNG)
