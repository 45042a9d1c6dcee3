"""Names of groups, to find those that differ only by their spelling."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.class_names import SPELLING, alike_names, equal_numbers, spelling_keys
from recordmill.notes import Note, count_of
from recordmill.transforms.model import batch

COMPARED = 100_000  # groups; if there are more, those with the smallest hashes are compared
_SHOWN = 3  # groups in a note
_HASH, _NAME, _SPLIT = "hash", "name", "split"
_SCHEMA = pa.schema([(_HASH, pa.uint64()), (_NAME, pa.string()), (_SPLIT, pa.string())])


@dataclasses.dataclass(frozen=True, kw_only=True)
class GroupNames:
    """Names of groups, of which at most `COMPARED` are kept however many there are.

    names: (hash of the folded name, name, split), distinct names. All spellings of a name
      are kept, or none.
    capped: whether names were dropped.
    missing: records without a group. blank: records of groups whose name is white space alone.
    """

    names: pa.Table = dataclasses.field(default_factory=_SCHEMA.empty_table)
    capped: bool = False
    missing: int = 0
    blank: int = 0

    @classmethod
    def of(cls, rows: pa.RecordBatch) -> GroupNames:
        """Return the names of the groups of rows, which have their splits."""
        codes, groups = batch.encode(rows[batch.GROUP])
        folded = pa.array(spelling_keys(groups), pa.string())
        given, first = np.unique(codes, return_index=True)
        first = first[given >= 0]
        splits = rows[batch.SPLIT].take(pa.array(first)).cast(pa.string())
        counts = np.bincount(codes + 1, minlength=len(groups) + 1)
        is_blank = np.asarray(pc.equal(folded, ""))
        names = pa.table([pa.array(batch.hash_strings(folded)), groups, splits], schema=_SCHEMA)
        return cls(names=names, missing=int(counts[0]), blank=int(counts[1:][is_blank].sum()))

    @classmethod
    def sum(cls, several: Iterable[GroupNames]) -> GroupNames:
        """Add up; the order does not matter."""
        parts = list(several)
        table = pa.concat_tables(part.names for part in parts)
        hashes = np.unique(np.asarray(table[_HASH]))
        if capped := len(hashes) > COMPARED:
            table = table.filter(pc.less(table[_HASH], pa.scalar(hashes[COMPARED], pa.uint64())))
        table = table.group_by([_HASH, _NAME]).aggregate([(_SPLIT, "min")])
        return cls(
            # Combined, because buffers of the sum are four times as large as their content.
            names=table.rename_columns(_SCHEMA.names).combine_chunks(),
            capped=capped or any(part.capped for part in parts),
            missing=sum(part.missing for part in parts),
            blank=sum(part.blank for part in parts),
        )

    def notes(self, records: int, noun: str) -> Iterator[Note]:
        """Yield notes on names that differ only by spelling, and on records without a group.

        records: number of all records. noun: `group`, or `series` if these are the groups.
        """
        names = self.names[_NAME].to_pylist()
        splits = dict(zip(names, self.names[_SPLIT].to_pylist(), strict=True))
        spellings = alike_names(sorted(names))  # by hash they look shuffled
        if spellings:
            count = count_of(len(names), noun, "series" if noun == "series" else None)
            few = len(names) - sum(len(alike) - 1 for alike in spellings)
            yield Note(
                "groups-alike",
                f"{'in a sample, ' if self.capped else ''}{count} become {few:,} if"
                f" {SPELLING} are ignored: {_shown(spellings, splits)};"
                f" spell each {noun} in one way",
            )
        notations = equal_numbers([name for name in names if name == name.strip()])
        if notations:
            yield Note(
                "groups-alike",
                f"names of {noun if noun == 'series' else 'groups'} are the same number in"
                f" different notations: {_shown(notations, splits)}; spell each {noun} in one way",
            )
        if noun == "group" and (self.missing or self.blank):
            yield Note("no-group", self._missing(records))

    def _missing(self, records: int) -> str:
        one = "each is a group of its own, so fill in the group of those that belong together"
        have = "has" if self.missing == 1 else "have"
        found = f"{self.missing:,} of {count_of(records, 'record')} {have} no group: {one}"
        if not self.blank:
            return found
        blank = (
            f"the group of {count_of(self.blank, 'record')} is white space alone, which counts as a"
            " name: --trim reads it as missing"
        )
        return f"{found}; {blank}" if self.missing else blank


def _shown(alike: Sequence[Sequence[str]], splits: Mapping[str, str]) -> str:
    """Return some names that are alike, with their splits, and how many of all are in several."""
    some = "; ".join(
        " and ".join(f"{name!r} ({splits[name]})" for name in names) for names in alike[:_SHOWN]
    )
    more = "; ..." if len(alike) > _SHOWN else ""
    parted = sum(len({splits[name] for name in names}) > 1 for names in alike)
    apart = f"; {parted:,} of {len(alike):,} are in several splits" if parted else ""
    return f"{some}{more}{apart}"
