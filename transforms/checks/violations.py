"""What of a schema records do not keep, counted: where such records stay, or the dataset is judged
as a whole.
"""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from recordmill.profile.drift import Comparison, Distance
from recordmill.profile.schema_rules import ColumnRules, DistanceLimit, SchemaRules
from recordmill.transforms.checks.schema_check import all_faults
from recordmill.transforms.statistics.column_statistics import ColumnStatistics
from recordmill.transforms.statistics.dataset_statistics import SliceStatistics

_EXAMPLES = 3  # of a column

_Found = tuple[int, tuple[tuple[str, str], ...]]  # records; (key, why) of the first


@dataclasses.dataclass(frozen=True, kw_only=True)
class Violations:
    """Records out of a schema.

    records: how many. columns: {column: (records, those of the smallest keys)}. outside: {column:
    values out of its domain}.
    """

    records: int = 0
    columns: Mapping[str, _Found] = dataclasses.field(default_factory=dict)
    outside: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, keys: pa.Array, columns: Mapping[str, pa.Array], rules: SchemaRules) -> Violations:
        """Of one part."""
        bad = np.zeros(len(keys), np.bool_)
        outside: Counter[str] = Counter()
        found: dict[str, list[_Found]] = {}
        for name, fault in all_faults(columns, rules):
            if not fault.hard:
                outside[name] += fault.values
                continue
            rows = np.flatnonzero(fault.rows & ~bad)  # of a record the first fault is told
            bad |= fault.rows
            named = zip(keys.take(pa.array(rows)).to_pylist(), rows.tolist(), strict=True)
            examples = [(key, fault.why(row)) for key, row in heapq.nsmallest(_EXAMPLES, named)]
            found.setdefault(name, []).append((len(rows), tuple(examples)))
        columns_found = {name: _joined(some) for name, some in found.items()}
        return cls(records=int(bad.sum()), columns=columns_found, outside=outside)

    @classmethod
    def sum(cls, several: Iterable[Violations]) -> Violations:
        """Adds them up, in whatever order they come."""
        parts = list(several)
        outside: Counter[str] = Counter()
        found: dict[str, list[_Found]] = {}
        for part in parts:
            outside.update(part.outside)
            for name, one in part.columns.items():
                found.setdefault(name, []).append(one)
        return cls(
            records=sum(part.records for part in parts),
            columns={name: _joined(some) for name, some in found.items()},
            outside=outside,
        )

    def told(self) -> str | None:
        """As a sentence without its end; None where there is nothing to tell."""
        if not self.records:
            return None
        columns = "; ".join(
            f"{name!r} of {count}, such as {', '.join(f'{key}: {why}' for key, why in examples)}"
            for name, (count, examples) in sorted(self.columns.items())
            if count
        )
        return f"{_counted(self.records)} out of the schema, by column {columns}"


def _joined(several: list[_Found]) -> _Found:
    examples = heapq.nsmallest(_EXAMPLES, (one for _, some in several for one in some))
    return sum(count for count, _ in several), tuple(examples)


def _counted(records: int) -> str:
    return "1 record is" if records == 1 else f"{records} records are"


def of_dataset(whole: SliceStatistics, violations: Violations, rules: SchemaRules) -> Iterator[str]:
    """A sentence, without its end, for all that the schema asks of the dataset and it has not."""
    least, most = rules.records
    if whole.records < least or (most is not None and whole.records > most):
        yield f"{whole.records} records, where the schema has {_between(least, most)}"
    for name, one in rules.columns.items():
        found = whole.columns[name]
        for what in _of_column(found, one, whole.records, violations.outside.get(name, 0)):
            yield f"column {name!r}: {what}"


def _of_column(
    found: ColumnStatistics, rules: ColumnRules, records: int, outside: int
) -> Iterator[str]:
    if found.records < rules.min_fraction * records and not rules.required:
        yield (
            f"{found.records} of {records} records have it, where the schema has min_fraction"
            f" {rules.min_fraction:g}"
        )
    if found.records < rules.min_count:
        yield f"{found.records} records have it, where the schema has min_count {rules.min_count}"
    inside = found.values - outside
    if rules.domain is not None and rules.mass < 1 and inside < rules.mass * found.values:
        yield (
            f"{inside} of {found.values} values are in its domain, where the schema has"
            f" min_domain_mass {rules.mass:g}"
        )
    least, most = rules.unique
    distinct = found.distinct.count
    if distinct < least or (most is not None and distinct > most):
        yield f"{distinct} different values, where the schema has {_between(least, most)}"


def _between(least: int, most: int | None) -> str:
    return f"at least {least}" if most is None else f"{least} to {most}"


def too_far(comparison: Comparison, rules: SchemaRules) -> Iterator[str]:
    """A sentence, without its end, for each column that is further away than the schema allows."""
    for one in comparison.distances:
        if one.column in rules.columns:
            asked = rules.columns[one.column]
            limit = asked.skew if one.kind == "skew" else asked.drift
            yield from _beyond(one, limit)


def _beyond(one: Distance, limit: DistanceLimit) -> Iterator[str]:
    whose = (
        f"between {one.reference} and {one.records}"
        if one.kind == "skew"
        else "from --compare-with"
    )
    for name, found, most in (
        ("infinity_norm", one.infinity_norm, limit.infinity_norm),
        ("jensen_shannon_divergence", one.jensen_shannon, limit.jensen_shannon),
    ):
        if most is not None and found > most:
            yield (
                f"column {one.column!r} has a {one.kind} {whose} of {found:.3g} ({name}), where the"
                f" schema has {most:g}"
            )
