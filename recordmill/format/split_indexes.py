"""The indexes of a split, in the order of its shards."""

from __future__ import annotations

import bisect
from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from recordmill.format.file_names import index_name
from recordmill.format.manifest import Shard, SplitInfo
from recordmill.format.shard_index import read_index, read_rows
from recordmill.storage.files import Location


def split_indexes(
    dataset: Location,
    split: str,
    info: SplitInfo,
    *,
    columns: Sequence[str],
    dictionaries: Sequence[str] = (),
    checked: bool = False,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of the first record of each shard in the split, and columns of its index.

    columns, dictionaries: as for `read_index`. checked: whether to compare the hash of each index
      with the manifest.

    Raises:
      IndexDamagedError: an index is invalid, or has another number of rows than its shard.
      StorageError: an index cannot be read.
    """
    for first, place, shard in _indexes(dataset, split, info):
        yield (
            first,
            read_index(
                place,
                columns=columns,
                dictionaries=dictionaries,
                records=shard.records,
                stated=shard.index if checked else None,
            ),
        )


def split_rows(
    dataset: Location,
    split: str,
    info: SplitInfo,
    numbers: Collection[int],
    *,
    columns: Sequence[str],
    dictionaries: Sequence[str] = (),
) -> Iterator[tuple[list[int], pa.Table]]:
    """Yield, per shard, the numbers of the given records in it, and columns of their rows.

    numbers: numbers of records within the split. columns, dictionaries: as for `read_index`.

    Raises as `split_indexes`.
    """
    ordered = sorted({*numbers})
    for first, place, shard in _indexes(dataset, split, info):
        ends = (first, first + shard.records)
        start, stop = (bisect.bisect_left(ordered, one) for one in ends)
        inside = ordered[start:stop]
        if inside:
            index = read_rows(
                place,
                [number - first for number in inside],
                columns=columns,
                dictionaries=dictionaries,
                records=shard.records,
            )
            yield inside, index


def _indexes(
    dataset: Location, split: str, info: SplitInfo
) -> Iterator[tuple[int, Location, Shard]]:
    """Yield the number of the first record of each shard, its index, and the shard."""
    first = 0
    for number, shard in enumerate(info.shards):
        yield first, dataset / index_name(split, number, len(info.shards)), shard
        first += shard.records
