"""One job per output.

On a local filesystem the lock is the kernel's (flock), so that it ends with its holder however
that ends, and no stale lock has to be told from a live one; elsewhere it is a claim that its holder
renews. A job that goes on when its submitter has left is named in a file beside it; whether that
job still runs, its cluster is asked.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator
from typing import Any

from recordmill.errors import RunError
from recordmill.job.claims import ClaimedError, claimed
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import explained

NAME = "lock.json"
DETACHED = "detached.json"

IsRunning = Callable[[str, str], bool]


class HeldError(RunError):
    """Another run works on the output."""


@contextlib.contextmanager
def held(folder: Location, *, is_running: IsRunning | None = None) -> Iterator[None]:
    """Holds the lock of `folder` (made if missing); the file goes when the holder is done.

    is_running: whether the (cluster, job) works still to which an earlier run has left the output.

    Raises:
      HeldError: names who holds it.
    """
    with _flock(folder) if folder.is_local else _claim(folder):
        _check_detached(folder, is_running)
        yield


def leave_to(folder: Location, cluster: str, job: str) -> None:
    """Notes, under the lock, that a job on a cluster works on the output when the lock is gone."""
    claim = {"cluster": cluster, "job": job}
    (folder / DETACHED).write_bytes(json.dumps(claim).encode())


def detached(folder: Location) -> tuple[str, str] | None:
    """The (cluster, job) to which the output was left; None where it was to none."""
    place = folder / DETACHED
    if not place.exists():
        return None
    claim = json.loads(place.read_bytes())
    return claim["cluster"], claim["job"]


def end_detached(folder: Location) -> None:
    """What a job does last to which the output was left."""
    (folder / DETACHED).delete(missing_ok=True)
    _leave_nothing(folder)


def _check_detached(folder: Location, is_running: IsRunning | None) -> None:
    left = detached(folder)
    if left is None:
        return
    cluster, job = left
    if is_running is None or is_running(cluster, job):
        raise HeldError(
            f"another run is writing to {shown(folder.parent)}: the Flink job {job} at {cluster}"
            f" holds it. Wait until it is done, or stop it: recordmill cancel --flink-master"
            f" {cluster} --job {job}; running the same command then continues"
        )
    (folder / DETACHED).delete(missing_ok=True)


@contextlib.contextmanager
def _claim(folder: Location) -> Iterator[None]:
    folder.make_dirs()
    try:
        with claimed(folder):
            yield
    except ClaimedError as error:
        raise HeldError(_whose(error.holder, folder)) from None
    finally:
        _leave_nothing(folder)


def _leave_nothing(folder: Location) -> None:
    if folder.exists() and not folder.list_dir():
        folder.delete_tree()


@contextlib.contextmanager
def _flock(folder: Location) -> Iterator[None]:
    made = not folder.parent.exists()
    folder.make_dirs()
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
            raise HeldError(_whose(_signed(holder), folder)) from None
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


def _signed(claim: bytes) -> dict[str, Any]:
    """What the file says; nothing where its holder has the lock, but has not signed yet."""
    try:
        found = json.loads(claim)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _whose(holder: dict[str, Any], folder: Location) -> str:
    who = "another process"
    if {"host", "pid"} <= set(holder):
        who = f"process {holder['pid']} on {holder['host']}"
    return (
        f"another run is writing to {shown(folder.parent)}: {who} holds it. Wait until it is done,"
        " or stop it; running the same command then continues"
    )
