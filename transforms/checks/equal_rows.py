"""Numbering of equal rows: rows with the same key by content become KEY, KEY#2, KEY#3, ...

Rows are grouped by the 8-byte hash of their key, 20 bytes each; only parts that hold an equal row
are written again. Equal rows are ordered by label, group and split, then by part and row, so that
the numbers do not depend on workers or the runner. Rows with the same label, group and split are
interchangeable. The split stays that of KEY, because `__unit__` does not change.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import StagedPart, Staging
from recordmill.transforms.checks.partitions import (
    Candidates,
    by_partition,
    join_candidates,
    part_itself,
    with_equal,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged.listing import rewrite_part
from recordmill.transforms.staged.parts import read_part

# A message to a part: (True, the part as JSON), or (False, bytes of `_NUMBERED`).
PartMessage = tuple[bool, bytes]

_CANDIDATE = np.dtype([("hash", "<u8"), ("tie", "<u8"), ("row", "<u4")])
_NUMBERED = np.dtype([("row", "<u4"), ("number", "<u4")])
_LOWEST = np.uint64(0xFFFF)
_COLUMNS = (batch.HASH, batch.LABEL, batch.GROUP, batch.SPLIT)


def equal_row_candidates(
    part: StagedPart,
    *,
    staging: Staging,
    by_group: bool = True,
    only_by_content: bool = False,
    partitions: int = limits.PARTITIONS,
) -> Iterator[tuple[int, Candidates]]:
    """Yield (partition, candidates) for the rows of a part, and for the part itself.

    by_group: whether groups order equal rows. Groups that --dedup group makes must not, because
      keys do not depend on that option. only_by_content: whether parts may have other keys, which
      stay as they are.
    """
    yield part_itself(part)
    columns = (*_COLUMNS, batch.UNIT) if only_by_content else _COLUMNS
    rows = read_part(part.name, staging=staging, columns=columns)
    if only_by_content and batch.UNIT not in rows.schema.names:
        return
    if not by_group:
        rows = batch.set_column(rows, batch.GROUP, pa.nulls(len(rows), pa.string()))
    found = np.empty(len(rows), _CANDIDATE)
    found["hash"] = batch.hashes(rows)
    found["tie"] = _ties(rows)
    found["row"] = np.arange(len(rows))
    yield from by_partition(found, partitions, name=part.name, staging=staging)


def _ties(rows: pa.RecordBatch) -> batch.UInt64Array:
    """Return a hash of the label, group and split of each row, by which equal rows are ordered.

    Batches in memory have assigned splits already. These decide last, in the lowest bits: the order
    is that of rows that have no splits yet.
    """
    ties = np.zeros(len(rows), np.uint64)
    for name in (batch.LABEL, batch.GROUP, batch.SPLIT):
        if rows[name].null_count == len(rows):
            ties = batch.mix(ties, batch.salt(7, name))
            continue
        codes, values = batch.encode(rows[name])
        hashes = np.append(batch.hash_strings(values), np.uint64(0))
        if name == batch.SPLIT and pa.types.is_dictionary(rows[name].type):
            ties = batch.mix(ties, batch.salt(7, name)) & ~_LOWEST | hashes[codes] & _LOWEST
        else:
            ties = batch.mix(ties ^ hashes[codes], batch.salt(7, name))
    return ties


def number_equal_rows(
    partition: tuple[int, Iterable[Candidates]], *, staging: Staging
) -> Iterator[tuple[str, PartMessage]]:
    """Yield (name of a part, message): the numbers of its rows from 2 on, or the part itself."""
    joined = join_candidates(partition, _CANDIDATE, staging=staging)
    if isinstance(joined, list):
        yield from ((name, (True, part)) for name, part in joined)
        return
    names, found, parts = joined
    equal = with_equal(found["hash"])
    if not len(equal):
        return
    some = found[equal]
    order = equal[np.lexsort((some["row"], parts[equal], some["tie"], some["hash"]))]
    hashes = found["hash"][order]
    begins = np.append(True, hashes[1:] != hashes[:-1])
    places = np.arange(len(order))
    numbers = places - np.maximum.accumulate(np.where(begins, places, 0)) + 1
    repeated = order[~begins]
    out = np.empty(len(repeated), _NUMBERED)
    out["row"], out["number"] = found["row"][repeated], numbers[~begins]
    for code in np.unique(parts[repeated]).tolist():
        yield names[code], (False, out[parts[repeated] == code].tobytes())


def write_numbered(
    part_messages: tuple[str, Iterable[PartMessage]], *, staging: Staging
) -> StagedPart:
    """Write a part with the numbers of its equal rows; a part without any is returned unchanged."""
    messages = list(part_messages[1])
    part = StagedPart(**json.loads(next(data for is_part, data in messages if is_part)))
    found = [np.frombuffer(data, _NUMBERED) for is_part, data in messages if not is_part]
    if not found:
        return part
    numbers = np.concatenate(found)
    numbers.sort(order="row")
    rows = read_part(part.name, staging=staging, keys=False)
    equal = batch.keys(rows.take(pa.array(numbers["row"])))
    keys = pc.binary_join_element_wise(equal, pa.array(numbers["number"]).cast(pa.string()), "#")
    is_numbered = np.zeros(len(rows), np.bool_)
    is_numbered[numbers["row"]] = True
    hashes = batch.hashes(rows).copy()
    hashes[numbers["row"]] = batch.hash_strings(keys)
    if batch.UNIT not in rows.schema.names:
        rows = rows.append_column(batch.UNIT, rows[batch.HASH])
    keys = pc.replace_with_mask(rows[batch.KEY], pa.array(is_numbered), keys)
    rows = batch.set_column(rows, batch.KEY, keys)
    rows = batch.set_column(rows, batch.HASH, pa.array(hashes))
    return rewrite_part(part, rows, staging, "numbered")


@dataclasses.dataclass(eq=False)
class NumberEqualRows(beam.PTransform):
    """Give equal rows distinct keys: parts of rows in, the same parts with unique keys out.

    by_group, only_by_content: as in `equal_row_candidates`. partitions: number of groups of hashes.
    """

    staging: Staging
    by_group: bool = True
    only_by_content: bool = False
    partitions: int = limits.PARTITIONS

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        return (
            parts
            | "HashRows"
            >> beam.FlatMap(
                equal_row_candidates,
                staging=self.staging,
                by_group=self.by_group,
                only_by_content=self.only_by_content,
                partitions=self.partitions,
            ).with_output_types(tuple[int, Candidates])
            | "GroupByHash" >> beam.GroupByKey()
            | "Number"
            >> beam.FlatMap(number_equal_rows, staging=self.staging).with_output_types(
                tuple[str, PartMessage]
            )
            | "GroupByPart" >> beam.GroupByKey()
            | "WriteNumbered"
            >> beam.Map(write_numbered, staging=self.staging).with_output_types(StagedPart)
        )
