"""What is known of a picture's objects: the columns that annotations of any format become.

Rows are pictures; their objects are a list of structs. Every format gives the box and the class,
and those of the further fields that it has.
"""

from __future__ import annotations

import array
import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reject

OBJECTS = "__objects__"  # list<struct>: in the order of the annotations
CAPTIONS = "__captions__"  # list<string>
SIDES = "__sides__"  # list<int32>[2], nullable: width and height that the annotations say

# In pixels from the left and top edge, or in fractions of width and height: where an object begins
# and ends, so that xmax - xmin is its width.
CORNER_NAMES = ("xmin", "ymin", "xmax", "ymax")
CLASS = "class"
BOX_FIELDS = (
    *(pa.field(name, pa.float64()) for name in CORNER_NAMES),
    pa.field(CLASS, pa.string()),
)
CROWD = pa.field("is_crowd", pa.bool_())
AREA = pa.field("area", pa.float64())  # square pixels, nullable
SEGMENTATION = pa.field("segmentation", pa.string())  # JSON as given, nullable
DIFFICULT = pa.field("difficult", pa.bool_())
TRUNCATED = pa.field("truncated", pa.bool_())
OCCLUDED = pa.field("occluded", pa.bool_())
GROUP_OF = pa.field("group_of", pa.bool_())
VIEW = pa.field("view", pa.string())

SIDES_FIELD = pa.field(SIDES, pa.list_(pa.int32(), 2))
CAPTIONS_FIELD = pa.field(CAPTIONS, pa.list_(pa.string()))

Corners = tuple[float, float, float, float]
Indices = npt.NDArray[np.int64]


def objects_field(more: Iterable[pa.Field] = ()) -> pa.Field:
    """The column of objects that have further fields."""
    return pa.field(OBJECTS, pa.list_(pa.struct([*BOX_FIELDS, *more])))


@dataclasses.dataclass(frozen=True, kw_only=True)
class Annotated:
    """What annotations say of some pictures. faults: {row: why they cannot be used}."""

    columns: pa.RecordBatch
    faults: Mapping[int, str] = dataclasses.field(default_factory=dict)


class AnnotationReader(Protocol):
    """The annotations of many pictures."""

    @property
    def names(self) -> Sequence[str]:
        """Of the pictures: the end of a path, each once; without extension where `by_stem`."""

    @property
    def by_stem(self) -> bool: ...

    @property
    def fields(self) -> pa.Schema:
        """The columns that `read` gives."""

    @property
    def rejects(self) -> Sequence[Reject]:
        """Entries that are of no picture."""

    @property
    def notes(self) -> Sequence[str]:
        """What else is to be told: sentences without their end."""

    def read(self, which: Indices) -> Annotated:
        """Of pictures, by their index in `names`."""

    def labels(self) -> tuple[str, ...]:
        """The classes in the order of their numbers, once all has been read; none where objects
        have no class.
        """


@dataclasses.dataclass
class ObjectCollector:
    """Collects objects of many pictures in little memory, whatever picture each is of.

    more: fields beside the box and the class.
    """

    more: Sequence[pa.Field] = ()
    pictures: array.array[int] = dataclasses.field(default_factory=lambda: array.array("q"))
    corners: array.array[float] = dataclasses.field(default_factory=lambda: array.array("d"))
    classes: list[str] = dataclasses.field(default_factory=list)
    others: dict[str, list[Any]] = dataclasses.field(default_factory=dict)

    def add(self, picture: int, corners: Corners, name: str, **more: Any) -> None:
        self.pictures.append(picture)
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
        """The objects of `count` pictures.

        more: those of the further fields that are wanted. which: of the objects, in their order.
        """
        more = self.more if more is None else more
        boxes = np.array(self.corners, np.float64).reshape(-1, 4)
        arrays = [*(pa.array(boxes[:, n]) for n in range(4)), strings(self.classes)]
        arrays += [pa.array(self.others.get(field.name, []), field.type) for field in more]
        structs = pa.StructArray.from_arrays(arrays, fields=[*BOX_FIELDS, *more])
        pictures = np.array(self.pictures, np.int64)
        if which is not None and len(which) < len(pictures):
            structs, pictures = structs.take(pa.array(which)), pictures[which]
        return grouped(structs, pictures, count)

    def content(self) -> Indices:
        """Of each object a number, the same where class and box are: int64[n]."""
        boxes = np.array(self.corners, np.float64).reshape(-1, 4)
        return numbered(codes(self.classes), *boxes.T)


def grouped(values: pa.Array, of: Indices, count: int) -> pa.ListArray:
    """A list for each of 0 .. count - 1, of the values that are of it, in their order."""
    order = np.argsort(of, kind="stable")
    edges = np.concatenate([[0], np.cumsum(np.bincount(of, minlength=count))]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(edges), values.take(pa.array(order)))


def numbered(*keys: npt.NDArray[Any]) -> Indices:
    """Of each a number, the same where all of its keys are: int64[n]."""
    order = np.lexsort(keys)
    new = np.zeros(len(order), np.int64)
    if len(order):
        new[1:] = np.any([key[order][1:] != key[order][:-1] for key in keys], axis=0)
    numbers = np.empty(len(order), np.int64)
    numbers[order] = np.cumsum(new)
    return numbers


def codes(texts: Sequence[str]) -> Indices:
    """Of each a number, the same where texts are: int64[n]."""
    found = pa.array(texts, pa.dictionary(pa.int32(), pa.string()))
    return np.asarray(found.indices).astype(np.int64)


def strings(texts: Sequence[str]) -> pa.StringArray:
    """Texts as Arrow's; those that come often are held once."""
    return pa.array(texts, pa.dictionary(pa.int32(), pa.string())).dictionary_decode()


def sides_array(sides: Sequence[tuple[int, int] | None]) -> pa.Array:
    """(width, height) of pictures, null where it is not said."""
    return pa.array(sides, SIDES_FIELD.type)
