"""The job folder OUT/.recordmill/<job>/: all that is written before it is published.

listing/ANYNAME/part-00000.arrow  listing.json   the listing, written once
looked/SUM.arrow                                 rows that were read to learn what columns are
checked/part-00000.arrow  .json  .data           its rows, read where workers read, that passed
distinct/part-00000.arrow                        those of them that are no duplicates
cells/0000000000000000.arrow                     rows of series, ordered by time
windows/00-00000.arrow                           windows of them
artifacts/SHA256/NAME                            what encoders need: given, or learned from train
batches/ANYNAME.arrow                            the rows, where a pipeline of one's own makes them
plan.json                                        what is going to be written
spill/                                           pieces of the shuffle
shards/FILE  info/FILE.json  index/FILE          finished shards
side/                                            the files beside the shards
intent.json                                      publishing has begun
verdict.json                                     why nothing will be published
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator, Mapping
from typing import Any

from recordmill.errors import Reject
from recordmill.format.manifest import Shard
from recordmill.storage.files import Location

FOLDER = ".recordmill"
INTENT = "intent.json"


@dataclasses.dataclass(frozen=True)
class Verdict:
    """What the data decided: a job that ends without a dataset, and is not to be retried."""

    message: str
    code: int = 1


@dataclasses.dataclass(frozen=True, kw_only=True)
class StagedPart:
    """A file of the staged listing, by its name in staging; travels instead of its rows."""

    name: str
    rows: int
    bytes: int  # of the rows in memory
    reads: int = 0  # bytes of the files that they name
    rejected: int = 0  # by the checks
    filtered: int = 0
    extra: int = 0  # records that came of cutting others
    unread: int = 0  # inputs that could not be read, where workers read them
    spoilt: int = 0  # of those rejected, records that could not be made of inputs of several
    skipped: int = 0  # inputs that are none, such as hidden files


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listing:
    """What listing.json says. `fingerprint` does not depend on the order of the rows."""

    parts: tuple[StagedPart, ...]
    fingerprint: str
    labelled: int  # rows with a label
    grouped: int  # rows with a group
    presplit: int  # rows whose split the input names
    rejects: tuple[Reject, ...]
    filtered: Mapping[str, int]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardInfo:
    """What is known of a finished shard; `plan` is the digest of the rows it should hold."""

    split: str
    number: int
    plan: str
    planned: int  # rows, copies included
    planned_copies: int
    shard: Shard
    copies: int  # written ones
    originals: Mapping[str, int]  # written copy-0 records by class
    rejects: tuple[Reject, ...]  # a line per row, copies included
    rejected: int  # of copy-0 records
    filtered: Mapping[str, int]  # copy-0 records by option
    packed: int | None = None  # rows that went into its records, where these are not one to a row
    filled: tuple[int, int] | None = None  # of those, values that are no padding, and all
    objects: tuple[int, int] | None = None  # that its records had, and of these the written


def to_json(value: Any) -> bytes:
    """Dataclasses and plain values as JSON."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=_fields).encode()


def _fields(value: Any) -> dict[str, Any]:
    """Of a dataclass; unlike `asdict` without copies of all that is in them."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def reject_line(reject: Reject) -> bytes:
    """A line of rejects.jsonl."""
    return to_json(reject) + b"\n"


@dataclasses.dataclass(frozen=True)
class Staging:
    """The folder of one job; picklable, and all its operations may be repeated."""

    root: Location

    @classmethod
    def of(cls, output: Location, job: str) -> Staging:
        return cls(output / FOLDER / job)

    @property
    def output(self) -> Location:
        return self.root.parent.parent

    def place(self, name: str) -> Location:
        return self.root / name

    def read_json(self, name: str) -> Any:
        """The content of a JSON file; None where there is none."""
        place = self.place(name)
        return json.loads(place.read_bytes()) if place.exists() else None

    def listing(self) -> Listing | None:
        """The complete listing, if there is one."""
        data = self.read_json("listing.json")
        if data is None:
            return None
        data["parts"] = tuple(StagedPart(**part) for part in data["parts"])
        data["rejects"] = tuple(Reject(**reject) for reject in data["rejects"])
        return Listing(**data)

    def shard_info(self, name: str) -> ShardInfo | None:
        """What is known of a finished shard, by its file name."""
        data = self.read_json(f"info/{name}.json")
        if data is None:
            return None
        data["shard"] = Shard.from_json(data["shard"])
        data["rejects"] = tuple(Reject(**reject) for reject in data["rejects"])
        return ShardInfo(**data)

    def give_verdict(self, verdict: Verdict) -> None:
        self.place("verdict.json").write_bytes(to_json(verdict))

    def verdict(self) -> Verdict | None:
        data = self.read_json("verdict.json")
        return None if data is None else Verdict(**data)

    def rejects(self) -> tuple[Reject, ...]:
        """All rejects of a run that came to its end, sorted by key."""
        place = self.place("rejects.jsonl")
        lines = place.read_bytes().splitlines() if place.exists() else []
        return tuple(Reject(**json.loads(line)) for line in lines)

    def begin(self) -> None:
        """Removes what only the run that made it could use; what is finished stays."""
        for name in ("verdict.json", "plan.json", "rejects.jsonl"):
            self.place(name).delete(missing_ok=True)
        self.place("spill").delete_tree()
        shards = self.place("shards")
        for entry in shards.list_dir() if shards.exists() else ():
            if entry.name.endswith(".tmp"):
                (shards / entry.name).delete()

    def sweep(self) -> None:
        """Removes all job folders of the output; the lock beside them stays its holder's."""
        folders = list(jobs(self.output))
        for job in folders:  # before all else: what is half removed must not be gone on with
            for name in (INTENT, "listing.json"):
                job.place(name).delete(missing_ok=True)
        for job in folders:
            job.root.delete_tree()


def jobs(output: Location) -> Iterator[Staging]:
    """The job folders of an output."""
    folder = output / FOLDER
    if folder.exists():
        for entry in folder.list_dir():
            if entry.kind == "dir":
                yield Staging(folder / entry.name)
