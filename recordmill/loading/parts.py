"""Distribution of a split's records over hosts, as ranges of records in files."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import pyarrow.compute as pc

from recordmill.checking.shard_check import compare_file
from recordmill.errors import ConfigError
from recordmill.format.file_info import FileInfo, stream_info
from recordmill.format.file_names import index_name
from recordmill.format.manifest import Manifest, Shard
from recordmill.format.shard_index import read_index
from recordmill.format.split_names import in_order
from recordmill.reading.reader import DatasetDamagedError
from recordmill.storage.files import Location
from recordmill.tfrecord.framing import (
    FOOTER_BYTES,
    HEADER_BYTES,
    FrameError,
    inflated_limit,
    read_frames,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileRange:
    """Consecutive records of a file: `count` records after the first `skip`."""

    path: str
    skip: int
    count: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class HostPart:
    """The part of a split that one host reads.

    ranges: its records.
    first: the file of the split's first record; None for an empty split.
    padding: number of records to append, so that all hosts have equally many. These are copies of
      the split's first record, with a sample weight of 0.
    record_bytes: mean bytes of a record in the files.
    """

    ranges: tuple[FileRange, ...]
    first: FileRange | None
    padding: int
    record_bytes: float

    @property
    def read(self) -> int:
        """Number of records without padding."""
        return sum(one.count for one in self.ranges)

    @property
    def records(self) -> int:
        """Number of records with padding."""
        return self.read + self.padding


def shards_of(manifest: Manifest, split: str) -> tuple[Shard, ...]:
    """Return the shards of a split.

    Raises:
      ConfigError: the split does not exist.
    """
    if split not in manifest.splits:
        known = ", ".join(in_order(manifest.splits))
        raise ConfigError(f"expected one of the splits {known}, got {split!r}")
    return manifest.splits[split].shards


def host_part(
    dataset: Location,
    shards: Sequence[Shard],
    *,
    shard: tuple[int, int] | None,
    drop_remainder: bool,
) -> HostPart:
    """Return this host's part of a split; all hosts have equally many records, with padding.

    shard: (hosts, index of this host); None for a single host.
    drop_remainder: leave out the remaining records, instead of padding.
    """
    files = [FileRange(path=str(dataset / one.file), skip=0, count=one.records) for one in shards]
    records = sum(one.count for one in files)
    size = sum(one.bytes for one in shards)
    hosts, index = shard or (1, 0)
    if drop_remainder and shard is not None:
        every, longest = range(records // hosts * hosts), 0
    else:
        every, longest = range(records), -(-records // hosts)
    mine = _even_part(every, hosts, index)
    return HostPart(
        ranges=tuple(_slice(files, mine.start, mine.stop)),
        first=next((one for one in files if one.count), None),
        padding=max(0, longest - len(mine)),
        record_bytes=size / records if records else 0,
    )


def _even_part(whole: range, parts: int, number: int) -> range:
    """Return part `number` (from 0) of `parts` parts, whose sizes differ by at most one."""
    return whole[len(whole) * number // parts : len(whole) * (number + 1) // parts]


def _slice(files: Sequence[FileRange], first: int, stop: int) -> list[FileRange]:
    """Return the records first..stop-1 of whole files."""
    found = []
    at = 0
    for one in files:
        skip, end = max(first - at, 0), min(stop - at, one.count)
        if skip < end:
            found.append(FileRange(path=one.path, skip=skip, count=end - skip))
        at += one.count
    return found


def check_files(dataset: Location, shards: Sequence[Shard], *, checksums: bool) -> None:
    """Check that the shards have the sizes, and with `checksums` the content, of the manifest.

    Raises:
      DatasetDamagedError: names the first file that is missing or differs.
    """
    sizes = {entry.name: entry.size for entry in dataset.list_dir()}
    for shard in shards:
        if shard.file not in sizes:
            raise DatasetDamagedError(f"{dataset / shard.file}: the file is missing")
        stated = FileInfo(bytes=shard.bytes, sha256=shard.sha256)
        found = FileInfo(bytes=sizes[shard.file], sha256=shard.sha256)
        if checksums and found == stated:
            with (dataset / shard.file).open_input() as file:
                found = stream_info(file)
        for damage in compare_file(str(dataset / shard.file), found=found, stated=stated):
            raise DatasetDamagedError(str(damage))


def check_sizes(
    dataset: Location,
    split: str,
    shards: Sequence[Shard],
    *,
    inflate: bool,
    max_record_bytes: int | None,
) -> None:
    """Check that gzip shards have no record that takes far more memory than its file has bytes.

    The index states the sizes; TensorFlow, which reads the records, has no limit. inflate: also
    read all records, because the index of a forged dataset may state others.

    Raises:
      DatasetDamagedError: a record is larger than allowed.
      IndexDamagedError: an index is damaged.
    """
    for number, shard in enumerate(shards):
        limit = inflated_limit(shard.bytes, max_record_bytes)
        index = read_index(
            dataset / index_name(split, number, len(shards)),
            columns=["length"],
            records=shard.records,
        )
        largest = pc.max(index["length"]).as_py() or 0
        if largest > limit + HEADER_BYTES + FOOTER_BYTES:
            raise DatasetDamagedError(
                f"{dataset / shard.file}: a record has {largest} bytes, but max_record_bytes allows"
                f" {limit}"
            )
        if not inflate:
            continue
        with (dataset / shard.file).open_input() as file:
            try:
                for _ in read_frames(
                    file, compression="gzip", max_inflated=limit, limited_by="max_record_bytes"
                ):
                    pass
            except FrameError as error:
                raise DatasetDamagedError(f"{dataset / shard.file}: {error}") from error
