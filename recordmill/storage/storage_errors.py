"""Errors of storage, as one sentence: the operation, the place, the cause, and what to do.

An error of the operating system or of a store says nothing about the bytes of a record, so it never
makes a reject: it is retried if it may pass, then fails the run (docs/adr/0040).
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import time
from collections.abc import Callable, Iterator
from typing import Any, ClassVar, NoReturn, TypeVar

import pyarrow as pa

from recordmill.errors import RunError, StorageError
from recordmill.storage.machine_faults import ADVICE, AGAIN
from recordmill.storage.redaction import shown
from recordmill.storage.s3_keys import has_keys

T = TypeVar("T")

_OTHER_ADVICE = f"check that the storage is reachable, {AGAIN}"
_CLASSES = {
    FileNotFoundError: errno.ENOENT,
    PermissionError: errno.EACCES,
    NotADirectoryError: errno.ENOTDIR,
    IsADirectoryError: errno.EISDIR,
}
_OF_PATHS = frozenset(
    {
        *(errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG),
        *(errno.EACCES, errno.EPERM, errno.ENOTSUP),
    }
)
# Errors that may pass by themselves; permission is not among them.
_PASSING = frozenset(
    {
        *(errno.EIO, errno.ETIMEDOUT, errno.ESTALE, errno.EAGAIN, errno.EBUSY),
        *(errno.EREMOTEIO, errno.EPROTO),
        *(errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.ENOBUFS, errno.ENOSPC, errno.EDQUOT),
        *(errno.ECONNRESET, errno.ECONNABORTED, errno.ECONNREFUSED, errno.ENOTCONN),
        *(errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
    }
)
# The same in the messages of stores: S3, then HTTP, then those of Google and Azure.
_PASSING_TEXT = re.compile(
    r"AWS Error (INTERNAL_FAILURE|REQUEST_TIMEOUT|SERVICE_UNAVAILABLE|SLOW_DOWN|THROTTLING"
    r"|NETWORK_CONNECTION)"
    r"|HTTP status:? (429|408|5(?!01)\d\d)\b"
    r"|\b(UNAVAILABLE|RESOURCE_EXHAUSTED|DEADLINE_EXCEEDED|TooManyRequests|ServerBusy)\b"
)
PAUSES = (0.1, 0.5, 2.0)  # seconds before each retry
OUTAGE_PAUSES = (4.0, 8.0)  # seconds before further retries of reads of input files in stores

# An answer of success that cannot be parsed, such as a listing that was cut.
_UNREADABLE = re.compile(r"AWS Error UNKNOWN \(HTTP status (-1|200)\)")
_AWS_ERROR = re.compile(r"AWS Error ([A-Z_]+)(?: \(HTTP status (\d+)\))?")
_DENIED = re.compile(
    "AWS Error (ACCESS_DENIED|INVALID_ACCESS_KEY_ID|SIGNATURE_DOES_NOT_MATCH|INVALID_SIGNATURE)"
)
_NO_BUCKET = "AWS Error NO_SUCH_BUCKET"
_AWS_CODES = {
    "ACCESS_DENIED": errno.EACCES,
    "NO_SUCH_BUCKET": errno.ENOENT,
    "NO_SUCH_KEY": errno.ENOENT,
    "RESOURCE_NOT_FOUND": errno.ENOENT,
}

# Codes of curl, which are in pyarrow's messages.
_CURL = re.compile(r"curlCode: (\d+)")
_NO_HOST, _NO_CONNECTION, _NO_TLS = 6, 7, 35
_CURL_CAUSES = {
    _NO_HOST: "the name of the store's host cannot be resolved",
    _NO_CONNECTION: "nothing accepts connections at the store's address",
    _NO_TLS: "the store's address does not speak https (scheme=http in the URI selects http)",
}

# Parts of the messages of obstore.
_CURL_CODES = {
    '"dns error"': _NO_HOST,
    "kind: ConnectionRefused": _NO_CONNECTION,
    "InvalidContentType": _NO_TLS,
}
_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w+)</Code>")
_NAMES = {403: "ACCESS_DENIED"}  # of answers without a code
_NEW_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_INVALID_KEY = "InvalidPath {"
_TIMED_OUT = re.compile(r"kind: Timeout|TimedOut")
# An answer without a length or with less than it, one that is not the requested range, and a
# listing that cannot be parsed.
_DAMAGED = re.compile(
    r"source: Header \{|NotPartial|InvalidRangeRequest|body error|kind: Decode"
    r"|Got invalid list response"
)


class PathError(StorageError):
    """A path leads to no usable file or folder, such as one without permission."""


class MissingError(PathError):
    """A file or folder does not exist."""


class DeniedError(PathError):
    """A store denies access. Before a job this is bad configuration: exit code 2."""

    exit_code: ClassVar[int] = 2


class NoBucketError(MissingError):
    """A store has no such bucket. The exit code is 2, as for `DeniedError`."""

    exit_code: ClassVar[int] = 2


class ChangedInputError(RunError):
    """An input file changed after it was listed."""


@contextlib.contextmanager
def raise_storage_errors(doing: str, place: object) -> Iterator[None]:
    """Convert errors of `os` and pyarrow: 'cannot <doing> <place>: <why>; <what to do>'.

    Raises:
      MissingError: the file or folder does not exist.
      PathError: there is no usable file or folder, such as one without permission (`DeniedError`
        in a store).
      StorageError: any other error.
    """
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        code = error_code(error)
        why, advice = ADVICE.get(code, (short_cause(error), _OTHER_ADVICE))
        kind = PathError if code in _OF_PATHS else StorageError
        if code == errno.ENOENT:
            kind = MissingError
        if _NO_BUCKET in str(error):
            kind = NoBucketError
            why, advice = "the store has no such bucket", f"check its name, or create it, {AGAIN}"
        elif _DENIED.search(str(error)):
            kind = DeniedError
            if str(place).startswith("s3://") and not has_keys():
                why = "this command has no credentials"
                advice = (
                    "set them, such as AWS_ACCESS_KEY_ID or AWS_PROFILE, or check the role of this"
                    f" machine, {AGAIN}"
                )
            elif code not in ADVICE:
                advice = f"check the credentials, {AGAIN}"
        raise kind(f"cannot {doing} {shown(place)}: {why}; {advice}") from error


def may_pass(error: BaseException) -> bool:
    """Return whether an error of `os` or pyarrow may pass, so that a retry can succeed."""
    if isinstance(error, OSError) and error.errno:
        return error.errno in _PASSING
    return _PASSING_TEXT.search(str(error)) is not None or error_code(error) in _PASSING


def call_with_retries(call: Callable[..., T], *arguments: Any, outages: bool = False) -> T:
    """Call a function, again after growing pauses if its error may pass.

    outages: repeat it for the 15 s that a store may need to start again.
    """
    for pause in PAUSES + OUTAGE_PAUSES if outages else PAUSES:
        try:
            return call(*arguments)
        except (OSError, pa.ArrowException) as error:
            if not may_pass(error):
                raise
        time.sleep(pause)
    return call(*arguments)


def error_code(error: BaseException) -> int:
    """Return the errno of an error of `os` or pyarrow, or 0 if it has none."""
    for kind, code in _CLASSES.items():
        if isinstance(error, kind):
            return code
    if isinstance(error, OSError) and error.errno:
        return error.errno
    if _UNREADABLE.search(str(error)):
        return errno.EPROTO
    aws = _AWS_ERROR.search(str(error))
    return _AWS_CODES.get(aws[1], 0) if aws else 0


def short_cause(error: BaseException) -> str:
    """Return a short cause of an error; pyarrow's messages have many lines."""
    code = error_code(error)
    if code in ADVICE:
        return ADVICE[code][0]
    if code:
        return os.strerror(code).lower()
    text = str(error)
    if (curl := _CURL.search(text)) and int(curl[1]) in _CURL_CAUSES:
        return _CURL_CAUSES[int(curl[1])]
    if aws := _AWS_ERROR.search(text):
        if aws[1] == "UNKNOWN" and aws[2]:  # an answer without a body, as to HEAD
            return f"the store answers with HTTP status {aws[2]}"
        return f"the store reports '{aws[1].lower().replace('_', ' ')}'"
    return (text.splitlines() or [type(error).__name__])[0]


def http_status(error: Exception) -> int | None:
    """Return the HTTP status in an error of obstore, None without one."""
    status = _STATUS.search(str(error))
    return None if status is None else int(status[1])


def lacks_bucket(error: Exception) -> bool:
    """Return whether a store says, in an error of obstore, that it has no such bucket."""
    return "<Code>NoSuchBucket</Code>" in str(error)


def raise_as_pyarrow(error: Exception, operation: str) -> NoReturn:
    """Raise the OSError that pyarrow raises for the cause of an error of obstore."""
    text = str(error)
    status = http_status(error)
    if status == 404 and not lacks_bucket(error):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT)) from error
    if status is not None:
        code = _CODE.search(text)
        name = _NEW_WORD.sub("_", code[1]).upper() if code else _NAMES.get(status, "UNKNOWN")
        raise OSError(
            f"AWS Error {name} (HTTP status {status}) during {operation} operation"
        ) from error
    if isinstance(error, OSError) and error.errno:
        raise error
    if _INVALID_KEY in text:
        raise OSError(errno.EINVAL, "obstore does not accept the key") from error
    if _TIMED_OUT.search(text):
        raise OSError(errno.ETIMEDOUT, os.strerror(errno.ETIMEDOUT)) from error
    if _DAMAGED.search(text):
        raise OSError(errno.EPROTO, "the store's answer is incomplete") from error
    curl = next((f": curlCode: {code}" for part, code in _CURL_CODES.items() if part in text), "")
    raise OSError(f"AWS Error NETWORK_CONNECTION during {operation} operation{curl}") from error
