"""Images that annotation files name, merged over all files.

If files are in several folders, such as those of splits, each names the images beside it, if it
names any of them. The same name in files of two splits stands for two images.
"""

from __future__ import annotations

import dataclasses
import itertools
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split
from recordmill.job.input_facts import InputFacts
from recordmill.notes import Note, count_of
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import Indices
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.annotations.formats.annotation_files import distinct_folders
from recordmill.transforms.sources.folders.path_names import file_split

SPLIT = "split"  # name of a column that listings of files take splits from
_SOURCE = "the names of the annotation files"  # source of splits
_FIRST = 1000  # images of a file that are searched for beside it


def unread_splits(file: object, *, has_rows: bool, also: str = "") -> str:
    """Return a remark on a column of splits in a table of annotations, which is not read.

    Args:
      file: The table.
      has_rows: Whether the table has one row per image, as listings of files have.
      also: Further option with which it is read as a listing.
    """
    if not has_rows:
        return (
            f"the column {SPLIT!r} was not read: {option_name('input', 'TABLE')} takes splits from"
            f" a table with one row per image, {option_name('split_files')} from lists of names"
        )
    return (
        f"the column {SPLIT!r} was not read: {option_name('input', file)}{also} reads the images"
        f" that the table names, and their splits ({option_name('input_root')} names their folder)"
    )


def declared_notes(
    declared: Mapping[str, str], images: Iterable[tuple[str, str | None]]
) -> Iterator[Note]:
    """Yield a note on images that are not in the splits that annotations declare for folders.

    Args:
      declared: {folder at the end of a path: split}.
      images: Folders of images with the split of each image, if it has one.
    """
    places: dict[str, str] = {}  # {folder with images: its split}
    wrong = 0
    for (folder, split), count in Counter(images).items():
        inside = [end for end in declared if f"/{end}/" in f"/{folder}/"]
        if inside:
            end = max(inside, key=len)
            start = f"/{folder}/".rindex(f"/{end}/")
            places[folder[: start + len(end)]] = declared[end]
            wrong += count * (split != declared[end])
    if wrong:
        given = sorted((split, place) for place, split in places.items())
        options = " ".join(
            option_name("input", shlex.quote(f"{split}={place}")) for split, place in given
        )
        text = f"the YAML file of YOLO names other splits for {count_of(wrong, 'image')}"
        yield Note("splits", f"{text}: {options} takes them")


def with_splits(
    listed: Sequence[tuple[ListingPart, Indices]], splits: Sequence[str | None], *, keep: bool
) -> tuple[Sequence[tuple[ListingPart, Indices]], ListingPart]:
    """Return a listing with the splits of the files that name its images.

    Args:
      listed: Its parts, and the index of each image in `splits`, -1 if no file names it.
      splits: Splits of the named images.
      keep: Whether images that no file names are kept.

    Returns:
      The parts, and a part with the source of the splits and notes. The parts are unchanged if the
      listing gives a split to any image, or if all named images in it have the same split.
    """
    names = pa.array([*splits, None], pa.string())
    columns = [names.take(pa.array(np.where(at < 0, len(splits), at))) for _, at in listed]
    present = pa.chunked_array(columns, pa.string()).drop_null().unique()
    if len(present) < 2 or any(has_split(part) for part, _ in listed):
        return listed, ListingPart()
    found: list[tuple[ListingPart, Indices]] = []
    without = 0
    for (part, at), column in zip(listed, columns, strict=True):
        rows = part.rows
        if rows is not None:
            without += column.null_count - (0 if keep else int((at < 0).sum()))
            part = dataclasses.replace(part, rows=batch.set_column(rows, batch.SPLIT, column))
        found.append((part, at))
    notes: list[Note] = []
    if without:
        are, them = ("is", "it") if without == 1 else ("are", "them")
        text = f"{count_of(without, 'image')} {are} divided by --splits, because no annotation"
        notes.append(Note("splits", f"{text} file of a split names {them}"))
    return found, ListingPart(notes=notes, facts=InputFacts(split_source=_SOURCE))


def has_split(part: ListingPart) -> bool:
    """Return whether a part of a listing gives the split of any image."""
    return part.rows is not None and part.rows[batch.SPLIT].null_count < len(part.rows)


class NamingFile(NamedTuple):
    """A file that names images.

    Attributes:
      place: The file.
      shown: Its name in messages.
      beside: Prefix of the names of its images.
      split: Split in its name or that of its folder.
    """

    place: Location
    shown: str
    beside: str
    split: str | None


def naming_files(
    files: Sequence[Location], names_in: Callable[[Location], Iterable[Any]]
) -> Iterator[NamingFile]:
    """Yield files with the folders of the images that they name.

    Args:
      files: The files.
      names_in: Returns the names of images in a file. Values that are not text are no names.
    """
    for place, folder in zip(files, distinct_folders(files), strict=True):
        beside = f"{folder}/" if folder and _lie_beside(place, names_in(place)) else ""
        split = file_split(place.name) or canonical_split(place.parent.name)
        yield NamingFile(place, f"{folder}/{place.name}" if folder else place.name, beside, split)


def _lie_beside(file: Location, names: Iterable[Any]) -> bool:
    """Return whether images of a file are in its folder, by the first names."""
    there = {entry.name for entry in file.parent.list_dir()}
    stems = {name.rpartition(".")[0] for name in there}
    first = (name for name in itertools.islice(names, _FIRST) if isinstance(name, str) and name)
    return any(
        name.partition("/")[0] in there or ("/" not in name and "." not in name and name in stems)
        for name in first
    )


class NamedImages:
    """The images that files name.

    Attributes:
      names: Their names, unique but for `splits`.
      splits: Split of each image, from the names of the files that name it.
      shared: Clause on the first name of images of several splits, for messages.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.shared = ""
        self._images: dict[str, int] = {}
        self._by_split: dict[str, dict[str, int]] = {}  # {name of several images: {split: image}}
        self._named_by: list[NamingFile] = []  # the first file that names an image
        self.splits: list[str | None] = []

    @property
    def sources(self) -> list[str]:
        """The first file that names each image, for messages."""
        return [file.shown for file in self._named_by]

    def doubled_notes(self, images: Indices) -> list[str]:
        """Return a note on images that have boxes of one class in several files, if there are any.

        Files with boxes of other classes, or with keypoints of the same boxes, belong together. Two
        files with boxes of the same class are more often versions of one file.
        """
        if not len(images):
            return []
        have = "has" if len(images) == 1 else "have"
        return [
            f"{count_of(len(images), 'image')} {have} boxes of the same class from several files,"
            f" such as {self.names[images[0]]!r}: all are kept, and if the files are versions of"
            " one, objects have two boxes"
        ]

    def index(self, name: str, file: NamingFile, where: str) -> int:
        """Return the index of an image.

        Args:
          name: Its name in the file.
          file: The file that names it.
          where: Place in the file, for messages.

        Raises:
          ConfigError: Files of several splits and a file without a split name the image.
        """
        name = file.beside + name
        new = len(self.names)
        index = self._images.setdefault(name, new)
        first = self._named_by[index] if index < new else file
        known = self.splits[index] if index < new else file.split
        several = None not in (known, file.split) and known != file.split
        if (file.split is None and name in self._by_split) or (several and first.split is None):
            place = where if file.split is None else first.place
            raise ConfigError(
                f"{place}: files of several splits name {name!r}, and the name of this file has no"
                " split: put each file into the folder of its images, or rename it"
            )
        if several:
            self.shared = self.shared or (
                f"{where}: {first.place} names {name!r}, too, as an image of another split"
                f" ({first.split} and {file.split})"
            )
            index = self._by_split.setdefault(name, {}).setdefault(str(file.split), new)
        if index == new:
            self.names.append(name)
            self.splits.append(file.split)
            self._named_by.append(file)
        self.splits[index] = self.splits[index] or file.split
        return index
