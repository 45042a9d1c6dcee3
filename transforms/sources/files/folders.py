"""A tree of files as an input: the folders give split and label.

The layout is read off the visible folders at the top:

    train/roses/1.jpg test/roses/2.jpg   all are named as splits: SPLIT/LABEL/...
    roses/1.jpg roses/big/2.jpg          any others: LABEL/...
    1.jpg 2.jpg                          none: no labels

Content decides what a file is, not its name: only what is sure to be something else is left out
by name, and counted.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.storage.files import Location, StorageError, shown
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.sources.files.file_stat import EMPTY, Problem
from recordmill.transforms.sources.files.references import (
    References,
    Unlabelled,
    broken_label,
    check_unlabelled,
    known_split,
    no_label,
)
from recordmill.transforms.sources.files.walks import (
    File,
    LeftOut,
    as_pattern,
    glob,
    top_folders,
    walk,
)

Layout = Literal["splits", "labels", "flat"]
_NOT_UTF8 = Problem(Reason.BAD_NAME, "the name is not UTF-8: rename it")
_SHAPES = {"splits": "SPLIT/LABEL/FILE", "labels": "LABEL/FILE", "flat": "FILE"}

# Extensions of files that often stand between pictures and are none.
_DOCUMENTS = "doc docx htm html license md odt pdf ppt pptx rst rtf txt xls xlsx"
_DATA = "csv db h5 hdf5 json jsonl mat npy npz parquet pickle pkl sqlite tfrecord tsv xml"
_PROGRAMS = "bin c cfg cpp dll exe h ini ipynb js lock log pth pt py pyc sh toml yaml yml"
ARCHIVES = "7z bak gz md5 part rar sha256 tar tgz tmp zip"
SOUND_AND_VIDEO = "avi flac m4a mkv mov mp3 mp4 ogg wav webm"
NOT_PICTURES = tuple(" ".join((_DOCUMENTS, _DATA, _PROGRAMS, ARCHIVES, SOUND_AND_VIDEO)).split())

_BY_SYSTEMS = frozenset(
    ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir", "lost+found", "$recycle.bin")
)


def layout_of(folders: Collection[str]) -> Layout:
    """The layout, by the names of the visible folders at the top."""
    if not folders:
        return "flat"
    return "splits" if all(map(known_split, folders)) else "labels"


def split_and_label(key: str, layout: Layout) -> tuple[str | None, str | None]:
    """What the folders of a path relative to the root say about a file."""
    parts = key.split("/")
    if layout == "flat":
        return None, None
    if layout == "labels":
        return None, parts[0] if len(parts) > 1 else None
    split = known_split(parts[0]) if len(parts) > 1 else None
    return split, parts[1] if len(parts) > 2 else None


def filtered_by(name: str) -> str | None:
    """Why a file or folder is left out by its name alone, None if it is not."""
    if name.startswith("."):
        return "hidden"
    if name.endswith("~"):
        return "backup"
    return "system" if name.lower() in _BY_SYSTEMS else None


def has_extension(name: str, extensions: Collection[str]) -> bool:
    """Whether the name ends in one of the extensions (without dot), in any case."""
    stem, dot, extension = name.rpartition(".")
    return bool(stem and dot) and extension.lower() in extensions


class Member(NamedTuple):
    """A file that may be an input, and what its folders say about it."""

    file: File
    label: str | None
    split: str | None


def members(
    root: Location, *, layout: Layout, unlabelled: Unlabelled, leave_out: Collection[str]
) -> Iterator[Member | LeftOut | Reject]:
    """What is under a folder: files, what is none or no input, and what was left out.

    leave_out: extensions (without dot, in lower case) that are no input.
    """
    # Object stores list label by label: memory holds the objects of one.
    for finding in walk(root, filtered_by, depth={"flat": 0, "labels": 1, "splits": 2}[layout]):
        if not isinstance(finding, File):
            yield finding
        else:
            yield _judged(finding, layout, unlabelled, leave_out)


def _judged(
    file: File, layout: Layout, unlabelled: Unlabelled, leave_out: Collection[str]
) -> Member | LeftOut | Reject:
    if has_extension(file.key.rpartition("/")[2], leave_out):
        return LeftOut("extension")
    if problem := unusable(file):
        return Reject(shown(file.key), "read", *problem)
    split, label = split_and_label(file.key, layout)
    if label is None and layout != "flat" and unlabelled == "reject":
        return Reject(file.key, "read", *no_label(_SHAPES[layout]))
    if label is not None and (why := broken_label(label)):
        return Reject(file.key, "read", Reason.BAD_NAME, why)
    return Member(file, label, split)


def unusable(file: File) -> Problem | None:
    """What is wrong with any file of that name and size."""
    if not _is_utf8(file.key):
        return _NOT_UTF8
    return None if file.size else EMPTY


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileTree:
    """Lists files as references; symbolic links are followed.

    input: a folder, a pattern (`*`, `?`, `[...]`, `**` for folders), or a file; a path or URI.
      Folders give split and label, those that a pattern matches too.
    unlabelled: what becomes of files without label where folders give labels.
    leave_out: extensions (without dot, in lower case) that are no input, unless it is a file, or a
      pattern, that ends in one.
    """

    input: str
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_PICTURES

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        Location.parse(self.input)

    @property
    def unique_keys(self) -> bool:
        return True

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError if there is nothing to use."""
        found = References()
        for one in self._find():
            if isinstance(one, Member):
                found.add(*one.file, label=one.label, split=one.split)
            elif isinstance(one, LeftOut):
                found.filter(one.by)
            else:
                found.rejects.append(one)
            if found.full:
                yield found.take()
        yield found.take()
        if not found.totals["rows"]:
            raise ConfigError(nothing_usable(Location.parse(self.input), found))

    def _find(self) -> Iterator[Member | LeftOut | Reject]:
        place = Location.parse(self.input)
        try:
            pattern = as_pattern(place)
            alone = place.stat() if place.exists() and not place.is_dir() else None
        except StorageError as error:
            raise ConfigError(f"the input cannot be used: {error}") from error
        if pattern is not None:
            yield from self._match(*pattern)
        elif alone is not None:
            file = File(place.name, str(place), alone.size, alone.mtime_ns)
            yield _judged(file, "flat", self.unlabelled, ())
        else:
            layout = read_layout(place)
            yield from members(
                place, layout=layout, unlabelled=self.unlabelled, leave_out=self.leave_out
            )

    def _match(self, root: Location, pattern: str) -> Iterator[Member | LeftOut | Reject]:
        if not root.is_dir():
            raise ConfigError(f"no file matches {self.input}: there is no folder {root}")
        first, *rest = pattern.split("/")
        layout: Layout = "flat"
        if rest or first == "**":
            there = top_folders(root, filtered_by)
            layout = layout_of(
                [one for one in there if first == "**" or fnmatch.fnmatchcase(one, first)]
            )
        named = has_extension(pattern.rpartition("/")[2], self.leave_out)
        leave_out = () if named else self.leave_out
        for finding in glob(root, pattern, filtered_by):
            if isinstance(finding, File):
                yield _judged(finding, layout, self.unlabelled, leave_out)
            else:
                yield finding


def read_layout(root: Location) -> Layout:
    """The layout of a folder. Raises ConfigError if there is no such folder."""
    if not _is_utf8(str(root)):
        raise ConfigError(
            f"expected an input folder whose path is UTF-8, got {shown(root)}: rename it, or make "
            "a symbolic link to it"
        )
    try:
        if not root.exists():
            raise ConfigError(f"the input folder {root} is not there: check the path")
        if not root.is_dir():
            raise ConfigError(
                f"expected an input folder, but {root} is a file: give the folder around it"
            )
        return layout_of(top_folders(root, filtered_by))
    except StorageError as error:
        raise ConfigError(f"the input folder cannot be used: {error}") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def nothing_usable(root: Location, found: References) -> str:
    """The message about a folder in which no file is, or a pattern that none fits."""
    if as_pattern(root) is not None:
        message = f"no file to use matches {root} ({found.told() or 'nothing does'})"
    else:
        message = (
            f"found no file to use in {root} ({found.told() or 'it is empty'}): expected "
            "LABEL/FILE, SPLIT/LABEL/FILE, or, where there are no folders, files straight in it"
        )
    if found.totals["rejected as unlabelled"]:
        message += "; to use files without label, say --unlabelled keep"
    return message
