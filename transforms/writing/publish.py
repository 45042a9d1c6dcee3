"""From finished shards to a published dataset, if the ledger closes.

It is a stage of the pipeline, so that a job whose submitter has left publishes itself.
"""

import dataclasses
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import Reject, RunError
from recordmill.format.features import Features
from recordmill.format.manifest import (
    INPUT,
    JOB,
    LABELS,
    REJECTS,
    SCHEMA,
    CopyCounts,
    InputCounts,
    Ledger,
    Manifest,
    ObjectCounts,
    RecordCounts,
    SplitInfo,
    class_weights,
    digest_of,
    file_info,
)
from recordmill.format.schema import schema_text
from recordmill.format.split_names import TRAIN
from recordmill.format.tfds import tfds_files
from recordmill.job import lock, publishing
from recordmill.job.staging import ShardInfo, StagedPart, Staging, Verdict, reject_line, to_json
from recordmill.storage.files import Location
from recordmill.transforms.model.data_type import Encoder
from recordmill.transforms.planning.plan import Plan, nothing_left, refusal_of
from recordmill.transforms.staged.listing import outcome


@dataclasses.dataclass(frozen=True, kw_only=True)
class Publication:
    """What the manifest says beside what the run found out.

    options: those that shape bytes. job: the content of job.json. columns: of the listing.
    detached: nobody waits for the job, so it sweeps up behind itself. notes: what the reader of the
    manifest should know of the input.
    """

    staging: Staging
    encoder: Encoder
    columns: pa.Schema
    options: Mapping[str, Any]
    job: Mapping[str, Any]
    encoders: Mapping[str, str]
    seed: int
    split_names: tuple[str, ...]
    compression: str
    max_reject_fraction: float
    detached: bool = False
    unit: str = INPUT
    notes: tuple[str, ...] = ()


def close_ledger(
    plan: Plan,
    parts: Sequence[StagedPart],
    infos: Sequence[ShardInfo],
    *,
    rejects: int,
    filtered: int,
    unit: str = INPUT,
) -> tuple[Ledger, list[str]]:
    """The ledger, and a sentence for all that does not add up.

    rejects, filtered: of the listing, where no record was made. unit: what a record is.
    """
    rejects += sum(part.unread for part in parts)
    filtered += sum(part.skipped for part in parts)
    kept = sum(part.rows for part in parts)
    # Where Examples hold several records, these are counted, and the Examples beside them.
    packed = [info.packed for info in infos if info.packed is not None]
    packs = sum(info.shard.records for info in infos) if packed else None
    written = sum(info.shard.records - info.copies for info in infos)
    originals = sum(packed) if packed else written
    rejected = plan.rejected + sum(info.rejected for info in infos)
    left_out = plan.filtered + sum(sum(info.filtered.values()) for info in infos)
    held = [info.objects for info in infos if info.objects is not None]
    copies_planned = sum(split.copies for split in plan.splits.values())
    copies_written = sum(info.copies for info in infos)
    ledger = Ledger(
        inputs=InputCounts(
            read=kept + plan.rejected + plan.filtered - sum(part.extra for part in parts),
            rejected=rejects,
            filtered=filtered,
        ),
        records=RecordCounts(
            made=kept + plan.rejected + plan.filtered,
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
        objects=_objects(held) if held else None,
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


def all_rejects(
    listing: Iterable[Reject],
    parts: Iterable[StagedPart],
    infos: Iterable[ShardInfo],
    staging: Staging,
) -> list[Reject]:
    """Every reject once, whatever its copies, sorted by key."""
    checked = [reject for part in parts for reject in outcome(part, staging=staging)[0]]
    written = [reject for info in infos for reject in info.rejects]
    return sorted({*listing, *checked, *written})


def _filtered(
    parts: Iterable[StagedPart], infos: Iterable[ShardInfo], staging: Staging
) -> Counter[str]:
    """{option: records that it left out}, by the checks and at writing, without their copies."""
    counts: Counter[str] = Counter()
    for part in parts:
        counts.update(outcome(part, staging=staging)[1])
    for info in infos:
        counts.update(info.filtered)
    return counts


def publish(plan: Plan, infos: Sequence[ShardInfo], *, publication: Publication) -> None:
    """Publishes the dataset, or leaves a verdict that says why not."""
    staging, parts = publication.staging, plan.parts
    listing = staging.listing()
    assert listing is not None
    rejects = all_rejects(listing.rejects, parts, infos, staging)
    staging.place("rejects.jsonl").write_bytes(b"".join(map(reject_line, rejects)))
    verdict = plan.verdict
    ledger, problems = close_ledger(
        plan,
        parts,
        infos,
        rejects=len(listing.rejects),
        filtered=sum(listing.filtered.values()),
        unit=publication.unit,
    )
    rejected = ledger.inputs.rejected + ledger.records.rejected
    seen = ledger.inputs.read + ledger.inputs.rejected
    if verdict is None:
        verdict = refusal_of(
            rejected,
            seen,
            publication.max_reject_fraction,
            spoilt=sum(part.spoilt for part in parts),
            made=ledger.records.made,
        )
    if verdict is None and problems:
        verdict = Verdict("the ledger does not close: " + "; ".join(problems))
    if verdict is None and not any(info.shard.records for info in infos):
        verdict = nothing_left(seen, rejected=rejected, filtered=_filtered(parts, infos, staging))
    if verdict is not None:
        staging.give_verdict(verdict)
        return
    manifest, files = describe(plan, infos, ledger, rejects, publication)
    publishing.stage_files(staging, manifest, files)
    publishing.publish(staging)


def describe(
    plan: Plan,
    infos: Sequence[ShardInfo],
    ledger: Ledger,
    rejects: Sequence[Reject],
    publication: Publication,
) -> tuple[Manifest, dict[str, bytes]]:
    """The manifest, and the files beside the shards."""
    context = plan.context
    declared = publication.encoder.features(publication.columns, context)
    labels = context.labels if ledger.packs is None else ()  # a pack is of no class
    features: Features = {context.name(name): feature for name, feature in declared.items()}
    splits = {
        name: SplitInfo.of(info.shard for info in infos if info.split == name)
        for name in dict.fromkeys([*publication.split_names, *plan.splits])
    }
    originals: Counter[str] = Counter(dict.fromkeys(labels, 0))
    for info in infos:
        if info.split == TRAIN:
            originals.update(info.originals)
    tfds = tfds_files(
        features=features,
        labels=labels,
        label_offset=context.label_offset,
        compression=publication.compression,
        splits=splits,
    )
    files = {
        **tfds.files,
        REJECTS: b"".join(map(reject_line, rejects)),
        SCHEMA: schema_text(features, labels=labels, label_offset=context.label_offset).encode(),
    }
    for name, artifact in {**context.artifacts, **plan.files}.items():
        if artifact.published:
            files[name] = Location.parse(artifact.path).read_bytes()
    if labels:
        files[LABELS] = "".join(f"{label}\n" for label in labels).encode()
    manifest = Manifest(
        digest=digest_of(splits),
        seed=publication.seed,
        options=publication.options,
        features=features,
        labels=labels,
        class_weights=class_weights(originals),
        splits=splits,
        ledger=ledger,
        encoders=publication.encoders,
        files={name: file_info(content) for name, content in files.items()},
        fill_rates=_fill_rates(infos),
        notes=(*publication.notes, *plan.notes, *tfds.notes),
    )
    return manifest, files | {JOB: to_json(publication.job) + b"\n"}


def _objects(held: Sequence[tuple[int, int]]) -> ObjectCounts:
    made, written = (sum(one[n] for one in held) for n in (0, 1))
    return ObjectCounts(made=made, written=written, dropped=made - written)


def _fill_rates(infos: Iterable[ShardInfo]) -> dict[str, float]:
    used: Counter[str] = Counter()
    room: Counter[str] = Counter()
    for info in infos:
        if info.filled is not None:
            used[info.split] += info.filled[0]
            room[info.split] += info.filled[1]
    return {split: used[split] / room[split] for split in sorted(room) if room[split]}


def _publish(
    _: bytes,
    plan: Plan,
    infos: Sequence[ShardInfo],
    publication: Publication,
) -> None:
    staging = publication.staging
    publish(plan, infos, publication=publication)
    if publication.detached:
        verdict = staging.verdict()
        if verdict is None:
            staging.sweep()
        lock.end_detached(staging.root.parent)
        if verdict is not None:  # who asks the engine how the job is must not hear: well
            raise RunError(verdict.message)


@dataclasses.dataclass(eq=False)
class Publish(beam.PTransform):
    """Shard infos in, the dataset out: after the last shard, once.

    plan: a side input.
    """

    publication: Publication
    plan: beam.pvalue.AsSideInput

    def __post_init__(self) -> None:
        super().__init__()

    def expand(self, infos: beam.PCollection[ShardInfo]) -> beam.PCollection[None]:
        # An impulse with a side input: a GroupByKey over nothing would never fire.
        return (
            infos.pipeline
            | "Once" >> beam.Impulse()
            | "Publish"
            >> beam.Map(
                _publish,
                self.plan,
                beam.pvalue.AsList(infos),
                publication=self.publication,
            )
        )
