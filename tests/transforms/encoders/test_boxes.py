"""Boxes from annotations to the dataset, through the command line."""

import io
import json
import math
from collections import Counter

import numpy as np
import pytest
import tensorflow as tf
from PIL import Image

from recordmill.errors import RecordError
from recordmill.pipelines.cli import main
from recordmill.transforms.encoders.object_options import ObjectOptions
from recordmill.transforms.encoders.objects import annotation_transform, transform_boxes
from recordmill.transforms.imaging.affine import IDENTITY, exif_transform
from recordmill.transforms.imaging.augment import rotate
from recordmill.transforms.imaging.pixels import EncodedImage
from tests.box_masks import boxes_of, iou, mask, white
from tests.image_runs import images, make
from tests.paths import BOXES

pytestmark = pytest.mark.usefixtures("encoders")

SPLIT = ("--splits", "train=1")


def told(path):
    """{picture: (width, height, [its boxes as corners])} of a COCO file."""
    coco = json.loads(path.read_text())
    pictures = {one["id"]: one for one in coco["images"]}
    found = {one["file_name"]: (one["width"], one["height"], []) for one in pictures.values()}
    for one in coco["annotations"]:
        x, y, width, height = one["bbox"]
        boxes = found[pictures[one["image_id"]]["file_name"]][2]
        boxes.append((x, y, x + width, y + height))
    return found


def moved(box, width, height, size, mode):
    """A box after a resize, computed side by side; None if nothing is left of it."""
    target_height, target_width = size
    out = []
    across, down = target_width / width, target_height / height
    match mode:
        case "stretch":
            scales, edges, limits = (across, down), (0, 0), (target_width, target_height)
        case "crop":
            scale = max(across, down)
            scales = (scale, scale)
            edges = ((target_width - width * scale) / 2, (target_height - height * scale) / 2)
            limits = (target_width, target_height)
        case _:
            scale = min(across, down) if mode == "pad" else min(across, down, 1)
            inner = (round(width * scale), round(height * scale))
            scales = (inner[0] / width, inner[1] / height)
            limits = (target_width, target_height) if mode == "pad" else inner
            edges = tuple((a - b) // 2 for a, b in zip(limits, inner, strict=True))
    for axis in (0, 1):
        ends = (box[axis] * scales[axis] + edges[axis], box[axis + 2] * scales[axis] + edges[axis])
        out.append(tuple(min(max(end, 0), limits[axis]) for end in ends))
    (left, right), (top, bottom) = out
    return (left, top, right, bottom) if left < right and top < bottom else None


@pytest.mark.parametrize("mode", ["none", "crop", "pad", "stretch", "fit"])
def test_boxes_are_where_they_were(mode, tmp_path):
    size = (150, 220)
    options = ["--size", "150x220"] if mode != "none" else []
    made = make(
        tmp_path / "out",
        *("--input", BOXES, "--annotations", BOXES / "annotations.json", *SPLIT),
        *("--resize-mode", mode, *options),
    )
    examples = made.examples()
    assert len(examples) == 171
    expected = told(BOXES / "annotations.json")
    count = 0
    for (key, _), example in examples.items():
        width, height, boxes = expected[key.removeprefix("images/")]
        if mode != "none":
            boxes = [moved(box, width, height, size, mode) for box in boxes]
        boxes = [box for box in boxes if box is not None]
        found = boxes_of(example)
        assert len(found) == len(boxes)
        for one, other in zip(found, boxes, strict=True):
            assert iou(one, other) >= 0.97
        count += len(found)
    assert count < 915 if mode == "crop" else count == 915
    assert made.manifest.labels == ("circle", "rectangle", "triangle")
    assert main(["verify", "--quiet", "--dataset", str(tmp_path / "out"), "--deep"]) == 0


def pictures_of_boxes(folder, *, count=24, frame="stored"):
    """PNGs with a box each, of every orientation, and COCO's annotations of them."""
    generator = np.random.default_rng(3)
    folder.mkdir()
    coco = {"images": [], "annotations": [], "categories": [{"id": 7, "name": "white"}]}
    for number in range(count):
        turn = number % 8 + 1
        width, height = generator.integers(90, 160, size=2).tolist()
        left, top = (int(generator.uniform(0.1, 0.4) * side) for side in (width, height))
        right, bottom = (int(generator.uniform(0.7, 0.95) * side) for side in (width, height))
        box = (left, top, right, bottom)
        (folder / f"{number:02}.png").write_bytes(mask((width, height), box, turn=turn))
        if frame == "upright" and turn > 1:
            upright = Image.new("L", (width, height))
            upright.paste(255, box)
            upright = upright.transpose(_TRANSPOSED[turn])
            left, top, right, bottom = upright.getbbox()
            width, height = upright.size
        coco["images"].append(
            {"id": number, "file_name": f"{number:02}.png", "width": width, "height": height}
        )
        coco["annotations"].append(
            {"id": number, "image_id": number, "category_id": 7}
            | {"bbox": [left, top, right - left, bottom - top]}
        )
    path = folder.parent / f"{frame}.json"
    path.write_text(json.dumps(coco))
    return path


_TRANSPOSED = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


@pytest.mark.parametrize("frame", ["stored", "upright"])
@pytest.mark.parametrize("mode", ["crop", "pad", "stretch", "fit"])
@pytest.mark.parametrize("augment", ["", "flip", "flip,crop"])
def test_boxes_cover_the_pixels_they_covered(mode, augment, frame, tmp_path):
    path = pictures_of_boxes(tmp_path / "pictures", frame=frame)
    more = ["--augment", augment, "--augment-all"] if augment else []
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "pictures", "--annotations", path, *SPLIT, *more),
        *("--size", "100x130", "--resize-mode", mode, "--background", "0,0,0"),
        *("--image-format", "png", "--box-frame", frame),
    )
    examples = made.examples()
    assert len(examples) == 24
    for example in examples.values():
        (box,) = boxes_of(example)
        assert iou(box, white(example["image/encoded"][0])) >= 0.97


def turned(orientation, size):
    """An image of this size as stored, with an EXIF orientation."""
    source = width, height = size[::-1] if orientation >= 5 else size
    turn = exif_transform(orientation, size)
    return EncodedImage(
        data=b"",
        format="png",
        height=height,
        width=width,
        channels=3,
        source=source,
        to_upright=turn,
    )


@pytest.mark.parametrize(
    ("orientation", "size", "said", "frame"),
    [
        (1, (40, 20), (40, 20), "same"),
        (1, (40, 20), None, "same"),
        (3, (40, 20), (40, 20), None),
        (3, (40, 20), None, None),
        (6, (40, 20), (40, 20), "stored"),
        (6, (40, 20), (20, 40), "upright"),
        (6, (40, 20), None, None),
        (6, (30, 30), (30, 30), None),
        (8, (30, 30), None, None),
    ],
)
def test_which_picture_boxes_are_drawn_on_is_told_or_asked(orientation, size, said, frame):
    picture = turned(orientation, size)
    upright_, stored = (annotation_transform(picture, None, one) for one in ("upright", "stored"))
    if frame is None:
        with pytest.raises(
            RecordError, match=r"EXIF rotates the image, .*: choose one with --box-frame"
        ):
            annotation_transform(picture, said, "auto")
        assert annotation_transform(picture, said, "auto", has_boxes=False) == stored
    else:
        assert annotation_transform(picture, said, "auto") == (
            upright_ if frame == "upright" else stored
        )


def test_pictures_that_exif_turns_either_way_are_rejects(tmp_path):
    path = pictures_of_boxes(tmp_path / "pictures", count=8)
    coco = json.loads(path.read_text())
    coco["annotations"] = [one for one in coco["annotations"] if one["image_id"] != 3]
    path.write_text(json.dumps(coco))
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "pictures", "--annotations", path, *SPLIT),
        *("--size", 120, "--max-reject-fraction", 1),
    )
    assert made.rejects == dict.fromkeys(["01.png", "02.png"], "bad_value")


def test_a_box_around_one_that_was_rotated_holds_its_pixels(tmp_path):
    path = pictures_of_boxes(tmp_path / "pictures")
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "pictures", "--annotations", path, *SPLIT),
        *("--augment", "rotate", "--augment-all", "--size", 120, "--image-format", "png"),
        *("--box-frame", "stored"),
    )
    for example in made.examples().values():
        (box,) = boxes_of(example)
        assert iou(box, white(example["image/encoded"][0])) >= 0.9


@pytest.mark.parametrize("seed", [1, 2, 5])
@pytest.mark.parametrize(
    "box",
    [
        *[(0, 0, 150, 120), (250, 0, 400, 120), (0, 180, 160, 300), (240, 160, 400, 300)],
        *[(0, 0, 400, 90), (0, 190, 400, 300), (0, 0, 120, 300), (100, 0, 300, 100)],
        (0, 0, 400, 300),
    ],
)
def test_of_a_box_that_was_rotated_over_the_edge_what_is_seen_counts(box, seed):
    width, height = 400, 300
    with Image.open(io.BytesIO(mask((width, height), box))) as image:
        turned, varied = rotate(image, np.random.default_rng(seed))
    out = io.BytesIO()
    turned.save(out, "PNG")
    boxes = np.array([box], float)
    found = transform_boxes(boxes, IDENTITY, (width, height), ObjectOptions(), varied)
    (corners,) = found.corners * [width, height, width, height]
    assert iou(corners, white(out.getvalue())) >= 0.97
    seen = np.asarray(turned.convert("L")).astype(float).sum() / 255
    assert found.scales[0] * np.prod(boxes[0, 2:] - boxes[0, :2]) == pytest.approx(seen, rel=0.02)


def test_classes_come_as_often_as_repeat_factors_say(tmp_path):
    common = ("--input", BOXES, "--annotations", BOXES / "annotations.json", "--size", 32)
    common += ("--resize-mode", "stretch")
    made = make(
        tmp_path / "out",
        *(*common, "--splits", "train=0.8,test=0.2", "--seed", 3),
        *("--balance", "oversample", "--balance-target", "repeat:0.9"),
    )
    objects = {
        key: set(example["image/object/class/text"])
        for split in ("train", "test")
        for (key, _), example in made.examples(split).items()
    }
    held = Counter(name for classes in objects.values() for name in classes)
    assert len(objects) == 171
    rows = made.index("train")
    originals = {row["key"] for row in rows if row["copy"] == 0}
    assert 100 < len(originals) < 171
    rarest = {key: min(objects[key], key=held.__getitem__) for key in originals}
    in_train = Counter(name for key in originals for name in objects[key])
    for name, n in Counter(rarest.values()).items():
        factor = max(1, math.sqrt(0.9 / (in_train[name] / len(originals))))
        come = Counter(row["key"] for row in rows if rarest[row["key"]] == name)
        assert sum(come.values()) == math.floor(n * factor + 0.5)
        assert set(come.values()) <= {math.floor(factor), math.ceil(factor)}
    assert {row["label"] for row in rows} == {name.decode() for name in held}


def test_stratified_splits_hold_sets_of_classes_alike(tmp_path):
    made = make(
        tmp_path / "out",
        *("--input", BOXES, "--annotations", BOXES / "annotations.json", "--size", 32),
        *("--splits", "train=0.8,test=0.2", "--stratify", "--resize-mode", "stretch"),
    )
    counts = {
        split: Counter(
            frozenset(example["image/object/class/text"])
            for example in made.examples(split).values()
        )
        for split in ("train", "test")
    }
    both = counts["train"] + counts["test"]
    assert sum(both.values()) == 171
    for classes, n in both.items():
        if n >= 5:
            assert counts["test"][classes] == pytest.approx(n / 5, abs=1)
    assert not any(name.startswith("image/class") for name in made.manifest.features)


def test_bytes_do_not_depend_on_workers(tmp_path):
    digests = {
        make(
            tmp_path / str(workers),
            *("--input", BOXES, "--annotations", BOXES / "annotations.json", "--size", 40),
            *("--balance", "oversample", "--augment", "flip,crop,rotate", "--stratify"),
            *("--workers", workers, "--num-shards", "train=3"),
        ).manifest.digest
        for workers in (1, 2)
    }
    assert len(digests) == 1


@pytest.fixture(scope="module")
def captioned(tmp_path_factory):
    """A COCO file with boxes and, of each picture, a caption or two."""
    coco = json.loads((BOXES / "annotations.json").read_text())
    for one in coco["images"]:
        number = one["id"]
        captions = [f"picture {number}, é"] + ["another"] * (number % 2)
        coco["annotations"] += [{"image_id": number, "caption": caption} for caption in captions]
    path = tmp_path_factory.mktemp("captioned") / "instances.json"
    path.write_text(json.dumps(coco))
    return path


def test_the_example_of_the_tutorials(captioned, tmp_path):
    """image_raw, label, height, width, caption, boxes, with a spec written by hand."""
    renames = {
        "image/encoded": "image_raw",
        "image/class/label": "label",
        "image/height": "height",
        "image/width": "width",
        "image/caption": "caption",
        "image/object/bbox/xmin": "xmin",
        "image/object/bbox/ymin": "ymin",
        "image/object/bbox/xmax": "xmax",
        "image/object/bbox/ymax": "ymax",
    }
    flags = [flag for old, new in renames.items() for flag in ("--rename", f"{old}={new}")]
    made = make(
        tmp_path / "out",
        *("--input", BOXES, "--annotations", captioned, "--resize-mode", "none", *flags, *SPLIT),
        *("--image-class", "largest", "--captions", "first"),
    )
    spec = {
        "image_raw": tf.io.FixedLenFeature([], tf.string),
        "label": tf.io.FixedLenFeature([], tf.int64),
        "height": tf.io.FixedLenFeature([], tf.int64),
        "width": tf.io.FixedLenFeature([], tf.int64),
        "caption": tf.io.FixedLenFeature([], tf.string),
        "xmin": tf.io.VarLenFeature(tf.float32),
        "ymin": tf.io.VarLenFeature(tf.float32),
        "xmax": tf.io.VarLenFeature(tf.float32),
        "ymax": tf.io.VarLenFeature(tf.float32),
    }
    expected = told(BOXES / "annotations.json")
    captions = {
        one["file_name"]: f"picture {one['id']}, é".encode()
        for one in json.loads(captioned.read_text())["images"]
    }
    shards = [str(made.folder / one.file) for one in made.manifest.splits["train"].shards]
    keys = [row["key"].removeprefix("images/") for row in made.index("train")]
    boxes = 0
    for key, record in zip(keys, tf.data.TFRecordDataset(shards), strict=True):
        example = tf.io.parse_single_example(record, spec)
        width, height, told_boxes = expected[key]
        assert (example["width"].numpy(), example["height"].numpy()) == (width, height)
        assert tf.io.decode_jpeg(example["image_raw"]).shape == (height, width, 3)
        assert example["caption"].numpy() == captions[key]
        found = np.stack(
            [example[name].values.numpy() for name in ("xmin", "ymin", "xmax", "ymax")], axis=1
        )
        np.testing.assert_allclose(
            found * [width, height, width, height], told_boxes, atol=0.01, rtol=0
        )
        assert 0 <= example["label"].numpy() < 3
        boxes += len(found)
    assert boxes == 915


def test_captions_alone_leave_folders_their_meaning(captioned, tmp_path):
    coco = json.loads(captioned.read_text())
    coco["annotations"] = [one for one in coco["annotations"] if "caption" in one]
    del coco["categories"]
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(coco))
    folders = ("--annotations", path, "--resize-mode", "none", *SPLIT)
    made = make(tmp_path / "out", "--input", BOXES, *folders)
    captions = [example["image/caption"] for example in made.examples().values()]
    assert Counter(map(len, captions)) == {1: 86, 2: 85}
    assert not any("object" in name for name in made.manifest.features)
    assert made.manifest.labels == ("images",)
    assert {example["image/class/label"][0] for example in made.examples().values()} == {0}


def test_two_files_of_coco_are_read_as_one(captioned, tmp_path):
    coco = json.loads(captioned.read_text())
    coco["annotations"] = [one for one in coco["annotations"] if "caption" in one]
    del coco["categories"]
    for one in coco["images"]:
        one["id"] += 1000  # ids are those of the file
    for one in coco["annotations"]:
        one["image_id"] += 1000
    path = tmp_path / "captions.json"
    path.write_text(json.dumps(coco))
    together = ("--annotations", f"{BOXES / 'annotations.json'},{path}")
    common = ("--input", BOXES, "--size", 32, *SPLIT)
    one = make(tmp_path / "one", *common, "--annotations", captioned)
    two = make(tmp_path / "two", *common, *together)
    assert one.manifest.digest == two.manifest.digest


def some_pictures(folder, annotations, *, names="abc", more=()):
    """Pictures of 100x50 in a folder, and a COCO file beside it; annotations: (picture, bbox)."""
    folder.mkdir()
    for name in [*names, *more]:
        (folder / f"{name}.png").write_bytes(mask((100, 50), (10, 10, 20, 20)))
    coco = {
        "images": [
            {"id": n, "file_name": f"{name}.png", "width": 100, "height": 50}
            for n, name in enumerate("abc")
        ],
        "categories": [{"id": 1, "name": "cat"}, {"id": 5, "name": "dog"}],
        "annotations": [
            {"image_id": "abc".index(name), "category_id": 1, "bbox": box, "area": 20}
            for name, box in annotations
        ],
    }
    path = folder.parent / "coco.json"
    path.write_text(json.dumps(coco))
    return ("--input", folder, "--annotations", path, *SPLIT, "--max-reject-fraction", 1)


INSIDE, OVER, SMALL = [40, 10, 20, 20], [10, 10, 30, 20], [50, 20, 4, 8]
CROP = ("--size", 50)  # of 100x50 the middle, 25 to 75


@pytest.mark.parametrize(
    ("options", "kept"),
    [
        ([], [2, 1, 1]),
        (["--boxes", "clip"], [2, 1, 1]),
        (["--boxes", "drop"], [1, 0, 1]),
        (["--boxes", "reject"], [None, None, 1]),
        (["--min-box", 4], [2, 1, 1]),
        (["--min-box", 5], [2, 1, 0]),
        (["--min-box", 5, "--without-boxes", "drop"], [2, 1, None]),
        (["--min-box", 5, "--boxes", "reject"], [None, None, None]),
        (["--min-box", 16], [1, 0, 0]),
        (["--boxes", "drop", "--without-boxes", "drop"], [1, None, 1]),
    ],
)
def test_what_becomes_of_boxes(options, kept, tmp_path):
    boxes = [("a", INSIDE), ("a", OVER), ("b", OVER), ("c", SMALL)]
    pictures = some_pictures(tmp_path / "in", boxes)
    if not any(kept):
        assert images(*pictures, *CROP, *options, "--output", tmp_path / "out") == 1
        return
    made = make(tmp_path / "out", *pictures, *CROP, *options)
    found = {key[0]: example for (key, _), example in made.examples().items()}
    counts = {key: len(one["image/object/bbox/xmin"]) for key, one in found.items()}
    assert counts == {key: n for key, n in zip("abc", kept, strict=True) if n is not None}
    rejected = [key for key, n in zip("abc", kept, strict=True) if n is None]
    if "reject" in options:
        assert made.rejects == {f"{key}.png": "bad_value" for key in rejected}
    else:
        assert made.manifest.ledger.records.filtered == len(rejected)
    if counts.get("b"):
        (box,) = boxes_of(found["b"])
        np.testing.assert_allclose(box, [0, 10, 15, 30], atol=1e-4)
        assert found["b"]["image/object/area"] == pytest.approx([10])  # the half of it is left


@pytest.mark.parametrize(
    "options", [("--augment", "rotate"), ("--augment", "crop,flip", "--min-box", 13)]
)
def test_what_variation_pushes_out_rejects_no_picture(options, tmp_path):
    boxes = [(name, [0, 0, 100, 14]) for name in "abc"] + [("c", [90, 0, 30, 14])]
    pictures = some_pictures(tmp_path / "in", boxes)
    made = make(
        *(tmp_path / "out", *pictures, "--boxes", "reject", *options),
        *("--size", "50x100", "--balance", "oversample"),
        *("--balance-target", 20, "--image-class", "largest"),
    )
    assert made.rejects == {"c.png": "bad_value"}
    counts = {at: len(boxes_of(example)) for at, example in made.examples().items()}
    assert {counts["a.png", 0], counts["b.png", 0]} == {1}
    assert len(counts) > 10
    if "--min-box" in options:
        assert set(counts.values()) == {0, 1}


@pytest.mark.parametrize("box", [[40, 10, 1e-9, 20], [40, 10, 20, 1e-9], [40, 10, 0, 20]])
def test_a_box_of_which_nothing_is_left_as_it_is_written_goes(box, tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", box), ("a", INSIDE), ("b", [0, 0, 1e-9, 9])])
    made = make(tmp_path / "out", *pictures)
    counts = {key: len(boxes_of(example)) for (key, _), example in made.examples().items()}
    assert counts == {"a.png": 1, "b.png": 1, "c.png": 0}  # next to 0 there is room
    made = make(tmp_path / "other", *pictures, "--boxes", "reject")
    assert made.rejects == {"a.png": "bad_value"}
    assert "box 0 has no area in" in (tmp_path / "other" / "rejects.jsonl").read_text()


def test_pictures_without_boxes_are_kept_or_dropped(tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE)])
    kept = make(tmp_path / "kept", *pictures)
    assert [
        len(example["image/object/class/label"]) for _, example in sorted(kept.examples().items())
    ] == [1, 0, 0]
    dropped = make(tmp_path / "dropped", *pictures, "--without-boxes", "drop")
    assert dropped.keys("train") == {"a.png"}
    assert dropped.manifest.ledger.inputs.filtered == 2


@pytest.mark.parametrize("choice", ["reject", "keep", "drop"])
def test_pictures_without_annotations_are_counted_and_named(choice, tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE)], more="xy")
    made = make(tmp_path / "out", *pictures, "--unannotated", choice)
    strange = {"x.png", "y.png"}
    assert made.keys("train") - strange == {"a.png", "b.png", "c.png"}
    assert (made.keys("train") >= strange) == (choice == "keep")
    if choice == "reject":
        assert made.rejects == dict.fromkeys(strange, "unlabelled")
        assert made.manifest.notes == ()
    else:
        became = "have no boxes" if choice == "keep" else "were dropped"
        told = f"2 images without annotations in coco.json {became}: 'x.png', 'y.png'"
        assert made.manifest.notes == (told,)
    assert made.manifest.ledger.inputs.filtered == (2 if choice == "drop" else 0)


def test_annotations_without_pictures_are_counted_and_named(tmp_path):
    made = make(tmp_path / "out", *some_pictures(tmp_path / "in", [("c", INSIDE)], names="ab"))
    assert made.rejects == {"c.png": "missing"}
    assert (
        "but no image has a path that ends with this" in (made.folder / "rejects.jsonl").read_text()
    )
    assert made.manifest.ledger.inputs.rejected == 1


def test_a_picture_of_another_size_is_a_reject(tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE), ("b", INSIDE)])
    (tmp_path / "in" / "b.png").write_bytes(mask((90, 50), (1, 1, 2, 2)))
    made = make(tmp_path / "out", *pictures)
    assert made.rejects == {"b.png": "bad_value"}
    (line,) = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
    why = "the annotations are for 100x50 pixels, the image has 90x50"
    assert json.loads(line)["detail"] == why


@pytest.mark.parametrize("lost", [None, "a.png", "more/a.png"])
def test_pictures_with_the_same_annotations_are_rejects(lost, tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE)])
    (tmp_path / "in" / "more").mkdir()
    (tmp_path / "in" / "more" / "a.png").write_bytes(mask((100, 50), (1, 1, 2, 2)))
    if lost is not None:  # one of them is a reject already
        (tmp_path / "in" / lost).unlink()
        (tmp_path / "in" / lost).symlink_to("nowhere")
    made = make(tmp_path / "out", *pictures)
    assert made.keys("train") == {"b.png", "c.png"}
    assert {*made.rejects} == {"a.png", "more/a.png"}
    lines = map(json.loads, (tmp_path / "out" / "rejects.jsonl").read_text().splitlines())
    details = [line["detail"] for line in lines if line["key"] != lost]
    assert details == [
        "'a.png' matches two images, 'a.png' and 'more/a.png', which is ambiguous: write a longer"
        " part of the path in the annotations, or remove one of the two from the input"
    ] * len(details)
    assert details


def test_annotations_of_a_stem_that_fit_two_pictures_are_refused(tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for name in ("two.jpg", "two.png"):
        (tmp_path / "in" / name).write_bytes(mask((100, 50), (1, 1, 2, 2)))
    (tmp_path / "boxes").mkdir()
    (tmp_path / "boxes" / "two.txt").write_text("0 .5 .5 .1 .1")
    (tmp_path / "boxes" / "classes.txt").write_text("cat")
    places = ("--input", tmp_path / "in", "--annotations", tmp_path / "boxes")
    assert images(*places, "--output", tmp_path / "out") == 2
    message = " ".join(capsys.readouterr().err.split())
    assert "boxes: 'two' matches two images, 'two.jpg' and 'two.png', which is ambiguous" in message


def test_a_picture_that_is_listed_twice_has_its_annotations_twice(tmp_path):
    _, _, *more = some_pictures(tmp_path / "in", [("a", INSIDE), ("b", INSIDE), ("c", INSIDE)])
    (tmp_path / "in" / "c.png").unlink()
    rows = ["1,a.png", "2,./a.png", "3,b.png", "c.png,c.png", "5,c.png"]
    (tmp_path / "in" / "list.csv").write_text("\n".join(["name,path", *rows]))
    listing = ("--input", tmp_path / "in" / "list.csv", "--key-column", "name")
    made = make(tmp_path / "out", *listing, *more)
    boxes = {key: len(boxes_of(example)) for (key, _), example in made.examples().items()}
    assert boxes == {"1": 1, "2": 1, "3": 1}
    assert made.rejects["5"] == "missing"


def test_what_was_made_of_the_annotations_is_noted(tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE)])
    coco = json.loads((tmp_path / "coco.json").read_text())
    coco["categories"].append({"id": 9, "name": "cat"})
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    (note,) = make(tmp_path / "out", *pictures).manifest.notes
    assert note.startswith("coco.json: the categories 1, 9 share the name 'cat': they")


def test_a_labels_file_names_the_classes_there_may_be(tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE)])
    (tmp_path / "names").write_text("bird\ncat\n")
    flags = ("--labels-file", tmp_path / "names", "--label-offset", 1)
    made = make(tmp_path / "out", *pictures, *flags)
    assert made.manifest.labels == ("bird", "cat")
    assert made.examples()["a.png", 0]["image/object/class/label"] == [2]
    (tmp_path / "names").write_text("bird\n")
    made = make(tmp_path / "other", *pictures, *flags)
    assert made.rejects == {"a.png": "bad_value"}


def test_the_transform_takes_polygons_to_the_picture(tmp_path):
    pictures = some_pictures(tmp_path / "in", [("a", INSIDE)])
    coco = json.loads((tmp_path / "coco.json").read_text())
    coco["annotations"][0]["segmentation"] = [[40, 10, 60, 10, 60, 30]]
    (tmp_path / "coco.json").write_text(json.dumps(coco))
    made = make(tmp_path / "out", *pictures, *CROP)
    example = made.examples()["a.png", 0]
    (given,) = json.loads(example["image/object/segmentation"][0])
    a, b, c, d, e, f = example["image/object/segmentation/transform"]
    moved = [
        (a * x + b * y + c, d * x + e * y + f) for x, y in zip(*[iter(given)] * 2, strict=True)
    ]
    np.testing.assert_allclose(moved, [(15, 10), (35, 10), (35, 30)], atol=1e-4)
    made = make(tmp_path / "other", *pictures, *CROP, "--segmentation=false")
    assert "image/object/segmentation" not in made.manifest.features


def test_tfds_reads_boxes_as_sequences(tmp_path):
    import tensorflow_datasets as tfds

    pictures = some_pictures(tmp_path / "in", [("a", INSIDE), ("a", SMALL), ("b", OVER)])
    make(tmp_path / "out", *pictures)
    dataset = tfds.builder_from_directory(str(tmp_path / "out")).as_dataset(split="train")
    found = {
        one["image/filename"].numpy().decode(): one["image/object/bbox/xmax"].numpy().tolist()
        for one in dataset
    }
    assert found["a.png"] == pytest.approx([0.6, 0.54])
    assert found["b.png"] == pytest.approx([0.4])
    assert found["c.png"] == []
