"""One job per output.

On a local filesystem the lock is the kernel's (flock), so that it ends with its holder however
that ends, and no stale lock has to be told from a live one. The file says who holds it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Iterator

from recordmill.errors import RunError
from recordmill.files import Location, shown
from recordmill.storage_errors import explained

NAME = "lock.json"


class HeldError(RunError):
    """Another run works on the output."""


@contextlib.contextmanager
def held(folder: Location) -> Iterator[None]:
    """Holds the lock of `folder` (made if missing); the file goes when the holder is done.

    Raises:
      HeldError: names the process that holds it.
    """
    made = not folder.parent.exists()
    folder.make_dirs()
    if not folder.is_local:
        # An object store has no locks; two runs on one output there are the user's to avoid.
        yield
        if folder.exists() and not folder.list_dir():
            folder.delete_tree()
        return
    path = (folder / NAME).local_path
    with explained("lock", folder):
        descriptor = _acquire(path, folder)
    try:
        yield
    finally:
        if _is_at(path, descriptor):
            os.unlink(path)
        # Where nothing was staged, nothing of us stays.
        for empty in [folder, folder.parent] if made else [folder]:
            with contextlib.suppress(OSError):
                os.rmdir(empty.local_path)
        os.close(descriptor)


def _acquire(path: str, folder: Location) -> int:
    while True:
        # The holder before us may just have removed the folder, or the file before we locked it.
        folder.make_dirs()
        try:
            descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        except FileNotFoundError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            raise HeldError(_whose(holder, folder)) from None
        if _is_at(path, descriptor):
            claim = {"host": socket.gethostname(), "pid": os.getpid()}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(claim).encode(), 0)
            return descriptor
        os.close(descriptor)


def _is_at(path: str, descriptor: int) -> bool:
    """Whether an open file is still the one of that name."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _whose(claim: bytes, folder: Location) -> str:
    try:
        who = "process {pid} on {host}".format(**json.loads(claim))
    except (ValueError, KeyError, TypeError):  # it has the lock, but has not signed yet
        who = "another process"
    return (
        f"another run is writing to {shown(folder.parent)}: {who} holds it. Wait until it is done,"
        " or stop it; running the same command then continues"
    )
