"""Groups of near duplicates: each row gets the name of the group of records that resemble it.

A part is read once, for the hashes, keys and given groups of its rows. Groups are the connected
components of a graph. Its edges are matches by hash, and edges from rows to their given groups; its
vertices are 8-byte hashes of keys. Groups and matches are joined with rows in buckets of vertices:
a match gets one key in the bucket of its first record, and the other key in that of the second.
Then parts are written again, with the groups.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator
from typing import Any, Literal

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.pvalue import AsIter, TaggedOutput

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.transforms.checks.near_matches import (
    MATCH,
    ROWS,
    GroupCounts,
    Member,
    count_groups,
    name_first,
    sizes_of,
    sum_counts,
    write_lines,
    write_summary,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.near_duplicates.bands import Bands
from recordmill.transforms.near_duplicates.components import ConnectedComponents
from recordmill.transforms.near_duplicates.find_matches import FindMatches, hash_piece
from recordmill.transforms.near_duplicates.graph import GROUP, ID, bucket_of, edge_rows
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import rewrite_part
from recordmill.transforms.staged.parts import read_part
from recordmill.transforms.staged.row_reader import SAME
from recordmill.transforms.staged.spill import Piece

Mode = Literal["drop", "group"]

_ROW = "row"
_GROUPS, _PART = "groups", "part"  # kinds of members, beside `ROWS` and `MATCH`
_HASHES, _GIVEN, _NAMED, _SIZES = "hashes", "given", "named", "sizes"  # outputs beside the main one
_SALT = batch.salt(0, "given group")

# A message to a part: (True, the part as JSON), or (False, rows of row and group as Arrow IPC).
_Message = tuple[bool, bytes]


def read_members(
    part: StagedPart, *, bands: Bands, mode: Mode, staging: Staging
) -> Iterator[Any]:  # tuple[int, Member] | TaggedOutput
    """Yield (bucket, member) for the rows of a part, and for the part itself.

    Beside them `hashes` gets the hashes of the rows, and `given`, for the mode `group`, an edge
    from each row to its given group.
    """
    yield limits.PARTITIONS, (_PART, part.name, (to_json(part), "", 0, 0))
    columns = (batch.KEY, batch.HASH, batch.NEAR, batch.GROUP, batch.CONTENT)
    rows = read_part(part.name, staging=staging, columns=columns)
    if not len(rows):
        return
    ids = batch.hashes(rows)
    contents = rows[batch.CONTENT] if batch.CONTENT in rows.schema.names else None
    yield TaggedOutput(_HASHES, hash_piece(ids, rows[batch.NEAR], contents, bands=bands))
    given = np.asarray(rows[batch.GROUP].is_valid())
    if mode == "group" and given.any():
        groups = batch.mix(batch.hash_strings(rows[batch.GROUP].drop_null()), _SALT)
        yield TaggedOutput(_GIVEN, spill.inline(edge_rows(ids[given], groups)))
    found = pa.RecordBatch.from_pydict(
        {ID: ids, _ROW: np.arange(len(rows)), batch.KEY: rows[batch.KEY]}
    )
    for bucket, piece in spill.into_pieces(found, bucket_of(ids), staging):
        yield bucket, (ROWS, part.name, piece)


def _as_member(found: tuple[int, Piece], *, kind: str) -> tuple[int, Member]:
    return found[0], (kind, "", found[1])


def join_groups(
    bucket: tuple[int, Iterable[Member]], *, staging: Staging
) -> Iterator[Any]:  # tuple[str, _Message] | TaggedOutput
    """Yield (name of a part, message): the groups of its rows, or the part itself.

    Beside them `named` gets the matches with the key of their first record, and `sizes` the groups
    and numbers of rows.
    """
    number, found = bucket
    members = sorted(found)
    if number == limits.PARTITIONS:
        for _, name, piece in members:
            yield name, (True, piece[0])
        return
    groups = spill.load_all((p for kind, _, p in members if kind == _GROUPS), staging=staging)
    if not groups:
        return
    ids = np.concatenate([np.asarray(rows[ID]) for rows in groups])
    names = np.concatenate([np.asarray(rows[GROUP]) for rows in groups])
    order = np.argsort(ids)
    ids, names = ids[order], names[order]
    counts = np.zeros(len(ids), np.int64)
    pieces = [(name, piece) for kind, name, piece in members if kind == ROWS]
    loaded = spill.load_all((piece for _, piece in pieces), staging=staging)
    rows_by_part = [(name, rows) for (name, _), rows in zip(pieces, loaded, strict=True)]
    for name, rows in rows_by_part:
        at = np.minimum(np.searchsorted(ids, np.asarray(rows[ID])), len(ids) - 1)
        there = np.flatnonzero(ids[at] == np.asarray(rows[ID]))
        if len(there):
            counts[at[there]] = 1  # ids are unique
            columns = {_ROW: np.asarray(rows[_ROW])[there], GROUP: names[at[there]]}
            yield name, (False, batch.to_bytes(pa.RecordBatch.from_pydict(columns)))
    matches = spill.load_all((p for kind, _, p in members if kind == MATCH), staging=staging)
    for sized in sizes_of(ids, names, counts, matches, staging=staging):
        yield TaggedOutput(_SIZES, sized)
    if matches:
        keyed = [rows for _, rows in rows_by_part]
        for named in name_first(batch.concat(matches), keyed, staging=staging):
            yield TaggedOutput(_NAMED, named)


def write_groups(
    part_messages: tuple[str, Iterable[_Message]],
    *written: object,
    mode: Mode,
    staging: Staging,
) -> StagedPart:
    """Write a part with the names of its groups. written: side inputs that must be complete."""
    del written
    messages = list(part_messages[1])
    part = StagedPart(**json.loads(next(data for is_part, data in messages if is_part)))
    found = [batch.from_bytes(data) for is_part, data in messages if not is_part]
    if not found and mode == "group":
        return part
    rows = read_part(part.name, staging=staging)
    groups = batch.hashes(rows).copy()
    grouped = np.zeros(len(rows), np.bool_)
    for some in found:
        groups[np.asarray(some[_ROW])] = np.asarray(some[GROUP])
        grouped[np.asarray(some[_ROW])] = True
    names = np.where(grouped, batch.hex_of(groups).to_numpy(zero_copy_only=False), None)
    column = batch.GROUP if mode == "group" else SAME
    rows = batch.set_column(rows, column, pa.array(names, pa.string()))
    return rewrite_part(part, rows, staging, "near")


@dataclasses.dataclass(eq=False)
class GroupNearDuplicates(beam.PTransform):
    """Name the groups of near duplicates: parts of rows with hashes in, the same with groups out.

    mode: `group` names them in `__group__`, so that splits keep them together, and joins given
      groups; `drop` in `__same__`, so that `DropDuplicates` keeps one of each.
    The matches are written into staging, as lines of near_duplicates.jsonl, and a summary of the
    groups for the plan. Parts come out when both are complete.
    """

    staging: Staging
    bands: Bands
    mode: Mode

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        staging, member = self.staging, tuple[int, Member]
        read = parts | "ReadMembers" >> beam.FlatMap(
            read_members, bands=self.bands, mode=self.mode, staging=staging
        ).with_outputs(_HASHES, _GIVEN, main=ROWS)
        matches = read[_HASHES] | "FindMatches" >> FindMatches(staging, self.bands)
        edges = matches | "Edges" >> beam.Values().with_output_types(Piece)
        given = read[_GIVEN] | "Given" >> beam.Map(_piece).with_output_types(Piece)
        groups = (
            (edges, given)
            | "WithGiven" >> beam.Flatten()
            | "Components" >> ConnectedComponents(staging)
            | "Groups" >> beam.Map(_as_member, kind=_GROUPS).with_output_types(member)
        )
        matched = matches | "Matches" >> beam.Map(_as_member, kind=MATCH).with_output_types(member)
        joined = (
            (read[ROWS], groups, matched)
            | "WithRows" >> beam.Flatten()
            | "GroupByBucket" >> beam.GroupByKey()
            | "JoinGroups"
            >> beam.FlatMap(join_groups, staging=staging).with_outputs(_NAMED, _SIZES, main=_PART)
        )
        lines = (
            (read[ROWS], joined[_NAMED])
            | "WithRowsAgain" >> beam.Flatten()
            | "GroupBySecond" >> beam.GroupByKey()
            | "WriteLines" >> beam.Map(write_lines, staging=staging).with_output_types(int)
        )
        summary = (
            joined[_SIZES]
            | "GroupByGroup" >> beam.GroupByKey()
            | "CountGroups"
            >> beam.Map(count_groups, staging=staging).with_output_types(GroupCounts)
            | "SumCounts" >> beam.CombineGlobally(sum_counts).without_defaults()
            | "WriteSummary" >> beam.Map(write_summary, staging=staging).with_output_types(int)
        )
        return (
            joined[_PART]
            | "GroupByPart" >> beam.GroupByKey()
            | "WriteGroups"
            >> beam.Map(
                write_groups, AsIter(lines), AsIter(summary), mode=self.mode, staging=staging
            ).with_output_types(StagedPart)
        )


def _piece(piece: Piece) -> Piece:
    return piece
