"""Division of hashed rows into partitions, in which equal hashes meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.tfrecord.flat_arrays import Ints, hash_order, offsets_of, stable_order
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

# Rows of a part, by the name of the part; or the part itself as JSON.
Candidates = tuple[str, Piece]


def partitions_of(parts: int) -> int:
    """Return the number of partitions for rows in some parts; small inputs send few messages."""
    return min(max(parts, 1), limits.PARTITIONS)


def part_itself(part: StagedPart) -> tuple[int, Candidates]:
    """Return the message that `join_candidates` takes for a part."""
    return limits.PARTITIONS, (part.name, (to_json(part), "", 0, 0))


def by_partition(
    found: npt.NDArray[Any], count: int, *, name: str, staging: Staging
) -> Iterator[tuple[int, Candidates]]:
    """Yield (partition, rows) of a structured array with the field `hash`.

    name: of the part of the rows.
    """
    partitions = batch.scale(found["hash"], count)
    data = found.take(stable_order(partitions)).tobytes()  # `[]` takes twice as long
    edges = offsets_of(np.bincount(partitions, minlength=count)) * found.dtype.itemsize
    for partition, piece in spill.put_bytes(data, edges.tolist(), staging):
        yield partition, (name, piece)


class Partition(NamedTuple):
    """The rows of a partition.

    names: of their parts. rows: their structured array. parts: int64[n], the index of the part of
    each.
    """

    names: list[str]
    rows: npt.NDArray[Any]
    parts: npt.NDArray[np.int64]


def join_candidates(
    partition: tuple[int, Iterable[Candidates]], dtype: np.dtype[Any], *, staging: Staging
) -> Partition | list[tuple[str, bytes]]:
    """Return the rows of a partition; of the one that holds the parts, (name, JSON) of each."""
    number, candidates = partition
    in_order = sorted(candidates)
    names = [name for name, _ in in_order]
    pieces = spill.get_all_bytes((piece for _, piece in in_order), staging)
    if number == limits.PARTITIONS:
        return [*zip(names, pieces, strict=True)]
    sizes = [len(data) // dtype.itemsize for data in pieces]
    rows = np.frombuffer(b"".join(pieces), dtype)
    return Partition(names, rows, np.repeat(np.arange(len(pieces)), sizes))


def with_equal(hashes: batch.UInt64Array) -> Ints:
    """Return the indices of the hashes that occur more than once, int64[m]."""
    order = hash_order(hashes)
    ordered = hashes[order]
    same = ordered[1:] == ordered[:-1]
    if not same.any():
        return np.zeros(0, np.int64)
    is_equal = np.append(False, same)
    is_equal[:-1] |= same
    equal: Ints = order[is_equal]
    return equal
