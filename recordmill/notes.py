"""Notes: remarks for the user on an input or a dataset, each with a code."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping
from typing import Any, Self

CODES: Mapping[str, str] = {
    "adopted": "adopted files are incomplete, or their splits or classes are unclear",
    "annotations": "annotations were merged, are repeated, or match no image; images have no mask;"
    " a suffix of masks was found",
    "archives": "all files in archives are in one folder, which is left out of classes and keys",
    "audio": "the audio tracks of videos were dropped",
    "backslashes": "paths of a listing have backslashes, which were read as slashes",
    "bit-depth": "images have more bits per channel than were kept, or only some have 16",
    "boxes": "boxes have no area, are outside the image or reach beyond it, or were dropped by"
    " --min-box or --boxes",
    "class-numbers": "integer labels differ from the numbers of the classes in the input",
    "conflict": "records of equal content have several labels",
    "copies": "copies of records in a dataset of the input were left out",
    "damaged-image": "the data of JPEGs is damaged, and what could be decoded was written",
    "duplicates": "records were left out because others have the same or similar content",
    "empty-class": "a split lacks some classes, or train alone has them",
    "empty-split": "a split has no records",
    "extensions": "files with other extensions, which may be annotations, were read as documents",
    "few-buckets": "a column has fewer buckets than requested, because many values are equal",
    "fractions": "the sizes of splits are far from --splits, because groups, or records of equal"
    " content, share a split",
    "full-scale": "audio samples are far beyond [-1, 1]",
    "groups-alike": "names of groups or series differ only by case, surrounding spaces, Unicode"
    " form or invisible characters, or are the same number",
    "horizon": "windows were not made, because a gap or the end of the series is in the rows of"
    " their target",
    "intensity-window": "--intensity-window was not applied to images, or reaches beyond their 8"
    " bits",
    "intervals": "series of --intervals are not in the input, or no window has one of their"
    " classes",
    "label-columns": "exactly one of --label-columns is 1 in every row, so that records have one"
    " class; or columns of 0 and 1 may be classes",
    "label-lists": "names of classes look like lists of labels, or join other classes with a"
    " separator; lists of labels look like vectors of 0 and 1; or almost no record has several"
    " classes",
    "labels-alike": "classes differ only by case, spaces, Unicode form, invisible characters or a"
    " full stop at the end, or are the same number; or names of classes hold such characters",
    "leak": "records of equal content are in several splits, or cannot be found, because a column,"
    " such as an id, differs in every row",
    "left-unread": "parts of the input were not read, such as keypoints, captions or bands beyond"
    " RGB; or values were taken as stored, such as packed numbers of NetCDF",
    "many-copies": "balancing repeats the records of a class very often",
    "masks": "images look like masks of other images; masks of class ids look smoothed, or 255"
    " (65535 in 16 bits) may be a class in them",
    "missing-class": "names of classes look like spellings of a missing value",
    "near-duplicates": "there are groups of records with similar content",
    "no-classes": "names of folders or archives that may be classes are not used as classes",
    "no-group": "records have no group, or one whose name is white space alone",
    "no-window": "series are too short for a window, or have gaps",
    "numbers": "different numbers become equal as float32",
    "one-split": "series have windows in one split only, although splits are by time",
    "one-class": "all records have the same class",
    "pages": "images have further pages or frames, of which only the first was read",
    "quotes": "quotes in CSV or TSV may be data",
    "resampled": "some steps of time series hold several rows, but most hold one",
    "same-file": "a listing names a file by several paths",
    "samples": "samples of WebDataset shards have several images, each of which is a record",
    "scaled-by-window": "series have no value in train, so each of their windows is scaled by its"
    " own rows",
    "schema": "records violate the schema, or a part of it was not checked",
    "segments": "columns of a listing look like segments of files, but whole files were read",
    "shared-rows": "series have the same rows at the same times, and may be in different splits",
    "splits": "folders, files, classes or a column have names of splits, but their records are"
    " divided by --splits; or a name of a split seems misspelt, or a missing value",
    "steps": "steps at the ends of arrays fill no chunk and were dropped; or series have rows at"
    " several steps",
    "stratify": "classes are not at the fractions of the splits, because groups stay whole",
    "text-column": "a column of numbers, dates or booleans was read as text because of some values;"
    " or a column names text files that were not read",
    "tfds": "TFDS cannot show the dataset, or a part of it",
    "times": "numeric times are before 1970 or after 2100, are in 1970 but would be recent in"
    " another unit, or look like years or days of Excel; or only some times have a time zone;"
    " --time-unit or --input-time-zone has no effect; or rows were dropped as repeated in an hour"
    " that a clock may have shown twice",
    "unknown-class": "an option names a class that no record has",
    "unknown-keys": "keys of --exclude-keys belong to no record",
    "unlearned": "byte pairs were learned without many of the words of train",
    "unlisted": "files in the folders of the listed files are not in the listing",
    "unnamed-column": "a column without a name was ignored, or has the name that pandas gives it",
    "unread": "tables or annotations are among the files of the input, but were not read",
}
# Codes of notes that exist only once the dataset is written.
_AFTER_PLANNING = frozenset(("adopted", "tfds"))
LEFT_UNREAD = "left-unread"
_UNREAD = "not read, or taken as stored: "
_SHOWN = 6  # names in a part of the note `left-unread`
MANY_COPIES = 20  # of one record: from this number on there is a note
FAILABLE = tuple(code for code in CODES if code not in _AFTER_PLANNING)


class Note(str):
    """A sentence without full stop, with its code, one of `CODES`."""

    __slots__ = ("code",)
    code: str

    def __new__(cls, code: str, text: str) -> Self:
        if code not in CODES:
            raise ValueError(f"expected a code of recordmill.notes.CODES, got {code!r}")
        note = super().__new__(cls, text)
        note.code = code
        return note

    def __reduce__(self) -> tuple[type[Self], tuple[str, str]]:
        return type(self), (self.code, str(self))

    def to_json(self) -> dict[str, str]:
        """Return the code and the text as JSON data."""
        return {"code": self.code, "text": str(self)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Self:
        """Return the inverse of `to_json`. A later version may have more codes.

        Raises:
          ValueError: the code or the text is not a string.
        """
        code, text = data.get("code"), data.get("text")
        if not isinstance(code, str) or not isinstance(text, str):
            raise ValueError("expected a note with a code and a text, of strings")
        note = str.__new__(cls, text)
        note.code = code
        return note


class LeftUnread:
    """Counts of the parts of the input that are not read, or are taken as stored, for one note.

    Workers that encode records count such parts as `recordmill.format.ledger.Noted` instead.
    """

    def __init__(self) -> None:
        self._parts: dict[tuple[str, str], _UnreadPart] = {}

    def add(
        self, part: str, noun: str, *, such_as: str, names: Iterable[str] = (), count: int = 1
    ) -> None:
        """Count a part.

        Args:
          part: Name of the part, such as `keypoints`.
          noun: Singular of what the part belongs to, such as `annotation`.
          such_as: Example of what the part belongs to.
          names: Further names, such as those of attributes, shown after the part.
          count: Number to add.
        """
        counted = self._parts.get((part, noun))
        if counted is None:
            counted = self._parts[part, noun] = _UnreadPart(such_as)
        counted.count += count
        counted.example = min(such_as, counted.example)
        counted.names.update(names)

    def merge(self, other: LeftUnread) -> None:
        """Add the counts of another part of the input."""
        for (part, noun), counted in other._parts.items():
            self.add(part, noun, such_as=counted.example, names=counted.names, count=counted.count)

    def notes(self, where: str = "") -> tuple[Note, ...]:
        """Return the note, no note if everything is read.

        Args:
          where: Part of the input to which the counts apply, for the note.
        """
        parts = []
        for (part, noun), counted in sorted(self._parts.items()):
            names = sorted(counted.names)
            shown = ", ".join(names[:_SHOWN]) + (", ..." if len(names) > _SHOWN else "")
            named = f"{part} ({shown})" if shown else part
            number = count_of(counted.count, noun)
            parts.append(f"{named} of {number}{where}, such as {counted.example}")
        return (Note(LEFT_UNREAD, f"{_UNREAD}{'; '.join(parts)}"),) if parts else ()


@dataclasses.dataclass
class _UnreadPart:
    """Count of a part, the first example in alphabetical order, and further names."""

    example: str
    count: int = 0
    names: set[str] = dataclasses.field(default_factory=set)


def join_left_unread(notes: Iterable[Note]) -> tuple[Note, ...]:
    """Join all notes `left-unread` into one, at the place of the first."""
    notes = tuple(notes)
    parts = [note.removeprefix(_UNREAD) for note in notes if note.code == LEFT_UNREAD]
    joined = [Note(LEFT_UNREAD, f"{_UNREAD}{'; '.join(dict.fromkeys(parts))}")] if parts else []
    return tuple(
        joined.pop() if note.code == LEFT_UNREAD else note
        for note in notes
        if note.code != LEFT_UNREAD or joined
    )


def notes_of(code: str, texts: Iterable[str]) -> tuple[Note, ...]:
    """Return notes of one code."""
    return tuple(Note(code, text) for text in texts)


def most_frequent(counts: Mapping[Any, int]) -> list[tuple[Any, int]]:
    """Return (name, count) pairs, the most frequent first, ties by name."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def count_of(count: int, noun: str, plural: str | None = None) -> str:
    """Return a count with its noun: `1 file`, `2,000 files`. plural: by default the noun and s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"


def repeats_many_times(records: int, originals: int) -> bool:
    """Return whether records are repeated `MANY_COPIES` times or more on average.

    records: number of records with copies. originals: number of records without copies.
    """
    return 0 < MANY_COPIES * originals <= records


def first_failing(notes: Iterable[Note], codes: Collection[str]) -> str | None:
    """Return the message for the first note whose code is in `codes`, None if there is none.

    It also names the other codes that have notes.
    """
    failing = [note for note in notes if note.code in codes]
    if not failing:
        return None
    first = failing[0]
    others = sorted({note.code for note in failing} - {first.code})
    also = f"; there are also notes on {', '.join(others)}" if others else ""
    files = ", nor any file that the note names" if ".jsonl" in first else ""
    return (
        f"{first} (an error because of --fail-on {first.code}){also}; nothing was published{files}"
    )
