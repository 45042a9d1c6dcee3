"""Source of annotated images: a listing of files, joined with annotations.

Annotations match an image by the longest suffix of its path that they name: for the image
/data/coco/val/7.jpg these are the annotations of val/7.jpg, or else of 7.jpg.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.job.input_facts import InputFacts
from recordmill.notes import LEFT_UNREAD, LeftUnread, Note, count_of
from recordmill.storage.members import MARK
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.annotations import (
    OBJECTS,
    Annotated,
    AnnotationReader,
    FileReader,
)
from recordmill.transforms.model.source import ListingPart, Source
from recordmill.transforms.sources.annotations.object_labels import ObjectLabels, ObjectRules
from recordmill.transforms.sources.annotations.path_index import PathIndex
from recordmill.transforms.sources.files.other_kinds import is_archive

Unannotated = Literal["reject", "keep", "drop"]

_COUNTED = 1 << 12  # images counted at a time
_NAMED = 5  # images named in a note
_SHOWN = 3  # names in a message
_NO_RULES = ObjectRules()
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
    rules: for images with objects.
    """

    files: Source
    open_annotations: Callable[[], AnnotationReader]
    where: str
    wording: Wording = Wording()
    unannotated: Unannotated = "reject"
    rules: ObjectRules = _NO_RULES

    def __post_init__(self) -> None:
        if self.unannotated not in get_args(Unannotated):
            raise ConfigError(
                f"{self.wording.keep}: expected one of {', '.join(get_args(Unannotated))}, got"
                f" {self.unannotated!r}"
            )

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files with their annotations.

        Raises:
          ConfigError: annotations cannot be parsed, or match no image.
        """
        annotations, index, files = self._open()
        notes = [*map(self._note, annotations.notes)]
        objects, found = self._objects(annotations), _Join()
        joined = 0
        for listed in files:
            rejects = _without_own_rejects(listed.rejects, annotations)
            own = len(listed.rejects) - len(rejects)
            for reject in rejects:
                index.see(reject.key)
            rows = listed.rows
            if rows is not None:
                rows, among = _without_own(rows, annotations)
                own += among
            filtered = {**listed.filtered, **({MASKS: own} if own else {})}
            yield dataclasses.replace(listed, rows=None, rejects=rejects, filtered=filtered)
            if rows is None:
                continue
            for part in self._join(rows, annotations, index, objects, found):
                joined += 0 if part.rows is None else len(part.rows)
                yield part
        if not joined and not index.found:
            raise ConfigError(self._no_match_message(annotations, index, found))
        unmatched = [
            Reject(
                name,
                "read",
                Reason.MISSING,
                f"{self.where} names it, but no image has a path that ends with this name"
                f"{index.near_image(name)}",
            )
            for name in index.unused()
        ]
        yield ListingPart(rejects=[*annotations.rejects, *unmatched])
        has_objects = OBJECTS in annotations.fields.names
        facts = InputFacts(labels=objects.classes(annotations.labels()) if has_objects else None)
        notes += [*found.unread.notes(), *objects.notes(self.where), *self._blank_notes(found)]
        yield ListingPart(notes=notes, facts=facts)

    def _note(self, text: str) -> Note:
        """Return a text about the annotations as a note."""
        code = text.code if isinstance(text, Note) else "annotations"
        return Note(code, text if code == LEFT_UNREAD else f"{self.where}: {text}")

    def _blank_notes(self, found: _Join) -> Iterator[Note]:
        """Yield a note on the images without annotations that are not rejected."""
        if not found.blank or self.unannotated == "reject":
            return
        became = "were dropped" if self.unannotated == "drop" else f"have no {self.wording.parts}"
        if found.blank == 1:
            became = "was dropped" if self.unannotated == "drop" else f"has no {self.wording.parts}"
        more = ", ..." if found.blank > _NAMED else ""
        text = f"{count_of(found.blank, 'image')} without {self.wording.noun} in {self.where}"
        yield Note("annotations", f"{text} {became}: {_quoted(found.examples)}{more}")

    def _index(self, annotations: AnnotationReader) -> PathIndex:
        return PathIndex(annotations, f"{self.wording.option} {self.where}", self.wording.noun)

    def _open(self) -> tuple[AnnotationReader, PathIndex, Iterator[ListingPart]]:
        """Return the annotations, their index, and the files.

        If no image matches a file of annotations, and these are all in one folder, names are
        compared without it. The files are held in memory until one matches.

        Raises:
          ConfigError: images match only without the folder, whose name is not a usual one for
            annotations: it may be one of several classes.
        """
        annotations = self.open_annotations()
        index, files = self._index(annotations), self.files.scan()
        if not isinstance(annotations, FileReader) or annotations.folder is None:
            return annotations, index, files
        held: list[ListingPart] = []
        for part in files:
            held.append(part)
            if any(map(index.has, _paths_of(part))):
                return annotations, index, itertools.chain(held, files)
        shorter = annotations.without_folder()
        by_shorter = self._index(shorter)
        if not any(by_shorter.has(path) for part in held for path in _paths_of(part)):
            return annotations, index, iter(held)
        if annotations.folder_is_known:
            return shorter, by_shorter, iter(held)
        unpack = f"unpack {self.where}, and " if is_archive(self.where) else ""
        raise ConfigError(
            f"no image of the input matches the {self.wording.noun} {self.where}: they are all in"
            f" the folder {annotations.folder!r}, which is not in the paths of images: {unpack}pass"
            f" this folder as {self.wording.option}"
        )

    def _objects(self, annotations: AnnotationReader) -> ObjectLabels:
        """Return what labels images; their objects are counted before, if rules need it."""
        found = ObjectLabels(self.rules)
        if self.rules.need_counts and OBJECTS in annotations.fields.names:
            for start in range(0, len(annotations.names), _COUNTED):
                which = np.arange(start, min(start + _COUNTED, len(annotations.names)))
                found.count(annotations.read(which).columns)
            found.end_count()
        return found

    def _join(
        self,
        rows: pa.RecordBatch,
        annotations: AnnotationReader,
        index: PathIndex,
        objects: ObjectLabels,
        found: _Join,
    ) -> Iterator[ListingPart]:
        keys, paths = (rows[name].to_pylist() for name in (batch.KEY, batch.PATH))
        paths = [_plain(path) for path in paths]
        at = [index.find(path, key=key) for key, path in zip(keys, paths, strict=True)]
        places = np.array(at, np.int64)
        known = np.flatnonzero(places >= 0)
        step = limits.PART_ROWS
        rejects: list[Reject] = []
        blank = [row for row, one in enumerate(at) if one == -1]
        found.blank += len(blank)
        found.examples += [keys[row] for row in blank[: _NAMED - len(found.examples)]]
        if self.unannotated == "reject":
            why = f"no {self.wording.noun} in {self.where}"
            end = f"; {self.wording.keep} keep or drop allows this"
            rejects = [
                Reject(keys[row], "read", Reason.UNLABELLED, why + index.nearest(keys[row]) + end)
                for row in blank
            ]
        filtered = {"unannotated": len(blank)} if blank and self.unannotated == "drop" else {}
        yield ListingPart(rejects=rejects, filtered=filtered)
        for start in range(0, len(known), step):
            chosen = known[start : start + step]
            annotated = annotations.read(places[chosen])
            found.unread.merge(annotated.unread)
            yield from _annotate(rows.take(pa.array(chosen)), annotated, objects)
        if blank and self.unannotated == "keep":
            nothing = pa.RecordBatch.from_arrays(
                [_empty(field, len(blank)) for field in annotations.fields],
                schema=annotations.fields,
            )
            yield from objects.finish(rows.take(pa.array(blank)), nothing)

    def _no_match_message(
        self, annotations: AnnotationReader, index: PathIndex, found: _Join
    ) -> str:
        some = _quoted(annotations.names[:_SHOWN]) or "no image"
        images = found.examples[:_SHOWN]
        near = next(filter(None, map(index.near_image, annotations.names)), "")
        return (
            f"no image of the input matches the {self.wording.noun} {self.where}: they name {some}"
            + (f", and the images are {_quoted(images)}" if images else "")
            + f"; the path of an image must end with such a name{near}{self.wording.remedy}"
        )


@dataclasses.dataclass
class _Join:
    """Findings of a join, for notes and messages.

    Attributes:
      unread: Parts of the annotations that are not read.
      blank: Number of images without annotations.
      examples: Keys of some of these images.
    """

    unread: LeftUnread = dataclasses.field(default_factory=LeftUnread)
    blank: int = 0
    examples: list[str] = dataclasses.field(default_factory=list)


def _paths_of(part: ListingPart) -> Iterator[str]:
    """Yield the paths of images, and the keys of rejected ones."""
    if part.rows is not None:
        yield from map(_plain, part.rows[batch.PATH].to_pylist())
    yield from (reject.key for reject in part.rejects)


def _plain(path: str) -> str:
    """Return a path, also of a reference to a member of an archive, with slashes only."""
    return path.replace(MARK, "/")


def _annotate(
    rows: pa.RecordBatch, annotated: Annotated, objects: ObjectLabels
) -> Iterator[ListingPart]:
    """Yield rows with their annotations; those with invalid annotations are rejected."""
    faults = {**objects.faults(annotated.columns), **annotated.faults}
    if not faults:
        yield from objects.finish(rows, annotated.columns)
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
    yield from objects.finish(rows.filter(mask), annotated.columns.filter(mask))


def _without_own(rows: pa.RecordBatch, annotations: AnnotationReader) -> tuple[pa.RecordBatch, int]:
    """Return the rows that are no files of the annotations, and the number of the others."""
    if not isinstance(annotations, FileReader) or annotations.paths is None:
        return rows, 0
    others = rows.filter(pc.invert(pc.is_in(rows[batch.PATH], value_set=annotations.paths)))
    return others, len(rows) - len(others)


def _without_own_rejects(
    rejects: Sequence[Reject], annotations: AnnotationReader
) -> Sequence[Reject]:
    """Return the rejects, except unlabelled files of the annotations: these need no label."""
    if not isinstance(annotations, FileReader) or not annotations.keys:
        return rejects
    own = annotations.keys
    return [one for one in rejects if one.reason != Reason.UNLABELLED or one.key not in own]


def _empty(field: pa.Field, count: int) -> pa.Array:
    """Return a column for images without annotations: no objects, no captions, no size."""
    if pa.types.is_list(field.type):
        return pa.array([[]] * count, field.type)
    return pa.nulls(count, field.type)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
