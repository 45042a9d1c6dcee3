"""Messages on names without a file show the nearest file, and what differs."""

import json
import unicodedata

import pytest

from tests.folders import make_folder
from tests.image_runs import make, run
from tests.pipelines.test_advice import printed
from tests.pipelines.test_helpful_errors import details

pytestmark = pytest.mark.usefixtures("encoders")

NFD = unicodedata.normalize("NFD", "é.png")
NEAR = {
    "Unicode": (NFD, "é.png", "its Unicode form (it looks the same)"),
    "case": ("IM0.PNG", "im0.png", "case"),
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
    boxes = [{"image_id": n, "category_id": 1, "bbox": [1, 1, 4, 4]} for n in range(len(names))]
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


@pytest.mark.parametrize(("name", "given", "how"), NEAR.values(), ids=NEAR)
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
    folder = images(tmp_path, NFD)
    composed = unicodedata.normalize("NFC", NFD)
    (folder / "other.png").unlink()
    (tmp_path / "masks").mkdir()
    (tmp_path / "masks" / composed).write_bytes((folder / NFD).read_bytes())
    (tmp_path / "a.json").write_text(coco(composed))
    place = tmp_path / ("masks" if option == "--masks" else "a.json")
    given = ("--input", folder, "--output", tmp_path / "out", option, place)
    assert run("images", *given) == 2
    named = composed.removesuffix(".png") if option == "--masks" else composed
    assert (
        f"they name {named!r}, and the images are {NFD!r}; the path of an image must end with such"
        f" a name; the nearest is {NFD!r}, which differs in its Unicode form (it looks the same)"
    ) in printed(capsys)


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
        "the folder holds 5 .xml and 2 .txt files: name the format with --annotation-format, voc"
        " or yolo"
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
