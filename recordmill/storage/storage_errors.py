"""Errors of storage, as one sentence: the operation, the place, the cause, and what to do."""

from __future__ import annotations

import contextlib
import errno
import os
import re
from collections.abc import Iterator

import pyarrow as pa

from recordmill.errors import RunError
from recordmill.storage.redaction import redact_uri

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
    errno.ENOENT: ("it or its folder does not exist", f"check the path, {AGAIN}"),
    errno.ENOTDIR: ("a file is where a folder is needed", f"move that file, {AGAIN}"),
    errno.EISDIR: ("a folder is where a file is needed", f"move that folder, {AGAIN}"),
    errno.ENOTEMPTY: ("the folder is not empty", f"check what else writes there, {AGAIN}"),
    errno.ELOOP: ("its symbolic links form a loop", f"fix the links, {AGAIN}"),
    errno.ENAMETOOLONG: ("the name is too long for that filesystem", f"shorten it, {AGAIN}"),
    errno.EMFILE: ("too many open files", f"raise the limit (ulimit -n), {AGAIN}"),
    errno.ENFILE: ("too many open files on this machine", f"close some programs, {AGAIN}"),
}
_OTHER_ADVICE = f"check that the storage is reachable, {AGAIN}"
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
    """An operation on storage failed."""


class MissingError(StorageError):
    """A file or folder does not exist."""


class ChangedInputError(RunError):
    """An input file changed after it was listed."""


@contextlib.contextmanager
def raise_storage_errors(doing: str, place: object) -> Iterator[None]:
    """Convert errors of `os` and pyarrow: 'cannot <doing> <place>: <why>; <what to do>'.

    Raises:
      MissingError: the file or folder does not exist.
      StorageError: any other error.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        code = error_code(error)
        why, advice = _ADVICE.get(code, (short_cause(error), _OTHER_ADVICE))
        kind = MissingError if code == errno.ENOENT else StorageError
        raise kind(f"cannot {doing} {shown(place)}: {why}; {advice}") from error


def error_code(error: BaseException) -> int:
    """Return the errno of an error of `os` or pyarrow, or 0 if it has none."""
    for kind, code in _CLASSES.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, OSError) and error.errno:
        return error.errno
    aws = _AWS_ERROR.search(str(error))
    return _AWS_CODES.get(aws[1], 0) if aws else 0


def short_cause(error: BaseException) -> str:
    """Return a short cause of an error; pyarrow's messages have many lines."""
    code = error_code(error)
    if code in _ADVICE:
        return _ADVICE[code][0]
    if code:
        return os.strerror(code).lower()
    text = str(error)
    if aws := _AWS_ERROR.search(text):
        return f"the store reports '{aws[1].lower().replace('_', ' ')}'"
    return (text.splitlines() or [type(error).__name__])[0]


def shown(place: object) -> str:
    """Return a path as text without secrets, with escapes for bytes that are not UTF-8."""
    return redact_uri(os.fsencode(str(place)).decode("utf-8", "backslashreplace"))
