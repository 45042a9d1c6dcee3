"""Progress of a job, read from its staging folder; works the same for every runner."""

from __future__ import annotations

from collections.abc import Callable

from recordmill.errors import StorageError
from recordmill.job.staging import DRAFTS, PlanContent, ShardInfo, Staging
from recordmill.runners.progress import Snapshot
from recordmill.transforms.model import limits


class JobProgress:
    """Progress of one job, polled while it runs.

    waiting: returns what the job waits for before its first stage, or None.
    """

    def __init__(
        self, staging: Staging, *, waiting: Callable[[], str | None] | None = None
    ) -> None:
        self._staging = staging
        self._waiting = waiting
        self._listed = 0
        self._infos: dict[str, ShardInfo] = {}
        self._is_writing = False

    def is_writing(self) -> bool:
        """Return whether records were missing in the shards at the last poll."""
        return self._is_writing

    def listed(self, rows: int) -> None:
        """Add rows to the count of the listing while it is made."""
        self._listed += rows

    def poll(self) -> Snapshot | None:
        """Return the current progress, or None before staging exists and after it is removed.

        Raises:
          DamageError: a file of staging is damaged.
        """
        try:
            return self._poll()
        except StorageError:  # a file was moved between the listing of its folder and its reading
            return None

    def _poll(self) -> Snapshot | None:
        plan = self._staging.read_json("plan.json", PlanContent)
        if plan is not None:
            return self._writing(plan)
        listing = self._staging.listing()
        if listing is None:
            return Snapshot(phase="listing", done=self._listed or self._staged(), unit="files")
        checked = self._staging.place("checked")
        if not checked.exists():
            waiting = self._waiting() if self._waiting else None
            return Snapshot(phase=waiting or "planning", done=listing.rows)
        names = [entry.name for entry in checked.list_dir()]
        # `.arrow.json` files describe the rows of a part, of which a large part has several files.
        done = sum(name.endswith(".json") and not name.endswith(".arrow.json") for name in names)
        return Snapshot(phase="checking", done=done, total=len(listing.parts), unit="parts")

    def _staged(self) -> int:
        """Return the number of rows in the full parts that another process has listed."""
        listing = self._staging.place("listing")
        folders = listing.list_dir() if listing.exists() else []
        parts = [len(list((listing / folder.name).list_dir())) for folder in folders]
        return max(parts, default=0) * limits.REFERENCE_ROWS

    def _writing(self, plan: dict[str, dict[str, dict[str, int]]]) -> Snapshot:
        splits = plan["splits"].values()
        total = sum(split["records"] for split in splits)
        size = sum(split["bytes"] for split in splits) / max(total, 1)
        info = self._staging.place("info")
        for entry in info.list_dir() if info.exists() else ():
            name = entry.name.removesuffix(".json")
            if name not in self._infos and entry.name.endswith(".json"):
                found = self._staging.shard_info(name)
                if found is not None:
                    self._infos[name] = found
        drafts = self._staging.place(DRAFTS)
        sizes: dict[str, int] = {}
        for entry in drafts.list_dir() if drafts.exists() else ():
            if entry.name.endswith(".tmp"):  # a shard may have one of an earlier attempt, too
                shard = entry.name.partition("-")[0]
                sizes[shard] = max(sizes.get(shard, 0), entry.size)
        begun = sum(sizes.values())
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
