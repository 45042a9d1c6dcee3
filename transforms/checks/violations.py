"""Counts of schema violations over a dataset, and the rules that apply to it as a whole."""

from __future__ import annotations

import dataclasses
import heapq
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import did_you_mean
from recordmill.gates import fraction, is_within
from recordmill.profile.drift import Comparison, Distance, Kind
from recordmill.profile.schema_rules import ColumnRules, DistanceLimit, SchemaRules
from recordmill.transforms.checks.schema_check import schema_violations
from recordmill.transforms.statistics.column_statistics import ColumnStatistics
from recordmill.transforms.statistics.dataset_statistics import LABEL, SliceStatistics

_EXAMPLES = 3  # records that are quoted for a column
_ANY_DRIFT = 1.0  # a limit of drift that allows any, also one that cannot be computed

_Found = tuple[int, tuple[tuple[str, str], ...]]  # number of records; (key, reason) of examples

_COLUMNS = 20  # that a message names


@dataclasses.dataclass(frozen=True, kw_only=True)
class Violations:
    """Counts of the records that violate a schema.

    records: number of them. columns: {column: (number of records, examples)}; a record counts for
      its first violation, and the examples have the smallest keys.
    outside: {column: values outside its domain}, for columns whose rule limits only their share.
    """

    records: int = 0
    columns: Mapping[str, _Found] = dataclasses.field(default_factory=dict)
    outside: Mapping[str, int] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, keys: pa.Array, columns: Mapping[str, pa.Array], rules: SchemaRules) -> Violations:
        """Count the violations of one part. keys: string[n]. columns: {name: array of length n}."""
        bad = np.zeros(len(keys), np.bool_)
        outside: Counter[str] = Counter()
        found: dict[str, list[_Found]] = {}
        for name, violation in schema_violations(columns, rules):
            if not violation.hard:
                outside[name] += violation.values
                continue
            rows = np.flatnonzero(violation.rows & ~bad)  # only the first violation of a record
            bad |= violation.rows
            named = zip(keys.take(pa.array(rows)).to_pylist(), rows.tolist(), strict=True)
            smallest = heapq.nsmallest(_EXAMPLES, named)
            examples = [(key, violation.why(row)) for key, row in smallest]
            found.setdefault(name, []).append((len(rows), tuple(examples)))
        columns_found = {name: _joined(some) for name, some in found.items()}
        return cls(records=int(bad.sum()), columns=columns_found, outside=outside)

    @classmethod
    def sum(cls, several: Iterable[Violations]) -> Violations:
        """Add up counts; their order does not matter."""
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

    def summary(self) -> str | None:
        """Return a sentence without its full stop; None if no record violates the schema."""
        if not self.records:
            return None
        columns = "; ".join(
            f"{name!r} of {count}, such as {', '.join(f'{key}: {why}' for key, why in examples)}"
            for name, (count, examples) in sorted(self.columns.items())
            if count
        )
        return f"{_counted(self.records)} the schema, by column {columns}"


def _joined(several: list[_Found]) -> _Found:
    examples = heapq.nsmallest(_EXAMPLES, (one for _, some in several for one in some))
    return sum(count for count, _ in several), tuple(examples)


def _counted(records: int) -> str:
    return "1 record violates" if records == 1 else f"{records} records violate"


def dataset_violations(
    whole: SliceStatistics, violations: Violations, rules: SchemaRules
) -> Iterator[str]:
    """Yield a sentence, without full stop, for each rule on the whole dataset that is violated."""
    least, most = rules.records
    if not is_within(whole.records, least=least, most=most):
        yield f"{whole.records} records, but the schema allows {_between(least, most)}"
    for name, one in rules.columns.items():
        found = whole.columns[name]
        outside = violations.outside.get(name, 0)
        for violation in _column_violations(found, one, whole.records, outside):
            yield f"column {name!r}: {violation}"


def _column_violations(
    found: ColumnStatistics, rules: ColumnRules, records: int, outside: int
) -> Iterator[str]:
    present = fraction(found.records, records)
    if not is_within(present, least=rules.min_fraction) and not rules.required:
        yield (
            f"{found.records} of {records} records have a value, but the schema requires"
            f" min_fraction {rules.min_fraction:g}"
        )
    if not is_within(found.records, least=rules.min_count):
        yield (
            f"{found.records} records have a value, but the schema requires min_count"
            f" {rules.min_count}"
        )
    inside = found.values - outside
    limits_mass = rules.domain is not None and 0 < rules.mass < 1
    if limits_mass and not is_within(fraction(inside, found.values), least=rules.mass):
        yield (
            f"{inside} of {found.values} values are in its domain, but the schema"
            f" requires min_domain_mass {rules.mass:g}"
        )
    least, most = rules.unique
    distinct = found.distinct.count
    if not is_within(distinct, least=least, most=most):
        yield f"{distinct} different values, but the schema allows {_between(least, most)}"


def _between(least: int, most: int | None) -> str:
    return f"at least {least}" if most is None else f"{least} to {most}"


def drift_violations(comparison: Comparison, rules: SchemaRules, kind: Kind) -> Iterator[str]:
    """Yield a sentence, without full stop, for each column with skew or drift over its limit.

    Columns whose skew or drift is limited, but cannot be computed, are included.
    """
    found: dict[str, list[Distance]] = {}
    for one in comparison.distances:
        found.setdefault(one.column, []).append(one)
    why = dict(comparison.other)
    for name, column in rules.columns.items():
        limit = column.skew if kind == "skew" else column.drift
        if limit == DistanceLimit():
            continue
        for one in found.get(name, ()):
            yield from _over_limit(one, limit)
        if name in why or name not in found:
            reason = f"it {why[name]}" if name in why else comparison.nothing or "it does not exist"
            yield (
                f"the {kind} of column {name!r} cannot be computed, because {reason}, but the"
                " schema limits it"
            )


def drift_above(comparison: Comparison, limits: Mapping[str, float]) -> Iterator[str]:
    """Yield a sentence, without full stop, for each column not known to be within --max-drift.

    limits: {column: limit}; "" is for all other columns.
    """
    if comparison.nothing and min(limits.values()) < _ANY_DRIFT:
        yield f"{comparison.nothing}, so there is no drift to compare with --max-drift"
        return
    others = limits.get("", _ANY_DRIFT)
    for one in comparison.distances:
        limit = limits.get(one.column, others)
        if not is_within(one.distance, most=limit):
            where = f"{one.where!r}" if one.is_of_values else "a missing value"
            before, now = one.shares if one.is_of_values else one.missing
            yield (
                f"column {one.column!r} has a drift of {one.distance:.3g}, but --max-drift allows"
                f" {limit:g}: {where} had a share of {before:.3g}, and has {now:.3g}"
            )
        elif not is_within(one.unlisted, most=limit):
            yield (
                f"column {one.column!r} has values that the statistics do not list, such as texts"
                f" that are long or rare, and the share of one may differ by {one.unlisted:.2g}, so"
                f" its drift cannot be compared with --max-drift {limit:g}"
            )
    for column, why in comparison.other:
        if limits.get(column, others) < _ANY_DRIFT:
            yield f"column {column!r} {why}, so its drift cannot be compared with --max-drift"
    known = sorted(
        {one.column for one in comparison.distances} | {one for one, _ in comparison.other}
    )
    columns = ", ".join(known[:_COLUMNS]) + (", ..." if known[_COLUMNS:] else "")
    for column in sorted({*limits} - {*known, ""}):
        yield (
            f"--max-drift {column}: neither dataset has statistics of a column of this name"
            f"{did_you_mean(column, known)}; the columns are {columns}"
            + (f"; {LABEL!r} holds the classes" if LABEL in known else "")
        )


def _over_limit(one: Distance, limit: DistanceLimit) -> Iterator[str]:
    whose = (
        f"between {one.reference} and {one.records}"
        if one.kind == "skew"
        else "from --compare-with"
    )
    for name, found, most in (
        ("infinity_norm", one.infinity_norm, limit.infinity_norm),
        ("jensen_shannon_divergence", one.jensen_shannon, limit.jensen_shannon),
    ):
        if most is None:
            continue
        if found is None or (
            is_within(found, most=most) and not is_within(one.unlisted, most=most)
        ):
            why = (
                "one of the two has no values"
                if one.infinity_norm is None
                else "statistics do not list texts that are long or rare"
            )
            yield (
                f"the {one.kind} {whose} of column {one.column!r} cannot be computed ({name}),"
                f" because {why}, but the schema limits it to {most:g}"
            )
        elif not is_within(found, most=most):
            yield (
                f"column {one.column!r} has a {one.kind} {whose} of {found:.3g} ({name}), but the"
                f" schema allows at most {most:g}"
            )
