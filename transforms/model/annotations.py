"""Annotations of images as columns, the same for every annotation format.

A row is an image. Its objects are a list of structs: every format gives the box and the class, and
some formats give further fields.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.notes import LeftUnread

OBJECTS = "__objects__"  # list<struct>, in the order of the annotations
CAPTIONS = "__captions__"  # list<string>
SIDES = "__sides__"  # list<int32>[2], nullable: width and height according to the annotations
IMAGE_ID = "__image_id__"  # int64, nullable: number of the image in the annotations
IMAGE_ID_LIMIT = 1 << 52  # ids are below it

# Edges of a box, in pixels from the left and top edge of the image or in fractions of its width and
# height. The width of a box is xmax - xmin.
CORNER_NAMES = ("xmin", "ymin", "xmax", "ymax")
CLASS = "class"
BOX_FIELDS = (
    *(pa.field(name, pa.float64()) for name in CORNER_NAMES),
    pa.field(CLASS, pa.string()),
)
CROWD = pa.field("is_crowd", pa.bool_())
AREA = pa.field("area", pa.float64())  # square pixels, nullable
SEGMENTATION = pa.field("segmentation", pa.string())  # the JSON of the annotations, nullable
# JSON of the names of the keypoints of an object, and x, y and visibility of each; nullable. It may
# also have the number of the keypoint that each becomes in a mirrored image.
KEYPOINTS = pa.field("keypoints", pa.string())
DIFFICULT = pa.field("difficult", pa.bool_())
TRUNCATED = pa.field("truncated", pa.bool_())
OCCLUDED = pa.field("occluded", pa.bool_())
GROUP_OF = pa.field("group_of", pa.bool_())
VIEW = pa.field("view", pa.string())

SEGMENTATION_FRAME = "__segmentation_frame__"  # list<float64>, nullable
# Coefficients of the `imaging.affine.Affine` from the pixels that segmentations refer to, to those
# of the image; null if they are the same.
SEGMENTATION_FRAME_FIELD = pa.field(SEGMENTATION_FRAME, pa.list_(pa.float64()))

SIDES_FIELD = pa.field(SIDES, pa.list_(pa.int32(), 2))
CAPTIONS_FIELD = pa.field(CAPTIONS, pa.list_(pa.string()))
IMAGE_ID_FIELD = pa.field(IMAGE_ID, pa.int64())

# A reference to the mask of an image, as `batch.PATH`, `SIZE` and `MTIME`; null without a mask.
MASK_COLUMNS = pa.schema(
    [
        pa.field("__mask_path__", pa.string()),
        pa.field("__mask_size__", pa.int64()),
        pa.field("__mask_mtime__", pa.int64()),
    ]
)

# The same for the encoded masks of the objects of an image, which are a BytesList.
OBJECT_MASK_COLUMNS = pa.schema(
    [
        pa.field("__object_masks_path__", pa.string()),
        pa.field("__object_masks_size__", pa.int64()),
        pa.field("__object_masks_mtime__", pa.int64()),
    ]
)

Corners = tuple[float, float, float, float]
Indices = npt.NDArray[np.int64]


def objects_field(more: Iterable[pa.Field] = ()) -> pa.Field:
    """Return the field of the column of objects, given the fields beside box and class."""
    return pa.field(OBJECTS, pa.list_(pa.struct([*BOX_FIELDS, *more])))


def count_unread(unread: LeftUnread, fields: Mapping[str, Any], *, such_as: str) -> None:
    """Count the fields of an annotation that no column holds.

    Fields that are missing, empty, zero or false, or consist of such values, do not count.
    """
    found = {name: value for name, value in fields.items() if _has_content(value)}
    attributes = found.get("attributes")
    if isinstance(attributes, dict):
        del found["attributes"]
        names = [name for name, value in attributes.items() if _has_content(value)]
        unread.add("attributes", "annotation", such_as=such_as, names=names)
    if found.pop("keypoints", None) is not None:
        unread.add("keypoints", "annotation", such_as=such_as)
    if found:
        unread.add("fields", "annotation", such_as=such_as, names=found)


def _has_content(value: Any) -> bool:
    """Return whether a value is not missing, empty, zero or false, nor consists of such values."""
    if isinstance(value, dict):
        value = list(value.values())
    if not isinstance(value, list):
        return bool(value)
    return any(value) and any(map(_has_content, value))  # the first is fast for zeros


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotated:
    """Annotations of some images.

    columns: a row per image, in the order requested. faults: {row: reason why its annotations are
        invalid}. unread: parts of annotations that are not in the columns.
    """

    columns: pa.RecordBatch
    faults: Mapping[int, str] = dataclasses.field(default_factory=dict)
    unread: LeftUnread = dataclasses.field(default_factory=LeftUnread)


@dataclasses.dataclass
class ObjectCollector:
    """Collects the objects of many images, in any order, with little memory per object.

    more: fields beside the box and the class. starts: index of the first object of each file.
    """

    more: Sequence[pa.Field] = ()
    images: array.array[int] = dataclasses.field(default_factory=lambda: array.array("q"))
    corners: array.array[float] = dataclasses.field(default_factory=lambda: array.array("d"))
    classes: list[str] = dataclasses.field(default_factory=list)
    others: dict[str, list[Any]] = dataclasses.field(default_factory=dict)
    starts: list[int] = dataclasses.field(default_factory=list)

    def begin(self) -> None:
        """Start a file: objects added from now on belong to it."""
        self.starts.append(len(self.images))

    def add(self, image: int, corners: Corners, name: str, **more: Any) -> None:
        """Add one object of an image, given by its index."""
        self.images.append(image)
        self.corners.extend(corners)
        self.classes.append(name)
        for field in self.more:
            self.others.setdefault(field.name, []).append(more.get(field.name))

    def column(
        self,
        count: int,
        more: Sequence[pa.Field] | None = None,
        which: Indices | None = None,
    ) -> pa.ListArray:
        """Return the objects of `count` images as one list per image.

        more: fields to include beside the box and the class, all of them by default. which: indices
            of the objects to include, ascending; all of them by default.
        """
        more = self.more if more is None else more
        boxes = np.array(self.corners, np.float64).reshape(-1, 4)
        arrays = [*(pa.array(boxes[:, n]) for n in range(4)), strings(self.classes)]
        arrays += [pa.array(self.others.get(field.name, []), field.type) for field in more]
        structs = pa.StructArray.from_arrays(arrays, fields=[*BOX_FIELDS, *more])
        images = np.array(self.images, np.int64)
        if which is not None and len(which) < len(images):
            structs, images = structs.take(pa.array(which)), images[which]
        return grouped(structs, images, count)

    def content(self) -> Indices:
        """Number the objects so that objects of equal class and box share a number: int64[n]."""
        boxes = np.array(self.corners, np.float64).reshape(-1, 4)
        return numbered(codes(self.classes), *boxes.T)

    def of_several_files(self, which: Indices | None = None) -> Indices:
        """Return the images to which several files give objects of one class, ascending: int64[n].

        which: indices of the objects to look at, ascending; all of them by default.
        """
        if len(self.starts) < 2:
            return np.empty(0, np.int64)
        which = np.arange(len(self.images)) if which is None else which
        images = np.array(self.images, np.int64)[which]
        files = np.searchsorted(self.starts, which, side="right")
        _, first, of = np.unique(
            numbered(images, codes(self.classes)[which]), return_index=True, return_inverse=True
        )
        return np.unique(images[files != files[first[of]]])


def grouped(values: pa.Array, of: Indices, count: int) -> pa.ListArray:
    """Return a list for each group 0 .. count - 1 with its values, in their order.

    of: int64[n], the group of each value.
    """
    order = np.argsort(of, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(edges), values.take(pa.array(order)))


def numbered(*keys: npt.NDArray[Any]) -> Indices:
    """Number rows so that rows with equal keys share a number: int64[n].

    keys: arrays of length n, one per key.
    """
    order = np.lexsort(keys)
    new = np.zeros(len(order), np.int64)
    if len(order):
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new)
    return numbers


def codes(texts: Sequence[str]) -> Indices:
    """Number texts so that equal texts share a number: int64[n]."""
    found = pa.array(texts, pa.dictionary(pa.int32(), pa.string()))
    return np.asarray(found.indices).astype(np.int64)


def strings(texts: Sequence[str]) -> pa.StringArray:
    """Return texts as an Arrow array, built with one copy of each distinct text."""
    return pa.array(texts, pa.dictionary(pa.int32(), pa.string())).dictionary_decode()


def sides_array(sides: Sequence[tuple[int, int] | None]) -> pa.Array:
    """Return (width, height) of images as an Arrow array, null where unknown."""
    return pa.array(sides, SIDES_FIELD.type)
