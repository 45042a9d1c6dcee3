"""Faults of the machine, as one sentence: the cause and what to do.

It imports no Arrow, because a library that cannot be loaded is one of these faults.
"""

from __future__ import annotations

import errno
import os
import re

from recordmill.errors import StorageError
from recordmill.option_names import option_name
from recordmill.storage.redaction import shown

AGAIN = "then run the same command again"

# errno -> (why, what to do)
ADVICE = {
    errno.ENOSPC: ("no space left on device", f"free some space, {AGAIN}"),
    errno.EDQUOT: ("the disk quota is used up", f"free some space or raise the quota, {AGAIN}"),
    errno.EFBIG: ("file too large", f"raise the limit (ulimit -f), {AGAIN}, or use more shards"),
    errno.EROFS: ("the filesystem is read-only", f"mount it writable or use another, {AGAIN}"),
    errno.EACCES: ("permission denied", f"check its owner, mode or access policy, {AGAIN}"),
    errno.EPERM: ("operation not permitted", f"check its owner and mode, {AGAIN}"),
    errno.EPROTO: ("the store's answer is incomplete or damaged", f"check the network, {AGAIN}"),
    errno.EIO: ("input/output error", f"check the disk or the mount, {AGAIN}"),
    errno.ENOMEM: ("out of memory", f"free some memory, {AGAIN}"),
    errno.ENOTSUP: ("it is a pipe, a socket or a device", f"put a regular file there, {AGAIN}"),
    errno.ESTALE: ("the mount has gone stale", f"mount it again, {AGAIN}"),
    errno.ENOENT: ("it or its folder does not exist", f"check the path, {AGAIN}"),
    errno.ENOTDIR: ("a file is where a folder is needed", f"move that file, {AGAIN}"),
    errno.EISDIR: ("a folder is where a file is needed", f"move that folder, {AGAIN}"),
    errno.ENOTEMPTY: ("the folder is not empty", f"check what else writes there, {AGAIN}"),
    errno.ELOOP: ("its symbolic links form a loop", f"fix the links, {AGAIN}"),
    errno.ENAMETOOLONG: ("the name is too long for that filesystem", f"shorten it, {AGAIN}"),
    errno.EMFILE: ("too many open files", f"raise the limit (ulimit -n), {AGAIN}"),
    errno.ENFILE: ("too many open files on this machine", f"close some programs, {AGAIN}"),
    **{
        code: (os.strerror(code).lower(), f"check that the storage is reachable, {AGAIN}")
        for code in (
            *(errno.ETIMEDOUT, errno.EREMOTEIO, errno.EHOSTUNREACH, errno.EHOSTDOWN),
            *(errno.ENETUNREACH, errno.ENETDOWN, errno.ENETRESET),
        )
    },
}
_CHAIN = 16  # exceptions that led to another one
_NO_MEMORY = re.compile(
    r"out of memory|failed to map segment|[Cc]annot allocate memory|Unable to allocate"
    r"|[Mm]alloc of size"
    # A library whose allocation failed, and that did not report it: a SystemError.
    r"|error return without exception set|without setting an exception"
)


def _limits() -> str:
    return (
        f"free some memory, use fewer {option_name('workers')}, or raise the limits (ulimit -u, -v"
        f" and those of the container), {AGAIN}"
    )


def machine_fault(error: BaseException) -> str | None:
    """Return a sentence on the fault of the machine that caused an exception, or None.

    It is for faults that no code closer to them has reported: threads and processes that cannot be
    started, memory, temporary files.
    """
    found: BaseException | None = error
    for _ in range(_CHAIN):
        if found is None:
            break
        if isinstance(found, StorageError):
            return str(found)
        if isinstance(found, OSError) and found.errno in ADVICE:
            at = "" if found.filename is None else f" at {shown(os.fsdecode(found.filename))}"
            why, advice = ADVICE[found.errno]
            return f"the operating system reports{at}: {why}; {advice}"
        text = str(found)
        if (
            isinstance(found, OSError) and found.errno == errno.EAGAIN
        ) or "start new thread" in text:
            return f"cannot start a thread or a process: {_limits()}"
        if isinstance(found, MemoryError) or _NO_MEMORY.search(text):
            return f"out of memory: {_limits()}"
        found = found.__cause__ or found.__context__
    return None
