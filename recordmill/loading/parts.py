"""Which records of which files a host reads, and in how many steps."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from recordmill.checking.shard_check import compare, measure
from recordmill.errors import ConfigError
from recordmill.format.manifest import FileInfo, Manifest, Shard
from recordmill.format.split_names import in_order
from recordmill.reading import worker_sharding
from recordmill.reading.reader import DatasetDamagedError
from recordmill.storage.files import Location


@dataclasses.dataclass(frozen=True, kw_only=True)
class Piece:
    """Records of a file that follow each other: `count` of them after the first `skip`."""

    path: str
    skip: int
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPart:
    """What one host reads of a split.

    padding: records at its end that only fill up, so that all hosts have equally many; they are
      the first record of the split, with a sample weight of 0.
    record_bytes: what a record takes in the files, about.
    """

    pieces: tuple[Piece, ...]
    first: Piece | None
    padding: int
    record_bytes: float

    @property
    def read(self) -> int:
        """Records without padding."""
        return sum(piece.count for piece in self.pieces)

    @property
    def records(self) -> int:
        """With it."""
        return self.read + self.padding


def shards_of(manifest: Manifest, split: str) -> tuple[Shard, ...]:
    """Raises ConfigError where there is no such split."""
    if split not in manifest.splits:
        known = ", ".join(in_order(manifest.splits))
        raise ConfigError(f"expected one of the splits {known}, got {split!r}")
    return manifest.splits[split].shards


def part_of(
    dataset: Location,
    shards: Sequence[Shard],
    *,
    shard: tuple[int, int] | None,
    drop_remainder: bool,
) -> HostPart:
    """Cuts a split into ranges for hosts, of which no two are of different length.

    shard: hosts, and which of them this is. drop_remainder: leave out what is over, instead of
    padding.
    """
    whole = [Piece(path=str(dataset / one.file), skip=0, count=one.records) for one in shards]
    records = sum(piece.count for piece in whole)
    size = sum(one.bytes for one in shards)
    hosts, index = shard or (1, 0)
    if drop_remainder and shard is not None:
        every, longest = range(records // hosts * hosts), 0
    else:
        every, longest = range(records), -(-records // hosts)
    mine = worker_sharding.part_of(every, hosts, index)
    return HostPart(
        pieces=tuple(_between(whole, mine.start, mine.stop)),
        first=next((piece for piece in whole if piece.count), None),
        padding=max(0, longest - len(mine)),
        record_bytes=size / records if records else 0,
    )


def _between(pieces: Sequence[Piece], first: int, stop: int) -> list[Piece]:
    found = []
    at = 0
    for piece in pieces:
        skip, end = max(first - at, 0), min(stop - at, piece.count)
        if skip < end:
            found.append(Piece(path=piece.path, skip=skip, count=end - skip))
        at += piece.count
    return found


def check_files(dataset: Location, shards: Sequence[Shard], *, checksums: bool) -> None:
    """Whether the files are there as the manifest says, by their sizes or by all of them.

    Raises:
      DatasetDamagedError: says of which file this is not so.
    """
    sizes = {entry.name: entry.size for entry in dataset.list_dir()}
    for shard in shards:
        if shard.file not in sizes:
            raise DatasetDamagedError(f"{dataset / shard.file}: the file is missing")
        stated = FileInfo(bytes=shard.bytes, sha256=shard.sha256)
        found = FileInfo(bytes=sizes[shard.file], sha256=shard.sha256)
        if checksums and found == stated:
            with (dataset / shard.file).open_input() as file:
                found = measure(file)
        for damage in compare(str(dataset / shard.file), found=found, stated=stated):
            raise DatasetDamagedError(str(damage))
