"""The ledger of a dataset, added up from its plan and its finished shards."""

from collections.abc import Iterable, Sequence

from recordmill.format.ledger import (
    INPUT,
    CopyCounts,
    FilterReasons,
    InputCounts,
    Ledger,
    ObjectCounts,
    RecordCounts,
    add_counted,
)
from recordmill.job.staging import ShardInfo, StagedPart, inputs_of
from recordmill.transforms.planning.plan import Plan


def close_ledger(
    plan: Plan,
    parts: Sequence[StagedPart],
    infos: Sequence[ShardInfo],
    *,
    rejects: int,
    filtered: int,
    unit: str = INPUT,
    reasons: FilterReasons | None = None,
) -> tuple[Ledger, list[str]]:
    """Return the ledger, and a sentence for each of its sums that is not right.

    rejects, filtered: numbers of inputs that the listing excluded. unit: name of a record in the
    ledger. reasons: for filtered inputs and records.
    """
    rejects += sum(part.unread for part in parts)
    filtered += sum(part.skipped for part in parts)
    made = sum(part.rows for part in parts) + plan.rejected + plan.filtered
    # If Examples hold several records, the ledger counts these, and the Examples separately.
    packed = [info.packed for info in infos if info.packed is not None]
    packs = sum(info.shard.records for info in infos) if packed else None
    written = sum(info.shard.records - info.copies for info in infos)
    originals = sum(packed) if packed else written
    rejected = plan.rejected + sum(info.rejected for info in infos)
    left_out = plan.filtered + sum(sum(info.filtered.values()) for info in infos)
    copies_planned = sum(split.copies for split in plan.splits.values())
    copies_written = sum(info.copies for info in infos)
    ledger = Ledger(
        inputs=InputCounts(
            read=inputs_of(parts, records=made),
            rejected=rejects,
            filtered=filtered,
        ),
        records=RecordCounts(
            made=made,
            written=originals,
            rejected=rejected,
            filtered=left_out,
            dropped=sum(split.dropped for split in plan.splits.values()),
        ),
        copies=CopyCounts(
            planned=copies_planned,
            written=copies_written,
            rejected=sum(info.planned_copies for info in infos) - copies_written,
        ),
        unit=unit,
        packs=packs,
        objects=_objects(infos),
        filtered=reasons,
    )
    problems = ledger.open_items()
    for name, split in plan.splits.items():
        found = [info for info in infos if info.split == name]
        if sorted(info.number for info in found) != list(range(split.shards)):
            problems.append(f"{split.shards} shards of {name} were planned, {len(found)} came back")
        planned = sum(info.planned for info in found)
        if planned != split.records:
            problems.append(
                f"{split.records} records of {name} were planned, {planned} reached its shards"
            )
    return ledger, problems


def _objects(infos: Iterable[ShardInfo]) -> ObjectCounts | None:
    held = [info.objects for info in infos if info.objects is not None]
    if not held:
        return None
    made, written = (sum(one[n] for one in held) for n in (0, 1))
    reasons = {reason: count for reason, (count, _) in dropped_objects(infos).items()}
    return ObjectCounts(made=made, written=written, dropped=sum(reasons.values()), **reasons)


def dropped_objects(infos: Iterable[ShardInfo]) -> dict[str, tuple[int, str]]:
    """Return {reason: (number of dropped objects, smallest key of a record with one)}."""
    found: dict[str, tuple[int, str]] = {}
    for info in infos:
        found = add_counted(found, info.dropped_objects)
    return found
