"""A lock for object stores: every process writes a claim, then lists the claims of the others.

At most one process can hold the lock: a process lists only after it has written, so of two
processes at least one sees the other's claim. This needs a store whose listings show every earlier
write, as S3, GCS and Azure do. The holder renews its claim while it runs; a claim that is no longer
renewed expires, by the store's clock. The claim of a process that has died on this machine is
ignored.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from recordmill import strict_json
from recordmill.format.typed_json import JsonObject, damage_of, parse_json, read_as
from recordmill.printable import printable
from recordmill.storage.files import Location, MissingError, StorageError, shown
from recordmill.storage.stores import DirectoryEntry

PREFIX = "claim-"
_ATTEMPTS = 10
_SECOND = 10**9  # nanoseconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClaimTiming:
    """Times in seconds.

    renew: the interval at which the holder renews its claim.
    expire: the age at which a claim that is not renewed expires.
    pause: the longest wait before processes that claimed at the same moment try again.
    """

    renew: float = 15.0
    expire: float = 90.0
    pause: float = 3.0


class ClaimedError(Exception):
    """Another process holds the claim.

    holder: {host, pid}; empty if it is not known. seconds: until the claim expires if its holder
    does not renew it; None if it is not known.
    """

    def __init__(self, holder: dict[str, Any], *, seconds: float | None = None) -> None:
        super().__init__(str(holder))
        self.holder = holder
        self.seconds = seconds


class Claim:
    """The claim of this process on a folder; any thread may end it."""

    def __init__(self, folder: Location) -> None:
        self.place = folder / f"{PREFIX}{uuid.uuid4().hex}.json"
        self._lock = threading.Lock()
        self._is_written = False
        self._ended = False

    @property
    def has_ended(self) -> bool:
        return self._ended

    def write(self, *, holds: bool) -> None:
        """Write or renew the claim, unless it has ended."""
        claim = {"host": socket.gethostname(), "pid": os.getpid(), "holds": holds}
        content = strict_json.to_text(claim | {"machine": _machine()}, ascii_only=True).encode()
        with self._lock:
            if not self._ended:
                self.place.write_bytes(content)
                self._is_written = True

    def end(self, *, has_failed: bool = False) -> None:
        """Withdraw the claim for good.

        has_failed: whether the run failed; then only its own error is reported.
        """
        with self._lock:
            if not self._ended:
                self._ended = True
                if self._is_written:
                    _withdraw(self.place, has_failed=has_failed)
                else:  # the write failed, which is the error, but the store may have the file
                    with contextlib.suppress(StorageError):
                        self.place.delete(missing_ok=True)


@contextlib.contextmanager
def hold_claim(
    folder: Location,
    *,
    claim: Claim | None = None,
    timing: ClaimTiming = ClaimTiming(),
    on_lost: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the claim on a folder.

    claim: of this process on the folder, for callers that may end it in another thread.
    on_lost: called with a message, in another thread, if the claim expired during a long pause of
      this process (such as a suspended laptop), so that another process may hold it. By default
      this process exits.

    Raises:
      ClaimedError: another process holds the claim.
    """
    claim = claim or Claim(folder)
    done = threading.Event()

    def renew() -> None:
        while not done.wait(timing.renew):
            try:
                held = claim.place.exists()
                if held:
                    claim.write(holds=True)
            except StorageError:
                continue  # the claim expires only after several failed renewals
            if not held and not done.is_set() and not claim.has_ended:
                (on_lost or _exit)(
                    f"another run has taken over {shown(folder.parent)} while this one was paused"
                )
                return

    thread = threading.Thread(target=renew, name="claim", daemon=True)
    has_failed = True
    try:
        _acquire(claim, folder, timing)
        thread.start()
        yield
        has_failed = False
    finally:
        done.set()
        if thread.is_alive():
            thread.join(timeout=30)
        claim.end(has_failed=has_failed)


def _acquire(mine: Claim, folder: Location, timing: ClaimTiming) -> None:
    holder: _Other | None = None
    for _ in range(_ATTEMPTS):
        mine.write(holds=False)
        others = _others(mine.place, folder, timing)
        if not others:
            mine.write(holds=True)
            return
        _withdraw(mine.place)
        holder = next((other for other in others if other.claim.get("holds")), None)
        if holder is not None:
            break
        # None of them holds the claim yet: all withdraw, and try again at different times.
        time.sleep(random.uniform(0, timing.pause))
    if holder is None:
        raise ClaimedError({})
    raise ClaimedError(holder.claim, seconds=timing.expire - holder.age)


def _withdraw(claim: Location, *, has_failed: bool = False) -> None:
    """Delete a claim; where the store refuses that, overwrite it with one that claims nothing."""
    try:
        claim.delete(missing_ok=True)
    except StorageError as refused:
        try:
            claim.write_bytes(b"{}")
        except StorageError:
            advice = "it expires by itself; then remove it"
        else:
            advice = "it has no effect any more, and can be removed"
        if not has_failed:
            print(f"recordmill: warning: {refused}: {advice}", file=sys.stderr)


class _Other(NamedTuple):
    """The claim of another process, and its age in seconds."""

    claim: dict[str, Any]
    age: float


def _others(mine: Location, folder: Location, timing: ClaimTiming) -> list[_Other]:
    """Return the claims of other processes, after deleting those without effect."""
    claims = [entry for entry in folder.list_dir() if entry.name.startswith(PREFIX)]
    now = next((entry.mtime_ns for entry in claims if entry.name == mine.name), 0)
    found = []
    for entry in claims:
        if entry.name == mine.name:
            continue
        age = (now - entry.mtime_ns) / _SECOND
        claim = _read(folder, entry) if age <= timing.expire else {}
        if not claim or _is_of_the_dead(claim):
            _withdraw(folder / entry.name)
        else:
            found.append(_Other(claim, age))
    return found


def _is_of_the_dead(claim: Mapping[str, Any]) -> bool:
    """Return whether the process of a claim has certainly ended: it ran on this machine."""
    pid = claim.get("pid")
    here = _machine()
    if not isinstance(pid, int) or pid < 1 or not here or claim.get("machine") != here:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except (OSError, OverflowError):
        return False
    return False


@functools.cache
def _machine() -> str:
    """Return an identifier of the namespace of process ids, until the next boot; '' if unknown."""
    try:
        with open("/proc/sys/kernel/random/boot_id") as file:
            return f"{file.read().strip()} {os.readlink('/proc/self/ns/pid')}"
    except OSError:
        return ""


def _read(folder: Location, entry: DirectoryEntry) -> dict[str, Any]:
    """Return the content of a claim; empty if it was withdrawn."""
    try:
        content = (folder / entry.name).read_bytes()
    except MissingError:
        return {}
    with damage_of(shown(folder / entry.name), advice="delete it if no run holds it"):
        return read_as(JsonObject, parse_json(content))


def _exit(why: str) -> None:
    print(f"recordmill: {printable(why)}; stopping", file=sys.stderr, flush=True)
    os._exit(1)
