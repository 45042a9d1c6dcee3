"""Messages on names without a file show the nearest file, and what differs."""

import json
import unicodedata

import pytest
from PIL import Image

from tests.folders import make_folder
from tests.image_runs import make, run
from tests.pipelines.test_advice import printed
from tests.pipelines.test_helpful_errors import details

pytestmark = pytest.mark.usefixtures("encoders")

NFC, NFD = (unicodedata.normalize(form, "é.png") for form in ("NFC", "NFD"))
NEAR = {
    "Unicode": (NFD, "é.png", "its Unicode form (it looks the same)"),
    "case": ("IM0.PNG", "im0.png", "case"),
    "case of the extension": ("f.PNG", "f.png", "case"),
    "percent": ("a é.png", "a%20%C3%A9.png", "its percent-encoding"),
    "extension": ("b.png", "b.jpg", "its extension"),
    "two extensions": ("c.jpg.png", "c.jpg", "its extension"),
    "no extension": ("d.png", "d", "its extension"),
    "several": ("E.png", "e.jpg", "case and its extension"),
}


def images(folder, *names):
    """A folder with an image of each name, and one more."""
    paths = sorted((make_folder(folder / "made", {"x": len(names) + 1}) / "x").iterdir())
    for path, name in zip(paths, [*names, "other.png"], strict=True):
        (folder / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        path.rename(folder / "in" / name)
    return folder / "in"


def coco(*names):
    entries = [{"id": n, "file_name": name} for n, name in enumerate(names)]
    boxes = [{"image_id": n, "category_id": 1, "bbox": [1, 1, 20, 20]} for n in range(len(names))]
    categories = [{"id": 1, "name": "ant"}]
    return json.dumps({"images": entries, "annotations": boxes, "categories": categories})


@pytest.mark.parametrize(("name", "given", "how"), NEAR.values(), ids=NEAR)
def test_the_nearest_file_to_a_missing_listed_one_is_shown(name, given, how, tmp_path):
    images(tmp_path, name)
    (tmp_path / "a.csv").write_text(f"path,label\nin/{given},x\nin/other.png,x\nin/im9.png,x\n")
    options = ("--input", tmp_path / "a.csv", "--max-reject-fraction", 1, "--size", 16)
    make(tmp_path / "out", *options)
    assert details(tmp_path / "out") == {
        f"in/{given}": (
            "missing",
            f"no such file, but {name!r} exists, which differs in {how}: correct the listing, or"
            " rename the file",
        ),
        "in/im9.png": ("missing", "no such file"),
    }


APART = {what: near for what, near in NEAR.items() if what != "Unicode"}


@pytest.mark.parametrize(("name", "given", "how"), APART.values(), ids=APART)
def test_images_and_annotations_with_near_names_are_shown(name, given, how, tmp_path):
    images(tmp_path, name)
    (tmp_path / "a.json").write_text(coco(given, "other.png", "im9.png"))
    options = ("--input", tmp_path / "in", "--annotations", tmp_path / "a.json", "--size", 16)
    make(tmp_path / "out", *options, "--max-reject-fraction", 1)
    missing = "a.json names it, but no image has a path that ends with this name"
    assert details(tmp_path / "out") == {
        given: ("missing", f"{missing}; the nearest is {name!r}, which differs in {how}"),
        "im9.png": ("missing", f"{missing}; --absent-images drop allows this"),
        name: (
            "unlabelled",
            f"no annotations in a.json (the nearest name there is {given!r}, which differs in"
            f" {how}); --unannotated keep or drop allows this",
        ),
    }


@pytest.mark.parametrize("option", ["--annotations", "--masks"])
def test_both_sides_are_shown_if_no_name_matches(option, tmp_path, capsys):
    folder = images(tmp_path, "IM0.png")
    (folder / "other.png").unlink()
    (tmp_path / "masks").mkdir()
    Image.new("L", (8, 8)).save(tmp_path / "masks" / "im0.png")
    (tmp_path / "a.json").write_text(coco("im0.png"))
    place = tmp_path / ("masks" if option == "--masks" else "a.json")
    given = ("--input", folder, "--output", tmp_path / "out", option, place)
    assert run("images", *given) == 2
    named = "im0" if option == "--masks" else "im0.png"
    assert (
        f"they name {named!r}, and the images are 'IM0.png'; the path of an image must end with"
        " such a name; the nearest is 'IM0.png', which differs in case"
    ) in printed(capsys)


def boxes(made):
    """{key: number of its boxes}"""
    return {
        key: len(example["image/object/bbox/xmin"])
        for split in made.manifest.splits
        for (key, _), example in made.examples(split).items()
    }


def notes(made):
    return [str(note) for note in made.manifest.notes]


@pytest.mark.parametrize("unannotated", ["reject", "keep"])
@pytest.mark.parametrize(("name", "given"), [(NFD, NFC), (NFC, NFD)], ids=["NFD", "NFC"])
def test_names_of_another_unicode_form_match_with_a_note(name, given, unannotated, tmp_path):
    folder = images(tmp_path, name)
    (tmp_path / "a.json").write_text(coco(given, "other.png"))
    options = ("--annotations", tmp_path / "a.json", "--unannotated", unannotated)
    made = make(tmp_path / "out", "--input", folder, *options, "--size", 16)
    assert details(tmp_path / "out") == {}
    assert boxes(made) == {name: 1, "other.png": 1}
    assert (
        f"--annotations a.json: 1 name, such as {given!r}, matches images whose names have another"
        " Unicode form (NFC or NFD) and look the same"
    ) in notes(made)


def test_an_equal_name_goes_before_one_of_another_unicode_form(tmp_path):
    folder = images(tmp_path, NFC, NFD)
    (tmp_path / "a.json").write_text(coco(NFC, NFD, "other.png"))
    options = ("--input", folder, "--annotations", tmp_path / "a.json", "--size", 16)
    made = make(tmp_path / "out", *options)
    assert boxes(made) == {NFC: 1, NFD: 1, "other.png": 1}
    assert not any("Unicode" in note for note in notes(made))


def test_annotations_of_two_images_that_look_the_same_are_ambiguous(tmp_path):
    folder = images(tmp_path, NFC, NFD, "a.png")
    (tmp_path / "a.json").write_text(coco(NFC, "other.png", "a.png"))
    options = ("--annotations", tmp_path / "a.json", "--unannotated", "keep", "--size", 16)
    make(tmp_path / "out", "--input", folder, *options, "--max-reject-fraction", 1)
    found = details(tmp_path / "out")
    assert {name: reason for name, (reason, _) in found.items()} == {
        NFC: "bad_value",
        NFD: "bad_value",
    }
    assert all("matches two images" in text for _, text in found.values())


def test_images_that_are_kept_without_annotations_are_near_to_unused_ones(tmp_path):
    folder = images(tmp_path, "IM0.png")
    (tmp_path / "a.json").write_text(coco("im0.png", "other.png"))
    options = ("--annotations", tmp_path / "a.json", "--unannotated", "keep", "--size", 16)
    make(tmp_path / "out", "--input", folder, *options, "--max-reject-fraction", 1)
    (reason, text) = details(tmp_path / "out")["im0.png"]
    assert reason == "missing"
    assert text.endswith("; the nearest is 'IM0.png', which differs in case")


def test_annotations_in_another_folder_are_shown(tmp_path, capsys):
    folder = images(tmp_path, "a.png")
    (folder / "other.png").unlink()
    (tmp_path / "a.json").write_text(coco("train/images/a.png"))
    given = ("--input", folder, "--output", tmp_path / "out", "--annotations", tmp_path / "a.json")
    assert run("images", *given) == 2
    assert "they name 'train/images/a.png', and the images are 'a.png'" in printed(capsys)


def test_ids_of_a_listing_without_extension_are_found_in_folders_below(tmp_path, capsys):
    images(tmp_path, "00a1.png")
    (tmp_path / "a.csv").write_text("path,label\n00a1,x\n")
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert run("images", *given) == 2
    assert (
        "the first: 00a1: no such file, but 'in/00a1.png' exists, which differs in its extension"
        " and its folder"
    ) in printed(capsys)


def test_annotations_of_equal_names_are_shown_with_their_folders(tmp_path, capsys):
    for folder in ("one", "two"):
        (tmp_path / "in" / folder).mkdir(parents=True)
        (tmp_path / folder).mkdir()
        (image,) = (make_folder(tmp_path / f"made-{folder}", {"x": 1}) / "x").iterdir()
        image.rename(tmp_path / "in" / folder / "0.png")
        (tmp_path / folder / "a.json").write_text(coco("0.png"))
    places = ",".join(str(tmp_path / folder / "a.json") for folder in ("one", "two"))
    given = ("--input", tmp_path / "in", "--annotations", places, "--output", tmp_path / "out")
    assert run("images", *given) == 2
    assert "--annotations one/a.json, two/a.json: '0.png' matches two" in printed(capsys)


VOC = "<annotation><object><name>a</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>5</xmax>\
<ymax>5</ymax></bndbox></object></annotation>"


def annotated(folder, *, txt=()):
    """A folder of images with VOC beside them, and texts."""
    names = [f"{n}.png" for n in range(4)]
    images(folder, *(f"train/{name}" for name in names))
    (folder / "in" / "other.png").rename(folder / "in" / "train" / "other.png")
    for name in (*names, "other.png"):
        (folder / "in" / "train" / name.replace(".png", ".xml")).write_text(VOC)
    for name in txt:
        (folder / "in" / name).write_text("0 0.5 0.5 0.1 0.1\n")
    return ("--input", folder / "in", "--annotations", folder / "in", "--size", 16)


@pytest.mark.parametrize("txt", [("README.dataset.txt", "README.roboflow.txt"), ("classes.txt",)])
def test_all_files_decide_the_format_of_annotations(txt, tmp_path):
    made = make(tmp_path / "out", *annotated(tmp_path, txt=txt))
    assert made.manifest.ledger.records.written == 5
    assert details(tmp_path / "out") == {}


def test_annotations_of_two_formats_are_an_error(tmp_path, capsys):
    given = annotated(tmp_path, txt=("train/0.txt", "train/1.txt"))
    assert run("images", *given, "--output", tmp_path / "out") == 2
    assert (
        "the folder holds annotations of several formats, .xml files such as train/0.xml (voc) and"
        " .txt files such as train/0.txt (yolo): name the format with --annotation-format, voc or"
        " yolo"
    ) in printed(capsys)
    made = make(tmp_path / "out", *given, "--annotation-format", "voc")
    assert made.manifest.ledger.records.written == 5


def test_readme_files_beside_yolo_are_not_annotations(tmp_path):
    images(tmp_path, "0.png")
    for name in ("0.txt", "other.txt", "README.roboflow.txt"):
        (tmp_path / "in" / name).write_text("0 0.5 0.5 0.1 0.1\n")
    (tmp_path / "in" / "classes.txt").write_text("ant\n")
    given = ("--input", tmp_path / "in", "--annotations", tmp_path / "in", "--size", 16)
    make(tmp_path / "out", *given)
    assert details(tmp_path / "out") == {}
