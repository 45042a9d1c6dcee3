"""Boxes in the ledger, and in what is loaded."""

import json

import numpy as np
import pytest
from PIL import Image

import recordmill
from recordmill.errors import ConfigError
from recordmill.pipelines.cli import main
from tests.image_runs import Made, make

pytestmark = pytest.mark.usefixtures("encoders")

LARGE, SMALL = [2, 2, 20, 20], [30, 30, 3, 3]


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    """Twelve of 40x40 with a large box and a small one, and one without any."""
    root = tmp_path_factory.mktemp("boxes")
    (root / "in").mkdir()
    names = [f"{n:02d}.png" for n in range(13)]
    for name in names:
        Image.new("RGB", (40, 40)).save(root / "in" / name)
    boxes = [(n, box) for n in range(12) for box in (LARGE, SMALL)]
    coco = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "categories": [{"id": 1, "name": "cat"}, {"id": 2, "name": "dog"}],
        "annotations": [
            {"id": i, "image_id": n, "category_id": 1 + (box == SMALL), "bbox": box}
            for i, (n, box) in enumerate(boxes)
        ],
    }
    (root / "coco.json").write_text(json.dumps(coco))
    return root


def made_of(pictures, folder, *options: object, annotations: object = None) -> Made:
    return make(
        folder / "out",
        *("--input", pictures / "in", "--annotations", annotations or pictures / "coco.json"),
        *("--splits", "train=1", "--size", 40, *options),
    )


def test_boxes_that_are_left_out_are_counted(pictures, tmp_path, capsys):
    made = made_of(pictures, tmp_path, "--min-box", 5)
    objects = made.manifest.ledger.objects
    assert (objects.made, objects.written, objects.dropped) == (24, 12, 12)
    held = sum(len(one["image/object/bbox/xmin"]) for one in recordmill.read(made.folder))
    assert held == objects.written
    assert main(["inspect", "--dataset", str(made.folder)]) == 0
    told = capsys.readouterr().out
    assert "24 objects: 12 written, 12 dropped" in told
    assert "(no class)" not in told  # of pictures that have none themselves


def test_the_rules_for_labels_of_images_with_captions_alone(pictures, tmp_path):
    names = [f"{n:02d}.png" for n in range(13)]
    coco = {
        "images": [{"id": n, "file_name": name} for n, name in enumerate(names)],
        "annotations": [{"id": n, "image_id": n, "caption": "black"} for n in range(13)],
    }
    (tmp_path / "captions.json").write_text(json.dumps(coco))
    rows = [f"{pictures}/in/{name},{'ab'[n % 2]}" for n, name in enumerate(names)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *rows]))
    argv = ("--input", tmp_path / "list.csv", "--annotations", tmp_path / "captions.json",
            "--splits", "train=1", "--size", 8)  # fmt: skip
    made = make(tmp_path / "out", *argv, "--label-map", "a=c,z=y")
    assert set(made.manifest.labels) == {"b", "c"}
    assert [str(note) for note in made.manifest.notes if note.code == "unknown-class"] == [
        "no image has an old class of --label-map: 'z=y'"
    ]


@pytest.mark.parametrize(("policy", "kept"), [("clip", 6), ("drop", 1)])
def test_boxes_that_reach_beyond_their_image_are_noted(pictures, tmp_path, policy, kept):
    coco = json.loads((pictures / "coco.json").read_text())
    boxes = [[0, 0, 400, 400], [-2, 5, 30, 30], [0, 0, 41, 41], [0, 0, 41.5, 40], [5, 5, 9, 36.5]]
    numbered = enumerate([*boxes, [4, 4, 20, 20], [50, 50, 9, 9]])
    coco["annotations"] = [
        {"id": i, "image_id": i, "category_id": 1, "bbox": box} for i, box in numbered
    ]
    (tmp_path / "boxes.json").write_text(json.dumps(coco))
    options = ("--boxes", policy, "--unannotated", "keep", "--balance", "oversample",
               "--balance-target", "13")  # fmt: skip
    made = made_of(pictures, tmp_path, *options, annotations=tmp_path / "boxes.json")
    notes = [str(note) for note in made.manifest.notes if note.code == "boxes"]
    beyond = (
        "4 boxes reach beyond the image by more than a pixel, such as one of 00.png, and only the"
        " part inside was kept: check the annotations, or leave such boxes out with --boxes drop"
    )
    assert (notes[0] == beyond) == (policy == "clip")
    held = {key for (key, copy), one in made.examples().items()
            if not copy and one["image/object/bbox/xmin"]}  # fmt: skip
    assert len(held) == kept


def test_boxes_of_copies_are_counted_with_them(pictures, tmp_path):
    made = made_of(
        pictures, tmp_path, *("--balance", "oversample", "--balance-target", 20, "--num-shards", 3)
    )
    held = sum(len(one["image/object/bbox/xmin"]) for one in recordmill.read(made.folder))
    assert made.manifest.ledger.objects.written == held == 40
    assert made.manifest.ledger.objects.dropped == 0


def test_pictures_without_annotations_have_no_objects_in_the_ledger(pictures, tmp_path):
    made = make(tmp_path / "out", "--input", pictures / "in", "--size", 8)
    assert made.manifest.ledger.objects is None
    assert "objects" not in json.loads((made.folder / "dataset.json").read_text())["ledger"]


@pytest.mark.parametrize("options", [(), ("--balance", "weights")])
def test_a_model_is_to_find_the_objects(pictures, tmp_path, options):
    made = made_of(pictures, tmp_path, *options)
    batch = next(iter(recordmill.load(made.folder, batch_size=13)))
    assert batch["image/encoded"].shape == (13, 40, 40, 3)
    assert batch["image/object/bbox/xmin"].shape == (13, 2)
    assert sorted(np.count_nonzero(batch["image/object/bbox/xmax"], axis=1)) == [0, *[2] * 12]
    if not options:
        with pytest.raises(ConfigError, match="expected records with one label, these have none"):
            recordmill.load(made.folder, as_supervised=True)


def test_the_class_of_a_picture_can_be_asked_for(pictures, tmp_path):
    made = made_of(pictures, tmp_path, "--balance", "weights", "--without-boxes", "drop")
    data = recordmill.load(made.folder, batch_size=5, as_supervised=True)
    x, y, weight = next(iter(data))  # there might be one without boxes
    assert (x.shape, y.shape) == ((5, 40, 40, 3), (5,))
    assert weight.numpy().tolist() == [1] * 5


@pytest.mark.parametrize("name", ["flip", "crop", "rotate"])
def test_pixels_are_not_moved_away_from_boxes(pictures, tmp_path, name):
    made = made_of(pictures, tmp_path, "--rename", "image/object/bbox/xmin=left")
    with pytest.raises(
        ConfigError, match=f"augment: {name} moves pixels, but would not change left"
    ):
        recordmill.load(made.folder, augment=["brightness", name])
    recordmill.load(made.folder, augment="brightness,contrast")
    alone = recordmill.load(made.folder, inputs=["image/encoded"], augment=name, batch_size=2)
    assert next(iter(alone))["image/encoded"].shape == (2, 40, 40, 3)


VOC = """<annotation><filename>{name}</filename><size><width>40</width><height>40</height></size>
<object><name>cat</name><bndbox><xmin>3</xmin><ymin>3</ymin><xmax>22</xmax><ymax>22</ymax></bndbox>
</object>{more}</annotation>"""
FLAT = """<object><name>cat</name>
<bndbox><xmin>9</xmin><ymin>5</ymin><xmax>9</xmax><ymax>20</ymax></bndbox></object>"""


def notes_on_boxes(made: Made) -> list[str]:
    return [str(note) for note in made.manifest.notes if note.code == "boxes"]


def csv_of_boxes(folder, rows) -> str:
    lines = ["filename,class,xmin,ymin,xmax,ymax", *rows]
    (folder / "boxes.csv").write_text("\n".join(lines))
    return str(folder / "boxes.csv")


def test_a_voc_box_of_equal_corners_is_dropped_and_noted(pictures, tmp_path):
    (tmp_path / "xml").mkdir()
    for n in range(13):
        text = VOC.format(name=f"{n:02d}.png", more=FLAT if n in (4, 7) else "")
        (tmp_path / "xml" / f"{n:02d}.xml").write_text(text)
    made = made_of(pictures, tmp_path, "--size", 20, annotations=tmp_path / "xml")
    objects = made.manifest.ledger.objects
    assert (objects.made, objects.written, objects.dropped, objects.no_area) == (15, 13, 2, 2)
    for record in recordmill.read(made.folder):
        assert [float(one) for one in record["image/object/bbox/xmin"]] == pytest.approx([0.05])
    assert notes_on_boxes(made) == [
        "2 of 15 boxes, those of copies included, were dropped: 2 without area, such as one of"
        " 04.png"
    ]


REASONS = ["02.png,a,1,1,9,9", "03.png,a,5,5,5,9", "04.png,a,50,5,60,9", "05.png,a,1,1,3,3"]
REASONS += ["06.png,a,30,30,44,39", "06.png,a,50,50,60,60"]


@pytest.mark.parametrize("shards", [1, 4])
def test_each_reason_is_counted_with_its_smallest_key(pictures, tmp_path, capsys, shards):
    boxes = csv_of_boxes(tmp_path, REASONS)
    more = ("--min-box", 4, "--boxes", "drop", "--unannotated", "keep", "--num-shards", shards)
    made = made_of(pictures, tmp_path, *more, annotations=boxes)
    objects = made.manifest.ledger.objects
    assert (objects.made, objects.written, objects.dropped) == (6, 1, 5)
    assert (objects.no_area, objects.outside, objects.too_small, objects.crossing) == (1, 2, 1, 1)
    assert objects.augmented == 0
    assert notes_on_boxes(made) == [
        "5 of 6 boxes, those of copies included, were dropped: 1 without area, such as one of"
        " 03.png; 2 outside the written image, such as one of 04.png; 1 too small (--min-box),"
        " such as one of 05.png; 1 crossing its edge (--boxes drop), such as one of 06.png"
    ]
    assert main(["verify", "--dataset", str(made.folder)]) == 0


def test_dropped_boxes_can_fail_the_run(pictures, tmp_path, capsys):
    argv = ["images", "--input", pictures / "in", "--annotations", pictures / "coco.json"]
    argv += ["--output", tmp_path / "out", "--size", 40, "--min-box", 5, "--fail-on", "boxes"]
    assert main([*map(str, argv), "--workers", "1"]) == 1
    assert "(an error because of --fail-on boxes)" in " ".join(capsys.readouterr().err.split())
    assert not (tmp_path / "out" / "dataset.json").exists()


def test_boxes_that_only_augmentation_drops_are_counted_without_a_note(pictures, tmp_path):
    corner = [f"{n:02d}.png,a,0,0,2,2" for n in range(13)]
    made = made_of(
        pictures,
        tmp_path,
        *("--augment", "crop", "--augment-all"),
        annotations=csv_of_boxes(tmp_path, corner),
    )
    objects = made.manifest.ledger.objects
    assert objects.augmented == objects.dropped > 0
    assert notes_on_boxes(made) == []


def test_boxes_that_repeat_others_are_noted(pictures, tmp_path):
    rows = ["0,2,2,9,9,cat", "0,2,2,9,9,cat", "0,2,2,9,9,dog", "1,2,2,9,9,cat", "1,2,2,9,9,cat",
            "1,2,2,9,9,cat", "2,2,2,9,9,cat"]  # fmt: skip
    header = "filename,xmin,ymin,xmax,ymax,class"
    table = tmp_path / "boxes.csv"
    table.write_text("\n".join([header, *(f"{row[0].zfill(2)}.png{row[1:]}" for row in rows)]))
    made = made_of(pictures, tmp_path, "--unannotated", "drop", annotations=table)
    (note,) = [str(one) for one in made.manifest.notes if "repeat" in one]
    assert "3 boxes in " in note
    assert "boxes.csv repeat a box of the same class and image, such as in '00.png'" in note
    assert made.manifest.ledger.objects.written == 7


def of_classes(pictures, tmp_path, *options) -> Made:
    """A dataset of three images with boxes of `Cat`, `CAT` and `tree`, one of trees alone."""
    names = ["Cat", "tree", "CAT", "tree", "tree"]
    rows = [f"{n // 2:02d}.png,{name},1,1,20,20" for n, name in enumerate(names)]
    argv = ("--input", pictures / "in", "--annotations", csv_of_boxes(tmp_path, rows))
    argv = (*argv, "--unannotated", "drop", "--size", 40, "--splits", "train=1")
    return make(tmp_path / "out", *argv, *options)


def classes_of(made: Made) -> list[list[str]]:
    records = sorted(recordmill.read(made.folder), key=lambda one: one["image/filename"])
    return [[name.decode() for name in one["image/object/class/text"]] for one in records]


def test_classes_of_boxes_are_folded(pictures, tmp_path):
    made = of_classes(pictures, tmp_path, "--fold-labels")
    assert classes_of(made) == [["cat", "tree"], ["cat", "tree"], ["tree"]]
    assert (made.folder / "labels.txt").read_text() == "cat\ntree\n"


def test_classes_of_boxes_that_differ_by_case_are_noted(pictures, tmp_path):
    made = of_classes(pictures, tmp_path)
    (note,) = [str(one) for one in made.manifest.notes if one.code == "labels-alike"]
    assert "'CAT' and 'Cat'" in note


def test_classes_of_boxes_are_mapped_before_images_get_theirs(pictures, tmp_path):
    options = ("--label-map", "Cat=cat,CAT=cat,lion=cat", "--balance", "oversample")
    made = of_classes(pictures, tmp_path, *options)
    assert (made.folder / "labels.txt").read_text() == "cat\ntree\n"
    assert {one["image/class/text"].item() for one in recordmill.read(made.folder)} == {
        b"cat",
        b"tree",
    }
    assert {name for one in classes_of(made) for name in one} == {"cat", "tree"}
    (note,) = [str(one) for one in made.manifest.notes if one.code == "unknown-class"]
    assert note.endswith("no box has an old class of --label-map: 'lion=cat'")


@pytest.mark.parametrize(
    "options",
    [
        ("--label-map", "tree="),
        ("--exclude-labels", "tree"),
        ("--fold-labels", "--include-labels", "cat"),
    ],
)
def test_boxes_of_some_classes_are_left_out(pictures, tmp_path, options):
    made = of_classes(pictures, tmp_path, *options)
    kept = classes_of(made)
    assert [[name.lower() for name in one] for one in kept] == [["cat"], ["cat"], []]
    objects = made.manifest.ledger.objects
    assert (objects.made, objects.written, objects.class_left_out) == (5, 2, 3)
    assert "tree" not in (made.folder / "labels.txt").read_text()


def test_images_without_a_box_left_are_dropped(pictures, tmp_path):
    made = of_classes(
        pictures,
        tmp_path,
        "--exclude-labels",
        "tree",
        "--without-boxes",
        "drop",
        "--boxes",
        "reject",
    )
    assert [len(one) for one in classes_of(made)] == [1, 1]
    assert made.manifest.ledger.inputs.filtered == 11


def test_a_class_that_no_box_has_is_an_error(pictures, tmp_path, capsys):
    with pytest.raises(AssertionError):
        of_classes(pictures, tmp_path, "--exclude-labels", "dog")
    told = capsys.readouterr().err
    assert (
        "--exclude-labels dog: no box has this class; the classes are 'CAT', 'Cat', 'tree'" in told
    )
