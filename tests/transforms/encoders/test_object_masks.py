"""Masks of objects, from polygons and run lengths of COCO, through the command line."""

import copy
import io
import json

import numpy as np
import pytest
from PIL import Image, ImageOps

from recordmill.errors import RecordError
from recordmill.pipelines.cli import main
from recordmill.transforms.imaging.affine import IDENTITY, Affine
from recordmill.transforms.imaging.object_masks import draw_object
from tests.image_runs import images, make
from tests.painted_masks import opened, painted, resized, shown_ids, turned_png, write
from tests.painted_objects import coco, compressed, drawn, enlarged, objects, run_lengths, star

pytestmark = pytest.mark.usefixtures("encoders")

MASKS = "image/object/mask"
SPLIT = ("--splits", "train=1")
SIZE = (300, 210)


@pytest.fixture(scope="module")
def turned(tmp_path_factory):
    """Images in every EXIF orientation, and annotations of the images as stored."""
    folder = tmp_path_factory.mktemp("turned")
    annotated = {}
    for orientation in range(1, 9):
        ids, annotations = objects(orientation, SIZE)
        write(folder, f"images/{orientation}.png", turned_png(painted(ids), orientation))
        annotated[f"{orientation}.png"] = (SIZE, annotations)
    (folder / "coco.json").write_text(json.dumps(coco(annotated)))
    return folder


def run(folder, output, *options):
    return make(
        output,
        *("--input", folder / "images", "--annotations", folder / "coco.json"),
        *("--instance-masks", *SPLIT, *options),
    )


def overlap(one, other):
    return (one & other).sum() / (one | other).sum()


@pytest.mark.parametrize("mode", ["none", "crop", "pad", "stretch", "fit"])
def test_masks_are_where_an_independent_transform_puts_them(mode, turned, tmp_path):
    size = (170, 190)
    options = ["--size", "170x190"] if mode != "none" else []
    made = run(turned, tmp_path / "out", "--box-frame", "stored", "--resize-mode", mode, *options)
    examples = made.examples()
    assert len(examples) == 8
    for (key, _), example in examples.items():
        orientation = int(key.removesuffix(".png"))
        large = turned_png(Image.fromarray(enlarged(orientation, SIZE, 4)), orientation)
        upright = np.asarray(ImageOps.exif_transpose(Image.open(io.BytesIO(large))))
        expected = resized(upright, size, mode, enlarged=4)
        assert example["image/object/class/text"] == [b"kind 1", b"kind 2", b"kind 3"]
        for number, content in enumerate(example[MASKS], 1):
            mask = opened(content)
            assert mask.dtype == np.uint8
            assert {*np.unique(mask).tolist()} == {0, 1}
            assert overlap(mask == 1, expected == number) >= 0.97
    feature = made.manifest.features[MASKS]
    sides = (None, None) if mode in ("none", "fit") else size
    assert (feature.kind, feature.shape, feature.raw_shape) == ("mask", (None,), (*sides, 1))
    assert main(["verify", "--quiet", "--dataset", str(tmp_path / "out"), "--deep"]) == 0


@pytest.mark.parametrize("mode", ["crop", "pad", "fit"])
def test_masks_cover_the_pixels_that_they_covered(mode, turned, tmp_path):
    made = run(
        turned,
        tmp_path / "out",
        *("--box-frame", "stored", "--size", "240x230", "--resize-mode", mode),
        *("--image-format", "png", "--background", "0,0,0"),
        *("--augment", "flip,crop,rotate", "--augment-all"),
    )
    count = 0
    for example in made.examples().values():
        shown = shown_ids(example["image/encoded"][0])
        for name, content in zip(example["image/object/class/text"], example[MASKS], strict=True):
            mask, seen = opened(content) == 1, shown == int(name[-1:])
            if seen.sum() > 400:
                assert overlap(mask, seen) >= 0.95
                count += 1
        assert len(example["image/object/bbox/xmin"]) == len(example[MASKS])
    assert count >= 20


def test_dropped_boxes_drop_their_masks(turned, tmp_path):
    options = ("--box-frame", "stored", "--size", "80x200", "--boxes", "drop")
    made = run(turned, tmp_path / "out", *options)
    examples = made.examples()
    assert made.manifest.ledger.objects.dropped > 0
    for example in examples.values():
        assert len(example[MASKS]) == len(example["image/object/class/label"])


@pytest.mark.parametrize("kept", [True, False])
def test_the_segmentation_may_be_left_out(kept, turned, tmp_path):
    options = ("--box-frame", "stored", *(() if kept else ("--no-segmentation",)))
    features = run(turned, tmp_path / "out", *options).manifest.features
    assert MASKS in features
    assert ("image/object/segmentation" in features) == kept
    assert ("image/object/segmentation/transform" in features) == kept


SQUARE = [10, 10, 60, 10, 60, 60, 10, 60]
WIDE, HIGH = SIZE
BAD = {
    "missing": (None, "object 2 has no segmentation"),
    "empty": ([], "object 2 has no segmentation"),
    "two points": ([[1, 1, 5, 5]], "at least three points"),
    "odd": ([[1, 1, 5, 5, 3, 9, 4]], "at least three points"),
    "texts": ([["1", "1", "5", "5", "3", "9"]], "at least three points"),
    "flat": (SQUARE, "at least three points"),
    "nulls": ([[1, 1, 5, 5, None, 9]], "at least three points"),
    "far": ([[1, 1, 5, 5, 1e300, 9]], "no place in an image"),
    "a number": (7, "has no segmentation"),
    "other size": ({"size": [WIDE, HIGH], "counts": [WIDE * HIGH]}, "expected [210, 300]"),
    "no size": ({"counts": [WIDE * HIGH]}, "expected [210, 300]"),
    "short": ({"size": [HIGH, WIDE], "counts": [5, 5]}, "has run lengths of 10 pixels"),
    "long": ({"size": [HIGH, WIDE], "counts": [5, 10**8]}, "expected 63000"),
    "negative": ({"size": [HIGH, WIDE], "counts": [-1, WIDE * HIGH + 1]}, "run lengths of 0"),
    "huge": ({"size": [HIGH, WIDE], "counts": [10**30]}, "run lengths of 0"),
    "floats": ({"size": [HIGH, WIDE], "counts": [1.5]}, "run lengths of 0"),
    "cut off": ({"size": [HIGH, WIDE], "counts": "nZZ"}, "cut off"),
    "no text": ({"size": [HIGH, WIDE], "counts": "\u20ac"}, "run lengths"),
    "no counts": ({"size": [HIGH, WIDE]}, "run lengths"),
}
FINE = {
    "outside": [[WIDE + 10, 5, WIDE + 20, 5, WIDE + 20, 50]],
    "across": [[-100, -100, 40, -100, 40, 40, -100, 40]],
    "self-intersecting": [[10, 10, 90, 90, 90, 10, 10, 90]],
    "of no area": [[10, 10, 50, 50, 90, 90]],
    "all": {"size": [HIGH, WIDE], "counts": [0, WIDE * HIGH]},
    "none": {"size": [HIGH, WIDE], "counts": [WIDE * HIGH]},
}


def test_bad_segmentations_reject_their_images(tmp_path):
    annotated = {}
    for name in (*BAD, *FINE):
        ids, annotations = objects(1, SIZE)
        write(tmp_path, f"images/{name}.png", turned_png(painted(ids), 1))
        annotations = copy.deepcopy(annotations)
        annotations[1]["segmentation"] = BAD[name][0] if name in BAD else FINE[name]
        annotated[f"{name}.png"] = (SIZE, annotations)
    (tmp_path / "coco.json").write_text(json.dumps(coco(annotated)))
    made = run(tmp_path, tmp_path / "out", "--max-reject-fraction", "0.9")
    lines = map(json.loads, (tmp_path / "out" / "rejects.jsonl").read_text().splitlines())
    found = {one["key"]: (one["reason"], one["detail"]) for one in lines}
    assert {*found} == {f"{name}.png" for name in BAD}
    for name, (_, message) in BAD.items():
        reason, detail = found[f"{name}.png"]
        assert reason == "bad_value"
        assert message in detail
    areas = {
        key.removesuffix(".png"): int(opened(example[MASKS][1]).sum())
        for (key, _), example in made.examples().items()
    }
    assert areas == {
        "outside": 0,
        "across": 1600,
        "self-intersecting": 3200,
        "of no area": 0,
        "all": WIDE * HIGH,
        "none": 0,
    }


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda one: one.pop("segmentation"), "no annotation has a 'segmentation'"),
        (lambda one: one.pop("bbox"), "--instance-masks"),
        (lambda one: one.update(image_id="1"), "its 'image_id' '1' is not the id of an image"),
        (lambda one: one.update(category_id=99), "its 'category_id' 99 is not the id of a"),
        (lambda one: one.update(bbox=[0.1, 0.2, 0.5, 0.5]), "no 'bbox' has a corner above 1"),
    ],
)
def test_annotations_without_masks(change, message, tmp_path, capfd):
    ids, annotations = objects(1, SIZE)
    write(tmp_path, "images/1.png", turned_png(painted(ids), 1))
    for one in annotations:
        change(one)
        one["caption"] = "a star"
    (tmp_path / "coco.json").write_text(json.dumps(coco({"1.png": (SIZE, annotations)})))
    arguments = ("--input", tmp_path / "images", "--annotations", tmp_path / "coco.json")
    assert images(*arguments, "--instance-masks", "--output", tmp_path / "out") != 0
    assert message in " ".join(capfd.readouterr().err.split())


def test_boxes_of_a_table_have_no_masks(tmp_path, capfd):
    write(tmp_path, "images/1.png", turned_png(painted(objects(1, SIZE)[0]), 1))
    (tmp_path / "boxes.csv").write_text("filename,class,xmin,ymin,xmax,ymax\n1.png,a,1,1,9,9\n")
    arguments = ("--input", tmp_path / "images", "--annotations", tmp_path / "boxes.csv")
    assert images(*arguments, "--instance-masks", "--output", tmp_path / "out") == 2
    assert "csv has none" in capfd.readouterr().err


def test_a_polygon_covers_the_pixels_whose_centres_it_holds():
    polygons = [[float(c) for c in star((40.3, 31.7), 25, turn)] for turn in (0.1, 0.7)]
    found = draw_object(json.dumps(polygons), IDENTITY, frame=(80, 60), size=(80, 60))
    assert overlap(found == 1, drawn(polygons, (80, 60))) >= 0.99
    square = json.dumps([[2, 3, 7, 3, 7, 9, 2, 9]])
    expected = np.zeros((12, 10), np.uint8)
    expected[3:9, 2:7] = 1
    np.testing.assert_array_equal(
        draw_object(square, IDENTITY, frame=(10, 12), size=(10, 12)), expected
    )
    halved = draw_object(square, Affine.scale(0.5, 0.5), frame=(10, 12), size=(5, 6))
    np.testing.assert_array_equal(halved, expected[1::2, 1::2])


@pytest.mark.parametrize("seed", range(5))
def test_run_lengths_are_read_as_written(seed):
    mask = np.random.default_rng(seed).random((13, 17)) < 0.5
    mask[0, 0] = seed % 2
    runs = run_lengths(mask)
    for counts in (runs, compressed(runs)):
        text = json.dumps({"size": [13, 17], "counts": counts})
        found = draw_object(text, IDENTITY, frame=(17, 13), size=(17, 13))
        np.testing.assert_array_equal(found, mask)


def test_a_polygon_of_many_points_takes_little_memory():
    zigzag = [c for n in range(20_000) for c in (n % 50, 0 if n % 2 else 400)]
    found = draw_object(json.dumps([zigzag]), IDENTITY, frame=(50, 400), size=(50, 400))
    assert found.shape == (400, 50)
    with pytest.raises(RecordError, match="no segmentation"):
        draw_object(None, IDENTITY, frame=(50, 400), size=(50, 400))


def test_bytes_do_not_depend_on_workers(turned, tmp_path):
    options = ("--input", turned / "images", "--annotations", turned / "coco.json")
    options = (*options, "--instance-masks", "--box-frame", "stored", "--size", "64")
    digests = set()
    for workers in (1, 2):
        command = ["images", "--quiet", *options, "--workers", workers, "--output"]
        assert main([*map(str, command), str(tmp_path / str(workers))]) == 0
        manifest = json.loads((tmp_path / str(workers) / "dataset.json").read_text())
        digests.add(manifest["digest"])
    assert len(digests) == 1
