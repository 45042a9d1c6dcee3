"""The ledger of a dataset as lines of text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import RenderableType
from rich.text import Text

from recordmill.format.content_report import ContentReport
from recordmill.format.ledger import INPUT, WINDOW, Ledger
from recordmill.format.manifest import Manifest
from recordmill.notes import count_of
from recordmill.pipelines.terminal.tables import new_table
from recordmill.printable import printable

_COLUMNS = 3  # compared ones that are named, at most
_ROWS_LEFT = " (in no window, equal to another row, blank, or left out by an option)"


def ledger(manifest: Manifest, compared: Sequence[str] = ()) -> Text:
    """Return a line each for inputs, records and copies, such as `9 inputs: 8 read, 1 rejected`.

    The number before the colon is the sum of the numbers after it, except in the last line, on
    records of equal content. compared: columns that are the content of records made of rows.
    """
    inputs, records = manifest.ledger.inputs, manifest.ledger.records
    copies, unit = manifest.ledger.copies, manifest.ledger.unit
    reasons = manifest.ledger.filtered
    rows_left = _ROWS_LEFT if unit == WINDOW and reasons is None else ""
    listed = inputs.read + inputs.rejected + inputs.filtered
    sums = [
        _sum(
            count_of(listed, "input"),
            {
                "read": inputs.read,
                "rejected": inputs.rejected,
                f"filtered{rows_left}": inputs.filtered,
            },
        ),
        _sum(
            count_of(records.made, "record" if unit == INPUT else unit),
            {
                "written": records.written,
                "rejected": records.rejected,
                "filtered": records.filtered,
                "dropped": records.dropped,
            },
        ),
    ]
    if manifest.ledger.packs is not None:
        sums.append(count_of(manifest.ledger.packs, "pack"))
    if (objects := manifest.ledger.objects) is not None:
        written = {"written": objects.written, "dropped": objects.dropped}
        sums.append(_sum(count_of(objects.made, "object"), written))
    if copies.planned:
        planned = f"{copies.planned:,} cop{'y' if copies.planned == 1 else 'ies'}"
        sums.append(_sum(planned, {"written": copies.written, "rejected": copies.rejected}))
    if manifest.content is not None:
        sums.append(_compared(manifest.content, compared))
    return Text("\n".join(sums))


def filtered_table(ledger: Ledger) -> RenderableType | None:
    """Return a table of filtered inputs and records by reason; None if there are none."""
    reasons = ledger.filtered
    if reasons is None or not (reasons.inputs or reasons.records):
        return None
    table = new_table("filter reason", "inputs", "records")
    for reason in sorted({*reasons.inputs, *reasons.records}):
        counts = (reasons.inputs.get(reason, 0), reasons.records.get(reason, 0))
        table.add_row(printable(reason), *(f"{count:,}" for count in counts))
    return table


def _compared(report: ContentReport, columns: Sequence[str]) -> str:
    """Return the line on records of equal content."""
    repeats = report.repeated.records - report.repeated.contents
    found = [f"{repeats:,} repeat{'s' if repeats == 1 else ''} another"] if repeats else []
    wrong = {
        "shared by several splits": report.leaks.contents,
        "with several labels": report.conflicts.contents,
    }
    found += [f"{count:,} {what}" for what, count in wrong.items() if count]
    found += [] if any(wrong.values()) else ["no leak", "no conflict"]
    by = printable(", ".join(columns)) or "content"
    if len(columns) > _COLUMNS:
        first = columns[: _COLUMNS - 1]
        by = f"{printable(', '.join(first))} and {len(columns) - len(first)} more"
    return f"{count_of(report.records, 'record')} compared by {by}: {', '.join(found)}"


def _sum(total: str, parts: Mapping[str, int]) -> str:
    counts = [f"{count:,} {what}" for what, count in parts.items() if count]
    return f"{total}: {', '.join(counts)}" if counts else total
