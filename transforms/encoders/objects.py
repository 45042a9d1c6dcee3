"""Objects of images as features: boxes follow the pixels through resizing and augmentation.

Features are named as in the TensorFlow Object Detection API.

Source: https://github.com/tensorflow/models/blob/master/research/object_detection/core/
standard_fields.py (TfExampleFields)
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Filtered, Reason, RecordError
from recordmill.format.example_facts import ExampleFacts
from recordmill.format.ledger import add_counted
from recordmill.option_names import option_name
from recordmill.tfrecord.features import Feature
from recordmill.transforms.encoders.frames import frame_of, frame_transform
from recordmill.transforms.encoders.instance_masks import InstanceMasks, segmentation_frames
from recordmill.transforms.encoders.keypoints import (
    KEYPOINT_FEATURES,
    PlacedKeypoints,
    keypoint_columns,
    place_keypoints,
)
from recordmill.transforms.encoders.labels import class_numbers
from recordmill.transforms.encoders.object_options import ObjectOptions
from recordmill.transforms.imaging.affine import IDENTITY, Affine, Floats
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.mask_options import Frame
from recordmill.transforms.imaging.pixels import EncodedImage
from recordmill.transforms.model.annotations import (
    AREA,
    CAPTIONS,
    CLASS,
    CORNER_NAMES,
    KEYPOINTS,
    OBJECT_MASK_COLUMNS,
    OBJECTS,
    SEGMENTATION,
    SIDES,
)
from recordmill.transforms.model.batch import KEY
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.ragged import binary_array, list_array

_SLACK = 0.5  # pixels by which a box may cross the edge, as annotations are rounded
_ROUNDING = 1.0  # pixels by which annotations that count from 0 or 1 are beyond the image
_BOXES = "image/object/bbox/"
_MASK = "image/object/mask"
_SEGMENTATION_TRANSFORM = "image/object/segmentation/transform"
_ANY: tuple[int | None, ...] = (None,)


class TransformedBoxes(NamedTuple):
    """Boxes on the written image.

    kept: int64[k], indices of the boxes that are left.
    corners: float64[k, 4], their corners as fractions of the sides.
    scales: float64[k], the factor by which the visible area of each box changed.
    reasons: {index of a dropped box: reason}, a field of `ObjectCounts`.
    """

    kept: npt.NDArray[np.int64]
    corners: Floats
    scales: Floats
    reasons: Mapping[int, str]


def transform_boxes(
    boxes: Floats,
    to_resized: Affine,
    size: Size,
    options: ObjectOptions,
    to_augmented: Affine = IDENTITY,
    *,
    left_out: npt.NDArray[np.bool_] | None = None,
) -> TransformedBoxes:
    """Transform boxes to the written image, and apply the policies for boxes.

    boxes: float64[n, 4] in pixels.
    to_resized: transform to the resized image.
    size: (width, height) of the written image.
    to_augmented: transform of the augmentations, from the resized image to the written one.
    left_out: bool[n], boxes that are dropped because of their class; by default none.

    Raises:
        RecordError: a box crosses the edge or is too small before augmentation, with `reject`.
    """
    left_out = np.zeros(len(boxes), np.bool_) if left_out is None else left_out
    if options.boxes == "reject" and to_augmented != IDENTITY:
        transform_boxes(boxes, to_resized, size, options, left_out=left_out)
        options = dataclasses.replace(options, boxes="clip")
    transform = to_resized.then(to_augmented)
    moved = transform.boxes(boxes)
    limits = np.array([*size, *size], np.float64)
    inside = np.clip(moved, 0, limits)
    over = (np.abs(moved - inside) > _SLACK).any(axis=1)
    if transform.keeps_axes:
        areas = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
    else:
        inside, areas = transform.visible(boxes, size)
    sides = inside[:, 2:] - inside[:, :2]
    fractions = inside / limits
    written = fractions.astype(np.float32)  # a small box may vanish in float32
    no_area = (boxes[:, 2:] <= boxes[:, :2]).any(axis=1)
    shortest = sides.min(axis=1, initial=np.inf)
    small = (written[:, 2:] <= written[:, :2]).any(axis=1) | no_area
    small |= shortest < options.min_box
    if options.boxes == "reject" and ((over | small) & ~left_out).any():
        at = int(np.argmax((over | small) & ~left_out))
        if np.take(over, at):
            problem = "crosses the edge of the written image"
        elif options.min_box:
            problem = f"is smaller than {options.min_box:g} pixels in the written image"
        else:
            problem = "has no area in the written image"
        raise RecordError(Reason.BAD_VALUE, f"box {at} {problem}")
    dropped = left_out | small | (over & (options.boxes == "drop"))
    kept = np.flatnonzero(~dropped)
    whole = np.prod(boxes[kept, 2:] - boxes[kept, :2], axis=1)
    reason = np.select(
        [left_out, no_area, shortest <= 0, small],
        ["class_left_out", "no_area", "outside", "too_small"],
        "crossing",
    )
    reasons = {int(at): str(reason[at]) for at in np.flatnonzero(dropped)}
    if reasons and to_augmented != IDENTITY:
        before = transform_boxes(boxes, to_resized, size, options, left_out=left_out).reasons
        reasons = {at: before.get(at, "augmented") for at in reasons}
    return TransformedBoxes(kept, fractions[kept], areas[kept] / whole, reasons)


def _reach_beyond(boxes: Floats, size: Size) -> npt.NDArray[np.bool_]:
    """Return which boxes reach beyond the annotated image by more than rounding: bool[n]."""
    over = (boxes < -_ROUNDING) | (boxes > np.array([*size, *size]) + _ROUNDING)
    return np.asarray(over.any(axis=1), np.bool_)


def annotation_transform(
    image: EncodedImage, annotated_size: Size | None, frame: Frame, *, has_boxes: bool = True
) -> tuple[Affine, Size]:
    """Return the transform from the annotated image to the resized one, and the annotated size.

    annotated_size: (width, height) according to the annotations.

    Raises:
        RecordError: that is not the size of the image, or annotations may refer to the image as
            stored or upright.
    """
    chosen = frame_of(image, annotated_size, frame)
    if chosen is None and has_boxes:
        raise RecordError(
            Reason.BAD_VALUE,
            "EXIF rotates the image, and its annotations fit it as stored and upright: choose"
            " one with --box-frame stored or upright",
        )
    transform, size = frame_transform(image, chosen or "stored")
    if annotated_size is not None and annotated_size != size:
        width, height = annotated_size
        raise RecordError(
            Reason.BAD_VALUE,
            f"the annotations are for {width}x{height} pixels, the image has {size[0]}x{size[1]}",
        )
    return transform, size


class _Placed(NamedTuple):
    """Boxes of an image. beyond: how many of those that are left reach beyond the image."""

    boxes: TransformedBoxes
    of_segmentations: Affine
    beyond: int
    masks: Sequence[bytes] = ()
    keypoints: PlacedKeypoints = PlacedKeypoints()


class PlacedObjects:
    """Objects of a batch of rows, transformed to the written images of the rows that are kept."""

    def __init__(self, rows: pa.RecordBatch, options: ObjectOptions, limits: ImageOptions) -> None:
        self._options = options
        self._masks = InstanceMasks(rows, limits) if options.masks else None
        self.mask_files = self._masks.files if self._masks else []
        self._frames = segmentation_frames(rows)
        self._keys = rows[KEY]
        self._sides = rows[SIDES].to_pylist()
        self._captions = rows[CAPTIONS] if CAPTIONS in rows.schema.names else None
        self._structs = None
        if OBJECTS in rows.schema.names:
            column = rows[OBJECTS]
            self._edges = np.asarray(column.offsets).astype(np.int64)
            self._structs = column.values
            corners = [np.asarray(self._structs.field(name)) for name in CORNER_NAMES]
            self._corners = np.stack(corners, axis=1)
            self._has_keypoints = KEYPOINTS in [*self._structs.type]
            self._left_out = np.asarray(self._structs.field(CLASS).is_null())
        self._placed: list[_Placed] = []
        self._rows: list[int] = []

    def place(self, row: int, image: EncodedImage) -> None:
        """Keep a row, and transform its objects to its image.

        Raises:
            RecordError: annotations do not fit the image, or the policy for boxes rejects it.
            Filtered: no box is left, and such images are dropped.
        """
        sides = self._sides[row]
        to_resized, size = annotation_transform(
            image,
            None if sides is None else (sides[0], sides[1]),
            self._options.box_frame,
            has_boxes=self._structs is not None and self._edges[row] < self._edges[row + 1],
        )
        if self._structs is not None:
            boxes = self._corners[self._edges[row] : self._edges[row + 1]]
            if self._options.fractions:
                boxes = boxes * np.array([*size, *size], np.float64)
            written = (image.width, image.height)
            left_out = self._left_out[self._edges[row] : self._edges[row + 1]]
            placed = transform_boxes(
                boxes, to_resized, written, self._options, image.to_augmented, left_out=left_out
            )
            if self._options.without_boxes == "drop" and not len(placed.kept):
                raise Filtered("without-boxes")
            to_written = to_resized.then(image.to_augmented)
            of_polygons = self._frames[row]
            if self._options.polygon_fractions:
                of_polygons = Affine.scale(*size)
            transforms = to_written, of_polygons.then(to_written)
            masks: Sequence[bytes] = ()
            if self._masks is not None:
                masks = self._masks.place(row, placed.kept, transforms, frame=size, size=written)
            keypoints, fractions = PlacedKeypoints(), self._options.fractions
            if self._has_keypoints:
                texts = self._structs.field(KEYPOINTS.name)
                keypoints = place_keypoints(
                    (texts[self._edges[row] + at].as_py() for at in placed.kept.tolist()),
                    Affine.scale(*size).then(to_written) if fractions else to_written,
                    written,
                    mirrored=image.to_augmented.mirrors,
                )
            beyond = int(_reach_beyond(boxes, size)[placed.kept].sum())
            self._placed.append(_Placed(placed, transforms[1], beyond, masks, keypoints))
        self._rows.append(row)

    @property
    def counts(self) -> tuple[int, int] | None:
        """Number of annotated objects in the kept rows, and of those left; None without objects."""
        if self._structs is None:
            return None
        rows = np.array(self._rows, np.int64)
        annotated = int((self._edges[rows + 1] - self._edges[rows]).sum())
        return annotated, sum(len(one.boxes.kept) for one in self._placed)

    @property
    def dropped(self) -> dict[str, tuple[int, str]]:
        """Return {reason: (number of dropped objects, smallest key of a row with one)}."""
        found: dict[str, tuple[int, str]] = {}
        if self._structs is not None:
            for row, one in zip(self._rows, self._placed, strict=True):
                key = self._keys[row].as_py()
                for reason in one.boxes.reasons.values():
                    found = add_counted(found, {reason: (1, key)})
        return found

    def facts_of_last(self) -> ExampleFacts:
        """Return the counts of the objects of the row that was kept last."""
        if self._structs is None:
            return ExampleFacts()
        row, placed = self._rows[-1], self._placed[-1]
        boxes = placed.boxes
        annotated = int(self._edges[row + 1] - self._edges[row])
        return ExampleFacts(
            objects=(annotated, len(boxes.kept)),
            dropped_objects=Counter(boxes.reasons.values()),
            noted={"boxes_beyond": placed.beyond} if placed.beyond else {},
        )

    def columns(self, context: Context) -> dict[str, pa.Array]:
        """Return the features of the kept rows, in their order."""
        columns: dict[str, pa.Array] = {}
        if self._captions is not None:
            captions = self._captions.take(pa.array(self._rows, pa.int64()))
            first = self._options.captions == "first"
            columns["image/caption"] = pc.list_slice(captions, 0, 1) if first else captions
        if self._structs is not None:
            columns |= self._boxes(self._structs, context)
        return columns

    def _boxes(self, structs: pa.StructArray, context: Context) -> dict[str, pa.Array]:
        boxes = [one.boxes for one in self._placed]
        edges = np.cumsum([0, *(len(one.kept) for one in boxes)])
        offsets = pa.array(edges.astype(np.int32))
        starts = self._edges[self._rows]
        at = [one.kept + start for one, start in zip(boxes, starts.tolist(), strict=True)]
        kept = structs.take(pa.array(_joined(at, np.int64)))
        corners = np.concatenate([np.zeros((0, 4)), *(one.corners for one in boxes)])

        def lists(values: pa.Array) -> pa.Array:
            return pa.ListArray.from_arrays(offsets, values)

        columns = {
            f"{_BOXES}{name}": list_array(corners[:, n].astype(np.float32), edges)
            for n, name in enumerate(CORNER_NAMES)
        }
        names = kept.field(CLASS)
        columns["image/object/class/text"] = lists(names)
        columns["image/object/class/label"] = lists(class_numbers(names, context))
        for field in _further(structs.type, self._options):
            values = kept.field(field.name)
            if field.name == AREA.name:
                values = self._areas(kept, _joined([one.scales for one in boxes], np.float64))
            elif field.type == pa.string():
                values = values.fill_null("")
            columns[f"image/object/{field.name}"] = lists(values)
        if self._has_keypoints:
            columns |= keypoint_columns([one.keypoints for one in self._placed])
        if self._options.masks:
            columns[_MASK] = lists(binary_array([m for one in self._placed for m in one.masks]))
        if SEGMENTATION in _further(structs.type, self._options):
            transforms = [dataclasses.astuple(one.of_segmentations) for one in self._placed]
            flat = np.array(transforms, np.float32).ravel()
            columns[_SEGMENTATION_TRANSFORM] = pa.FixedSizeListArray.from_arrays(pa.array(flat), 6)
        return columns

    def _areas(self, kept: pa.StructArray, scales: Floats) -> pa.Array:
        """Return areas in the written images, float32; by default the areas of the boxes."""
        left, top, right, bottom = (np.asarray(kept.field(name)) for name in CORNER_NAMES)
        given = pc.coalesce(kept.field(AREA.name), pa.array((right - left) * (bottom - top)))
        return pc.multiply(given, pa.array(scales)).cast(pa.float32())


def object_features(rows: pa.Schema, options: ObjectOptions, mask: Feature) -> dict[str, Feature]:
    """Return the features that `PlacedObjects.columns` makes of rows of this schema.

    mask: the feature of a mask of the size of the image.

    Raises:
        ConfigError: masks are to be drawn, and the annotations have no segmentation.
    """
    boxes = [*rows.field(OBJECTS).type.value_type] if OBJECTS in rows.names else []
    is_segmented = SEGMENTATION in boxes or OBJECT_MASK_COLUMNS.names[0] in rows.names
    if options.masks and not is_segmented and (boxes or SIDES in rows.names):  # some are left
        raise ConfigError(
            f"{option_name('instance_masks')}: no annotation has a 'segmentation' of polygons or"
            " run lengths: leave the option out"
        )
    text = Feature(dtype="string", shape=_ANY, kind="text")
    declared: dict[str, Feature] = {}
    if CAPTIONS in rows.names:
        declared["image/caption"] = text
    if OBJECTS in rows.names:
        one = rows.field(OBJECTS).type.value_type
        number = Feature(dtype="float32", shape=_ANY)
        declared |= {f"{_BOXES}{name}": number for name in CORNER_NAMES}
        declared["image/object/class/text"] = text
        declared["image/object/class/label"] = Feature(dtype="int64", shape=_ANY, kind="label")
        if options.masks:
            declared[_MASK] = dataclasses.replace(mask, shape=_ANY, raw_dtype="uint8")
        if KEYPOINTS in [*one]:
            declared |= KEYPOINT_FEATURES
        for field in _further(one, options):
            declared[f"image/object/{field.name}"] = _FEATURES[field.type]
            if field == SEGMENTATION:
                declared[_SEGMENTATION_TRANSFORM] = Feature(dtype="float32", shape=(6,))
    return declared


_FEATURES: Mapping[pa.DataType, Feature] = {
    pa.bool_(): Feature(dtype="int64", shape=_ANY),
    pa.float64(): Feature(dtype="float32", shape=_ANY),
    pa.int64(): Feature(dtype="int64", shape=_ANY),
    pa.string(): Feature(dtype="string", shape=_ANY, kind="text"),
}


def _further(one: pa.StructType, options: ObjectOptions) -> list[pa.Field]:
    """Return the fields of an object that are written beside its box and its class."""
    left_out = (
        *CORNER_NAMES,
        CLASS,
        KEYPOINTS.name,
        *(() if options.segmentation else (SEGMENTATION.name,)),
    )
    return [field for field in one if field.name not in left_out]


def _joined(parts: Sequence[npt.NDArray[np.generic]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])
