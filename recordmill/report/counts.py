"""The counts of a report: of classes, and of the stages from inputs to shards."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Mapping, Sequence

from recordmill.checking.inspection import Summary
from recordmill.format.ledger import Ledger
from recordmill.format.manifest import Manifest
from recordmill.notes import repeats_many_times

_MOST = 20  # classes shown in a table; the others are summed up
_URGENT = 10  # classes that need attention shown, at most


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassRow:
    """Counts of one class: {split: (records, of which copies)}. number: integer label.

    before: fraction of the labelled records of train that had this class before balancing; None if
      balancing did not change the fractions. is_hidden: whether a short table omits it.
    """

    name: str
    number: int | None
    counts: Mapping[str, tuple[int, int]]
    weight: float | None
    before: float | None = None
    is_hidden: bool = False

    @property
    def total(self) -> int:
        """Records of all splits."""
        return sum(records for records, _ in self.counts.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerStage:
    """A stage of the ledger: its number, and the numbers that left there, by reason."""

    name: str
    count: int
    left: Sequence[tuple[str, int]]

    @property
    def text(self) -> str:
        """The name for this number: `1 record`, `2 records`."""
        first, _, rest = self.name.partition(" ")
        if self.count == 1:
            first = "copy" if first == "copies" else first.removesuffix("s")
        return f"{first} {rest}".rstrip()


def class_rows(summary: Summary) -> list[ClassRow]:
    """Return the classes in the order of their numbers, then the unlabelled records."""
    manifest = summary.manifest
    changed = manifest.source_weights != manifest.class_weights
    before = _fractions(manifest.source_weights) if changed else {}
    rows = [
        ClassRow(
            name=label,
            number=number,
            counts={
                name: (split.classes[label].records, split.classes[label].copies)
                for name, split in summary.splits.items()
            },
            weight=manifest.class_weights.get(label),
            before=before.get(label),
        )
        for number, label in enumerate(manifest.labels, start=manifest.label_offset)
    ]
    unlabelled = ClassRow(
        name="(no class)",
        number=None,
        counts={
            name: (split.unlabelled.records, split.unlabelled.copies)
            for name, split in summary.splits.items()
        },
        weight=None,
    )
    if not any(row.total for row in rows):  # the classes are those of boxes, if any
        return [unlabelled]
    labelled = {name for row in rows for name, (records, _) in row.counts.items() if records}
    urgent = {
        row.name
        for row in rows
        if any(not row.counts[name][0] for name in labelled)
        or any(repeats_many_times(one, one - copies) for one, copies in row.counts.values())
    }
    names = [row.name for row in sorted(rows, key=lambda row: -row.total)]
    hidden = {name for _, some, _ in table_parts(names, urgent) for name in some}
    rows = [dataclasses.replace(row, is_hidden=row.name in hidden) for row in rows]
    return [*rows, unlabelled] if unlabelled.total else rows


def table_parts(
    rows: Sequence[str | None], urgent: Collection[str | None]
) -> Iterator[tuple[Sequence[str | None], Sequence[str | None], str]]:
    """Divide a long table of classes into parts.

    Args:
      rows: All classes, the largest first; None stands for records without a class.
      urgent: Classes that need attention, which come first.

    Yields:
      (classes to show, further classes to sum up in a line, name of these in the line).
    """
    classes = [label for label in rows if label is not None]
    if len(classes) <= _MOST + 1:  # hiding a single row would take as much space as showing it
        yield rows, [], ""
        return
    first = [label for label in classes if label in urgent]
    others = [label for label in classes if label not in urgent]
    shown = _URGENT + (len(first) == _URGENT + 1)
    yield [label for label in rows if label is None], [], ""
    yield first[:shown], first[shown:], "more that need attention"
    most = _MOST - min(len(first), shown)
    ends = most // 2 if len(others) > most + 1 else len(others)
    yield others[:ends], others[ends : len(others) - ends], "more"
    yield others[max(ends, len(others) - ends) :], [], ""


def _fractions(weights: Mapping[str, float]) -> dict[str, float]:
    """Return the inverse of `format.manifest.class_weights`: the fraction of each class."""
    present = sum(weight > 0 for weight in weights.values())
    return {label: 1 / (present * one) if one > 0 else 0.0 for label, one in weights.items()}


def kind_of(manifest: Manifest) -> str:
    """Return the data type of a dataset, or `adopted`."""
    return "adopted" if manifest.command == "adopt" else manifest.command


def stages(ledger: Ledger, *, shards: int) -> list[LedgerStage]:
    """Return the stages from inputs to shards; the numbers of each add up to that before it."""
    inputs, records, copies = ledger.inputs, ledger.records, ledger.copies
    unit = "records" if ledger.unit == "input" else f"{ledger.unit}s"

    def left(**counts: int) -> list[tuple[str, int]]:
        return [(reason, count) for reason, count in counts.items() if count]

    found = [
        LedgerStage(
            name="inputs",
            count=inputs.read + inputs.rejected + inputs.filtered,
            left=left(rejected=inputs.rejected, filtered=inputs.filtered),
        ),
        LedgerStage(
            name=unit,
            count=records.made,
            left=left(
                rejected=records.rejected, filtered=records.filtered, dropped=records.dropped
            ),
        ),
    ]
    if copies.planned:
        found.append(
            LedgerStage(
                name="copies added", count=copies.planned, left=left(rejected=copies.rejected)
            )
        )
    written = records.written + copies.written
    if ledger.packs is not None:
        found.append(LedgerStage(name="texts packed", count=written, left=()))
        written = ledger.packs
    return [
        *found,
        LedgerStage(name="records written", count=written, left=()),
        LedgerStage(name="shards", count=shards, left=()),
    ]
