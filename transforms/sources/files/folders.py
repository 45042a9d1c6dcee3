"""Source of files in a folder tree, whose folders give split and label.

The visible top-level folders determine the layout:

    train/roses/1.jpg test/roses/2.jpg   only names of splits: SPLIT/LABEL/...
    roses/1.jpg roses/big/2.jpg          other names: LABEL/...
    1.jpg 2.jpg                          no folders: no labels

The content of a file decides its format, not its name. Files are skipped by extension only if the
extension clearly belongs to another format; skipped files are counted.
"""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Collection, Iterator
from typing import Literal, NamedTuple

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.storage.files import Location, StorageError, shown
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.sources.files.file_stat import EMPTY, RejectCause
from recordmill.transforms.sources.files.references import (
    ReferenceCollector,
    Unlabelled,
    canonical_split,
    check_unlabelled,
    label_problem,
    no_label,
)
from recordmill.transforms.sources.files.walks import (
    File,
    SkippedPath,
    glob,
    split_pattern,
    top_folders,
    walk,
)

Layout = Literal["splits", "labels", "flat"]
_NOT_UTF8 = RejectCause(Reason.BAD_NAME, "the name is not UTF-8: rename it")
_PATH_FORMS = {"splits": "SPLIT/LABEL/FILE", "labels": "LABEL/FILE", "flat": "FILE"}

# Extensions of other files that often lie beside images.
_DOCUMENTS = "doc docx htm html license md odt pdf ppt pptx rst rtf txt xls xlsx"
_DATA = "csv db h5 hdf5 json jsonl mat npy npz parquet pickle pkl sqlite tfrecord tsv xml"
_PROGRAMS = "bin c cfg cpp dll exe h ini ipynb js lock log pth pt py pyc sh toml yaml yml"
ARCHIVES = "7z bak gz md5 part rar sha256 tar tgz tmp zip"
SOUND_AND_VIDEO = "avi flac m4a mkv mov mp3 mp4 ogg wav webm"
NOT_IMAGES = tuple(" ".join((_DOCUMENTS, _DATA, _PROGRAMS, ARCHIVES, SOUND_AND_VIDEO)).split())

_SYSTEM_FILES = frozenset(
    ("thumbs.db", "ehthumbs.db", "desktop.ini", "__macosx", "@eadir", "lost+found", "$recycle.bin")
)


def layout_of(folders: Collection[str]) -> Layout:
    """Return the layout, given the names of the visible top-level folders."""
    if not folders:
        return "flat"
    return "splits" if all(map(canonical_split, folders)) else "labels"


def split_and_label(key: str, layout: Layout) -> tuple[str | None, str | None]:
    """Return (split, label) of a file, given its path relative to the root."""
    parts = key.split("/")
    if layout == "flat":
        return None, None
    if layout == "labels":
        return None, parts[0] if len(parts) > 1 else None
    split = canonical_split(parts[0]) if len(parts) > 1 else None
    return split, parts[1] if len(parts) > 2 else None


def skip_reason(name: str) -> str | None:
    """Return why a file or folder is skipped because of its name, None if it is not skipped."""
    if name.startswith("."):
        return "hidden"
    if name.endswith("~"):
        return "backup"
    return "system" if name.lower() in _SYSTEM_FILES else None


def has_extension(name: str, extensions: Collection[str]) -> bool:
    """Return whether a name has one of the extensions (given without dot, in lower case)."""
    stem, dot, extension = name.rpartition(".")
    return bool(stem and dot) and extension.lower() in extensions


class LabelledFile(NamedTuple):
    """A file with the label and the split of its folders."""

    file: File
    label: str | None
    split: str | None


def walk_files(
    root: Location, *, layout: Layout, unlabelled: Unlabelled, leave_out: Collection[str]
) -> Iterator[LabelledFile | SkippedPath | Reject]:
    """Yield the files under a folder, skipped paths and rejects.

    leave_out: extensions to skip (without dot, in lower case).
    """
    # Object stores list label by label, so that memory holds the objects of one label.
    for item in walk(root, skip_reason, depth={"flat": 0, "labels": 1, "splits": 2}[layout]):
        if not isinstance(item, File):
            yield item
        else:
            yield _classify(item, layout, unlabelled, leave_out)


def _classify(
    file: File, layout: Layout, unlabelled: Unlabelled, leave_out: Collection[str]
) -> LabelledFile | SkippedPath | Reject:
    if has_extension(file.key.rpartition("/")[2], leave_out):
        return SkippedPath("extension")
    if problem := file_problem(file):
        return Reject(shown(file.key), "read", *problem)
    split, label = split_and_label(file.key, layout)
    if label is None and layout != "flat" and unlabelled == "reject":
        return Reject(file.key, "read", *no_label(_PATH_FORMS[layout]))
    if label is not None and (why := label_problem(label)):
        return Reject(file.key, "read", Reason.BAD_NAME, why)
    return LabelledFile(file, label, split)


def file_problem(file: File) -> RejectCause | None:
    """Return the problem of a file that is empty or whose name is not UTF-8, else None."""
    if not _is_utf8(file.key):
        return _NOT_UTF8
    return None if file.size else EMPTY


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileTree:
    """Lists files as references. Follows symbolic links.

    input: path or URI of a folder, a pattern (`*`, `?`, `[...]`, `**` for folders), or a file.
      Folders give split and label, also those that a pattern matches.
    unlabelled: whether to reject or keep files without label if folders give labels.
    leave_out: extensions to skip (without dot, in lower case). They do not apply to a file, nor to
      a pattern that ends in one of them.
    """

    input: str
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_IMAGES

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        Location.parse(self.input)

    @property
    def unique_keys(self) -> bool:
        """True, because a key is a path."""
        return True

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files as references.

        Raises:
          ConfigError: the input has no usable file.
        """
        found = ReferenceCollector()
        for one in self._find():
            if isinstance(one, LabelledFile):
                found.add(*one.file, label=one.label, split=one.split)
            elif isinstance(one, SkippedPath):
                found.filter(one.reason)
            else:
                found.rejects.append(one)
            if found.full:
                yield found.take()
        yield found.take()
        if not found.totals["rows"]:
            raise ConfigError(no_files_message(Location.parse(self.input), found))

    def _find(self) -> Iterator[LabelledFile | SkippedPath | Reject]:
        place = Location.parse(self.input)
        try:
            pattern = split_pattern(place)
            alone = place.stat() if place.exists() and not place.is_dir() else None
        except StorageError as error:
            raise ConfigError(f"the input cannot be used: {error}") from error
        if pattern is not None:
            yield from self._match(*pattern)
        elif alone is not None:
            file = File(place.name, str(place), alone.size, alone.mtime_ns)
            yield _classify(file, "flat", self.unlabelled, ())
        else:
            layout = read_layout(place)
            yield from walk_files(
                place, layout=layout, unlabelled=self.unlabelled, leave_out=self.leave_out
            )

    def _match(self, root: Location, pattern: str) -> Iterator[LabelledFile | SkippedPath | Reject]:
        if not root.is_dir():
            raise ConfigError(f"no file matches {self.input}: there is no folder {root}")
        first, *rest = pattern.split("/")
        layout: Layout = "flat"
        if rest or first == "**":
            there = top_folders(root, skip_reason)
            layout = layout_of(
                [one for one in there if first == "**" or fnmatch.fnmatchcase(one, first)]
            )
        named = has_extension(pattern.rpartition("/")[2], self.leave_out)
        leave_out = () if named else self.leave_out
        for item in glob(root, pattern, skip_reason):
            if isinstance(item, File):
                yield _classify(item, layout, self.unlabelled, leave_out)
            else:
                yield item


def read_layout(root: Location) -> Layout:
    """Return the layout of a folder.

    Raises:
      ConfigError: there is no such folder, or it cannot be listed.
    """
    if not _is_utf8(str(root)):
        raise ConfigError(
            f"expected an input folder whose path is UTF-8, got {shown(root)}: rename it, or make "
            "a symbolic link to it"
        )
    try:
        if not root.exists():
            raise ConfigError(f"the input folder {root} does not exist: check the path")
        if not root.is_dir():
            raise ConfigError(
                f"expected an input folder, but {root} is a file: give the folder around it"
            )
        return layout_of(top_folders(root, skip_reason))
    except StorageError as error:
        raise ConfigError(f"the input folder cannot be used: {error}") from error


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def no_files_message(root: Location, found: ReferenceCollector) -> str:
    """Return the error message for a folder or a pattern without usable files."""
    if split_pattern(root) is not None:
        message = f"no usable file matches {root} ({found.summary() or 'no file matches'})"
    else:
        message = (
            f"found no usable file in {root} ({found.summary() or 'it is empty'}): expected "
            "LABEL/FILE, SPLIT/LABEL/FILE, or files directly in a folder without subfolders"
        )
    if found.totals["rejected as unlabelled"]:
        message += "; to use files without label, pass --unlabelled keep"
    return message
