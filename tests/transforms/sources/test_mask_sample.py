"""The check of a sample of masks: which mixtures of levels are an error, a note, or neither."""

import io
import itertools

import numpy as np
import pytest
from PIL import Image, ImageFilter

from recordmill.errors import ConfigError
from recordmill.storage.files import Location
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import MaskOptions
from recordmill.transforms.sources.annotations.mask_files import MaskFolders
from tests.image_runs import make
from tests.painted_masks import png, shapes, write
from tests.tfrecord_inputs import write_records

SIZE = (64, 48)
SHAPE = shapes(1, SIZE) > 0


def of_levels(*levels):
    """A mask of one area, at the last level, and lines of the others, three pixels wide."""
    mask = np.where(SHAPE, levels[-1], 0).astype(np.uint8)
    for number, level in enumerate(levels[:-1]):
        mask[:, 4 * number : 4 * number + 3] = level
    return Image.fromarray(mask)


def of_palette(*levels):
    mask = Image.fromarray(np.asarray(of_levels(*levels)), "P")
    mask.putpalette([9, 9, 9, 200, 0, 0, 0, 200, 0, *[255] * 759])
    return mask


def stray():
    mask = np.where(SHAPE, 255, 0).astype(np.uint8)
    mask[0, 0] = 254
    return Image.fromarray(mask)


def reopened(image, kind):
    out = io.BytesIO()
    image.save(out, kind)
    return Image.open(out)


def of_scale(*levels):
    """Return a mask of 0 and these levels, and one without the first of them."""
    return [of_levels(*levels[number:]) for number in (0, 1)]


BLANK, WHITE, BINARY = of_levels(0), Image.new("L", SIZE, 255), of_levels(255)
ONE_BIT, UNIT, PALETTE = BINARY.convert("1"), of_levels(1), of_palette(1)
BORDERED, UNIT_BORDERED, CLASSES = of_levels(255, 3, 7), of_levels(255, 1), of_levels(1, 2, 5)
VOC = of_palette(255, 15, 1)
SMOOTHED = {
    "blur": BINARY.filter(ImageFilter.GaussianBlur(1)),
    "twice as large": BINARY.resize((128, 96), Image.Resampling.BILINEAR),
    "larger": BINARY.resize((200, 150), Image.Resampling.BILINEAR),
    "smaller": BINARY.resize((40, 30), Image.Resampling.BILINEAR),
    "lanczos": BINARY.resize((40, 30), Image.Resampling.LANCZOS),
    "rotated": BINARY.rotate(17, Image.Resampling.BILINEAR),
    "jpeg": reopened(BINARY, "JPEG"),
}


def check(folder, masks, **options):
    """Read masks with options, and return the notes."""
    for number, mask in enumerate(masks):
        write(folder, f"masks/{number:02}.png", png(mask))
    place = Location.parse(str(folder / "masks"))
    return MaskFolders(
        places=(place,), suffix=None, options=MaskOptions(**options), limits=ImageOptions()
    )().notes


VALUES, IGNORE = "pass --mask-values 0,255", "--mask-ignore 255"
MANY = [BINARY] * 7


@pytest.mark.parametrize(
    ("masks", "parts"),
    [
        ([BINARY, BLANK], ["the masks in masks have only the levels 0 and 255", VALUES, IGNORE]),
        ([WHITE, BLANK], ["the masks in masks have only the levels 0 and 255", VALUES, IGNORE]),
        (
            [BINARY, BINARY, ONE_BIT, BLANK],
            [
                "2 of 4 sampled masks in masks, such as '00.png', have only the levels 0 and 255",
                "and 1, such as '02.png', have one bit",
                VALUES,
                IGNORE,
            ],
        ),
        ([BINARY, ONE_BIT, BORDERED], ["1, such as '01.png', have one bit", "store all masks"]),
        ([PALETTE, BINARY, PALETTE], ["and 2, such as '00.png', have only 0 and 1", "store all"]),
        ([UNIT, BINARY], ["such as '00.png', have only 0 and 1", "store all masks", IGNORE]),
        ([UNIT, ONE_BIT, BINARY], ["and 2, such as '01.png', have one bit or only 0", "store all"]),
        (
            [SMOOTHED["blur"], BINARY, SMOOTHED["blur"]],
            [
                "2 of 3 sampled masks in masks, such as '00.png', look smoothed",
                "1 of 3 sampled masks, such as '01.png', have only the levels 0 and 255",
            ],
        ),
    ],
)
def test_ambiguous_masks_are_an_error_unless_options_state_their_meaning(masks, parts, tmp_path):
    with pytest.raises(ConfigError) as raised:
        check(tmp_path, masks)
    for part in parts:
        assert part in str(raised.value)
    assert not check(tmp_path, masks, values=(0, 255))
    assert all("smoothed" in note for note in check(tmp_path, masks, ignore=255))


@pytest.mark.parametrize(
    ("masks", "part"),
    [
        (
            [*MANY, stray()],
            "7 of 8 sampled masks, such as '00.png', have only the levels 0 and 255",
        ),
        ([*MANY, stray()], "'07.png' also has 254, so 255 is ignored"),
        ([BINARY, BINARY, CLASSES], "'02.png' also has 1, 2, 5, so 255 is ignored"),
        ([BINARY, UNIT, BINARY, stray()], "2 of 4 sampled masks"),
    ],
)
def test_masks_of_two_levels_that_outnumber_those_of_ids_are_noted(masks, part, tmp_path):
    (note,) = check(tmp_path, masks)
    assert note.code == "masks"
    assert part in note
    assert VALUES in note
    assert not check(tmp_path, masks, ignore=255)
    assert "so 255 is a class id" in check(tmp_path, masks, depth=16)[0]


@pytest.mark.parametrize(
    ("masks", "values"),
    [
        (of_scale(64, 128, 191, 255), "0,64,128,191,255"),
        (of_scale(85, 170, 255), "0,85,170,255"),
        ([of_levels(128, 255), *MANY], "0,128,255"),
        ([stray(), stray(), BINARY], "0,254,255"),
        (of_scale(76, 150, 255), "0,76,150,255"),  # grays of red and green
        (of_scale(*range(17, 256, 17)), ",".join(map(str, range(0, 256, 17)))),
        ([mask.convert("RGBA") for mask in of_scale(85, 170, 255)], "0,85,170,255"),
    ],
)
def test_levels_spread_over_the_gray_scale_are_an_error(masks, values, tmp_path):
    levels = (*map(int, values.split(",")),)
    for options in ({}, {"classes": len(levels)}):
        with pytest.raises(ConfigError) as raised:
            check(tmp_path, masks, **options)
        shown = values.replace(",", ", ") if len(levels) <= 5 else "0, 17, 34, 51, 68, ..."
        assert (
            f"the sampled masks in masks have only the levels {shown}, which look like gray"
            " levels, not class ids, and 255 may be a class or mark pixels without one: pass"
            f" --mask-values {values} to make them the classes 0 to {len(levels) - 1}, or"
            " --mask-ignore 255 to read the levels as ids and 255 as no class" in str(raised.value)
        )
    for options in ({"values": levels}, {"ignore": 255}):
        assert not check(tmp_path, masks, **options)
    assert not any("read as a class" in note for note in check(tmp_path, masks, classes=255))


@pytest.mark.parametrize(
    ("masks", "values", "ignored"),
    [
        (of_scale(50, 100, 150), "0,50,100,150", ""),
        ([of_levels(140), BLANK], "0,140", ""),
        (of_scale(29, 76, 150, 255), "0,29,76,150,255", ", and 255 is ignored"),
        (of_scale(124, 150, 255), "0,124,150,255", ", and 255 is ignored"),  # ids of many classes
    ],
)
def test_other_levels_that_are_far_apart_are_noted(masks, values, ignored, tmp_path):
    (note,) = check(tmp_path, masks)
    assert note == (
        f"the sampled masks in masks have only the levels {values.replace(',', ', ')}, and each is"
        f" read as a class id{ignored}; if they stand for the classes 0 to {values.count(',')},"
        f" pass --mask-values {values}; otherwise --mask-ignore 255 confirms the ids"
    )
    levels = (*map(int, values.split(",")),)
    for options in ({"values": levels}, {"ignore": 255}, {"classes": 151}):
        assert not check(tmp_path, masks, **options)


def test_masks_of_16_bits_have_another_white(tmp_path) -> None:
    white = Image.fromarray(np.where(SHAPE, 65535, 0).astype(np.uint16))
    with pytest.raises(ConfigError) as raised:
        check(tmp_path, [white, white], depth=16)
    assert (
        "masks in masks have only the levels 0 and 65535, and 65535 usually marks pixels without a"
        " class: pass --mask-values 0,65535 to make 65535 the class 1, or --mask-ignore 65535"
        " --mask-depth 16 to ignore it" in str(raised.value)
    )
    assert not check(tmp_path, [white], values=(0, 65535))
    assert not check(tmp_path, [white], depth=16, ignore=65535)
    (note,) = check(tmp_path, [white, white, CLASSES], depth=16)
    assert "only the levels 0 and 65535, but '02.png' also has 1, 2, 5, so 65535 is ignored" in note
    gray = Image.fromarray(np.asarray(of_levels(128, 255)).astype(np.uint16) * 257)
    with pytest.raises(ConfigError, match=r"0,32896,65535 .*ignore 65535 --mask-depth 16"):
        check(tmp_path / "gray", [gray], depth=16)


@pytest.mark.parametrize(
    "masks",
    [
        [BORDERED, BINARY, CLASSES],
        [BORDERED, WHITE, BLANK],
        [VOC, VOC, of_palette(255), of_palette(1)],  # one with a class, one with a border only
        [UNIT_BORDERED, UNIT, BINARY, BLANK, WHITE],  # two classes, and pixels without one
        [UNIT, PALETTE, ONE_BIT, BLANK],
        [UNIT, WHITE, BLANK],
        [CLASSES, ONE_BIT],
        [BLANK],
        [of_levels(*range(1, 10), 255)],
        [of_levels(7, 11, 200, 255)],
        of_scale(7, 8, 11, 12, 13, 17, 19, 33),  # Cityscapes
        of_scale(7, 26, 33, 255),
        [of_levels(1, 5), BLANK],
        [of_palette(15), of_palette(15, 255)],  # persons of Pascal VOC
        of_scale(*range(10, 91, 10), 95, 100),  # WorldCover
    ],
)
def test_masks_of_ids_give_neither_an_error_nor_a_note(masks, tmp_path):
    assert not check(tmp_path, masks)


def test_masks_that_are_all_lossy_are_an_error(tmp_path):
    for number in range(2):
        content = io.BytesIO()
        BINARY.save(content, "JPEG")
        write(tmp_path, f"masks/{number}.jpg", content.getvalue())
    for options in ({}, {"values": (0, 255)}, {"ignore": 255}):
        with pytest.raises(ConfigError) as raised:
            check(tmp_path, [], **options)
        assert "no sampled mask can be read: '0.jpg' is a JPEG, which may change class ids" in str(
            raised.value
        )
        assert "convert the masks to PNG, and set each pixel to the level" in str(raised.value)
    assert not check(tmp_path, [CLASSES])  # only the JPEGs are rejected


def test_scenes_of_much_road_and_many_ignored_pixels_do_not_look_smoothed(tmp_path):
    """0 is the road in the ids that Cityscapes is trained with; objects may be small."""
    draw = np.random.default_rng(3)
    for side in (2, 3, 8):
        cells = draw.choice([*[0] * 30, *[255] * 10, *range(1, 19)], (40, 40)).astype(np.uint8)
        mask = Image.fromarray(np.kron(cells, np.ones((side, side), np.uint8)))
        assert not check(tmp_path / str(side), [mask])


@pytest.mark.parametrize("kind", SMOOTHED)
def test_smoothed_masks_are_noted(kind, tmp_path):
    masks = [SMOOTHED[kind], CLASSES]
    for options in ({}, {"ignore": 255}):
        (note,) = check(tmp_path, masks, **options)
        assert note.code == "masks"
        assert "1 of 2 sampled masks look smoothed" in note
        assert "'00.png'" in note
        assert VALUES in note
    assert not check(tmp_path, masks, classes=6)  # masks with other ids are rejected
    assert not check(tmp_path, masks, values=(0, 1, 2, 5))


@pytest.mark.parametrize("place", ["a folder", "records"])
def test_notes_on_masks_are_in_the_manifest(place, tmp_path, encoders):
    contents = [png(mask) for mask in itertools.repeat(SMOOTHED["blur"], 3)]
    image = png(Image.new("RGB", SIZE))
    if place == "records":
        records = [
            {"image/encoded": [image], "image/segmentation/class/encoded": [content]}
            for content in contents
        ]
        arguments = ("--input", write_records(tmp_path / "a.record", records))
    else:
        for number, content in enumerate(contents):
            write(tmp_path, f"images/x/{number}.png", image)
            write(tmp_path, f"masks/x/{number}.png", content)
        arguments = ("--input", tmp_path / "images", "--masks", tmp_path / "masks")
    made = make(tmp_path / "out", *arguments, "--splits", "train=1")
    (note,) = (one for one in made.manifest.notes if one.code == "masks")
    assert "3 of 3 sampled masks look smoothed" in note
