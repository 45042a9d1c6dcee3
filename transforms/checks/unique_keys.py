"""Check that keys are unique, by 8-byte hashes: only keys with equal hashes are compared."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged.batches import RowScan

_MAX_FOUND = 100  # repeated hashes of a partition that are followed up; one refuses the input

# The end of the message for texts that were cut into chunks.
_OF_CHUNKS = (
    "; with --chunk the key of a text ends in /0, /1, ..., the numbers of its chunks, and"
    " --conflicts does not apply to rows with the same key, so equal rows repeat keys, too"
)


def partition_hashes(rows: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, hashes of keys as uint64 bytes) for a batch."""
    found = np.sort(batch.hashes(rows))
    parts = batch.scale(found, limits.PARTITIONS)
    edges = np.searchsorted(parts, np.arange(limits.PARTITIONS + 1)).tolist()
    for part, (start, end) in enumerate(itertools.pairwise(edges)):
        if start < end:
            yield part, found[start:end].tobytes()


def repeated_hashes(partition: tuple[int, Iterable[bytes]]) -> list[str]:
    """Return the hashes that occur more than once in a partition, at most 100 of them.

    They are decimal text, because Beam's coder for integers ends at 2^63.
    """
    hashes = np.sort(np.frombuffer(b"".join(partition[1]), np.uint64))
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return [str(value) for value in twice[:_MAX_FOUND].tolist()]


def keys_with_hashes(rows: pa.RecordBatch, hashes: Sequence[str]) -> Iterator[tuple[str, int]]:
    """Yield (key, 1) for the rows whose hash is in `hashes`."""
    if hashes:
        hits = pc.is_in(
            pa.array(batch.hashes(rows)), value_set=pa.array(list(map(int, hashes)), pa.uint64())
        )
        for key in rows[batch.KEY].filter(hits).to_pylist():
            yield key, 1


def _is_repeated(counted: tuple[str, int]) -> bool:
    return counted[1] > 1


def repeated_keys_message(
    counted: Iterable[tuple[str, int]], *, chunked: bool = False, custom: bool = False
) -> list[str]:
    """Return a sentence about repeated keys; none if there are none.

    counted: (key, number of rows that have it). chunked: whether keys are those of chunks. custom:
      whether the pipeline is a custom one, which has no options of the command line.
    """
    keys = sorted(counted)
    if not keys:
        return []
    remedy = (
        "name a column of unique values with --key-column; --key-from takes the keys of files from"
        " another part of their paths"
    )
    if custom:
        remedy = f"make the column {batch.KEY} unique (key_column of a FileList)"
    shown = ", ".join(f"{key!r} ({n} times)" for key, n in keys[:5])
    return [
        f"expected every key once, got {len(keys)}{' or more' if len(keys) >= _MAX_FOUND else ''}"
        f" that repeat: {shown}{', ...' if len(keys) > 5 else ''}; {remedy}, or remove the"
        " repeated rows"
        f"{_OF_CHUNKS if chunked else ''}"
    ]


def _message(
    _: bytes, counted: Sequence[tuple[str, int]], chunked: bool, custom: bool
) -> list[str]:
    return repeated_keys_message(counted, chunked=chunked, custom=custom)


@dataclasses.dataclass(eq=False)
class FindRepeatedKeys(beam.PTransform):
    """Find keys that repeat: results of `partition_hashes` in, a sentence about such keys out.

    The output is empty if there are none.

    rows: reads the keys of all batches again. chunked, custom: as in `repeated_keys_message`.
    """

    rows: RowScan
    _: dataclasses.KW_ONLY
    chunked: bool = False
    custom: bool = False

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, hashes: beam.PCollection[tuple[int, bytes]]) -> beam.PCollection[str]:
        repeated = beam.pvalue.AsList(
            hashes
            | "GroupByPartition" >> beam.GroupByKey()
            | "RepeatedHashes" >> beam.FlatMap(repeated_hashes).with_output_types(str)
        )
        counted = (
            self.rows("CompareKeys", repeated)
            | "KeysWithHashes"
            >> beam.FlatMap(keys_with_hashes, repeated).with_output_types(tuple[str, int])
            | "CountKeys" >> beam.CombinePerKey(sum)
            | "OnlyRepeated" >> beam.Filter(_is_repeated)
        )
        return (
            counted.pipeline
            | "Once" >> beam.Impulse()
            | "Report"
            >> beam.FlatMap(
                _message, beam.pvalue.AsList(counted), self.chunked, self.custom
            ).with_output_types(str)
        )
