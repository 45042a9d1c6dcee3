"""Files with annotations beside them: a listing of pictures, joined with what a book says of each.

A picture's annotations are those of the longest end of its path that the book names: of
/data/coco/val/7.jpg those of val/7.jpg, or else of 7.jpg.
"""

from __future__ import annotations

import dataclasses
import posixpath
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Literal, get_args

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import CLASS, OBJECTS, AnnotationReader
from recordmill.transforms.model.data_type import ListingPart, Source
from recordmill.transforms.model.label_sets import (
    LabelCounts,
    LabelSet,
    PictureClass,
    largest,
    rarest,
    sets_of,
    strata,
)

Unannotated = Literal["reject", "keep", "drop"]
WithoutBoxes = Literal["keep", "drop"]

_PART_BYTES = 8 << 20  # of rows with their objects
_COUNTED = 1 << 12  # pictures at a time
_NAMED = 5  # pictures that a note names


@dataclasses.dataclass(frozen=True, kw_only=True)
class AnnotatedFiles:
    """Lists the files of a source, with what annotations say of them.

    files: gives references. open_book: reads the annotations; noted as `where` in messages.
    unannotated: what becomes of pictures of which they say nothing. without_boxes: of those that
    have no object, by them or for that reason. classes: those that there may be, in the order of
    their numbers; those of the annotations unless given. picture_class: which class of its objects
    is that of a picture. with_classes: where the rarest is, rows have all of them, too.
    stratum_size: pictures of a stratum, at least; None where splits are not stratified.
    """

    files: Source
    open_book: Callable[[], AnnotationReader]
    where: str
    unannotated: Unannotated = "reject"
    without_boxes: WithoutBoxes = "keep"
    classes: tuple[str, ...] | None = None
    picture_class: PictureClass | None = None
    with_classes: bool = False
    stratum_size: int | None = None
    _found: dict[str, Any] = dataclasses.field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name, known in (("unannotated", Unannotated), ("without_boxes", WithoutBoxes)):
            if getattr(self, name) not in get_args(known):
                raise ConfigError(
                    f"--{name.replace('_', '-')}: expected one of {', '.join(get_args(known))}, got"
                    f" {getattr(self, name)!r}"
                )

    @property
    def unique_keys(self) -> bool:
        return self.files.unique_keys

    @property
    def notes(self) -> tuple[str, ...]:
        """Of the annotations, and which pictures they say nothing of that are no rejects."""
        told = tuple(f"{self.where}: {note}" for note in self._found.get("notes", ()))
        names: list[str] = self._found.get("unannotated", [])
        count: int = self._found.get("count", 0)
        if not count:
            return told
        became = "were left out" if self.unannotated == "drop" else "have no boxes"
        more = ", ..." if count > len(names) else ""
        return (
            *told,
            f"{count} pictures that {self.where} says nothing of {became}: {_told(names)}{more}",
        )

    @property
    def labels(self) -> tuple[str, ...] | None:
        """The classes of objects, in the order of their numbers; None where they have none."""
        labels: tuple[str, ...] | None = self._found.get("labels")
        return labels

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError where annotations cannot be understood, or fit no picture."""
        self._found.clear()
        book = self.open_book()
        self._found["notes"] = book.notes
        index = _Index(book, self.where)
        self._count(book)
        joined = 0
        for listed in self.files.scan():
            for reject in listed.rejects:
                index.see(reject.key)
            if listed.rows is None:
                yield listed
                continue
            yield dataclasses.replace(listed, rows=None)
            for part in self._join(listed.rows, book, index):
                joined += 0 if part.rows is None else len(part.rows)
                yield part
        if not joined and not index.found:
            raise ConfigError(_nothing(self.where, book))
        strays = [
            Reject(name, "read", Reason.MISSING, f"{self.where} names it, and the input has none")
            for name in index.unused()
        ]
        yield ListingPart(rejects=[*book.rejects, *strays])
        if OBJECTS in book.fields.names:
            self._found["labels"] = self.classes or book.labels()

    def _count(self, book: AnnotationReader) -> None:
        """Counts classes and sets of them, where that is asked for, in a pass over the book."""
        wanted = self.picture_class == "rarest" or self.stratum_size is not None
        if not wanted or OBJECTS not in book.fields.names:
            return
        counts = LabelCounts()
        for start in range(0, len(book.names), _COUNTED):
            which = np.arange(start, min(start + _COUNTED, len(book.names)))
            counts.add(sets_of(book.read(which).columns))
        self._found["counts"] = counts
        if self.stratum_size is not None:
            self._found["strata"] = strata({(): 0, **counts.by_set}, least=self.stratum_size)

    def _classify(self, columns: pa.RecordBatch) -> dict[str, pa.Array]:
        """Columns about the classes of pictures with objects: theirs, string[n], nullable, and what
        else is asked for.
        """
        counts: LabelCounts | None = self._found.get("counts")
        labels: Sequence[str | None] = [None] * len(columns)
        if self.picture_class == "largest":
            labels = largest(columns)
        if counts is None:
            return {batch.LABEL: pa.array(labels, pa.string())}
        sets = sets_of(columns)
        if self.picture_class == "rarest":
            labels = rarest(sets, counts)
        found = {batch.LABEL: pa.array(labels, pa.string())}
        if self.with_classes and self.picture_class == "rarest":
            found[batch.CLASSES] = pa.array(sets, pa.list_(pa.string()))
        alike: Mapping[LabelSet, str] | None = self._found.get("strata")
        if alike is not None:
            found[batch.STRATUM] = pa.array([alike[one] for one in sets], pa.string())
        return found

    def _join(
        self, rows: pa.RecordBatch, book: AnnotationReader, index: _Index
    ) -> Iterator[ListingPart]:
        keys, paths = (rows[name].to_pylist() for name in (batch.KEY, batch.PATH))
        at = [index.find(path, key=key) for key, path in zip(keys, paths, strict=True)]
        places = np.array(at, np.int64)
        known = np.flatnonzero(places >= 0)
        step = batch.ROWS
        rejects: list[Reject] = []
        blank = [row for row, one in enumerate(at) if one == -1]
        if self.unannotated == "reject":
            why = f"{self.where} says nothing of it; --unannotated keep or drop allows that"
            rejects = [Reject(keys[row], "read", Reason.UNLABELLED, why) for row in blank]
        elif blank:
            self._found["count"] = self._found.get("count", 0) + len(blank)
            names = self._found.setdefault("unannotated", [])
            names += [keys[row] for row in blank[: _NAMED - len(names)]]
        filtered = {"unannotated": len(blank)} if blank and self.unannotated == "drop" else {}
        yield ListingPart(rejects=rejects, filtered=filtered)
        for start in range(0, len(known), step):
            chosen = known[start : start + step]
            yield from self._annotate(rows.take(pa.array(chosen)), places[chosen], book)
        if blank and self.unannotated == "keep":
            nothing = pa.RecordBatch.from_arrays(
                [_empty(field, len(blank)) for field in book.fields], schema=book.fields
            )
            yield from self._finish(rows.take(pa.array(blank)), nothing)

    def _annotate(
        self, rows: pa.RecordBatch, which: Any, book: AnnotationReader
    ) -> Iterator[ListingPart]:
        annotated = book.read(which)
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
        """Pictures with an object of a class that there should not be: {row: why}."""
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

    def _finish(self, rows: pa.RecordBatch, columns: pa.RecordBatch) -> Iterator[ListingPart]:
        """Rows with their annotations, in parts that are not too large."""
        if OBJECTS in columns.schema.names:
            for name, values in self._classify(columns).items():  # a folder is no class of objects
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
        parts = max(-(-joined.nbytes // _PART_BYTES), 1)
        step = max(-(-len(joined) // parts), 1)
        for start in range(0, len(joined), step):
            yield ListingPart(rows=joined.slice(start, step))


class _Index:
    """Finds a picture's annotations by its path; each are those of one picture."""

    def __init__(self, book: AnnotationReader, where: str) -> None:
        self._names = book.names
        self._by_stem = book.by_stem
        self._where = where
        self._at = {
            posixpath.normpath(name.replace("\\", "/")).lstrip("/"): n
            for n, name in enumerate(book.names)
        }
        self._used: dict[int, tuple[str, str | None]] = {}

    def find(self, path: str, *, key: str) -> int:
        """The index of the annotations of a picture, -1 where it has none.

        Raises ConfigError where another picture has them: which is theirs cannot be told, and that
        one may be a record already. The same picture may come with several keys.
        """
        at = self._look_up(path)
        if at >= 0:
            other, its_path = self._used.get(at, (key, path))
            if its_path is None:
                self._used[at] = (key, path)
                same = _is_reject(other, key, path)
            else:
                self._used.setdefault(at, (key, path))
                same = its_path == path or posixpath.normpath(its_path) == posixpath.normpath(path)
            if not same:
                raise self._ambiguous(at, other, key)
        return at

    def see(self, key: str) -> None:
        """Takes note of a reject: it is there, if of no use. Raises ConfigError as `find`."""
        at = self._look_up(key)
        if at >= 0:
            other, path = self._used.setdefault(at, (key, None))
            if path is not None and not _is_reject(key, other, path):
                raise self._ambiguous(at, other, key)

    def _look_up(self, path: str) -> int:
        parts = path.split("/")
        if self._by_stem:
            stem, dot, _ = parts[-1].rpartition(".")
            parts[-1] = stem if stem and dot else parts[-1]
        for start in range(len(parts)):
            at = self._at.get("/".join(parts[start:]))
            if at is not None:
                return at
        return -1

    def _ambiguous(self, at: int, *keys: str) -> ConfigError:
        one, other = sorted(keys)
        return ConfigError(
            f"--annotations {self._where}: {self._names[at]!r} fits two pictures, {one!r} and"
            f" {other!r}, and nothing tells whose it is: let the annotations name more of the path,"
            " or leave one of the two out of the input"
        )

    @property
    def found(self) -> int:
        """Pictures that have annotations."""
        return len(self._used)

    def unused(self) -> list[str]:
        return [name for n, name in enumerate(self._names) if n not in self._used]


def _is_reject(reject: str, key: str, path: str) -> bool:
    """Whether a reject, of which only the key is known, may be of the picture with this path."""
    named_by_path = path.endswith(key)
    return reject == key or (not named_by_path and f"/{path}".endswith(f"/{reject}"))


def _empty(field: pa.Field, count: int) -> pa.Array:
    """What stands where annotations say nothing: no objects, no captions, no sides."""
    if pa.types.is_list(field.type):
        return pa.array([[]] * count, field.type)
    return pa.nulls(count, field.type)


def _told(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))


def _nothing(where: str, book: AnnotationReader) -> str:
    some = _told(book.names[:3]) or "no picture"
    return (
        f"no picture of the input is of use with the annotations {where}: they name {some}; a"
        " picture's path has to end so"
    )
