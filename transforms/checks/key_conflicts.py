"""Rows that have the same key in a column: equal rows count once, `--conflicts` decides the others.

Rows are joined by the 8-byte hash of their key, 12 bytes each. Those whose hash repeats are read,
and their content is hashed; only parts with such rows are written again. The first row of a key is
that of the first part, so that the outcome does not depend on workers or the runner.
"""

import dataclasses
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import apache_beam as beam
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill import strict_json
from recordmill.errors import Reason, Reject
from recordmill.job.staging import StagedPart, Staging
from recordmill.transforms.checks.partitions import (
    Candidates,
    by_partition,
    join_candidates,
    part_itself,
    with_equal,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.sources.rows.references.repeated_rows import (
    CONFLICTS,
    NOT_COMPARED,
    REPEATED,
    Conflicts,
    conflict_text,
)
from recordmill.transforms.staged.handles import Problem
from recordmill.transforms.staged.listing import rewrite_part
from recordmill.transforms.staged.parts import read_part

# A message to a part, (kind, content): ("part", the part as JSON), (REPEATED or CONFLICTS, row
# numbers), or ("reject", JSON of [row, other part, other row]).
PartMessage = tuple[str, bytes]

_PART, _REJECT = "part", "reject"
_KEYED = np.dtype([("hash", "<u8"), ("row", "<u4")])
_DESCRIBED = np.dtype(
    [("hash", "<u8"), ("key", "<u8"), ("first", "<u8"), ("second", "<u8"), ("row", "<u4")]
)
_DETAILED = 100  # rejects of a part that name the difference; each may read another part


def keyed_rows(
    part: StagedPart, *, staging: Staging, partitions: int = limits.PARTITIONS
) -> Iterator[tuple[int, Candidates]]:
    """Yield (partition, hashes of keys) for the rows of a part, and the part itself."""
    yield part_itself(part)
    rows = read_part(part.name, staging=staging, columns=(batch.KEY, batch.HASH))
    found = np.empty(len(rows), _KEYED)
    found["hash"] = batch.hashes(rows)
    found["row"] = np.arange(len(rows))
    yield from by_partition(found, partitions, name=part.name, staging=staging)


def decide_rows(
    partition: tuple[int, Iterable[Candidates]], *, staging: Staging, conflicts: Conflicts
) -> Iterator[tuple[str, PartMessage]]:
    """Yield (name of a part, message): rows to leave out or to reject, or the part itself."""
    joined = join_candidates(partition, _KEYED, staging=staging)
    if isinstance(joined, list):
        yield from ((name, (_PART, part)) for name, part in joined)
        return
    names, keyed, parts = joined
    again = np.sort(with_equal(keyed["hash"]))  # and so by part
    if not len(again):
        return
    keyed, parts = keyed[again], parts[again]
    found = np.concatenate(
        [
            _described(names[code], keyed["row"][parts == code], staging)
            for code in np.unique(parts).tolist()
        ]
    )
    order = np.lexsort((found["row"], parts, found["key"], found["hash"]))
    found, parts = found[order], parts[order]
    key, content = found[["hash", "key"]], found[["first", "second"]]
    begins = np.append(True, key[1:] != key[:-1])
    groups = np.cumsum(begins) - 1
    leaders = np.flatnonzero(begins)[groups]
    mixed = np.unique(groups[content != content[leaders]])
    repeated = ~begins
    later = np.zeros(len(found), np.bool_)
    rejects: dict[int, list[tuple[int, str, int]]] = defaultdict(list)
    edges = np.append(np.flatnonzero(begins), len(found))
    for group in mixed.tolist():
        _, firsts = np.unique(content[edges[group] : edges[group + 1]], return_index=True)
        distinct = np.sort(firsts) + edges[group]
        repeated[distinct] = False
        if conflicts == "first":
            later[distinct[1:]] = True
            continue
        first, second = distinct[:2]
        for at in distinct:
            other = second if at == first else first
            place = names[parts[other]], int(found["row"][other])
            rejects[int(parts[at])].append((int(found["row"][at]), *place))
    for kind, chosen in ((REPEATED, repeated), (CONFLICTS, later)):
        for code in np.unique(parts[chosen]).tolist():
            yield names[code], (kind, found["row"][chosen & (parts == code)].tobytes())
    for code, rejected in sorted(rejects.items()):
        yield names[code], (_REJECT, strict_json.to_text(rejected).encode())


def _described(name: str, numbers: npt.NDArray[np.uint32], staging: Staging) -> npt.NDArray[Any]:
    """Return the hashes of keys and contents of some rows of a part: `_DESCRIBED`[n]."""
    numbers = np.sort(numbers)
    rows = read_part(name, staging=staging).take(pa.array(numbers))
    others = (batch.KEY, batch.HASH, *NOT_COMPARED)
    found = np.empty(len(rows), _DESCRIBED)
    found["hash"], found["row"] = batch.hashes(rows), numbers
    _, found["key"] = batch.hash_rows(rows.select([batch.KEY]))
    content = rows.select([column for column in rows.schema.names if column not in others])
    found["first"], found["second"] = batch.hash_rows(content)
    return found


def write_decided(
    part_messages: tuple[str, Iterable[PartMessage]], *, staging: Staging, conflicts: Conflicts
) -> Iterator[StagedPart | Problem]:
    """Write a part without the rows to leave out and to reject; others are returned unchanged.

    With `conflicts` as `error`, the first reject is a problem, which refuses the input.
    """
    kinds = _by_kind(part_messages[1])
    part = StagedPart(**json.loads(kinds[_PART][0]))
    if len(kinds) == 1:
        yield part
        return
    rows = read_part(part.name, staging=staging)
    kept = np.ones(len(rows), np.bool_)
    filtered = {}
    for kind in (REPEATED, CONFLICTS):
        numbers = np.frombuffer(b"".join(kinds[kind]), np.uint32)
        kept[numbers] = False
        if len(numbers):
            filtered[kind] = len(numbers)
    pairs = sorted(tuple(one) for data in kinds[_REJECT] for one in json.loads(data))
    kept[[row for row, _, _ in pairs]] = False
    rejects = _rejects(rows, pairs, staging)
    if rejects and conflicts == "error":
        yield Problem(rejects[0].detail)
    kept_rows = rows.filter(pa.array(kept))
    yield rewrite_part(part, kept_rows, staging, "decided", rejects=rejects, filtered=filtered)


def _rejects(
    rows: pa.RecordBatch, pairs: Sequence[tuple[int, str, int]], staging: Staging
) -> list[Reject]:
    """Return the rejects of rows that contradict others.

    pairs: (row, part of another row, its number there), ascending.
    """
    texts: dict[int, str] = {}
    detailed = sorted(pairs[:_DETAILED], key=lambda pair: pair[1])
    read = ("", rows)
    for row, name, number in detailed:
        if read[0] != name:
            read = (name, read_part(name, staging=staging))
        one, other = rows.slice(row, 1), read[1].slice(number, 1)
        places = (batch.place_names(table[batch.PLACE])[0].as_py() for table in (one, other))
        texts[row] = conflict_text(one, other, *places)
    rejects = []
    names = batch.place_names(rows[batch.PLACE])
    for row, _, _ in pairs:
        key, place = rows[batch.KEY][row].as_py(), names[row].as_py()
        usual = f"{place} has the same key as another row, and differs"
        rejects.append(Reject(key, "read", Reason.BAD_VALUE, texts.get(row, usual)))
    return rejects


def _by_kind(messages: Iterable[PartMessage]) -> dict[str, list[bytes]]:
    kinds: dict[str, list[bytes]] = defaultdict(list)
    for kind, data in messages:
        kinds[kind].append(data)
    return kinds


@dataclasses.dataclass(eq=False)
class DecideRepeatedRows(beam.PTransform):
    """Decide rows that have the same key: parts in, parts whose keys are unique out.

    conflicts: treatment of rows that differ; `error` yields a `Problem` too.
    partitions: number of groups of hashes of keys.
    """

    staging: Staging
    _: dataclasses.KW_ONLY
    conflicts: Conflicts
    partitions: int = limits.PARTITIONS

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, parts: beam.PCollection[StagedPart]) -> beam.PCollection[StagedPart | Problem]:
        staging, conflicts = self.staging, self.conflicts
        return (
            parts
            | "HashKeys"
            >> beam.FlatMap(
                keyed_rows, staging=staging, partitions=self.partitions
            ).with_output_types(tuple[int, Candidates])
            | "GroupByHash" >> beam.GroupByKey()
            | "Decide"
            >> beam.FlatMap(decide_rows, staging=staging, conflicts=conflicts).with_output_types(
                tuple[str, PartMessage]
            )
            | "GroupByPart" >> beam.GroupByKey()
            | "WriteDecided"
            >> beam.FlatMap(write_decided, staging=staging, conflicts=conflicts).with_output_types(
                StagedPart | Problem
            )
        )
