"""Walks over trees of files, local and in object stores, told as one stream of findings."""

from __future__ import annotations

import collections
import dataclasses
import errno
import fnmatch
import itertools
import os
import pathlib
import re
import stat as modes
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from pyarrow import fs

from recordmill.errors import Reject
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import explained
from recordmill.storage.stores import ArrowFiles
from recordmill.transforms.sources.files.file_stat import Problem, inside, special, trouble

_PATTERN = re.compile(r"[*?\[]")


class File(NamedTuple):
    """A regular file. key: path relative to the root; size: bytes; mtime: ns since the epoch."""

    key: str
    path: str
    size: int
    mtime: int


class LeftOut(NamedTuple):
    """A file or a whole folder that was left out by its name; `by` says why."""

    by: str


Finding = File | LeftOut | Reject
LeaveOut = Callable[[str], str | None]  # name of a file or folder -> why it is left out
Enter = Callable[[str], bool]  # key of a folder -> whether to look into it


def _everywhere(key: str) -> bool:
    del key
    return True


def walk(
    root: Location, leave_out: LeaveOut, *, depth: int, enter: Enter = _everywhere
) -> Iterator[Finding]:
    """What is under `root`, which must be a folder; symbolic links are followed.

    depth: how many levels of folders an object store lists one by one; below, a request lists all
    that is under a folder, which is faster but is held in memory.
    """
    return (
        _walk_local(root.local_path, leave_out, enter)
        if root.is_local
        else _walk_store(root, leave_out, enter, depth)
    )


def glob(root: Location, pattern: str, leave_out: LeaveOut) -> Iterator[File | Reject]:
    """What matches a pattern under `root`, which must be a folder: `*`, `?` and `[...]` within a
    name, `**` for folders, or none.
    """
    parts = pattern.split("/")
    fixed = parts.index("**") if "**" in parts else len(parts)

    def leads_on(key: str) -> bool:
        names = key.split("/")
        return ("**" in parts or len(names) < len(parts)) and all(
            map(fnmatch.fnmatchcase, names, parts[:fixed])
        )

    for finding in walk(root, leave_out, depth=fixed, enter=leads_on):
        if isinstance(finding, File):
            if matches(finding.key.split("/"), parts):
                yield finding
        elif isinstance(finding, Reject) and (
            leads_on(finding.key) or matches(finding.key.split("/"), parts)
        ):
            yield finding  # perhaps a folder of what matches


def as_pattern(place: Location) -> tuple[Location, str] | None:
    """The folder that a pattern begins at, and the rest of it; None for what is none, or is there
    just as it is written.
    """
    if _PATTERN.search(place.path) is None or place.exists():
        return None
    parts = place.path.split("/")
    fixed = list(itertools.takewhile(lambda part: not _PATTERN.search(part), parts))
    path = "/".join(fixed) or ("/" if place.is_local else "")
    return dataclasses.replace(place, path=path), "/".join(parts[len(fixed) :])


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Whether the parts of a path are those of a pattern."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(matches(names[n:], parts[1:]) for n in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and matches(names[1:], parts[1:])


def top_folders(root: Location, leave_out: LeaveOut) -> list[str]:
    """Names of the visible folders in `root`. Raises StorageError."""
    names = [entry.name for entry in root.list_dir() if entry.kind == "dir"]
    return [name for name in names if not leave_out(name)]


def _walk_local(top: str, leave_out: LeaveOut, enter: Enter) -> Iterator[Finding]:
    """Depth first, each folder sorted. Memory: the names in the folders that are open."""
    base = top.rstrip("/") + "/"
    status = os.stat(top)
    # Per open folder: its key with a slash after it, its identity, the names still to come.
    folders = [("", _identity(status), iter(sorted(os.listdir(top))))]
    outside = {_identity(path.stat()) for path in pathlib.Path(os.path.realpath(top)).parents}
    while folders:
        prefix, _, names = folders[-1]
        name = next(names, None)
        if name is None:
            folders.pop()
            continue
        if by := leave_out(name):
            yield LeftOut(by)
            continue
        key = prefix + name
        path = base + key
        try:
            status = os.stat(path)
            if modes.S_ISDIR(status.st_mode):
                if not enter(key):
                    continue
                identity = _identity(status)
                if identity in outside or any(identity == above for _, above, _ in folders):
                    raise OSError(errno.ELOOP, "leads back to a folder above it")
                folders.append((key + "/", identity, iter(sorted(os.listdir(path)))))
                continue
        except OSError as error:
            yield _reject(key, trouble(error, path))
            continue
        if problem := special(status.st_mode):
            yield _reject(key, problem)
        else:
            yield File(key, path, status.st_size, status.st_mtime_ns)


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


def _reject(key: str, problem: Problem) -> Reject:
    return Reject(shown(key), "read", problem.reason, problem.detail)


def _walk_store(root: Location, leave_out: LeaveOut, enter: Enter, depth: int) -> Iterator[Finding]:
    store = root.store
    assert isinstance(store, ArrowFiles)
    base = store.path(root.path)
    hidden: set[str] = set()
    pending = collections.deque([(base, 0)])
    while pending:
        folder, level = pending.popleft()
        with explained("list", root):
            # Sorted: stores differ in their order.
            infos = sorted(_select(store, folder, recursive=level >= depth), key=_path)
        for info in infos:
            key = info.path[len(base) :].strip("/")
            if left_out := _outermost(key, leave_out):
                part, by = left_out
                # A folder counts once, as it does where the walk does not enter it.
                if part not in hidden:
                    hidden.add(part)
                    yield LeftOut(by)
            elif info.type == fs.FileType.Directory:
                if level < depth and enter(key):
                    pending.append((info.path, level + 1))
            else:
                yield File(key, str(inside(root, key)), info.size or 0, info.mtime_ns or 0)


def _select(store: ArrowFiles, folder: str, *, recursive: bool) -> list[Any]:
    found: list[Any] = store.filesystem.get_file_info(fs.FileSelector(folder, recursive=recursive))
    return found


def _path(info: Any) -> str:
    return str(info.path)


def _outermost(key: str, leave_out: LeaveOut) -> tuple[str, str] | None:
    """The outermost part of the path that is left out, as (path, why)."""
    parts = key.split("/")
    for n, name in enumerate(parts, 1):
        if by := leave_out(name):
            return "/".join(parts[:n]), by
    return None
