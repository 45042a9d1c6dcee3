"""Recursive listings of local folders and object stores, as one stream of items."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import errno
import fnmatch
import itertools
import os
import pathlib
import re
import stat as modes
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from recordmill.errors import Reason, Reject
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import call_with_retries, raise_storage_errors
from recordmill.storage.stores import ArrowFiles, Page
from recordmill.transforms.sources.files.file_stat import (
    RejectCause,
    special_file_problem,
    stat_problem,
)
from recordmill.transforms.sources.files.path_rules import NO_NAME, resolve_path
from recordmill.transforms.sources.files.skipped_names import holds_lists

_PATTERN = re.compile(r"[*?\[]")


class File(NamedTuple):
    """A regular file. key: path relative to the root; size: bytes; mtime: ns since the epoch."""

    key: str
    path: str
    size: int
    mtime: int


class SkippedPath(NamedTuple):
    """A file or a whole folder that is skipped because of its name. files: number of its files."""

    reason: str
    files: int = 1


WalkItem = File | SkippedPath | Reject
SkipRule = Callable[[str], str | None]  # name -> reason to skip it, or None
Enter = Callable[[str], bool]  # key of a folder -> whether to list it
Counts = Callable[[str], bool]  # key of a skipped file -> whether to count it


def _all(key: str) -> bool:
    del key
    return True


def walk(
    root: Location,
    leave_out: SkipRule,
    *,
    depth: int,
    enter: Enter = _all,
    counts: Counts = _all,
) -> Iterator[WalkItem]:
    """Yield the files under the folder `root`, skipped paths and rejects. Follows symbolic links.

    Args:
      root: an existing folder.
      leave_out: returns the reason to skip a name, or None.
      depth: levels of folders that an object store lists one request per folder. Below that level
        one request lists everything under a folder, which is faster but held in memory.
      enter: returns whether to list a folder, given its key.
      counts: returns whether a skipped file is counted, given its key.
    """
    return (
        _walk_local(root.local_path, leave_out, enter, counts)
        if root.is_local
        else _walk_store(root, leave_out, enter, counts, depth)
    )


def glob(root: Location, pattern: str, leave_out: SkipRule) -> Iterator[WalkItem]:
    """Yield the files under the folder `root` that match a pattern, skipped ones, and rejects.

    `*`, `?` and `[...]` match within a name; `**` matches any number of folders.
    Names are not skipped if a part of the pattern that matches them begins with `_` or `.`, too.
    """
    parts = pattern.split("/")
    fixed = parts.index("**") if "**" in parts else len(parts)
    explicit = [part for part in parts if part.startswith(("_", "."))]

    def skip(name: str) -> str | None:
        reason = leave_out(name)
        named = reason is not None and any(fnmatch.fnmatchcase(name, part) for part in explicit)
        return None if named else reason

    def wanted(key: str) -> bool:
        return matches(key.split("/"), parts)

    def leads_on(key: str) -> bool:
        names = key.split("/")
        return ("**" in parts or len(names) < len(parts)) and all(
            map(fnmatch.fnmatchcase, names, parts[:fixed])
        )

    for item in walk(root, skip, depth=fixed, enter=leads_on, counts=wanted):
        if isinstance(item, File):
            if wanted(item.key):
                yield item
        elif isinstance(item, SkippedPath):
            if item.files:
                yield item
        elif leads_on(item.key) or wanted(item.key):
            yield item  # it may be a folder that holds matching files


def split_pattern(place: Location) -> tuple[Location, str] | None:
    """Split a path into the folder before its first wildcard and the pattern below that folder.

    Returns None for a path without wildcards, and for one that exists literally.
    """
    if _PATTERN.search(place.path) is None or place.exists():
        return None
    parts = place.path.split("/")
    fixed = list(itertools.takewhile(lambda part: not _PATTERN.search(part), parts))
    path = "/".join(fixed) or ("/" if place.is_local else "")
    return dataclasses.replace(place, path=path), "/".join(parts[len(fixed) :])


def find_folders(place: Location) -> list[Location]:
    """Return the folders that match a pattern, sorted; the place itself without a pattern."""
    found = split_pattern(place)
    if found is None:
        return [place]
    root, pattern = found
    folders = [root] if root.is_dir() else []
    for part in pattern.split("/"):
        names = [(folder, entry) for folder in folders for entry in folder.list_dir()]
        folders = sorted(
            (folder / one.name for folder, one in names if one.kind == "dir"
             and fnmatch.fnmatchcase(one.name, part)), key=str,
        )  # fmt: skip
    return folders


def matches(names: Sequence[str], parts: Sequence[str]) -> bool:
    """Return whether the parts of a path match the parts of a pattern."""
    if not parts:
        return not names
    if parts[0] == "**":
        return any(matches(names[n:], parts[1:]) for n in range(len(names) + 1))
    return bool(names) and fnmatch.fnmatchcase(names[0], parts[0]) and matches(names[1:], parts[1:])


def _walk_local(top: str, leave_out: SkipRule, enter: Enter, counts: Counts) -> Iterator[WalkItem]:
    """Walk depth first, in sorted order. Holds the names of the open folders in memory."""
    base = top.rstrip("/") + "/"
    with raise_storage_errors("list", top):
        status = call_with_retries(os.stat, top)
        listed = call_with_retries(os.listdir, top)
    # Per open folder: its key with a trailing slash, its identity, the remaining names.
    folders = [("", _identity(status), iter(sorted(listed)))]
    outside = {_identity(path.stat()) for path in pathlib.Path(os.path.realpath(top)).parents}
    while folders:
        prefix, _, names = folders[-1]
        name = next(names, None)
        if name is None:
            folders.pop()
            continue
        key = prefix + name
        path = base + key
        if (reason := leave_out(name)) and not holds_lists(key):
            yield SkippedPath(reason, _count_files(base, key, enter, counts))
            continue
        try:
            status = call_with_retries(os.stat, path)
            if modes.S_ISDIR(status.st_mode):
                if not enter(key):
                    continue
                identity = _identity(status)
                if identity in outside or any(identity == above for _, above, _ in folders):
                    raise OSError(errno.ELOOP, "leads back to a folder above it")
                listed = call_with_retries(os.listdir, path)
                folders.append((key + "/", identity, iter(sorted(listed))))
                continue
        except OSError as error:
            yield _reject(key, stat_problem(error, path))
            continue
        if problem := special_file_problem(status.st_mode):
            yield _reject(key, problem)
        else:
            yield File(key, path, status.st_size, status.st_mtime_ns)


def _count_files(base: str, key: str, enter: Enter, counts: Counts) -> int:
    """Return the number of files to count in a folder, or of a file; symbolic links are files."""
    if os.path.islink(base + key) or not os.path.isdir(base + key):
        return int(counts(key))
    if not enter(key):
        return 0
    return sum(
        counts(os.path.join(folder, name)[len(base) :])
        for folder, _, names in os.walk(base + key)
        for name in names
    )


def _identity(status: os.stat_result) -> tuple[int, int]:
    return status.st_dev, status.st_ino


_NO_NAME = RejectCause(Reason.BAD_NAME, NO_NAME)


def _reject(key: str, problem: RejectCause) -> Reject:
    return Reject(shown(key), "read", problem.reason, problem.detail)


def _walk_store(
    root: Location, leave_out: SkipRule, enter: Enter, counts: Counts, depth: int
) -> Iterator[WalkItem]:
    store = root.store
    assert isinstance(store, ArrowFiles)
    query = f"?{root.query}" if root.query else ""
    pending = collections.deque([("", 0)])  # keys of folders, with a slash at their ends
    begun: collections.deque[tuple[str, int, Iterator[Page]]] = collections.deque()

    def begin(folder: str, level: int) -> Iterator[Page]:
        path = f"{root.path}/{folder}".strip("/")
        return lister.begin(path, recursive=level >= depth)

    with raise_storage_errors("list", root), contextlib.closing(store.open_lister()) as lister:
        while pending or begun:
            if not begun:
                folder, level = pending.popleft()
                begun.append((folder, level, begin(folder, level)))
            prefix, level, pages = begun.popleft()
            folders: list[str] = []
            # Facts of the folder of the last path, because most files share it.
            head, head_reason, head_uri = None, None, ""
            for page in pages:
                for path, size, mtime, is_folder in page:
                    if "//" in f"/{path}/":
                        odd = _without_name(begin(prefix, depth)) if is_folder else [path]
                        yield from (_reject(prefix + one, _NO_NAME) for one in odd)
                        continue
                    key = f"{prefix}{path}".strip("/")
                    above, _, name = key.rpartition("/")
                    if above != head:
                        head, head_uri = above, _uri_before_names(root, above)
                        head_reason = skip_reason(above, leave_out) if above else None
                    if reason := head_reason or _skip_reason_of_name(key, name, leave_out):
                        if not is_folder:
                            yield SkippedPath(reason, int(counts(key)))
                        elif enter(key):
                            below = itertools.chain.from_iterable(begin(f"{key}/", depth))
                            keys = (f"{key}/{one.path}".strip("/") for one in below)
                            yield SkippedPath(reason, sum(map(counts, keys)))
                    elif not is_folder:
                        is_plain = head_uri and "?" not in name and name not in (".", "..")
                        uri = f"{head_uri}{name}{query}" if is_plain else None
                        yield File(key, uri or str(resolve_path(root, key)), size, mtime)
                    elif enter(key):
                        folders.append(key)
                # After the first page, because some callers need no more.
                while pending and len(begun) < lister.ahead - 1:
                    folder, its_level = pending.popleft()
                    begun.append((folder, its_level, begin(folder, its_level)))
            pending.extend((f"{folder}/", level + 1) for folder in sorted(folders))


def _without_name(pages: Iterator[Page]) -> Iterator[str]:
    """Yield the paths of objects in the folder without a name of a listing of all objects."""
    for one in itertools.chain.from_iterable(pages):
        if one.path.startswith("/"):
            yield one.path


def _uri_before_names(root: Location, folder: str) -> str:
    """Return the URI of a folder, with a slash, to append names to; '' if it contains a `?`."""
    place = resolve_path(root, folder)
    uri = f"{place.root}/{place.path}/" if place.path else f"{place.root}/"
    return "" if "?" in uri else uri


def _skip_reason_of_name(key: str, name: str, leave_out: SkipRule) -> str | None:
    """Return why a path is skipped by its last name, None if it is not."""
    reason = leave_out(name)
    return None if reason is None or holds_lists(key) else reason


def skip_reason(key: str, leave_out: SkipRule) -> str | None:
    """Return why the outermost skipped part of a path is skipped, None if nothing is skipped."""
    parts = key.split("/")
    reasons = ((n, reason) for n, one in enumerate(parts, 1) if (reason := leave_out(one)))
    return next((why for n, why in reasons if not holds_lists("/".join(parts[:n]))), None)
