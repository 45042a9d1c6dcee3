"""A tree of files as an input: the folders give split and label.

The layout is read off the visible folders at the top:

    train/roses/1.jpg test/roses/2.jpg   all are named as splits: SPLIT/LABEL/...
    roses/1.jpg roses/big/2.jpg          any others: LABEL/...
    1.jpg 2.jpg                          none: no labels

Content decides what a file is, not its name: only what is sure to be something else is left out
by name, and counted.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Collection, Iterator, Mapping
from typing import Literal

from recordmill.errors import ConfigError, Reason
from recordmill.files import Location, StorageError, shown
from transforms.kind import Listed
from transforms.sources.references import (
    References,
    Unlabelled,
    broken_label,
    check_unlabelled,
    known_split,
    no_label,
)
from transforms.sources.stats import EMPTY, Problem
from transforms.sources.walks import File, Finding, LeftOut, top_folders, walk

Layout = Literal["splits", "labels", "flat"]
_NOT_UTF8 = Problem(Reason.BAD_NAME, "the name is not UTF-8: rename it")
_SHAPES = {"splits": "SPLIT/LABEL/FILE", "labels": "LABEL/FILE", "flat": "FILE"}

# Extensions of files that often stand between pictures and are none.
_DOCUMENTS = "doc docx htm html license md odt pdf ppt pptx rst rtf txt xls xlsx"
_DATA = "csv db h5 hdf5 json jsonl mat npy npz parquet pickle pkl sqlite tfrecord tsv xml"
_PROGRAMS = "bin c cfg cpp dll exe h ini ipynb js lock log pth pt py pyc sh toml yaml yml"
_ARCHIVES = "7z bak gz md5 part rar sha256 tar tgz tmp zip"
_SOUND_AND_VIDEO = "avi flac m4a mkv mov mp3 mp4 ogg wav webm"
NOT_PICTURES = tuple(" ".join((_DOCUMENTS, _DATA, _PROGRAMS, _ARCHIVES, _SOUND_AND_VIDEO)).split())

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


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileTree:
    """Lists the files under a folder; symbolic links are followed.

    root: a local folder or a URI.
    unlabelled: what becomes of files without label in a tree that has labels.
    leave_out: extensions (without dot, in lower case) that are no input.
    """

    root: str
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_PICTURES

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        Location.parse(self.root)

    @property
    def unique_keys(self) -> bool:
        return True

    def scan(self) -> Iterator[Listed]:
        """Raises ConfigError if there is no such folder or nothing to use in it."""
        root = Location.parse(self.root)
        layout = layout_of(_top_folders(root))
        found = References()
        totals: collections.Counter[str] = collections.Counter()
        # Object stores list label by label: memory holds the objects of one.
        for finding in walk(root, filtered_by, depth={"flat": 0, "labels": 1, "splits": 2}[layout]):
            self._sort(finding, layout=layout, into=found)
            if found.full:
                totals.update(found.counts())
                yield found.take()
        totals.update(found.counts())
        yield found.take()
        if not totals["rows"]:
            raise ConfigError(_nothing_usable(root, totals))

    def _sort(self, finding: Finding, *, layout: Layout, into: References) -> None:
        """Makes a finding a row, a reject, or a count of what was left out."""
        if isinstance(finding, LeftOut):
            into.filter(finding.by)
        elif not isinstance(finding, File):
            into.rejects.append(finding)
        elif has_extension(finding.key.rpartition("/")[2], self.leave_out):
            into.filter("extension")
        elif not _is_utf8(finding.key):
            into.reject(shown(finding.key), _NOT_UTF8)
        elif finding.size == 0:
            into.reject(finding.key, EMPTY)
        else:
            split, label = split_and_label(finding.key, layout)
            if label is None and layout != "flat" and self.unlabelled == "reject":
                into.reject(finding.key, no_label(_SHAPES[layout]))
            elif label is not None and (why := broken_label(label)):
                into.reject(finding.key, Problem(Reason.BAD_NAME, why))
            else:
                into.add(*finding, label=label, split=split)


def _top_folders(root: Location) -> list[str]:
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
        return top_folders(root, filtered_by)
    except StorageError as error:
        raise ConfigError(f"the input folder cannot be used: {error}") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _nothing_usable(root: Location, totals: Mapping[str, int]) -> str:
    told = [f"{n} {what}" for what, n in sorted(totals.items()) if n]
    message = (
        f"found no file to use in {root} ({', '.join(told) or 'it is empty'}): expected "
        "LABEL/FILE, SPLIT/LABEL/FILE, or files straight in it"
    )
    if totals["rejected as unlabelled"]:
        message += "; to use files without label, say --unlabelled keep"
    return message
