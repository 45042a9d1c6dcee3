"""Masks of class ids from PNGs to the dataset, through the command line."""

import io
import itertools
import json
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, ImageOps

from recordmill.errors import RecordError
from recordmill.pipelines.cli import main
from recordmill.transforms.imaging.class_masks import decode_mask
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from tests.archive_files import tar_of
from tests.image_runs import Made, images, make
from tests.painted_masks import (
    IGNORE,
    iou,
    opened,
    painted,
    png,
    resized,
    shapes,
    shown_ids,
    turned_png,
    write,
)
from tests.pictures import chunk

pytestmark = pytest.mark.usefixtures("encoders")

MASK = "image/segmentation/class/encoded"
SPLIT = ("--splits", "train=1")
LARGE, SMALL = (400, 270), (40, 30)


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    """A folder of images in every EXIF orientation, with their masks as stored and upright."""
    folder = tmp_path_factory.mktemp("turned")
    for orientation in range(1, 9):
        ids = shapes(orientation, LARGE)
        content = turned_png(painted(ids), orientation)
        write(folder, f"images/{orientation}.png", content)
        write(folder, f"stored/{orientation}.png", png(Image.fromarray(ids)))
        upright = ImageOps.exif_transpose(Image.open(folder / f"images/{orientation}.png"))
        levels = np.asarray(upright).astype(int)
        upright_ids = (levels @ [1, 2, 3] // 255).astype(np.uint8)
        write(folder, f"upright/{orientation}.png", png(Image.fromarray(upright_ids)))
    return folder


def masks_of(made, split="train"):
    """{key: the mask of the record itself, uint8[height, width]}"""
    return {
        key: opened(example[MASK][0])
        for (key, copy), example in made.examples(split).items()
        if copy == 0
    }


@pytest.mark.parametrize("frame", ["stored", "upright"])
@pytest.mark.parametrize("mode", ["none", "crop", "pad", "stretch", "fit"])
def test_masks_are_where_an_independent_transform_puts_them(mode, frame, turned, tmp_path):
    size = (300, 320)
    options = ["--size", "300x320"] if mode != "none" else []
    made = make(
        tmp_path / "out",
        *("--input", turned / "images", "--masks", turned / frame, "--mask-frame", frame, *SPLIT),
        *("--resize-mode", mode, "--image-format", "png", *options),
    )
    found = masks_of(made)
    assert len(found) == 8
    for key, mask in found.items():
        upright = opened((turned / "upright" / key).read_bytes())
        assert iou(mask, resized(upright, size, mode)) >= 0.99
    padded = [np.isin(IGNORE, mask) for mask in found.values()]
    assert padded == [mode == "pad"] * 8
    assert main(["verify", "--quiet", "--dataset", str(tmp_path / "out"), "--deep"]) == 0


@pytest.mark.parametrize("augment", ["", "flip", "rotate", "flip,crop,rotate"])
@pytest.mark.parametrize("mode", ["crop", "pad", "stretch", "fit"])
def test_masks_cover_the_pixels_that_they_covered(mode, augment, turned, tmp_path):
    more = ["--augment", augment, "--augment-all"] if augment else []
    made = make(
        tmp_path / "out",
        *("--input", turned / "images", "--masks", turned / "stored", "--mask-frame", "stored"),
        *("--size", "240x230", "--resize-mode", mode, "--image-format", "png", *SPLIT, *more),
        *("--background", "0,0,0", "--mask-padding", "0"),
    )
    examples = made.examples()
    assert len(examples) == 8
    for example in examples.values():
        assert iou(opened(example[MASK][0]), shown_ids(example["image/encoded"][0])) >= 0.97


def small(folder, count=3):
    """A folder of small images in a folder `x`, and the class ids of each."""
    ids = {f"x/{number}": shapes(number, SMALL) for number in range(count)}
    for name, one in ids.items():
        write(folder, f"images/{name}.jpg", png(painted(one)))
    return ids


def run(folder, *options):
    arguments = ("--input", folder / "images", "--masks", folder / "masks", *SPLIT)
    return make(folder / "out", *arguments, *options)


PALETTE = [level for colour in ((9, 9, 9), (200, 0, 0), (0, 200, 0), (1, 2, 3)) for level in colour]


def of_palette(ids):
    image = Image.fromarray(ids, "P")
    image.putpalette(PALETTE)
    return image


def of_bits(ids, bits):
    """A PNG of gray with fewer than 8 bits per pixel, which Pillow cannot write."""
    height, width = ids.shape
    pixels = (ids[:, :, None] >> np.arange(bits)[::-1] & 1).reshape(height, -1)
    rows = np.packbits(pixels.astype(np.uint8), axis=1)
    body = zlib.compress(b"".join(b"\0" + row.tobytes() for row in rows))
    header = struct.pack(">IIBBBBB", width, height, bits, 0, 0, 0, 0)
    chunks = chunk(b"IHDR", header) + chunk(b"IDAT", body) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + chunks


def saved(image, kind):
    out = io.BytesIO()
    image.save(out, kind)
    return out.getvalue()


KINDS = {
    "gray": lambda ids: png(Image.fromarray(ids)),
    "palette": lambda ids: png(of_palette(ids)),
    "2 bits": lambda ids: of_bits(ids, 2),
    "4 bits": lambda ids: of_bits(ids, 4),
    "16 bits": lambda ids: png(Image.fromarray(ids.astype(np.uint16))),
    "opaque": lambda ids: png(Image.fromarray(ids).convert("LA")),
    "gray as colours": lambda ids: png(Image.fromarray(np.repeat(ids[..., None], 3, 2))),
    "gif": lambda ids: saved(of_palette(ids), "GIF"),
    "bmp": lambda ids: saved(of_palette(ids), "BMP"),
    "tiff": lambda ids: saved(Image.fromarray(ids), "TIFF"),
    "tiff of 16 bits": lambda ids: saved(Image.fromarray(ids.astype(np.uint16)), "TIFF"),
}


def test_ids_are_levels_as_stored_or_indices_of_a_palette(tmp_path):
    ids = {f"{kind}/{number}": shapes(number, SMALL) for kind in KINDS for number in range(3)}
    for name, one in ids.items():
        write(tmp_path, f"images/{name}.jpg", png(painted(one)))
        write(tmp_path, f"masks/{name}.png", KINDS[name.split("/")[0]](one))
    made = run(tmp_path)
    found = masks_of(made)
    for name, one in ids.items():
        np.testing.assert_array_equal(found[f"{name}.jpg"], one, name)
    for example in made.examples().values():
        assert example["image/segmentation/class/format"] == [b"png"]
    feature = made.manifest.features[MASK]
    assert (feature.kind, feature.raw_dtype, feature.raw_shape) == (
        "mask",
        "uint8",
        (None, None, 1),
    )


def test_masks_of_one_bit(tmp_path):
    ids = small(tmp_path)
    for name, one in ids.items():
        write(tmp_path, f"masks/{name}.png", png(Image.fromarray(one > 0)))
    found = masks_of(run(tmp_path))
    np.testing.assert_array_equal(found["x/0.jpg"], ids["x/0"] > 0)
    assert images("--input", tmp_path / "images", "--masks", tmp_path / "masks", *SPLIT,
                  "--mask-values", "255,0", "--output", tmp_path / "other") == 0  # fmt: skip
    np.testing.assert_array_equal(masks_of(Made(tmp_path / "other"))["x/0.jpg"], ids["x/0"] == 0)


def test_black_and_white_masks_need_a_meaning(tmp_path, capfd):
    ids = small(tmp_path)
    for name, one in ids.items():
        write(tmp_path, f"masks/{name}.png", png(Image.fromarray((one > 0) * np.uint8(255))))
    arguments = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", *SPLIT)
    assert images("--output", tmp_path / "none", *arguments) == 2
    message = capfd.readouterr().err
    assert "--mask-values 0,255" in message
    assert "--mask-ignore 255" in message
    found = masks_of(make(tmp_path / "values", *arguments, "--mask-values", "0,255"))
    np.testing.assert_array_equal(found["x/1.jpg"], ids["x/1"] > 0)
    found = masks_of(make(tmp_path / "ignored", *arguments, "--mask-ignore", "255"))
    np.testing.assert_array_equal(found["x/1.jpg"], (ids["x/1"] > 0) * 255)


COLOUR_FILES = {
    "names after": "0 0 0 sky\n255 0 0 car\n0,255,0,tree\n0 0 255 ignore\n",
    "a table": "name,r,g,b\nsky,0,0,0\ncar,255,0,0\ntree,0,255,0\nignore,0,0,255\n",
    "another order": "b,g,r,name\n0,0,0,sky\n0,0,255,car\n0,255,0,tree\n255,0,0,ignore\n",
    "ids": "id,name,r,g,b\n0,sky,0,0,0\n1,car,255,0,0\n2,tree,0,255,0\n7,ignore,0,0,255\n",
    "any order": "id,r,g,b,name\n2,0,255,0,tree\n0,0,0,0,sky\n1,255,0,0,car\n,0,0,255,ignore\n",
    "semicolons": "\ufeffClass;R;G;B\r\nsky;0;0;0\r\ncar;255;0;0\r\ntree;0;255;0\nignore;0;0;255",
    "class": "Class\tR G B\n1 0 0 0 sky\n2 255 0 0 car\n3 0 255 0 tree\n4 0 0 255 ignore",
    "no names": "0 0 0\n255 0 0\n0 255 0\n0\t0 255\tignore\n",
}


@pytest.mark.parametrize("kind", COLOUR_FILES)
def test_colours_stand_for_classes(kind, tmp_path, capfd):
    ids = small(tmp_path)
    for name, one in ids.items():
        write(tmp_path, f"masks/{name}.png", png(painted(one)))
    (tmp_path / "colours.txt").write_text(COLOUR_FILES[kind])
    if kind == "no names":
        assert images("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--output",
                      tmp_path / "none") == 2  # fmt: skip
        assert "--mask-colours FILE" in capfd.readouterr().err
    made = run(tmp_path, "--mask-colours", tmp_path / "colours.txt", "--mask-ignore", "7")
    found = masks_of(made)
    for name, one in ids.items():
        np.testing.assert_array_equal(found[f"{name}.jpg"], np.where(one == 3, 7, one))
    names = tmp_path / "out" / "segmentation_labels.txt"
    assert names.exists() == (kind != "no names")
    assert kind == "no names" or names.read_text() == "sky\ncar\ntree\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "found none"),
        ("0 0 0 sky\nred car\n", "line 2 is 'red car'"),
        ("0 0 0 sky\n0 0 256 car\n", "line 2"),
        ("0 0 0 sky\n0 0 0 car\n", "repeats the colour 0,0,0"),
        ("0 0 0 sky\n\n9 0 0 sky\n", "line 3 repeats the name 'sky' of line 1"),
        ("0 0 0 sky\n1 1 1\n", "the class 1 has no name"),
        ("0,0,0,0,sky\n1,255,0,0,car\n", "'0,0,0,0,sky' has more than three numbers: name the col"),
        ("name,h,s,v\nsky,0,0,0\n", "the first line, 'name,h,s,v', names no columns of red, green"),
        ("id,name,r,g,b\n0,sky,0,0,0\n5,car,255,0,0\n", "line 3 has the id '5' instead of 1"),
        ("id,name,r,g,b\n1,sky,0,0,0\n1,car,255,0,0\n", "line 3 has the id '1' instead of 2"),
        ("name,color\nsky,#000000\n", "is 'sky,#000000'; the colours may be three columns of num"),
    ],
)
def test_files_of_colours_that_are_none(text, message, tmp_path, capfd):
    small(tmp_path)
    write(tmp_path, "masks/x/0.png", png(painted(shapes(0, SMALL))))
    (tmp_path / "colours.txt").write_text(text)
    assert images("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--output",
                  tmp_path / "out", "--mask-colours", tmp_path / "colours.txt") == 2  # fmt: skip
    assert message in capfd.readouterr().err


def test_colours_that_no_mask_has_are_an_error_that_tells_how_lines_were_read(tmp_path, capfd):
    for name, one in small(tmp_path).items():
        write(tmp_path, f"masks/{name}.png", png(painted(one)))
    (tmp_path / "colours.txt").write_text("0 0 0 0\n1 255 0 0\n2 0 255 0\n3 0 0 255\n")
    given = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", *SPLIT, "--dry-run")
    given += ("--mask-colours", tmp_path / "colours.txt")
    assert images("--output", tmp_path / "out", *given) == 2
    error = " ".join(capfd.readouterr().err.split())
    expected = "no sampled mask of several classes has only colours of this file: 'x/0.png': the"
    assert f"{expected} colour 255,0,0 of" in error
    assert (
        "The file is read as 0,0,0; 1,255,0; 2,0,255; 3,0,0; lines of numbers are read as" in error
    )
    (tmp_path / "colours.txt").write_text("id r g b\n0 0 0 0\n1 255 0 0\n2 0 255 0\n3 0 0 255\n")
    assert images("--output", tmp_path / "out", *given) == 0


def test_16_bits_hold_larger_ids(tmp_path, capfd):
    ids = {name: one.astype(np.uint16) * 300 for name, one in small(tmp_path).items()}
    for name, one in ids.items():
        write(tmp_path, f"masks/{name}.png", png(Image.fromarray(one)))
    arguments = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", *SPLIT)
    assert images("--output", tmp_path / "none", *arguments, "--max-reject-fraction", "1") == 1
    assert "of 3 inputs 3 were rejected" in capfd.readouterr().err
    made = run(tmp_path, "--mask-depth", "16", "--size", "50", "--resize-mode", "pad")
    found = masks_of(made)["x/0.jpg"]
    assert found.dtype == np.uint16
    assert {0, 300, 600, 65535} <= {*found.ravel().tolist()}
    assert made.manifest.features[MASK].raw_dtype == "uint16"
    assert main(["verify", "--quiet", "--dataset", str(tmp_path / "out"), "--deep"]) == 0


def test_colours_among_ids_reject_their_images(tmp_path):
    ids = small(tmp_path)
    for name, one in ids.items():
        image = painted(one) if name == "x/1" else Image.fromarray(one)
        write(tmp_path, f"masks/{name}.png", png(image))
    made = run(tmp_path, "--mask-values", "0,1,2,3", "--max-reject-fraction", "0.5")
    assert made.rejects == {"x/1.jpg": "unsupported"}


def rgba(ids):
    image = painted(ids).convert("RGBA")
    image.putalpha(Image.fromarray((ids > 0) * np.uint8(255)))
    return png(image)


BAD = {
    "truncated": lambda ids: png(Image.fromarray(ids))[:-30],
    "corrupt": lambda ids: png(Image.fromarray(ids)).replace(b"IDAT", b"IDAX"),
    "text": lambda ids: b"class 1: 0 0 10 10",
    "jpeg": lambda ids: saved(Image.fromarray(ids), "JPEG"),
    "wrong size": lambda ids: png(Image.fromarray(ids[:-1])),
    "other sides": lambda ids: png(Image.fromarray(ids.T)),
    "transparent": rgba,
    "large ids": lambda ids: png(Image.fromarray(ids.astype(np.uint16) + 254)),
    "unnamed ids": lambda ids: png(Image.fromarray(ids + np.uint8(2))),
    "floats": lambda ids: saved(Image.fromarray(ids.astype(np.float32)), "TIFF"),
    "bomb": lambda ids: png(Image.new("1", (20000, 20000))),
}
REASONS = {
    **dict.fromkeys(BAD, "bad_value"),
    **dict.fromkeys(("jpeg", "transparent", "floats"), "unsupported"),
    **{"truncated": "truncated", "text": "not_an_image", "bomb": "too_many_pixels"},
    "corrupt": "corrupt",
}


@pytest.mark.filterwarnings("ignore")  # of Pillow
def test_damaged_masks_are_read_or_rejected():
    draw = random.Random(5)
    ids = shapes(1, SMALL)
    contents = [make_mask(ids) for make_mask in (*KINDS.values(), *BAD.values())]
    limits = ImageOptions(max_pixels=10_000)
    outcomes = set()
    for _ in range(2000):
        content = bytearray(draw.choice(contents))
        for _ in range(draw.choice((1, 2, 8))):
            content[draw.randrange(len(content))] = draw.randrange(256)
        if draw.random() < 0.2:
            del content[draw.randrange(len(content)) :]
        try:
            found = decode_mask(bytes(content), MaskOptions(depth=16), limits)
        except RecordError as error:
            outcomes.add(str(error.reason))
        else:
            outcomes.add("read")
            assert found.ids.dtype == np.uint16
            assert found.ids.size <= limits.max_pixels
    assert {"read", "corrupt", "truncated", "unsupported", "not_an_image"} <= outcomes


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    """A folder of sound masks, and a bad one of each kind."""
    folder = tmp_path_factory.mktemp("mixed")
    names = [*(f"fine {number}" for number in range(30)), *BAD]
    for number, name in enumerate(sorted(names)):
        ids = shapes(number, SMALL)
        write(folder, f"images/x/{name}.png", png(painted(ids)))
        content = BAD[name](ids) if name in BAD else png(Image.fromarray(ids))
        write(folder, f"masks/x/{name}.png", content)
    write(folder, "images/x/alone.png", png(painted(shapes(0, SMALL))))
    write(folder, "masks/x/nowhere.png", png(Image.fromarray(shapes(0, SMALL))))
    write(folder, "masks/x/empty.png", b"")
    (folder / "names.txt").write_text("sky\ncar\ntree\nroad\n")
    return folder


@pytest.mark.parametrize("options", [(), ("--probe", "header")])
def test_bad_masks_reject_their_images(mixed, options, tmp_path):
    arguments = ("--input", mixed / "images", "--masks", mixed / "masks", *SPLIT, *options)
    arguments = (*arguments, "--mask-labels", mixed / "names.txt", "--max-pixels", "1000000")
    made = make(tmp_path / "out", *arguments, "--max-reject-fraction", "0.9")
    expected = {f"x/{name}.png": reason for name, reason in REASONS.items()}
    expected |= {"x/alone.png": "unlabelled", "x/nowhere": "missing", "x/empty": "missing"}
    assert made.rejects == expected
    assert {key for key, _ in made.examples()} == {f"x/fine {n}.png" for n in range(30)}


def test_small_images_are_left_out_with_their_masks(tmp_path):
    for number, size in enumerate((SMALL, (20, 10))):
        ids = shapes(number, size)
        write(tmp_path, f"images/x/{number}.png", png(painted(ids)))
        write(tmp_path, f"masks/x/{number}.png", png(Image.fromarray(ids)))
    made = run(tmp_path, "--min-size", "20")
    assert {key for key, _ in made.examples()} == {"x/0.png"}
    assert not made.rejects


@pytest.mark.parametrize("choice", ["keep", "drop"])
def test_images_without_a_mask(choice, tmp_path):
    ids = small(tmp_path)
    write(tmp_path, "masks/x/1.png", png(Image.fromarray(ids["x/1"])))
    made = run(tmp_path, "--unmasked", choice)
    examples = made.examples()
    found = {key: len(example.get(MASK, ())) for (key, _), example in examples.items()}
    if choice == "drop":
        assert found == {"x/1.jpg": 1}
        assert made.manifest.ledger.inputs.filtered == 2
        return
    assert found == {"x/0.jpg": 0, "x/1.jpg": 1, "x/2.jpg": 0}
    assert made.manifest.features[MASK].shape == (None,)
    assert any("2 images without masks in masks have no mask" in n for n in made.manifest.notes)
    assert main(["verify", "--quiet", "--dataset", str(tmp_path / "out"), "--deep"]) == 0


@pytest.mark.parametrize(
    ("name", "options", "note"),
    [
        ("masks/x/{}_mask.png", (), "end in '_mask'"),
        ("masks/x/{}_of_it.png", ("--mask-suffix", "_of_it"), None),
        ("masks/{}.png", (), None),
        ("masks/deep/x/{}.png", None, "no image of the input matches the masks"),
        ("masks/x/{}_of_it.png", None, "--mask-suffix"),
    ],
)
def test_masks_are_found_by_their_names(name, options, note, tmp_path, capfd):
    ids = small(tmp_path)
    for stem, one in ids.items():
        write(tmp_path, name.format(stem.removeprefix("x/")), png(Image.fromarray(one)))
    if options is None:
        assert images("--output", tmp_path / "out", "--input", tmp_path / "images", "--masks",
                      tmp_path / "masks") == 2  # fmt: skip
        assert note in capfd.readouterr().err
        return
    made = run(tmp_path, *options)
    assert len(made.examples()) == 3
    notes = [text for text in made.manifest.notes if text.code == "annotations"]
    assert not notes if note is None else note in notes[0]


def test_a_suffix_may_replace_that_of_the_image(tmp_path):
    for name in ("a/1", "a/2"):
        ids = shapes(1, SMALL)
        write(tmp_path, f"images/{name}_left.png", png(painted(ids)))
        write(tmp_path, f"masks/{name}_fine_ids.png", png(Image.fromarray(ids)))
        write(tmp_path, f"masks/{name}_fine_colour.png", png(painted(ids)))
    made = run(tmp_path, "--mask-suffix", "_left=_fine_ids")
    assert {key for key, _ in made.examples()} == {"a/1_left.png", "a/2_left.png"}
    assert not made.rejects


def test_masks_beside_their_images_are_no_images(tmp_path, capfd):
    for name in "abc":
        ids = shapes(1, SMALL)
        write(tmp_path, f"all/{name}.png", png(painted(ids)))
        write(tmp_path, f"all/{name}_mask.png", png(Image.fromarray(ids)))
    arguments = ("--input", tmp_path / "all", "--masks", tmp_path / "all", *SPLIT)
    assert images("--output", tmp_path / "none", *arguments) == 2
    assert "no folder in it has a usual name for masks" in capfd.readouterr().err
    made = make(tmp_path / "out", *arguments, "--mask-suffix", "_mask")
    assert {key for key, _ in made.examples()} == {"a.png", "b.png", "c.png"}
    assert made.manifest.ledger.inputs.filtered == 3


def test_a_sample_without_a_label_is_rejected_once_and_not_as_its_mask(tmp_path):
    members = {}
    for name in "abc":
        ids = shapes(1, SMALL)
        members[f"{name}.png"] = png(painted(ids))
        members[f"{name}.seg.png"] = png(Image.fromarray(ids))
        members[f"{name}.json"] = json.dumps({} if name == "b" else {"label": "x"}).encode()
    tar_of(tmp_path / "w.tar", members)
    given = ("--input", tmp_path / "w.tar", "--masks", tmp_path / "w.tar", "--mask-suffix", ".seg")
    options = ("--label-from", ".json:label", "--max-reject-fraction", "1", *SPLIT)
    made = make(tmp_path / "out", *given, *options)
    assert made.rejects == {"b.png": "unlabelled"}
    assert {key for key, _ in made.examples()} == {"a.png", "c.png"}
    inputs = made.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected) == (2, 1)


def test_two_masks_of_one_name(tmp_path, capfd):
    ids = small(tmp_path)["x/0"]
    write(tmp_path, "masks/x/0.png", png(Image.fromarray(ids)))
    write(tmp_path, "masks/x/0.gif", saved(of_palette(ids), "GIF"))
    assert images("--output", tmp_path / "out", "--input", tmp_path / "images", "--masks",
                  tmp_path / "masks") == 2  # fmt: skip
    assert "'x/0.gif' and 'x/0.png'" in capfd.readouterr().err


def test_images_that_exif_turns_either_way_need_a_frame(turned, tmp_path):
    made = make(
        tmp_path / "out",
        *("--input", turned / "images", "--masks", turned / "stored", *SPLIT),
        *("--max-reject-fraction", "0.5"),
    )
    assert {*made.rejects} == {"2.png", "3.png", "4.png"}
    assert {key for key, _ in made.examples()} == {f"{n}.png" for n in (1, 5, 6, 7, 8)}


def test_a_mask_with_an_orientation_of_its_own(turned, tmp_path):
    for n in range(1, 9):
        with Image.open(turned / f"stored/{n}.png") as mask:
            write(tmp_path, f"masks/{n}.png", turned_png(mask, n))
    made = make(
        tmp_path / "out", "--input", turned / "images", "--masks", tmp_path / "masks", *SPLIT
    )
    for key, mask in masks_of(made).items():
        np.testing.assert_array_equal(mask, opened((turned / "upright" / key).read_bytes()))


def test_bytes_do_not_depend_on_workers_and_reuse_notices_changed_masks(mixed, tmp_path):
    ids = small(tmp_path, count=6)
    for name, one in ids.items():
        write(tmp_path, f"masks/{name}.png", png(Image.fromarray(one)))
    options = ("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--size", "32")
    options = (*options, "--augment", "flip,rotate", "--augment-all")
    digests = []
    for name, workers, more in (("one", 1, ()), ("two", 2, ()), ("again", 1, ("--reuse", "one"))):
        more = [tmp_path / one if one == "one" else one for one in more]
        command = ["images", "--quiet", *options, "--workers", workers, *more]
        assert main([*map(str, command), "--output", str(tmp_path / name)]) == 0
        digests.append(json.loads((tmp_path / name / "dataset.json").read_text())["digest"])
    assert len({*digests}) == 1
    changed = np.flipud(ids["x/3"])
    write(tmp_path, "masks/x/3.png", png(Image.fromarray(changed)))
    assert images(*options, "--reuse", tmp_path / "one", "--output", tmp_path / "reused") == 0
    assert images(*options, "--output", tmp_path / "anew") == 0
    reused, anew = (
        json.loads((tmp_path / name / "dataset.json").read_text())["digest"]
        for name in ("reused", "anew")
    )
    assert reused == anew != digests[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--masks", "M", "--mask-ignore", "256"), "--mask-ignore: expected an id from 0 to 255"),
        (("--masks", "M", "--mask-padding", "-1"), "--mask-padding: expected an id from 0"),
        (("--masks", "M", "--mask-values", "0,0"), "--mask-values: expected different levels"),
        (("--masks", "M", "--mask-values", "0,x"), "--mask-values"),
        (("--masks", "M", "--mask-labels", "E"), "name 2 of 3 is empty"),
        (("--masks", "nowhere"), "--masks: "),
        (("--masks", "E"), "--masks: "),
        (("--masks", "M", "--mask-suffix", "_x"), "--mask-suffix _x: no name"),
        (("--masks", "M", "--mask-labels", "N", "--mask-colours", "C"), "leave --mask-labels out"),
        (("--masks", "M", "--mask-values", "0", "--mask-colours", "C"), "contradicts"),
    ],
)
def test_options_that_cannot_be(options, message, tmp_path, capfd):
    ids = small(tmp_path)
    write(tmp_path, "masks/x/0.png", png(Image.fromarray(ids["x/0"])))
    (tmp_path / "empty.txt").write_text("sky\n\ncar\n")
    (tmp_path / "names.txt").write_text("sky\n")
    (tmp_path / "colours.txt").write_text("0 0 0 sky\n")
    places = {"M": "masks", "E": "empty.txt", "N": "names.txt", "C": "colours.txt"}
    options = [tmp_path / places[one] if one in places else one for one in options]
    arguments = ("--input", tmp_path / "images", "--output", tmp_path / "out")
    assert images(*arguments, *options) == 2
    assert message in capfd.readouterr().err


def test_padding_and_ignored_pixels_have_their_ids(tmp_path):
    ids = small(tmp_path, count=1)["x/0"]
    write(tmp_path, "masks/x/0.png", png(Image.fromarray(ids)))
    options = ("--size", "40x40", "--resize-mode", "pad")
    for number, (more, expected) in enumerate(
        [((), 255), (("--mask-ignore", "9"), 9), (("--mask-padding", "0"), 0)]
    ):
        made = make(
            tmp_path / str(number),
            *("--input", tmp_path / "images", "--masks", tmp_path / "masks", *SPLIT),
            *(*options, *more),
        )
        found = masks_of(made)["x/0.jpg"]
        assert {*itertools.chain(found[:5].ravel(), found[-5:].ravel())} == {expected}
        np.testing.assert_array_equal(found[5:-5], ids)
