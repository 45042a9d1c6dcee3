"""The manifest and the other files of a dataset, from its finished shards."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

import pyarrow as pa

from recordmill.errors import Reject, RunError
from recordmill.format.content_report import DUPLICATES, LEAKS, NEAR_DUPLICATES, ContentReport
from recordmill.format.file_info import file_info
from recordmill.format.file_names import index_of
from recordmill.format.ledger import FilterReasons, Ledger
from recordmill.format.manifest import (
    JOB,
    LABELS,
    MANIFEST,
    REJECTS,
    SCHEMA,
    Manifest,
    SplitInfo,
    class_weights,
    digest_of,
    load,
)
from recordmill.format.metadata_files import add_metadata
from recordmill.format.schema import schema_text
from recordmill.format.split_names import TRAIN
from recordmill.format.tfds import tfds_files
from recordmill.job import publishing
from recordmill.job.staging import ShardInfo, Staging, Verdict, reject_line, to_json
from recordmill.notes import Note, first_failing, join_left_unread
from recordmill.storage.files import Location, shown
from recordmill.tfrecord.features import Features
from recordmill.transforms.checks.near_matches import read_lines
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.planning.refusals import nothing_left, refusal, refusal_of
from recordmill.transforms.staged.listing import (
    NO_LISTING,
    excluded_from,
    read_left_out,
    read_skipped,
)
from recordmill.transforms.staged.parts import read_columns
from recordmill.transforms.writing.closed_ledger import close_ledger
from recordmill.transforms.writing.declared_features import expect_declared_features
from recordmill.transforms.writing.shards.shard_recipes import all_have_recipes, assemble_recipes
from recordmill.transforms.writing.written_notes import written_notes

_OF_CLASSES = ("label-map", "exclude-labels")  # options whose reasons name a class


def expect_copies_as_records(infos: Iterable[ShardInfo], staging: Staging) -> None:
    """Check that no copy was rejected of a record that was written.

    Both have the same bytes, so only a fault of the machine makes such a difference.

    Raises:
      RunError: there is such a copy; the shards with rejects will be written again.
    """
    broken = [info for info in infos if info.rejects]
    rejects = {reject.key: reject for info in broken for reject in info.rejects}
    if len(rejects) <= sum(info.rejected for info in broken):
        return
    for info in broken:
        staging.place(f"info/{info.shard.file}.json").delete(missing_ok=True)
    one = rejects[min(rejects)]
    raise RunError(
        "copies of written records were rejected, which only a fault of the machine can cause, such"
        f" as faulty memory ({len(rejects)} records have rejected copies, one is {one.key!r}:"
        f" {one.detail}): run the same command again to write their shards again"
    )


def _by_option(counts: Mapping[str, int]) -> dict[str, int]:
    """Return {option or reason: count}, sorted, without the classes that options name."""
    found: Counter[str] = Counter()
    for reason, count in counts.items():
        option = reason.partition(" ")[0]
        found[option if option in _OF_CLASSES else reason] += count
    return {reason: count for reason, count in sorted(found.items()) if count}


def publish_dataset(
    plan: Plan,
    infos: Sequence[ShardInfo],
    content: tuple[ContentReport | None, bytes],
    *,
    run: RunSpec,
) -> Manifest | None:
    """Publish the dataset and return its manifest.

    content: the report on contents, and the content of leaks.jsonl.

    If the dataset is refused, the verdict is written into staging, and None is returned.
    """
    staging, parts = run.staging, plan.parts
    expect_copies_as_records(infos, staging)
    listing = staging.listing() or NO_LISTING
    checked, filtered = excluded_from(parts, staging=staging)
    # A record is listed once, whatever its copies. Inputs are listed as often as the ledger counts
    # them, such as a missing file that several rows name.
    written = {reject for info in infos for reject in info.rejects}
    rejects = sorted([*listing.rejects, *checked, *written])
    staging.write_rejects(rejects)
    verdict = plan.verdict
    for info in infos:
        filtered.update(info.filtered)
    skipped: Counter[str] = Counter(listing.filtered)
    for part in parts:
        skipped.update(read_skipped(part, staging=staging))
    ledger, problems = close_ledger(
        plan,
        parts,
        infos,
        rejects=len(listing.rejects),
        filtered=sum(listing.filtered.values()),
        unit=run.unit,
        reasons=FilterReasons(inputs=_by_option(skipped), records=_by_option(filtered)),
    )
    examples = rejects if run.is_custom else None
    rejected = ledger.inputs.rejected + ledger.records.rejected
    seen = ledger.inputs.read + ledger.inputs.rejected
    if verdict is None:
        verdict = refusal_of(
            rejected,
            seen,
            run.max_reject_fraction,
            invalid=sum(part.invalid for part in parts),
            records=ledger.records.rejected,
            made=ledger.records.made,
            unit=run.unit,
            examples=examples,
        )
    if verdict is None and ledger.copies.planned:
        verdict = refusal(
            ledger.records.rejected + ledger.copies.rejected,
            ledger.records.made + ledger.copies.planned,
            run.max_reject_fraction,
            noun="records and their copies",
            examples=examples,
        )
    if verdict is None and problems:
        verdict = Verdict("the ledger does not close: " + "; ".join(problems))
    if verdict is None and not any(info.shard.records for info in infos):
        verdict = nothing_left(seen, rejected=rejected, filtered=filtered)
    notes = written_notes(plan, infos, content[0], run=run)
    if verdict is None and (message := first_failing(notes, run.fail_on)):
        verdict = Verdict(message)
    if verdict is not None:
        staging.write_verdict(verdict)
        return None
    manifest, files = build_manifest(plan, infos, ledger, rejects, content, run=run)
    if run.is_custom and not run.overwrite and (staging.output / MANIFEST).exists():
        found = load(staging.output)
        if found.digest == manifest.digest:
            return found
        staging.write_verdict(
            Verdict(
                f"{shown(staging.output)} holds a dataset of other records or options: choose"
                " another output, or replace the dataset with overwrite=True"
            )
        )
        return None
    expect_declared_features(manifest, infos, run=run)
    assemble_recipes(manifest, infos, run)
    publishing.stage_files(staging, manifest, files, staged=_staged_names(infos))
    publishing.publish(staging)
    return manifest


def _staged_names(infos: Iterable[ShardInfo]) -> dict[str, str]:
    """Return {name: name in staging} of the shards and their indexes."""
    names = {}
    for info in infos:
        names[info.shard.file] = info.staged_shard
        names[index_of(info.shard.file)] = info.staged_index
    return names


def build_manifest(
    plan: Plan,
    infos: Sequence[ShardInfo],
    ledger: Ledger,
    rejects: Sequence[Reject],
    content: tuple[ContentReport | None, bytes],
    *,
    run: RunSpec,
) -> tuple[Manifest, dict[str, bytes]]:
    """Return the manifest, and {name: content} of the files beside the shards."""
    context = plan.context
    declared = run.encoder.features(_columns(run), context)
    labels = context.labels if ledger.packs is None else ()  # packed Examples have no class
    features: Features = {context.name(name): feature for name, feature in declared.items()}
    splits = {
        name: SplitInfo.of(info.shard for info in infos if info.split == name)
        for name in run.split_names(plan.splits)
    }
    in_train = splits[TRAIN].classes if TRAIN in splits else {}
    tfds = tfds_files(
        features=features,
        labels=labels,
        label_offset=context.label_offset,
        compression=run.compression,
        splits=splits,
    )
    files = {
        **tfds.files,
        REJECTS: b"".join(map(reject_line, rejects)),
        SCHEMA: schema_text(features, labels=labels, label_offset=context.label_offset).encode(),
    }
    report, leaks = content
    if leaks:
        files[LEAKS] = leaks
    left_out = [one for part in plan.parts for one in read_left_out(part, staging=run.staging)]
    if similar := read_lines(run.staging):
        files[NEAR_DUPLICATES] = similar
    if left_out:
        lines = sorted(to_json(one) + b"\n" for one in left_out)
        files[DUPLICATES] = b"".join(lines)
    for name, artifact in {**context.artifacts, **plan.files}.items():
        if artifact.published:
            files[name] = Location.parse(artifact.path).read_bytes()
    if labels:
        files[LABELS] = "".join(f"{label}\n" for label in labels).encode()
    files |= run.encoder_files(context)
    manifest = Manifest(
        digest=digest_of(splits),
        seed=run.seed,
        options={**run.manifest_options, "label_offset": context.label_offset},
        features=features,
        labels=labels,
        class_weights=class_weights({label: in_train.get(label, 0) for label in labels}),
        source_weights=class_weights(_before_balancing(plan, infos, labels, run)),
        splits=splits,
        ledger=ledger,
        encoders=run.encoder_versions,
        files={name: file_info(content) for name, content in files.items()},
        content=report,
        fill_rates=_fill_rates(infos),
        notes=join_left_unread(
            (*plan.notes, *written_notes(plan, infos, report, run=run), *tfds.notes)
        ),
        has_recipes=all_have_recipes(infos),
        multi_label=run.multi_label and bool(labels),
    )
    staging, staged = run.staging, _staged_names(infos)
    manifest, described = add_metadata(
        manifest,
        run.card,
        # If an earlier attempt began to publish, indexes may be in the output.
        places_of=lambda name: (staging.place(staged[name]), staging.output / name),
    )
    reused = {} if run.reuse is None else {"reused": sum(info.reused for info in infos)}
    compared = {"compared": run.compared} if run.compared else {}
    job = {**(run.job or {"options": run.manifest_options}), **compared, **reused}
    return manifest, {**files, **described, JOB: to_json(job) + b"\n"}


def _before_balancing(
    plan: Plan, infos: Iterable[ShardInfo], labels: Sequence[str], run: RunSpec
) -> dict[str, int]:
    """Return {class: records of train without copies, and with those that balancing dropped}."""
    counts: Counter[str | None] = Counter()
    of_train = [info for info in infos if info.split == TRAIN]
    if run.multi_label:  # balancing drops records by one of their classes
        if TRAIN in plan.splits:
            counts.update(plan.splits[TRAIN].held)
        for info in of_train:
            counts.subtract(info.lost)
        return {label: counts[label] for label in labels}
    for info in of_train:
        counts.update(info.originals)
    if TRAIN in plan.splits:
        counts.update(plan.splits[TRAIN].dropped_classes)
    return {label: counts[label] for label in labels}


def tfds_notes(plan: Plan, run: RunSpec) -> tuple[Note, ...]:
    """Return the notes on TFDS files that the manifest of a planned dataset will have."""
    features = run.encoder.features(_columns(run), plan.context)
    labelled = any(feature.kind == "label" for feature in features.values())
    return tfds_files(
        features={plan.context.name(name): feature for name, feature in features.items()},
        labels=plan.context.labels if labelled else (),
        label_offset=plan.context.label_offset,
        compression=run.compression,
        splits={},
    ).notes


def _columns(run: RunSpec) -> pa.Schema:
    if run.layout is not None:
        return run.layout.columns
    return read_columns(run.staging)


def _fill_rates(infos: Iterable[ShardInfo]) -> dict[str, float]:
    used: Counter[str] = Counter()
    room: Counter[str] = Counter()
    for info in infos:
        if info.filled is not None:
            used[info.split] += info.filled[0]
            room[info.split] += info.filled[1]
    return {split: used[split] / room[split] for split in sorted(room) if room[split]}
