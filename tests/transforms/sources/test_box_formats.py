"""Annotations in every format: equal boxes, and the message for each mistake."""

import csv
import json
from xml.etree import ElementTree

import numpy as np
import pytest

from recordmill.errors import ConfigError
from recordmill.storage.files import Location
from recordmill.transforms.model.annotations import OBJECTS, SIDES
from recordmill.transforms.sources.annotations.annotation_reader import Annotations
from recordmill.transforms.sources.annotations.formats.annotation_files import open_voc
from recordmill.transforms.sources.annotations.formats.box_tables import read_boxes
from recordmill.transforms.sources.annotations.formats.yolo import open_yolo
from tests.box_masks import boxes_of
from tests.image_runs import images, make
from tests.paths import BOXES

pytestmark = pytest.mark.usefixtures("encoders")


@pytest.fixture(scope="module")
def coco():
    """[(name, width, height, [(class, its number, corners)])]"""
    whole = json.loads((BOXES / "annotations.json").read_text())
    classes = {one["id"]: one["name"] for one in whole["categories"]}
    found = {
        one["id"]: (one["file_name"], one["width"], one["height"], []) for one in whole["images"]
    }
    for one in whole["annotations"]:
        x, y, w, h = one["bbox"]
        number = one["category_id"]
        found[one["image_id"]][3].append((classes[number], number, (x, y, x + w, y + h)))
    return list(found.values())


def write_voc(folder, coco):
    folder.mkdir()
    for name, width, height, objects in coco:
        root = ElementTree.Element("annotation")
        size = ElementTree.SubElement(root, "size")
        ElementTree.SubElement(size, "width").text = str(width)
        ElementTree.SubElement(size, "height").text = str(height)
        for label, _, (left, top, right, bottom) in objects:
            one = ElementTree.SubElement(root, "object")
            ElementTree.SubElement(one, "name").text = label
            ElementTree.SubElement(one, "difficult").text = "1"
            box = ElementTree.SubElement(one, "bndbox")
            corners = {"xmin": left + 1, "ymin": top + 1, "xmax": right, "ymax": bottom}
            for corner, value in corners.items():
                ElementTree.SubElement(box, corner).text = str(value)
        path = (folder / name).with_suffix(".xml")
        path.write_bytes(ElementTree.tostring(root))
    return folder


def write_yolo(folder, coco):
    folder.mkdir()
    (folder / "classes.txt").write_text("circle\nrectangle\ntriangle\n")
    for name, width, height, objects in coco:
        lines = [
            f"{number} {(left + right) / 2 / width} {(top + bottom) / 2 / height}"
            f" {(right - left) / width} {(bottom - top) / height}"
            for _, number, (left, top, right, bottom) in objects
        ]
        (folder / name).with_suffix(".txt").write_text("\n".join(lines))
    return folder


def write_csv(path, coco, *, fractions=False):
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["filename", "class", "xmin", "ymin", "xmax", "ymax"])
        for name, width, height, objects in coco:
            sides = (width, height, width, height) if fractions else (1, 1, 1, 1)
            for label, _, corners in objects:
                writer.writerow(
                    [
                        name,
                        label,
                        *(value / side for value, side in zip(corners, sides, strict=True)),
                    ]
                )
    return path


@pytest.mark.parametrize("which", ["coco", "voc", "yolo", "csv", "csv of fractions"])
def test_every_format_gives_the_same_boxes(which, coco, tmp_path):
    more = []
    match which:
        case "coco":
            place = BOXES / "annotations.json"
        case "voc":
            place = write_voc(tmp_path / "voc", coco)
        case "yolo":
            place = write_yolo(tmp_path / "yolo", coco)
        case "csv":
            place = write_csv(tmp_path / "boxes.csv", coco)
        case _:
            place = write_csv(tmp_path / "boxes.csv", coco, fractions=True)
            more = ["--box-units", "fractions"]
    made = make(
        tmp_path / "out",
        *("--input", BOXES / "images", "--annotations", place, "--splits", "train=1"),
        *("--size", 64, "--resize-mode", "pad", *more),
    )
    examples = made.examples()
    assert made.manifest.labels == ("circle", "rectangle", "triangle")
    assert sum(len(example["image/object/class/label"]) for example in examples.values()) == 915
    for name, width, height, objects in coco:
        example = examples[name, 0]
        assert list(example["image/object/class/label"]) == [number for _, number, _ in objects]
        assert [text.decode() for text in example["image/object/class/text"]] == [
            label for label, *_ in objects
        ]
        boxes = boxes_of(example)
        scales = 64 / max(width, height)
        for box, (_, _, corners) in zip(boxes, objects, strict=True):
            expected = (corners[2] - corners[0]) * scales, (corners[3] - corners[1]) * scales
            np.testing.assert_allclose(box[2:] - box[:2], expected, rtol=0.02)
        if which == "voc":
            assert set(example["image/object/difficult"]) == {1}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("0 0.5 0.5 0.1", "line 1: expected a class and four numbers, got 4 words"),
        ("0 0.5 0.5 0.1 0.2\n2 .5 .5 .1 .1", "line 2: expected a class 0 to 1, got '2'"),
        ("-1 0.5 0.5 0.1 0.1", "line 1: expected a class 0 to 1, got '-1'"),
        ("0 0.5 x 0.1 0.1", "line 1: expected four fractions, got 0.5, x, 0.1, 0.1"),
        ("0 0.5 nan 0.1 0.1", "line 1: expected four fractions, got 0.5, nan, 0.1, 0.1"),
        ("0 50 40 10 10", "line 1: expected four fractions, got 50, 40, 10, 10: fractions of"),
        ("0 1.5 .5 .1 .1", "line 1: expected four fractions, got 1.5, .5, .1, .1: fractions of"),
        ("0 .5 -.2 .1 .1", "line 1: expected four fractions, got .5, -.2, .1, .1: fractions of"),
        ("0 .5 .5 1.2 .1", "line 1: expected four fractions, got .5, .5, 1.2, .1: fractions of"),
        ("0 .5 .5 -.001 1", "line 1: expected four fractions, got .5, .5, -.001, 1: fractions of"),
        ("0 0.2_5 .5 .1 .1", "line 1: expected four fractions, got 0.2_5, .5, .1, .1"),
        ("0 .5 \u0661 .1 .1", "line 1: expected four fractions, got .5, \u0661, .1, .1"),
        ("\u0661 .5 .5 .1 .1", "line 1: expected a class 0 to 1, got '\u0661'"),
        ("1.5 .5 .5 .1 .1", "line 1: expected a class 0 to 1, got '1.5'"),
        ("2.0 .5 .5 .1 .1", "line 1: expected a class 0 to 1, got '2.0'"),
        ("0,.5,.5,.1,.1", "line 1: expected numbers between spaces, got '0,.5,.5,.1,.1'"),
        ("0 .5 .5 .1 .1 7", "line 1: expected a confidence of 0 to 1 as the last number, got 7"),
        ("0 .1 .1 .5 nan .1 .5", "line 1: expected the points of a polygon as fractions, got .1"),
        ("0 .1 .1 .5 .1 .1 5", "line 1: expected the points of a polygon as fractions, got .1, .1"),
        (b"0 \xff", "not UTF-8"),
    ],
)
def test_bad_files_of_yolo(text, why, tmp_path):
    path = tmp_path / "b.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    (tmp_path / "a.txt").write_text("1 0.5 0.5 1 1\n\n")
    annotations = open_yolo(Location.parse(str(tmp_path)), ["x", "y"])
    found = annotations.read(np.arange(2))
    assert list(found.faults) == [1]
    assert found.faults[1].startswith(f"b.txt: {why}")
    assert [one["class"] for one in found.columns[OBJECTS][0].as_py()] == ["y"]
    assert found.columns[OBJECTS][1].as_py() == []


def test_fractions_may_be_rounded(tmp_path):
    (tmp_path / "a.txt").write_text("0 1.0004 -0.0003 1.0001 0.5")
    annotations = open_yolo(Location.parse(str(tmp_path)), ["x"])
    assert annotations.read(np.arange(1)).faults == {}


@pytest.mark.parametrize(("corners", "bad"), [("0,0,1.0005,1", False), ("0,0,30,1", True)])
def test_fractions_of_a_table_are_0_to_1(corners, bad, tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(f"file,label,x1,y1,x2,y2\na.jpg,cat,{corners}\n")
    annotations = read_boxes([Location.parse(str(path))], fractions=True)
    got = corners.replace(",", ", ")
    why = (
        f"boxes.csv: row 1: expected four fractions, got {got}: fractions of width and height are"
        " 0 to 1"
    )
    assert annotations.faults == ({0: why} if bad else {})


def test_pixels_of_at_most_1_are_probably_fractions(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text("file,label,x1,y1,x2,y2\na.jpg,cat,0,.5,1,1\nb.jpg,cat,.2,.2,.3,.3\n")
    with pytest.raises(ConfigError, match=r"has no corner above 1, .*: pass --box-units fractions"):
        read_boxes([Location.parse(str(path))])
    assert len(read_boxes([Location.parse(str(path))], fractions=True).table) == 2


@pytest.mark.parametrize("width", ["99999999999", "9" * 5000, "0", "\u0664\u0660"])
def test_an_invalid_width_is_ignored(width, tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(f"file,label,x1,y1,x2,y2,width,height\na.jpg,cat,1,2,3,4,{width},50\n")
    assert read_boxes([Location.parse(str(path))]).table[SIDES].to_pylist() == [None]


BOX = "<bndbox><xmin>1</xmin><ymin>2</ymin><xmax>3</xmax><ymax>4</ymax></bndbox>"


def test_voc_may_have_a_namespace(tmp_path):
    (tmp_path / "a.xml").write_text(
        f'<annotation xmlns="http://x/"><size><width>9</width><height>8</height></size>'
        f"<object><name>dog</name>{BOX}<occluded> 1 </occluded></object></annotation>"
    )
    found = open_voc(Location.parse(str(tmp_path))).read(np.arange(1))
    (one,) = found.columns[OBJECTS][0].as_py()
    assert (one["class"], one["occluded"], one["truncated"]) == ("dog", True, False)
    assert found.columns[SIDES].to_pylist() == [[9, 8]]


@pytest.mark.parametrize(
    ("text", "flag"),
    [("0", False), ("false", False), ("True", True), ("0.0597", True), ("0.0", False), ("1", True)],
)
def test_flags_of_voc_may_be_words_and_fractions(text, flag, tmp_path):
    (tmp_path / "a.xml").write_text(
        f"<annotation><object><name>x</name>{BOX}<truncated>{text}</truncated></object></annotation>"
    )
    found = open_voc(Location.parse(str(tmp_path))).read(np.arange(1))
    assert [one["truncated"] for one in found.columns[OBJECTS][0].as_py()] == [flag]


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("<annotation", "invalid XML"),
        ("<page><body/></page>", "expected an XML of <annotation>, got one of <page>"),
        ('<list xmlns="http://x"/>', "expected an XML of <annotation>, got one of <list>"),
        (
            f"<annotation><object><name>x</name>{BOX}<truncated>maybe</truncated></object>"
            "</annotation>",
            "object 1: expected 'truncated' to be 0 or 1, got 'maybe'",
        ),
        (
            f"<annotation><object><name>x</name>{BOX}<truncated>2.5</truncated></object>"
            "</annotation>",
            "object 1: expected 'truncated' to be 0 or 1, got '2.5'",
        ),
        (
            f"<annotation><object>{BOX}</object></annotation>",
            "object 1: expected a name of one line, got ''",
        ),
        (
            "<annotation><object><name>x</name></object></annotation>",
            "object 1: expected a 'bndbox' of four numbers",
        ),
        (
            f"<annotation><object><name>x</name>{BOX.replace('3', 'y')}</object></annotation>",
            "object 1: expected a 'bndbox' of four numbers, got 1, 2, y, 4",
        ),
        (
            f"<annotation><object><name>x</name>{BOX.replace('3', '0')}</object></annotation>",
            "object 1: the box has a maximum below its minimum",
        ),
    ],
)
def test_bad_files_of_voc(text, why, tmp_path):
    (tmp_path / "b.xml").write_text(text)
    (tmp_path / "a.xml").write_text(
        f"<annotation><size><width>9</width><height>0</height></size><object><name>dog</name>"
        f"<pose>Left</pose>{BOX}</object></annotation>"
    )
    annotations = open_voc(Location.parse(str(tmp_path)))
    found = annotations.read(np.arange(2))
    assert list(found.faults) == [1]
    assert found.faults[1].startswith(f"b.xml: {why}")
    (one,) = found.columns[OBJECTS][0].as_py()
    assert [one[name] for name in ("xmin", "ymin", "xmax", "ymax")] == [0, 1, 3, 4]
    assert (one["view"], one["difficult"]) == ("Left", False)
    assert found.columns[SIDES][0].as_py() is None
    assert annotations.labels() == ("dog",)


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("b.jpg,dog,1,2,3,x", "boxes.csv: row 2: expected four numbers, got 1, 2, 3, x"),
        ("b.jpg,dog,1,2", "boxes.csv: row 2: expected four numbers, got 1, 2, , "),
        (
            "b.jpg,dog,3,2,1,4",
            "boxes.csv: row 2: the box has a maximum below its minimum: 3, 2, 1, 4",
        ),
        ("b.jpg,,1,2,3,4", "boxes.csv: row 2: expected a class of one line"),
    ],
)
def test_bad_rows_of_a_table(row, why, tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text(
        f"Image,Label,X1,Y1,X2,Y2\na.jpg,cat,1,2,3,4\n{row}\nc.jpg,,,,,\n,cat,1,2,3,4\n"
    )
    annotations = read_boxes([Location.parse(str(path))])
    assert annotations.names == ["a.jpg", "b.jpg", "c.jpg"]
    assert annotations.faults == {1: why}
    assert [len(one) for one in annotations.table[OBJECTS].to_pylist()] == [1, 0, 0]
    (reject,) = annotations.rejects
    assert (reject.key, reject.detail) == ("boxes.csv#4", "row 4: names no image")


def test_a_table_of_boxes_whose_classes_have_two_words_is_not_of_captions(tmp_path):
    path = tmp_path / "boxes.csv"
    path.write_text("image,label,xmin,ymin,xmax,ymax\na.jpg,a cat,1,2,3,4\nb.jpg,a dog,1,2,3,4\n")
    assert Annotations(places=(Location.parse(str(path)),)).resolved_format == "csv"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ({}, "does not exist: check the path"),
        *(
            ({name: "1"}, "expected a .json, .jsonl, .xml, .csv or .txt file, or a folder of such")
            for name in ("x/a.jpg", "x")
        ),
        ({"x/a.txt": "0 1 1 1 1"}, "name the classes with --labels-file, one per line"),
        ({"x.csv": "a,b\n"}, "has no column filename, class, xmin, ymin, xmax, ymax; it has a, b"),
        (
            {"x.csv": "1.jpg 2 " * 99},
            "; it has 1.jpg 2 1.jpg 2 1.jpg 2 1.jpg 2 1.jpg 2 1.jpg 2 1.jpg",
        ),
        ({"x.csv": "file,label,x1,y1,x2,y2\n"}, "has no row that names an image"),
        ({"x.csv": b"file,label,x1,y1,x2,y2\n\xff"}, "is not CSV in UTF-8"),
    ],
)
def test_invalid_annotations(content, message, tmp_path):
    place = tmp_path / "x"
    for name, data in content.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(data if isinstance(data, bytes) else data.encode())
        place = path if "/" not in name else path.parent
    with pytest.raises(ConfigError) as caught:
        Annotations(places=(Location.parse(str(place)),))()
    assert message in str(caught.value)
    assert len(str(caught.value)) < 300 + len(str(place))


def test_options_without_annotations_are_refused(tmp_path, capsys):
    places = ("--input", tmp_path, "--output", tmp_path / "out")
    assert images(*places, "--min-box", 3) == 2
    assert "--min-box: has no effect without --annotations" in capsys.readouterr().err
    assert images(*places, "--annotations=") == 2
    assert "--annotations: expected a path or a URI, got ''" in capsys.readouterr().err
    assert images(*places, "--annotations", "x.json", "--min-box", -3) == 2
    assert "--min-box: expected 0 or more, got -3" in capsys.readouterr().err
