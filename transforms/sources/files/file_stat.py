"""Status of paths: size and modification time of a file, or the reason why it cannot be read."""

from __future__ import annotations

import concurrent.futures
import errno
import os
import stat as modes
from collections.abc import Sequence
from typing import NamedTuple

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.storage.files import Location
from recordmill.storage.storage_errors import (
    call_with_retries,
    error_code,
    raise_storage_errors,
    short_cause,
)
from recordmill.transforms.model import limits
from recordmill.transforms.sources.files.path_rules import PathRules

_CACHED = 1 << 17  # paths, at most
_SPECIAL = (
    (modes.S_ISFIFO, "a pipe"),
    (modes.S_ISSOCK, "a socket"),
    (modes.S_ISCHR, "a device"),
    (modes.S_ISBLK, "a device"),
)


class FileStat(NamedTuple):
    """A regular file. path: path or URI that opens it; size: bytes; mtime: ns since the epoch."""

    path: str
    size: int
    mtime: int


class RejectCause(NamedTuple):
    """Reason and detail of a reject."""

    reason: Reason
    detail: str


EMPTY = RejectCause(Reason.EMPTY, "a file of 0 bytes")


def stat_problem(error: OSError, path: str) -> RejectCause:
    """Return the problem of a local path, given the error of `os.stat` or `os.listdir`.

    Raises:
      StorageError: the error is one of the machine, such as an I/O error or a lack of permission.
    """
    code = error_code(error)
    if code == errno.ELOOP:
        return RejectCause(Reason.SYMLINK_LOOP, "the symbolic link leads back to itself")
    if code in (errno.ENOENT, errno.ENOTDIR):
        dangling = os.path.islink(path)
        return RejectCause(
            Reason.MISSING, "a symbolic link to a missing file" if dangling else "no such file"
        )
    if code == errno.ENAMETOOLONG:
        return RejectCause(Reason.BAD_NAME, short_cause(error))
    with raise_storage_errors("access", path):
        raise error


def special_file_problem(mode: int) -> RejectCause | None:
    """Return the problem of a pipe, socket or device, None for a regular file."""
    if modes.S_ISREG(mode):
        return None
    return RejectCause(Reason.UNSUPPORTED, f"{_special_kind(mode)}: expected a regular file")


def refuse_special(place: Location) -> None:
    """Raise ConfigError for a pipe, socket or device, because reading one may block forever."""
    if not place.is_local:
        return
    try:
        mode = os.stat(place.local_path).st_mode
    except OSError:
        return  # opening it reports a better error
    if not modes.S_ISREG(mode) and not modes.S_ISDIR(mode):
        raise ConfigError(
            f"expected a folder or a regular file, but {place} is {_special_kind(mode)}: an input "
            "is read several times, so save it as a file first"
        )


def _special_kind(mode: int) -> str:
    return next((text for is_kind, text in _SPECIAL if is_kind(mode)), "not a file")


class StatCache:
    """Cached status of the paths of a file list, as far as its rules allow them."""

    def __init__(self, rules: PathRules) -> None:
        self._rules = rules
        self._known: dict[str, FileStat | RejectCause] = {}

    def stat(self, paths: Sequence[str]) -> list[FileStat | RejectCause]:
        """Return the status or the problem of each path. Queries each uncached path once."""
        if len(self._known) + len(paths) > _CACHED:
            self._known.clear()
        remote: dict[str, Location] = {}
        for path in paths:
            if path in self._known:
                continue
            try:
                place = self._rules.resolve(path)
            except RecordError as error:
                self._known[path] = RejectCause(error.reason, error.detail)
                continue
            if place.is_local:
                self._known[path] = _stat_local(place.path)
            else:
                remote[path] = place
        self._known.update(_stat_remote(remote))
        return [_with_hint(path, self._known[path]) for path in paths]


def _with_hint(path: str, found: FileStat | RejectCause) -> FileStat | RejectCause:
    """Return the problem of a missing file with advice, if its path is oddly written."""
    if not isinstance(found, RejectCause) or found.reason is not Reason.MISSING:
        return found
    if path != path.strip():
        return found._replace(
            detail=f"{found.detail}: its path begins or ends with a space (--trim strips spaces)"
        )
    if "\\" in path:
        return found._replace(
            detail=f"{found.detail}: its path has backslashes, which separate no folders: write /"
        )
    return found


def _stat_local(path: str) -> FileStat | RejectCause:
    try:
        status = call_with_retries(os.stat, path)
    except OSError as error:
        return stat_problem(error, path)
    if modes.S_ISDIR(status.st_mode):
        return RejectCause(Reason.BAD_VALUE, "a folder: expected a file")
    if problem := special_file_problem(status.st_mode):
        return problem
    return FileStat(path, status.st_size, status.st_mtime_ns) if status.st_size else EMPTY


def _stat_remote(places: dict[str, Location]) -> dict[str, FileStat | RejectCause]:
    if not places:
        return {}
    with concurrent.futures.ThreadPoolExecutor(limits.REQUESTS) as pool:
        return dict(zip(places, pool.map(_stat_object, places.values()), strict=True))


def _stat_object(place: Location) -> FileStat | RejectCause:
    with raise_storage_errors("access", place):
        found = call_with_retries(place.store.stat, place.path)
    if found is None:
        return RejectCause(Reason.MISSING, "no such file")
    if found.kind == "dir":
        return RejectCause(Reason.BAD_VALUE, "a folder: expected a file")
    return FileStat(str(place), found.size, found.mtime_ns) if found.size else EMPTY
