"""Of the rows that are the same one stays, that of the smallest key.

Rows that may be the same meet in buckets; what travels of them is a name of 16 bytes and the key.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.staging import Part, Staging
from transforms import batch, spill
from transforms.listing import outcome, read_part, write_outcome, write_part
from transforms.read import SAME
from transforms.spill import Piece

OPTION = "dedup"  # that filters them

_BUCKETS = 64
_INLINE = 1 << 20  # bytes of a part's names that pass through the shuffle themselves


def candidates(part: Part, *, staging: Staging) -> Iterator[tuple[int, Piece]]:
    """(bucket, piece) of a part's rows: what tells which are the same, the key, and the place."""
    rows = read_part(part.name, staging=staging, columns=(batch.KEY, SAME))
    if not len(rows):
        return
    found = pa.RecordBatch.from_pydict(
        {
            "same": rows[SAME],
            "key": rows[batch.KEY],
            "part": pa.repeat(part.name, len(rows)),
            "row": pa.array(np.arange(len(rows))),
        }
    )
    buckets = batch.scale(batch.hash_strings(found["same"]), _BUCKETS)
    if found.nbytes <= _INLINE:
        yield from ((bucket, spill.inline(some)) for bucket, some in spill.cut(found, buckets))
    else:
        yield from spill.spill(found, buckets, staging)


def surplus(met: tuple[int, Iterable[Piece]], *, staging: Staging) -> Iterator[tuple[str, bytes]]:
    """(name of a part, its rows that are to go as int64 bytes)."""
    found = batch.concat([spill.load(piece, staging=staging) for piece in met[1]])
    ordered = found.sort_by([("same", "ascending"), ("key", "ascending")])
    same = ordered["same"]
    again = pc.equal(same.slice(1), same.slice(0, len(same) - 1))
    goes = ordered.slice(1).filter(again)
    codes, names = batch.encode(goes["part"])
    rows = np.asarray(goes["row"])
    for code, name in enumerate(names.to_pylist()):
        yield name, rows[codes == code].tobytes()


def keep_distinct(met: tuple[str, Iterable[Part | bytes]], *, staging: Staging) -> Part:
    """Writes the rows of a part that stay, with the outcome so far; or gives it as it is."""
    told = list(met[1])
    part = next(item for item in told if isinstance(item, Part))
    goes = [np.frombuffer(item, np.int64) for item in told if isinstance(item, bytes)]
    if not goes:
        return part
    rows = read_part(part.name, staging=staging)
    stays = np.ones(len(rows), np.bool_)
    stays[np.concatenate(goes)] = False
    name = f"distinct/{part.name.rpartition('/')[2]}"
    staging.place("distinct").make_dirs()
    rejects, filtered = outcome(part, staging=staging)
    count = int((~stays).sum())
    kept = dataclasses.replace(
        write_part(rows.filter(pa.array(stays)), staging, name),
        rejected=part.rejected,
        filtered=part.filtered + count,
        unread=part.unread,
        skipped=part.skipped,
    )
    write_outcome(kept, staging, rejects=rejects, filtered={**filtered, OPTION: count})
    return kept


def _with_name(part: Part) -> tuple[str, Part]:
    return part.name, part


@dataclasses.dataclass(eq=False)
class DropDuplicates(beam.PTransform):
    """Parts of rows in, parts in which none is the same as another out."""

    staging: Staging

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[Part]) -> beam.PCollection[Part]:
        goes = (
            parts
            | "Candidates"
            >> beam.FlatMap(candidates, staging=self.staging).with_output_types(tuple[int, Piece])
            | "MeetBySame" >> beam.GroupByKey()
            | "Surplus"
            >> beam.FlatMap(surplus, staging=self.staging).with_output_types(tuple[str, bytes])
        )
        named = parts | "NameParts" >> beam.Map(_with_name)
        return (
            (named, goes)
            | "WithSurplus" >> beam.Flatten()
            | "MeetByPart" >> beam.GroupByKey()
            | "KeepDistinct"
            >> beam.Map(keep_distinct, staging=self.staging).with_output_types(Part)
        )
