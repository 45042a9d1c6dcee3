"""The lock of an output folder: one job at a time writes to it.

On a local filesystem it is a kernel lock (flock), which ends with its process, so there are no
stale locks. On object stores it is a claim that its holder renews (`claims`). A job on a cluster,
which continues after its submitter has exited or was killed, is recorded in a file beside the lock;
its cluster reports whether it still runs.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import fcntl
import math
import os
import re
import socket
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

from recordmill import strict_json
from recordmill.errors import RunError, StorageError
from recordmill.format.typed_json import JsonObject, damage_of, parse_json, read_as
from recordmill.job.claims import Claim, ClaimedError, hold_claim
from recordmill.storage.files import Location, MissingError, shown
from recordmill.storage.storage_errors import raise_storage_errors, short_cause

NAME = "lock.json"
CLUSTER_JOB = "cluster-job.json"

_OTHER = (
    "{} is the place of the lock file, but it is a symbolic link or not a regular file: remove it,"
    " then run the same command again"
)

_releases: list[Callable[[], None]] = []  # of the locks that this process holds or acquires
_RELEASE_SECONDS = 10.0  # a store that does not answer delays the end of a process no longer


def release_all() -> None:
    """Release all locks of this process just before it ends; any thread may call it."""

    def release() -> None:
        for one in reversed(_releases):
            with contextlib.suppress(StorageError, OSError):
                one()

    # In a thread, because a request to a store may hang.
    thread = threading.Thread(target=release, name="release", daemon=True)
    thread.start()
    thread.join(timeout=_RELEASE_SECONDS)


@contextlib.contextmanager
def released_by(release: Callable[[], None]) -> Iterator[None]:
    """Let `release_all` call a function while the block runs."""
    _releases.append(release)
    try:
        yield
    finally:
        _releases.remove(release)


class LockedError(RunError):
    """Another run holds the lock of the output."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClusterJob:
    """A job on a cluster that writes to an output.

    cluster: URL. job: the cluster's id of it. run: name of the staging folder of its command.
    detached: whether no command follows it. accepted: whether the cluster has accepted it; the
    submission of a job that is not accepted may still be in progress. needs_command: whether its
    workers are processes of the command, and end with it.
    """

    cluster: str
    job: str
    run: str = ""
    detached: bool = True
    accepted: bool = True
    needs_command: bool = False


IsRunning = Callable[[ClusterJob], bool]


@contextlib.contextmanager
def hold_lock(
    folder: Location,
    *,
    is_running: IsRunning | None = None,
    follows: str | None = None,
    private: bool = True,
) -> Iterator[ClusterJob | None]:
    """Hold the lock of `folder`, which is created if missing; the lock file is deleted afterwards.

    Yields the job that an earlier run of the same command has left running on a cluster, or None.
    Nothing is written or deleted through a symbolic link in the folder that contains it.

    is_running: returns whether a job of an earlier run still runs; without it such a job counts as
      running.
    follows: the staging folder of the command that takes over its own job; None takes over none.
    private: whether other users of the machine may not look into a local folder.

    Raises:
      LockedError: another run holds the lock; the message names its process or job.
    """
    folder = folder.parent.without_links() / folder.name
    with _flock(folder, private=private) if folder.is_local else _claim(folder):
        yield _running_job(folder, is_running, follows)


def record_cluster_job(folder: Location, job: ClusterJob) -> None:
    """Record a job that writes to the output even after the lock is released."""
    (folder / CLUSTER_JOB).write_bytes(strict_json.to_text(vars(job), ascii_only=True).encode())


def cluster_job(folder: Location) -> ClusterJob | None:
    """Return the recorded job of the output; None if there is none."""
    place = folder / CLUSTER_JOB
    content = place.read_if_exists()
    if content is None:
        return None
    with damage_of(shown(place), advice="delete it if that job has ended"):
        found = read_as(ClusterJob, parse_json(content))
        if re.fullmatch("[0-9a-f]{32}", found.job) is None:
            raise ValueError(f"expected 32 hexadecimal digits as its job, got {found.job!r}")
        return found


def end_cluster_job(folder: Location) -> None:
    """Remove the record of a job that has ended; the last step of a detached job."""
    (folder / CLUSTER_JOB).delete(missing_ok=True)
    _delete_if_empty(folder)


def _running_job(
    folder: Location, is_running: IsRunning | None, follows: str | None
) -> ClusterJob | None:
    found = cluster_job(folder)
    if found is None:
        return None
    if is_running is None or is_running(found):
        if is_running is not None and not found.detached and found.run == follows:
            return found
        raise LockedError(
            f"another run is writing to {shown(folder.parent)}: the Flink job {found.job} at"
            f" {found.cluster} holds the lock. Wait until it is done, or stop it: recordmill cancel"
            f" --flink-master {found.cluster} --job {found.job}; then run the same command again to"
            " continue"
        )
    (folder / CLUSTER_JOB).delete(missing_ok=True)
    return None


@contextlib.contextmanager
def _claim(folder: Location) -> Iterator[None]:
    claim = Claim(folder)
    # The last object of a folder leaves an empty one when it is deleted, for the folder around it.
    empty = (folder,) if folder.parent.is_dir() else (folder, folder.parent)

    def release() -> None:
        claim.end()
        _delete_if_empty(*empty)

    with released_by(release):
        folder.make_dirs()
        try:
            with hold_claim(folder, claim=claim):
                yield
        except ClaimedError as error:
            message = _locked_message(error.holder, folder, seconds=error.seconds)
            raise LockedError(message) from None
        finally:
            _delete_if_empty(*empty)


def _delete_if_empty(*folders: Location) -> None:
    for folder in folders:
        with contextlib.suppress(MissingError):
            if not folder.list_dir():
                folder.delete_tree()


@contextlib.contextmanager
def _flock(folder: Location, *, private: bool) -> Iterator[None]:
    made = not folder.parent.exists()
    folder.make_dirs()
    path = (folder / NAME).local_path
    with raise_storage_errors("lock", folder):
        descriptor = _acquire(path, folder)
    done = False

    def release() -> None:
        try:
            if _is_at(path, descriptor):
                os.unlink(path)
        except OSError as error:  # the lock itself ends with this process
            why = f"{shown(path)} was not removed: {short_cause(error)}"
            if done:
                print(
                    f"recordmill: warning: {why}; it has no effect, and can be removed",
                    file=sys.stderr,
                )
        # Folders are removed if nothing was staged.
        for empty in [folder, folder.parent] if made else [folder]:
            with contextlib.suppress(OSError):
                os.rmdir(empty.local_path)

    try:
        with released_by(release):
            with raise_storage_errors("change the mode of", folder):
                _set_mode(folder.local_path, private=private)
            yield
            done = True
    finally:
        release()
        os.close(descriptor)


def _acquire(path: str, folder: Location) -> int:
    while True:
        # The previous holder may just have removed the folder, or the file before it was locked.
        folder.make_dirs()
        try:
            flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
            descriptor = os.open(path, flags, 0o644)
        except FileNotFoundError:
            continue
        except OSError:
            if os.path.islink(path):
                raise StorageError(_OTHER.format(shown(path))) from None
            raise
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            os.close(descriptor)
            raise StorageError(_OTHER.format(shown(path)))
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(descriptor, 4096, 0)
            os.close(descriptor)
            if not isinstance(error, BlockingIOError):
                raise
            raise LockedError(_locked_message(_parse_holder(holder), folder)) from None
        if _is_at(path, descriptor):
            claim = {"host": socket.gethostname(), "pid": os.getpid()}
            os.ftruncate(descriptor, 0)
            os.pwrite(descriptor, strict_json.to_text(claim, ascii_only=True).encode(), 0)
            return descriptor
        os.close(descriptor)


def _set_mode(folder: str, *, private: bool) -> None:
    """Close a folder to other users, or give it the mode of the folder around it.

    Staged rows and files are as confidential as the input. Moved out of it, files have the mode
    that they were created with, by the umask.
    """
    if os.stat(folder).st_uid == os.geteuid():
        around = stat.S_IMODE(os.stat(os.path.dirname(folder)).st_mode)
        os.chmod(folder, 0o700 if private else around)


def _is_at(path: str, descriptor: int) -> bool:
    """Return whether the open file is still the one at `path`."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _parse_holder(claim: bytes) -> dict[str, Any]:
    """Return the content of a lock file; empty if its holder has not written to it yet."""
    try:
        return read_as(JsonObject, parse_json(claim))
    except ValueError:
        return {}


def _locked_message(
    holder: dict[str, Any], folder: Location, *, seconds: float | None = None
) -> str:
    """Return the error of a lock that is held. seconds: until it ends if its holder has died."""
    who = "another process"
    if {"host", "pid"} <= set(holder):
        who = f"process {holder['pid']} on {holder['host']}"
    wait = "Wait until it is done, or stop it"
    if seconds is not None:
        left = max(math.ceil(seconds), 1)
        end = datetime.datetime.now().astimezone() + datetime.timedelta(seconds=left)
        wait += (
            f"; if that process has died, its lock ends at {end:%Y-%m-%d %H:%M:%S %Z} (in {left} s)"
        )
    return (
        f"another run is writing to {shown(folder.parent)}: {who} holds the lock. {wait}; then run"
        " the same command again to continue"
    )
