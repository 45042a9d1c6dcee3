"""The decoder of the TensorFlow Object Detection API reads boxes, and label_map.pbtxt."""

import hashlib

import numpy as np
import pytest
import tensorflow as tf
from object_detection.data_decoders.tf_example_decoder import TfExampleDecoder
from object_detection.utils import label_map_util

from tests.image_runs import Made
from tests.targets.conftest import NAMES, records


@pytest.fixture(params=["coco", "voc"])
def made(request) -> Made:
    return request.getfixturevalue(request.param)


@pytest.mark.parametrize("by_name", [False, True])
def test_the_decoder(made, by_name):
    decoder = TfExampleDecoder(
        label_map_proto_file=str(made.folder / "label_map.pbtxt") if by_name else None
    )
    boxes = 0
    for stored, ours in records(made):
        theirs = {name: value.numpy() for name, value in decoder.decode(stored).items()}
        [encoded] = ours["image/encoded"]
        assert np.array_equal(theirs["image"], tf.io.decode_image(encoded, channels=3))
        assert theirs["filename"] == ours["image/filename"][0]
        assert theirs["source_id"] == ours["image/source_id"][0]
        assert theirs["key"].decode() == hashlib.sha256(encoded).hexdigest()
        corners = [ours[f"image/object/bbox/{edge}"] for edge in ("ymin", "xmin", "ymax", "xmax")]
        assert np.array_equal(theirs["groundtruth_boxes"], np.array(corners, np.float32).T)
        assert theirs["groundtruth_classes"].tolist() == ours["image/object/class/label"]
        for field in ("difficult", "area", "is_crowd"):
            given = ours.get(f"image/object/{field}", [])
            assert np.allclose(theirs[f"groundtruth_{field}"], given)
        assert theirs["groundtruth_weights"].tolist() == [1] * len(corners[0])
        boxes += len(corners[0])
    assert boxes > 0


def test_label_map(made):
    labels = (made.folder / "labels.txt").read_text().splitlines()
    numbers = {label: number for number, label in enumerate(labels, start=1)}
    path = str(made.folder / "label_map.pbtxt")
    for display in (False, True):
        assert label_map_util.get_label_map_dict(path, use_display_name=display) == numbers
    categories = label_map_util.create_categories_from_labelmap(path)
    assert categories == [{"id": number, "name": label} for label, number in numbers.items()]


def test_label_map_of_odd_names(voc):
    found = label_map_util.get_label_map_dict(str(voc.folder / "label_map.pbtxt"))
    assert set(found) == set(NAMES)
