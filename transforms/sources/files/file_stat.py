"""Status of paths: size and modification time of a file, or the reason why it cannot be read."""

from __future__ import annotations

import errno
import os
import stat as modes
from typing import NamedTuple

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import Location
from recordmill.storage.storage_errors import (
    call_with_retries,
    error_code,
    raise_storage_errors,
    short_cause,
)

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


def stat_local(path: str) -> FileStat | RejectCause:
    """Return the status or the problem of a local file."""
    try:
        status = call_with_retries(os.stat, path)
    except OSError as error:
        return stat_problem(error, path)
    if modes.S_ISDIR(status.st_mode):
        return RejectCause(Reason.BAD_VALUE, "a folder: expected a file")
    if problem := special_file_problem(status.st_mode):
        return problem
    return FileStat(path, status.st_size, status.st_mtime_ns) if status.st_size else EMPTY
