"""The staged listing: an input is listed once, into Arrow files that all later passes read."""

from __future__ import annotations

import dataclasses
import functools
import uuid
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from recordmill.errors import ConfigError, DamageError, Reject
from recordmill.format.content_hashes import file_hash
from recordmill.format.manifest import MANIFEST
from recordmill.format.typed_json import Count
from recordmill.job.input_facts import NO_FACTS
from recordmill.job.publishing import check_output_folder
from recordmill.job.staging import Listing, StagedPart, Staging, advice_on, to_json
from recordmill.notes import Note
from recordmill.processes import environment
from recordmill.storage.files import Location, MissingError, results_of, results_of_each, shown
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import RowCheck
from recordmill.transforms.model.label_lists import held
from recordmill.transforms.model.label_rules import LabelRules
from recordmill.transforms.model.left_out import LeftOut
from recordmill.transforms.model.named_classes import SEEN
from recordmill.transforms.model.source import Layout, RowSource, Source
from recordmill.transforms.staged.arrow_files import arrow_file
from recordmill.transforms.staged.parts import read_part, with_staged_paths
from recordmill.transforms.staged.value_batches import data_of_values, without_data

SYSTEM = (
    *(batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, batch.HASH),
    *(batch.STRATUM, batch.CLASSES, batch.LABELS, batch.UNIT),
)

_PARTS = 4  # read at the same time from a store
# Folders of files that were derived from the rows of the listing.
_DERIVED = (
    *("looked", "checked", "numbered", "distinct", "near", "cells", "windows", "selected"),
    *("decided", "binned", "strata", "spill", "profiles", "labels"),
)


# The listing of a custom pipeline that passes its own batches.
NO_LISTING = Listing(
    parts=(), fingerprint="", labelled=0, grouped=0, presplit=0, rejects=(), filtered={}
)


def stage_listing(
    source: Source,
    staging: Staging,
    *,
    rules: LabelRules = LabelRules(),  # noqa: B008, it is frozen
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Listing:
    """List the input into staging and return the listing.

    If staging already holds a listing of the same rows, that listing and all files derived from it
    are kept. Otherwise it is replaced and the derived files are deleted. Finished shards stay: each
    is reused if its own rows have not changed.

    rules: for the labels and keys of rows.
    on_rows: called with the number of rows of each part, to report progress.

    Raises:
      ConfigError: the input is unusable.
    """
    folder = f"listing/{uuid.uuid4().hex}"
    staging.place(folder).make_dirs()
    parts: list[StagedPart] = []
    rejects: list[Reject] = []
    filtered: Counter[str] = Counter()
    sums = np.zeros(2, np.uint64)
    labelled = grouped = presplit = 0
    rejected_labels: Counter[str] = Counter()
    notes: list[Note] = []
    facts = NO_FACTS
    seen: set[str] = set()
    of_values = False
    for listed in source.scan():
        rejects += listed.rejects
        filtered.update(listed.filtered)
        rejected_labels.update(listed.rejected_labels)
        notes += listed.notes
        facts = facts.plus(listed.facts)
        of_values |= listed.of_values
        rows = listed.rows
        if rows is not None:
            seen |= labels_of(rows) if rules.names_classes else set()
            selected = rules.beside(values=listed.of_values).apply(rows)
            rows = selected.rows
            rejects += selected.rejects
            filtered.update(selected.filtered)
        if rows is None or not len(rows):
            continue
        rows = batch.with_hash(rows)
        labelled += len(rows) - rows[batch.LABEL].null_count
        grouped += len(rows) - rows[batch.GROUP].null_count
        presplit += len(rows) - rows[batch.SPLIT].null_count
        sums += np.array([h.sum(dtype=np.uint64) for h in batch.hash_rows(rows)])
        name = f"{folder}/part-{len(parts):05d}.arrow"
        parts.append(write_part(rows, staging, name, scratch=False))
        on_rows(len(rows))
    sums += batch.hash_strings(
        pa.array([f"{r.reason} {r.key}" for r in rejects], pa.string())
    ).sum()
    listing = Listing(
        parts=tuple(parts),
        fingerprint="".join(f"{int(value):016x}" for value in sums),
        labelled=labelled,
        grouped=grouped,
        presplit=presplit,
        rejects=tuple(sorted(rejects)),
        filtered=dict(sorted(filtered.items())),
        rejected_labels=dict(sorted(rejected_labels.items())),
        notes=tuple(notes),
        facts=facts,
        of_values=of_values,
    )
    before = staging.listing()
    if before is not None and before.fingerprint == listing.fingerprint:
        listing = dataclasses.replace(listing, parts=before.parts)
    else:
        delete_derived_files(staging)
    if rules.names_classes:
        write_seen(staging, "listing", seen.union(rejected_labels))
    staging.place("listing.json").write_bytes(listing.to_json())
    kept = {part.name.rpartition("/")[0] for part in listing.parts}
    for entry in staging.place("listing").list_dir():
        if f"listing/{entry.name}" not in kept:
            staging.place(f"listing/{entry.name}").delete_tree()
    environment.return_free_memory()  # of the objects of many files
    return listing


def delete_derived_files(staging: Staging) -> None:
    """Delete the files that were derived from a listing of other rows."""
    staging.delete_all("listing.json", "plan.json", "estimate.json", *_DERIVED)


def layout_of(source: Source, listing: Listing, staging: Staging, *, keep: bool = True) -> Layout:
    """Return the layout of the rows, as they were listed or as workers will read them.

    keep: whether rows that are read here are kept in staging, for workers.

    Raises:
      ConfigError: the input is unusable.
    """
    if not isinstance(source, RowSource):
        return Layout(
            columns=listed_columns(listing, staging),
            labelled=listing.labelled > 0,
            grouped=listing.grouped > 0,
            split_source=listing.facts.split_source_of(presplit=listing.presplit > 0),
            of_values=listing.of_values,
        )
    parts = _ListedParts(listing, staging)
    # In an object store, writing these rows takes longer than reading them again.
    is_kept = keep and staging.intermediate.is_local
    kept = staging.place("looked") if is_kept else None
    return source.layout(parts, kept, facts=listing.facts)


@dataclasses.dataclass(frozen=True)
class _ListedParts:
    """Rows of a listing; each iteration reads them again."""

    listing: Listing
    staging: Staging

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        read = functools.partial(read_part, staging=self.staging)
        names = [part.name for part in self.listing.parts]
        return results_of_each(read, names, at=self.staging.intermediate, most=_PARTS)


def class_counts(listing: Listing, staging: Staging) -> dict[str, int]:
    """Return {class: number of rows that have it} of a listing."""
    counts: Counter[str] = Counter()
    read = functools.partial(read_part, staging=staging, columns=[batch.LABEL, batch.LABELS])
    names = [part.name for part in listing.parts]
    for rows in results_of_each(read, names, at=staging.intermediate, most=_PARTS):
        counts.update(_classes(rows))
    return dict(counts)


def _classes(rows: pa.RecordBatch) -> dict[str, int]:
    codes, names = batch.encode(held(rows))
    numbers = np.bincount(codes[codes >= 0], minlength=len(names))
    return dict(zip(names.to_pylist(), numbers.tolist(), strict=True))


def lost_classes(before: pa.RecordBatch, left: Collection[str]) -> dict[str, int]:
    """Return {class: number of references} of the classes of references that are lost.

    before: references to files, or sections of files; rows of tables have no listing, and give {}.
    left: classes of the records that were made of them.
    """
    if not {batch.PATH, batch.LABEL} <= {*before.schema.names}:
        return {}
    return {name: count for name, count in _classes(before).items() if name not in left}


def prepare_output(staging: Staging, *, overwrite: bool) -> None:
    """Check that a dataset can be written to the output, before anything is staged.

    Raises:
      ConfigError: the output holds other files, or a dataset without `overwrite`.
    """
    check_output_folder(staging.output)
    if (staging.output / MANIFEST).exists() and not overwrite:
        raise ConfigError(
            f"{shown(staging.output)} holds a dataset: choose another output, or replace the"
            " dataset with overwrite=True"
        )


def stage_batch(
    rows: pa.RecordBatch, staging: Staging, *, rules: LabelRules, check: RowCheck | None = None
) -> StagedPart:
    """Write a batch of a custom pipeline into staging, under a name of its own.

    Equal batches are several parts: their rows are numbered, or have keys that repeat.

    rules: the rules for its labels. check: of the rows that pass.
    """
    data = data_of_values(rows)
    rows = batch.with_hash(batch.without_hash(rows))
    if batch.keyed_by_content(rows):  # these keys are numbered
        rows = batch.set_column(rows, batch.UNIT, rows[batch.HASH])
    staging.place("batches").make_dirs()
    stem = f"batches/{uuid.uuid4().hex}"
    checksums = {}
    if data is not None:
        checksums = write_scratch(staging, f"{stem}.data", data)
        rows = batch.set_column(rows, batch.DATA, pa.repeat(f"{stem}.data", len(rows)))
        rows = without_data(rows)
    kept, unread, filtered = rules.apply(rows)
    rejects, allowed = [*unread], kept
    if check is not None:
        outcome = check.check(with_staged_paths(kept, staging))
        if outcome.rejects and batch.SOURCE in kept.schema.names:  # which rejects name
            outcome = check.check(with_staged_paths(batch.named_by_lineage(kept), staging))
        kept = batch.choose(kept, outcome.kept)
        rejects += outcome.rejects
        filtered = Counter(filtered) + Counter(option for _, option in outcome.filtered)
    if not rejects and not filtered and not checksums:
        return write_part(kept, staging, f"{stem}.arrow")
    return write_checked_part(
        kept,
        staging,
        f"{stem}.arrow",
        rejects=rejects,
        filtered=filtered,
        unread=len(unread),
        lost=lost_classes(allowed, labels_of(kept)),
        checksums=checksums,
    )


def write_scratch(
    staging: Staging, name: str, data: bytes | bytearray | memoryview | pa.Buffer
) -> dict[str, str]:
    """Write a file of a part, and return {name: checksum}, which a later run compares.

    It is not synced to disk, which takes longer than to write it.
    """
    staging.place(name).write_bytes(data, scratch=True)
    return {name: xxhash.xxh3_128_hexdigest(data)}


def labels_of(rows: pa.RecordBatch) -> set[str]:
    """Return the distinct labels of rows."""
    return {*held(rows).unique().to_pylist()}


def write_seen(staging: Staging, name: str, labels: Collection[str]) -> dict[str, str]:
    """Write the labels of a part before rules change them, as `write_scratch` does."""
    staging.place(SEEN).make_dirs()
    return write_scratch(staging, f"{SEEN}/{name}.json", to_json(sorted(labels)))


def write_part(
    rows: pa.RecordBatch, staging: Staging, name: str, *, scratch: bool = True
) -> StagedPart:
    """Write rows as an Arrow IPC file in staging.

    The file is replaced as a whole: a concurrent attempt that reads the old file is not disturbed.

    scratch: whether a later run compares the checksum before it uses the file (`write_scratch`).
    """
    data = arrow_file(rows, staging.place(name))
    checksums: dict[str, str] = {}
    if scratch:
        checksums = write_scratch(staging, name, data)
    else:
        staging.place(name).write_bytes(data)
    reads = pc.sum(rows[batch.SIZE]).as_py() if batch.SIZE in rows.schema.names else None
    return StagedPart(
        name=name,
        rows=len(rows),
        bytes=rows.nbytes,
        reads=reads or 0,
        checksums=checksums,
    )


def write_checked_part(
    rows: pa.RecordBatch,
    staging: Staging,
    name: str,
    *,
    rejects: Sequence[Reject],
    filtered: Mapping[str, int],
    unread: int = 0,
    invalid: int = 0,
    skipped: Mapping[str, int] = MappingProxyType({}),
    extra: int = 0,
    inputs: int = 0,
    lost: Mapping[str, int] = MappingProxyType({}),
    left_out: Sequence[LeftOut] = (),
    checksums: Mapping[str, str] = MappingProxyType({}),
) -> StagedPart:
    """Write the rows of a part that passed, and beside them the rejects and filter counts.

    rejects: rejects of all stages so far; `unread` of them come from reading.
    filtered: {option: rows that it excludes}.
    skipped: {reason: inputs left out before}. invalid, extra, inputs: as in `StagedPart`.
    lost: its `lost_classes`.
    left_out: lines of duplicates.jsonl on some of the filtered rows.
    checksums: of other files of the part, which are written already.
    """
    excluded = to_json(
        {"rejects": rejects, "filtered": filtered, "skipped": {**skipped}, "left_out": left_out}
    )
    own: dict[str, str]
    part: StagedPart
    own, part = results_of(
        functools.partial(write_scratch, staging, f"{name}.json", excluded),
        functools.partial(write_part, rows, staging, name),
        at=staging.intermediate,
    )
    return dataclasses.replace(
        part,
        rejected=len(rejects) - unread,
        filtered=sum(filtered.values()),
        extra=extra,
        inputs=inputs,
        unread=unread,
        invalid=invalid,
        skipped=sum(skipped.values()),
        lost_classes=dict(lost),
        checksums={**part.checksums, **own, **checksums},
    )


def rewrite_part(
    part: StagedPart,
    rows: pa.RecordBatch,
    staging: Staging,
    folder: str,
    *,
    rejects: Sequence[Reject] = (),
    filtered: Mapping[str, int] = MappingProxyType({}),
    left_out: Sequence[LeftOut] = (),
) -> StagedPart:
    """Write other rows of a part into a folder of staging; its rejects and counts stay.

    rejects: of inputs, beside those rejected before. filtered: {option: rows that it excludes},
      beside those excluded before. left_out: as in `write_checked_part`.
    """
    staging.place(folder).make_dirs()
    earlier, before = read_excluded(part, staging=staging)
    left_out = [*read_left_out(part, staging=staging), *left_out]
    return write_checked_part(
        rows,
        staging,
        f"{folder}/{part.name.rpartition('/')[2]}",
        rejects=[*earlier, *rejects],
        filtered={**before, **filtered},
        unread=part.unread + len(rejects),
        invalid=part.invalid,
        skipped=read_skipped(part, staging=staging),
        extra=part.extra,
        inputs=part.inputs,
        lost=part.lost_classes,
        left_out=left_out,
    )


def make_or_reuse(
    part: StagedPart, staging: Staging, make: Callable[[str], list[StagedPart]]
) -> list[StagedPart]:
    """Return the parts that `make` derives from a part; on resume those of the earlier run.

    make: writes the parts; it gets the prefix of the names of their files.
    """
    stem = f"checked/{part.name.rpartition('/')[2].removesuffix('.arrow')}"
    done: list[StagedPart] | None = staging.read_json(f"{stem}.json", list[StagedPart])
    if done is not None and all(_is_whole(one, staging) for one in done):
        return done
    staging.place("checked").make_dirs()
    parts = make(stem)
    # Written last: it marks all parts as complete.
    staging.place(f"{stem}.json").write_bytes(to_json(parts))
    return parts


def _is_whole(part: StagedPart, staging: Staging) -> bool:
    """Return whether a part is as it was written; a power cut leaves files without content."""
    if not staging.intermediate.is_local:  # an object store has all of a file, or nothing
        return True
    try:
        found = {name: _checksum(staging.place(name)) for name in part.checksums}
    except MissingError:
        return False
    return found == part.checksums


def _checksum(place: Location) -> str:
    with place.open_input() as file:
        return file_hash(file).hex()


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Excluded:
    """The content of the file beside a part, with what was excluded from it."""

    rejects: list[Reject]
    filtered: dict[str, Count]
    skipped: dict[str, Count]
    left_out: list[LeftOut]


def _excluded(part: StagedPart, staging: Staging) -> _Excluded:
    name = f"{part.name}.json"
    found: _Excluded | None = staging.read_json(name, _Excluded)
    if found is None:
        place = staging.place(name)
        raise DamageError(f"{shown(place)} is missing; {advice_on(place)}")
    return found


def read_excluded(part: StagedPart, *, staging: Staging) -> tuple[list[Reject], dict[str, int]]:
    """Return the rows excluded from a part so far: (rejects, {option: number of rows})."""
    if not part.rejected + part.unread + part.filtered:
        return [], {}
    found = _excluded(part, staging)
    return found.rejects, found.filtered


def excluded_from(
    parts: Iterable[StagedPart], *, staging: Staging
) -> tuple[list[Reject], Counter[str]]:
    """Return the rows excluded from parts so far: (rejects, {option: number of rows})."""
    rejects: list[Reject] = []
    filtered: Counter[str] = Counter()
    for part in parts:
        rejected, left_out = read_excluded(part, staging=staging)
        rejects += rejected
        filtered.update(left_out)
    return rejects, filtered


def read_skipped(part: StagedPart, *, staging: Staging) -> dict[str, int]:
    """Return {reason: number of inputs} of the inputs that are no records of a part."""
    if not part.skipped:
        return {}
    return _excluded(part, staging).skipped


def read_left_out(part: StagedPart, *, staging: Staging) -> list[LeftOut]:
    """Return the lines of duplicates.jsonl on rows that were left out of a part so far."""
    if not part.filtered:
        return []
    return _excluded(part, staging).left_out


def listed_columns(listing: Listing, staging: Staging) -> pa.Schema:
    """Return the columns of a listing; none if it has no rows."""
    if not listing.parts:
        return pa.schema([])
    return read_part(listing.parts[0].name, staging=staging).schema
