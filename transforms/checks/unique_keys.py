"""Proof that no key repeats, over 8-byte hashes: only keys whose hashes are equal ever meet."""

import itertools
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch
from recordmill.transforms.staged.listing_scans import Read

_PARTITIONS = 64
_ENOUGH = 100  # repeated hashes of a partition that are followed up: one is a verdict


def partition_hashes(rows: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """(partition, its hashes as uint64 bytes) of a batch."""
    found = np.sort(batch.hashes(rows))
    parts = batch.scale(found, _PARTITIONS)
    edges = np.searchsorted(parts, np.arange(_PARTITIONS + 1)).tolist()
    for part, (start, end) in enumerate(itertools.pairwise(edges)):
        if start < end:
            yield part, found[start:end].tobytes()


def repeated(met: tuple[int, Iterable[bytes]]) -> list[str]:
    """Hashes that occur more than once in a partition; some of them, where there are many.

    As decimal text, because Beam's coder for ints ends at 2^63.
    """
    hashes = np.sort(np.frombuffer(b"".join(met[1]), np.uint64))
    twice = np.unique(hashes[1:][hashes[1:] == hashes[:-1]])
    return [str(value) for value in twice[:_ENOUGH].tolist()]


def keys_of(rows: pa.RecordBatch, hashes: Sequence[str]) -> Iterator[tuple[str, int]]:
    """(key, 1) of the rows whose hash is among those given."""
    if hashes:
        hits = pc.is_in(
            pa.array(batch.hashes(rows)), value_set=pa.array(list(map(int, hashes)), pa.uint64())
        )
        for key in rows[batch.KEY].filter(hits).to_pylist():
            yield key, 1


def _is_repeated(counted: tuple[str, int]) -> bool:
    return counted[1] > 1


def complain(counted: Iterable[tuple[str, int]]) -> list[str]:
    """The sentence for the user, where keys repeat."""
    keys = sorted(counted)
    if not keys:
        return []
    shown = ", ".join(f"{key!r} ({n} times)" for key, n in keys[:5])
    return [
        f"expected every key once, got {len(keys)}{' or more' if len(keys) >= _ENOUGH else ''}"
        f" that repeat: {shown}{', ...' if len(keys) > 5 else ''}; name a column of unique values"
        " with --key-column, or take the repeated rows out"
    ]


def _complain(_: bytes, counted: Sequence[tuple[str, int]]) -> list[str]:
    return complain(counted)


def find_repeated_keys(
    hashes: beam.PCollection[tuple[int, bytes]], read: Read
) -> beam.PCollection[str]:
    """A sentence about the keys that repeat, if there are any.

    hashes: of all batches, as `partition_hashes` gives them. read: gives the batches for a pass.
    """
    hashes = beam.pvalue.AsList(
        hashes
        | "MeetByHash" >> beam.GroupByKey()
        | "Repeated" >> beam.FlatMap(repeated).with_output_types(str)
    )
    counted = (
        read("CompareKeys", hashes)
        | "KeysOfRepeated" >> beam.FlatMap(keys_of, hashes).with_output_types(tuple[str, int])
        | "CountKeys" >> beam.CombinePerKey(sum)
        | "OnlyRepeated" >> beam.Filter(_is_repeated)
    )
    return (
        counted.pipeline
        | "OnceForKeys" >> beam.Impulse()
        | "Complain" >> beam.FlatMap(_complain, beam.pvalue.AsList(counted)).with_output_types(str)
    )
