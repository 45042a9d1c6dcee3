"""TFRecord files with boxes and masks as --input: annotations move with the pixels."""

import json
import pathlib

import numpy as np
import pytest
from PIL import Image

from recordmill.errors import RecordError
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.object_masks import decode_object_masks
from tests.image_runs import Made, images, make
from tests.painted_masks import opened, painted, png, shapes, write
from tests.painted_objects import coco, objects
from tests.tfrecord_inputs import Values, write_records

pytestmark = pytest.mark.usefixtures("encoders")

SIZE = (60, 40)
PNGS = ("--image-format", "png", "--num-shards", "1")
ONE = ("--splits", "train=1")
EXACT = ("image/encoded", "image/object/class/text", "image/object/class/label")


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """Images with annotated objects, but for the last, and with masks of classes."""
    place = tmp_path_factory.mktemp("in")
    annotated = {}
    for number in range(9):
        ids, found = objects(number, SIZE)
        write(place, f"images/{number}.png", png(painted(ids)))
        write(place, f"masks/{number}.png", png(Image.fromarray(shapes(number, SIZE))))
        annotated[f"{number}.png"] = (SIZE, found[number % 3 :] if number < 8 else [])
    (place / "coco.json").write_text(json.dumps(coco(annotated)))
    (place / "names.txt").write_text("none\nroad\ntree\ncar\n")
    return place


@pytest.fixture(scope="module")
def detection(photos: pathlib.Path, tmp_path_factory: pytest.TempPathFactory) -> Made:
    argv = ("--annotations", photos / "coco.json", "--instance-masks", *PNGS)
    argv += ("--balance", "oversample", "--feature-set", "tf-object-detection")
    out = tmp_path_factory.mktemp("detection") / "out"
    return make(out, "--input", photos / "images", *argv, "--label-offset", "1")


@pytest.mark.long
def test_a_detection_dataset_written_again_is_equal(detection, tmp_path) -> None:
    """The class of an image, its id, its segmentations and its masks are kept, too."""
    argv = ("--input", detection.folder, *PNGS, "--balance", "oversample", "--label-offset", "1")
    argv += ("--feature-set", "tf-object-detection")
    again = make(tmp_path / "out", *argv, "--workers", "2")
    assert again.manifest.digest == detection.manifest.digest
    assert again.manifest.ledger.inputs.filtered == detection.manifest.ledger.copies.written > 0
    assert again.manifest.labels == ("kind 1", "kind 2", "kind 3")
    assert {*again.manifest.features} > {"image/object/mask", "image/object/segmentation"}


def test_a_detection_dataset_is_resized_as_from_files(photos, detection, tmp_path) -> None:
    """Also after it was resized before: polygons are drawn from their original points."""
    options = (*PNGS, *ONE, "--size", "30", "--resize-mode", "pad")
    files = ("--input", photos / "images", "--annotations", photos / "coco.json")
    files += ("--label-offset", "1")
    expected = make(tmp_path / "files", *files, *options, "--instance-masks").examples()
    argv = ("--split-from", "none", *options, "--instance-masks")
    whole = make(tmp_path / "whole", "--input", detection.folder, *argv).examples()
    assert {key: one["image/encoded"] for key, one in whole.items()} == {
        key: one["image/encoded"] for key, one in expected.items()
    }
    for key, record in expected.items():
        for name, values in record.items():
            if name in (*EXACT, "image/object/is_crowd", "image/object/segmentation"):
                assert whole[key][name] == values
            elif name.startswith(("image/object/bbox", "image/object/area")):
                assert np.allclose(whole[key][name], values, rtol=1e-5)
            elif name == "image/object/mask":
                for mine, theirs in zip(whole[key][name], values, strict=True):
                    assert (opened(mine) != opened(theirs)).mean() < 0.005
    small = make(tmp_path / "small", "--input", detection.folder, *argv)
    again = make(tmp_path / "again", "--input", small.folder, *PNGS, "--size", "30")
    assert again.manifest.features == small.manifest.features
    assert again.examples() == small.examples()


def test_boxes_follow_options(detection, tmp_path) -> None:
    argv = ("--input", detection.folder, *PNGS, "--split-from", "none", *ONE, "--size", "20")
    found = make(tmp_path / "out", *argv, "--min-box", "9", "--without-boxes", "drop")
    record = next(iter(found.examples().values()))
    sides = [np.subtract(record[f"image/object/bbox/{s}max"], record[f"image/object/bbox/{s}min"])
             for s in "xy"]  # fmt: skip
    assert np.min(sides) * 20 >= 9
    assert len(record["image/object/mask"]) == len(sides[0])
    assert found.manifest.ledger.inputs.filtered > 0
    left = "image/object/segmentation,image/object/segmentation/transform,image/object/mask"
    bare = make(tmp_path / "bare", *argv, "--drop-columns", left)
    names = {*bare.manifest.features}
    assert "image/object/bbox/xmin" in names
    assert not names & {*left.split(",")}


def test_masks_of_classes(photos, tmp_path) -> None:
    files = ("--input", photos / "images", "--masks", photos / "masks")
    files += ("--mask-labels", photos / "names.txt", "--mask-depth", "16")
    first = make(tmp_path / "first", *files, *PNGS)
    again = make(tmp_path / "again", "--input", first.folder, *PNGS)
    assert again.manifest.digest == first.manifest.digest
    assert (
        again.manifest.files["segmentation_labels.txt"]
        == first.manifest.files["segmentation_labels.txt"]
    )
    options = (*PNGS, *ONE, "--size", "30", "--resize-mode", "pad", "--augment", "flip")
    options += ("--augment-all",)
    small = make(tmp_path / "small", *files, *options)
    moved = make(tmp_path / "moved", "--input", first.folder, "--split-from", "none", *options)
    assert moved.manifest.digest == small.manifest.digest


def test_renamed_features_and_parts_of_objects(photos, tmp_path, capsys) -> None:
    renames = ("image/object/bbox/xmin=x0", "image/encoded=img", "image/object/class/text=names")
    options = (*PNGS, *(part for one in renames for part in ("--rename", one)))
    files = ("--input", photos / "images", "--annotations", photos / "coco.json")
    first = make(tmp_path / "first", *files, *options)
    again = make(tmp_path / "again", "--input", first.folder, *options)
    assert again.manifest.digest == first.manifest.digest
    alone = ("--drop-columns", "image/object/segmentation/transform")
    assert images("--input", first.folder, "--output", tmp_path / "x", *PNGS, *alone) == 2
    assert "leave out image/object/segmentation, too" in capsys.readouterr().err


def test_masks_that_are_no_list_are_invalid() -> None:
    with pytest.raises(RecordError, match="the masks of its objects: the field at byte 2"):
        decode_object_masks(b"\x0a\x7fab", ImageOptions())


def record_of(number: int, **more: Values) -> dict[str, Values]:
    """A record of the Object Detection API, without names of classes."""
    ids, _ = objects(number, SIZE)
    return {
        "image/encoded": [png(painted(ids))],
        "image/source_id": [b"%d" % number],
        "image/object/bbox/xmin": [0.25, 0.5],
        "image/object/bbox/ymin": [0.25, 0.0],
        "image/object/bbox/xmax": [0.75, 1.0],
        "image/object/bbox/ymax": [0.75, 1.0],
        "image/object/class/label": [2, 10],
        "image/object/difficult": [0, 1],
        "image/object/weight": [0.5, 1.0],
        "image/object/mask": [png(Image.fromarray((ids == n).astype(np.uint8))) for n in (1, 2)],
        **{f"image/object/{name}": values for name, values in more.items()},
    }


def test_records_of_the_object_detection_api(tmp_path) -> None:
    """Also one without objects, and one whose features are in another order."""
    bare = {name: values for name, values in record_of(2).items() if "object" not in name}
    turned = dict(reversed(record_of(1).items()))
    path = write_records(tmp_path / "a.record", [record_of(0), bare, turned])
    found = make(tmp_path / "out", "--input", path, *PNGS, *ONE, "--size", "20")
    records = found.examples()
    assert found.manifest.labels == ("2", "10")  # by their numbers
    one = records["a.record#0", 0]
    assert one["image/source_id"] == [b"0"]
    # The middle 40 of 60 columns are left.
    assert np.allclose(one["image/object/bbox/xmin"], [0.125, 0.5])
    assert np.allclose(one["image/object/bbox/xmax"], [0.875, 1.0])
    assert one["image/object/class/text"] == [b"2", b"10"]
    assert one["image/object/difficult"] == [0, 1]
    assert one["image/object/weight"] == [0.5, 1.0]
    pixels = opened(one["image/encoded"][0])[..., 0] > 128  # the first object is red
    mask = opened(one["image/object/mask"][0]) > 0
    assert (pixels & mask).sum() / (pixels | mask).sum() > 0.8
    assert records["a.record#1", 0]["image/object/mask"] == []
    assert len(records["a.record#2", 0]["image/object/mask"]) == 2


def test_boxes_of_tfds(tmp_path) -> None:
    members = {"bbox": {"boundingBox": {"bboxFormat": "REL_YXYX"}}, "label": {"classLabel": {}},
               "area": {"tensor": {}}}  # fmt: skip
    sequence = {"sequence": {"feature": {"featuresDict": {"features": members}}}}
    features = {"image": {"image": {}}, "segmentation_mask": {"image": {}}, "objects": sequence}
    folder = tmp_path / "tfds"
    write(folder, "features.json", json.dumps({"featuresDict": {"features": features}}).encode())
    write(folder, "objects-label.labels.txt", b"owl\nelk\n")
    ids = shapes(1, SIZE)
    record = {
        "image": [png(painted(ids))],
        "objects/bbox": [0.125, 0.25, 0.5, 0.75, 0.0, 0.0, 1.0, 0.5],
        "objects/label": [1, 0],
        "objects/area": [7, 9],
        "segmentation_mask": [png(Image.fromarray(ids))],
    }
    write_records(folder / "x-train.tfrecord-00000-of-00001", [record, record])
    found = make(tmp_path / "out", "--input", folder, *PNGS)
    assert found.manifest.labels == ("owl", "elk")
    one = next(iter(found.examples().values()))
    assert one["image/object/bbox/xmin"] == [0.25, 0.0]
    assert one["image/object/bbox/ymax"] == [0.5, 1.0]
    assert one["image/object/class/text"] == [b"elk", b"owl"]
    assert one["image/object/area"] == [7, 9]
    assert (opened(one["image/segmentation/class/encoded"][0]) == ids).all()


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"difficult": [1]}, "'image/object/difficult': expected values for 2 boxes, got 1"),
        ({"bbox/xmin": [0.5]}, "expected values for 1 boxes, got 2"),
        ({"bbox/xmax": [3.0, 40.0]}, "box 0.25, 0.25, 3, 0.75: expected xmin, ymin, xmax, ymax as"),
        ({"bbox/xmin": [float("nan"), 0.5]}, "box nan, 0.25, 0.75, 0.75: expected xmin,"),
        ({"class/text": [b"", b"a"]}, "an object without a class"),
        ({"class/text": [b"a\nb", b"a"]}, "contains a line break"),
        ({"mask": [b"x", b"y"]}, "the mask of object 1: "),
        ({"mask": [png(Image.new("L", (3, 3)))] * 2}, "the mask of object 1 has 3x3 pixels, the"),
        ({"mask": [png(Image.new("L", SIZE))]}, "1 masks of 2 objects"),
        ({"mask": [1, 2]}, "feature 'image/object/mask': expected bytes, got numbers"),
    ],
)
def test_records_with_invalid_objects_are_rejected(more, why, tmp_path) -> None:
    valid = {name: [b"a", b"b"] for name in more if name == "class/text"}
    records = [record_of(0, **valid), record_of(1, **valid), record_of(2, **more)]
    path = write_records(tmp_path / "a.record", records)
    options = ("--max-reject-fraction", "0.5", *PNGS, *ONE)
    found = make(tmp_path / "out", "--input", path, *options)
    (reject,) = (json.loads(line) for line in (found.folder / "rejects.jsonl").open())
    assert why in reject["detail"]
    assert reject["key"] == "a.record#2"


def without(*names: str) -> dict[str, Values]:
    return {name: one for name, one in record_of(0).items() if name not in names}


@pytest.mark.parametrize(
    ("record", "options", "why"),
    [
        (without("image/object/bbox/ymax"), (), "have no feature 'image/object/bbox/ymax'"),
        (without("image/object/class/label"), (), "has boxes without classes: expected"),
        (
            record_of(0),
            ("--unannotated", "drop"),
            "--unannotated drop: applies only to files",
        ),
        (record_of(0), ("--mask-ignore", "0"), "--mask-ignore: has no effect without --masks"),
        (record_of(0), ("--label-column", "x"), "--label-column: cannot be combined with the"),
        (record_of(0) | {"image/segmentation/instance/encoded": [b"x"]}, (), "belong to the pix"),
        (
            {"image": [b"x"], "image/segmentation/class/encoded": [png(Image.new("L", SIZE, 255))]},
            (),
            "have only the levels 0 and 255",
        ),
        ({"image": [b"x"]}, ("--min-box", "3"), "--min-box: has no effect without --annotations"),
        ({"image": [b"x"]}, ("--instance-masks",), "--instance-masks: has no effect without"),
    ],
)
def test_unusable_objects(record, options, why, tmp_path, capsys) -> None:
    path = write_records(tmp_path / "a.record", [record])
    assert images("--input", path, "--output", tmp_path / "out", *options) == 2
    assert why in capsys.readouterr().err


def test_records_without_a_mask(tmp_path) -> None:
    ids = shapes(1, SIZE)
    image = {"image/encoded": [png(painted(ids))]}
    masked = image | {"image/segmentation/class/encoded": [png(Image.fromarray(ids))]}
    path = write_records(tmp_path / "a.record", [masked, image, masked])
    options = ("--input", path, *PNGS, *ONE)
    strict = make(tmp_path / "1", *options, "--max-reject-fraction", "0.5")
    assert strict.rejects == {"a.record#1": "unlabelled"}
    kept = make(tmp_path / "2", *options, "--unmasked", "keep").examples()
    assert not kept["a.record#1", 0].get("image/segmentation/class/encoded")
    dropped = make(tmp_path / "3", *options, "--unmasked", "drop").manifest.ledger
    assert (dropped.inputs.filtered, dropped.records.written) == (1, 2)
