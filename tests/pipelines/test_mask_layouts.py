"""Masks in folders beside those of the images, in the layouts of public datasets."""

import json
import pathlib
import re
import shutil

import numpy as np
import pytest
from PIL import Image

from tests.archive_files import files_in, zip_of
from tests.image_runs import Made, images, make
from tests.painted_masks import COLOURS, opened, painted, png, shapes, write

pytestmark = pytest.mark.usefixtures("encoders")

MASK = "image/segmentation/class/encoded"
SIZE = (24, 16)
OPTIONS = ("--image-format", "png", "--num-shards", "1")
SPLITS = {"train": "train", "val": "validation", "test": "test"}  # {folder: split}
# {layout: (path of an image, path of its mask)}; equal names in all splits
BY_SPLIT = {
    "camvid": ("{split}/{n}.png", "{split}annot/{n}.png"),
    "words": ("{split}/{n}.jpg", "{split}_masks/{n}.png"),
    "two-words": ("{split}_images/{n}.jpg", "{split}_masks/{n}.png"),
    "words-first": ("img-{split}/{n}.jpg", "mask-{split}/{n}.png"),
    "kinds": ("images/{split}/{n}.jpg", "masks/{split}/{n}.png"),
    "kinds-in-splits": ("{split}/images/{n}.jpg", "{split}/masks/{n}.png"),
    "ade": ("images/{split}/{n}.jpg", "annotations/{split}/{n}.png"),
    "loveda": ("{split}/images_png/{n}.png", "{split}/masks_png/{n}.png"),
}
WHOLE = {
    "flat": ("images/{n}.jpg", "masks/{n}.png"),
    "pascal": ("JPEGImages/{n}.jpg", "SegmentationClass/{n}.png"),
    "original": ("a/original_image/{n}.jpg", "a/segmentation_image/{n}.png"),
    "pets": ("images/{n}.jpg", "annotations/trimaps/{n}.png"),
    "suffix": ("images/{n}.jpg", "masks/{n}_mask.png"),
}


def ids_of(split: str, number: int) -> np.ndarray:
    return shapes(100 * [*SPLITS].index(split) + number, SIZE)


def lay_out(
    folder: pathlib.Path,
    layout: str,
    *,
    colours: bool = False,
    of_masks: pathlib.Path | None = None,
) -> pathlib.Path:
    """Write images that show their own masks, and the masks, also into another folder."""
    by_split = layout in BY_SPLIT
    image, mask = (BY_SPLIT | WHOLE)[layout]
    for split in SPLITS if by_split else ("train",):
        for number in range(3):
            ids = ids_of(split, number)
            stored = painted(ids) if colours else Image.fromarray(ids)
            write(folder, image.format(split=split, n=number), png(painted(ids)))
            write(of_masks or folder, mask.format(split=split, n=number), png(stored))
    if layout == "pascal":
        write(folder, "SegmentationObject/0.png", png(Image.fromarray(ids_of("train", 7))))
        write(folder, "Annotations/0.xml", b"<annotation/>")
        write(folder, "ImageSets/Segmentation/train.txt", b"0\n")
    return folder


def expect_own_masks(made: Made, folders: dict[str, str] = SPLITS) -> int:
    """Check that each image has its own mask and the split of its folder; return their number."""
    count = 0
    for folder, split in folders.items():
        for (key, _), example in made.examples(split).items():
            number = int(pathlib.PurePath(key).stem)
            assert np.array_equal(opened(example[MASK][0]), ids_of(folder, number)), key
            assert folder in key or len(folders) == 1
            assert "image/class/label" not in example
            count += 1
    assert not made.rejects
    return count


@pytest.mark.parametrize("place", ["folder", "zip"])
@pytest.mark.parametrize("layout", BY_SPLIT)
def test_masks_by_split(tmp_path, layout, place):
    folder = lay_out(tmp_path / "in", layout)
    if place == "zip":
        folder = zip_of(tmp_path / "in.zip", files_in(folder))
    made = make(tmp_path / "out", "--input", folder, "--masks", folder, *OPTIONS)
    assert expect_own_masks(made) == 9


@pytest.mark.parametrize("place", ["folder", "zip"])
@pytest.mark.parametrize("layout", [*BY_SPLIT, "flat", "pascal", "pets", "suffix", "same"])
def test_masks_in_another_folder(tmp_path, layout, place, monkeypatch):
    """Images need no classes, and usual names of folders mean the same as in one folder."""
    monkeypatch.setitem(BY_SPLIT, "same", ("{split}/{n}.jpg", "{split}/{n}_converted.png"))
    folder = lay_out(tmp_path / "in", layout, of_masks=tmp_path / "drawn")
    masks = tmp_path / "drawn"
    if place == "zip":
        folder, masks = (zip_of(one.with_suffix(".zip"), files_in(one)) for one in (folder, masks))
    suffix = ("--mask-suffix", "_converted") if layout == "same" else ()
    splits = ("--splits", "train=1") if layout in WHOLE else ()
    argv = ("--input", folder, "--masks", masks, *suffix, *splits, *OPTIONS)
    made = make(tmp_path / "out", *argv)
    folders = {"train": "train"} if layout in WHOLE else SPLITS
    assert expect_own_masks(made, folders) == 3 * len(folders)


@pytest.mark.parametrize(
    ("layout", "masks"),
    [
        ("camvid", ["trainannot", "valannot", "testannot"]),
        ("camvid", ["*annot"]),
        ("two-words", ["train_masks", "val_masks", "test_masks"]),
        ("kinds", ["masks"]),
        ("kinds-in-splits", ["*/masks"]),
    ],
)
def test_folders_of_masks_may_be_named(tmp_path, layout, masks):
    folder = lay_out(tmp_path / "in", layout)
    named = [word for name in masks for word in ("--masks", folder / name)]
    made = make(tmp_path / "out", "--input", folder, *named, *OPTIONS)
    assert expect_own_masks(made) == 9
    plain = make(tmp_path / "plain", "--input", folder, "--masks", folder, *OPTIONS)
    assert made.manifest.digest == plain.manifest.digest


def test_folders_of_images_with_the_name_of_a_split_hold_classes(tmp_path):
    folder = lay_out(tmp_path / "in", "two-words")
    for kind in ("images", "masks"):
        for split in SPLITS:
            (folder / f"{split}_{kind}").rename(folder / "moved")
            (folder / f"{split}_{kind}").mkdir()
            (folder / "moved").rename(folder / f"{split}_{kind}/cat")
    given = ("--input", folder, "--masks", folder, *OPTIONS)
    made = make(tmp_path / "out", *given)
    assert made.manifest.labels == ("cat",)
    assert [len(made.examples(split)) for split in SPLITS.values()] == [3, 3, 3]


def test_masks_beside_several_inputs(tmp_path):
    folder = lay_out(tmp_path / "in", "camvid")
    inputs = [word for one in SPLITS for word in ("--input", f"{one}={folder / one}")]
    for number, masks in enumerate((folder, folder / "*annot")):
        made = make(tmp_path / f"out{number}", *inputs, "--masks", masks, *OPTIONS)
        assert expect_own_masks(made) == 9


@pytest.mark.parametrize("layout", WHOLE)
def test_masks_without_splits(tmp_path, layout):
    folder = lay_out(tmp_path / "in", layout)
    made = make(
        tmp_path / "out", "--input", folder, "--masks", folder, "--splits", "train=1", *OPTIONS
    )
    assert expect_own_masks(made, {"train": "train"}) == 3


def test_masks_in_the_folder_around_both(tmp_path):
    for layout in ("kinds", "kinds-in-splits"):
        lay_out(tmp_path / layout / "D", layout)
    folder = lay_out(tmp_path / "flat/D", "flat").parent
    made = make(
        tmp_path / "out", "--input", folder, "--masks", folder, "--splits", "train=1", *OPTIONS
    )
    assert expect_own_masks(made, {"train": "train"}) == 3
    folder = tmp_path / "kinds"
    made = make(tmp_path / "out2", "--input", folder, "--masks", folder, *OPTIONS)
    assert expect_own_masks(made) == 9
    assert made.manifest.labels == ()


@pytest.mark.parametrize("masks", ["", "SegmentationClass"])
def test_drawn_masks_are_skipped(tmp_path, masks):
    folder = lay_out(tmp_path / "in", "pascal")
    for kind in ("Class", "Object"):
        drawn = png(painted(ids_of("train", 8)))
        write(folder, f"Segmentation{kind}Visualization/0.png", drawn)
    (folder / "class_names.txt").write_text("__ignore__\n_background_\ncat\n")
    argv = ("--input", folder, "--masks", folder / masks, "--splits", "train=1", *OPTIONS)
    made = make(tmp_path / "out", *argv)
    assert expect_own_masks(made, {"train": "train"}) == 3
    filtered = made.manifest.ledger.filtered.inputs
    assert filtered["visualization"] == 2
    assert filtered["extension"] == 2  # class_names.txt and a list in ImageSets/Segmentation
    job = json.loads((made.folder / "job.json").read_text())
    assert job["interpretation"]["data"].endswith(f"3 files, masks in {folder / masks}")


def test_an_ambiguous_mask_names_the_folder_of_the_images(tmp_path, capfd):
    folder = lay_out(tmp_path / "in", "pascal")
    write(folder, "previews/0.png", png(painted(ids_of("train", 8))))
    write(folder, "previews/1.png", png(painted(ids_of("train", 8))))
    argv = ("--input", folder, "--masks", folder / "SegmentationClass", *OPTIONS)
    assert images(*argv, "--output", tmp_path / "none") == 2
    said = " ".join(capfd.readouterr().err.split())
    assert "'0' matches two images, 'JPEGImages/0.jpg' and 'previews/0.png'" in said
    assert "or pass the images alone: --input .../JPEGImages" in said


def test_names_that_differ_as_in_cityscapes(tmp_path):
    for folder in SPLITS:
        for number in range(2):
            ids, name = ids_of(folder, number), f"{folder}/aachen/{number}"
            write(tmp_path, f"in/leftImg8bit/{name}_leftImg8bit.png", png(painted(ids)))
            write(tmp_path, f"in/gtFine/{name}_gtFine_labelIds.png", png(Image.fromarray(ids)))
            write(tmp_path, f"in/gtFine/{name}_gtFine_color.png", png(painted(ids)))
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "in", "--masks", tmp_path / "in" / "gtFine", *OPTIONS),
        *("--mask-suffix", "_leftImg8bit=_gtFine_labelIds"),
    )
    assert [len(made.examples(split)) for split in SPLITS.values()] == [2, 2, 2]
    assert not made.rejects


@pytest.mark.parametrize(
    ("image", "mask", "suffix"),
    [
        ("img_{n}", "semantic_seg_{n}", "img_*=semantic_seg_*"),
        ("{n}", "mask-{n}", "mask-*"),
        ("{n}", "m{n}_gt", "_a,m*_gt"),
        ("img_{n}_rgb", "{n}", "img_*_rgb=*"),
        ("{n}", "{n}_converted", "_converted"),
        ("{n}a", "{n}b", "a=b"),
    ],
)
def test_names_that_begin_differently(tmp_path, capfd, image, mask, suffix):
    for number in range(12):
        ids = ids_of("train", number)
        write(tmp_path, f"in/{image.format(n=number)}.png", png(painted(ids)))
        write(tmp_path, f"masks/{mask.format(n=number)}.png", png(Image.fromarray(ids)))
    write(tmp_path, "masks/other.txt", b"")
    argv = ("--input", tmp_path / "in", "--masks", tmp_path / "masks", "--splits", "train=1")
    assert images(*argv, "--output", tmp_path / "none") == 2
    (given,) = re.findall(r"; --mask-suffix '?([^' ]+)'? reads names such", capfd.readouterr().err)
    assert given == suffix.removeprefix("_a,")
    made = make(tmp_path / "out", *argv, *OPTIONS, "--mask-suffix", suffix)
    assert not made.rejects
    for (key, _), example in made.examples().items():
        number = int("".join(filter(str.isdigit, key)))
        assert np.array_equal(opened(example[MASK][0]), ids_of("train", number))
    assert len(made.examples()) == 12
    assert images(*argv, "--mask-suffix", "no_*", "--output", tmp_path / "none") == 2
    error = capfd.readouterr().err
    assert "--mask-suffix no_*: no name in" in error
    assert "a prefix is given as --mask-suffix 'PREFIX*'" in error


def test_several_suffixes_as_in_drive(tmp_path):
    for split in ("training", "test"):
        for number in range(2):
            ids = ids_of("train", number)
            write(tmp_path, f"in/{split}/images/{number}_{split}.png", png(painted(ids)))
            mask = png(Image.fromarray(ids))
            write(tmp_path, f"in/{split}/1st_manual/{number}_manual1.png", mask)
            write(tmp_path, f"in/{split}/mask/{number}_{split}_mask.png", mask)
            if split == "test":  # of a second reader
                write(tmp_path, f"in/{split}/2nd_manual/{number}_manual2.png", mask)
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "in", "--masks", tmp_path / "in" / "*" / "1st_manual", *OPTIONS),
        *("--mask-suffix", "_training=_manual1,_test=_manual1"),
    )
    assert [len(made.examples(split)) for split in ("train", "test")] == [2, 2]
    assert not made.rejects


def test_folders_in_that_of_the_images_are_classes(tmp_path):
    for name in ("cat/1", "dog/1"):
        ids = ids_of("train", len(name))
        write(tmp_path, f"in/images/{name}.png", png(painted(ids)))
        write(tmp_path, f"in/masks/{name}.png", png(Image.fromarray(ids)))
    place = tmp_path / "in"
    made = make(tmp_path / "out", "--input", place, "--masks", place, "--splits", "train=1")
    texts = [example["image/class/text"] for example in made.examples().values()]
    assert sorted(texts) == [[b"cat"], [b"dog"]]


LABEL_MAP = "# label:color_rgb:parts:actions\nsky:0,0,0::\nroad:255,0,0::\ncar:0,255,0::\n"


@pytest.mark.parametrize("where", ["beside", "named"])
def test_colours_of_cvat(tmp_path, where):
    folder = lay_out(tmp_path / "in", "pascal", colours=True)
    assert images("--input", folder, "--masks", folder, "--output", tmp_path / "none") == 2
    path = folder / "labelmap.txt" if where == "beside" else tmp_path / "other.txt"
    path.write_text(LABEL_MAP + f"bus:{','.join(map(str, COLOURS[3]))}::\n")
    named = () if where == "beside" else ("--mask-colours", path)
    argv = ("--input", folder, "--masks", folder, "--splits", "train=1", *OPTIONS, *named)
    made = make(tmp_path / "out", *argv)
    assert expect_own_masks(made, {"train": "train"}) == 3
    names = (made.folder / "segmentation_labels.txt").read_text()
    assert names == "sky\nroad\ncar\nbus\n"
    notes = [str(note) for note in made.manifest.notes if note.code == "annotations"]
    text = f"in: {path} gives the colours and names of their classes"
    assert notes == ([text] if where == "beside" else [])


def test_colours_beside_masks_of_ids_are_not_used(tmp_path):
    folder = lay_out(tmp_path / "in", "pascal")
    (folder / "labelmap.txt").write_text(LABEL_MAP)
    argv = ("--input", folder, "--masks", folder, "--splits", "train=1", *OPTIONS)
    assert expect_own_masks(make(tmp_path / "out", *argv), {"train": "train"}) == 3


@pytest.mark.parametrize(
    ("layout", "text"),
    [
        ("camvid", ", and folders that seem to hold the masks of their images (testannot,"
         " trainannot, valannot): --masks {folder} reads these as masks"),
        ("kinds", "below other folders (images, masks): masks may hold masks of the others: --masks"
         " {folder} reads them"),
    ],
)  # fmt: skip
def test_the_error_without_masks_names_the_option(tmp_path, capfd, layout, text):
    folder = lay_out(tmp_path / "in", layout)
    assert images("--input", folder, "--output", tmp_path / "none") == 2
    assert text.format(folder=folder) in capfd.readouterr().err


def _twice(folder: pathlib.Path) -> None:
    for number in range(2):
        shutil.copy(folder / f"masks/{number}.png", folder / f"masks/{number}.gif")


def _no_masks(folder: pathlib.Path) -> None:
    (folder / "masks").rename(folder / "others")


def _one_per_class(folder: pathlib.Path) -> None:
    for number in range(3):
        for name in ("road", "car"):
            write(folder, f"masks/{name}/{number}x.png", b"0")
        (folder / f"masks/{number}.png").unlink()


def _other_names(folder: pathlib.Path) -> None:
    for number in range(3):
        (folder / f"masks/{number}.png").rename(folder / f"masks/a{number}.png")


@pytest.mark.parametrize(
    ("damage", "masks", "text"),
    [
        (_twice, "", "2 of 3 images have two masks: 'masks/0.gif' and 'masks/0.png' may both be the"
         " mask of '0': pass folders that hold one mask of each image, or the end of its name as"
         " --mask-suffix"),
        (_no_masks, "", "holds the images, too, and no folder in it has a usual name for masks,"
         " such as masks, labels or trainannot: name the folders of the masks, as in --masks"),
        (_other_names, "", "no image of the input matches the masks in: they name 'a0', 'a1'"),
        (_one_per_class, "", "there are 6 masks for 3 images, but each image needs one with the ids"
         " of all classes: combine those of single objects or classes"),
        (_no_masks, "*annot", "no folder matches"),
        (_no_masks, "masks", "does not exist: check the path"),
    ],
)  # fmt: skip
def test_masks_that_do_not_fit_are_an_error(tmp_path, capfd, damage, masks, text):
    folder = lay_out(tmp_path / "in", "flat")
    damage(folder)
    argv = ("--input", folder, "--masks", folder / masks, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert text in capfd.readouterr().err


def test_a_mask_of_another_size_is_rejected(tmp_path):
    folder = lay_out(tmp_path / "in", "flat")
    write(folder, "masks/1.png", png(Image.fromarray(shapes(1, (16, 16)))))
    (folder / "masks/2.png").unlink()
    made = make(
        tmp_path / "out",
        *("--input", folder, "--masks", folder, "--splits", "train=1", *OPTIONS),
        *("--max-reject-fraction", "1"),
    )
    assert made.rejects == {"images/1.jpg": "bad_value", "images/2.jpg": "unlabelled"}


def test_masks_with_two_of_the_suffixes_reject_their_image(tmp_path):
    folder = lay_out(tmp_path / "in", "suffix")
    shutil.copy(folder / "masks/0_mask.png", folder / "masks/0_seg.png")
    (folder / "masks/1_mask.png").rename(folder / "masks/1_seg.png")
    places = ("--input", folder / "images", "--masks", folder / "masks")
    argv = (*places, "--mask-suffix", "_mask,_seg", "--splits", "train=1", *OPTIONS)
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", "0.5")
    (reject,) = map(json.loads, (made.folder / "rejects.jsonl").read_text().splitlines())
    assert (reject["key"], reject["reason"]) == ("0.jpg", "bad_value")
    assert reject["detail"].startswith("'0_mask' and '0_seg' are both masks of the image '")
    assert made.keys("train") == {"1.jpg", "2.jpg"}


@pytest.mark.parametrize("beside", [False, True])
def test_an_image_with_two_masks_is_rejected(tmp_path, beside):
    folder = lay_out(tmp_path / "in", "suffix")
    shutil.copy(folder / "masks/0_mask.png", folder / "masks/0_mask.gif")
    masks, more = folder, ()
    if beside:
        for path in (folder / "masks").iterdir():
            path.rename(folder / "images" / path.name)
        masks, more = folder / "images", ("--mask-suffix", "_mask")
    argv = ("--input", masks, "--masks", masks, "--splits", "train=1", *OPTIONS, *more)
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", "0.5")
    (reject,) = map(json.loads, (made.folder / "rejects.jsonl").read_text().splitlines())
    assert reject["key"].endswith("0.jpg")
    assert (reject["stage"], reject["reason"]) == ("read", "bad_value")
    assert "0_mask.gif' and " in reject["detail"]
    assert "may both be the mask of '" in reject["detail"]
    assert len(made.examples()) == 2
