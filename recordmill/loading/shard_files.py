"""The shards of a split: checks before they are read, and the places of their blocks."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np
import pyarrow.compute as pc

from recordmill.checking.shard_check import compare_file
from recordmill.errors import ConfigError
from recordmill.format.file_info import FileInfo, stream_info
from recordmill.format.file_names import index_name
from recordmill.format.manifest import Manifest, Shard
from recordmill.format.shard_index import read_index
from recordmill.format.split_names import in_order
from recordmill.reading.epoch_order import Numbers, OrderLayout
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
class Pieces:
    """The pieces of blocks: a block that begins in one shard and ends in another has several.

    files, offsets, counts: int64[pieces], the shard, the byte at which a piece begins, and its
      records.
    splits: int64[blocks + 1], the first piece of each block.
    """

    files: Numbers
    offsets: Numbers
    counts: Numbers
    splits: Numbers


def shards_of(manifest: Manifest, split: str) -> tuple[Shard, ...]:
    """Return the shards of a split.

    Raises:
      ConfigError: the split does not exist.
    """
    if split not in manifest.splits:
        known = ", ".join(in_order(manifest.splits))
        raise ConfigError(f"expected one of the splits {known}, got {split!r}")
    return manifest.splits[split].shards


def block_pieces(
    dataset: Location, split: str, shards: Sequence[Shard], layout: OrderLayout
) -> Pieces:
    """Return the pieces of all blocks that a windowed order may have.

    These are the full blocks before the short one, the full blocks after it, and the short block at
    each of its possible places.

    Raises:
      IndexDamagedError: an index is damaged.
    """
    first = np.arange(layout.blocks + 1) * layout.block
    several = [
        _cut(first[:-1], layout.block, layout.starts),
        _cut(first[:-1] + layout.short, layout.block, layout.starts),
        _cut(first, layout.short, layout.starts),
    ]
    numbers = np.concatenate([one.offsets for one in several])
    files = np.concatenate([one.files for one in several])
    offsets = np.zeros(len(numbers), np.int64)
    for file in range(len(shards)):
        chosen = files == file
        if not chosen.any():
            continue
        rows = numbers[chosen] - layout.starts[file]
        offsets[chosen] = record_offsets(dataset, split, shards, file)[rows]
    ends = np.cumsum([0, *(one.splits[-1] for one in several)])
    splits = [one.splits[:-1] + end for one, end in zip(several, ends[:-1], strict=True)]
    counts = np.concatenate([one.counts for one in several])
    return Pieces(
        files=files,
        offsets=offsets,
        counts=counts,
        splits=np.append(np.concatenate(splits), ends[-1]),
    )


def _cut(first: Numbers, size: int, starts: Numbers) -> Pieces:
    """Cut blocks where shards begin; `offsets` are numbers of records.

    first: int64[blocks], ascending, the first records of blocks of `size` records.
    starts: int64[shards + 1], the first records of shards.
    """
    if not size or not len(first):
        empty = np.zeros(0, np.int64)
        return Pieces(
            files=empty, offsets=empty, counts=empty, splits=np.zeros(len(first) + 1, np.int64)
        )
    around = np.searchsorted(first, starts, side="right") - 1
    inside = (around >= 0) & (starts > first[around]) & (starts < first[around] + size)
    begins = np.sort(np.concatenate([first, np.unique(starts[inside])]))
    blocks = np.searchsorted(first, begins, side="right") - 1
    files = np.searchsorted(starts[1:], begins, side="right")
    ends = np.minimum(first[blocks] + size, starts[files + 1])
    return Pieces(
        files=files,
        offsets=begins,
        counts=ends - begins,
        splits=np.searchsorted(blocks, np.arange(len(first) + 1)),
    )


def record_offsets(dataset: Location, split: str, shards: Sequence[Shard], file: int) -> Numbers:
    """Return the bytes at which the records of an uncompressed shard begin: int64[records].

    Raises:
      IndexDamagedError: the index is damaged.
    """
    shard = shards[file]
    index = read_index(
        dataset / index_name(split, file, len(shards)),
        columns=["offset", "length"],
        records=shard.records,
        frames=shard.bytes,
    )
    return np.asarray(index["offset"], np.int64)


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
