"""Boxes from annotations to the dataset, through the command line."""

import json

import numpy as np
import pytest
from PIL import Image

from pipelines.cli import main
from tests.box_masks import boxes_of, iou, mask, white
from tests.image_runs import encoders_kept, make

SPLIT = ("--splits", "train=1")


@pytest.fixture(scope="module", autouse=True)
def encoders():
    with encoders_kept():
        yield


@pytest.fixture(scope="module")
def faces(shared_data):
    return shared_data / "facemask_coco"


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
    """What a resize makes of a box, worked out side by side; None where nothing is left of it."""
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
def test_boxes_are_where_they_were(mode, faces, tmp_path):
    size = (150, 220)
    options = ["--size", "150x220"] if mode != "none" else []
    made = make(
        tmp_path / "out",
        *("--input", faces, "--annotations", faces / "custom_val.json", *SPLIT),
        *("--resize-mode", mode, *options),
    )
    examples = made.examples()
    assert len(examples) == 171
    expected = told(faces / "custom_val.json")
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
    assert made.manifest.labels == ("mask_weared_incorrect", "with_mask", "without_mask")
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


def test_a_box_around_one_that_was_rotated_holds_its_pixels(tmp_path):
    path = pictures_of_boxes(tmp_path / "pictures")
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "pictures", "--annotations", path, *SPLIT),
        *("--augment", "rotate", "--augment-all", "--size", 120, "--image-format", "png"),
    )
    for example in made.examples().values():
        (box,) = boxes_of(example)
        assert iou(box, white(example["image/encoded"][0])) >= 0.9
