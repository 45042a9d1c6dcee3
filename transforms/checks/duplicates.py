"""Of the rows that are the same one stays, that of the smallest key.

Rows that may be the same meet in buckets; what travels of them is a name of 16 bytes and the key.
Beside them travels each part, by itself, to meet there what is to go of it: on Flink a second
reader of the parts would cost memory.
"""

import dataclasses
import json
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.transforms.model import batch
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import outcome, read_part, write_kept
from recordmill.transforms.staged.row_reader import SAME
from recordmill.transforms.staged.spill import Piece

OPTION = "dedup"  # that filters them

_PART = "part"  # the column of the bucket after all others

# Of a part: (True, it as JSON), or (False, rows that are to go as int64 bytes).
BucketMessage = tuple[bool, bytes]


def candidates(part: StagedPart, *, staging: Staging) -> Iterator[tuple[int, Piece]]:
    """(bucket, piece) of a part's rows: what tells which are the same, the key, and the place; and
    of the part.
    """
    yield spill.BUCKETS, spill.inline(pa.RecordBatch.from_pydict({_PART: [to_json(part)]}))
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


def surplus(
    met: tuple[int, Iterable[Piece]], *, staging: Staging
) -> Iterator[tuple[str, BucketMessage]]:
    """(name of a part, what is told of it)."""
    found = batch.concat([spill.load(piece, staging=staging) for piece in met[1]])
    if met[0] == spill.BUCKETS:
        for part in found[_PART].to_pylist():
            yield json.loads(part)["name"], (True, part)
        return
    ordered = found.sort_by([("same", "ascending"), ("key", "ascending")])
    same = ordered["same"]
    goes = ordered.slice(1).filter(pc.equal(same.slice(1), same.slice(0, len(same) - 1)))
    codes, names = batch.encode(goes["name"])
    rows = np.asarray(goes["row"])
    for code, name in enumerate(names.to_pylist()):
        yield name, (False, rows[codes == code].tobytes())


def keep_distinct(met: tuple[str, Iterable[BucketMessage]], *, staging: Staging) -> StagedPart:
    """Writes the rows of a part that stay, with the outcome so far; or gives it as it is."""
    told = list(met[1])
    part = StagedPart(**json.loads(next(data for is_part, data in told if is_part)))
    goes = [np.frombuffer(data, np.int64) for is_part, data in told if not is_part]
    if not goes:
        return part
    rows = read_part(part.name, staging=staging)
    stays = np.ones(len(rows), np.bool_)
    stays[np.concatenate(goes)] = False
    staging.place("distinct").make_dirs()
    rejects, filtered = outcome(part, staging=staging)
    count = int((~stays).sum())
    return write_kept(
        rows.filter(pa.array(stays)),
        staging,
        f"distinct/{part.name.rpartition('/')[2]}",
        rejects=rejects,
        filtered={**filtered, OPTION: count},
        unread=part.unread,
        spoilt=part.spoilt,
        skipped=part.skipped,
        extra=part.extra,
    )


@dataclasses.dataclass(eq=False)
class DropDuplicates(beam.PTransform):
    """Parts of rows in, parts in which none is the same as another out."""

    staging: Staging

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        return (
            parts
            | "Candidates"
            >> beam.FlatMap(candidates, staging=self.staging).with_output_types(tuple[int, Piece])
            | "MeetBySame" >> beam.GroupByKey()
            | "Surplus"
            >> beam.FlatMap(surplus, staging=self.staging).with_output_types(
                tuple[str, BucketMessage]
            )
            | "MeetByPart" >> beam.GroupByKey()
            | "KeepDistinct"
            >> beam.Map(keep_distinct, staging=self.staging).with_output_types(StagedPart)
        )
