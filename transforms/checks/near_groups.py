"""Groups of near duplicates: each row gets the name of the group of records that resemble it.

The hashes of all rows go through `FindNearDuplicates`; its groups meet the rows by the 8-byte hash
of their key. Parts are written again with the groups.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.transforms.checks.near_matches import WriteMatches
from recordmill.transforms.model import batch, limits
from recordmill.transforms.near_duplicates.bands import Bands
from recordmill.transforms.near_duplicates.find_near_duplicates import (
    GROUPS,
    MATCHES,
    FindNearDuplicates,
    hash_piece,
)
from recordmill.transforms.near_duplicates.graph import ID, bucket_of
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import read_part, rewrite_part
from recordmill.transforms.staged.row_reader import SAME
from recordmill.transforms.staged.spill import Piece

_GROUP, _ROW = "group", "row"

# (name of a part, rows of id and row), ("", rows of id and group), or the part as JSON in a piece
_Member = tuple[str, Piece]
# A message to a part: (True, the part as JSON), or (False, rows of row and group as Arrow IPC).
_Message = tuple[bool, bytes]


def near_hashes(part: StagedPart, *, bands: Bands, staging: Staging) -> Iterator[Piece]:
    """Yield the hashes of the rows of a part."""
    rows = read_part(part.name, staging=staging, columns=(batch.KEY, batch.HASH, batch.NEAR))
    if len(rows):
        yield hash_piece(batch.hashes(rows), rows[batch.NEAR], bands=bands)


def members(part: StagedPart, *, staging: Staging) -> Iterator[tuple[int, _Member]]:
    """Yield (bucket, member) for the rows of a part, and for the part itself."""
    yield limits.PARTITIONS, (part.name, (to_json(part), "", 0, 0))
    rows = read_part(part.name, staging=staging, columns=(batch.KEY, batch.HASH))
    if not len(rows):
        return
    ids = batch.hashes(rows)
    found = pa.RecordBatch.from_pydict({ID: ids, _ROW: np.arange(len(rows))})
    for bucket, piece in spill.into_pieces(found, bucket_of(ids), staging):
        yield bucket, (part.name, piece)


def _of_no_part(group: tuple[int, Piece]) -> tuple[int, _Member]:
    return group[0], ("", group[1])


def join_groups(
    bucket: tuple[int, Iterable[_Member]], *, staging: Staging
) -> Iterator[tuple[str, _Message]]:
    """Yield (name of a part, message): the groups of its rows, or the part itself."""
    number, found = bucket
    if number == limits.PARTITIONS:
        for name, piece in found:
            yield name, (True, piece[0])
        return
    pieces = sorted(found)
    groups = [spill.load(piece, staging=staging) for name, piece in pieces if not name]
    if not groups:
        return
    ids = np.concatenate([np.asarray(rows[ID]) for rows in groups])
    names = np.concatenate([np.asarray(rows[_GROUP]) for rows in groups])
    order = np.argsort(ids)
    ids, names = ids[order], names[order]
    for name, piece in pieces:
        if not name:
            continue
        rows = spill.load(piece, staging=staging)
        at = np.minimum(np.searchsorted(ids, np.asarray(rows[ID])), len(ids) - 1)
        there = np.flatnonzero(ids[at] == np.asarray(rows[ID]))
        if len(there):
            columns = {_ROW: np.asarray(rows[_ROW])[there], _GROUP: names[at[there]]}
            yield name, (False, batch.to_bytes(pa.RecordBatch.from_pydict(columns)))


def write_groups(
    part_messages: tuple[str, Iterable[_Message]],
    *,
    mode: Literal["drop", "group"],
    staging: Staging,
) -> StagedPart:
    """Write a part with the names of its groups."""
    messages = list(part_messages[1])
    part = StagedPart(**json.loads(next(data for is_part, data in messages if is_part)))
    found = [batch.from_bytes(data) for is_part, data in messages if not is_part]
    if not found and mode == "group":
        return part
    rows = read_part(part.name, staging=staging)
    groups = batch.hashes(rows).copy()
    grouped = np.zeros(len(rows), np.bool_)
    for some in found:
        groups[np.asarray(some[_ROW])] = np.asarray(some[_GROUP])
        grouped[np.asarray(some[_ROW])] = True
    names = batch.hex_of(groups)
    if mode == "group":
        in_groups = np.where(grouped, names.to_numpy(zero_copy_only=False), None)
        rows = batch.set_column(rows, batch.GROUP, pa.array(in_groups, pa.string()))
    else:
        rows = batch.set_column(rows, SAME, names)
    return rewrite_part(part, rows, staging, "near")


@dataclasses.dataclass(eq=False)
class GroupNearDuplicates(beam.PTransform):
    """Name the groups of near duplicates: parts of rows with hashes in, the same with groups out.

    mode: `group` names them in `__group__`, so that splits keep them together; `drop` in
      `__same__`, so that `DropDuplicates` keeps one of each.
    The matches are written into staging, as lines of near_duplicates.jsonl.
    """

    staging: Staging
    bands: Bands
    mode: Literal["drop", "group"]

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        staging = self.staging
        hashes = parts | "Hashes" >> beam.FlatMap(
            near_hashes, bands=self.bands, staging=staging
        ).with_output_types(Piece)
        near = hashes | FindNearDuplicates(staging, self.bands)
        rows = parts | "Members" >> beam.FlatMap(members, staging=staging).with_output_types(
            tuple[int, _Member]
        )
        groups = near[GROUPS] | "OfNoPart" >> beam.Map(_of_no_part).with_output_types(
            tuple[int, _Member]
        )
        (parts, near[MATCHES]) | WriteMatches(staging)
        return (
            (rows, groups)
            | "Flatten" >> beam.Flatten()
            | "GroupByBucket" >> beam.GroupByKey()
            | "JoinGroups"
            >> beam.FlatMap(join_groups, staging=staging).with_output_types(tuple[str, _Message])
            | "GroupByPart" >> beam.GroupByKey()
            | "WriteGroups"
            >> beam.Map(write_groups, mode=self.mode, staging=staging).with_output_types(StagedPart)
        )
