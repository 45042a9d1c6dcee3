"""Features that belong to the pixels of the image of a record: objects, and masks.

They become the columns of annotations that other annotated images have (`model.annotations`).
Masks become references to their bytes in the file, as the image itself.

Source of the names: https://github.com/tensorflow/models/blob/master/research/object_detection/core/
standard_fields.py (TfExampleFields).
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason
from recordmill.option_names import option_name
from recordmill.strict_json import to_text
from recordmill.transforms.model.annotations import (
    AREA,
    BOX_FIELDS,
    CAPTIONS_FIELD,
    CORNER_NAMES,
    KEYPOINTS,
    MASK_COLUMNS,
    OBJECT_MASK_COLUMNS,
    SEGMENTATION,
    SEGMENTATION_FRAME_FIELD,
    SIDES_FIELD,
    VIEW,
    objects_field,
)
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.annotations.formats.annotation_files import ROUNDING
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.folders.references import label_problem
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.rows.columns.record_columns import InvalidRows
from recordmill.transforms.sources.tfrecords.media_features import (
    CAPTION,
    CLASS_MASK,
    MASK_FORMAT,
    OBJECT,
    collect_numbers,
)

Edges = npt.NDArray[np.int64]

_CORNERS = tuple(f"{OBJECT}bbox/{name}" for name in CORNER_NAMES)
_TEXT, _NUMBER = f"{OBJECT}class/text", f"{OBJECT}class/label"
_MASKS, _FRAME = f"{OBJECT}mask", f"{OBJECT}segmentation/transform"
_FLOATS, _INTS, _TEXTS = (pa.list_(kind) for kind in (pa.float32(), pa.int64(), pa.string()))
# Types of the features of keypoints: their number in each object, and then one value for each.
_POINTS = {"num": _INTS, "x": _FLOATS, "y": _FLOATS, "visibility": _INTS, "text": _TEXTS}
_NUMBERS = ("x", "y", "visibility")
_YX = [1, 0, 3, 2]  # places of the corners in a box of TFDS, which is ymin, xmin, ymax, xmax
_DECLARED = {AREA.name: pa.float64(), SEGMENTATION.name: pa.string(), VIEW.name: pa.string()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class PixelFeatures:
    """Features that belong to the pixels of images, by what they hold.

    corners: features of xmin, ymin, xmax and ymax, in fractions; or one feature of TFDS with all
      boxes; empty without objects. text, number: class of each object as its name and as a number.
    names: classes in the order of their numbers, if they are known. first_number: of these classes.
    more: {field of an object: feature}. keypoints: {what they hold: feature} of keypoints of all
      objects. object_masks: PNG of each object. frame: transform of the segmentations to the image.
    captions: of the image. class_mask: mask of class ids. mask_depth: bits per pixel of it in
      datasets of recordmill. mask_names: names of its ids, if they are known.
    """

    corners: tuple[str, ...] = ()
    text: str | None = None
    number: str | None = None
    names: tuple[str, ...] | None = None
    first_number: int = 0
    more: Mapping[str, str] = dataclasses.field(default_factory=dict)
    keypoints: Mapping[str, str] = dataclasses.field(default_factory=dict)
    object_masks: str | None = None
    frame: str | None = None
    captions: str | None = None
    class_mask: str | None = None
    mask_depth: int | None = None
    mask_names: tuple[str, ...] = ()
    left_out: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.corners and self.text is None and self.number is None:
            raise ConfigError(
                f"{self.corners[0]!r} has boxes without classes: expected a feature {_TEXT!r} or"
                f" {_NUMBER!r}; leave the boxes out with"
                f" {option_name('drop_columns', ','.join(sorted(self.used)))}"
            )

    @property
    def has_objects(self) -> bool:
        return bool(self.corners)

    @property
    def used(self) -> set[str]:
        """Names of the features that do not become columns of the record."""
        single = (self.text, self.number, self.object_masks, self.frame, self.captions)
        named = {name for name in (*single, self.class_mask) if name is not None}
        return named.union(self.corners, self.more.values(), self.keypoints.values(), self.left_out)

    @property
    def masks(self) -> dict[str, bool]:
        """Return {feature of masks: whether it may hold several}."""
        found = {self.class_mask: False, self.object_masks: True}
        return {name: several for name, several in found.items() if name is not None}

    def fields(self, types: ColumnTypes) -> list[pa.Field]:
        """Return the fields of the features to read. types: of those of `more`, at least."""
        found = [pa.field(name, _FLOATS) for name in self.corners]
        for name, kind in (
            (self.text, _TEXTS),
            (self.number, _INTS),
            (self.frame, _FLOATS),
            (self.captions, _TEXTS),
        ):
            found += [] if name is None else [pa.field(name, kind)]
        found += [pa.field(name, _POINTS[what]) for what, name in self.keypoints.items()]
        return found + [pa.field(name, pa.list_(kind)) for name, kind in self._kinds(types).items()]

    def schema(self, types: ColumnTypes) -> pa.Schema:
        """Return the schema of the annotations, given the types of the features of `more`."""
        found = []
        if self.has_objects:
            kinds = self._kinds(types)
            more = [(field, kinds[name]) for field, name in self.more.items() if name in kinds]
            wide = {pa.float32(): pa.float64()}
            fields = [pa.field(n, wide.get(kind, kind)) for n, kind in more]
            found.append(objects_field([*fields, *([KEYPOINTS] if self.keypoints else [])]))
            found.append(SIDES_FIELD)
        found += [] if self.captions is None else [CAPTIONS_FIELD]
        found += [] if self.frame is None else [SEGMENTATION_FRAME_FIELD]
        found += [] if self.class_mask is None else [*MASK_COLUMNS]
        found += [] if self.object_masks is None else [*OBJECT_MASK_COLUMNS]
        return pa.schema(found)

    def _kinds(self, types: ColumnTypes) -> dict[str, pa.DataType]:
        """Return {feature of `more`: type of its values}, without those that are always empty."""
        found = {}
        for field, name in self.more.items():
            declared = _DECLARED.get(field)
            held = types[name].types if name in types else ()
            if declared is not None:
                found[name] = declared
            elif held:
                found[name] = held[0].value_type if is_list(held[0]) else held[0]
        return found

    def read(
        self,
        rows: pa.RecordBatch,
        schema: pa.Schema,
        masks: Mapping[str, Sequence[pa.Array]],
        numbers: dict[str, int],
    ) -> tuple[list[pa.Array], list[InvalidRows]]:
        """Return the columns of the annotations of records, and the records to reject.

        rows: with the columns of `fields`. schema: of the result. masks: {feature of masks: their
          references in columns as `MASK_COLUMNS`}.
        numbers: {class of objects: its number}, to which those of the records are added.
        """
        columns: list[pa.Array] = []
        faults: list[InvalidRows] = []
        if self.has_objects:
            objects, faults = self._objects(rows, schema.field(0).type.value_type, numbers)
            columns += [objects, pa.nulls(len(rows), SIDES_FIELD.type)]
        if self.captions is not None:
            columns.append(pc.fill_null(rows[self.captions], []))
        if self.frame is not None:
            columns.append(rows[self.frame].cast(SEGMENTATION_FRAME_FIELD.type))
            wrong = _counts(rows[self.frame]) % 6 != 0
            faults.append(InvalidRows(wrong, functools.partial(_six_numbers, self.frame)))
        for name in self.masks:
            columns += masks[name]
        return columns, faults

    def _objects(
        self, rows: pa.RecordBatch, kind: pa.StructType, numbers: dict[str, int]
    ) -> tuple[pa.Array, list[InvalidRows]]:
        per_box = 4 if len(self.corners) == 1 else 1
        counts = _counts(rows[self.corners[0]])
        boxes = counts // per_box
        lists = [*self.corners, *(n for n in (self.text, self.number) if n is not None)]
        lists += [name for name in self.more.values() if name in rows.schema.names]
        faults = []
        sound = np.ones(len(rows), np.bool_)
        if self.keypoints:
            lists.append(self.keypoints["num"])
            sound &= ~(wrong := self._misplaced(rows))
            faults.append(InvalidRows(wrong, functools.partial(_uneven_keypoints, self.keypoints)))
        for name in lists:
            found = _counts(rows[name])
            wrong = found != boxes * (per_box if name in self.corners else 1)
            sound &= ~wrong
            faults.append(InvalidRows(wrong, functools.partial(_count_problem, name, boxes, found)))
        mask = pa.array(sound)
        values = {name: rows[name].filter(mask).flatten() for name in lists}
        owners = np.repeat(np.flatnonzero(sound), boxes[sound])
        corners = _corners([np.asarray(values[name], np.float64) for name in self.corners])
        classes, unknown = self._classes(values, numbers)
        for problems in (_outside(corners), unknown):
            rejected = np.zeros(len(rows), np.bool_)
            rejected[owners[[*problems]]] = True
            first = {int(owners[at]): why for at, why in reversed(problems.items())}
            faults.append(InvalidRows(rejected, _of_mapping(first)))
        arrays = [*(pa.array(corner) for corner in corners), classes]
        for field in [*kind][len(BOX_FIELDS) :]:
            if field == KEYPOINTS:
                arrays.append(self._keypoints_of(rows.filter(mask)))
                continue
            array = values[self.more[field.name]]
            if field.type == pa.string():  # an empty text stands for none
                array = pc.if_else(pc.equal(array, ""), pa.scalar(None, pa.string()), array)
            arrays.append(array.cast(field.type))
        structs = pa.StructArray.from_arrays(arrays, fields=[*kind])
        edges = np.append(0, np.cumsum(np.where(sound, boxes, 0))).astype(np.int32)
        return pa.ListArray.from_arrays(pa.array(edges), structs), faults

    def _misplaced(self, rows: pa.RecordBatch) -> npt.NDArray[np.bool_]:
        """Return the rows whose keypoints are not as many as their objects have, bool[n]."""
        nums = rows[self.keypoints["num"]].to_pylist()
        totals = np.array([sum(one or ()) for one in nums], np.int64)
        wrong = np.array([min(one or (0,)) < 0 for one in nums], np.bool_)
        for what, name in self.keypoints.items():
            wrong |= (what != "num") & (_counts(rows[name]) != totals)
        return wrong

    def _keypoints_of(self, rows: pa.RecordBatch) -> pa.Array:
        """Return the keypoints of each object of rows, as in `model.annotations.KEYPOINTS`."""
        found = {what: rows[name].flatten() for what, name in self.keypoints.items()}
        names = found["text"].to_pylist()
        numbers = np.stack([np.asarray(found[one], np.float64) for one in _NUMBERS], axis=1)
        ends = np.cumsum(np.asarray(found["num"], np.int64)).tolist()
        texts = [
            to_text([names[start:end], numbers[start:end].ravel().tolist()])
            if end > start
            else None
            for start, end in zip([0, *ends], ends, strict=False)
        ]
        return pa.array(texts, pa.string())

    def _classes(
        self, values: Mapping[str, pa.Array], numbers: dict[str, int]
    ) -> tuple[pa.Array, dict[int, str]]:
        """Return the class of each object, and {object without a valid one: why}."""
        if self.text is not None:
            names = values[self.text]
            codes = names.dictionary_encode()
            problems = [label_problem(name or "") for name in codes.dictionary.to_pylist()]
            problems = [
                "an object without a class" if not name else problem
                for name, problem in zip(codes.dictionary.to_pylist(), problems, strict=True)
            ]
            if self.number is not None and self.names is None:
                valid = [problem is None for problem in problems]
                known = pc.take(pa.array(valid, pa.bool_()), codes.indices)
                collect_numbers(pc.if_else(known, names, None), values[self.number], numbers)
        else:
            assert self.number is not None
            codes = values[self.number].dictionary_encode()
            held = codes.dictionary.to_pylist()
            problems = [self._number_problem(number) for number in held]
            texts = [self._name(number) for number in held]
            numbers.update(zip(texts, held, strict=True))
            names = pa.array(texts, pa.string()).take(codes.indices)
        wrong = [code for code, problem in enumerate(problems) if problem is not None]
        at = np.flatnonzero(np.isin(np.asarray(codes.indices), wrong)).tolist() if wrong else []
        return names, {n: str(problems[codes.indices[n].as_py()]) for n in at}

    def _number_problem(self, number: int) -> str | None:
        if self.names is None or 0 <= number < len(self.names):
            return None
        return (
            f"feature {self.number!r}: expected the number of one of {len(self.names)} classes for"
            f" each object, got {number}"
        )

    def _name(self, number: int) -> str:
        if self.names is None or self._number_problem(number) is not None:
            return str(number)
        return self.names[number]

    def class_numbers(self, found: Mapping[str, int]) -> Mapping[str, int]:
        """Return {class: number}, sorted by number. found: as `read` has collected."""
        if self.names is not None:
            return {name: n for n, name in enumerate(self.names, start=self.first_number)}
        return {name: found[name] for name in sorted(found, key=lambda name: (found[name], name))}


def find_pixel_features(
    names: Collection[str], standard: Mapping[str, str] | None = None
) -> PixelFeatures | None:
    """Return the features that belong to the pixels, by their names; None without any.

    standard: {name: standard name} of features with other names.

    Raises:
      ConfigError: boxes lack a corner or their classes, or a feature cannot be moved.
    """
    named = {(standard or {}).get(name, name): name for name in names}
    objects = [name for name in named if name.startswith(OBJECT)]
    if not objects and CLASS_MASK not in named:
        return None
    lacking = [name for name in _CORNERS if name not in named] if objects else []
    if lacking:
        raise ConfigError(
            f"{objects[0]!r} belongs to an object, and records have no feature {lacking[0]!r}:"
            f" expected {', '.join(_CORNERS)}; or leave the objects out with"
            f" {option_name('drop_columns', ','.join(named[name] for name in objects))}"
        )
    keypoints = {one: f"{OBJECT}keypoint/{one}" for one in _POINTS}
    has_keypoints = named.keys() >= {*keypoints.values()}
    roles = {*_CORNERS, _TEXT, _NUMBER, _MASKS, _FRAME}
    roles |= {*keypoints.values()} if has_keypoints else set()
    return PixelFeatures(
        corners=tuple(named[name] for name in _CORNERS) if objects else (),
        text=named.get(_TEXT),
        number=named.get(_NUMBER),
        more={n.removeprefix(OBJECT): named[n] for n in sorted(objects) if n not in roles},
        keypoints={one: named[name] for one, name in keypoints.items()} if has_keypoints else {},
        object_masks=named.get(_MASKS),
        frame=named.get(_FRAME),
        captions=named.get(CAPTION) if objects else None,
        class_mask=named.get(CLASS_MASK),
        left_out=frozenset({named[MASK_FORMAT]} if MASK_FORMAT in named else ()),
    )


def _counts(lists: pa.Array) -> Edges:
    """Return the length of each list, 0 for a missing one."""
    return np.asarray(pc.fill_null(pc.list_value_length(lists), 0)).astype(np.int64)


def _corners(found: Sequence[npt.NDArray[np.float64]]) -> Sequence[npt.NDArray[np.float64]]:
    if len(found) > 1:
        return found
    return [*found[0].reshape(-1, 4)[:, _YX].T]


def _outside(corners: Sequence[npt.NDArray[np.float64]]) -> dict[int, str]:
    """Return {object with a corner that is no fraction: why}."""
    boxes = np.stack(corners, axis=1)
    fits = (boxes >= -ROUNDING) & (boxes <= 1 + ROUNDING)  # NaN does not
    wrong = np.flatnonzero(~fits.all(axis=1))
    return {
        int(
            at
        ): f"box {', '.join(f'{one:g}' for one in boxes[at])}: expected xmin, ymin, xmax, ymax"
        " as fractions of width and height, from 0 to 1"
        for at in wrong
    }


def _count_problem(name: str, boxes: Edges, found: Edges, row: int) -> RejectCause:
    what = f"feature {name!r}: expected values for {boxes[row]} boxes, got {found[row]}"
    return RejectCause(Reason.BAD_VALUE, what)


def _uneven_keypoints(names: Mapping[str, str], row: int) -> RejectCause:
    del row
    what = f"feature {names['num']!r} and the other features of keypoints differ in their number"
    return RejectCause(Reason.BAD_VALUE, what)


def _six_numbers(name: str, row: int) -> RejectCause:
    del row
    return RejectCause(Reason.BAD_VALUE, f"feature {name!r}: expected 6 numbers")


def _of_mapping(problems: Mapping[int, str]) -> Callable[[int], RejectCause]:
    return lambda row: RejectCause(Reason.BAD_VALUE, problems[row])
