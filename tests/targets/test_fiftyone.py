"""FiftyOne's parsers of TFRecords read datasets of images and boxes."""

import re

import fiftyone.utils.tf as fouft
import numpy as np
import pytest
import tensorflow as tf

from tests.image_runs import Made, make
from tests.paths import DEMO, ROOT
from tests.targets.conftest import records, shard_pattern


@pytest.fixture(params=["coco", "voc"])
def made(request) -> Made:
    return request.getfixturevalue(request.param)


def test_boxes(made):
    parser = fouft.TFObjectDetectionSampleParser()
    expected = dict(records(made))
    for record in fouft.from_tf_records(shard_pattern(made.folder)):
        ours = expected.pop(record.numpy())
        parser.with_sample(record)
        [encoded] = ours["image/encoded"]
        assert np.array_equal(parser.get_image(), tf.io.decode_image(encoded))
        metadata = parser.get_image_metadata()
        assert [metadata.width, metadata.height] == ours["image/width"] + ours["image/height"]
        assert metadata.mime_type == f"image/{ours['image/format'][0].decode()}"
        found = parser.get_label().detections
        assert [one.label.encode() for one in found] == ours["image/object/class/text"]
        left, top, right, bottom = (
            np.array(ours[f"image/object/bbox/{edge}"], np.float32)
            for edge in ("xmin", "ymin", "xmax", "ymax")
        )
        boxes = np.array([one.bounding_box for one in found]).reshape(-1, 4)
        assert np.array_equal(boxes, np.stack([left, top, right - left, bottom - top], axis=1))
    assert not expected


def test_classes_with_renamed_features(tmp_path):
    page = (ROOT / "docs" / "other-programs.md").read_text()
    renames = re.findall(r"--rename \S+", page)
    assert len(renames) == 7
    made = make(
        tmp_path / "out", "--input", DEMO, "--size", 32, "--limit", 20, *" ".join(renames).split()
    )
    parser = fouft.TFImageClassificationSampleParser()
    expected = dict(records(made))
    for record in fouft.from_tf_records(shard_pattern(made.folder)):
        ours = expected.pop(record.numpy())
        parser.with_sample(record)
        assert parser.get_image().shape == (32, 32, 3)
        assert parser.get_image_metadata().num_channels == 3
        assert parser.get_label().label.encode() == ours["label"][0]
    assert not expected


def test_its_importer_takes_the_shards_of_a_folder(made):
    importer = fouft.TFObjectDetectionDatasetImporter(
        dataset_dir=str(made.folder), images_dir=str(made.folder)
    )
    found = fouft.from_tf_records(importer.tf_records_path)
    assert sum(1 for _ in found) == len(records(made))
