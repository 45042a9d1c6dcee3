"""Boxes and masks on images of every format and orientation, in both frames, resized and not."""

import io
import json

import numpy as np
import pytest
from PIL import Image, ImageOps

from tests.image_runs import make

pytestmark = pytest.mark.usefixtures("encoders")

SIZE = (96, 64)  # width and height as stored
BOX = (30, 18, 52, 28)  # white, on black, as stored
ORIENTATIONS = range(1, 9)
_SAVED = {
    "jpg": {"quality": 95},
    "png": {},
    "webp": {"lossless": True},
    "avif": {"quality": 95, "subsampling": "4:4:4"},
    "tif": {},
    "lzw.tif": {"compression": "tiff_lzw"},
    "16-bit.tif": {},
}
RESIZES = {
    "none": (),
    "crop": ("--size", "64x64"),
    "pad": ("--size", "80x50", "--resize-mode", "pad", "--background", "0,0,0"),
    "stretch": ("--size", "70x90", "--resize-mode", "stretch"),
    "fit": ("--size", "48x48", "--resize-mode", "fit"),
}
TOLERANCE = 1.0  # pixels


def painted(orientation, *, upright):
    """The image as stored, or upright."""
    levels = np.zeros(SIZE[::-1], np.uint8)
    left, top, right, bottom = BOX
    levels[top:bottom, left:right] = 255
    image = Image.fromarray(levels)
    return oriented(image, orientation) if upright else image


def oriented(image, orientation):
    image.getexif()[0x0112] = orientation
    return ImageOps.exif_transpose(image)


def extent(levels):
    """(left, top, right, bottom) of the bright pixels."""
    rows, columns = np.nonzero(levels > 127)
    return np.array([columns.min(), rows.min(), columns.max() + 1, rows.max() + 1])


def write(folder, name, orientation):
    image = painted(orientation, upright=False)
    if name.endswith("16-bit.tif"):
        image = Image.fromarray(np.asarray(image).astype(np.uint16) * 257)
    path = folder / "images" / f"{orientation}-{name.replace('.', '-')}.{name.split('.')[-1]}"
    if name.endswith("tif"):
        image.save(path, tiffinfo={274: orientation}, **_SAVED[name])
    else:
        exif = Image.Exif()
        exif[0x0112] = orientation
        image.convert("RGB").save(path, exif=exif, **_SAVED[name])
    return path.name


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Images of all formats and orientations; boxes and masks of each, stored and upright."""
    folder = tmp_path_factory.mktemp("oriented")
    (folder / "images").mkdir()
    names = {write(folder, name, turn): turn for name in _SAVED for turn in ORIENTATIONS}
    for frame in ("stored", "upright"):
        (folder / frame).mkdir()
        images, boxes = [], []
        for number, (name, turn) in enumerate(names.items()):
            mask = painted(turn, upright=frame == "upright")
            ids = mask.point(lambda level: level // 255)
            ids.save((folder / frame / name).with_suffix(".png"))
            left, top, right, bottom = (int(side) for side in extent(np.asarray(mask)))
            size = {"width": mask.width, "height": mask.height}
            images.append({"id": number, "file_name": name, **size})
            box = [left, top, right - left, bottom - top]
            boxes.append({"id": number, "image_id": number, "category_id": 1, "bbox": box})
        coco = {"images": images, "annotations": boxes, "categories": [{"id": 1, "name": "a"}]}
        (folder / f"{frame}.json").write_text(json.dumps(coco))
    return folder


def errors(made):
    """{name: (error of the box, error of the mask)}, in pixels."""
    found = {}
    for (key, _), example in made.examples().items():
        image = Image.open(io.BytesIO(example["image/encoded"][0])).convert("L")
        expected = extent(np.asarray(image))
        sides = [
            example[f"image/object/bbox/{name}"][0] for name in ("xmin", "ymin", "xmax", "ymax")
        ]
        box = np.array(sides) * [image.width, image.height, image.width, image.height]
        mask = Image.open(io.BytesIO(example["image/segmentation/class/encoded"][0]))
        ids = np.asarray(mask)
        moved = extent(np.where(ids == 1, 255, 0))
        found[key] = np.abs(box - expected).max(), np.abs(moved - expected).max()
    return found


@pytest.mark.parametrize("resize", RESIZES)
@pytest.mark.parametrize("frame", ["stored", "upright"])
def test_boxes_and_masks_follow_every_orientation(frame, resize, folder, tmp_path):
    argv = ("--input", folder / "images", "--annotations", folder / f"{frame}.json")
    argv += ("--masks", folder / frame, "--splits", "train=1", "--image-format", "png")
    argv += ("--mask-frame", frame, "--box-frame", frame, "--depth", "8")
    found = errors(make(tmp_path / "out", *argv, *RESIZES[resize]))
    assert len(found) == len(_SAVED) * len(ORIENTATIONS)
    wrong = {key: error for key, error in found.items() if max(error) > TOLERANCE}
    assert not wrong, f"worst error: {max(map(max, found.values()))} pixels"


@pytest.mark.parametrize("frame", ["stored", "upright"])
def test_auto_finds_the_frame_by_the_size_or_asks(frame, folder, tmp_path):
    argv = ("--input", folder / "images", "--annotations", folder / f"{frame}.json")
    argv += ("--masks", folder / frame, "--splits", "train=1", "--image-format", "png")
    made = make(tmp_path / "out", *argv, "--depth", "8", "--max-reject-fraction", "0.5")
    found = errors(made)
    assert max(map(max, found.values())) <= TOLERANCE
    assert {key[0] for key in found} == {"1", "5", "6", "7", "8"}
    assert {key[0] for key in made.rejects} == {"2", "3", "4"}  # both frames fit
    assert len(found) + len(made.rejects) == len(_SAVED) * len(ORIENTATIONS)


def test_an_oriented_tiff_as_mask_is_meant_upright(tmp_path):
    for place in ("images", "masks"):
        (tmp_path / place).mkdir()
    for turn in ORIENTATIONS:
        name = write(tmp_path, "png", turn)
        mask = painted(turn, upright=False).point(lambda level: level // 255)
        mask.save((tmp_path / "masks" / name).with_suffix(".tif"), tiffinfo={274: turn})
    argv = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--splits", "train=1")
    made = make(tmp_path / "out", *argv, "--image-format", "png", "--mask-frame", "stored")
    for example in made.examples().values():
        image = Image.open(io.BytesIO(example["image/encoded"][0])).convert("L")
        mask = Image.open(io.BytesIO(example["image/segmentation/class/encoded"][0]))
        assert np.array_equal(np.asarray(image) > 127, np.asarray(mask) == 1)
