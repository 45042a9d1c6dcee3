"""The files in archives, as the files of one folder (ADR 47).

An archive stands for the folder around it: `dog/part-1.tar` with the member `1.jpg` is `dog/1.jpg`.
If all archives have names of splits, each stands for a folder of that name: `train-007.tar` is
`train/`. If all members are in one folder that holds folders, this folder is left out of their
paths. If an archive that stands for a split holds only a folder of that name, both are the same
folder.

Members are kept in a temporary file, so that archives are read once and memory does not grow.
"""

from __future__ import annotations

import collections
import functools
import itertools
import marshal
import struct
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple, cast

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.split_names import canonical_split
from recordmill.storage.files import shown
from recordmill.storage.input_files import read_file
from recordmill.transforms.model import batch
from recordmill.transforms.model.repeated_hashes import repeated_hashes
from recordmill.transforms.sources.archives.archive_file import (
    ArchiveReader,
    ListedMember,
    MemberProblem,
    tidy_name,
)
from recordmill.transforms.sources.archives.archive_members import archive_members
from recordmill.transforms.sources.archives.label_files import (
    CLASS_FILES,
    LabelFiles,
    with_labels,
)
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive
from recordmill.transforms.sources.files.walks import (
    File,
    SkippedPath,
    SkipRule,
    WalkItem,
    skip_reason,
)

_BLOCK = 1 << 12  # members written at a time
_SIZE = struct.Struct("<Q")  # of a block; `marshal.load` reads each value from the file
_Found = ListedMember | MemberProblem


class _Survey(NamedTuple):
    """Facts about all members. common: the folder that is left out of their paths, or ''.

    tops: names of the top folders. repeated: keys that several files have.
    """

    common: str
    tops: tuple[str, ...]
    repeated: frozenset[str]


class LabelledMember(NamedTuple):
    """A file in an archive with the class of its record, None without one.

    expected: the class that is missing, for messages, if a file of classes lacks it.
    """

    file: File
    label: str | None = None
    expected: str | None = None


class MisplacedMember(NamedTuple):
    """The reject of a member that has no path in the folder, and so no class or split."""

    reject: Reject


ArchiveItem = WalkItem | LabelledMember | MisplacedMember


class ArchiveTree:
    """The files in the archives of an input.

    archives: the archives, with their paths inside the input as keys.
    skip: returns why a file or folder is skipped because of its name, None if it is not.
    usable: returns whether a file may be a record, by its name.
    split_of: returns the split in the name of an archive; None if names of archives are no splits.
    labels: rule for the files that hold the classes; None if no files do.

    Raises:
      ConfigError: an archive is compressed, or nothing in it can be listed.
    """

    def __init__(
        self,
        archives: Sequence[File],
        *,
        skip: SkipRule,
        usable: Callable[[str], bool],
        split_of: Callable[[str], str | None] | None = None,
        labels: LabelFiles | None = None,
    ) -> None:
        self._skip = skip
        self._may_be_record = usable
        self._labels = labels
        self.has_class_files = False
        self._archives = archives
        self._mounts = _mounts(archives, split_of)
        self._by_split = any(self._mounts[one.key] != _around(one) for one in archives)
        self._spool = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115
        self._at: dict[str, int] = {}
        for archive in archives:
            self._store(archive, alone=len(archives) == 1)
        self._own_folders: dict[str, str] = {}
        self._survey = _Survey("", (), frozenset())
        self._survey = self._look()

    def __reduce__(self) -> tuple[Any, ...]:
        """Workers get no archives, because members are listed once, before the pipeline."""
        return _nothing, ()

    @property
    def common(self) -> str:
        """The folder that is left out of the paths of all members; '' without one."""
        return self._survey.common

    @property
    def top_folders(self) -> tuple[str, ...]:
        """Names of the top folders, sorted."""
        return self._survey.tops

    @property
    def has_samples(self) -> bool:
        """True for WebDataset shards, whose samples have files with their classes."""
        return self._labels is not None or self.has_class_files

    @property
    def lost_classes(self) -> str | None:
        """Why the names of archives are no classes, if they may be meant as classes; else None.

        Names that differ only in a number, as of shards, name no classes.
        """
        stems = {_stem(one).rstrip("0123456789-_. ") for one in self._archives}
        distinct = len(stems) == len(self._archives)
        return self._advice if self._in_one_folder and distinct else None

    @property
    def _in_one_folder(self) -> bool:
        """True if there are several archives, and nothing but their names may be a class."""
        return len(self._archives) > 1 and self._labels is None and not self.top_folders

    @property
    def _advice(self) -> str:
        first = self._archives[0].key
        return (
            "the archives of a folder are read as one folder, and their names are no classes: if"
            " each holds a class, put it into a folder of this class, such as"
            f" {shown(f'{_stem(self._archives[0])}/{first}')}"
        )

    def keys(self) -> Iterator[str]:
        """Yield the paths of the files that may be records."""
        return (self._key(*one) for one in self._names() if self._usable(one[1]))

    def all_keys(self) -> Iterator[str]:
        """Yield the paths of all files that are not skipped."""
        return (self._key(*one) for one in self._names())

    def inner_folders(self) -> list[str]:
        """Return the names of the folders in the top folders, sorted."""
        parts = (key.split("/", 2) for key in self.keys())
        return sorted({one[1] for one in parts if len(one) > 2})

    def folders_in(self, path: str) -> list[str]:
        """Return the names of the folders in a folder, sorted."""
        below = (key[len(path) + 1 :] for key in self.keys() if key.startswith(f"{path}/"))
        return sorted({key.partition("/")[0] for key in below if "/" in key})

    def expand(self, found: Iterator[WalkItem]) -> Iterator[ArchiveItem]:
        """Yield the items, with the files in archives in place of the archives."""
        for item in found:
            if isinstance(item, File) and item.key in self._at:
                yield from self._members(item)
            else:
                yield item

    def _store(self, archive: File, *, alone: bool) -> None:
        """List an archive into the temporary file."""
        name = archive.key.rpartition("/")[2]
        if what := compressed_tar(name):
            raise ConfigError(f"{shown(archive.path)} {what}")
        self._at[archive.key] = self._spool.seek(0, 2)
        with ArchiveReader(archive) as reader:
            first = True
            found = archive_members(reader)
            if self._labels is not None:
                content = functools.partial(_content, archive, reader)
                found = with_labels(found, self._labels, read=content, usable=self._usable)
            for some in _blocks(map(self._tidied, found)):
                if first and alone and isinstance(some[0], MemberProblem) and not some[0].name:
                    raise ConfigError(f"{shown(archive.path)} cannot be read: {some[0].detail}")
                first = False
                data = marshal.dumps([_plain(one) for one in some])
                self._spool.write(_SIZE.pack(len(data)))
                self._spool.write(data)
        self._spool.write(_SIZE.pack(0))

    def _tidied(self, one: _Found) -> _Found | SkippedPath:
        """Return a member with its path as the name, or why it is not listed."""
        if isinstance(one, MemberProblem):
            return one
        name = tidy_name(one.name)
        if not name:
            what = (
                "is empty" if name == "" else "has a part '..', which may lead out of the archive"
            )
            return MemberProblem(one.name, Reason.BAD_NAME, f"the name {what}")
        if reason := self._skipped(name):
            return SkippedPath(reason)
        return one if name == one.name else one._replace(name=name)

    def _stored(self, archive: File) -> Iterator[_Found | SkippedPath]:
        at = self._at[archive.key]
        while True:
            self._spool.seek(at)
            (size,) = _SIZE.unpack(self._spool.read(_SIZE.size))
            if not size:
                return
            at += _SIZE.size + size
            for one in marshal.loads(self._spool.read(size)):
                if len(one) == len(ListedMember._fields):
                    yield ListedMember._make(one)
                elif len(one) == len(SkippedPath._fields):
                    yield SkippedPath._make(one)
                else:
                    yield MemberProblem(one[0], Reason(one[1]), one[2])

    def _usable(self, name: str) -> bool:
        return self._may_be_record(name) and not self._holds_class(name)

    def _holds_class(self, name: str) -> bool:
        by_rule = self._labels is not None and self._labels.holds(name)
        return by_rule or CLASS_FILES.holds(name)

    def _names(self) -> Iterator[tuple[File, str]]:
        """Yield the archive and the path of each file that is not skipped."""
        for archive in self._archives:
            for one in self._stored(archive):
                if isinstance(one, ListedMember):
                    yield archive, one.name

    def _skipped(self, name: str) -> str | None:
        """Return why the outermost skipped part of a path is skipped, None if none is."""
        return skip_reason(name, self._skip)

    def _key(self, archive: File, name: str) -> str:
        own = self._own_folders.get(archive.key)
        if own is not None and name.startswith(f"{own}/"):
            name = name[len(own) + 1 :]
        common = self._survey.common
        inner = name[len(common) + 1 :] if common and name.startswith(f"{common}/") else name
        return self._mounts[archive.key] + inner

    def _look(self) -> _Survey:
        """Find the common folder, the top folders, and the keys that repeat."""
        tops: set[str] = set()
        tops_of: dict[str, set[str]] = {one.key: set() for one in self._archives}
        deep = False
        for archive, name in self._names():
            self.has_class_files |= CLASS_FILES.holds(name)
            if self._usable(name):
                top, *folders = name.split("/")
                tops.add(top if folders else "")
                tops_of[archive.key].add(top if folders else "")
                deep |= len(folders) > 1
        if self._by_split:
            self._own_folders = {
                key: next(iter(some))
                for key, some in tops_of.items()
                if len(some) == 1 and self._is_mount(key, next(iter(some)))
            }
        (common,) = tops if len(tops) == 1 and deep else ("",)
        self._survey = _Survey("" if canonical_split(common) else common, (), frozenset())
        found: set[str] = set()

        def keys() -> Iterator[pa.Array]:
            listed = (self._key(*one) for one in self._names())
            for some in _blocks(listed):
                found.update(key.partition("/")[0] for key in some if "/" in key)
                yield pa.array(some, pa.string())

        hashes = repeated_hashes(keys)
        counts: collections.Counter[str] = collections.Counter()
        if len(hashes):
            for some in keys():
                equal = np.isin(batch.hash_strings(some), hashes)
                counts.update(some.filter(pa.array(equal)).to_pylist())
        repeated = frozenset(key for key, count in counts.items() if count > 1)
        return self._survey._replace(tops=tuple(sorted(found)), repeated=repeated)

    def _is_mount(self, key: str, folder: str) -> bool:
        """Return whether a folder in an archive names the split that the archive stands for."""
        return canonical_split(folder) == self._mounts[key].partition("/")[0]

    def _members(self, archive: File) -> Iterator[ArchiveItem]:
        for one in self._stored(archive):
            if isinstance(one, SkippedPath):
                yield one
            elif isinstance(one, MemberProblem):
                yield self._problem(archive, one)
            elif self._holds_class(one.name):
                yield SkippedPath("label file")
            else:
                yield self._file(archive, one)

    def _problem(self, archive: File, one: MemberProblem) -> WalkItem | MisplacedMember:
        if not one.name:
            return _reject(archive.key, one)
        name = tidy_name(one.name)
        if not name:
            return MisplacedMember(_reject(f"{archive.key}: {one.name}", one))
        reason = self._skipped(name)
        return SkippedPath(reason) if reason else _reject(self._key(archive, name), one)

    def _file(self, archive: File, one: ListedMember) -> WalkItem | LabelledMember:
        key = self._key(archive, one.name)
        if key in self._survey.repeated:
            text = (
                f"several files in the archives have this path, this one at byte {one.offset} of"
                f" {shown(archive.key)}: keep one of them"
            )
            if self._in_one_folder:
                text += f"; {self._advice}"
            return _reject(key, MemberProblem("", Reason.BAD_NAME, text))
        file = File(key, one.at(archive).reference, one.size, archive.mtime)
        return file if self._labels is None else LabelledMember(file, one.label, one.expected)


def find_archives(found: Iterator[WalkItem], usable: Callable[[str], bool]) -> list[File]:
    """Return the archives among the files of a folder, if no other file in it may be a record.

    Beside such files, an archive is often a copy of them, and would double the records.
    """
    archives: list[File] = []
    for item in found:
        if not isinstance(item, File):
            continue
        name = item.key.rpartition("/")[2]
        if is_archive(name) or compressed_tar(name):
            archives.append(item)
        elif usable(name):
            return []
    return archives


def _mounts(
    archives: Sequence[File], split_of: Callable[[str], str | None] | None
) -> dict[str, str]:
    """Return the folder, with a slash at its end, that each archive stands for."""
    around = {one.key: _around(one) for one in archives}
    if split_of is None:
        return around
    splits = {one.key: split_of(one.key.rpartition("/")[2]) for one in archives}
    if not all(splits.values()):
        return around
    return {key: f"{splits[key]}/{folder}" for key, folder in around.items()}


def _around(archive: File) -> str:
    """Return the folder of an archive, with a slash at its end; '' for the top folder."""
    return archive.key[: archive.key.rfind("/") + 1]


def _stem(archive: File) -> str:
    return archive.key.rpartition("/")[2].rpartition(".")[0]


def _reject(key: str, problem: MemberProblem) -> Reject:
    return Reject(shown(key), "read", problem.reason, problem.detail)


def _content(archive: File, reader: ArchiveReader, one: ListedMember) -> bytes:
    """Return the content of a small member. Raises RecordError."""
    if one.method == "tar":
        return reader.read(one.offset, one.length)
    return read_file(one.at(archive).reference, size=one.size, mtime=archive.mtime)


def _plain(one: _Found | SkippedPath) -> tuple[Any, ...]:
    if not isinstance(one, MemberProblem):
        return tuple(one)
    return one.name, one.reason.value, one.detail


def _nothing() -> None:
    return None


def _blocks(found: Iterator[Any]) -> Iterator[list[Any]]:
    while some := list(itertools.islice(found, _BLOCK)):
        yield some
