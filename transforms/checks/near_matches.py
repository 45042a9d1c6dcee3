"""Names of near duplicates: each pair of similar records, by their keys, in near_duplicates.jsonl.

Matches name records by the 8-byte hashes of their keys. They meet the keys twice: of the first
record, then of the second. The lines are written into staging, in a file per bucket.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.typehints.decorators import no_annotations

from recordmill.job.staging import StagedPart, Staging, to_json
from recordmill.transforms.model import batch, limits
from recordmill.transforms.near_duplicates.graph import ID, A, B, bucket_of
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import read_part
from recordmill.transforms.staged.spill import Piece

FOLDER = "similar"

_KEY, _FIRST = "key", "first"


def keys_of(part: StagedPart, *, staging: Staging) -> Iterator[tuple[int, tuple[str, Piece]]]:
    """Yield (bucket, ("key", rows of id and key)) of a part."""
    rows = read_part(part.name, staging=staging, columns=(batch.KEY, batch.HASH))
    if not len(rows):
        return
    ids = batch.hashes(rows)
    found = pa.RecordBatch.from_pydict({ID: ids, _KEY: rows[batch.KEY]})
    for bucket, piece in spill.into_pieces(found, bucket_of(ids), staging):
        yield bucket, (_KEY, piece)


def as_matches(matches: tuple[int, Piece]) -> tuple[int, tuple[str, Piece]]:
    """Tell matches from keys."""
    return matches[0], ("", matches[1])


def name_first(
    bucket: tuple[int, Iterable[tuple[str, Piece]]], *, staging: Staging
) -> Iterator[tuple[int, tuple[str, Piece]]]:
    """Yield (bucket of b, matches with the key of a)."""
    matches, keys = _split(bucket[1], staging)
    if matches is not None:
        first = _keys_of(np.asarray(matches[A]), keys)
        named = matches.drop_columns([A]).append_column(_FIRST, first)
        for number, piece in spill.into_pieces(named, bucket_of(np.asarray(named[B])), staging):
            yield number, ("", piece)


def write_lines(bucket: tuple[int, Iterable[tuple[str, Piece]]], *, staging: Staging) -> int:
    """Write the lines of a bucket, sorted, and return their number."""
    matches, keys = _split(bucket[1], staging)
    if matches is None:
        return 0
    second = _keys_of(np.asarray(matches[B]), keys).to_pylist()
    [measure] = [name for name in matches.schema.names if name not in (B, _FIRST)]
    pairs = zip(matches[_FIRST].to_pylist(), second, matches[measure].to_pylist(), strict=True)
    lines = sorted(
        to_json({"keys": sorted((one, other)), measure: round(value, 4)}) + b"\n"
        for one, other, value in pairs
    )
    place = staging.place(f"{FOLDER}/{bucket[0]:05d}.jsonl")
    place.parent.make_dirs()
    place.write_bytes(b"".join(lines))
    return len(lines)


def read_lines(staging: Staging) -> bytes:
    """Return the lines of all buckets, sorted; b"" if there are no near duplicates."""
    folder = staging.place(FOLDER)
    if not folder.exists():
        return b""
    lines: list[bytes] = []
    for bucket in range(limits.PARTITIONS):
        place = staging.place(f"{FOLDER}/{bucket:05d}.jsonl")
        if place.exists():
            lines += place.read_bytes().splitlines(keepends=True)
    return b"".join(sorted(lines))


def _split(
    found: Iterable[tuple[str, Piece]], staging: Staging
) -> tuple[pa.RecordBatch | None, list[pa.RecordBatch]]:
    """Return the matches of a bucket, None if there are none, and its keys."""
    pieces = sorted(found)
    matches = [spill.load(piece, staging=staging) for kind, piece in pieces if kind != _KEY]
    if not matches:
        return None, []
    keys = [spill.load(piece, staging=staging) for kind, piece in pieces if kind == _KEY]
    return batch.concat(matches), keys


def _keys_of(ids: batch.UInt64Array, keys: list[pa.RecordBatch]) -> pa.Array:
    """Return the keys of ids, all of which are in `keys`: string[n]."""
    known = batch.concat(keys)
    order = np.argsort(np.asarray(known[ID]))
    places = order[np.searchsorted(np.asarray(known[ID])[order], ids)]
    return known[_KEY].take(pa.array(places))


@dataclasses.dataclass(eq=False)
class WriteMatches(beam.PTransform):
    """Write the lines of near_duplicates.jsonl: (parts, matches) in, numbers of lines out.

    matches: a PCollection of `FindNearDuplicates`.
    """

    staging: Staging

    def __post_init__(self) -> None:
        super().__init__()

    @no_annotations  # type: ignore[untyped-decorator]  # Beam cannot use them, and would warn
    def expand(
        self, inputs: tuple[beam.PCollection[StagedPart], beam.PCollection[tuple[int, Piece]]]
    ) -> beam.PCollection[int]:
        parts, matches = inputs
        element = tuple[int, tuple[str, Piece]]
        keys = parts | "Keys" >> beam.FlatMap(keys_of, staging=self.staging).with_output_types(
            element
        )
        unnamed = matches | "Matches" >> beam.Map(as_matches).with_output_types(element)
        named = (
            (keys, unnamed)
            | "WithKeys" >> beam.Flatten()
            | "GroupByFirst" >> beam.GroupByKey()
            | "NameFirst"
            >> beam.FlatMap(name_first, staging=self.staging).with_output_types(element)
        )
        return (
            (keys, named)
            | "WithKeysAgain" >> beam.Flatten()
            | "GroupBySecond" >> beam.GroupByKey()
            | "WriteLines" >> beam.Map(write_lines, staging=self.staging).with_output_types(int)
        )
