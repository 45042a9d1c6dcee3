"""Detection of group leakage: groups whose rows the input itself assigns to several splits.

Groups are compared by 8-byte hashes first, as keys are in `unique_keys`; only the names of groups
whose hashes have several splits are shuffled.
"""

import dataclasses
import functools
from collections.abc import Iterable, Iterator, Mapping, Sequence

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.staging import Staging
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged.batches import scan
from recordmill.transforms.staged.handles import Element
from recordmill.transforms.staged.listing import SYSTEM

_MAX_FOUND = 100  # leaking groups of a partition that are followed up; one refuses the input


def partition_groups(rows: pa.RecordBatch) -> Iterator[tuple[int, bytes]]:
    """Yield (partition, distinct pairs of hashes) for the grouped rows of a batch.

    The pairs are uint64[n, 2] as bytes: hash of the group, hash of the split.
    """
    grouped = _grouped(rows)
    pairs = [_hashes(grouped[name]) for name in (batch.GROUP, batch.SPLIT)]
    found = np.unique(np.stack(pairs, axis=1), axis=0)
    parts = batch.scale(found[:, 0], limits.PARTITIONS)
    for part in np.unique(parts).tolist():
        yield part, found[parts == part].tobytes()


def _grouped(rows: pa.RecordBatch) -> pa.RecordBatch:
    return rows.filter(pc.is_valid(rows[batch.GROUP]))


def _hashes(column: pa.Array) -> npt.NDArray[np.uint64]:
    codes, values = batch.encode(column)
    return batch.hash_strings(values)[codes]


def leaking_groups(partition: tuple[int, Iterable[bytes]]) -> list[str]:
    """Return the hashes of the groups of a partition that have several splits.

    Hashes are decimal text, because Beam's coder for integers ends at 2^63; at most 100 of them.
    """
    pairs = np.frombuffer(b"".join(partition[1]), np.uint64).reshape(-1, 2)
    groups, splits = np.unique(np.unique(pairs, axis=0)[:, 0], return_counts=True)
    return [str(value) for value in groups[splits > 1][:_MAX_FOUND].tolist()]


def splits_of_groups(
    rows: pa.RecordBatch, hashes: Sequence[str]
) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield (group, (split, smallest name of its rows)) for the groups in `hashes`."""
    if hashes:
        grouped = _grouped(rows)
        hits = np.isin(_hashes(grouped[batch.GROUP]), np.array(list(map(int, hashes)), np.uint64))
        some = grouped.filter(pa.array(hits))
        columns = (some[batch.GROUP], some[batch.SPLIT], batch.lineage(some))
        named = sorted(zip(*(column.to_pylist() for column in columns), strict=True), reverse=True)
        first = {(group, split): name for group, split, name in named}
        yield from ((group, (split, name)) for (group, split), name in sorted(first.items()))


def _first_keys(group: str, rows: Iterable[tuple[str, str]]) -> tuple[str, Mapping[str, str]]:
    """Return (group, {split: smallest key})."""
    return group, dict(sorted(rows, reverse=True))


def _leakage_message(
    _: bytes, found: Sequence[tuple[str, Mapping[str, str]]], *, remedy: str
) -> list[str]:
    """Return a sentence about leaking groups; none if there are none."""
    groups = sorted((group, sorted(rows.items())) for group, rows in found if len(rows) > 1)
    if not groups:
        return []
    shown = ", ".join(
        f"{group!r} ({', '.join(f'{split}: {key}' for split, key in rows)})"
        for group, rows in groups[:5]
    )
    return [
        f"expected every group in one split, got {len(groups)}"
        f"{' or more' if len(groups) >= _MAX_FOUND else ''} with rows in several splits of the"
        f" input: {shown}{', ...' if len(groups) > 5 else ''}; name one split for each"
        f" group, or {remedy}"
    ]


@dataclasses.dataclass(eq=False)
class FindGroupLeakage(beam.PTransform):
    """Find groups that span several splits: handles in, a sentence about them out.

    The output is empty if there are none. Rows are read with their splits.

    remedy: ends the sentence with what else the user can do.
    """

    staging: Staging
    remedy: str

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, batches: beam.PCollection[Element]) -> beam.PCollection[str]:
        columns = (*SYSTEM, batch.SOURCE)
        read = functools.partial(scan, batches, staging=self.staging, columns=columns)
        hashes = beam.pvalue.AsList(
            read("HashGroups")
            | "PartitionGroups"
            >> beam.FlatMap(partition_groups).with_output_types(tuple[int, bytes])
            | "GroupByGroupHash" >> beam.GroupByKey()
            | "LeakingGroups" >> beam.FlatMap(leaking_groups).with_output_types(str)
        )
        found = (
            read("CompareGroups", hashes)
            | "SplitsOfGroups"
            >> beam.FlatMap(splits_of_groups, hashes).with_output_types(tuple[str, tuple[str, str]])
            | "GroupByName" >> beam.GroupByKey()
            | "DistinctSplits" >> beam.MapTuple(_first_keys)
        )
        return (
            found.pipeline
            | "Once" >> beam.Impulse()
            | "Report"
            >> beam.FlatMap(
                _leakage_message, beam.pvalue.AsList(found), remedy=self.remedy
            ).with_output_types(str)
        )
