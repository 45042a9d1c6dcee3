"""A lock for object stores: every process writes a claim, then lists the claims of the others.

At most one process can hold the lock: a process lists only after it has written, so of two
processes at least one sees the other's claim. This needs a store whose listings show every earlier
write, as S3, GCS and Azure do. The holder renews its claim while it runs; a claim that is no longer
renewed expires, by the store's clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

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
    """Another process holds the claim: holder, {host, pid}; empty if it is not known."""

    def __init__(self, holder: dict[str, Any]) -> None:
        super().__init__(str(holder))
        self.holder = holder


@contextlib.contextmanager
def hold_claim(
    folder: Location,
    *,
    timing: ClaimTiming = ClaimTiming(),
    on_lost: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Hold the claim on a folder.

    on_lost: called with a message, in another thread, if the claim expired during a long pause of
      this process (such as a suspended laptop), so that another process may hold it. By default
      this process exits.

    Raises:
      ClaimedError: another process holds the claim.
    """
    mine = folder / f"{PREFIX}{uuid.uuid4().hex}.json"
    _acquire(mine, folder, timing)
    done = threading.Event()

    def renew() -> None:
        while not done.wait(timing.renew):
            try:
                held = mine.exists()
                if held:
                    _write(mine, holds=True)
            except StorageError:
                continue  # the claim expires only after several failed renewals
            if not held and not done.is_set():
                (on_lost or _exit)(
                    f"another run has taken over {shown(folder.parent)} while this one was paused"
                )
                return

    thread = threading.Thread(target=renew, name="claim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=30)
        _withdraw(mine)


def _acquire(mine: Location, folder: Location, timing: ClaimTiming) -> None:
    holder: dict[str, Any] = {}
    for _ in range(_ATTEMPTS):
        _write(mine, holds=False)
        others = _others(mine, folder, timing)
        if not others:
            _write(mine, holds=True)
            return
        _withdraw(mine)
        holder = next((claim for claim in others if claim.get("holds")), {})
        if holder:
            break
        # None of them holds the claim yet: all withdraw, and try again at different times.
        time.sleep(random.uniform(0, timing.pause))
    raise ClaimedError(holder)


def _withdraw(claim: Location) -> None:
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
        print(f"recordmill: warning: {refused}: {advice}", file=sys.stderr)


def _write(mine: Location, *, holds: bool) -> None:
    claim = {"host": socket.gethostname(), "pid": os.getpid(), "holds": holds}
    mine.write_bytes(strict_json.to_text(claim, ascii_only=True).encode())


def _others(mine: Location, folder: Location, timing: ClaimTiming) -> list[dict[str, Any]]:
    """Return the claims of other processes, after deleting expired ones."""
    claims = [entry for entry in folder.list_dir() if entry.name.startswith(PREFIX)]
    now = next((entry.mtime_ns for entry in claims if entry.name == mine.name), 0)
    found = []
    for entry in claims:
        if entry.name == mine.name:
            continue
        if now - entry.mtime_ns > timing.expire * _SECOND:
            _withdraw(folder / entry.name)
        else:
            found.append(_read(folder, entry))
    return [claim for claim in found if claim]


def _read(folder: Location, entry: DirectoryEntry) -> dict[str, Any]:
    """Return the content of a claim; empty if it was withdrawn after it was listed."""
    try:
        content = (folder / entry.name).read_bytes()
    except MissingError:
        return {}
    with damage_of(shown(folder / entry.name), advice="delete it if no run holds it"):
        return read_as(JsonObject, parse_json(content))


def _exit(why: str) -> None:
    print(f"recordmill: {printable(why)}; stopping", file=sys.stderr, flush=True)
    os._exit(1)
