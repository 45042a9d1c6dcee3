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
        return
    path = (folder / NAME).local_path
    descriptor = _acquire(path, folder)
    try:
        yield
    finally:
        if os.path.exists(path):
            os.unlink(path)
        # Where nothing was staged, nothing of us stays.
        for empty in [folder, folder.parent] if made else [folder]:
            with contextlib.suppress(OSError):
                os.rmdir(empty.local_path)
        os.close(descriptor)


def _acquire(path: str, folder: Location) -> int:
    while True:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(descriptor, 4096)
            os.close(descriptor)
            raise HeldError(_whose(holder, folder)) from None
        # The holder before us may have removed the file between our open and our lock.
        if os.path.exists(path) and os.path.samestat(os.fstat(descriptor), os.stat(path)):
            claim = {"host": socket.gethostname(), "pid": os.getpid()}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, json.dumps(claim).encode(), 0)
            return descriptor
        os.close(descriptor)


def _whose(claim: bytes, folder: Location) -> str:
    try:
        who = "process {pid} on {host}".format(**json.loads(claim))
    except (ValueError, KeyError, TypeError):  # it has the lock, but has not signed yet
        who = "another process"
    return (
        f"another run is writing to {shown(folder.parent)}: {who} holds it. Wait until it is done,"
        " or stop it; running the same command then continues"
    )
