"""The stages that write shards: `WriteShard`, or three stages that share shards among machines.

With `WriteShard`, each worker gets an equal number of shards. That suits one machine, whose encoder
processes serve all of its workers; on several machines, the job would end with the slowest. There
`DivideShards` divides shards into segments, `EncodeSegments` runs on every worker and takes the
next segment whenever it is free, and `JoinSegments` joins those of each shard. A segment whose
worker was lost is encoded while its shard is joined.
"""

from __future__ import annotations

import collections
import dataclasses
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any, Generic, TypeVar

import apache_beam as beam
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.format.file_names import shard_name
from recordmill.job.staging import CLAIMS, ShardInfo
from recordmill.transforms.model import limits
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.writing.shards.segments import (
    ShardWork,
    divide,
    pack_pieces,
    segment_files,
    unpack_pieces,
)
from recordmill.transforms.writing.shards.shard_rows import Segment
from recordmill.transforms.writing.shards.shard_writer import ShardWriter
from recordmill.transforms.writing.shards.shuffle import BlockPiece, ShardId

T = TypeVar("T")

_GOLDEN = (5**0.5 - 1) / 2  # multiples of it are spread evenly, modulo 1

Written = tuple[ShardInfo, int]  # a shard, and the number of records planned for the dataset
# (shard, segment, name of its file); (shard, None, "") if the whole shard is finished.
Encoded = tuple[ShardId, Segment | None, str]


class _ConcurrentDoFn(beam.DoFn, Generic[T]):
    """Runs calls in threads, up to `SHARDS_AT_ONCE` of a bundle at a time.

    While the last rows of one shard are encoded, or its index is written, the other keeps the
    encoder processes busy.
    """

    def setup(self) -> None:
        self._threads = ThreadPoolExecutor(limits.SHARDS_AT_ONCE, thread_name_prefix="shard")

    def start_bundle(self) -> None:
        self._calls: collections.deque[Future[T]] = collections.deque()

    def submit(self, call: Callable[..., T], *arguments: Any) -> None:
        """Begin a call; `wait_for_room` comes first."""
        self._calls.append(self._threads.submit(call, *arguments))

    def wait_for_room(self) -> Iterator[T]:
        """Yield the result of the oldest call, if as many run as can at a time."""
        if len(self._calls) == limits.SHARDS_AT_ONCE:
            yield self._oldest()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        while self._calls:
            yield GlobalWindows.windowed_value_at_end_of_window(self._oldest())

    def teardown(self) -> None:
        self._threads.shutdown()

    def _oldest(self) -> T:
        try:
            return self._calls.popleft().result()
        except BaseException:
            wait(self._calls)  # no thread of a failed attempt may go on writing
            raise


class _WritingDoFn(_ConcurrentDoFn[Written]):
    """Emits written shards, and counts their records."""

    def __init__(self, writer: ShardWriter) -> None:
        self._writer = writer
        self._counters = RecordCounters("WriteToTFRecord")

    def setup(self) -> None:
        self._writer.check_versions()
        super().setup()

    def _oldest(self) -> Written:
        info, planned = super()._oldest()
        self._counters.add(read=info.planned, out=info.shard.records, rejected=len(info.rejects))
        return info, planned


def _planned(plan: Plan) -> int:
    return sum(split.records for split in plan.splits.values())


def _not_empty(pieces: Iterable[BlockPiece]) -> list[BlockPiece]:
    return [(block, rows, piece) for block, rows, piece in pieces if rows]


@dataclasses.dataclass(frozen=True)
class _Chosen:
    """Selects shards. only: their names; None selects all. compression: as in `shard_name`."""

    only: frozenset[str] | None
    compression: str

    def __call__(self, shard: ShardId, plan: Plan) -> bool:
        count = plan.splits[shard[0]].shards
        return self.only is None or shard_name(*shard, count, self.compression) in self.only


class WriteShard(_WritingDoFn):
    """Write shards: pieces of shards in, `Written` out.

    A shard is written as a `ShardDraft`; its info and its index are written beside it. A second
    attempt, such as a runner's retry, gives the same files.

    only: names of the shards to write; None writes all.
    """

    def __init__(self, writer: ShardWriter, *, only: frozenset[str] | None = None) -> None:
        super().__init__(writer)
        self._is_chosen = _Chosen(only, writer.compression)

    def process(
        self, element: tuple[ShardId, Iterable[BlockPiece]], plan: Plan
    ) -> Iterator[Written]:
        shard, pieces = element
        if self._is_chosen(shard, plan):
            yield from self.wait_for_room()
            self.submit(self._write, shard, _not_empty(pieces), plan)

    def _write(self, shard: ShardId, pieces: Sequence[BlockPiece], plan: Plan) -> Written:
        return self._writer.write(shard, pieces, plan), _planned(plan)


class DivideShards(beam.DoFn):
    """Divide shards into segments: pieces of shards in, `ShardWork` out.

    only: names of the shards to write; None writes all.
    """

    def __init__(self, writer: ShardWriter, *, only: frozenset[str] | None = None) -> None:
        self._writer = writer
        self._is_chosen = _Chosen(only, writer.compression)

    def process(
        self, element: tuple[ShardId, Iterable[BlockPiece]], plan: Plan
    ) -> Iterator[ShardWork]:
        shard, pieces = element[0], _not_empty(element[1])
        if not self._is_chosen(shard, plan):
            return
        segments = divide(self._writer.rows_of(shard, pieces, plan), plan, shard[0])
        if segments and self._writer.finished(shard, plan) is not None:
            segments = ()  # its rows only have to be compared
        packed = pack_pieces(pieces, self._writer.staging)
        yield ShardWork(shard, packed, segments, attempt=uuid.uuid4().hex)


class EncodeSegments(_ConcurrentDoFn[Encoded]):
    """Claim and encode segments until none is left: numbers of workers in, `Encoded` out.

    Workers begin at different segments, by their numbers, so that they seldom claim the same one.
    """

    def __init__(self, writer: ShardWriter) -> None:
        self._writer = writer

    def setup(self) -> None:
        self._writer.check_versions()
        self._done: set[str] = set()
        super().setup()

    def process(self, worker: int, work: Sequence[ShardWork], plan: Plan) -> Iterator[Encoded]:
        attempts = {one.attempt for one in work}
        if attempts <= self._done:  # by an earlier number of this worker
            return
        staging = self._writer.staging
        units = [(one, segment) for one in sorted(work) for segment in one.units]
        first = int(worker * _GOLDEN % 1 * len(units))
        claims = staging.place(CLAIMS)
        claims.make_dirs()
        earlier = segment_files(staging)
        claimed: set[str] = set()
        for one, segment in [*units[first:], *units[:first]]:
            name = one.claim_name(segment)
            if name in claimed:
                continue
            yield from self.wait_for_room()
            if (claims / name).create_exclusive(b""):
                self.submit(self._encode, one, segment, plan, earlier)
            else:
                claimed = {entry.name for entry in claims.list_if_exists()}
        self._done = attempts

    def _encode(
        self, work: ShardWork, segment: Segment | None, plan: Plan, earlier: Mapping[str, str]
    ) -> Encoded:
        pieces = unpack_pieces(work.pieces, self._writer.staging)
        if segment is None:
            self._writer.write(work.shard, pieces, plan)
            return work.shard, None, ""
        return (
            work.shard,
            segment,
            self._writer.write_segment(work.shard, pieces, plan, segment, earlier),
        )


class JoinSegments(_WritingDoFn):
    """Join the segments of shards: `ShardWork` in, `Written` out; side input: all `Encoded`."""

    def process(self, work: ShardWork, encoded: Sequence[Encoded], plan: Plan) -> Iterator[Written]:
        yield from self.wait_for_room()
        files = {segment: name for shard, segment, name in encoded if shard == work.shard}
        self.submit(self._join, work, files, plan)

    def _join(self, work: ShardWork, files: Mapping[Segment | None, str], plan: Plan) -> Written:
        info = self._writer.finished(work.shard, plan) if None in files else None
        if info is None:
            pieces = unpack_pieces(work.pieces, self._writer.staging)
            segments = {segment: name for segment, name in files.items() if segment is not None}
            info = self._writer.write(work.shard, pieces, plan, segments)
        return info, _planned(plan)
