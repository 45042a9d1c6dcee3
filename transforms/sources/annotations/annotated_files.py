"""Source of annotated images: a listing of files, joined with annotations.

Annotations match an image by the longest suffix of its path that they name: for the image
/data/coco/val/7.jpg these are the annotations of val/7.jpg, or else of 7.jpg.
"""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.job.input_facts import InputFacts
from recordmill.notes import LEFT_UNREAD, LeftUnread, Note, count_of
from recordmill.storage.members import Member
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import OBJECTS, Indices
from recordmill.transforms.model.label_rules import left_out_by_split
from recordmill.transforms.model.source import ListingPart, Source
from recordmill.transforms.sources.annotations.formats.annotation_table import AnnotationReader
from recordmill.transforms.sources.annotations.formats.named_images import (
    declared_notes,
    has_split,
    with_splits,
)
from recordmill.transforms.sources.annotations.object_labels import ObjectLabels, ObjectRules
from recordmill.transforms.sources.files.file_stat import RejectCause
from recordmill.transforms.sources.files.other_kinds import is_archive
from recordmill.transforms.sources.folders.path_matcher import (
    PathMatcher,
    find_affixes,
    path_to_match,
)

Unannotated = Literal["reject", "keep", "drop"]
Absent = Literal["reject", "drop"]

_COUNTED = 1 << 12  # images counted at a time
_SHOWN = 3  # names in a message
_AMBIGUOUS = 0.5  # largest fraction of annotations whose images are rejected as ambiguous
_PLACED = (batch.PATH, batch.SPLIT)
_NO_RULES = ObjectRules()
_REPLACING = frozenset((OBJECTS, batch.LABEL, batch.LABELS))  # columns instead of labels of folders
_SEVERAL_EACH = 1.5  # least number of annotations per image, if images have several each
MASKS = "masks"  # filter reason of masks among the images


@dataclasses.dataclass(frozen=True, kw_only=True)
class Wording:
    """Names of annotations in messages.

    option: names the annotations. keep: decides about images without them. absent: allows
    annotations without images, if an option does. noun: the annotations. parts: the parts that
    images without them lack. remedy: end of the message if none matches. affix: option for
    prefixes and suffixes of names, if there is one; the message then ends with advice on it.
    """

    option: str = "--annotations"
    keep: str = "--unannotated"
    absent: str = "--absent-images drop"
    noun: str = "annotations"
    parts: str = "boxes"
    remedy: str = ""
    affix: str = ""


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedFiles:
    """Lists the files of a source with their annotations.

    files: source of references.
    open_annotations: returns the annotations.
    where: name of the annotations in messages.
    wording: names of the annotations and of their options in messages.
    unannotated: whether to reject, keep or drop images without annotations.
    absent: whether to reject or drop annotations without images.
    rules: for images with objects.
    splits_given: whether an option says where splits come from; no note names others then.
    """

    files: Source
    open_annotations: Callable[[], AnnotationReader]
    where: str
    wording: Wording = Wording()
    unannotated: Unannotated = "reject"
    absent: Absent = "reject"
    rules: ObjectRules = _NO_RULES
    splits_given: bool = False

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
          ConfigError: annotations cannot be parsed, or match no image, or most are ambiguous.
        """
        matcher, files = self._open()
        annotations = matcher.annotations
        objects, unread = self._objects(annotations), LeftUnread()
        joined = False
        # All files are looked up before the first is joined: a later one may have the same
        # annotations, and then neither becomes a record.
        found: Sequence[tuple[ListingPart, Indices]] = [
            (part, _look_up(part, matcher))
            for part in (_without_own(listed, annotations) for listed in files)
        ]
        matcher.refuse_ambiguous(least=_AMBIGUOUS)
        if annotations.splits and not self.splits_given:
            found, divided = with_splits(found, annotations.splits, keep=self.unannotated == "keep")
            yield divided
        for part, at in found:
            yield dataclasses.replace(part, rows=None, notes=self._still_true(part, annotations))
            if part.rows is not None:
                for one in self._join(part.rows, at, matcher, objects, unread):
                    joined = joined or bool(one.rows)
                    yield one
        if not joined and not matcher.found:
            raise ConfigError(self._no_match_message(matcher))
        sources = dict(zip(annotations.names, annotations.sources, strict=False))
        why = "names it, but no image has a path that ends with this name"
        allowed = f"; {self.wording.absent} allows this" if self.wording.absent else ""
        others = annotations.other_files(matcher.unused())
        absent = [name for name in matcher.unused() if name not in others]
        unmatched = [
            Reject(
                name,
                "read",
                Reason.MISSING,
                f"{sources.get(name, self.where)} {why}{matcher.near_image(name) or allowed}",
            )
            for name in (absent if self.absent == "reject" else ())
        ]
        dropped = {"absent": len(absent)} if absent and self.absent == "drop" else {}
        yield ListingPart(rejects=[*annotations.rejects, *unmatched], filtered=dropped)
        has_objects = OBJECTS in annotations.fields.names
        facts = InputFacts(labels=objects.classes(annotations.labels()) if has_objects else None)
        notes = [*map(self._note, annotations.remarks()), *unread.notes()]
        notes += [*objects.notes(self.where), *matcher.form_notes("annotations")]
        notes += self._blank_notes(matcher)
        notes += self._absent_notes(absent if dropped else ())
        notes += self._other_notes([*others.values()])
        if annotations.declared_splits and not self.splits_given:
            images = itertools.chain.from_iterable(map(_folders_of, found))
            notes += declared_notes(annotations.declared_splits, images)
        divided_by = self.splits_given or any(has_split(part) for part, _ in found)
        if annotations.unread_splits and not divided_by:
            notes.append(Note("splits", f"{self.where}: {annotations.unread_splits}"))
        yield ListingPart(notes=notes, facts=facts)

    def _still_true(self, part: ListingPart, annotations: AnnotationReader) -> Sequence[Note]:
        """Return the notes on files, without those on folders whose labels are replaced."""
        if _REPLACING.isdisjoint(annotations.fields.names):
            return part.notes
        return [note for note in part.notes if note.code != "no-classes"]

    def _note(self, text: str) -> Note:
        """Return a text about the annotations as a note."""
        code = text.code if isinstance(text, Note) else "annotations"
        return Note(code, text if code == LEFT_UNREAD else f"{self.where}: {text}")

    def _blank_notes(self, found: PathMatcher[AnnotationReader]) -> Iterator[Note]:
        """Yield a note on the images without annotations that are not rejected."""
        if not found.blank or self.unannotated == "reject":
            return
        became = "were dropped" if self.unannotated == "drop" else f"have no {self.wording.parts}"
        if found.blank == 1:
            became = "was dropped" if self.unannotated == "drop" else f"has no {self.wording.parts}"
        more = ", ..." if found.blank > len(found.examples) else ""
        text = f"{count_of(found.blank, 'image')} without {self.wording.noun} in {self.where}"
        yield Note("annotations", f"{text} {became}: {_quoted(found.examples)}{more}")

    def _absent_notes(self, absent: Sequence[str]) -> Iterator[Note]:
        """Yield a note on the annotations without images that were dropped."""
        if absent:
            text = f"{self.wording.noun} of {count_of(len(absent), 'image')} in {self.where} that"
            text += f" {'is' if len(absent) == 1 else 'are'} not in the input were dropped"
            more = ", ..." if len(absent) > _SHOWN else ""
            yield Note("annotations", f"{text}: {_quoted(absent[:_SHOWN])}{more}")

    def _other_notes(self, files: Sequence[str]) -> Iterator[Note]:
        """Yield a note on files without annotations that match no image."""
        if files:
            one = len(files) == 1
            was, it, holds, matches = (
                ("was", "it", "holds", "matches") if one else ("were", "they", "hold", "match")
            )
            text = f"{count_of(len(files), 'text file')} in {self.where} {was} not read, because"
            text += f" {it} {holds} no {self.wording.noun} and {matches} no image"
            more = ", ..." if len(files) > _SHOWN else ""
            yield Note("annotations", f"{text}: {_quoted(files[:_SHOWN])}{more}")

    def _matcher(self, annotations: AnnotationReader) -> PathMatcher[AnnotationReader]:
        return PathMatcher(annotations, f"{self.wording.option} {self.where}", self.wording.noun)

    def _open(self) -> tuple[PathMatcher[AnnotationReader], Iterator[ListingPart]]:
        """Return the matcher of the annotations, and the files.

        If no image matches an annotation, names are compared without the folder that holds all
        annotations, then without words for annotations in the names of folders. Parts of the
        listing are held in memory until an image matches.

        Raises:
          ConfigError: Images match only without the folder, and its name is not a usual one for
            annotations. It may be one of several classes.
        """
        annotations = self.open_annotations()
        matcher, files = self._matcher(annotations), self.files.scan()
        noun, folder = self.wording.noun, annotations.folder
        others = [*_other_names(annotations, noun)]
        if not others:
            return matcher, files
        held: list[ListingPart] = []
        for part in files:
            held.append(part)
            if any(map(matcher.has, _paths_of(part))):
                return matcher, itertools.chain(held, files)
        for other in others:
            by_other = self._matcher(other)
            if any(by_other.has(path) for part in held for path in _paths_of(part)):
                if other.folder is None or other.folder_is_known:
                    return by_other, iter(held)
                break
        else:
            return matcher, iter(held)
        packed = is_archive(self.where)
        unpack = f"unpack {self.where}, and " if packed else ""
        place = "" if packed else f" .../{self.where}/{folder}"
        raise ConfigError(
            f"no image of the input matches the {noun} {self.where}: they are all in"
            f" the folder {folder!r}, which is not in the paths of images: {unpack}pass"
            f" this folder as {self.wording.option}{place}"
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
        places: Indices,
        matcher: PathMatcher[AnnotationReader],
        objects: ObjectLabels,
        unread: LeftUnread,
    ) -> Iterator[ListingPart]:
        known, blank = np.flatnonzero(places >= 0), np.flatnonzero(places < 0)
        found = matcher.annotations.read(places[known])
        unread.merge(found.unread)
        fields = found.columns.schema
        none = [_empty(field, len(blank)) for field in fields]
        columns = batch.concat([found.columns, pa.RecordBatch.from_arrays(none, schema=fields)])
        ambiguous = {
            row: matcher.faults[at]
            for row, at in enumerate(places[known].tolist() if matcher.faults else ())
            if at in matcher.faults
        }
        images = AnnotatedRows(
            rows=rows.take(pa.array([*known, *blank], pa.int64())),
            columns=columns,
            faults={**found.faults, **ambiguous},
            blank=np.arange(len(rows)) >= len(known),
        )

        if self.unannotated != "reject" and matcher.has_unused:
            for key in rows[batch.KEY].take(pa.array(blank)).to_pylist():
                # records the image, which the rejects of unused annotations name
                matcher.nearest(key)

        def why(key: str) -> str:
            return f"no {self.wording.noun} in {self.where}{matcher.nearest(key)}"

        yield from images.parts(objects, self.unannotated, why, keep=self.wording.keep)

    def _no_match_message(self, matcher: PathMatcher[AnnotationReader]) -> str:
        names = matcher.annotations.names
        some = _quoted(names[:_SHOWN]) or "no image"
        images = matcher.examples[:_SHOWN]
        near = next(filter(None, map(matcher.near_image, names)), "")
        remedy = self._advice_on_affixes(matcher) if self.wording.affix else self.wording.remedy
        return (
            f"no image of the input matches the {self.wording.noun} {self.where}: they name {some}"
            + (f", and the images are {_quoted(images)}" if images else "")
            + f"; the path of an image must end with such a name{near}{remedy}"
        )

    def _advice_on_affixes(self, matcher: PathMatcher[AnnotationReader]) -> str:
        """Return the end of the message if no image matches an annotation."""
        names, noun, option = matcher.annotations.names, self.wording.noun, self.wording.affix
        if (affixes := find_affixes(matcher.examples, names)) is not None:
            return f"; {option} {shlex.quote(affixes)} reads names such as these"
        if len(names) > _SEVERAL_EACH * matcher.blank:
            return (
                f"; there are {len(names):,} {noun} for {count_of(matcher.blank, 'image')}, but"
                " each image needs one with the ids of all classes: combine those of single objects"
                " or classes"
            )
        return (
            f"; if names of {noun} have a suffix, give it as {option}, a prefix as {option}"
            " 'PREFIX*'"
        )


class AnnotatedRows(NamedTuple):
    """Rows of images, and their annotations.

    Attributes:
      rows: Rows of images.
      columns: Annotations of the rows.
      blank: Whether a row has no annotations, bool[n].
      faults: {row: problem of its annotations}.
    """

    rows: pa.RecordBatch
    columns: pa.RecordBatch
    blank: npt.NDArray[np.bool_]
    faults: Mapping[int, str] = {}

    def parts(
        self,
        objects: ObjectLabels,
        unannotated: Unannotated,
        why: Callable[[str], str],
        *,
        keep: str,
    ) -> Iterator[ListingPart]:
        """Yield the rows with their annotations, and rejects.

        Args:
          objects: Labels of the images by their objects.
          unannotated: Whether to reject, keep or drop images without annotations.
          why: Returns the reason to reject an image without annotations, given its key.
          keep: Name of the option for such images, for messages.
        """
        found = {**objects.faults(self.columns), **self.faults}
        faults = {row: RejectCause(Reason.BAD_VALUE, text) for row, text in found.items()}
        kept = np.ones(len(self.rows), np.bool_)
        kept[[*faults]] = False
        lacks = kept & self.blank & (unannotated != "keep")
        if (left_out := left_out_by_split(self.rows)) is not None:
            lacks &= ~left_out.to_numpy(zero_copy_only=False)  # counted by the option, not here
        lacking = np.flatnonzero(lacks).tolist()
        kept[lacking] = False
        keys = self.rows[batch.KEY]
        for row in lacking if unannotated == "reject" else ():
            text = f"{why(keys[row].as_py())}; {keep} keep or drop allows this"
            faults[row] = RejectCause(Reason.UNLABELLED, text)
        dropped = len(lacking) if unannotated == "drop" else 0
        yield ListingPart(
            rejects=[Reject(keys[row].as_py(), "read", *faults[row]) for row in sorted(faults)],
            filtered={"unannotated": dropped} if dropped else {},
        )
        rows, columns = self.rows, self.columns
        if not kept.all():
            rows, columns = (one.filter(pa.array(kept)) for one in (rows, columns))
        if len(rows):
            yield from objects.finish(rows, columns)


def _other_names(annotations: AnnotationReader, noun: str) -> Iterator[AnnotationReader]:
    """Yield the same annotations with other names, which are compared if no image matches.

    These lack the folder that holds all annotations, or words for annotations in folders.
    """
    end = "ignored when they are matched with images"
    if annotations.folder is not None:
        note = f"all {noun} are in the folder {annotations.folder!r}, which is {end}"
        names = [name.partition("/")[2] for name in annotations.names]
        yield dataclasses.replace(annotations, names=names, notes=(*annotations.notes, note))
    if annotations.plain_names:
        note = f"words for images and {noun} in the names of folders are {end}"
        yield dataclasses.replace(
            annotations,
            names=annotations.plain_names,
            folder=None,
            beside_images=True,
            notes=(*annotations.notes, note),
        )


def _look_up(part: ListingPart, matcher: PathMatcher[AnnotationReader]) -> Indices:
    """Return the indices of the annotations of the images in a part, -1 without any: int64[n]."""
    for reject in part.rejects:
        matcher.see(reject.key)
    if part.rows is None:
        return np.empty(0, np.int64)
    splits = part.rows[batch.SPLIT].to_pylist()
    found = (
        matcher.find(path, key=key, split=split)
        for (key, path), split in zip(_images_of(part.rows), splits, strict=True)
    )
    return np.fromiter(found, np.int64, len(part.rows))


def _folders_of(found: tuple[ListingPart, Indices]) -> Iterator[tuple[str, str | None]]:
    """Yield the folder and the split of each image that is a file."""
    rows = found[0].rows
    if rows is not None:
        for path, split in zip(*(rows[name].to_pylist() for name in _PLACED), strict=True):
            if Member.of(path) is None:
                yield path.rpartition("/")[0], split


def _images_of(rows: pa.RecordBatch) -> Iterator[tuple[str, str]]:
    """Yield the keys and paths of images. Members of archives have paths with slashes only."""
    keys, paths = (rows[name].to_pylist() for name in (batch.KEY, batch.PATH))
    return zip(keys, map(path_to_match, paths), strict=True)


def _paths_of(part: ListingPart) -> Iterator[str]:
    """Yield the paths of images, and the keys of rejected ones."""
    if part.rows is not None:
        yield from (path for _, path in _images_of(part.rows))
    yield from (reject.key for reject in part.rejects)


def _without_own(listed: ListingPart, annotations: AnnotationReader) -> ListingPart:
    """Return a part without the files of the annotations, such as masks among the images.

    Such files may be in the rows, or among the rejects that have no label.
    """
    rejects = [
        one
        for one in listed.rejects
        if one.reason != Reason.UNLABELLED or one.key not in annotations.keys
    ]
    rows, count = listed.rows, len(listed.rejects) - len(rejects)
    if rows is not None and annotations.paths is not None:
        own = pc.is_in(rows[batch.PATH], value_set=annotations.paths)
        count += pc.sum(own).as_py() or 0
        rows = rows.filter(pc.invert(own))
    filtered = {**listed.filtered, **({MASKS: count} if count else {})}
    return dataclasses.replace(listed, rows=rows, rejects=rejects, filtered=filtered)


def _empty(field: pa.Field, count: int) -> pa.Array:
    """Return a column for images without annotations: no objects, no captions, no size."""
    if pa.types.is_list(field.type):
        return pa.array([[]] * count, field.type)
    return pa.nulls(count, field.type)


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
