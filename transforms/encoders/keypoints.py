"""Keypoints of objects as features, transformed with the pixels, as boxes are.

The features have the names of the TensorFlow Object Detection API.

Source: https://github.com/tensorflow/models/blob/master/research/object_detection/dataset_tools/
create_coco_tf_record.py
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import orjson
import pyarrow as pa

from recordmill.tfrecord.features import Feature
from recordmill.transforms.imaging.affine import Affine, Floats
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.model.ragged import list_array

_SLACK = 0.5  # pixels by which a point may be outside, as for boxes
_PREFIX = "image/object/keypoint/"
_ANY: tuple[int | None, ...] = (None,)
KEYPOINT_FEATURES: Mapping[str, Feature] = {
    f"{_PREFIX}x": Feature(dtype="float32", shape=_ANY),
    f"{_PREFIX}y": Feature(dtype="float32", shape=_ANY),
    f"{_PREFIX}visibility": Feature(dtype="int64", shape=_ANY),
    f"{_PREFIX}text": Feature(dtype="string", shape=_ANY, kind="text"),
    f"{_PREFIX}num": Feature(dtype="int64", shape=_ANY),
}
_SIDE = re.compile(r"left|right", re.IGNORECASE)
_OTHER_SIDE = {"left": "right", "right": "left"}


class PlacedKeypoints(NamedTuple):
    """Keypoints of the objects of an image, one object after the other.

    Attributes:
      counts: Number of keypoints of each object.
      names: Name of each keypoint.
      points: Fractions of width and height, float64[n, 2]; 0 for those that are not visible.
      visibility: 0 for a keypoint that is not annotated or outside the written image, 1 for a
        hidden and 2 for a visible one: int64[n].
    """

    counts: Sequence[int] = ()
    names: Sequence[str] = ()
    points: Floats = np.zeros((0, 2))
    visibility: npt.NDArray[np.int64] = np.zeros(0, np.int64)


def place_keypoints(
    texts: Iterable[str | None], transform: Affine, size: Size, *, mirrored: bool
) -> PlacedKeypoints:
    """Transform the keypoints of the objects of an image.

    Args:
      texts: For each object the JSON [names, [x, y, visibility, ...]]; None without keypoints. A
        third item lists for each keypoint the number of its partner on the other side of the
        object; by default the names tell the sides.
      transform: From the annotated image to the written one.
      size: (width, height) of the written image.
      mirrored: Whether augmentation mirrors the image, which exchanges left and right keypoints.
    """
    counts: list[int] = []
    names: list[str] = []
    values: list[float] = []
    for text in texts:
        own, numbers, *partners = ([], []) if text is None else orjson.loads(text)
        if mirrored:
            order = partners[0] if partners else _partners(own)
            numbers = np.reshape(numbers, (-1, 3))[order].ravel().tolist()
        counts.append(len(own))
        names += own
        values += numbers
    table = np.array(values, np.float64).reshape(-1, 3)
    points = transform.points(table[:, :2])
    visibility = table[:, 2].astype(np.int64)
    inside = points.clip(0, np.array(size))
    visibility[(np.abs(points - inside) > _SLACK).any(axis=1)] = 0
    fractions = np.where(visibility[:, None] > 0, inside / np.array(size, np.float64), 0.0)
    return PlacedKeypoints(counts, names, fractions, visibility)


def _partners(names: Sequence[str]) -> list[int]:
    """Return for each keypoint the one on the other side of the object, or itself."""
    at = {name: number for number, name in enumerate(names)}
    others = (_SIDE.sub(lambda found: _OTHER_SIDE[found[0].lower()], name) for name in names)
    return [at.get(other, number) for number, other in enumerate(others)]


def keypoint_columns(placed: Sequence[PlacedKeypoints]) -> dict[str, pa.Array]:
    """Return the features of images, a row for each."""
    points = np.concatenate([np.zeros((0, 2)), *(one.points for one in placed)])
    visibility = np.concatenate([np.zeros(0, np.int64), *(one.visibility for one in placed)])
    edges = np.cumsum([0, *(len(one.names) for one in placed)])
    names = pa.array([name for one in placed for name in one.names], pa.string())
    counts = np.array([count for one in placed for count in one.counts], np.int64)
    objects = np.cumsum([0, *(len(one.counts) for one in placed)])
    columns = (
        list_array(points[:, 0].astype(np.float32), edges),
        list_array(points[:, 1].astype(np.float32), edges),
        list_array(visibility, edges),
        list_array(names, edges),
        list_array(counts, objects),
    )
    return dict(zip(KEYPOINT_FEATURES, columns, strict=True))
