"""Progress of a job, read from its staging folder; works the same for every runner."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from recordmill.errors import StorageError
from recordmill.job.staging import (
    DRAFTS,
    Listing,
    PlanContent,
    ShardInfo,
    Staging,
    draft_key,
    drafted,
)
from recordmill.runners.progress import Snapshot, duration
from recordmill.storage.files import DirectoryEntry, shown
from recordmill.storage.storage_errors import PathError
from recordmill.transforms.model import limits

_SLOW_SECONDS = 20.0  # time of a request after which the store does not seem to answer
_STORE_REQUESTS = 1.0  # per second
_MOST_REQUESTS = 10  # of a poll, before infos of shards wait for the next
# Requests of a missing file, of one that is read, and of a listing of up to 1,000 names.
_MISSING, _READ, _LIST = 1, 1, 1


class JobProgress:
    """Progress of one job, polled while it runs; threads may share it.

    In an object store, a poll reads a few objects at a time, and the next polls return the same
    snapshot until the requests are one per second.

    waiting: returns what the job waits for before its first stage, or None. clock: in seconds.
    """

    def __init__(
        self,
        staging: Staging,
        *,
        waiting: Callable[[], str | None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._staging = staging
        self._waiting = waiting
        self._clock = clock
        self._listed = 0
        self._infos: dict[str, ShardInfo] = {}
        self._is_writing = False
        self._lock = threading.Lock()
        self._snapshot: Snapshot | None = None
        self._next = 0.0  # time of the next request to a store
        self._requests = 0
        self._kept: dict[str, Any] = {}  # files of a store that were read
        self._unanswered: float | None = None  # time of the first request without an answer

    def is_writing(self) -> bool:
        """Return whether records were missing in the shards at the last poll."""
        return self._is_writing

    def unanswered(self) -> str:
        """Return a message about the store if it does not answer this process, else ''."""
        since = self._unanswered
        seconds = 0.0 if since is None else self._clock() - since
        if self._is_local or seconds < _SLOW_SECONDS:
            return ""
        store = shown(self._staging.output)
        return f"the store of {store} has not answered this command for {duration(seconds)}"

    def listed(self, rows: int) -> None:
        """Add rows to the count of the listing while it is made."""
        self._listed += rows

    def poll(self) -> Snapshot | None:
        """Return the current progress, or None before staging exists and after it is removed.

        Raises:
          DamageError: a file of staging is damaged.
        """
        if self._is_local:
            try:
                return self._poll()
            except StorageError:  # a file was moved after its folder was listed
                return None
        # Another thread may wait for the store.
        if self._lock.acquire(blocking=False):
            try:
                if self._clock() >= self._next:
                    self._requests = 0
                    since, is_silent = self._unanswered, False
                    self._unanswered = self._clock() if since is None else since
                    try:
                        self._snapshot = self._poll()
                    except StorageError as error:  # the last snapshot stays: nothing has progressed
                        is_silent = not isinstance(error, PathError)
                    finally:
                        if not is_silent:
                            self._unanswered = None
                        self._next = self._clock() + max(self._requests, 1) / _STORE_REQUESTS
            finally:
                self._lock.release()
        return self._snapshot

    @property
    def _is_local(self) -> bool:
        return self._staging.intermediate.is_local

    def _poll(self) -> Snapshot | None:
        plan = self._read("plan.json", PlanContent)
        if plan is not None:
            return self._writing(plan)
        if self._listed and not self._is_local and "listing.json" not in self._kept:
            # This process makes the listing, or has made it just now.
            self._requests += _MISSING
            if not self._staging.place("listing.json").exists():
                return Snapshot(phase="listing", done=self._listed, unit="files")
        listing = self._read("listing.json", Listing)
        if listing is None:
            return Snapshot(phase="listing", done=self._listed or self._staged(), unit="files")
        names = [entry.name for entry in self._list("checked")]
        if not names:
            waiting = self._waiting() if self._waiting else None
            return Snapshot(phase=waiting or "planning", unit="", rejects=None)
        # `.arrow.json` files describe the rows of a part, of which a large part has several files.
        done = sum(name.endswith(".json") and not name.endswith(".arrow.json") for name in names)
        return Snapshot(phase="checking", done=done, total=len(listing.parts), unit="parts")

    def _read(self, name: str, kind: Any) -> Any:
        """Return the content of a JSON file; None if it is missing. Those of a store are kept."""
        if name in self._kept:
            return self._kept[name]
        found = self._staging.read_json(name, kind)
        self._requests += _MISSING if found is None else _READ
        if found is not None and not self._is_local:
            self._kept[name] = found
        return found

    def _list(self, name: str) -> Sequence[DirectoryEntry]:
        """Return the entries of a folder; none if it is missing."""
        place = self._staging.place(name)
        if not self._is_local:
            self._requests += _LIST
        return place.list_if_exists()

    def _staged(self) -> int:
        """Return the number of rows in the full parts that another process has listed."""
        parts = [len(self._list(f"listing/{folder.name}")) for folder in self._list("listing")]
        return max(parts, default=0) * limits.REFERENCE_ROWS

    def _writing(self, plan: dict[str, dict[str, dict[str, int]]]) -> Snapshot:
        splits = plan["splits"].values()
        total = sum(split["records"] for split in splits)
        size = sum(split["bytes"] for split in splits) / max(total, 1)
        unread = 0  # finished shards
        for entry in self._list("info"):
            name = entry.name.removesuffix(".json")
            if name not in self._infos and entry.name.endswith(".json"):
                if self._requests >= _MOST_REQUESTS:
                    unread += 1
                    continue
                found = self._staging.shard_info(name)
                self._requests += 0 if self._is_local else _READ
                if found is not None:
                    self._infos[name] = found
        begun = self._begun_bytes()
        shards = sum(split["shards"] for split in splits)
        begun += int(unread * size * total / max(shards, 1))
        records = sum(found.shard.records for found in self._infos.values())
        if size:
            records += int(begun / size)
        self._is_writing = records < total
        return Snapshot(
            phase="writing",
            done=min(records, total),
            total=total,
            records=min(records, total),
            bytes=sum(found.shard.bytes for found in self._infos.values()) + begun,
            rejects=int(plan["rejected"])  # type: ignore[call-overload]
            + sum(found.rejected for found in self._infos.values()),
        )

    def _begun_bytes(self) -> int:
        """Return the bytes of the shards that are not finished."""
        finished = {*map(draft_key, self._infos)}
        # A shard, or a segment of it, may also have a draft of an earlier attempt.
        sizes: dict[tuple[str, str], int] = {}
        for entry in self._list(DRAFTS):
            draft = drafted(entry)
            if draft is not None and draft.shard not in finished:
                part = draft.shard, draft.start
                sizes[part] = max(sizes.get(part, 0), draft.bytes)
        whole: Counter[str] = Counter()
        segments: Counter[str] = Counter()
        for (shard, start), size in sizes.items():
            (segments if start else whole)[shard] += size
        # The draft of a shard contains its joined segments, so the larger number counts.
        return (whole | segments).total()
