"""Images with pixels that Pillow does not read, reads in part, or reads wrongly."""

import io
import json
import struct

import numpy as np
import pytest
from PIL import Image

from tests.image_runs import images, make
from tests.tiff_files import PIXELS, tiff

pytestmark = pytest.mark.usefixtures("encoders")

_RGB = 2  # PhotometricInterpretation
_MANY = 200_000_000  # pixels; more than Pillow decodes by default


def bands(count: int, **tags: int) -> bytes:
    """A TIFF of 2x2 pixels with bands of 8 bits."""
    found = {256: 2, 257: 2, 277: count, 278: 2, 279: 4 * count}
    return tiff(found | {int(name.removeprefix("t")): value for name, value in tags.items()})


def rle4(runs: bytes, *, width: int = 8) -> bytes:
    """A BMP of one row with 4-bit run lengths, and a palette of grays."""
    palette = b"".join(bytes([17 * level] * 3 + [0]) for level in range(16))
    start = 14 + 40 + len(palette)
    head = struct.pack("<2sIHHI", b"BM", start + len(runs), 0, 0, start)
    sizes = (40, width, 1, 1, 4, 2, len(runs), 0, 0, 16, 0)
    return head + struct.pack("<IiiHHIIiiII", *sizes) + palette + runs


@pytest.fixture
def folder(tmp_path):
    place = tmp_path / "in"
    place.mkdir()
    return place


def pixels_of(made) -> np.ndarray:
    """The pixels of the only image of a dataset."""
    (example,) = made.examples().values()
    return np.asarray(Image.open(io.BytesIO(example["image/encoded"][0])))


def details(made) -> dict[str, str]:
    lines = (made.folder / "rejects.jsonl").read_text().splitlines()
    return {line["key"]: line["detail"] for line in map(json.loads, lines)}


def test_tiffs_of_several_gray_bands_are_unsupported(folder, tmp_path):
    for count in (2, 4, 10):
        (folder / f"{count}.tif").write_bytes(bands(count))
    (folder / "broken.tif").write_bytes(bands(3))  # gray pixels cannot have three bands
    Image.new("L", (2, 2)).save(folder / "right.png")
    argv = ("--input", folder, "--splits", "train=1", "--max-reject-fraction", "1")
    made = make(tmp_path / "out", *argv)
    several = dict.fromkeys(("2.tif", "4.tif", "10.tif"), "unsupported")
    assert made.rejects == several | {"broken.tif": "corrupt"}
    assert details(made)["10.tif"] == (
        "a TIFF of 8-bit integers in 10 channels, which Pillow cannot read: write 1 of them (gray)"
        " or 3 (RGB) to a file"
    )


def test_complete_tiffs_that_pillow_cannot_read_are_unsupported(folder, tmp_path):
    planes = {258: (16, 16), 277: 2, 273: (PIXELS, PIXELS + 32), 279: (32, 32), 284: 2, 338: 0}
    separate = {256: 4, 257: 4, 278: 4, **planes}
    (folder / "planes.tif").write_bytes(tiff(separate))
    (folder / "cut.tif").write_bytes(tiff(separate | {279: (32, 30_000)}))
    extra = {256: 4, 257: 4, 277: 3, 278: 4, 279: 48, 338: (0, 0)}
    (folder / "extra.tif").write_bytes(tiff(extra))
    (folder / "signed.tif").write_bytes(tiff(extra | {262: _RGB, 339: 2}))
    Image.new("YCbCr", (8, 8)).save(folder / "ycbcr.tif")
    (folder / "followed.tif").write_bytes((folder / "ycbcr.tif").read_bytes() + bytes(99))
    Image.new("L", (2, 2)).save(folder / "right.png")
    argv = ("--input", folder, "--splits", "train=1", "--max-reject-fraction", "1")
    made = make(tmp_path / "out", *argv)
    whole = ("planes.tif", "extra.tif", "signed.tif", "ycbcr.tif", "followed.tif")
    assert made.rejects == dict.fromkeys(whole, "unsupported") | {"cut.tif": "corrupt"}
    ycbcr = "a TIFF of YCbCr without compression, which Pillow cannot read: convert it to RGB"
    found = details(made)
    del found["cut.tif"]
    assert found == {
        "planes.tif": "a TIFF of 16-bit integers in 2 channels, in separate planes, which Pillow"
        " cannot read",
        "extra.tif": "a TIFF of 8-bit integers in 3 channels, which Pillow cannot read: write 1 of"
        " them (gray) or 3 (RGB) to a file",
        "signed.tif": "a TIFF of 8-bit signed integers in 3 channels, which Pillow cannot read",
        "ycbcr.tif": ycbcr,
        "followed.tif": ycbcr,
    }


def test_bands_beyond_rgb_are_noted(folder, tmp_path, capsys):
    for name in ("a.tif", "b.tif"):
        (folder / name).write_bytes(bands(4, t262=_RGB, t338=0))  # the last band is not alpha
    (folder / "alpha.tif").write_bytes(bands(4, t262=_RGB, t338=2))
    (folder / "rgb.tif").write_bytes(bands(3, t262=_RGB))
    argv = ("--input", folder, "--splits", "train=1")
    made = make(tmp_path / "out", *argv)
    assert [note for note in made.manifest.notes if note.code == "left-unread"] == [
        "not read, or taken as stored: bands beyond gray or RGB of 2 images, such as a.tif"
    ]
    assert images(*argv, "--output", tmp_path / "no", "--fail-on", "left-unread") == 1
    assert "--fail-on left-unread" in capsys.readouterr().err


def test_run_lengths_that_pillow_reads_wrongly_are_unsupported(folder, tmp_path):
    (folder / "wrong.bmp").write_bytes(rle4(b"\x00\x05\x12\x34\x50\x00\x03\x66\x00\x01"))
    (folder / "right.bmp").write_bytes(rle4(b"\x00\x04\x12\x34\x04\x66\x00\x01"))
    argv = ("--input", folder, "--splits", "train=1", "--max-reject-fraction", "1")
    made = make(tmp_path / "out", *argv, "--image-format", "png", "--mode", "gray")
    assert made.rejects == {"wrong.bmp": "unsupported"}
    assert (pixels_of(made) // 17).tolist() == [[1, 2, 3, 4, 6, 6, 6, 6]]


def test_unsigned_integers_of_32_bits_keep_their_upper_half(folder, tmp_path):
    data = tiff({256: 4, 257: 4, 258: 32, 278: 4})
    (folder / "a.tif").write_bytes(data)
    values = np.frombuffer(data[PIXELS:], "<u4", 16)
    assert values.min() < 2**31 < values.max()
    Image.new("L", (2, 2)).save(folder / "right.png")
    argv = ("--input", folder, "--splits", "train=1", "--mode", "gray", "--image-format", "png")
    made = make(tmp_path / "none", *argv, "--max-reject-fraction", "1")
    assert details(made)["a.tif"].startswith(
        f"integer pixels from {values.min()} to {values.max()}: expected 0 to 65535"
    )
    (folder / "right.png").unlink()
    made = make(tmp_path / "out", *argv, "--intensity-window", "0:4294967295")
    assert (pixels_of(made).ravel() == np.rint(values / (2**32 - 1) * 65535)).all()


def test_signed_integers_of_8_bits_are_read_as_those_of_16(folder, tmp_path):
    eight = tiff({339: 2})
    (folder / "8.tif").write_bytes(eight)
    (folder / "16.tif").write_bytes(tiff({256: 4, 258: 16, 339: 2}))
    Image.new("L", (2, 2)).save(folder / "right.png")
    argv = ("--input", folder, "--splits", "train=1", "--mode", "gray", "--image-format", "png")
    made = make(tmp_path / "none", *argv, "--max-reject-fraction", "1")
    assert made.rejects == {"8.tif": "unsupported", "16.tif": "unsupported"}
    assert details(made)["8.tif"].startswith("integer pixels from -128 to 127: expected 0 to")
    for name in ("16.tif", "right.png"):
        (folder / name).unlink()
    made = make(tmp_path / "out", *argv, "--intensity-window=-128:127")
    values = np.frombuffer(eight[PIXELS:], "i1", 64)
    assert (pixels_of(made).ravel() == values + 128.0).all()


def test_signed_integers_of_8_bits_without_negative_ones_are_levels(folder, tmp_path):
    data = tiff({256: 5, 257: 5, 278: 5, 339: 2})  # 100 to 124
    (folder / "a.tif").write_bytes(data)
    argv = ("--input", folder, "--splits", "train=1", "--mode", "gray", "--image-format", "png")
    made = make(tmp_path / "out", *argv)
    assert pixels_of(made).ravel().tolist() == list(range(100, 125))


@pytest.mark.parametrize("name", ["a.tif", "a.gif"])
def test_max_pixels_replaces_the_limit_of_pillow(name, folder, tmp_path, monkeypatch):
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    from recordmill.transforms.imaging.pixels import ImageOptions, process

    Image.new("L", (60, 60)).save(folder / name)
    made = process((folder / name).read_bytes(), ImageOptions(max_pixels=_MANY))
    assert (made.width, made.height) == (60, 60)
