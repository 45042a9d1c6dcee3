"""Decoders of TensorFlow Model Garden (official/vision) read datasets of images and boxes."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf
from official.vision.dataloaders import (
    classification_input,
    retinanet_input,
    tf_example_decoder,
    tf_example_label_map_decoder,
)

from tests.image_runs import Made, make
from tests.paths import BOXES, DEMO
from tests.targets.conftest import FOR_DECODERS, records

CORNERS = [f"image/object/bbox/{edge}" for edge in ("ymin", "xmin", "ymax", "xmax")]


@pytest.fixture(params=["coco", "voc"])
def made(request) -> Made:
    return request.getfixturevalue(request.param)


def test_the_detection_decoder(made):
    decoder = tf_example_decoder.TfExampleDecoder()
    boxes = 0
    for stored, ours in records(made):
        theirs = {name: value.numpy() for name, value in decoder.decode(stored).items()}
        [encoded] = ours["image/encoded"]
        pixels = tf.io.decode_image(encoded, channels=3).numpy()
        assert np.array_equal(theirs["image"], pixels)
        assert [theirs["height"], theirs["width"]] == list(pixels.shape[:2])
        corners = np.array([ours[name] for name in CORNERS], np.float32).T
        assert np.array_equal(theirs["groundtruth_boxes"], corners)
        assert theirs["groundtruth_classes"].tolist() == ours["image/object/class/label"]
        crowds = ours.get("image/object/is_crowd", [0] * len(corners))
        assert theirs["groundtruth_is_crowd"].tolist() == [bool(one) for one in crowds]
        sides = corners[:, 2:] - corners[:, :2]
        areas = ours.get("image/object/area", np.prod(sides, axis=1) * pixels[..., 0].size)
        assert np.allclose(theirs["groundtruth_area"], areas)
        assert theirs["source_id"] == ours["image/source_id"][0]
        boxes += len(corners)
    assert boxes > 0


def test_source_ids_are_those_of_coco(coco):
    images = json.loads((BOXES / "annotations.json").read_text())["images"]
    ids = {one["file_name"].rpartition("/")[2]: str(one["id"]).encode() for one in images}
    for _, ours in records(coco):
        name = ours["image/filename"][0].decode().rpartition("/")[2]
        assert ours["image/source_id"] == [ids[name]]


def test_the_decoder_by_names_of_classes(made, tmp_path):
    labels = (made.folder / "labels.txt").read_text().splitlines()
    with (tmp_path / "labels.csv").open("w") as file:
        csv.writer(file).writerows(enumerate(labels, start=1))
    decoder = tf_example_label_map_decoder.TfExampleDecoderLabelMap(str(tmp_path / "labels.csv"))
    for stored, ours in records(made):
        classes = decoder.decode(stored)["groundtruth_classes"].numpy()
        assert classes.tolist() == ours["image/object/class/label"]


def test_retinanet_evaluates(made):
    """Its parser needs numbers in image/source_id."""
    decode = tf_example_decoder.TfExampleDecoder().decode
    parser = retinanet_input.Parser(
        *([128, 128], 3, 5, 1, [1.0], 3.0), max_num_instances=20, dtype="float32"
    ).parse_fn(is_training=False)
    for stored, ours in records(made)[:3]:
        image, labels = parser(decode(stored))
        assert image.shape == (128, 128, 3)
        found = labels["groundtruths"]
        assert found["source_id"] == int(ours["image/source_id"][0])
        count = len(ours["image/object/class/label"])
        assert found["classes"].numpy().tolist()[:count] == ours["image/object/class/label"]
        size = np.array([found["height"], found["width"]] * 2)
        corners = np.array([ours[name] for name in CORNERS]).T * size
        assert np.allclose(found["boxes"].numpy()[:count], corners, atol=1e-4)


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> Made:
    folder = tmp_path_factory.mktemp("photos") / "out"
    return make(folder, "--input", DEMO, "--size", 48, "--limit", 20, *FOR_DECODERS)


def test_the_classification_decoder_and_parser(photos):
    decoder = classification_input.Decoder()
    parser = classification_input.Parser(output_size=[32, 32], num_classes=11)
    parse = parser.parse_fn(is_training=False)
    for stored, ours in records(photos):
        decoded = decoder.decode(stored)
        assert [decoded["image/class/label"]] == ours["image/class/label"]
        image, label = parse(decoded)
        assert image.shape == (32, 32, 3)
        assert [label] == ours["image/class/label"]


def test_several_classes_of_an_image(tmp_path):
    files = sorted(DEMO.rglob("*.jpg"))[:6]
    lines = [f"{path},{'|'.join('abc'[: number % 3 + 1])}" for number, path in enumerate(files)]
    (tmp_path / "list.csv").write_text("\n".join(["path,label", *lines]))
    made = make(
        tmp_path / "out",
        *("--input", tmp_path / "list.csv", "--label-separator", "|", "--size", 48),
        *("--splits", "train=1", *FOR_DECODERS),
    )
    decoder = classification_input.Decoder(is_multilabel=True)
    parse = classification_input.Parser(
        output_size=[32, 32], num_classes=4, is_multilabel=True
    ).parse_fn(is_training=False)
    for stored, ours in records(made):
        _, label = parse(decoder.decode(stored))
        assert np.flatnonzero(label).tolist() == ours["image/class/label"]
