"""Storage trouble in one sentence: what was being done, to which place, why, what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

import pyarrow as pa

from recordmill.errors import RunError

AGAIN = "then run the same command again"

# errno -> (why, what to do)
_ADVICE = {
    errno.ENOSPC: ("no space left on device", f"free some space, {AGAIN}"),
    errno.EDQUOT: ("the disk quota is used up", f"free some space or raise the quota, {AGAIN}"),
    errno.EFBIG: ("the file is larger than allowed there", f"use smaller shards, {AGAIN}"),
    errno.EROFS: ("the filesystem is read-only", f"mount it writable or use another, {AGAIN}"),
    errno.EACCES: ("permission denied", f"check its owner, mode or access policy, {AGAIN}"),
    errno.EPERM: ("operation not permitted", f"check its owner and mode, {AGAIN}"),
    errno.EIO: ("input/output error", f"check the disk or the mount, {AGAIN}"),
    errno.ESTALE: ("the mount has gone stale", f"mount it again, {AGAIN}"),
    errno.ENOENT: ("it or its folder is not there", f"see who removed it, {AGAIN}"),
    errno.ENOTDIR: ("a file stands where a folder is needed", f"move that file, {AGAIN}"),
    errno.EISDIR: ("a folder stands where a file is needed", f"move that folder, {AGAIN}"),
    errno.ENOTEMPTY: ("the folder is not empty", f"see who writes there, {AGAIN}"),
    errno.ELOOP: ("its symbolic links form a loop", f"mend the links, {AGAIN}"),
    errno.ENAMETOOLONG: ("the name is too long for that filesystem", f"shorten it, {AGAIN}"),
    errno.EMFILE: ("too many open files", f"raise the limit (ulimit -n), {AGAIN}"),
    errno.ENFILE: ("too many open files on this machine", f"close some programs, {AGAIN}"),
}
_OTHERWISE = f"check that the place can be reached and used, {AGAIN}"
_CLASSES = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}
_AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+)")
_AWS_CODES = {
    "ACCESS_DENIED": errno.EACCES,
    "NO_SUCH_BUCKET": errno.ENOENT,
    "NO_SUCH_KEY": errno.ENOENT,
    "RESOURCE_NOT_FOUND": errno.ENOENT,
}


class StorageError(RunError):
    """The storage refused an operation."""


class MissingError(StorageError):
    """What was to be read or listed is not there."""


class ChangedInputError(RunError):
    """An input file is no longer what the listing saw."""


@contextlib.contextmanager
def explained(doing: str, place: object) -> Iterator[None]:
    """Raises what storage raises as StorageError: 'cannot <doing> <place>: <why>; <what to do>'."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        code = error_code(error)
        why, advice = _ADVICE.get(code, (reason(error), _OTHERWISE))
        kind = MissingError if code == errno.ENOENT else StorageError
        raise kind(f"cannot {doing} {shown(place)}: {why}; {advice}") from error


def error_code(error: BaseException) -> int:
    """The errno of what `os` or pyarrow raised, 0 where there is none."""
    for kind, code in _CLASSES.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, OSError) and error.errno:
        return error.errno
    aws = _AWS_ERROR.search(str(error))
    return _AWS_CODES.get(aws[1], 0) if aws else 0


def reason(error: BaseException) -> str:
    """Why, in few words: pyarrow's messages run over many lines."""
    code = error_code(error)
    if code in _ADVICE:
        return _ADVICE[code][0]
    if code:
        return os.strerror(code).lower()
    text = str(error)
    if aws := _AWS_ERROR.search(text):
        return f"the store answers '{aws[1].lower().replace('_', ' ')}'"
    return (text.splitlines() or [type(error).__name__])[0]


def shown(place: object) -> str:
    """A path as text that can be printed: bytes that are not UTF-8 as backslash escapes."""
    return os.fsencode(str(place)).decode("utf-8", "backslashreplace")
