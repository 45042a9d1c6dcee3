"""What is at a path: a file of some size and time, or the reason why there is nothing to read."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import errno
import os
import posixpath
import stat as modes
from collections.abc import Sequence
from typing import Any, NamedTuple

from pyarrow import fs

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import Location, is_uri
from recordmill.storage.storage_errors import error_code, explained, reason
from recordmill.storage.stores import ArrowFiles

_KNOWN = 1 << 17  # paths remembered, at most
_REQUESTS = 32  # to an object store at a time
_SPECIAL = (
    (modes.S_ISFIFO, "a pipe"),
    (modes.S_ISSOCK, "a socket"),
    (modes.S_ISCHR, "a device"),
    (modes.S_ISBLK, "a device"),
)


class Found(NamedTuple):
    """A regular file. path: text that opens it; size: bytes; mtime: ns since the epoch."""

    path: str
    size: int
    mtime: int


class Problem(NamedTuple):
    """Why there is no record."""

    reason: Reason
    detail: str


EMPTY = Problem(Reason.EMPTY, "a file of 0 bytes")


def trouble(error: OSError, path: str) -> Problem:
    """What an error of `os.stat` or `os.listdir` means for a local path.

    Raises StorageError for what is not the path's own trouble.
    """
    code = error_code(error)
    if code == errno.ELOOP:
        return Problem(Reason.SYMLINK_LOOP, "the symbolic link leads back to itself")
    if code in (errno.ENOENT, errno.ENOTDIR):
        dangling = os.path.islink(path)
        return Problem(
            Reason.MISSING, "a symbolic link that leads nowhere" if dangling else "no such file"
        )
    if code in (errno.EMFILE, errno.ENFILE):
        with explained("look at", path):
            raise error
    return Problem(Reason.UNREADABLE, reason(error))


def special(mode: int) -> Problem | None:
    """The problem with a pipe, a socket, a device; None for a regular file."""
    if modes.S_ISREG(mode):
        return None
    return Problem(Reason.UNSUPPORTED, f"{_special_kind(mode)}: expected a regular file")


def refuse_special(place: Location) -> None:
    """Raises ConfigError for a pipe, a socket or a device: one could wait for it forever."""
    if not place.is_local:
        return
    try:
        mode = os.stat(place.local_path).st_mode
    except OSError:
        return  # what opens it tells more
    if not modes.S_ISREG(mode) and not modes.S_ISDIR(mode):
        raise ConfigError(
            f"expected a folder or a regular file, but {place} is {_special_kind(mode)}: a listing "
            "is read several times, so save it as a file first"
        )


def _special_kind(mode: int) -> str:
    return next((text for is_kind, text in _SPECIAL if is_kind(mode)), "no file")


def inside(root: Location, path: str) -> Location:
    """The place of a relative path under a root, which it may leave by '..'."""
    return dataclasses.replace(root, path=posixpath.normpath(f"{root.path}/{path}").lstrip("/"))


class Stats:
    """Looks at paths as a listing has them: relative to the root, absolute, or URIs."""

    def __init__(self, root: Location) -> None:
        self._root = root
        self._known: dict[str, Found | Problem] = {}

    def look_at(self, paths: Sequence[str]) -> list[Found | Problem]:
        """What is at each path; asks the filesystem once for each that it does not remember."""
        if len(self._known) + len(paths) > _KNOWN:
            self._known.clear()
        remote: dict[str, Location] = {}
        for path in paths:
            if path in self._known:
                continue
            if "\0" in path:
                self._known[path] = Problem(Reason.BAD_VALUE, "a path cannot hold a zero byte")
            elif is_uri(path):
                try:
                    remote[path] = Location.parse(path)
                except ConfigError as error:
                    self._known[path] = Problem(Reason.BAD_VALUE, str(error))
            elif path.startswith("/") or self._root.is_local:
                # As written: where a folder is a symbolic link, 'a/../b' is not 'b'.
                self._known[path] = _look_locally(os.path.join(self._root.path, path))
            else:
                remote[path] = inside(self._root, path)
        for path, place in remote.items():
            if place.is_local:
                self._known[path] = _look_locally(place.path)
        self._known.update(_look_remotely({p: at for p, at in remote.items() if not at.is_local}))
        return [self._known[path] for path in paths]


def _look_locally(path: str) -> Found | Problem:
    try:
        status = os.stat(path)
    except OSError as error:
        return trouble(error, path)
    if modes.S_ISDIR(status.st_mode):
        return Problem(Reason.BAD_VALUE, "a folder: expected a file")
    if problem := special(status.st_mode):
        return problem
    return Found(path, status.st_size, status.st_mtime_ns) if status.st_size else EMPTY


def _look_remotely(places: dict[str, Location]) -> dict[str, Found | Problem]:
    if not places:
        return {}
    with concurrent.futures.ThreadPoolExecutor(_REQUESTS) as pool:
        return dict(zip(places, pool.map(_look_in_store, places.values()), strict=True))


def _look_in_store(place: Location) -> Found | Problem:
    with explained("look at", place):
        store = place.store
        assert isinstance(store, ArrowFiles)
        info: Any = store.filesystem.get_file_info(store.path(place.path))
    if info.type == fs.FileType.NotFound:
        return Problem(Reason.MISSING, "no such file")
    if info.type == fs.FileType.Directory:
        return Problem(Reason.BAD_VALUE, "a folder: expected a file")
    return Found(str(place), info.size, info.mtime_ns or 0) if info.size else EMPTY
