"""Notes that follow from the finished shards: lost classes, image depths, boxes."""

from collections.abc import Sequence

from recordmill.format.content_report import ContentReport
from recordmill.job.staging import ShardInfo
from recordmill.notes import Note
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.writing.closed_ledger import dropped_objects
from recordmill.transforms.writing.depth_notes import depth_notes
from recordmill.transforms.writing.encoder_notes import encoder_notes
from recordmill.transforms.writing.leak_remedies import leak_remedies

_SHOWN = 3  # classes of a split in a note
_DROPPED = {
    "no_area": "without area",
    "outside": "outside the written image",
    "too_small": "too small (--min-box)",
    "crossing": "crossing its edge (--boxes drop)",
}


def written_notes(
    plan: Plan, infos: Sequence[ShardInfo], report: ContentReport | None, *, run: RunSpec
) -> tuple[Note, ...]:
    """Return the notes that follow from the finished shards. report: on equal contents."""
    return (
        *_lost_classes(plan, infos),
        *depth_notes(info.reduced for info in infos),
        *encoder_notes(info.noted for info in infos),
        *_box_notes(infos),
        *(() if report is None else report.notes(leak_remedies(run))),
    )


def _lost_classes(plan: Plan, infos: Sequence[ShardInfo]) -> tuple[Note, ...]:
    """Return a note on the classes that have planned records in a split, but no written ones."""
    if any(info.packed is not None for info in infos):
        return ()  # packed Examples have no class
    parts = []
    for name, split in plan.splits.items():
        written = {label for info in infos if info.split == name for label in info.originals}
        lost = [label for label in split.after if label is not None and label not in written]
        if lost:
            some = ", ".join(map(repr, sorted(lost)[:_SHOWN]))
            more = ", ..." if len(lost) > _SHOWN else ""
            parts.append(f"{name} has no record of {some}{more}")
    if not parts:
        return ()
    text = f"{'; '.join(parts)}: all that were planned were rejected or dropped at writing"
    return (Note("empty-class", text),)


def _box_notes(infos: Sequence[ShardInfo]) -> tuple[Note, ...]:
    """Return a note on the dropped boxes, except those that only augmentation drops."""
    found = dropped_objects(infos)
    parts = [
        f"{found[reason][0]:,} {words}, such as one of {found[reason][1]}"
        for reason, words in _DROPPED.items()
        if reason in found
    ]
    if not parts:
        return ()
    count = sum(found[reason][0] for reason in _DROPPED if reason in found)
    augmented = found["augmented"][0] if "augmented" in found else 0
    more = f"; augmentation dropped {augmented:,} more" if augmented else ""
    made = sum(info.objects[0] for info in infos if info.objects is not None)
    return (
        Note(
            "boxes",
            f"{count:,} of {made:,} boxes, those of copies included, were dropped:"
            f" {'; '.join(parts)}{more}",
        ),
    )
