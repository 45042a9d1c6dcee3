"""Matches of a dataset: pairs of records of similar content, by hash.

    matches = hashes | FindMatches(staging=staging, bands=HammingBands(distance=4))
    groups = matches | beam.Values() | ConnectedComponents(staging)

For each band a record goes into the bucket of its key in that band, with its id and hash, inline or
in a spill file. The matches of a bucket are found in memory. They are the same for any order of the
records and any number of workers.
"""

import dataclasses
from collections.abc import Iterable, Iterator

import apache_beam as beam
import numpy as np
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.batch import UInt64Array
from recordmill.transforms.near_duplicates.bands import Bands, HammingBands, matches_of_band
from recordmill.transforms.near_duplicates.graph import ID, A, bucket_of
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

_BAND = "band"  # uint8: number of a band
_VALUE = "value"  # what `Bands.values` returns


def hash_piece(ids: UInt64Array, hashes: pa.Array, *, bands: Bands) -> Piece:
    """Return the hashes of records as a piece for `FindMatches`.

    ids: uint64[n], unique hashes of keys. hashes: uint64 or fixed_size_list<uint32>[128], null for
    records without a hash.
    """
    return spill.inline(
        pa.RecordBatch.from_arrays([pa.array(ids), hashes], names=[ID, bands.column])
    )


def rows_of_bands(piece: Piece, *, bands: Bands, staging: Staging) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket, rows of band, id and value): each record once for each band."""
    rows = spill.load(piece, staging=staging)
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


def matches_of_bucket(
    bucket: tuple[int, Iterable[Piece]], *, bands: Bands, staging: Staging
) -> Iterator[tuple[int, Piece]]:
    """Yield (bucket of a, matches) for the records of a bucket of bands."""
    rows = batch.concat([spill.load(piece, staging=staging) for piece in bucket[1]])
    numbers = np.asarray(rows[_BAND])
    for band in np.unique(numbers).tolist():
        some = rows.filter(pa.array(numbers == band))
        values = bands.values(some[_VALUE])
        found = matches_of_band(np.asarray(some[ID]), values, band=band, bands=bands)
        if len(found):
            yield from spill.into_pieces(found, bucket_of(np.asarray(found[A])), staging)


@dataclasses.dataclass(eq=False)
class FindMatches(beam.PTransform):
    """Find pairs of records of similar content: pieces of `hash_piece` in, matches out.

    Matches are (bucket, piece), of rows with a, b (uint64, a < b) and distance (uint8) or
    similarity (float32), each pair once, in the bucket of a, which `graph.bucket_of` gives.
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
