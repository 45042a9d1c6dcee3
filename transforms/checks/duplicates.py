"""Removal of duplicates: of equal rows one stays, or none if their labels contradict each other.

Rows are grouped into buckets by the hash that is equal for duplicates; only this hash (16 bytes),
the key, label and split, and the place of a row pass through the shuffle. The handle of each part
takes the same way, in a bucket of its own, because a second consumer of the parts would cost memory
on Flink. Near duplicates also take the hashes that tell their distance or similarity.
"""

import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.split_names import TRAIN
from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.left_out import left_out_lines
from recordmill.transforms.near_duplicates.bands import Bands
from recordmill.transforms.near_duplicates.pairs import Indices
from recordmill.transforms.sources.rows.references.repeated_rows import Conflicts
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import rewrite_part
from recordmill.transforms.staged.parts import read_part
from recordmill.transforms.staged.row_reader import SAME
from recordmill.transforms.staged.spill import Piece

# The options that filter duplicates, and the reason of each in duplicates.jsonl.
REASONS = {"dedup": "duplicate", "near-duplicates": "near duplicate"}
CONFLICT = "conflicting labels"  # another reason there

_PAIRS = 1 << 16  # pairs whose hashes are compared at a time
_PART = "part"  # the column of the bucket of parts, which comes after all buckets of rows
# The first of equal rows stays.
_ORDER = [(name, "ascending") for name in ("same", "train", "unlabelled", "key")]

# A message to a part: (True, the part as JSON), or (False, rows to drop as an Arrow IPC stream).
BucketMessage = tuple[bool, bytes]


def duplicate_candidates(
    part: StagedPart, *, staging: Staging, bands: Bands | None = None
) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket, piece) for the rows of a part, and for the part itself.

    The rows of a piece have the columns same, key, label, train (whether the input assigns the row
    to train), name (of the part) and row (its index there). Rows without `__same__` have no
    duplicates. bands: if given, the rows also have `__near__` and, if it is known, `__content__`.
    """
    yield limits.PARTITIONS, spill.inline(pa.RecordBatch.from_pydict({_PART: [to_json(part)]}))
    columns = (batch.KEY, batch.LABEL, batch.SPLIT, SAME)
    hashes = () if bands is None else (batch.NEAR, batch.CONTENT)
    rows = read_part(part.name, staging=staging, columns=columns + hashes)
    found = {
        "same": rows[SAME],
        "key": rows[batch.KEY],
        "label": rows[batch.LABEL],
        "train": pc.fill_null(pc.equal(rows[batch.SPLIT], TRAIN), False),
        "name": pa.repeat(part.name, len(rows)),
        "row": pa.array(np.arange(len(rows))),
    }
    found |= {name: rows[name] for name in hashes if name in rows.schema.names}
    candidates = pa.RecordBatch.from_pydict(found).filter(rows[SAME].is_valid())
    yield from spill.into_buckets(candidates, "same", staging)


def find_duplicates(
    bucket: tuple[int, Iterable[Piece]],
    *,
    staging: Staging,
    conflicts: Conflicts,
    bands: Bands | None = None,
) -> Iterator[tuple[str, BucketMessage]]:
    """Yield (name of a part, message): the rows to drop from it, or the part itself.

    conflicts: `first` keeps one of equal rows with several labels, otherwise none stays. bands: if
    given, rows to drop have their distance or similarity to the one that stays.
    """
    number, pieces = bucket
    found = batch.concat(spill.load_all(pieces, staging=staging))
    if number == limits.PARTITIONS:
        for part in found[_PART].to_pylist():
            yield json.loads(part)["name"], (True, part)
        return
    found = found.append_column("unlabelled", pc.is_null(found["label"]))
    rows = found.sort_by(_ORDER)
    same = rows["same"]
    begins = np.ones(len(rows), np.bool_)
    begins[1:] = np.asarray(pc.not_equal(same.slice(1), same.slice(0, len(same) - 1)))
    if begins.all():
        return
    firsts = np.flatnonzero(begins)[np.cumsum(begins) - 1]  # of the rows that are equal to each
    dropped = ~begins
    contradict = np.zeros(len(rows), np.bool_)
    if conflicts != "first":
        contradict = _contradict(firsts, rows["label"])
        dropped |= contradict
    places = np.flatnonzero(dropped)
    kept_keys = rows["key"].take(pa.array(firsts[places], mask=contradict[places]))
    columns = {"row": rows["row"].take(pa.array(places)), "same_as": kept_keys}
    if bands is not None:
        columns[bands.measure] = _measures(rows, places, firsts[places], bands)
    left_out = pa.RecordBatch.from_pydict(columns)
    codes, names = batch.encode(rows["name"].take(pa.array(places)))
    for code, name in enumerate(names.to_pylist()):
        yield name, (False, batch.to_bytes(left_out.filter(pa.array(codes == code))))


def _measures(rows: pa.RecordBatch, left: Indices, right: Indices, bands: Bands) -> pa.Array:
    """Return the distance or similarity of pairs of rows; null beyond the limit of a match."""
    gaps = np.full(len(left), bands.most + 1, np.int64)
    hashes = rows[batch.NEAR]
    valid = np.asarray(hashes.is_valid())
    there = np.flatnonzero(valid[left] & valid[right])
    for some in np.array_split(there, len(there) // _PAIRS + 1):
        one, other = (bands.values(hashes.take(pa.array(side[some]))) for side in (left, right))
        gaps[some] = bands.gaps(one, other)
    if batch.CONTENT in rows.schema.names:
        contents, _ = batch.encode(rows[batch.CONTENT])
        gaps[contents[left] == contents[right]] = 0
    return pa.array(bands.measures(gaps), mask=gaps > bands.most)


def _contradict(firsts: np.ndarray, labels: pa.Array) -> np.ndarray:
    """Return whether the rows that are equal to each row have several labels: bool[n].

    firsts: int64[n], ascending: the first of these rows. A missing label contradicts nothing.
    """
    codes, _ = batch.encode(labels)
    labelled = codes >= 0
    pairs = np.unique(np.stack([firsts[labelled], codes[labelled]]), axis=1)
    counts = np.bincount(pairs[0], minlength=len(firsts))
    several: np.ndarray = counts[firsts] > 1
    return several


def keep_distinct(
    part_messages: tuple[str, Iterable[BucketMessage]],
    *,
    staging: Staging,
    bands: Bands | None = None,
) -> StagedPart:
    """Write a part without its duplicates; a part without any is returned unchanged.

    bands: as in `find_duplicates`.
    """
    messages = list(part_messages[1])
    part = StagedPart(**json.loads(next(data for is_part, data in messages if is_part)))
    found = [batch.from_bytes(data) for is_part, data in messages if not is_part]
    if not found:
        return part
    dropped = batch.concat(found).sort_by("row")
    rows = read_part(part.name, staging=staging)
    distinct = np.ones(len(rows), np.bool_)
    distinct[np.asarray(dropped["row"])] = False
    kept, others = rows.filter(pa.array(distinct)), rows.filter(pa.array(~distinct))
    option = "dedup" if bands is None else "near-duplicates"
    left_out = left_out_lines(others, REASONS[option], dropped["same_as"])
    measures = [] if bands is None else dropped[bands.measure].to_pylist()
    for line, value in itertools.zip_longest(left_out, measures):
        if line["same_as"] is None:
            line["reason"] = CONFLICT
        elif bands is not None:
            line[bands.measure] = None if value is None else round(value, 4)
    return rewrite_part(
        part, kept, staging, "distinct", filtered={option: len(others)}, left_out=left_out
    )


@dataclasses.dataclass(eq=False)
class DropDuplicates(beam.PTransform):
    """Drop duplicates: parts of rows in, the same parts without duplicates out.

    Of equal rows one stays: one of train only if the input assigns all of them to train; of the
    others one with a label, if any has one; of these the one with the smallest key.

    conflicts: as in `find_duplicates`. bands: those of near duplicates, if these are dropped.
    """

    staging: Staging
    _: dataclasses.KW_ONLY
    conflicts: Conflicts = "reject"
    bands: Bands | None = None

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart]:
        return (
            parts
            | "Candidates"
            >> beam.FlatMap(
                duplicate_candidates, staging=self.staging, bands=self.bands
            ).with_output_types(tuple[int, Piece])
            | "GroupByBucket" >> beam.GroupByKey()
            | "FindDuplicates"
            >> beam.FlatMap(
                find_duplicates, staging=self.staging, conflicts=self.conflicts, bands=self.bands
            ).with_output_types(tuple[str, BucketMessage])
            | "GroupByPart" >> beam.GroupByKey()
            | "KeepDistinct"
            >> beam.Map(keep_distinct, staging=self.staging, bands=self.bands).with_output_types(
                StagedPart
            )
        )
