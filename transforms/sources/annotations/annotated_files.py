"""Source of annotated images: a listing of files, joined with annotations.

Annotations match an image by the longest suffix of its path that they name: for the image
/data/coco/val/7.jpg these are the annotations of val/7.jpg, or else of 7.jpg.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.notes import Note, count_of, notes_of
from recordmill.storage.members import MARK
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.annotations import (
    BOX_FIELDS,
    CLASS,
    OBJECTS,
    AnnotationReader,
    FileReader,
)
from recordmill.transforms.model.label_sets import (
    ImageClass,
    LabelCounts,
    LabelSet,
    largest,
    rarest,
    sets_of,
    strata,
)
from recordmill.transforms.model.source import (
    InformedSource,
    ListingPart,
    PresplitSource,
    Source,
    notes_of_source,
)
from recordmill.transforms.sources.annotations.path_index import PathIndex

Unannotated = Literal["reject", "keep", "drop"]
WithoutBoxes = Literal["keep", "drop"]

_COUNTED = 1 << 12  # images counted at a time
_NAMED = 5  # images named in a note
MASKS = "masks"  # filter reason of masks among the images


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wording:
    """Names of annotations in messages.

    option: names the annotations. keep: decides about images without them. noun: the annotations.
    parts: the parts that images without them lack. remedy: end of the message if none matches.
    """

    option: str = "--annotations"
    keep: str = "--unannotated"
    noun: str = "annotations"
    parts: str = "boxes"
    remedy: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedFiles:
    """Lists the files of a source with their annotations.

    files: source of references.
    open_annotations: returns the annotations.
    where: name of the annotations in messages.
    wording: names of the annotations and of their options in messages.
    unannotated: whether to reject, keep or drop images without annotations.
    without_boxes: whether to keep or drop images without objects.
    classes: allowed classes in the order of their numbers; by default those of the annotations.
    image_class: which class of its objects becomes the class of an image.
    with_classes: whether rows list all classes of an image, if its class is the rarest.
    stratum_size: minimum number of images of a stratum; None if splits are not stratified.
    """

    files: Source
    open_annotations: Callable[[], AnnotationReader]
    where: str
    wording: Wording = Wording()
    unannotated: Unannotated = "reject"
    without_boxes: WithoutBoxes = "keep"
    classes: tuple[str, ...] | None = None
    image_class: ImageClass | None = None
    with_classes: bool = False
    stratum_size: int | None = None
    _found: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, known in (("unannotated", Unannotated), ("without_boxes", WithoutBoxes)):
            if getattr(self, name) not in get_args(known):
                flag = self.wording.keep if name == "unannotated" else "--without-boxes"
                raise ConfigError(
                    f"{flag}: expected one of {', '.join(get_args(known))}, got"
                    f" {getattr(self, name)!r}"
                )

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    @property
    def notes(self) -> tuple[Note, ...]:
        """Notes of the annotations, and on the images without annotations that are not rejected."""
        texts = (f"{self.where}: {note}" for note in self._found.get("notes", ()))
        notes = (*notes_of_source(self.files), *notes_of("annotations", texts))
        if repeated := self._found.get("repeated", 0):
            repeats = f"{count_of(repeated, 'box', 'boxes')} in {self.where}"
            repeats += f" {'repeats' if repeated == 1 else 'repeat'} a box of the same class and"
            repeats += f" image, such as in {self._found['of_repeated']!r}, and are kept"
            notes = (*notes, Note("annotations", repeats))
        names: list[str] = self._found.get("unannotated", [])
        count: int = self._found.get("count", 0)
        if not count:
            return notes
        became = "were dropped" if self.unannotated == "drop" else f"have no {self.wording.parts}"
        if count == 1:
            became = "was dropped" if self.unannotated == "drop" else f"has no {self.wording.parts}"
        more = ", ..." if count > len(names) else ""
        text = f"{count_of(count, 'image')} without {self.wording.noun} in {self.where} {became}"
        text += f": {_quoted(names)}{more}"
        return (
            *notes,
            Note("annotations", text),
        )

    @property
    def split_source(self) -> str | None:
        """The part of the input that assigns images to splits, None if nothing does."""
        return self.files.split_source if isinstance(self.files, PresplitSource) else None

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes of objects in the order of their numbers, None without objects."""
        labels: tuple[str, ...] | None = self._found.get("labels")
        if labels is None and isinstance(self.files, InformedSource):
            return self.files.labels
        return labels

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files with their annotations.

        Raises:
          ConfigError: annotations cannot be parsed, or match no image.
        """
        self._found.clear()
        annotations = self.open_annotations()
        self._found["notes"] = annotations.notes
        index = PathIndex(annotations, f"{self.wording.option} {self.where}", self.wording.noun)
        self._count(annotations)
        joined = 0
        for listed in self.files.scan():
            for reject in listed.rejects:
                index.see(reject.key)
            if listed.rows is None:
                yield listed
                continue
            rows, own = _without_own(listed.rows, annotations)
            filtered = {**listed.filtered, **({MASKS: own} if own else {})}
            yield dataclasses.replace(listed, rows=None, filtered=filtered)
            for part in self._join(rows, annotations, index):
                joined += 0 if part.rows is None else len(part.rows)
                yield part
        if not joined and not index.found:
            raise ConfigError(self._no_match_message(annotations))
        unmatched = [
            Reject(
                name,
                "read",
                Reason.MISSING,
                f"{self.where} names it, but the input has no such image",
            )
            for name in index.unused()
        ]
        yield ListingPart(rejects=[*annotations.rejects, *unmatched])
        if OBJECTS in annotations.fields.names:
            self._found["labels"] = self.classes or annotations.labels()

    def _count(self, annotations: AnnotationReader) -> None:
        """Count classes and sets of classes in a pass over the annotations, if options need it."""
        wanted = self.image_class == "rarest" or self.stratum_size is not None
        if not wanted or OBJECTS not in annotations.fields.names:
            return
        counts = LabelCounts()
        for start in range(0, len(annotations.names), _COUNTED):
            which = np.arange(start, min(start + _COUNTED, len(annotations.names)))
            counts.add(sets_of(annotations.read(which).columns))
        self._found["counts"] = counts
        if self.stratum_size is not None:
            self._found["strata"] = strata({(): 0, **counts.by_set}, least=self.stratum_size)

    def _count_repeated(self, keys: pa.Array, objects: pa.ListArray) -> None:
        """Count the boxes that repeat a box of the same class in their image."""
        boxes, images = objects.flatten(), pc.list_parent_indices(objects)
        columns = [boxes.field(number) for number in range(len(BOX_FIELDS))]
        table = pa.table([images, *columns], ["image", *(field.name for field in BOX_FIELDS)])
        same = table.group_by(table.column_names).aggregate([([], "count_all")])
        several = same.filter(pc.greater(same["count_all"], 1))
        if len(several):
            count = pc.sum(several["count_all"]).as_py() - len(several)
            self._found["repeated"] = self._found.get("repeated", 0) + count
            name = keys[pc.min(several["image"]).as_py()].as_py()
            self._found.setdefault("of_repeated", name)

    def _classify(self, columns: pa.RecordBatch) -> dict[str, pa.Array]:
        """Return the columns for the classes of images: the label, nullable string[n].

        With options, also all classes of each image and its stratum.
        """
        counts: LabelCounts | None = self._found.get("counts")
        labels: Sequence[str | None] = [None] * len(columns)
        if self.image_class == "largest":
            labels = largest(columns)
        if counts is None:
            return {batch.LABEL: pa.array(labels, pa.string())}
        sets = sets_of(columns)
        if self.image_class == "rarest":
            labels = rarest(sets, counts)
        found = {batch.LABEL: pa.array(labels, pa.string())}
        if self.with_classes and self.image_class == "rarest":
            found[batch.CLASSES] = pa.array(sets, pa.list_(pa.string()))
        alike: Mapping[LabelSet, str] | None = self._found.get("strata")
        if alike is not None:
            found[batch.STRATUM] = pa.array([alike[one] for one in sets], pa.string())
        return found

    def _join(
        self, rows: pa.RecordBatch, annotations: AnnotationReader, index: PathIndex
    ) -> Iterator[ListingPart]:
        keys, paths = (rows[name].to_pylist() for name in (batch.KEY, batch.PATH))
        paths = [path.replace(MARK, "/") for path in paths]  # in references to members of archives
        at = [index.find(path, key=key) for key, path in zip(keys, paths, strict=True)]
        places = np.array(at, np.int64)
        known = np.flatnonzero(places >= 0)
        step = limits.BATCH_ROWS
        rejects: list[Reject] = []
        blank = [row for row, one in enumerate(at) if one == -1]
        if self.unannotated == "reject":
            why = f"no {self.wording.noun} in {self.where}; {self.wording.keep} keep or drop allows"
            why += " this"
            rejects = [Reject(keys[row], "read", Reason.UNLABELLED, why) for row in blank]
        elif blank:
            self._found["count"] = self._found.get("count", 0) + len(blank)
            names = self._found.setdefault("unannotated", [])
            names += [keys[row] for row in blank[: _NAMED - len(names)]]
        filtered = {"unannotated": len(blank)} if blank and self.unannotated == "drop" else {}
        yield ListingPart(rejects=rejects, filtered=filtered)
        for start in range(0, len(known), step):
            chosen = known[start : start + step]
            yield from self._annotate(rows.take(pa.array(chosen)), places[chosen], annotations)
        if blank and self.unannotated == "keep":
            nothing = pa.RecordBatch.from_arrays(
                [_empty(field, len(blank)) for field in annotations.fields],
                schema=annotations.fields,
            )
            yield from self._finish(rows.take(pa.array(blank)), nothing)

    def _annotate(
        self, rows: pa.RecordBatch, which: Any, annotations: AnnotationReader
    ) -> Iterator[ListingPart]:
        annotated = annotations.read(which)
        faults = {**self._unknown(annotated.columns), **annotated.faults}
        if not faults:
            yield from self._finish(rows, annotated.columns)
            return
        keys = rows[batch.KEY]
        rejects = [
            Reject(keys[row].as_py(), "read", Reason.BAD_VALUE, why)
            for row, why in sorted(faults.items())
        ]
        yield ListingPart(rejects=rejects)
        sound = np.ones(len(rows), np.bool_)
        sound[list(faults)] = False
        mask = pa.array(sound)
        yield from self._finish(rows.filter(mask), annotated.columns.filter(mask))

    def _unknown(self, columns: pa.RecordBatch) -> dict[int, str]:
        """Return the images with an object of a class that is not allowed, as {row: why}."""
        if self.classes is None or OBJECTS not in columns.schema.names:
            return {}
        objects = columns[OBJECTS]
        names = objects.flatten().field(CLASS)
        strange = pc.invert(pc.is_in(names, value_set=pa.array(self.classes, pa.string())))
        rows = np.asarray(pc.list_parent_indices(objects))
        return {
            int(rows[at]): f"an object of class {names[at].as_py()!r}, which is not in the labels"
            " file"
            for at in np.flatnonzero(np.asarray(strange)).tolist()
        }

    def _no_match_message(self, annotations: AnnotationReader) -> str:
        some = _quoted(annotations.names[:3]) or "no image"
        return (
            f"no image of the input matches the {self.wording.noun} {self.where}: they name {some};"
            f" the path of an image must end with such a name{self.wording.remedy}"
        )

    def _finish(self, rows: pa.RecordBatch, columns: pa.RecordBatch) -> Iterator[ListingPart]:
        """Yield rows with their annotations, in parts of about `limits.PART_BYTES`."""
        if OBJECTS in columns.schema.names:
            self._count_repeated(rows[batch.KEY], columns[OBJECTS])
            if batch.LABELS in rows.schema.names:
                rows = rows.drop_columns([batch.LABELS])
            for name, values in self._classify(columns).items():  # replaces labels of folders
                rows = batch.set_column(rows, name, values)
        joined = pa.record_batch(
            [*rows.columns, *columns.columns], schema=pa.schema([*rows.schema, *columns.schema])
        )
        if self.without_boxes == "drop" and OBJECTS in columns.schema.names:
            some = pc.greater(pc.list_value_length(columns[OBJECTS]), 0)
            dropped = len(joined) - pc.sum(some).as_py() if len(joined) else 0
            joined = joined.filter(some)
            if dropped:
                yield ListingPart(filtered={"without-boxes": dropped})
        parts = max(-(-joined.nbytes // limits.PART_BYTES), 1)
        step = max(-(-len(joined) // parts), 1)
        for start in range(0, len(joined), step):
            yield ListingPart(rows=joined.slice(start, step))


def _without_own(rows: pa.RecordBatch, annotations: AnnotationReader) -> tuple[pa.RecordBatch, int]:
    """Return the rows that are no files of the annotations, and the number of the others."""
    if not isinstance(annotations, FileReader) or annotations.paths is None:
        return rows, 0
    others = rows.filter(pc.invert(pc.is_in(rows[batch.PATH], value_set=annotations.paths)))
    return others, len(rows) - len(others)


def _empty(field: pa.Field, count: int) -> pa.Array:
    """Return a column for images without annotations: no objects, no captions, no size."""
    if pa.types.is_list(field.type):
        return pa.array([[]] * count, field.type)
    return pa.nulls(count, field.type)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
