"""Layouts of boxes as programs export them, each in one command."""

import codecs
import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from recordmill.transforms.encoders.keypoints import place_keypoints
from recordmill.transforms.imaging.affine import IDENTITY, Affine
from recordmill.transforms.imaging.object_masks import draw_object
from tests.box_masks import boxes_of
from tests.image_runs import Made, images, make

pytestmark = pytest.mark.usefixtures("encoders")

WIDTH, HEIGHT = 100, 60
_WHOLE = ("--resize-mode", "none", "--image-format", "png")
_YAML = "train: ../train/images\nval: ../valid/images\nnc: 2\nnames: ['cat', 'dog']\n"


def put(root, files):
    """Write texts, and pictures for the names that end in .png; each picture is another."""
    for number, (name, content) in enumerate(files.items()):
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if name.endswith(".png"):
            Image.new("RGB", (WIDTH, HEIGHT), (number, 40, 9)).save(path)
        else:
            path.write_text(content if isinstance(content, str) else json.dumps(content))
    return root


def found(made: Made):
    """{key: [(class, (xmin, ymin, xmax, ymax) in pixels)]} of all splits, and {key: split}."""
    boxes, splits = {}, {}
    for split in made.manifest.splits:
        for (key, _), example in made.examples(split).items():
            names = [name.decode() for name in example["image/object/class/text"]]
            corners = np.round(boxes_of(example), 2).tolist() if names else []
            boxes[key] = [*zip(names, map(tuple, corners), strict=True)]
            splits[key] = split
    return boxes, splits


def details(made: Made):
    lines = (made.folder / "rejects.jsonl").read_bytes().splitlines()
    return {one["key"]: one["detail"] for one in map(json.loads, lines)}


def line(label, left, top, right, bottom):
    """A line of YOLO, of a box in pixels."""
    numbers = (left + right) / 2 / WIDTH, (top + bottom) / 2 / HEIGHT
    return (
        f"{label} {' '.join(map(str, numbers))} {(right - left) / WIDTH} {(bottom - top) / HEIGHT}"
    )


ROBOFLOW = {
    "README.roboflow.txt": "0 0.5 0.5 1 1\n",
    "data.yaml": _YAML,
    **{f"{split}/images/{n}.png": "" for n, split in enumerate(("train", "valid", "test"))},
    "train/images/7.png": "",
    "train/labels/0.txt": line(0, 10, 6, 30, 24),
    "train/labels/7.txt": "",
    "valid/labels/1.txt": line(1, 20, 6, 40, 30),
    "test/labels/2.txt": line(0, 10, 6, 30, 24),
}
ULTRALYTICS = {
    "data.yaml": "path: ../x\nnames:\n  0: cat\n  1: dog\n",
    "images/train/0.png": "",
    "images/train/7.png": "",
    "images/val/1.png": "",
    "images/test/2.png": "",
    "labels/train/0.txt": line(0, 10, 6, 30, 24),
    "labels/train/7.txt": "",
    "labels/val/1.txt": line(1, 20, 6, 40, 30),
    "labels/test/2.txt": line(0, 10, 6, 30, 24),
    "labels/train.cache": "x",
}
_BOXES = {
    "0": [("cat", (10, 6, 30, 24))],
    "1": [("dog", (20, 6, 40, 30))],
    "2": [("cat", (10, 6, 30, 24))],
    "7": [],
}


@pytest.mark.parametrize("files", [ROBOFLOW, ULTRALYTICS], ids=["roboflow", "ultralytics"])
def test_splits_of_yolo_are_read_in_one_command(files, tmp_path):
    root = put(tmp_path / "in", files)
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    boxes, splits = found(made)
    assert {key[-5]: value for key, value in boxes.items()} == _BOXES
    assert {key[-5]: value for key, value in splits.items()} == {
        **{"0": "train", "1": "validation", "2": "test", "7": "train"}
    }
    assert made.manifest.labels == ("cat", "dog")
    assert not made.rejects


DECLARED = {  # folders, and the splits that data.yaml names
    "other splits": (("train", "val"), "train: images/val\nval: ../images/train\n"),
    "no names of splits": (("one", "two"), "path: .\nval: images/one\ntrain: [./images/two]\n"),
}


@pytest.mark.parametrize("case", DECLARED)
def test_splits_of_data_yaml_that_images_do_not_have_are_noted(case, tmp_path):
    (first, second), yaml = DECLARED[case]
    files = {"data.yaml": f"names: [cat]\n{yaml}"}
    for number, folder in enumerate((first, second, second)):
        files[f"images/{folder}/{number}.png"] = ""
        files[f"labels/{folder}/{number}.txt"] = line(0, 10, 6, 30, 24)
    root = put(tmp_path / "in", files)
    made = make(tmp_path / "out", "--input", root, "--annotations", root, "--num-shards", 1)
    (note,) = [note for note in made.manifest.notes if "YAML" in note]
    folders = root / "images"
    given = ("--input", f"train={folders / second}", "--input", f"validation={folders / first}")
    assert f"other splits for 3 images: {' '.join(given)} takes them" in note
    made = make(tmp_path / "given", *given, "--annotations", root, "--num-shards", 1)
    assert not [note for note in made.manifest.notes if "YAML" in note]
    assert [len(made.keys(split)) for split in ("train", "validation")] == [2, 1]


@pytest.mark.parametrize(
    "yaml",
    [
        "train: ../train/images\nval: ../valid/images\ntest: ../test/images\n",
        "train: /there/train/images\nval: valid/images\ntest:\n",
        "train: train/images\nval: train/images\n",
        "train: train.txt\nval: [valid.txt, 1]\n",
    ],
)
def test_splits_of_data_yaml_that_images_have_are_not_noted(yaml, tmp_path):
    root = put(tmp_path / "in", {**ROBOFLOW, "data.yaml": f"{_YAML}\n{yaml}"})
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    assert not [note for note in made.manifest.notes if note.code == "splits"]


def test_classes_of_splits_below_images_are_folders_in_them(tmp_path):
    files = [f"images/{split}/{kind}/1.png" for split in ("train", "val") for kind in ("a", "b")]
    made = make(tmp_path / "out", "--input", put(tmp_path / "in", dict.fromkeys(files)), *_WHOLE)
    labels = {row["key"]: row["label"] for row in made.index("train") + made.index("validation")}
    assert labels == {name: name.split("/")[2] for name in files}
    assert made.keys("train") == {files[0], files[1]}


def test_labels_beside_images_need_no_splits(tmp_path):
    files = {"images/a/0.png": "", "images/b/0.png": "", "labels/classes.txt": "cat\ndog\n"}
    files |= {"labels/a/0.txt": line(0, 1, 6, 3, 12), "labels/b/0.txt": line(1, 1, 6, 3, 12)}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    boxes, _ = found(make(tmp_path / "out", *given))
    assert boxes == {
        "images/a/0.png": [("cat", (1, 6, 3, 12))],
        "images/b/0.png": [("dog", (1, 6, 3, 12))],
    }


def test_exports_of_roboflow_in_darknet_are_read(tmp_path):
    files = {f"{split}/{n}.png": "" for n, split in enumerate(("train", "valid"))}
    files |= {f"{split}/_darknet.labels": "cat\ndog\n" for split in ("train", "valid")}
    files |= {"train/0.txt": line(0, 10, 6, 30, 24), "valid/1.txt": line(1, 20, 6, 40, 30)}
    root = put(tmp_path / "in", files)
    boxes, splits = found(make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE))
    assert boxes == {"train/0.png": _BOXES["0"], "valid/1.png": _BOXES["1"]}
    assert splits == {"train/0.png": "train", "valid/1.png": "validation"}


def test_exports_of_cvat_in_yolo_are_read(tmp_path):
    files = {
        "obj.names": "cat\ndog\n",
        "obj.data": "classes = 2\nnames = data/obj.names\n",
        "train.txt": "data/obj_train_data/0.png\n",
        "obj_train_data/0.png": "",
        "obj_train_data/0.txt": line(1, 10, 6, 30, 24),
    }
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert found(made)[0] == {"obj_train_data/0.png": [("dog", (10, 6, 30, 24))]}
    assert made.manifest.ledger.inputs.filtered == 4


@pytest.mark.parametrize("annotated", [True, False])
def test_a_single_folder_is_no_class_beside_annotations(annotated, tmp_path):
    files = {"all/obj.names": "cat\n", "all/data/0.png": "", "all/data/0.txt": ""}
    root = put(tmp_path / "in", files)
    given = ("--annotations", root) if annotated else ()
    made = make(tmp_path / "out", "--input", root, *given, "--splits", "train=1", *_WHOLE)
    notes = [note for note in made.manifest.notes if "which is the only class" in note]
    assert len(notes) == (not annotated)


_POLYGONS = {
    "classes.txt": "cat\ndog\n",
    "images/0.png": "",
    "images/1.png": "",
    "labels/0.txt": "0 .1 .1 .5 .1 .5 .5 .3 .7 .1 .5\n1.000000 .6 .2 .8 .4 .6 .6 .4 .4 0.93\n",
    "labels/1.txt": "1 0.2 0.2 0.6 0.2 0.6 0.8\n",
}


def test_polygons_and_oriented_boxes_become_boxes(tmp_path):
    root = put(tmp_path / "in", _POLYGONS)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert found(made)[0] == {
        "images/0.png": [("cat", (10, 6, 50, 42)), ("dog", (40, 12, 80, 36))],
        "images/1.png": [("dog", (20, 12, 60, 48))],
    }
    (note,) = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert "the confidence of 1 line, such as one in labels/0.txt" in note
    assert "the outlines of 3 polygons, such as one in labels/0.txt" in note


def test_polygons_of_yolo_are_drawn(tmp_path):
    root = put(tmp_path / "in", _POLYGONS)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given, "--instance-masks")
    (example,) = (one for (key, _), one in made.examples().items() if key == "images/1.png")
    (mask,) = example["image/object/mask"]
    drawn = np.asarray(Image.open(io.BytesIO(mask)))
    points = [[20, 12, 60, 12, 60, 48]]
    size = (WIDTH, HEIGHT)
    expected = draw_object(json.dumps(points), IDENTITY, frame=size, size=size)
    np.testing.assert_array_equal(drawn, expected)
    assert example["image/object/segmentation"] == [b"[[0.2,0.2,0.6,0.2,0.6,0.8]]"]
    assert example["image/object/segmentation/transform"] == [100, 0, 0, 0, 60, 0]


_POSE = f"{line(0, 10, 6, 30, 24)} 0.2 0.2 2 0.25 0.3 1 0 0 0"


def _posed(yaml, *lines):
    """A folder of YOLO with keypoints."""
    return {
        "data.yaml": f"{yaml}names: [cat, dog]\n",
        "images/0.png": "",
        "labels/0.txt": "\n".join(lines),
    }


def points_of(made: Made):
    """x, y and visibility of the keypoints of the only image, and their names and numbers."""
    (example,) = made.examples().values()
    values = [example[f"{_POINTS}{name}"] for name in ("x", "y", "visibility")]
    points = [tuple(round(float(n), 4) for n in one) for one in zip(*values, strict=True)]
    names = [name.decode() for name in example[f"{_POINTS}text"]]
    return points, names, [*example[f"{_POINTS}num"]]


@pytest.mark.parametrize(
    ("yaml", "names"),
    [
        ("kpt_shape: [3, 3]\nflip_idx: [0, 2, 1]\n", ["0", "1", "2"]),
        ("kpt_shape:\n- 3\n- 3\nkpt_names:\n  0: [nose, left, right]\n", ["nose", "left", "right"]),
        ("kpt_shape: [3, 3]\nkpt_names: [a, b, c]\n", ["a", "b", "c"]),
    ],
)
def test_keypoints_of_yolo_are_features(yaml, names, tmp_path):
    root = put(tmp_path / "in", _posed(yaml, f"{_POSE} 0.9", line(1, 1, 6, 3, 12)))
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    boxes = [("cat", (10, 6, 30, 24)), ("dog", (1, 6, 3, 12))]
    assert found(made)[0] == {"images/0.png": boxes}
    assert points_of(made) == ([(0.2, 0.2, 2), (0.25, 0.3, 1), (0, 0, 0)], names, [3, 0])
    (note,) = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert (
        note
        == "not read, or taken as stored: the confidence of 1 line, such as one in labels/0.txt"
    )


def test_keypoints_of_yolo_without_visibility(tmp_path):
    text = f"{line(0, 10, 6, 30, 24)} 0.2 0.2 0 0 -1 -1"
    root = put(tmp_path / "in", _posed("kpt_shape: [3, 2]\n", text))
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert points_of(made)[0] == [(0.2, 0.2, 2), (0, 0, 0), (0, 0, 0)]


def test_mirrored_keypoints_of_yolo_change_places_by_flip_idx():
    text = json.dumps([["a", "b"], [10, 6, 2, 30, 24, 1], [1, 0]])
    mirror = Affine(-1, 0, WIDTH, 0, 1, 0)
    placed = place_keypoints([text], mirror, (WIDTH, HEIGHT), mirrored=True)
    assert placed.names == ["a", "b"]
    np.testing.assert_allclose(placed.points, [(0.7, 0.4), (0.9, 0.1)])
    assert placed.visibility.tolist() == [1, 2]


@pytest.mark.parametrize(
    ("yaml", "line_", "why"),
    [
        ("kpt_shape: [3, 3]\n", _POSE[:-2], "four numbers and 9 of keypoints, as kpt_shape says"),
        ("kpt_shape: [3, 3]\n", _POSE[:-1] + "3", "visibility of 0, 1 or 2, got 0 0 3"),
        ("kpt_shape: [3, 3]\n", _POSE[:-1] + "x", "line 1: expected 3 keypoints of x, y and a"),
        ("kpt_shape: [3, 3]\n", _POSE[:-5] + "40 30 2", "visibility of 0, 1 or 2, got 40 30 2"),
    ],
)
def test_invalid_keypoints_of_yolo_reject_their_image(yaml, line_, why, tmp_path):
    files = {**_posed(yaml, line_), "images/1.png": "", "labels/1.txt": _POSE}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    rejected = details(make(tmp_path / "out", *given, "--max-reject-fraction", 1))
    assert list(rejected) == ["images/0.png"]
    assert why in rejected["images/0.png"]


@pytest.mark.parametrize(
    ("yaml", "message"),
    [
        ("kpt_shape: 17\n", "data.yaml: expected kpt_shape: [NUMBER, 2 or 3]"),
        ("kpt_shape: [3, 4]\n", "data.yaml: expected kpt_shape: [NUMBER, 2 or 3]"),
        (
            "kpt_shape: [3, 3]\nflip_idx: [0, 1]\n",
            "expected flip_idx with each of the numbers 0 to 2",
        ),
        ("kpt_shape: [3, 3]\nkpt_names: [a]\n", "expected 3 names in kpt_names of a class"),
    ],
)
def test_invalid_descriptions_of_keypoints_are_refused(yaml, message, tmp_path, capsys):
    root = put(tmp_path / "in", _posed(yaml, _POSE))
    argv = ("--input", root, "--annotations", root, "--output", tmp_path / "out")
    assert images(*argv) == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    ("changed", "messages"),
    [
        ({"data.yaml": "nc: 3\nnames: [cat, dog]\n"}, ["data.yaml: nc is 3, but `names` has 2 n"]),
        ({"data.yaml": "names: [cat, cat]\n"}, ["the classes 0 and 1 have the same name 'cat'"]),
        ({"data.yaml": "nc: 2\n"}, ["no file of class names", "--labels-file"]),
        ({"data.yaml": "names:\n  1: cat\n  2: dog\n"}, ["expected the numbers 0, 1, ..."]),
        (
            {"labels/train/classes.txt": "dog\ncat\n", "data.yaml": _YAML},
            ["data.yaml and", "labels/train/classes.txt name different", "--labels-file"],
        ),
        (
            {
                **{"old/classes.txt": "dog\n", "old/labels/9.txt": "", "old/images/9.png": ""},
                "data.yaml": _YAML,
            },
            [
                "if each names those of its own folder, make a dataset of each (--input {0}/old"
                " --annotations {0}/old, --input {0}/images --annotations {0}/labels), else pass"
            ],
        ),
        (
            {f"images/{name}.txt": "" for name in ("train/0", "train/7", "val/1")},
            ["'images/train/0' and 'labels/train/0' are both annotations of the image", "6 of 7"],
        ),
    ],
)
def test_invalid_folders_of_yolo_are_refused(changed, messages, tmp_path, capsys):
    root = put(tmp_path / "in", {**ULTRALYTICS, **changed})
    made = tmp_path / "out"
    code = images("--input", root, "--annotations", root, "--output", made, *_WHOLE)
    assert code == 2
    error = " ".join(capsys.readouterr().err.split())
    assert all(message.format(root) in error for message in messages), error
    assert not (made / "dataset.json").exists()


def test_folders_with_classes_of_their_own_are_read_apart(tmp_path):
    files = {"old/classes.txt": "dog\n", "old/labels/9.txt": line(0, 10, 6, 30, 24)}
    root = put(
        tmp_path / "in", {**ULTRALYTICS, **files, "old/images/9.png": "", "data.yaml": _YAML}
    )
    for number, (place, labels, key, name) in enumerate(
        [("old", "old", "images/9.png", "dog"), ("images", "labels", "train/0.png", "cat")]
    ):
        given = ("--input", root / place, "--annotations", root / labels, *_WHOLE)
        made = make(tmp_path / str(number), *given)
        assert found(made)[0][key] == [(name, (10, 6, 30, 24))]


def test_an_image_with_two_files_of_yolo_is_rejected(tmp_path):
    root = put(tmp_path / "in", {**ULTRALYTICS, "images/train/0.txt": line(0, 1, 2, 3, 4)})
    given = ("--input", root, "--annotations", root, "--max-reject-fraction", 1, *_WHOLE)
    made = make(tmp_path / "out", *given)
    (why,) = details(made).values()
    assert "'images/train/0' and 'labels/train/0' are both annotations of the image '/" in why
    assert made.rejects == {"images/train/0.png": "bad_value"}
    assert {key[-5] for key in found(made)[0]} == {"1", "2", "7"}


def test_two_images_with_one_file_of_yolo_are_rejected(tmp_path):
    root = put(tmp_path / "in", {**ULTRALYTICS, "images/test/2.jpg.png": ""})
    (root / "images/test/2.jpg.png").rename(root / "images/test/2.jfif")
    given = ("--input", root, "--annotations", root, "--max-reject-fraction", 1, *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert made.rejects == dict.fromkeys(["images/test/2.jfif", "images/test/2.png"], "bad_value")
    assert {key[-5] for key in found(made)[0]} == {"0", "1", "7"}


def coco(images, boxes, classes=("cat", "dog"), **more):
    """COCO's annotations. images: names. boxes: [(image, class, box)], by their numbers."""
    return {
        "categories": [{"id": n, "name": name} for n, name in enumerate(classes, 1)],
        "images": [
            {"id": n, "file_name": name, "width": WIDTH, "height": HEIGHT}
            for n, name in enumerate(images)
        ],
        "annotations": [
            {"id": n, "image_id": image, "category_id": 1 + label, "bbox": box, **more}
            for n, (image, label, box) in enumerate(boxes)
        ],
    }


PER_SPLIT = {
    "README.roboflow.txt": "",
    **{f"{split}/{n}.png": "" for split in ("train", "valid") for n in "01"},
    "train/_annotations.coco.json": coco(
        ["0.png", "1.png"], [(0, 0, [10, 6, 20, 18]), (1, 1, [1, 1, 2, 2])]
    ),
    "valid/_annotations.coco.json": coco(
        ["0.png", "1.png"], [(0, 0, [20, 6, 20, 24]), (1, 1, [3, 3, 2, 2])], ("dog", "cat")
    ),
}
_OF_SPLITS = {
    "train/0.png": [("cat", (10, 6, 30, 24))],
    "train/1.png": [("dog", (1, 1, 3, 3))],
    "valid/0.png": [("dog", (20, 6, 40, 30))],
    "valid/1.png": [("cat", (3, 3, 5, 5))],
}


@pytest.mark.parametrize(
    "given", ["", "train/_annotations.coco.json,{0}/valid/_annotations.coco.json"]
)
def test_files_of_coco_speak_of_the_images_beside_them(given, tmp_path):
    root = put(tmp_path / "in", PER_SPLIT)
    annotations = f"{root}/{given.format(root)}"
    made = make(tmp_path / "out", "--input", root, "--annotations", annotations, *_WHOLE)
    boxes, splits = found(made)
    assert boxes == _OF_SPLITS
    assert {key: splits[key] for key in boxes} == {
        key: "train" if key.startswith("train") else "validation" for key in boxes
    }
    assert made.manifest.labels == ("cat", "dog")
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert "categories such as 'dog', 'cat' have different ids in different files, and were" in note


@pytest.mark.parametrize("names", ["{}.json", "annotations/instances_{}2017.json"])
@pytest.mark.parametrize("beside", [False, True], ids=["folder", "inputs"])
def test_files_of_coco_in_one_folder_speak_of_the_images_of_their_split(names, beside, tmp_path):
    files = {f"{split}/{n}.png": "" for split in ("train", "val") for n in "01"}
    two = ["0.png", "1.png"]
    files[names.format("train")] = coco(two, [(0, 0, [10, 6, 20, 18]), (1, 1, [1, 1, 2, 2])])
    files[names.format("val")] = coco(two, [(0, 1, [20, 6, 20, 24])])
    root = put(tmp_path / "in", files)
    inputs = ("--input", root)
    if beside:  # folders whose names say nothing
        for split, name in (("train", "a"), ("val", "b")):
            (root / split).rename(root / name)
        inputs = ("--input", f"train={root}/a", "--input", f"val={root}/b")
    boxes, splits = found(make(tmp_path / "out", *inputs, "--annotations", root, *_WHOLE))
    train, val = ("a", "b") if beside else ("train", "val")
    assert boxes == {
        f"{train}/0.png": [("cat", (10, 6, 30, 24))],
        f"{train}/1.png": [("dog", (1, 1, 3, 3))],
        f"{val}/0.png": [("dog", (20, 6, 40, 30))],
        f"{val}/1.png": [],
    }
    assert {key: splits[key] for key in boxes} == {
        key: "train" if key.startswith(train) else "validation" for key in boxes
    }


@pytest.mark.parametrize("whole", [None, "all", "whole"], ids=["alone", "first", "last"])
@pytest.mark.parametrize("form", ["coco", "csv", "captions"])
def test_names_of_annotation_files_give_the_splits_of_images_without_one(form, whole, tmp_path):
    of_split = {"train": ["0.png", "1.png", "2.png"], "val": ["3.png"]}
    of_split |= {} if whole is None else {whole: [f"{n}.png" for n in range(5)]}

    def document(names):
        if form == "coco":
            return coco(names, [(n, 0, [1, 1, 2, 2]) for n in range(len(names))])
        columns, value = "filename,class,xmin,ymin,xmax,ymax", "cat,1,1,3,3"
        if form == "captions":
            columns, value = "filename,text", "a cat"
        return "\n".join([columns, *(f"{name},{value}" for name in names)])

    end = "json" if form == "coco" else "csv"
    files = {f"images/{n}.png": "" for n in range(5 if whole else 4)}
    files |= {f"annotations/set_{one}.{end}": document(of_split[one]) for one in of_split}
    root = put(tmp_path / "in", files)
    paths = ",".join(f"{root}/annotations/set_{one}.{end}" for one in of_split)
    given = ("--input", root / "images", "--annotations", paths)
    made = make(tmp_path / "out", *given, *_WHOLE)
    splits = {key: split for split in made.manifest.splits for key, _ in made.examples(split)}
    other = splits.pop("4.png", None)
    train = ("0.png", "1.png", "2.png")
    assert splits == dict.fromkeys(train, "train") | {"3.png": "validation"}
    assert (other is None) == (whole is None)
    notes = [note for note in made.manifest.notes if note.code == "splits"]
    text = "1 image is divided by --splits, because no annotation file of a split names it"
    assert notes == ([] if whole is None else [text])
    made = make(tmp_path / "none", *given, "--split-from", "none", "--splits", "test=1", *_WHOLE)
    assert list(made.manifest.splits) == ["test"]


@pytest.mark.parametrize("whole", ["whole", "all"])
def test_a_file_without_a_split_beside_files_of_splits_is_refused(whole, tmp_path, capsys):
    files = {"train/0.png": "", "val/0.png": "", "train.json": coco(["0.png"], [])}
    files["train.json"] = coco(["0.png"], [(0, 0, [1, 1, 9, 9])])
    files["val.json"] = files[f"{whole}.json"] = files["train.json"]
    root = put(tmp_path / "in", files)
    assert images("--input", root, "--annotations", root, "--output", tmp_path / "out") == 2
    error = " ".join(capsys.readouterr().err.split())
    place = f"{root}/whole.json: images[0]" if whole == "whole" else f"{root}/all.json"
    assert f"{place}: files of several splits name '0.png', and the name of this file" in error


def test_texts_of_yolo_without_boxes_or_an_image_are_left_out_with_a_note(tmp_path):
    files = {"images/0.png": "", "labels/0.txt": line(0, 10, 6, 30, 24), "classes.txt": "cat\n"}
    files |= {"captions.txt": "image,caption\n0.png,a cat\n", "labels/notes.txt": "\ufefffree text"}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert found(made)[0] == {"images/0.png": [("cat", (10, 6, 30, 24))]}
    notes = [note for note in made.manifest.notes if note.code == "annotations"]
    text = "2 text files in in were not read, because they hold no annotations and match no image:"
    assert notes == [f"{text} 'captions.txt', 'labels/notes.txt'"]
    put(root, {"labels/named.txt": "cat 0.5 0.5 0.1 0.1", "labels/numbers.txt": "0 1"})
    made = make(tmp_path / "more", *given, "--max-reject-fraction", 1)
    assert {*details(made)} == {"labels/named", "labels/numbers"}


@pytest.mark.parametrize(
    ("form", "table"),
    [("coco", "b.csv"), ("coco", "b.txt"), ("coco", "b.json"), ("yolo", "b.csv")],
)
def test_captions_beside_boxes_are_left_out_with_a_note(form, table, tmp_path):
    captions = "image,caption\n0.png,a cat\n"
    if table.endswith(".json"):
        captions = json.dumps([{"image": "0.png", "caption": "a cat"}])
    files = {"images/0.png": "", f"labels/{table}": captions}
    files |= {"labels/0.json": coco(["0.png"], [(0, 0, [1, 1, 2, 2])])} if form == "coco" else {}
    files |= {"labels/0.txt": line(0, 1, 1, 3, 3), "classes.txt": "cat"} if form == "yolo" else {}
    root = put(tmp_path / "in", files)
    made = make(tmp_path / "out", "--input", root, "--annotations", root, "--splits", "train=1")
    assert [*found(made)[0].values()] == [[("cat", (1, 1, 3, 3))]]
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert note == (
        f"in: captions in {table} were not read, because other files hold annotations of {form}:"
        f" --annotations {root}/labels/{table} reads these captions instead"
    )
    given = ("--annotations", root / "labels" / table, "--splits", "train=1")
    made = make(tmp_path / "captions", "--input", root / "images", *given)
    assert [one["image/caption"] for one in made.examples().values()] == [[b"a cat"]]


def test_numbers_of_coco_may_be_text(tmp_path):
    document = coco(["0.png", "1.png"], [(0, 0, ["10", "6", "20.0", "18"]), (1, 1, [1, 1, 2, 2])])
    document["images"][0] |= {"id": "7", "width": "100", "height": "60"}
    document["annotations"][0] |= {"image_id": 7, "category_id": "1", "area": "99"}
    root = put(tmp_path / "in", {"0.png": "", "1.png": "", "a.json": document})
    given = ("--input", root, "--annotations", root / "a.json", "--splits", "train=1")
    made = make(tmp_path / "out", *given, *_WHOLE)
    assert found(made)[0] == {
        "0.png": [("cat", (10, 6, 30, 24))],
        "1.png": [("dog", (1, 1, 3, 3))],
    }
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert note == (
        "a.json: the numbers of 1 annotation are written as text, such as those of a.json:"
        " annotations[0]: they were read as numbers"
    )


def _csv(split, *rows, header="filename,width,height,class,xmin,ymin,xmax,ymax\n"):
    return {f"{split}/_annotations.csv": header + "".join(f"{row}\n" for row in rows)}


CSV_PER_SPLIT = {
    "README.roboflow.txt": "",
    **{f"{split}/{n}.png": "" for split in ("train", "valid") for n in "01"},
    **_csv("train", "0.png,100,60,cat,10,6,30,24", "1.png,100,60,dog,1,1,3,3"),
    **_csv("valid", "0.png,100,60,dog,20,6,40,30", "1.png,100,60,cat,3,3,5,5"),
}


@pytest.mark.parametrize("given", ["", "train/_annotations.csv,{0}/valid/_annotations.csv"])
def test_tables_of_boxes_speak_of_the_images_beside_them(given, tmp_path):
    root = put(tmp_path / "in", {**CSV_PER_SPLIT, "classes.csv": "id,name\n0,cat\n"})
    annotations = f"{root}/{given.format(root)}"
    made = make(tmp_path / "out", "--input", root, "--annotations", annotations, *_WHOLE)
    boxes, splits = found(made)
    assert boxes == _OF_SPLITS
    assert splits["train/0.png"] == "train"
    assert splits["valid/0.png"] == "validation"
    assert not made.rejects


def test_tables_of_splits_without_a_header_are_read(tmp_path):
    files = {f"{split}/0.png": "" for split in ("train", "test")}
    files |= _csv("train", "0.png,10,6,30,24,cat", ",1,1,2,2,cat", header="")
    files |= _csv("test", "0.png,20,6,40,30,dog", ",1,1,2,2,dog", header="")
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--max-reject-fraction", 1, *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert found(made)[0] == {
        "train/0.png": [("cat", (10, 6, 30, 24))],
        "test/0.png": [("dog", (20, 6, 40, 30))],
    }
    assert details(made) == {
        f"{split}/_annotations.csv#2": "row 2: names no image" for split in ("train", "test")
    }
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert "there is no header line: columns are read as image, xmin, ymin" in note


def test_tables_of_splits_in_one_folder_speak_of_the_images_of_their_split(tmp_path):
    files = {"train/0.png": "", "val/0.png": "", "boxes/readme.txt": ""}
    files["boxes/train.csv"] = "file,label,x1,y1,x2,y2\n0.png,cat,10,6,30,24\n"
    files["boxes/val.csv"] = "file,label,x1,y1,x2,y2\n0.png,dog,20,6,40,30\n"
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root / "boxes", *_WHOLE)
    assert found(make(tmp_path / "out", *given))[0] == {
        "train/0.png": [("cat", (10, 6, 30, 24))],
        "val/0.png": [("dog", (20, 6, 40, 30))],
    }


def _rows(*rows):
    return _csv("", *rows)["/_annotations.csv"]


_BOX, _MOVED = [10, 6, 20, 18], [11, 6, 20, 18]
_ROW, _MOVED_ROW = "0.png,100,60,cat,10,6,30,24", "0.png,100,60,{},11,6,31,24"


@pytest.mark.parametrize(
    ("one", "other", "doubled"),
    [
        (coco(["0.png"], [(0, 0, _BOX)]), coco(["0.png"], [(0, 0, _MOVED)]), True),
        (coco(["0.png"], [(0, 0, _BOX)]), coco(["0.png"], [(0, 1, _MOVED)]), False),
        (coco(["0.png"], [(0, 0, _BOX), (0, 0, _MOVED)]), coco(["1.png"], [(0, 0, _BOX)]), False),
        (_rows(_ROW), _rows(_MOVED_ROW.format("cat"), "1.png,100,60,cat,1,2,3,4"), True),
        (_rows(_ROW), _rows(_MOVED_ROW.format("dog")), False),
    ],
    ids=["coco", "coco of other categories", "coco of other images", "csv", "csv of other classes"],
)
def test_boxes_of_one_class_in_several_files_are_in_a_note(one, other, doubled, tmp_path):
    for annotation in other["annotations"] if isinstance(other, dict) else ():
        annotation["id"] = 7
    end = "csv" if isinstance(one, str) else "json"
    files = {"in/0.png": "", "in/1.png": "", f"a.{end}": one, f"b.{end}": other}
    root = put(tmp_path, files)
    given = ("--input", root / "in", "--annotations", f"{root}/a.{end},{root}/b.{end}")
    made = make(tmp_path / "out", *given, "--unannotated", "keep", "--splits", "train=1", *_WHOLE)
    assert sum(map(len, found(made)[0].values())) == 2 + ("1.png" in str(other))
    notes = [note for note in made.manifest.notes if "from several files" in note]
    assert len(notes) == doubled
    count = "1 image has boxes of the same class from several files, such as '0.png'"
    assert all(count in note for note in notes)


def test_files_of_coco_without_boxes_in_a_folder_are_not_read(tmp_path):
    info = coco(["0.png"], [])
    panoptic = {**coco(["0.png"], []), "annotations": [{"image_id": 0, "segments_info": []}]}
    files = {
        "photos/0.png": "",
        "annotations/instances.json": coco(["0.png"], [(0, 0, [1, 1, 8, 8])]),
    }
    files |= {"annotations/image_info.json": info, "annotations/panoptic.json": panoptic}
    files |= {"annotations/settings.json": {"size": 3}}
    root = put(tmp_path / "in", files)
    given = ("--input", root / "photos", "--annotations", root / "annotations")
    made = make(tmp_path / "out", *given, "--splits", "train=1", *_WHOLE)
    assert found(made)[0] == {"0.png": [("cat", (1, 1, 9, 9))]}


def test_names_of_files_in_other_folders_stay_as_they_are(tmp_path):
    files = {"images/0.png": "", "images/1.png": ""}
    files["a/boxes.json"] = coco(["0.png", "1.png"], [(0, 0, [10, 6, 20, 18])])
    files["b/boxes.json"] = coco(["images/0.png", "1.png"], [(1, 1, [1, 1, 2, 2])])
    root = put(tmp_path / "in", files)
    given = ("--annotations", f"{root}/a/boxes.json,{root}/b/boxes.json", "--splits", "train=1")
    made = make(tmp_path / "out", "--input", root, *given, "--absent-images", "drop", *_WHOLE)
    assert found(made)[0] == {"images/0.png": [], "images/1.png": [("dog", (1, 1, 3, 3))]}


def test_voc_is_read_per_split(tmp_path):
    box = "<bndbox><xmin>{}</xmin><ymin>7</ymin><xmax>30</xmax><ymax>24</ymax></bndbox>"
    text = "<annotation><object><name>cat</name>{}</object></annotation>"
    files = {f"{split}/0.png": "" for split in ("train", "valid")}
    files |= {
        f"{split}/0.xml": text.format(box.format(n)) for n, split in ((11, "train"), (21, "valid"))
    }
    root = put(tmp_path / "in", files)
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    assert found(made)[0] == {
        "train/0.png": [("cat", (10, 6, 30, 24))],
        "valid/0.png": [("cat", (20, 6, 30, 24))],
    }


def test_annotations_of_absent_images_can_be_dropped(tmp_path):
    names = [f"{number}.png" for number in range(6)]
    files = {f"images/{name}": "" for name in names[:2]}
    files["a.json"] = coco(names, [(number, 0, [1, 1, 9, 9]) for number in range(6)])
    root = put(tmp_path / "in", files)
    given = ("--input", root / "images", "--annotations", root / "a.json", "--splits", "train=1")
    made = make(tmp_path / "a", *given, "--max-reject-fraction", 1, *_WHOLE)
    assert set(details(made)) == {*names[2:]}
    assert all(one.endswith("; --absent-images drop allows this") for one in details(made).values())
    made = make(tmp_path / "b", *given, "--absent-images", "drop", *_WHOLE)
    assert (details(made), made.manifest.ledger.filtered.inputs) == ({}, {"absent": 4})
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert note == (
        "annotations of 4 images in a.json that are not in the input were dropped: '2.png',"
        " '3.png', '4.png', ..."
    )


def test_files_of_two_splits_that_name_an_image_are_refused(tmp_path, capsys):
    files = {"images/0.png": "", "train.json": coco(["0.png"], [(0, 0, [1, 1, 9, 9])])}
    files["val.json"] = files["train.json"]
    root = put(tmp_path / "in", files)
    given = ("--annotations", f"{root}/train.json,{root}/val.json", "--output", tmp_path / "out")
    assert images("--input", root / "images", *given) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert f"{root}/val.json: images[0]: {root}/train.json names '0.png', too, as an image" in error
    assert "(train and validation)" in error


_POINTS = "image/object/keypoint/"


def keypoints(*given, names=("nose", "tail")):
    """A file with an annotation of each of these keypoints."""
    found = coco(["0.png"], [(0, 0, [10, 6, 20, 18])] * len(given), ("cat",))
    for entry, points in zip(found["annotations"], given, strict=True):
        entry |= {} if points is None else {"keypoints": points}
    found["categories"][0]["keypoints"] = [*names]
    return found


def test_keypoints_of_coco_are_features(tmp_path):
    files = {"images/0.png": "", "a.json": keypoints([20, 15, 2, 0, 0, 0], None)}
    files["boxes.json"] = coco(["0.png"], [(0, 0, [10, 6, 20, 18])], ("cat",))
    root = put(tmp_path / "in", files)
    for number, given in enumerate(("{0}/a.json", "{0}/boxes.json,{0}/a.json")):
        made = make(
            *(tmp_path / f"{number}", "--input", root / "images", "--splits", "train=1", *_WHOLE),
            *("--annotations", given.format(root)),
        )
        (example,) = made.examples().values()
        assert example[f"{_POINTS}num"] == [2, 0]
        assert example[f"{_POINTS}text"] == [b"nose", b"tail"]
        assert example[f"{_POINTS}visibility"] == [2, 0]
        np.testing.assert_allclose(example[f"{_POINTS}x"], [0.2, 0], rtol=1e-6)
        np.testing.assert_allclose(example[f"{_POINTS}y"], [0.25, 0], rtol=1e-6)


def test_keypoints_of_a_dataset_are_read_again(tmp_path):
    files = {
        "images/0.png": "",
        "a.json": keypoints([20, 15, 2, 0, 0, 0], None, [50, 30, 1, 80, 60, 2]),
    }
    root = put(tmp_path / "in", files)
    given = ("--input", root / "images", "--annotations", root / "a.json", "--splits", "train=1")
    first = make(tmp_path / "first", *given, *_WHOLE)
    again = make(tmp_path / "again", "--input", tmp_path / "first", *_WHOLE)
    small = make(tmp_path / "small", "--input", tmp_path / "first", "--size", 20)
    (expected,) = first.examples().values()
    for made in (again, small):
        (found,) = made.examples().values()
        for name in ("num", "text", "visibility"):
            assert found[f"{_POINTS}{name}"] == expected[f"{_POINTS}{name}"]
    for name in "xy":
        (found,) = again.examples().values()
        np.testing.assert_allclose(
            found[f"{_POINTS}{name}"], expected[f"{_POINTS}{name}"], rtol=1e-6
        )
    (found,) = small.examples().values()  # 20 pixels on each side are cut off
    np.testing.assert_allclose(found[f"{_POINTS}x"][:2], [0, 0], atol=1e-6)
    np.testing.assert_allclose(found[f"{_POINTS}x"][2:], [0.5, 1], rtol=1e-5)


@pytest.mark.parametrize(
    ("points", "why"),
    [
        (
            [1, 2, 2],
            "expected 'keypoints' of 6 numbers, three for each of the 2 keypoints of its c",
        ),
        ([1, 2, 2, 3], "got 4 numbers"),
        ("x", "of its category, got 'x'"),
        ([1, 2, 2, 3, 4, 7], "expected 'keypoints' of x, y and a visibility of 0, 1 or 2 for each"),
        ([1, 2, 2, "3", 4, 1], "got [1, 2, 2, '3', 4, 1]"),
        ([1, 2, 2, None, 4, 1], "got [1, 2, 2, None, 4, 1]"),
    ],
)
def test_invalid_keypoints_reject_their_image(points, why, tmp_path):
    root = put(
        tmp_path / "in", {"images/0.png": "", "a.json": keypoints(points), "images/1.png": ""}
    )
    given = ("--input", root / "images", "--annotations", root / "a.json", "--unannotated", "keep")
    made = make(tmp_path / "out", *given, "--max-reject-fraction", 1, *_WHOLE)
    (detail,) = details(made).values()
    assert detail.startswith("a.json: annotations[0]: expected 'keypoints'")
    assert why in detail


def hub(*rows):
    return "\n".join(row if isinstance(row, str) else json.dumps(row) for row in rows)


_CARD = """---
dataset_info:
  features:
  - name: objects
    sequence:
    - name: bbox
      sequence: float32
    - name: category
      dtype:
        class_label:
          names:
            '0': cat
            '1': dog
---
# Boxes
"""


@pytest.mark.parametrize(
    ("more", "labels"),
    [({}, ("0", "1")), ({"README.md": _CARD}, ("cat", "dog"))],
    ids=["numbers", "names"],
)
def test_metadata_of_the_hub_holds_boxes(more, labels, tmp_path):
    one = {"file_name": "0.png", "objects": {"bbox": [[10, 6, 20, 18]], "category": [1], "id": [7]}}
    other = {"file_name": "0.png", "objects": [{"bbox": [20, 6.5, 20, 24], "category": 0}]}
    files = {"train/0.png": "", "train/1.png": "", "test/0.png": "", **more}
    files["train/metadata.jsonl"] = hub(one, {"file_name": "1.png", "objects": None})
    files["test/metadata.jsonl"] = hub(other)
    root = put(tmp_path / "in", files)
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    assert found(made)[0] == {
        "train/0.png": [(labels[1], (10, 6, 30, 24))],
        "train/1.png": [],
        "test/0.png": [(labels[0], (20, 6.5, 40, 30.5))],
    }
    assert made.manifest.labels == labels
    notes = [note for note in made.manifest.notes if "numbers without names (0, 1)" in note]
    assert len(notes) == (not more)
    assert all("--labels-file names them" in note for note in notes)


@pytest.mark.parametrize(
    ("row", "key", "why"),
    [
        ("{", "metadata.jsonl#2", "expected a JSON object with a 'file_name'"),
        ({"text": "x"}, "metadata.jsonl#2", "expected a JSON object with a 'file_name'"),
        ({"objects": 3}, "1.png", "metadata.jsonl: line 2: expected 'objects' with 'bbox', got 3"),
        ({"objects": [3]}, "1.png", "expected 'objects' with 'bbox', got [3]"),
        (
            {"objects": {"bbox": [[1, 2, 3, 4]], "category": []}},
            *("1.png", "metadata.jsonl: line 2: 1 boxes in 'bbox', but 0 in 'category'"),
        ),
        (
            {"objects": {"bbox": [[1, 2, 3]], "category": [0]}},
            *("1.png", "expected a 'bbox' of [x, y, width, height], got [1, 2, 3]"),
        ),
        (
            {"objects": {"bbox": [[1, 2, -3, 4]], "category": [0]}},
            *("1.png", "expected a 'bbox' of [x, y, width, height], got [1, 2, -3, 4]"),
        ),
        (
            {"objects": {"bbox": [[1, 2, 3, 4]], "category": [7]}},
            *("1.png", "line 2: expected a category 0 to 1, got 7"),
        ),
        (
            {"objects": {"bbox": [[1, 2, 3, 4]], "category": [None]}},
            *("1.png", "expected a category as a number or a text of one line, got None"),
        ),
        (
            {"file_name": "0.png"},
            "0.png",
            "metadata.jsonl: line 2: another line names '0.png', too",
        ),
    ],
)
def test_invalid_metadata_of_the_hub_is_rejected(row, key, why, tmp_path):
    good = {"file_name": "0.png", "objects": {"bbox": [[10, 6, 20, 18]], "category": [1]}}
    named = row if isinstance(row, str) or "text" in row else {"file_name": "1.png", **row}
    files = {"0.png": "", "1.png": "", "metadata.jsonl": hub(good, named), "README.md": _CARD}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--max-reject-fraction", 1)
    found = details(make(tmp_path / "out", *given, "--unannotated", "keep", *_WHOLE))
    assert list(found) == [key]
    assert why in found[key]


def test_a_listing_with_boxes_names_the_option_that_reads_them(tmp_path, capsys):
    one = {"file_name": "0.png", "objects": {"bbox": [[10, 6, 20, 18]], "category": [1]}}
    root = put(tmp_path / "in", {"0.png": "", "metadata.jsonl": hub(one)})
    given = ("--input", root / "metadata.jsonl", "--output", tmp_path / "out")
    assert images(*given) == 2
    error = " ".join(capsys.readouterr().err.split())
    assert "from the metadata.jsonl beside the images, with --annotations and the folder" in error


_SHAPES = [
    {"label": "cat", "points": [[10, 6], [50, 6], [30, 42.5]], "shape_type": "polygon"},
    {"label": "dog", "points": [[40, 36], [20, 12]], "shape_type": "rectangle", "group_id": None},
    {"label": "dog", "points": [[70, 30], [70, 40]], "shape_type": "circle"},
    {"label": "cat", "points": [[1, 1], [5, 1], [3, 9]], "group_id": 4},
    {"label": "cat", "points": [[11, 1], [15, 1], [13, 5]], "group_id": 4},
    {"label": "cat", "points": [[1, 1]], "shape_type": "point"},
]
LABELME = {
    "photos/0.png": "",
    "photos/0.json": {"version": "5", "shapes": _SHAPES, "imageWidth": 100, "imageHeight": 60},
}
_DOTA = "10 6 30 6 30 24 10 24"
DOTA = {
    "train/images/0.png": "",
    "val/images/0.png": "",
    "train/labelTxt/0.txt": f"imagesource:GoogleEarth\ngsd:0.1\n{_DOTA} plane 0\n",
    "val/labelTxt/0.txt": f"{_DOTA} large-ship 1\n40 10 50 20.5 40 30 30 20 plane\n",
}
_TASK = "<meta><task><labels><label><name>dog</name></label><label><name>cat</name></label>"
CVAT = {
    "photos/0.png": "",
    "annotations.xml": "<annotations><version>1.1</version>"
    f"{_TASK}</labels></task></meta><image id='0' name='0.png' width='100' height='60'>"
    "<polygon label='cat' occluded='1' points='10,6;50,6;30,42.5'/>"
    "<box label='dog' xtl='20' ytl='12' xbr='40' ybr='36'/>"
    "<ellipse label='dog' cx='70' cy='30' rx='10' ry='10'/>"
    "<box label='cat' xtl='20' ytl='20' xbr='40' ybr='30' rotation='90'/>"
    "<polyline label='cat' points='1,2;3,4'/><tag label='x'/></image></annotations>",
}


@pytest.mark.parametrize(
    ("files", "place", "last", "labels"),
    [
        (LABELME, "photos", (1, 1, 15, 9), ("cat", "dog")),
        (CVAT, "annotations.xml", (25, 15, 35, 35), ("dog", "cat")),
        (CVAT, ".", (25, 15, 35, 35), ("dog", "cat")),
    ],
    ids=["labelme", "cvat", "folder of cvat"],
)
def test_polygons_in_pixels_are_boxes_and_masks(files, place, last, labels, tmp_path):
    root = put(tmp_path / "in", files)
    given = ("--input", root / "photos", "--annotations", root / place, "--splits", "train=1")
    made = make(tmp_path / "boxes", *given, *_WHOLE)
    boxes = [("cat", (10, 6, 50, 42.5)), ("dog", (20, 12, 40, 36)), ("dog", (60, 20, 80, 40))]
    assert found(made)[0] == {"0.png": [*boxes, ("cat", last)]}
    assert made.manifest.labels == labels
    assert {note.code for note in made.manifest.notes} >= {"left-unread"}
    made = make(tmp_path / "masks", *given, "--instance-masks", *_WHOLE)
    (example,) = made.examples().values()
    masks = [np.asarray(Image.open(io.BytesIO(mask))) for mask in example["image/object/mask"]]
    size = (WIDTH, HEIGHT)
    star = draw_object("[[10,6,50,6,30,42.5]]", IDENTITY, frame=size, size=size)
    np.testing.assert_array_equal(masks[0], star)
    assert [mask.sum() for mask in masks[1:3]] == pytest.approx([20 * 24, np.pi * 100], rel=0.02)


@pytest.mark.parametrize(
    ("shift", "joined"), [(0, 0), (14, 0), (15, 1)], ids=["in one another", "touching", "apart"]
)
def test_shapes_of_one_group_that_do_not_touch_are_in_a_note(shift, joined, tmp_path):
    def shape(left, kind="rectangle"):
        points = [[left, 5], [left + 14, 9]]
        return {"label": "cat", "points": points, "shape_type": kind, "group_id": 4}

    document = {"shapes": [shape(30 + shift), shape(30), shape(16)], "version": "5"}
    root = put(tmp_path / "in", {"0.png": "", "0.json": document})
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    assert found(made)[0] == {"0.png": [("cat", (16, 5, 44 + shift, 9))]}
    note = "1 object was joined from several shapes with the same label and group_id that do not"
    notes = [one for one in made.manifest.notes if note in one]
    assert len(notes) == joined
    assert all(one.endswith("touch, such as 'cat' in 0.json") for one in notes)


def _labelme(**changed):
    shapes = [{**_SHAPES[0], **changed}]
    return {"photos/0.json": {"shapes": shapes}}


def _cvat(shape):
    return {"0.xml": f"<annotations><image name='0.png'>{shape}</image></annotations>"}


@pytest.mark.parametrize(
    ("files", "why"),
    [
        (_labelme(points=[[1, 2], [3, 4]]), "shape 1: expected a polygon of 3 points [x, y] or mo"),
        (_labelme(points=[[1, 2], [3, 4], [5]]), "shape 1: expected a polygon of 3 points [x, y]"),
        (_labelme(points=[[1, 2], [3, 4], ["5", 6]]), "got [[1, 2], [3, 4], ['5', 6]]"),
        (_labelme(points=None), "expected a polygon of 3 points [x, y] or more, got None"),
        (_labelme(shape_type="circle"), "shape 1: expected a circle of 2 points [x, y], got"),
        (_labelme(label=""), "shape 1: expected a label of one line, got ''"),
        ({"photos/0.json": {"shapes": [3]}}, "shape 1: expected an object, got 3"),
        (_cvat("<polygon label='a' points='1,2;3,4'/>"), "expected three points or more, got"),
        (_cvat("<polygon label='a' points='1,2;3,nan;5,6'/>"), "shape 1 (<polygon>): expected poi"),
        (_cvat("<box label='a' xtl='1' ytl='2' xbr='3'/>"), "expected xtl, ytl, xbr, ybr, got 1,"),
        (_cvat("<box label='a' xtl='5' ytl='2' xbr='3' ybr='4'/>"), "a maximum below its minimum"),
        (_cvat("<box xtl='1' ytl='2' xbr='3' ybr='4'/>"), "expected a label of one line, got ''"),
    ],
)
def test_invalid_shapes_reject_their_image(files, why, tmp_path):
    root = put(tmp_path / "in", {"photos/0.png": "", "photos/1.png": "", **files})
    given = ("--input", root / "photos", "--annotations", root / "photos")
    if "0.xml" in files:
        given = (*given[:2], "--annotations", root / "0.xml")
    made = make(
        tmp_path / "out", *given, "--unannotated", "keep", "--max-reject-fraction", 1, *_WHOLE
    )
    assert list(details(made)) == ["0.png"]
    assert why in details(made)["0.png"]


_FEATURES = {
    "bbox": {"feature": {"feature": {"dtype": "float32", "_type": "Value"}, "_type": "List"}},
    "category": {"feature": {"names": ["cat", "dog"], "_type": "ClassLabel"}, "_type": "List"},
}
_OBJECTS = [
    {"bbox": [[10, 6, 20, 18], [1, 1, 2, 2]], "category": [1, 0]},
    {"bbox": [], "category": []},
    None,
]


def of_hub(path, objects, *, named=True, listed=False, **more):
    """A table of pictures with boxes, as the hub exports it; its keys are 0, 1, ..."""
    rows = [
        {"n": str(n), "image": {"bytes": png(n), "path": None}, "objects": one}
        for n, one in enumerate(objects)
    ]
    if listed:  # one struct for each object
        for row in rows:
            one = row["objects"] or {"bbox": [], "category": []}
            pairs = zip(*one.values(), strict=True)
            row["objects"] = [dict(zip(one, pair, strict=True)) for pair in pairs]
    table = pa.Table.from_pylist(rows)
    for name, values in more.items():
        table = table.append_column(name, pa.array(values))
    if named:
        info = {"info": {"features": {"objects": _FEATURES}}}
        table = table.replace_schema_metadata({"huggingface": json.dumps(info)})
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path)


def png(number):
    file = io.BytesIO()
    Image.new("RGB", (WIDTH, HEIGHT), (number, 40, 9)).save(file, "PNG")
    return file.getvalue()


@pytest.mark.parametrize("listed", [False, True], ids=["lists", "structs"])
@pytest.mark.parametrize("named", [False, True], ids=["numbers", "names"])
def test_tables_of_the_hub_hold_images_and_boxes(named, listed, tmp_path):
    of_hub(tmp_path / "in/train.parquet", _OBJECTS, named=named, listed=listed, label=[0, 1, 0])
    of_hub(tmp_path / "in/test.parquet", _OBJECTS, named=named, listed=listed, label=[0, 1, 0])
    made = make(tmp_path / "out", "--input", tmp_path / "in", *_WHOLE)
    first, second = ("cat", "dog") if named else ("0", "1")
    boxes = [(second, (10, 6, 30, 24)), (first, (1, 1, 3, 3))]
    for split in ("train", "test"):
        examples = made.examples(split).values()
        assert len(examples) == 3
        assert sorted(len(one["image/object/class/text"]) for one in examples) == [0, 0, 2]
        (one,) = (one for one in examples if len(one["image/object/class/text"]))
        names = [name.decode() for name in one["image/object/class/text"]]
        corners = np.round(boxes_of(one), 2).tolist()
        assert [*zip(names, map(tuple, corners), strict=True)] == boxes
    assert made.manifest.labels == (first, second)
    unnamed = any("numbers without names (0, 1)" in note for note in made.manifest.notes)
    assert unnamed is not named


def test_options_of_boxes_apply_to_tables(tmp_path):
    of_hub(tmp_path / "train.parquet", _OBJECTS)
    options = ("--exclude-labels", "cat", "--label-map", "dog=wolf", "--without-boxes", "drop")
    made = make(tmp_path / "out", "--input", tmp_path / "train.parquet", *options, *_WHOLE)
    ((_, example),) = made.examples().items()
    assert example["image/object/class/text"] == [b"wolf"]
    assert made.manifest.labels == ("wolf",)


def test_labels_file_names_the_categories_of_tables(tmp_path):
    of_hub(tmp_path / "train.parquet", _OBJECTS, named=False)
    (tmp_path / "names.txt").write_text("ant\nbee\n")
    given = ("--input", tmp_path / "train.parquet", "--labels-file", tmp_path / "names.txt")
    made = make(tmp_path / "out", *given, *_WHOLE)
    assert made.manifest.labels == ("ant", "bee")
    assert {len(one["image/object/class/text"]) for one in made.examples().values()} == {0, 2}


def test_invalid_boxes_of_tables_reject_their_row(tmp_path):
    objects = [_OBJECTS[0], {"bbox": [[1, 2, 3]], "category": [0]}, {"bbox": [], "category": [0]}]
    objects += [{"bbox": [[1, 2, 3, float("nan")]], "category": [0]}]
    objects += [{"bbox": [[1, 2, 3, 4]], "category": [2]}]
    of_hub(tmp_path / "train.parquet", objects)
    given = ("--input", tmp_path / "train.parquet", "--key-column", "n", "--max-reject-fraction", 1)
    expected = "column 'objects': expected a 'bbox' of [x, y, width, height]"
    assert details(make(tmp_path / "out", *given, *_WHOLE)) == {
        "1": f"{expected}, got [1.0, 2.0, 3.0]",
        "2": "column 'objects': 0 boxes in 'bbox', but 1 in 'category'",
        "3": f"{expected}, got [1.0, 2.0, 3.0, nan]",
        "4": "column 'objects': expected a category 0 to 1, got 2",
    }


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ("--stratify",),
            "need the boxes before the images are read, and those of the input are in",
        ),
        (("--image-class", "largest"), "write them to a metadata.jsonl beside image files"),
        (("--annotations", "x.json"), "--annotations"),
        (("--label-column", "n"), "--label-column: cannot be combined with the boxes in column"),
    ],
)
def test_options_that_do_not_fit_boxes_of_tables_are_refused(options, message, tmp_path, capsys):
    of_hub(tmp_path / "train.parquet", _OBJECTS)
    given = ("--input", tmp_path / "train.parquet", "--output", tmp_path / "out")
    assert images(*given, *options) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_tables_that_name_other_categories_are_refused(tmp_path, capsys):
    of_hub(tmp_path / "in/train.parquet", _OBJECTS)
    of_hub(tmp_path / "in/test.parquet", _OBJECTS, named=False)
    assert images("--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    assert "other names of categories in the metadata" in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize(
    "text",
    [
        "photos/1.png,,,,,\nphotos/0.png,10,6,30,24,cat\n",
        "photos/0.png,10,6,30,24,cat\nphotos/1.png,,,,,\n",
        "0.png,100,60,cat,10,6,30,24\n1.png,100,60,,,,,\n",
        "0.png;10;6;30;24;cat\n1.png;;;;;\n",
    ],
)
def test_tables_of_boxes_may_lack_a_header(text, tmp_path):
    root = put(tmp_path / "in", {"photos/0.png": "", "photos/1.png": "", "boxes.csv": text})
    given = ("--input", root / "photos", "--annotations", root / "boxes.csv", "--splits", "train=1")
    made = make(tmp_path / "out", *given, *_WHOLE)
    assert found(made)[0] == {"0.png": [("cat", (10, 6, 30, 24))], "1.png": []}
    (note,) = [note for note in made.manifest.notes if note.code == "annotations"]
    assert "boxes.csv: there is no header line: columns are read as image, " in note


@pytest.mark.parametrize(
    ("files", "advice"),
    [
        (ROBOFLOW, "(YOLO): --annotations {0} reads them"),
        (ULTRALYTICS, "(YOLO): --annotations {0} reads them"),
        (PER_SPLIT, "(COCO): --annotations {0} reads them"),
        (CSV_PER_SPLIT, "train/_annotations.csv: --annotations {0} reads boxes or captions from"),
        (LABELME, "(LabelMe): --annotations {0}/photos reads them"),
        (DOTA, "(DOTA): --annotations {0} reads them"),
        (CVAT, "(CVAT): --annotations {0}/annotations.xml reads them"),
    ],
    ids=["roboflow", "ultralytics", "coco", "csv", "labelme", "dota", "cvat"],
)
def test_a_note_names_the_option_that_reads_a_layout(files, advice, tmp_path):
    root = put(tmp_path / "in", files)
    made = make(tmp_path / "out", "--input", root, "--unlabelled", "keep", *_WHOLE)
    notes = [note for note in made.manifest.notes if note.code == "unread"]
    assert [note for note in notes if advice.format(root) in note], notes


def test_subsets_of_a_project_of_cvat_are_told_apart(tmp_path):
    box = "<box label='{}' xtl='10' ytl='6' xbr='30' ybr='24'/>"
    shown = {"Train": "cat", "Validation": "dog"}
    text = "".join(
        f"<image name='0.png' subset='{subset}'>{box.format(kind)}</image>"
        for subset, kind in shown.items()
    )
    files = {f"images/{subset}/0.png": "" for subset in shown}
    root = put(tmp_path / "in", {**files, "annotations.xml": f"<annotations>{text}</annotations>"})
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    boxes, splits = found(made)
    assert boxes == {
        f"images/{subset}/0.png": [(kind, (10, 6, 30, 24))] for subset, kind in shown.items()
    }
    assert {*splits.values()} == {"train", "validation"}


def test_voc_in_a_folder_beside_the_images_is_read(tmp_path):
    box = "<bndbox><xmin>11</xmin><ymin>7</ymin><xmax>30</xmax><ymax>24</ymax></bndbox>"
    text = f"<annotation><object><name>cat</name>{box}</object></annotation>"
    files = {"JPEGImages/0.png": "", "Annotations/0.xml": text, "ImageSets/Main/train.txt": "0"}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1")
    assert found(make(tmp_path / "out", *given, *_WHOLE))[0] == {
        "JPEGImages/0.png": [("cat", (10, 6, 30, 24))]
    }


_CAT = "<annotation><object><name>cat</name><bndbox><xmin>11</xmin><ymin>7</ymin><xmax>30</xmax>\
<ymax>24</ymax></bndbox></object></annotation>"


@pytest.mark.parametrize(
    ("image", "annotation"),
    [
        ("JPEGImages/0.png", "annotations/0.xml"),
        ("a/IMAGES/0.png", "a/ANNOTATIONS/0.xml"),
        ("a/imgs/b/0.png", "a/label/b/0.xml"),
        ("photos/0.png", "annotations/0.xml"),
        ("0.png", "Labels/0.xml"),
    ],
)
def test_folders_of_images_and_of_annotations_have_usual_names(image, annotation, tmp_path):
    root = put(tmp_path / "in", {image: "", annotation: _CAT})
    given = ("--input", root, "--annotations", root, "--splits", "train=1")
    made = make(tmp_path / "out", *given, *_WHOLE)
    assert found(made)[0] == {image: [("cat", (10, 6, 30, 24))]}


def test_a_folder_of_another_name_is_in_the_command_that_reads_it(tmp_path, capsys):
    root = put(tmp_path / "in", {"photos/0.png": "", "boxes/0.xml": _CAT})
    given = ("--input", root, "--annotations", root, "--output", tmp_path / "out")
    assert images(*given) == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "pass this folder as --annotations .../in/boxes" in told


def test_lists_of_voc_for_each_class_are_not_annotations(tmp_path):
    box = "<bndbox><xmin>11</xmin><ymin>7</ymin><xmax>30</xmax><ymax>24</ymax></bndbox>"
    text = f"<annotation><object><name>cat</name>{box}</object></annotation>"
    lists = [f"{kind}_{split}" for kind in ("cat", "dog") for split in ("train", "val")]
    files = {f"ImageSets/Main/{name}.txt": "0  1\n" for name in lists}
    files |= {"JPEGImages/0.png": "", "Annotations/0.xml": text}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1")
    assert found(make(tmp_path / "out", *given, *_WHOLE))[0] == {
        "JPEGImages/0.png": [("cat", (10, 6, 30, 24))]
    }


@pytest.mark.parametrize(
    ("files", "why"),
    [
        ({"names.txt": "cat\n", "flags.txt": "dog\n"}, None),
        (
            {"voc/0.xml": "<annotation/>", "names.txt": "cat\n"},
            "formats, photos/0.json (labelme) and voc/0.xml (voc): name the format with"
            " --annotation-format, labelme or voc",
        ),
        (
            {"voc/0.xml": "<annotation/>", "voc/1.xml": "<annotation/>", "a/0.txt": "0 1 1 1 1"},
            "formats, .xml files such as voc/0.xml (voc), photos/0.json (labelme) and a/0.txt"
            " (yolo): name the format with --annotation-format, voc, labelme or yolo",
        ),
    ],
    ids=["texts", "voc", "yolo"],
)
def test_labelme_is_recognised_beside_files_of_other_formats(files, why, tmp_path, capsys):
    root = put(tmp_path / "in", {**LABELME, **files})
    argv = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    if why is not None:
        assert images(*argv, "--output", tmp_path / "out") == 2
        assert why in " ".join(capsys.readouterr().err.split())
        argv += ("--annotation-format", "labelme")
    assert len(found(make(tmp_path / "out", *argv))[0]["photos/0.png"]) == 4


_BOX_OF_YOLO = "0 0.5 0.5 0.2 0.2\n"
_BOXES_OF_COCO = {
    "images": [{"id": 1, "file_name": "0.png", "width": 100, "height": 60}],
    "annotations": [{"id": 1, "image_id": 1, "category_id": 1, "bbox": [10, 6, 20, 18]}],
    "categories": [{"id": 1, "name": "cat"}],
}


@pytest.mark.parametrize(
    "others",
    [
        {"category_ids.txt": "1 cat\n2 dog\n"},
        {"splits/a_ids.txt": "0\n", "splits/b_ids.txt": "000001\n"},
        {"texts/0.txt": "A cat.\n", "classes/0.txt": "3\n", "config.xml": "<config/>"},
        {"gt/0.txt": "cat 10 6 30 24\n", "empty/0.txt": ""},
        {"notes.csv": "id,note\n1,none\n", "metadata.jsonl": '{"file_name": "0.png"}\n'},
    ],
)
def test_content_decides_the_format_of_a_folder(others, tmp_path):
    root = put(tmp_path / "in", {"images/0.png": "", **others})
    (root / "instances.json").write_text(json.dumps(_BOXES_OF_COCO))
    given = ("--input", root / "images", "--annotations", root, "--splits", "train=1")
    assert found(make(tmp_path / "out", *given, *_WHOLE))[0] == {
        "0.png": [("cat", (10, 6, 30, 24))]
    }


@pytest.mark.parametrize(
    ("others", "shown", "format_"),
    [
        (
            {"classes.txt": "cat\n", "labels/0.txt": _BOX_OF_YOLO, "labels/1.txt": _BOX_OF_YOLO},
            ".txt files such as labels/0.txt (yolo)",
            "yolo",
        ),
        ({"Annotations/0.xml": _CAT}, "Annotations/0.xml (voc)", "voc"),
    ],
)
def test_coco_beside_another_format_is_an_error(others, shown, format_, tmp_path, capsys):
    root = put(tmp_path / "in", {"images/0.png": "", "images/1.png": "", **others})
    (root / "instances.json").write_text(json.dumps(_BOXES_OF_COCO))
    given = ("--input", root / "images", "--annotations", root, "--unannotated", "keep")
    given += ("--splits", "train=1", *_WHOLE)
    assert images(*given, "--output", tmp_path / "out") == 2
    assert " ".join(capsys.readouterr().err.split()).endswith(
        f"--annotations {root}: the folder holds annotations of several formats, {shown} and"
        f" instances.json (coco): name the format with --annotation-format, {format_} or coco, or"
        f" pass --annotations {root}/instances.json"
    )
    expected = {"yolo": (40, 24, 60, 36), "voc": (10, 6, 30, 24), "coco": (10, 6, 30, 24)}
    for name in (format_, "coco"):
        made = make(tmp_path / name, *given, "--annotation-format", name)
        ((label, corners),) = found(made)[0]["0.png"]
        assert (label, [*map(round, corners)]) == ("cat", [*expected[name]])


def test_json_of_other_tools_beside_yolo_is_not_coco(tmp_path):
    files = {"images/0.png": "", "labels/0.txt": _BOX_OF_YOLO, "classes.txt": "cat\n"}
    files["notes.json"] = '{"categories": [{"id": 0, "name": "cat"}], "info": {}}'
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1")
    assert [*found(make(tmp_path / "out", *given, *_WHOLE))[0]] == ["images/0.png"]


def test_drawn_boxes_and_names_of_classes_beside_voc_are_skipped(tmp_path):
    box = "<bndbox><xmin>11</xmin><ymin>7</ymin><xmax>30</xmax><ymax>24</ymax></bndbox>"
    text = f"<annotation><object><name>cat</name>{box}</object></annotation>"
    files = {"JPEGImages/0.png": "", "Annotations/0.xml": text, "class_names.txt": "cat\n"}
    files |= {f"{name}/0.png": "" for name in ("AnnotationsVisualization", "SegmentationClass")}
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert found(made)[0] == {"JPEGImages/0.png": [("cat", (10, 6, 30, 24))]}
    filtered = made.manifest.ledger.filtered.inputs
    assert (filtered["visualization"], filtered["masks"]) == (1, 1)


def test_a_folder_around_yolo_is_read(tmp_path):
    root = put(tmp_path / "in", {f"D/{name}": text for name, text in ULTRALYTICS.items()})
    made = make(tmp_path / "out", "--input", root, "--annotations", root, *_WHOLE)
    boxes, splits = found(made)
    assert {key[-5]: value for key, value in boxes.items()} == _BOXES
    assert {*splits.values()} == {"train", "validation", "test"}


def test_a_loose_image_beside_splits_of_yolo_is_rejected(tmp_path):
    root = put(tmp_path / "in", {**ROBOFLOW, "cover.png": ""})
    given = ("--input", root, "--annotations", root, "--max-reject-fraction", 1, *_WHOLE)
    assert details(make(tmp_path / "out", *given)) == {
        "cover.png": "no split: expected SPLIT/images/FILE"
    }


def flagged(**flags):
    """A file of LabelMe without shapes."""
    return {"flags": flags, "shapes": [], "imageWidth": WIDTH, "imageHeight": HEIGHT}


FLAGS = {
    **{f"{n}.png": "" for n in range(3)},
    "0.json": flagged(dog=False, cat=True),
    "1.json": flagged(dog=True, cat=False),
    "2.json": flagged(dog=False, cat=False),
}


def labels_of(made: Made):
    """{key: names of the classes of the image}, of all splits."""
    return {
        key: [name.decode() for name in example.get("image/class/text", [])]
        for split in made.manifest.splits
        for (key, _), example in made.examples(split).items()
    }


@pytest.mark.parametrize("given", [(), ("--annotation-format", "flags")])
def test_flags_of_labelme_are_the_classes_of_images(given, tmp_path):
    root = put(tmp_path / "in", FLAGS)
    argv = ("--input", root, "--annotations", root, "--splits", "train=1", *given, *_WHOLE)
    made = make(tmp_path / "a", *argv, "--unannotated", "keep")
    assert labels_of(made) == {"0.png": ["cat"], "1.png": ["dog"], "2.png": []}
    assert made.manifest.labels == ("cat", "dog")
    made = make(tmp_path / "b", *argv, "--max-reject-fraction", 1, "--label-map", "cat=lion")
    assert labels_of(made) == {"0.png": ["lion"], "1.png": ["dog"]}
    why = "no true flags in in; --unannotated keep or drop allows this"
    assert (details(made), made.rejects) == ({"2.png": why}, {"2.png": "unlabelled"})
    made = make(tmp_path / "c", *argv, "--unannotated", "drop", "--balance", "oversample")
    assert labels_of(made).keys() == {"0.png", "1.png"}


def test_files_of_a_project_are_no_images_or_annotations(tmp_path):
    texts = ("LICENSE", "labels/README", "requirements.txt", "captions.jsonlines")
    files = {**dict.fromkeys(texts, "numpy\n"), "images/LICENSE/0.png": "", "data.yaml": _YAML}
    files["labels/LICENSE/0.txt"] = line(1, 10, 6, 30, 24)
    root = put(tmp_path / "in", files)
    given = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *given)
    assert found(made)[0] == {"images/LICENSE/0.png": [("dog", (10, 6, 30, 24))]}
    filtered = made.manifest.ledger.filtered.inputs
    assert (filtered["project file"], filtered["extension"]) == (2, 4)
    assert not made.rejects


def test_several_true_flags_are_several_labels(tmp_path):
    root = put(tmp_path / "in", {**FLAGS, "2.json": flagged(dog=True, cat=True)})
    argv = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *argv)
    assert labels_of(made) == {"0.png": ["cat"], "1.png": ["dog"], "2.png": ["cat", "dog"]}
    assert made.manifest.multi_label


def test_flags_beside_shapes_are_in_a_note(tmp_path):
    shape = {**_SHAPES[0], "flags": {"hard": True}}
    files = {**FLAGS, "0.json": {**flagged(cat=True), "shapes": [shape]}}
    root = put(tmp_path / "in", files)
    argv = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *argv)
    assert {key: len(boxes) for key, boxes in found(made)[0].items()} == {
        **{"0.png": 1, "1.png": 0, "2.png": 0}
    }
    (note,) = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert "fields (flags) of 1 annotation, such as one in 0.json" in note
    assert "flags (cat, dog) of 2 images, such as 0.json" in note
    made = make(tmp_path / "b", *argv, "--annotation-format", "flags", "--unannotated", "keep")
    assert labels_of(made) == {"0.png": ["cat"], "1.png": ["dog"], "2.png": []}
    (note,) = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert note == "not read, or taken as stored: shapes of 1 image, such as 0.json"


@pytest.mark.parametrize(
    ("document", "why"),
    [
        (flagged(cat="yes"), "0.json: expected 'flags' of names and true or false, got {'cat': 'y"),
        ({**flagged(), "flags": ["cat"]}, "expected 'flags' of names and true or false, got ['cat"),
        (flagged(**{" ": True}), "0.json: expected flags with names of one line, got ' '"),
        ({"flags": {"cat": True}, "shapes": 3}, "0.json: expected LabelMe's 'shapes', a list"),
        ("{", "0.json: invalid JSON: unexpected end of data: line 1 column 2"),
    ],
)
def test_invalid_flags_reject_their_image(document, why, tmp_path):
    root = put(tmp_path / "in", {**FLAGS, "0.json": document, "2.json": flagged(cat=True)})
    argv = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *argv, "--max-reject-fraction", 1)
    assert list(details(made)) == ["0.png"]
    assert why in details(made)["0.png"]


@pytest.mark.parametrize("name", ["photos/0.json", "metadata.jsonl"])
def test_json_may_begin_with_a_byte_order_mark(name, tmp_path):
    """As editors of Windows write it."""
    files = {"photos/0.png": "", "photos/0.json": LABELME["photos/0.json"]}
    if name == "metadata.jsonl":
        row = {"file_name": "photos/0.png", "objects": {"bbox": [[1, 1, 9, 9]], "categories": [0]}}
        files = {"photos/0.png": "", name: json.dumps(row)}
    root = put(tmp_path / "in", files)
    (root / name).write_bytes(codecs.BOM_UTF8 + (root / name).read_bytes())
    argv = ("--input", root, "--annotations", root, "--splits", "train=1", *_WHOLE)
    made = make(tmp_path / "out", *argv)
    assert [*map(bool, found(made)[0].values())] == [True]


def test_flags_have_no_boxes_that_give_the_class(tmp_path, capsys):
    root = put(tmp_path / "in", FLAGS)
    argv = ("--input", root, "--annotations", root, "--output", tmp_path / "out")
    assert images(*argv, "--image-class", "largest") == 2
    assert "--image-class largest: needs boxes, and --annotations" in capsys.readouterr().err


def test_oriented_boxes_of_dota_are_read(tmp_path):
    root = put(tmp_path / "in", DOTA)
    given = ("--input", root, "--annotations", root, *_WHOLE)
    made = make(tmp_path / "out", *given)
    box = (10, 6, 30, 24)
    assert found(made)[0] == {
        "train/images/0.png": [("plane", box)],
        "val/images/0.png": [("large-ship", box), ("plane", (30, 10, 50, 30))],
    }
    (example,) = made.examples("validation").values()
    assert [*example["image/object/difficult"]] == [1, 0]
    (note,) = [note for note in made.manifest.notes if note.code == "left-unread"]
    assert "the outlines of 1 polygon, such as one in val/labelTxt/0.txt" in note
    made = make(tmp_path / "masks", *given, "--instance-masks")
    (example,) = made.examples("validation").values()
    assert len(example["image/object/mask"]) == 2
    assert example["image/object/segmentation"][1] == b"[[40.0,10.0,50.0,20.5,40.0,30.0,30.0,20.0]]"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (
            "1 2 3 4 5 6 7 plane 0",
            "train/labelTxt/0.txt: line 1: expected x and y of four corners,",
        ),
        (f"{_DOTA} plane 3", "line 1: expected a difficulty of 0, 1 or 2, got '3'"),
        (f"{_DOTA} plane 0\n\n{_DOTA.replace('6', 'nan', 1)} plane 0", "line 3: expected x and y"),
    ],
)
def test_invalid_lines_of_dota_reject_their_image(text, why, tmp_path):
    root = put(tmp_path / "in", {**DOTA, "train/labelTxt/0.txt": text})
    given = ("--input", root, "--annotations", root, "--max-reject-fraction", 1, *_WHOLE)
    rejected = details(make(tmp_path / "out", *given))
    assert list(rejected) == ["train/images/0.png"]
    assert why in rejected["train/images/0.png"]
