"""Removal of duplicates: of equal rows, the one with the smallest key stays.

Rows are grouped into buckets by the hash that is equal for duplicates; only this hash (16 bytes),
the key and the place of a row pass through the shuffle. The handle of each part takes the same way,
in a bucket of its own, because a second consumer of the parts would cost memory on Flink.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import read_part, rewrite_part
from recordmill.transforms.staged.row_reader import SAME
from recordmill.transforms.staged.spill import Piece

OPTION = "dedup"  # the option that filters duplicates

_PART = "part"  # the column of the bucket of parts, which comes after all buckets of rows

# A message to a part: (True, the part as JSON), or (False, rows to drop as int64 bytes).
BucketMessage = tuple[bool, bytes]


def duplicate_candidates(part: StagedPart, *, staging: Staging) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket, piece) for the rows of a part, and for the part itself.

    The rows of a piece have the columns same, key, name (of the part) and row (its index there).
    """
    yield limits.PARTITIONS, spill.inline(pa.RecordBatch.from_pydict({_PART: [to_json(part)]}))
    rows = read_part(part.name, staging=staging, columns=(batch.KEY, SAME))
    found = pa.RecordBatch.from_pydict(
        {
            "same": rows[SAME],
            "key": rows[batch.KEY],
            "name": pa.repeat(part.name, len(rows)),
            "row": pa.array(np.arange(len(rows))),
        }
    )
    yield from spill.into_buckets(found, "same", staging)


def find_duplicates(
    bucket: tuple[int, Iterable[Piece]], *, staging: Staging
) -> Iterator[tuple[str, BucketMessage]]:
    """Yield (name of a part, message): the rows to drop from it, or the part itself."""
    number, pieces = bucket
    found = batch.concat([spill.load(piece, staging=staging) for piece in pieces])
    if number == limits.PARTITIONS:
        for part in found[_PART].to_pylist():
            yield json.loads(part)["name"], (True, part)
        return
    ordered = found.sort_by([("same", "ascending"), ("key", "ascending")])
    same = ordered["same"]
    dropped = ordered.slice(1).filter(pc.equal(same.slice(1), same.slice(0, len(same) - 1)))
    codes, names = batch.encode(dropped["name"])
    rows = np.asarray(dropped["row"])
    for code, name in enumerate(names.to_pylist()):
        yield name, (False, rows[codes == code].tobytes())


def keep_distinct(
    part_messages: tuple[str, Iterable[BucketMessage]], *, staging: Staging
) -> StagedPart:
    """Write a part without its duplicates; a part without any is returned unchanged."""
    messages = list(part_messages[1])
    part = StagedPart(**json.loads(next(data for is_part, data in messages if is_part)))
    dropped = [np.frombuffer(data, np.int64) for is_part, data in messages if not is_part]
    if not dropped:
        return part
    rows = read_part(part.name, staging=staging)
    distinct = np.ones(len(rows), np.bool_)
    distinct[np.concatenate(dropped)] = False
    kept = rows.filter(pa.array(distinct))
    filtered = {OPTION: len(rows) - len(kept)}
    return rewrite_part(part, kept, staging, "distinct", filtered=filtered)


@dataclasses.dataclass(eq=False)
class DropDuplicates(beam.PTransform):
    """Drop duplicates: parts of rows in, the same parts without duplicates out."""

    staging: Staging

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        return (
            parts
            | "Candidates"
            >> beam.FlatMap(duplicate_candidates, staging=self.staging).with_output_types(
                tuple[int, Piece]
            )
            | "GroupByBucket" >> beam.GroupByKey()
            | "FindDuplicates"
            >> beam.FlatMap(find_duplicates, staging=self.staging).with_output_types(
                tuple[str, BucketMessage]
            )
            | "GroupByPart" >> beam.GroupByKey()
            | "KeepDistinct"
            >> beam.Map(keep_distinct, staging=self.staging).with_output_types(StagedPart)
        )
