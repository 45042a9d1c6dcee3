"""The indexes of a split, in the order of its shards."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from recordmill.format.manifest import SplitInfo, index_name
from recordmill.format.shard_index import IndexDamagedError, read_index
from recordmill.storage.files import Location


def split_indexes(
    dataset: Location,
    split: str,
    info: SplitInfo,
    *,
    columns: Sequence[str],
    holding: Collection[int] | None = None,
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the number of the first record of each shard in the split, and columns of its index.

    holding: numbers of records; only shards with some of them are read.

    Raises:
      IndexDamagedError: an index is invalid, or has another number of rows than its shard.
      StorageError: an index cannot be read.
    """
    first = 0
    for number, shard in enumerate(info.shards):
        stop = first + shard.records
        if holding is not None and not any(first <= record < stop for record in holding):
            first = stop
            continue
        file = index_name(split, number, len(info.shards))
        try:
            index = read_index(dataset / file, columns=columns, records=shard.records)
        except IndexDamagedError as error:
            raise IndexDamagedError(f"{file}: {error}") from error
        yield first, index
        first = stop
