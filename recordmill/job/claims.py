"""A lock where the filesystem has none: every contender writes a claim, and then looks for others.

If two held, each would have looked before the other wrote, and yet written before it looked; so at
most one holds, on any store whose listings show what was written before (S3, GCS, Azure).
A holder renews its claim while it lives; one that is not renewed is nobody's, by the store's clock.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import random
import socket
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

from recordmill.storage.files import Location, MissingError, StorageError, shown
from recordmill.storage.stores import DirectoryEntry

PREFIX = "claim-"
_ATTEMPTS = 10
_SECOND = 10**9  # nanoseconds


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rhythm:
    """How often a holder renews its claim, and after how long without it the claim is nobody's.

    pause: at most, between two attempts of contenders that met. All in seconds.
    """

    renew: float = 15.0
    stale: float = 90.0
    pause: float = 3.0


class ClaimedError(Exception):
    """Another holds it: {host, pid}."""

    def __init__(self, holder: dict[str, Any]) -> None:
        super().__init__(str(holder))
        self.holder = holder


@contextlib.contextmanager
def claimed(
    folder: Location,
    *,
    rhythm: Rhythm = Rhythm(),
    on_lost: Callable[[str], None] | None = None,
) -> Iterator[None]:
    """Holds the claim on `folder`.

    on_lost: called, in another thread, where the claim was taken for nobody's after a long pause of
    this process (a suspended laptop), and somebody else may hold it; by default the process ends.

    Raises:
      ClaimedError: somebody else holds it.
    """
    mine = folder / f"{PREFIX}{uuid.uuid4().hex}.json"
    _acquire(mine, folder, rhythm)
    done = threading.Event()

    def renew() -> None:
        while not done.wait(rhythm.renew):
            try:
                held = mine.exists()
                if held:
                    _write(mine, holds=True)
            except StorageError:
                continue  # the next time; others wait for several
            if not held and not done.is_set():
                (on_lost or _end)(
                    f"another run has taken {shown(folder.parent)} over while this one stood still"
                )
                return

    thread = threading.Thread(target=renew, name="claim", daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join(timeout=30)
        mine.delete(missing_ok=True)


def _acquire(mine: Location, folder: Location, rhythm: Rhythm) -> None:
    holder: dict[str, Any] = {}
    for _ in range(_ATTEMPTS):
        _write(mine, holds=False)
        others = _others(mine, folder, rhythm)
        if not others:
            _write(mine, holds=True)
            return
        mine.delete(missing_ok=True)
        holder = next((claim for claim in others if claim.get("holds")), {})
        if holder:
            break
        # All of them contend still, and all withdraw: they come back at different times.
        time.sleep(random.uniform(0, rhythm.pause))
    raise ClaimedError(holder)


def _write(mine: Location, *, holds: bool) -> None:
    claim = {"host": socket.gethostname(), "pid": os.getpid(), "holds": holds}
    mine.write_bytes(json.dumps(claim).encode())


def _others(mine: Location, folder: Location, rhythm: Rhythm) -> list[dict[str, Any]]:
    """The claims of others, without those that are nobody's, which go."""
    claims = [entry for entry in folder.list_dir() if entry.name.startswith(PREFIX)]
    now = next((entry.mtime_ns for entry in claims if entry.name == mine.name), 0)
    found = []
    for entry in claims:
        if entry.name == mine.name:
            continue
        if now - entry.mtime_ns > rhythm.stale * _SECOND:
            (folder / entry.name).delete(missing_ok=True)
        else:
            found.append(_read(folder, entry))
    return [claim for claim in found if claim]


def _read(folder: Location, entry: DirectoryEntry) -> dict[str, Any]:
    """What a claim says; nothing where it was withdrawn since it was listed."""
    try:
        claim = json.loads((folder / entry.name).read_bytes())
    except MissingError:
        return {}
    return claim if isinstance(claim, dict) else {}


def _end(why: str) -> None:
    print(f"recordmill: {why}; it ends here", file=sys.stderr, flush=True)
    os._exit(1)
