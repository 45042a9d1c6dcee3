"""Notes on records of the same or similar content, and on copies in the input."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping

from recordmill.job.staging import StagedPart, Staging
from recordmill.notes import Note
from recordmill.transforms.checks.near_matches import GroupCounts, read_summary
from recordmill.transforms.sources.row_formats.reading.row_file import COPIES
from recordmill.transforms.staged.listing import read_left_out, read_skipped

_SHOWN = 3  # classes, or splits, in the note


def duplicate_notes(parts: Iterable[StagedPart], staging: Staging) -> Iterator[Note]:
    """Yield a note on groups of near duplicates, and one on records that were left out.

    The latter counts them by reason, split and class.
    """
    reasons: Counter[str] = Counter()
    repeated: Counter[str] = Counter()
    splits: Counter[str] = Counter()
    classes: Counter[str] = Counter()
    for part in parts:
        for line in read_left_out(part, staging=staging):
            reasons[str(line["reason"])] += 1
            if line["same_as"] is not None:
                repeated[line["same_as"]] += 1
            if line["split"] is not None:
                splits[line["split"]] += 1
            if line["label"] is not None:
                classes[line["label"]] += 1
    yield from _groups(read_summary(staging))
    if not reasons:
        return
    were = "record was" if reasons.total() == 1 else "records were"
    text = f"{reasons.total():,} {were} left out: {counted(reasons)}"
    if repeated:
        [(key, most)] = sorted(repeated.items(), key=lambda item: (-item[1], item[0]))[:1]
        if len(repeated) == 1:
            text += f"; of the duplicates, {key!r} stays"
        else:
            kept = f"{len(repeated):,} records that stay"  # two or more
            text += f"; they repeat {kept}, {key!r} most often ({most:,})"
    for what, counts in (("split", splits), ("class", classes)):
        if counts:
            text += f"; by {what}: {counted(counts, shown=_SHOWN)}"
    yield Note("duplicates", f"{text}; duplicates.jsonl lists them")


def copies_notes(
    parts: Iterable[StagedPart], staging: Staging, *, listed: int, are_made: bool
) -> Iterator[Note]:
    """Yield a note on copies of records in datasets of the input, which are not read.

    listed: number of copies that the listing left out. are_made: whether balancing makes copies in
      this run.
    """
    count = listed + sum(read_skipped(part, staging=staging).get(COPIES, 0) for part in parts)
    if count:
        were = "copy of a record was" if count == 1 else "copies of records were"
        again = "balancing makes its own" if are_made else "--balance oversample makes copies again"
        yield Note(
            "copies",
            f"{count:,} {were} left out, which balancing had added to a dataset of the input:"
            f" {again}; recordmill adopt keeps all records of its files",
        )


def _groups(counts: GroupCounts | None) -> Iterator[Note]:
    """Yield a note on the groups of near duplicates, if there are any."""
    if counts is not None and counts.groups:
        groups = "group" if counts.groups == 1 else "groups"
        yield Note(
            "near-duplicates",
            f"{counts.records:,} records make {counts.groups:,} {groups} of near duplicates, the"
            f" largest of {counts.largest:,} records; near_duplicates.jsonl lists the pairs",
        )


def left_out_of_splits(parts: Iterable[StagedPart], staging: Staging) -> dict[str, Counter[str]]:
    """Return {split of the input: {reason: records that were left out}}."""
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for part in parts:
        for line in read_left_out(part, staging=staging):
            if line["split"] is not None:
                found[line["split"]][str(line["reason"])] += 1
    return dict(found)


def counted(counts: Mapping[str, int], *, shown: int | None = None) -> str:
    """Return names with their counts, largest first. shown: number of names; None for all."""
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    some = ", ".join(f"{name} {count:,}" for name, count in ordered[:shown])
    return f"{some}, ..." if shown is not None and len(ordered) > shown else some
