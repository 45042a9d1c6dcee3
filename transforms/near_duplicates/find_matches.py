"""Matches of a dataset: pairs of records of similar content, by hash.

    matches = hashes | FindMatches(staging=staging, bands=HammingBands(distance=4))
    groups = matches | beam.Values() | ConnectedComponents(staging)

For each band a record goes into the bucket of its key in that band, with its id and hash, inline or
in a spill file. The matches of a bucket are found in memory. They are the same for any order of the
records and any number of workers. A record also goes into the bucket of its content: equal content
is similar even if hashes differ, such as the texts 7 and 7.0, or if there is none.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.near_duplicates.bands import (
    Bands,
    HammingBands,
    matches_of_band,
    matches_of_contents,
)
from recordmill.transforms.near_duplicates.graph import ID, A, bucket_of
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

_BAND = "band"  # uint8: number of a band
_VALUE = "value"  # what `Bands.values` returns
_CONTENT = "content"  # binary(16)
_IDENTITY = "identity"  # uint64: equal for equal hashes; the id of a record without a hash


def hash_piece(
    ids: UInt64Array, hashes: pa.Array, contents: pa.Array | None = None, *, bands: Bands
) -> Piece:
    """Return the hashes of records as a piece for `FindMatches`.

    ids: uint64[n], unique hashes of keys. hashes: uint64 or fixed_size_list<uint32>[128], null for
    records without a hash. contents: binary(16)[n], hashes of contents, if they are known.
    """
    columns = {ID: pa.array(ids), bands.column: hashes}
    if contents is not None:
        columns[_CONTENT] = contents
    return spill.inline(pa.RecordBatch.from_pydict(columns))


def rows_of_bands(piece: Piece, *, bands: Bands, staging: Staging) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket, rows of band, id and value): each record once for each band.

    Rows of id, content and identity follow, in buckets after those of bands.
    """
    rows = spill.load(piece, staging=staging)
    if _CONTENT in rows.schema.names and len(rows):
        yield from _rows_of_contents(rows, bands, staging)
    rows = rows.filter(rows[bands.column].is_valid())
    if not len(rows):
        return
    at_once = max(limits.SPILL_BYTES * len(rows) // (rows.nbytes * bands.count), 1)
    for start in range(0, len(rows), at_once):
        some = rows.slice(start, at_once)
        values = bands.values(some[bands.column])
        buckets = batch.scale(bands.keys(values).T.ravel(), limits.PARTITIONS)
        places = np.tile(np.arange(len(some)), bands.count)
        columns = {
            _BAND: pa.array(np.repeat(np.arange(bands.count, dtype=np.uint8), len(some))),
            ID: some[ID].take(pa.array(places)),
            _VALUE: bands.to_column(values[places]),
        }
        yield from spill.into_pieces(pa.RecordBatch.from_pydict(columns), buckets, staging)


def _rows_of_contents(
    rows: pa.RecordBatch, bands: Bands, staging: Staging
) -> list[tuple[int, Piece]]:
    hashes, contents = rows[bands.column], rows[_CONTENT]
    identities = np.array(rows[ID])
    identities[np.asarray(hashes.is_valid())] = bands.identities(bands.values(hashes.drop_null()))
    columns = {ID: rows[ID], _CONTENT: contents, _IDENTITY: pa.array(identities)}
    buckets = batch.scale(batch.hash_strings(batch.hex_of(contents)), limits.PARTITIONS)
    found = pa.RecordBatch.from_pydict(columns)
    return spill.into_pieces(found, buckets + limits.PARTITIONS, staging)


def matches_of_bucket(
    bucket: tuple[int, Iterable[Piece]], *, bands: Bands, staging: Staging
) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket of a, matches) for the records of a bucket of bands, or of contents."""
    number, pieces = bucket
    rows = batch.concat(spill.load_all(pieces, staging=staging))
    for found in (
        [_matches_of_contents(rows, bands)]
        if number >= limits.PARTITIONS
        else _matches_of_bands(rows, bands)
    ):
        if len(found):
            yield from spill.into_pieces(found, bucket_of(np.asarray(found[A])), staging)


def _matches_of_contents(rows: pa.RecordBatch, bands: Bands) -> pa.RecordBatch:
    ids, identities = np.asarray(rows[ID]), np.asarray(rows[_IDENTITY])
    return matches_of_contents(ids, rows[_CONTENT], identities, bands=bands)


def _matches_of_bands(rows: pa.RecordBatch, bands: Bands) -> Iterator[pa.RecordBatch]:
    numbers = np.asarray(rows[_BAND])
    for band in np.unique(numbers).tolist():
        some = rows.filter(pa.array(numbers == band))
        values = bands.values(some[_VALUE])
        yield matches_of_band(np.asarray(some[ID]), values, band=band, bands=bands)


@dataclasses.dataclass(eq=False)
class FindMatches(beam.PTransform):
    """Find pairs of records of similar content: pieces of `hash_piece` in, matches out.

    Matches are (bucket, piece), of rows with a, b (uint64, a < b) and distance (uint8) or
    similarity (float32), in the bucket of a, which `graph.bucket_of` gives. Each pair occurs once,
    or twice if the records match by their hashes and have equal content.
    """

    staging: Staging
    bands: Bands = HammingBands()  # noqa: RUF009, it is frozen

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, hashes: beam.PCollection[Piece]) -> beam.PCollection[tuple[int, Piece]]:
        return (
            hashes
            | "Bands"
            >> beam.FlatMap(
                rows_of_bands, bands=self.bands, staging=self.staging
            ).with_output_types(tuple[int, Piece])
            | "GroupByBand" >> beam.GroupByKey()
            | "MatchesOfBucket"
            >> beam.FlatMap(
                matches_of_bucket, bands=self.bands, staging=self.staging
            ).with_output_types(tuple[int, Piece])
        )
