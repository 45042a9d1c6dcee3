"""Groups that the input itself tears apart: it names splits for their rows, and not all the same.

Found over 8-byte hashes as repeated keys are, so that only groups that may be torn are ever named.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.transforms.model import batch
from recordmill.transforms.staged.listing_scans import Read

_PARTITIONS = 64
_ENOUGH = 100  # torn groups of a partition that are followed up: one is a verdict


def partition_groups(rows: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """(partition, its distinct hashes of group and split as uint64[n, 2] bytes) of a batch."""
    grouped = _grouped(rows)
    pairs = [_hashes(grouped[name]) for name in (batch.GROUP, batch.SPLIT)]
    found = np.unique(np.stack(pairs, axis=1), axis=0)
    parts = batch.scale(found[:, 0], _PARTITIONS)
    for part in np.unique(parts).tolist():
        yield part, found[parts == part].tobytes()


def _grouped(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.is_valid(rows[batch.GROUP]))


def _hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    codes, values = batch.encode(column)
    return batch.hash_strings(values)[codes]


def torn(met: tuple[int, Iterable[bytes]]) -> list[str]:
    """Hashes of the groups of a partition that have several splits, as decimal text; some of them,
    where there are many.
    """
    pairs = np.frombuffer(b"".join(met[1]), np.uint64).reshape(-1, 2)
    groups, splits = np.unique(np.unique(pairs, axis=0)[:, 0], return_counts=True)
    return [str(value) for value in groups[splits > 1][:_ENOUGH].tolist()]


def splits_of(rows: pa.RecordBatch, hashes: Sequence[str]) -> Iterator[tuple[str, tuple[str, str]]]:
    """(group, (split, key of a row)) of the rows whose group's hash is among those given."""
    if hashes:
        grouped = _grouped(rows)
        hits = np.isin(_hashes(grouped[batch.GROUP]), np.array(list(map(int, hashes)), np.uint64))
        some = grouped.filter(pa.array(hits))
        columns = [some[name].to_pylist() for name in (batch.GROUP, batch.SPLIT, batch.KEY)]
        rows_of_splits = sorted(zip(*columns, strict=True), reverse=True)
        first = {(group, split): key for group, split, key in rows_of_splits}
        yield from ((group, (split, key)) for (group, split), key in sorted(first.items()))


def _first_of_each(group: str, rows: Iterable[tuple[str, str]]) -> tuple[str, Mapping[str, str]]:
    """{split: the first of the keys}."""
    return group, dict(sorted(rows, reverse=True))


def _complain(
    _: bytes, found: Sequence[tuple[str, Mapping[str, str]]], *, instead: str
) -> list[str]:
    """The sentence for the user, where groups are torn."""
    groups = sorted((group, sorted(rows.items())) for group, rows in found if len(rows) > 1)
    if not groups:
        return []
    shown = ", ".join(
        f"{group!r} ({', '.join(f'{split}: {key}' for split, key in rows)})"
        for group, rows in groups[:5]
    )
    return [
        f"expected every group in one split, got {len(groups)}"
        f"{' or more' if len(groups) >= _ENOUGH else ''} whose rows the input puts into several:"
        f" {shown}{', ...' if len(groups) > 5 else ''}; name one split for each group, or {instead}"
    ]


def find_torn_groups(read: Read, *, instead: str) -> beam.PCollection[str]:
    """A sentence about the groups that stand in several splits, if there are any.

    read: gives the batches for a pass, with their splits. instead: what else one can do about it.
    """
    hashes = beam.pvalue.AsList(
        read("HashGroups")
        | "PartitionGroups" >> beam.FlatMap(partition_groups).with_output_types(tuple[int, bytes])
        | "MeetByGroup" >> beam.GroupByKey()
        | "Torn" >> beam.FlatMap(torn).with_output_types(str)
    )
    found = (
        read("CompareGroups", hashes)
        | "SplitsOfTorn"
        >> beam.FlatMap(splits_of, hashes).with_output_types(tuple[str, tuple[str, str]])
        | "MeetByName" >> beam.GroupByKey()
        | "DistinctSplits" >> beam.MapTuple(_first_of_each)
    )
    return (
        found.pipeline
        | "OnceForGroups" >> beam.Impulse()
        | "ComplainOfGroups"
        >> beam.FlatMap(_complain, beam.pvalue.AsList(found), instead=instead).with_output_types(
            str
        )
    )
