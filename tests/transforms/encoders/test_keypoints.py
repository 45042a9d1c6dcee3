"""Keypoints follow the pixels, and change sides in mirrored images."""

import json

import numpy as np

from recordmill.transforms.encoders.keypoints import (
    KEYPOINT_FEATURES,
    PlacedKeypoints,
    keypoint_columns,
    place_keypoints,
)
from recordmill.transforms.imaging.affine import Affine

NAMES = ["nose", "left_eye", "Right_Eye", "left_ear"]
POINTS = [10, 20, 2, 30, 10, 1, 5, 5, 2, 0, 0, 0]


def place(transform, *, names=NAMES, mirrored=False):
    texts = (json.dumps([names, POINTS]), None)
    return place_keypoints(texts, transform, (80, 40), mirrored=mirrored)


def test_points_are_fractions_of_the_written_image():
    found = place(Affine.scale(2, 1))
    np.testing.assert_allclose(found.points * [80, 40], [[20, 20], [60, 10], [10, 5], [0, 0]])
    assert (found.visibility.tolist(), found.counts) == ([2, 1, 2, 0], [4, 0])


def test_points_outside_the_written_image_are_not_visible():
    found = place(Affine.shift(60, 0))
    assert found.visibility.tolist() == [2, 0, 2, 0]
    assert found.points[1].tolist() == [0, 0]


def test_points_change_sides_in_mirrored_images():
    names = ["nose", "left_eye", "right_eye", "left_ear"]
    found = place(Affine(a=-1, c=80), names=names, mirrored=True)
    np.testing.assert_allclose(found.points[:3] * [80, 40], [[70, 20], [75, 5], [50, 10]])
    assert found.visibility.tolist() == [2, 2, 1, 0]
    assert place(Affine(), names=NAMES, mirrored=True).visibility.tolist() == [2, 1, 2, 0]


def test_images_without_objects_have_empty_features():
    columns = keypoint_columns([PlacedKeypoints(), place(Affine()), PlacedKeypoints()])
    assert {name: [len(row) for row in values.to_pylist()] for name, values in columns.items()} == {
        name: [0, 2 if name.endswith("num") else 4, 0] for name in KEYPOINT_FEATURES
    }
