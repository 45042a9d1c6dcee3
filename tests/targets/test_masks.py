"""Decoders of Model Garden and of the Object Detection API read masks of objects and of classes."""

import json

import numpy as np
import pytest
from object_detection.data_decoders.tf_example_decoder import TfExampleDecoder
from object_detection.protos import input_reader_pb2
from official.vision.dataloaders import maskrcnn_input, segmentation_input, tf_example_decoder
from PIL import Image

from tests.image_runs import Made, make
from tests.painted_masks import IGNORE, opened, painted, png, shapes, write
from tests.painted_objects import coco, objects
from tests.targets.conftest import FOR_DECODERS, records

SIZE = (60, 40)


@pytest.fixture(scope="module")
def instances(tmp_path_factory) -> Made:
    """Masks of three objects in each image; the last image has none."""
    place = tmp_path_factory.mktemp("instances")
    annotated = {}
    for number in range(3):
        ids, annotations = objects(number, SIZE)
        write(place, f"images/{number}.png", png(painted(ids)))
        annotated[f"{number}.png"] = (SIZE, annotations if number < 2 else [])
    (place / "coco.json").write_text(json.dumps(coco(annotated)))
    return make(
        place / "out",
        *("--input", place / "images", "--annotations", place / "coco.json", "--instance-masks"),
        *("--splits", "train=1", "--size", 48, "--resize-mode", "pad", *FOR_DECODERS),
    )


def masks_of(ours: dict[str, list]) -> np.ndarray:
    """Return the masks of a record: float32[objects, height, width]."""
    drawn = [opened(content) for content in ours["image/object/mask"]]
    return np.array(drawn, np.float32).reshape(-1, 48, 48)


def test_model_garden(instances):
    decoder = tf_example_decoder.TfExampleDecoder(include_mask=True)
    parser = maskrcnn_input.Parser(
        *([64, 64], 3, 4, 1, [1.0], 3.0), include_mask=True, dtype="float32"
    ).parse_fn(is_training=True)
    found = 0
    for stored, ours in records(instances):
        decoded = decoder.decode(stored)
        masks = masks_of(ours)
        assert np.array_equal(decoded["groundtruth_instance_masks"], masks)
        _, labels = parser(decoded)
        drawn = labels["gt_masks"].numpy().max(axis=(1, 2)) > 0.5
        assert drawn.sum() == ours["image/object/is_crowd"].count(0)  # crowds are left out
        found += len(masks)
    assert found == 6


def test_object_detection_api(instances):
    decoder = TfExampleDecoder(
        load_instance_masks=True, instance_mask_type=input_reader_pb2.PNG_MASKS
    )
    for stored, ours in records(instances):
        theirs = decoder.decode(stored)
        assert np.array_equal(theirs["groundtruth_instance_masks"], masks_of(ours))
        assert theirs["groundtruth_instance_mask_weights"].shape == len(masks_of(ours))


def test_segmentation(tmp_path):
    for number in range(4):
        ids = shapes(number, SIZE)
        write(tmp_path, f"images/{number}.png", png(painted(ids)))
        write(tmp_path, f"masks/{number}.png", png(Image.fromarray(ids)))
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "images", "--masks", tmp_path / "masks", "--splits", "train=1"),
        *("--size", 48, "--resize-mode", "pad"),
    )
    decoder = segmentation_input.Decoder()
    parser = segmentation_input.Parser(
        output_size=[48, 48], ignore_label=IGNORE, preserve_aspect_ratio=True
    ).parse_fn(is_training=False)
    for stored, ours in records(made):
        _, labels = parser(decoder.decode(stored))
        ids = opened(ours["image/segmentation/class/encoded"][0])
        assert {0, 1, IGNORE} <= {*np.unique(ids)}
        assert np.array_equal(labels["masks"][..., 0], ids)
        assert np.array_equal(labels["valid_masks"][..., 0], ids != IGNORE)
