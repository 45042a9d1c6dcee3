"""Counts of one Example that its index does not have, so that a later run can reuse it."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Self

from recordmill import strict_json
from recordmill.format.ledger import Bits, Counted, Level, Noted, Reduced
from recordmill.format.typed_json import Count, parse_json, read_as


@dataclasses.dataclass(frozen=True, kw_only=True)
class ExampleFacts:
    """Facts about one Example.

    objects: (objects of its record, objects in it); None without objects.
    dropped_objects: {reason: number of dropped objects}.
    reduced: (highest level, bits) of an image of which not all bits were read, as for
      `Reduced.one`; None if all were read.
    noted: {finding that notes report: how often the Example has it}.
    """

    objects: tuple[Count, Count] | None = None
    dropped_objects: Mapping[str, Count] = dataclasses.field(default_factory=dict)
    reduced: tuple[Level, Bits] | None = None
    noted: Mapping[Noted, Count] = dataclasses.field(default_factory=dict)

    def to_text(self) -> str | None:
        """Return the facts as JSON; None if there are none."""
        found = {name: value for name, value in vars(self).items() if value}
        return strict_json.to_text(found, sort_keys=True, compact=True) if found else None

    @classmethod
    def from_text(cls, text: str | None) -> Self:
        """Return the inverse of `to_text`. Raises ValueError."""
        return cls() if text is None else read_as(cls, parse_json(text.encode()))

    def reduced_of(self, key: str) -> Reduced:
        """Return the counts of reduced images for a record of this key."""
        return Reduced() if self.reduced is None else Reduced.one(key, *self.reduced)

    def noted_of(self, key: str) -> Counted:
        """Return the counts of findings that notes report, for a record of this key."""
        return {reason: (count, key) for reason, count in self.noted.items()}
