"""The objects of pictures as features: boxes go where their pixels go.

Names are those of the TensorFlow Object Detection API.
Source: https://github.com/tensorflow/models/blob/master/research/object_detection/core/
standard_fields.py (TfExampleFields)
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Filtered, Reason, RecordError
from recordmill.format.features import Feature
from recordmill.transforms.encoders.labels import label_numbers
from recordmill.transforms.imaging.affine import IDENTITY, Affine, Floats
from recordmill.transforms.imaging.geometry import Size
from recordmill.transforms.imaging.pixels import Picture
from recordmill.transforms.model.annotations import (
    AREA,
    CAPTIONS,
    CLASS,
    CORNER_NAMES,
    OBJECTS,
    SEGMENTATION,
    SIDES,
)
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.ragged import list_array

OverEdge = Literal["clip", "drop", "reject"]
Frame = Literal["auto", "stored", "upright"]
Captions = Literal["all", "first"]

_SLACK = 0.5  # pixels that a box may reach over the edge: those who draw them round
_BOXES = "image/object/bbox/"
_TO_PICTURE = "image/object/segmentation/transform"
_ANY: tuple[int | None, ...] = (None,)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ObjectOptions:
    """What becomes of boxes.

    boxes: what becomes of one that reaches over the edge of the picture as it is written: `clip`
      leaves what is inside, `drop` leaves it out, `reject` rejects the picture if
      it does before the picture is varied, and else leaves what is inside.
    min_box: pixels of the written picture; a box whose shortest side is less is dropped, or has the
      picture rejected, as by `boxes`; so is one of which nothing is left.
    without_boxes: whether a picture that has no box left is kept, or dropped.
    box_frame: which picture boxes are drawn on, where EXIF turns it: as it is stored, or upright;
      `auto` tells by the sides that the annotations say, and rejects a picture with boxes where
      these fit both.
    fractions: corners are fractions of the sides, not pixels.
    captions: whether a picture has all of its captions, or the first.
    """

    boxes: OverEdge = "clip"
    min_box: float = 0.0
    without_boxes: Literal["keep", "drop"] = "keep"
    box_frame: Frame = "auto"
    fractions: bool = False
    captions: Captions = "all"

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--boxes", self.boxes, OverEdge),
            ("--box-frame", self.box_frame, Frame),
            ("--captions", self.captions, Captions),
        ):
            if value not in get_args(known):
                raise ConfigError(
                    f"{option}: expected one of {', '.join(get_args(known))}, got {value!r}"
                )
        if not self.min_box >= 0:
            raise ConfigError(f"--min-box: expected pixels from 0 on, got {self.min_box:g}")


class Followed(NamedTuple):
    """Boxes on the written picture: which are left, int64[k]; their corners as fractions of its
    sides, float64[k, 4]; how many times as large each one's area became, float64[k].
    """

    kept: npt.NDArray[np.int64]
    corners: Floats
    grown: Floats


def follow(
    boxes: Floats, moves: Affine, size: Size, options: ObjectOptions, varied: Affine = IDENTITY
) -> Followed:
    """Boxes, float64[n, 4] in pixels, where `moves` and then `varied` take them on a picture of a
    size.

    Raises RecordError where one that is over the edge, or too small, is to reject the picture: what
    `varied`, which is random, makes of a good box is no reason to.
    """
    if options.boxes == "reject" and varied != IDENTITY:
        follow(boxes, moves, size, options)
        options = dataclasses.replace(options, boxes="clip")
    moves = moves.then(varied)
    moved = moves.boxes(boxes)
    limits = np.array([*size, *size], np.float64)
    inside = np.clip(moved, 0, limits)
    over = (np.abs(moved - inside) > _SLACK).any(axis=1)
    if moves.keeps_axes:
        areas = np.prod(inside[:, 2:] - inside[:, :2], axis=1)
    else:
        inside, areas = moves.seen(boxes, size)
    sides = inside[:, 2:] - inside[:, :2]
    fractions = inside / limits
    written = fractions.astype(np.float32)  # which may have no room for what is left
    small = ((written[:, 2:] <= written[:, :2]) | (boxes[:, 2:] <= boxes[:, :2])).any(axis=1)
    small |= sides.min(axis=1, initial=np.inf) < options.min_box
    if options.boxes == "reject" and (over | small).any():
        at = int(np.argmax(over | small))
        small_told = f"is smaller than {options.min_box:g}" if options.min_box else "has no inside"
        what = "reaches over the edge" if np.take(over, at) else small_told
        raise RecordError(Reason.BAD_VALUE, f"box {at} {what}, of the picture as it is written")
    kept = np.flatnonzero(~small & ~(over & (options.boxes == "drop")))
    whole = np.prod(boxes[kept, 2:] - boxes[kept, :2], axis=1)
    return Followed(kept, fractions[kept], areas[kept] / whole)


def on_stored(
    picture: Picture, said: Size | None, frame: Frame, *, has_boxes: bool = True
) -> tuple[Affine, Size]:
    """From the picture that boxes are drawn on to the one resized, and the size of the former.

    said: (width, height) by the annotations.

    Raises RecordError where that is not the size of the picture, or where it cannot be told which
    picture boxes are drawn on.
    """
    sideways = picture.turn.a == 0
    stored = picture.source[::-1] if sideways else picture.source
    if frame == "auto":
        fits_both = said is None or said == stored == picture.source
        if has_boxes and fits_both and picture.turn != IDENTITY:
            raise RecordError(
                Reason.BAD_VALUE,
                "EXIF turns it, and its annotations fit it as it is stored and upright: say which"
                " with --box-frame stored or upright",
            )
        frame = "upright" if sideways and said == picture.source != stored else "stored"
    size = stored if frame == "stored" else picture.source
    if said is not None and said != size:
        raise RecordError(
            Reason.BAD_VALUE,
            f"the annotations are of a picture of {said[0]}x{said[1]} pixels, it has"
            f" {size[0]}x{size[1]}",
        )
    return (picture.turn.then(picture.moves) if frame == "stored" else picture.moves), size


class _Placed(NamedTuple):
    followed: Followed
    to_picture: Affine


class PlacedObjects:
    """The objects of some rows, and where they are on the pictures of those that are kept."""

    def __init__(self, rows: pa.RecordBatch, options: ObjectOptions) -> None:
        self._options = options
        self._sides = rows[SIDES].to_pylist()
        self._captions = rows[CAPTIONS] if CAPTIONS in rows.schema.names else None
        self._structs = None
        if OBJECTS in rows.schema.names:
            column = rows[OBJECTS]
            self._edges = np.asarray(column.offsets).astype(np.int64)
            self._structs = column.values
            corners = [np.asarray(self._structs.field(name)) for name in CORNER_NAMES]
            self._corners = np.stack(corners, axis=1)
        self._placed: list[_Placed] = []
        self._rows: list[int] = []

    def place(self, row: int, picture: Picture) -> None:
        """Takes the row, whose picture is this one.

        Raises RecordError and Filtered.
        """
        said = self._sides[row]
        to_resized, size = on_stored(
            picture,
            None if said is None else (said[0], said[1]),
            self._options.box_frame,
            has_boxes=self._structs is not None and self._edges[row] < self._edges[row + 1],
        )
        if self._structs is not None:
            boxes = self._corners[self._edges[row] : self._edges[row + 1]]
            if self._options.fractions:
                boxes = boxes * np.array([*size, *size], np.float64)
            written = (picture.width, picture.height)
            followed = follow(boxes, to_resized, written, self._options, picture.varied)
            if self._options.without_boxes == "drop" and not len(followed.kept):
                raise Filtered("without-boxes")
            self._placed.append(_Placed(followed, to_resized.then(picture.varied)))
        self._rows.append(row)

    @property
    def counts(self) -> tuple[int, int] | None:
        """How many the rows that were taken have, and of these are on their pictures."""
        if self._structs is None:
            return None
        rows = np.array(self._rows, np.int64)
        made = int((self._edges[rows + 1] - self._edges[rows]).sum())
        return made, sum(len(one.followed.kept) for one in self._placed)

    def columns(self, context: Context) -> dict[str, pa.Array]:
        """The features of the rows that were taken, in their order."""
        columns: dict[str, pa.Array] = {}
        if self._captions is not None:
            captions = self._captions.take(pa.array(self._rows, pa.int64()))
            first = self._options.captions == "first"
            columns["image/caption"] = pc.list_slice(captions, 0, 1) if first else captions
        if self._structs is not None:
            columns |= self._boxes(self._structs, context)
        return columns

    def _boxes(self, structs: pa.StructArray, context: Context) -> dict[str, pa.Array]:
        followed = [one.followed for one in self._placed]
        edges = np.cumsum([0, *(len(one.kept) for one in followed)])
        offsets = pa.array(edges.astype(np.int32))
        starts = self._edges[self._rows]
        at = [one.kept + start for one, start in zip(followed, starts.tolist(), strict=True)]
        kept = structs.take(pa.array(_joined(at, np.int64)))
        corners = np.concatenate([np.zeros((0, 4)), *(one.corners for one in followed)])

        def lists(values: pa.Array) -> pa.Array:
            return pa.ListArray.from_arrays(offsets, values)

        columns = {
            f"{_BOXES}{name}": list_array(corners[:, n].astype(np.float32), edges)
            for n, name in enumerate(CORNER_NAMES)
        }
        names = kept.field(CLASS)
        columns["image/object/class/text"] = lists(names)
        columns["image/object/class/label"] = lists(label_numbers(names, context))
        for field in _further(structs.type):
            values = kept.field(field.name)
            if field.name == AREA.name:
                values = self._areas(kept, _joined([one.grown for one in followed], np.float64))
            elif field.type == pa.string():
                values = values.fill_null("")
            columns[f"image/object/{field.name}"] = lists(values)
        if SEGMENTATION.name in {field.name for field in structs.type}:
            moves = [dataclasses.astuple(one.to_picture) for one in self._placed]
            flat = np.array(moves, np.float32).ravel()
            columns[_TO_PICTURE] = pa.FixedSizeListArray.from_arrays(pa.array(flat), 6)
        return columns

    def _areas(self, kept: pa.StructArray, grown: Floats) -> pa.Array:
        """Those given, or else of the boxes, on the written pictures: float32."""
        left, top, right, bottom = (np.asarray(kept.field(name)) for name in CORNER_NAMES)
        given = pc.coalesce(kept.field(AREA.name), pa.array((right - left) * (bottom - top)))
        return pc.multiply(given, pa.array(grown)).cast(pa.float32())


def object_features(rows: pa.Schema) -> dict[str, Feature]:
    """What `PlacedObjects.columns` makes of rows of these columns."""
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
        for field in _further(one):
            declared[f"image/object/{field.name}"] = _FEATURES[field.type]
            if field == SEGMENTATION:
                declared[_TO_PICTURE] = Feature(dtype="float32", shape=(6,))
    return declared


_FEATURES: Mapping[pa.DataType, Feature] = {
    pa.bool_(): Feature(dtype="int64", shape=_ANY),
    pa.float64(): Feature(dtype="float32", shape=_ANY),
    pa.string(): Feature(dtype="string", shape=_ANY, kind="text"),
}


def _further(one: pa.StructType) -> list[pa.Field]:
    """The fields of an object beside its box and its class."""
    return [field for field in one if field.name not in (*CORNER_NAMES, CLASS)]


def _joined(parts: Sequence[npt.NDArray[np.generic]], dtype: type[np.generic]) -> npt.NDArray[Any]:
    return np.concatenate([np.zeros(0, dtype), *parts])
