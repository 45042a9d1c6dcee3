"""Differences between the records of two datasets, as they are reported."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from recordmill.notes import count_of

Kind = Literal["added", "removed", "moved", "relabelled", "changed", "copies"]
KINDS: tuple[Kind, ...] = ("added", "removed", "moved", "relabelled", "changed", "copies")


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordState:
    """A record in one of the datasets.

    number: of the record in its split, as for `recordmill inspect --record`. copies: number of its
    copies. source: FILE#ROW, if the index has it.
    """

    split: str
    number: int
    label: str | None
    copies: int
    source: str | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordExample:
    """A record that differs; None where it does not exist."""

    key: str
    before: RecordState | None
    after: RecordState | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class KindDiff:
    """Records that differ in one way: their number, and those with the smallest hashes of keys.

    pairs: {(before, after): number} of the splits of moved records, or the classes of relabelled
    ones, the most frequent first. features: {feature: number} of the changed records that have
    another value of it stored.
    """

    count: int
    examples: Sequence[RecordExample] = ()
    pairs: Mapping[tuple[str | None, str | None], int] = dataclasses.field(default_factory=dict)
    features: Mapping[str, int] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordDiff:
    """Differences between records without copies. A record can differ in several ways.

    same: number of records without a difference. uncompared: number of records in both datasets
    whose contents could not be compared. by: "content" if contents are compared by the hashes in
    the indexes, "frames" if by the bytes of the records. uncompared_because: options and libraries
    that differ, so that features beside the hashed contents, such as masks, were not compared.
    """

    kinds: Mapping[Kind, KindDiff]
    same: int
    uncompared: int
    by: Literal["content", "frames"]
    uncompared_because: tuple[str, ...] = ()

    @property
    def not_compared(self) -> list[str]:
        """Sentences on contents that could not be compared, and so may have changed."""
        found = []
        if self.uncompared:
            found.append(f"{count_of(self.uncompared, 'record')} could not be compared")
        if self.uncompared_because:
            why = ", ".join(self.uncompared_because)
            found.append(f"features that no hash covers were not compared, because {why} differ")
        return found

    def to_json(self) -> dict[str, Any]:
        """Return the differences as plain data."""
        kinds: dict[str, dict[str, Any]] = {}
        for kind, one in self.kinds.items():
            kinds[kind] = {
                "count": one.count,
                "examples": [dataclasses.asdict(example) for example in one.examples],
            }
            if one.pairs:
                kinds[kind]["pairs"] = [
                    {"before": pair[0], "after": pair[1], "count": count}
                    for pair, count in one.pairs.items()
                ]
            if one.features:
                kinds[kind]["features"] = dict(one.features)
        return {
            **kinds,
            "same": self.same,
            "uncompared": self.uncompared,
            "compared_by": self.by,
            "features_uncompared_because": list(self.uncompared_because),
        }
