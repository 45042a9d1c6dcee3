"""The content report: records of equal content in several splits, or under several labels."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Annotated, Any

from recordmill.format.typed_json import Checked, Count, FieldError, Presence, StatedCount, read_as
from recordmill.notes import Note, count_of

LEAKS = "leaks.jsonl"
DUPLICATES = "duplicates.jsonl"
NEAR_DUPLICATES = "near_duplicates.jsonl"
LISTED = 100_000  # contents in leaks.jsonl, at most
EXAMPLES = 5  # contents in the manifest


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContentCounts:
    """A number of contents, and of the records that have them, copies not counted."""

    contents: StatedCount = 0
    records: StatedCount = 0

    def __add__(self, other: ContentCounts) -> ContentCounts:
        return ContentCounts(
            contents=self.contents + other.contents, records=self.records + other.records
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class _ExampleRecord:
    """Record of an example, as far as readers use it."""

    key: str
    split: str
    label: str | None
    source: str | None = None


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Example:
    records: tuple[_ExampleRecord, ...]


def _checked_example(example: Mapping[str, Any]) -> Mapping[str, Any]:
    if not read_as(_Example, example, open_ended=True).records:
        raise FieldError("expected records of equal content, got none", ".records")
    return example


@dataclasses.dataclass(frozen=True, kw_only=True)
class ContentReport:
    """Counts of records by their content.

    records: number of records with a hash of their content, copies not counted.
    repeated: contents that several records have, whatever their splits and labels.
    leaks: contents in several splits. splits: {names of these splits, joined by "+": contents}.
    conflicts: contents with several labels.
    examples: the first lines of leaks.jsonl, as data: the hash of a content in hex, and the
      records that have it, with key, label, split and, if the key is a hash, source (file and row).
    """

    records: StatedCount = 0
    repeated: Annotated[ContentCounts, Presence.REQUIRED] = ContentCounts()
    leaks: Annotated[ContentCounts, Presence.REQUIRED] = ContentCounts()
    splits: Annotated[Mapping[str, Count], Presence.REQUIRED] = dataclasses.field(
        default_factory=dict
    )
    conflicts: Annotated[ContentCounts, Presence.REQUIRED] = ContentCounts()
    examples: Annotated[
        tuple[Annotated[Mapping[str, Any], Checked(_checked_example)], ...], Presence.REQUIRED
    ] = ()

    @classmethod
    def sum(cls, reports: Iterable[ContentReport]) -> ContentReport:
        """Add up reports on different contents; those with smaller hashes come first."""
        records, splits = 0, Counter[str]()
        repeated = leaks = conflicts = ContentCounts()
        examples: list[Mapping[str, Any]] = []
        for report in reports:
            records += report.records
            repeated += report.repeated
            leaks += report.leaks
            splits.update(report.splits)
            conflicts += report.conflicts
            examples += report.examples
        return cls(
            records=records,
            repeated=repeated,
            leaks=leaks,
            splits=dict(sorted(splits.items())),
            conflicts=conflicts,
            examples=tuple(examples[:EXAMPLES]),
        )

    def notes(self, remedies: Sequence[str]) -> tuple[Note, ...]:
        """Return notes on leaks and conflicts. remedies: options that prevent leaks."""
        notes = []
        if self.leaks.contents:
            where = ", ".join(
                f"{count:,} in {_listed(names.split('+'))}" for names, count in self.splits.items()
            )
            advice = f", {remedies[0]} prevents it" if remedies else ""
            advice += "".join(f", and so does {one}" for one in remedies[1:])
            text = (
                f"{_records(self.leaks)} in several splits ({where}){self._example('split')}:"
                f" {LEAKS} lists them{advice}"
            )
            notes.append(Note("leak", text))
        if self.conflicts.contents:
            text = (
                f"{_records(self.conflicts)} under several labels{self._example('label')}: {LEAKS}"
                " lists them, --dedup drop leaves them out"
            )
            notes.append(Note("conflict", text))
        return tuple(notes)

    def _example(self, field: str) -> str:
        """Return an example of two records of one content that differ in a field."""
        for example in self.examples:
            one, *others = example["records"]
            for other in others:
                if other[field] != one[field] and None not in (other[field], one[field]):
                    names = [_name(each) for each in (one, other)]
                    return f", such as {names[0]} ({one[field]}) and {names[1]} ({other[field]})"
        return ""

    def to_json(self) -> dict[str, Any]:
        return dataclasses.asdict(self)


def _records(counts: ContentCounts) -> str:
    return f"{counts.records:,} records share {count_of(counts.contents, 'content')}"


def _listed(names: list[str]) -> str:
    """Return names as text: `a, b and c`."""
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _name(record: Mapping[str, Any]) -> str:
    """Return the name of a record for people: its file and row if its key may be a hash."""
    source = str(record.get("source", ""))
    in_archive = source.rpartition("#")[0].lower().endswith((".tar", ".zip"))
    return str(record["key"]) if not source or in_archive else source
