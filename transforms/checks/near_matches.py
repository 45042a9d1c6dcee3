"""Names of near duplicates: each pair of similar records, by their keys, in near_duplicates.jsonl.

Matches name records by the 8-byte hashes of their keys. They are joined with the keys twice: with
that of the first record, then with that of the second. The lines are written into staging, in a
file per bucket, and beside them the numbers of groups and of their records.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.format.typed_json import Count
from recordmill.job.staging import Staging, to_json
from recordmill.transforms.model import batch, limits
from recordmill.transforms.near_duplicates.bands import DISTANCE
from recordmill.transforms.near_duplicates.graph import GROUP, ID, A, B, bucket_of
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

FOLDER = "similar"

# (kind, name of a part or "", piece) in the bucket of an id; kinds are those below, among others.
Member = tuple[str, str, Piece]
ROWS, MATCH = "rows", "match"  # rows of a part with their ids and keys, and matches

_SUMMARY = f"{FOLDER}/groups.json"
_FIRST, _COUNT, _MATCHED = "first", "count", "matched"


class GroupCounts(NamedTuple):
    """Numbers of groups of near duplicates, of records in them, and in the largest of them."""

    groups: Count
    records: Count
    largest: Count


def name_first(
    matches: pa.RecordBatch, keyed: list[pa.RecordBatch], *, staging: Staging
) -> Iterator[tuple[int, Member]]:
    """Yield (bucket of b, matches with the key of a). keyed: rows of id and key."""
    first = _keys_of(np.asarray(matches[A]), keyed)
    named = matches.drop_columns([A]).append_column(_FIRST, first)
    for number, piece in spill.into_pieces(named, bucket_of(np.asarray(named[B])), staging):
        yield number, (MATCH, "", piece)


def write_lines(bucket: tuple[int, Iterable[Member]], *, staging: Staging) -> int:
    """Write the lines of a bucket, sorted, and return their number."""
    members = sorted(bucket[1])
    found = spill.load_all((p for kind, _, p in members if kind == MATCH), staging=staging)
    if not found:
        return 0
    matches = batch.concat(found)
    keyed = spill.load_all((p for kind, _, p in members if kind == ROWS), staging=staging)
    second = _keys_of(np.asarray(matches[B]), keyed).to_pylist()
    [measure] = [name for name in matches.schema.names if name not in (B, _FIRST)]
    better = min if measure == DISTANCE else max
    best: dict[tuple[str, str], float] = {}
    for one, other, value in zip(
        matches[_FIRST].to_pylist(), second, matches[measure].to_pylist(), strict=True
    ):
        best[one, other] = better(value, best.get((one, other), value))
    lines = sorted(
        to_json({"keys": sorted(keys), measure: round(value, 4)}) + b"\n"
        for keys, value in best.items()
    )
    place = staging.place(f"{FOLDER}/{bucket[0]:05d}.jsonl")
    place.parent.make_dirs()
    place.write_bytes(b"".join(lines))
    return len(lines)


def read_lines(staging: Staging) -> bytes:
    """Return the lines of all buckets, sorted; b"" if there are no near duplicates."""
    folder = staging.place(FOLDER)
    names = {entry.name for entry in folder.list_if_exists()}
    lines: list[bytes] = []
    for bucket in range(limits.PARTITIONS):
        name = f"{bucket:05d}.jsonl"
        if name in names:
            lines += (folder / name).read_bytes().splitlines(keepends=True)
    return b"".join(sorted(lines))


def sizes_of(
    ids: batch.UInt64Array,
    names: batch.UInt64Array,
    counts: npt.NDArray[np.int64],
    matches: list[pa.RecordBatch],
    *,
    staging: Staging,
) -> list[tuple[int, Piece]]:
    """Return [(bucket of a group, rows of group, count and matched)] for the ids of a bucket.

    ids, names: uint64[n], vertices of the bucket, ascending, and their groups. counts: number of
    rows of each. matched: 1 if a match begins here; given groups without one do not count.
    """
    groups, at = np.unique(names, return_inverse=True)
    matched = np.zeros(len(groups), np.int64)
    for some in matches:
        matched[at[np.searchsorted(ids, np.asarray(some[A]))]] = 1
    sums = np.bincount(at, counts, len(groups)).astype(np.int64)
    rows = pa.RecordBatch.from_pydict({GROUP: groups, _COUNT: sums, _MATCHED: matched})
    return spill.into_pieces(rows, bucket_of(groups), staging)


def count_groups(bucket: tuple[int, Iterable[Piece]], *, staging: Staging) -> GroupCounts:
    """Return the numbers of the groups of a bucket, given their rows of `sizes_of`."""
    rows = batch.concat(spill.load_all(bucket[1], staging=staging))
    groups, at = np.unique(np.asarray(rows[GROUP]), return_inverse=True)
    sums = np.bincount(at, np.asarray(rows[_COUNT]), len(groups)).astype(np.int64)
    sums = sums[np.bincount(at, np.asarray(rows[_MATCHED]), len(groups)) > 0]
    return GroupCounts(len(sums), int(sums.sum()), int(sums.max(initial=0)))


def sum_counts(counts: Iterable[GroupCounts]) -> GroupCounts:
    """Return the numbers of all groups, given those of some."""
    found = [GroupCounts(0, 0, 0), *counts]
    groups, records, largest = zip(*found, strict=True)
    return GroupCounts(sum(groups), sum(records), max(largest))


def write_summary(counts: GroupCounts, *, staging: Staging) -> int:
    """Write the numbers of all groups for the plan, and return the number of groups."""
    place = staging.place(_SUMMARY)
    place.parent.make_dirs()
    place.write_bytes(to_json(GroupCounts(*counts)._asdict()))
    return counts[0]


def read_summary(staging: Staging) -> GroupCounts | None:
    """Return the numbers of all groups; None if near duplicates were not looked for."""
    found: GroupCounts | None = staging.read_json(_SUMMARY, GroupCounts)
    return found


def _keys_of(ids: batch.UInt64Array, keyed: list[pa.RecordBatch]) -> pa.Array:
    """Return the keys of ids, all of which are in `keyed`: string[n]."""
    known = batch.concat([rows.select([ID, batch.KEY]) for rows in keyed])
    order = np.argsort(np.asarray(known[ID]))
    places = order[np.searchsorted(np.asarray(known[ID])[order], ids)]
    return known[batch.KEY].take(pa.array(places))
