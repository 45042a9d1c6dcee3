"""The staging folder of a job, OUT/.recordmill/<job>/: all files that exist before publishing.

If OUT is in a store and the job runs on one machine, only shards/, index/, side/, staged.json,
intent.json and machine are there. All others are in a folder of that machine, unless `--scratch
store` keeps them there, too (`recordmill.job.scratch`).

listing/ANYNAME/part-00000.arrow  listing.json   the listing of the input; a rerun keeps equal parts
looked/SUM.arrow                                 rows that were read to infer types of columns
checked/part-00000.arrow  .json  .data           rows of the listing that passed the checks
numbered/part-00000.arrow                        those rows with numbers for equal ones
near/part-00000.arrow                            those rows with groups of near duplicates
distinct/part-00000.arrow                        those rows without duplicates
decided/part-00000.arrow                         those rows with one row of each key
selected/FOLDER/part-00000.arrow                 those rows that options select
binned/part-00000.arrow                          those rows with bins of the number to predict
strata/                                          splits of strata, and the labels that define them
cells/0000000000000000.arrow                     rows of time series, ordered by time
windows/00-00000.arrow                           windows of these series
artifacts/SHA256/NAME                            files for encoders: given, or learned from train
batches/ANYNAME.arrow  .json                     rows that a custom pipeline passed, and rejects
estimate.json                                    sizes of encoded records, from a sample
plan.json                                        the plan of shards
rejects.jsonl                                    all rejects, also of a run that is refused
profiles/                                        statistics of groups of columns, by part
spill/                                           pieces of the shuffle, sorted rows of shards
drafts/SHARD-CONTEXT-ANYNAME.tmp  .journal       shards that are being written
drafts/SHARD-CONTEXT-ANYNAME.index  .recipes     their indexes and the recipes of their records
drafts/SHARD-CONTEXT-ANYNAME.BYTES.begun         in stores: the bytes that were written so far
drafts/SHARD-CONTEXT-FROM-TO-ANYNAME.segment     encoded chunks of a segment of a shard
claims/ANYNAME-FROM  ANYNAME-all                 segments, or whole shards, that workers claimed
recipes/FILE.arrow                              recipes of its records
reuse/NAME.keys  .places  .facts  .json          places of frames in earlier datasets
reuse/NAME.files  .sources                       the same for sources
scans/SHARD.arrow                                records of a file that is adopted
reuse/sample.frames                              frames of the sample that was encoded for the plan
shards/FILE  info/FILE.json  index/FILE          finished shards
shards/FILE.ANYNAME  index/FILE.ANYNAME          the same of an attempt, in stores
staged.json                                      names of those that will be published
similar/00000.jsonl  groups.json                 pairs of near duplicates; counts of their groups
known/SUM  SUM.arrow                             contents and hashes of other datasets
leaks/00000.jsonl                                contents in several splits, or with several labels
side/                                            the files beside the shards
intent.json                                      publishing has begun: the files to delete
verdict.json                                     why nothing will be published
machine                                          in both folders: a random text that pairs them
"""

from __future__ import annotations

import contextlib
import dataclasses
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import xxhash

from recordmill import strict_json
from recordmill.errors import ConfigError, DamageError, Reject
from recordmill.format.file_names import index_of
from recordmill.format.ledger import Counted, Reduced
from recordmill.format.manifest import Shard
from recordmill.format.typed_json import (
    MAX_COUNT,
    Checked,
    Count,
    damage_of,
    parse_json,
    read_as,
)
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import Note
from recordmill.option_checks import Between
from recordmill.option_names import option_name
from recordmill.storage.files import DirectoryEntry, Location, for_each, shown

FOLDER = ".recordmill"
INTENT = "intent.json"
DRAFTS = "drafts"
CLAIMS = "claims"
REUSE = "reuse"
STAGED = "staged.json"
_IN_ROOT = ("shards", "index", "side", INTENT, STAGED)
_READS_AGAIN = 2


@dataclasses.dataclass(frozen=True)
class Verdict:
    """The reason why a job's data give no dataset; an engine must not retry such a job."""

    message: str
    code: Annotated[int, Between(0, 255)] = 1

    def with_advice(self, advice: str | None) -> Verdict:
        """Return the verdict with a sentence of advice, if there is one."""
        if advice is None:
            return self
        return dataclasses.replace(self, message=f"{self.message}; {advice}")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StagedPart:
    """A file of staged rows, by its name in staging; a PCollection carries it instead of the rows.

    bytes: size of the rows in memory.
    reads: bytes of the files that the rows refer to.
    rejected, filtered: numbers of rows that the checks excluded.
    extra: records in excess of inputs, where an input was cut into several.
    inputs: inputs of records whose `extra` is here, if the records themselves may be elsewhere,
      because they passed through steps of a custom pipeline.
    unread: inputs that a worker could not read.
    invalid: rejected records (not inputs), where a record combines several inputs.
    skipped: files that are not inputs, such as hidden ones.
    lost_classes: {class: rejected or filtered inputs} of classes of which no record is left here.
    reported: whether a report on time series is beside it.
    checksums: {name: xxh3_128 in hex} of the file and those beside it, by which a later run knows
      whether they are whole; empty if they were on disk before the part was used.
    """

    name: str
    rows: Count
    bytes: Count
    reads: Count = 0
    rejected: Count = 0
    filtered: Count = 0
    extra: Count = 0
    inputs: Count = 0
    unread: Count = 0
    invalid: Count = 0
    skipped: Count = 0
    lost_classes: Mapping[str, Count] = dataclasses.field(default_factory=dict)
    reported: bool = False
    checksums: Mapping[str, str] = dataclasses.field(default_factory=dict)


def inputs_of(parts: Sequence[StagedPart], *, records: int) -> int:
    """Return the number of inputs that were read, of which parts and their rejects are the records.

    Steps of a custom pipeline may have left out clips of an input, or added some: an input counts
    even if none of its clips is left, and an added record counts as an input.

    records: number of records, also of those that were rejected or filtered.
    """
    read = sum(part.inputs for part in parts)
    return max(records - sum(part.extra for part in parts), read)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Listing:
    """The content of listing.json.

    Attributes:
      parts: The staged parts.
      fingerprint: Hash of the rows that does not depend on their order.
      labelled: Number of rows with a label.
      grouped: Number of rows with a group.
      presplit: Number of rows to which the input assigns a split.
      rejects: Inputs that could not be read.
      filtered: {option: number of rows that it excluded}.
      rejected_labels: {label: number of rejected inputs}, as far as labels are known.
      notes: Remarks on the input that were made while it was listed.
      facts: Facts about the input as a whole.
      of_values: Whether labels are numbers or booleans, not texts.
    """

    parts: tuple[StagedPart, ...]
    fingerprint: str
    labelled: Count
    grouped: Count
    presplit: Count
    rejects: tuple[Reject, ...]
    filtered: Mapping[str, Count]
    rejected_labels: Mapping[str, Count] = dataclasses.field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    facts: InputFacts = NO_FACTS
    of_values: bool = False

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts)

    def to_json(self) -> bytes:
        """Return the content of listing.json."""
        return to_json({**vars(self), "notes": [note.to_json() for note in self.notes]})


def _attempt(name: str) -> str:
    if not re.fullmatch("[0-9a-f]*", name):
        raise ValueError(f"expected hexadecimal digits, got {name!r}")
    return name


def attempt_name(name: str, attempt: str) -> str:
    """Return the name in staging that an attempt gives to a file; see `ShardInfo.attempt`."""
    return f"{name}.{attempt}" if attempt else name


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardInfo:
    """The summary of a finished shard, stored beside it.

    plan: the digest of the rows that it should hold.
    planned, planned_copies: numbers of planned rows, copies included, and of copies among them.
    copies: number of written copies.
    originals: written records by class, without copies.
    rejects: one per rejected row, copies included.
    rejected: number of rejected records, without copies.
    filtered: {option: number of records that it excluded, without copies}.
    lost: {class: records that hold it and were excluded, without copies} of records that may have
      several labels.
    packed: number of rows packed into its records; None if every record holds one row.
    filled: (values without padding, all values) of packed records.
    objects: (objects of its records, written objects).
    dropped_objects: {reason: (number of dropped objects, smallest key of a record with one)}.
    reduced: records with images of which not all bits were read.
    noted: {finding that notes report: (number without copies, smallest key of a record with one)}.
    reused: number of records, copies included, that were taken from an earlier dataset.
    has_recipes: whether recipes are beside it.
    attempt: suffix of the names of its files in staging; empty if files can be moved.
    """

    split: str
    number: Count
    plan: str
    planned: Count
    planned_copies: Count
    shard: Shard
    copies: Count
    originals: Mapping[str, Count]
    rejects: tuple[Reject, ...]
    rejected: Count
    filtered: Mapping[str, Count]
    packed: Count | None = None
    filled: tuple[Count, Count] | None = None
    objects: tuple[Count, Count] | None = None
    dropped_objects: Mapping[str, tuple[Count, str]] = dataclasses.field(default_factory=dict)
    reduced: Reduced = dataclasses.field(default_factory=Reduced)
    noted: Counted = dataclasses.field(default_factory=dict)
    reused: Count = 0
    has_recipes: bool = False
    lost: Mapping[str, Count] = dataclasses.field(default_factory=dict)
    attempt: Annotated[str, Checked(_attempt)] = ""

    @property
    def staged_shard(self) -> str:
        """Name in staging of the shard."""
        return attempt_name(f"shards/{self.shard.file}", self.attempt)

    @property
    def staged_index(self) -> str:
        """Name in staging of its index."""
        return attempt_name(index_of(self.shard.file), self.attempt)

    @property
    def staged_recipes(self) -> str:
        """Name in staging of the recipes of its records."""
        return attempt_name(f"recipes/{self.shard.file}.arrow", self.attempt)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredSplit:
    """A split in plan.json. before, after: records by class, with and without copies.

    held: records that hold each class, if they may hold several. bytes, seconds: estimates.
    """

    records: Count
    copies: Count
    shards: Count
    bytes: Annotated[int | float, Between(0, MAX_COUNT)]
    seconds: Annotated[float, Between(0, MAX_COUNT)]
    before: tuple[tuple[str | None, Count], ...]
    after: tuple[tuple[str | None, Count], ...]
    held: Mapping[str, Count] | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _StoredPlan:
    splits: Mapping[str, _StoredSplit]
    labels: tuple[str, ...] | None
    rejected: Count
    notes: tuple[Note, ...]


def _plan(data: dict[str, Any]) -> dict[str, Any]:
    read_as(_StoredPlan, data)
    return data


PlanContent = Annotated[dict[str, Any], Checked(_plan)]  # plan.json with valid values


def to_json(value: Any) -> bytes:
    """Return dataclasses and plain values as JSON with sorted keys."""
    return strict_json.to_text(value, sort_keys=True, default=_fields).encode()


def _fields(value: Any) -> dict[str, Any]:
    """Return the fields of a dataclass, without the copies that `asdict` makes."""
    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def advice_on(place: Location) -> str:
    """Return what to do about a damaged file of staging, or of a published dataset."""
    parts = place.path.split("/")
    if FOLDER not in parts:
        return f"{option_name('overwrite')} writes it again"
    root = "/".join(parts[: parts.index(FOLDER) + 2])
    return f"delete {shown(dataclasses.replace(place, path=root))}, then run the same command again"


def reject_line(reject: Reject) -> bytes:
    """Return the line of a reject in rejects.jsonl."""
    return to_json(reject) + b"\n"


def draft_key(shard: str) -> str:
    """Return the beginning of the names of a shard's drafts, by its file name.

    It is a hash, because a name that is longer than that of the shard could be too long.
    """
    return xxhash.xxh3_64_hexdigest(shard.encode())


def begun_name(draft: str, size: int) -> str:
    """Return the name of a mark that a draft (NAME.tmp) in a store has reached a size.

    Stores show no unfinished files, and a listing shows names without further requests.
    """
    return f"{draft.removesuffix('.tmp')}.{size}.begun"


def segment_prefix(shard: str, context: bytes, start: int, stop: int) -> str:
    """Return the beginning of the names of the files of a segment. shard: its file name."""
    return f"{draft_key(shard)}-{context.hex()}-{start}-{stop}-"


class Drafted(NamedTuple):
    """Progress of a draft. shard: its `draft_key`. start: of a segment; empty for a whole shard."""

    shard: str
    start: str
    bytes: int


def drafted(entry: DirectoryEntry) -> Drafted | None:
    """Return the progress that a file of a draft shows; None for other files beside it."""
    shard, _, *others = entry.name.partition("-")
    if entry.name.endswith(".segment"):
        return Drafted(shard, others[0].split("-")[1], entry.size)
    if entry.name.endswith(".tmp"):
        return Drafted(shard, "", entry.size)
    mark = re.fullmatch(r".*\.(\d{1,18})\.begun", entry.name)
    return None if mark is None else Drafted(shard, "", int(mark[1]))


@dataclasses.dataclass(frozen=True)
class Staging:
    """The staging folder of one job; it is picklable, and all operations can be repeated.

    scratch: the folder for intermediate files, if they are not in `root`.
    """

    root: Location
    scratch: Location | None = None

    @classmethod
    def of(cls, output: Location, job: str) -> Staging:
        """Return the staging folder of a job; job: its name, a hash of input and options."""
        return cls(output.without_links() / FOLDER / job)

    @property
    def output(self) -> Location:
        """Folder of the dataset."""
        return self.root.parent.parent

    @property
    def intermediate(self) -> Location:
        """Folder of the files that will not be published."""
        return self.root if self.scratch is None else self.scratch

    def place(self, name: str) -> Location:
        """Return the place of a file in staging."""
        is_in_root = name.partition("/")[0] in _IN_ROOT
        return (self.root if is_in_root else self.intermediate) / name

    def copy_of(self, name: str) -> Location | None:
        """Return the place of the copy on this machine of a file in a store; None for no copy."""
        return None if self.scratch is None else self.scratch / name

    def nearest(self, name: str) -> Location:
        """Return the place from which to read a file: its copy on this machine, if it exists."""
        copy = self.copy_of(name)
        return self.place(name) if copy is None or not copy.exists() else copy

    def read_json(self, name: str, kind: Any, *, open_ended: bool = False) -> Any:
        """Return the content of a JSON file; None if the file does not exist.

        A file in a store is read again before it counts as damaged.

        kind: the type of the content. open_ended: as for `read_as`.

        Raises:
          DamageError: the content is invalid.
        """
        place = self.place(name)
        for left in reversed(range(1 if place.is_local else 1 + _READS_AGAIN)):
            content = place.read_if_exists()
            if content is None:
                return None
            try:
                with damage_of(shown(place), advice=advice_on(place)):
                    return read_as(kind, parse_json(content), open_ended=open_ended)
            except DamageError:
                if not left:
                    raise
        raise AssertionError

    def listing(self) -> Listing | None:
        """Return the listing; None if it is not complete."""
        found: Listing | None = self.read_json("listing.json", Listing)
        return found

    def shard_info(self, name: str) -> ShardInfo | None:
        """Return the summary of a shard, by its file name; None if the shard is not finished."""
        found: ShardInfo | None = self.read_json(f"info/{name}.json", ShardInfo)
        return found

    def write_verdict(self, verdict: Verdict) -> None:
        """Store why nothing will be published."""
        self.place("verdict.json").write_bytes(to_json(verdict))

    def verdict(self) -> Verdict | None:
        """Return why nothing will be published; None if no verdict was stored."""
        found: Verdict | None = self.read_json("verdict.json", Verdict)
        return found

    def write_rejects(self, rejects: Sequence[Reject]) -> None:
        """Store all rejects of a run, if any; `begin` has deleted those of an earlier run."""
        if rejects:
            self.place("rejects.jsonl").write_bytes(b"".join(map(reject_line, rejects)))

    def rejects(self) -> tuple[Reject, ...]:
        """Return all rejects of a finished run, sorted by key."""
        place = self.place("rejects.jsonl")
        rejects = []
        for number, line in enumerate((place.read_if_exists() or b"").splitlines(), 1):
            with damage_of(shown(place), line=number, advice=advice_on(place)):
                rejects.append(read_as(Reject, parse_json(line)))
        return tuple(rejects)

    @contextlib.contextmanager
    def dropped_if_refused(self) -> Iterator[None]:
        """Delete the folder if a ConfigError leaves the block.

        It stays if it is of an earlier run, or has a finished shard.
        """
        fresh = not self.root.is_dir()
        try:
            yield
        except ConfigError:
            if fresh and not self.place("info").exists():
                self.root.delete_tree()
                if self.scratch is not None:
                    self.scratch.delete_tree()
            raise

    def begin(self) -> None:
        """Delete the files that a new run cannot reuse; shards and the listing stay."""
        self.delete_all(
            *("verdict.json", "plan.json", "rejects.jsonl", "spill", "profiles", "leaks"),
            *("similar", CLAIMS),
        )

    def delete_all(self, *names: str) -> None:
        """Delete intermediate files and folders, if they exist."""
        kinds = {entry.name: entry.kind for entry in self.intermediate.list_if_exists()}
        for name in names:
            if kinds.get(name) == "dir":
                self.place(name).delete_tree()
            elif name in kinds:
                self.place(name).delete(missing_ok=True)

    def sweep(self) -> None:
        """Delete the staging folders of all jobs of the output; the lock beside them stays.

        Of intermediate files elsewhere, those of other machines stay.
        """
        folders = list(jobs(self.output))
        for job in folders:  # first, so that no run continues from a half deleted folder
            first = [job.place(name) for name in (INTENT, "listing.json")]
            for_each(lambda place: place.delete(missing_ok=True), first, at=job.root)
        for job in folders:
            job.root.delete_tree()
        if self.scratch is not None:
            self.scratch.parent.parent.delete_tree()


def jobs(output: Location) -> Iterator[Staging]:
    """Yield the staging folders of all jobs of an output."""
    folder = output.without_links() / FOLDER
    for entry in folder.list_if_exists():
        if entry.kind == "dir":
            yield Staging(folder / entry.name)
