"""The staged listing: an input is listed once, into Arrow files, and read from there ever after."""

from __future__ import annotations

import dataclasses
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import xxhash

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.manifest import MANIFEST
from recordmill.job.publishing import check_output_folder
from recordmill.job.staging import Listing, StagedPart, Staging, to_json
from recordmill.storage.files import shown
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Layout, RowSource, Source
from recordmill.transforms.staged.arrow_files import open_arrow

SYSTEM = (
    *(batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, batch.HASH),
    *(batch.STRATUM, batch.CLASSES),
)


# Of a run whose batches a pipeline made.
NO_LISTING = Listing(
    parts=(), fingerprint="", labelled=0, grouped=0, presplit=0, rejects=(), filtered={}
)


def stage_listing(
    source: Source,
    staging: Staging,
    *,
    labels: Sequence[str] | None = None,
    on_rows: Callable[[int], None] = lambda rows: None,
) -> Listing:
    """Lists the input into staging and returns the listing.

    Where staging holds a listing of the very same rows, that one is kept, with all that was made
    from it. A listing of other rows takes its place; finished shards stay, each is reused only if
    its own rows are the same.

    labels: the classes there may be; a row of another one is rejected.
    """
    folder = f"listing/{uuid.uuid4().hex}"
    staging.place(folder).make_dirs()
    parts: list[StagedPart] = []
    rejects: list[Reject] = []
    filtered: Counter[str] = Counter()
    sums = np.zeros(2, np.uint64)
    labelled = grouped = presplit = 0
    for listed in source.scan():
        rejects += listed.rejects
        filtered.update(listed.filtered)
        rows = listed.rows
        if rows is not None and labels is not None:
            rows, unknown = known_labels(rows, labels)
            rejects += unknown
        if rows is None or not len(rows):
            continue
        rows = batch.with_hash(rows)
        labelled += len(rows) - rows[batch.LABEL].null_count
        grouped += len(rows) - rows[batch.GROUP].null_count
        presplit += len(rows) - rows[batch.SPLIT].null_count
        sums += np.array([h.sum(dtype=np.uint64) for h in batch.hash_rows(rows)])
        parts.append(write_part(rows, staging, f"{folder}/part-{len(parts):05d}.arrow"))
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
    )
    before = staging.listing()
    if before is not None and before.fingerprint == listing.fingerprint:
        listing = dataclasses.replace(listing, parts=before.parts)
    else:
        _forget_older(staging)
    staging.place("listing.json").write_bytes(to_json(listing))
    kept = {part.name.rpartition("/")[0] for part in listing.parts}
    for entry in staging.place("listing").list_dir():
        if f"listing/{entry.name}" not in kept:
            staging.place(f"listing/{entry.name}").delete_tree()
    return listing


def known_labels(
    rows: pa.RecordBatch, labels: Sequence[str]
) -> tuple[pa.RecordBatch, list[Reject]]:
    """The rows whose label is among those given, or that have none, and the rejects of the rest."""
    known = pc.is_in(rows[batch.LABEL], value_set=pa.array([*labels, None], pa.string()))
    others = rows.filter(pc.invert(known))
    rejects = [
        Reject(key, "read", Reason.BAD_VALUE, f"its label {label!r} is not in the labels file")
        for key, label in zip(
            others[batch.KEY].to_pylist(), others[batch.LABEL].to_pylist(), strict=True
        )
    ]
    return rows.filter(known), rejects


def _forget_older(staging: Staging) -> None:
    """Removes what was made from a listing of other rows."""
    for name in ("listing.json", "plan.json", "estimate.json"):
        staging.place(name).delete(missing_ok=True)
    for name in ("looked", "checked", "distinct", "cells", "windows", "strata", "spill"):
        staging.place(name).delete_tree()


def layout_of(source: RowSource, listing: Listing, staging: Staging) -> Layout:
    """Return the layout of the rows that workers will read.

    Raises:
      ConfigError: the input is unusable.
    """
    parts = (read_part(part.name, staging=staging) for part in listing.parts)
    # Elsewhere writing rows takes longer than reading them again.
    keep = staging.place("looked") if staging.root.is_local else None
    return source.layout(parts, keep)


def prepare_output(staging: Staging, *, overwrite: bool) -> None:
    """Refuse an output that is not ours, or that holds a dataset, before anything is staged.

    Raises:
      ConfigError: the output has to be another one, or `overwrite` set.
    """
    check_output_folder(staging.output)
    if (staging.output / MANIFEST).exists() and not overwrite:
        raise ConfigError(
            f"{shown(staging.output)} holds a dataset: choose another output, or replace it with"
            " overwrite=True"
        )


def stage_batch(rows: pa.RecordBatch, staging: Staging) -> StagedPart:
    """Write a batch that a pipeline made into staging; its name follows from its content."""
    rows = rows if batch.HASH in rows.schema.names else batch.with_hash(rows)
    digest = xxhash.xxh3_128_hexdigest(batch.to_buffer(rows))
    staging.place("batches").make_dirs()
    return write_part(rows, staging, f"batches/{digest}.arrow")


def write_part(rows: pa.RecordBatch, staging: Staging, name: str) -> StagedPart:
    """Writes rows as one Arrow IPC file; who reads it meanwhile, as another attempt does, reads the
    old one to its end.
    """
    staging.place(name).write_bytes(batch.to_buffer(rows, pa.ipc.new_file))
    reads = pc.sum(rows[batch.SIZE]).as_py() if batch.SIZE in rows.schema.names else None
    return StagedPart(name=name, rows=len(rows), bytes=rows.nbytes, reads=reads or 0)


def write_kept(
    rows: pa.RecordBatch,
    staging: Staging,
    name: str,
    *,
    rejects: Sequence[Reject],
    filtered: Mapping[str, int],
    unread: int = 0,
    spoilt: int = 0,
    skipped: int = 0,
    extra: int = 0,
) -> StagedPart:
    """Writes what is left of a part, and beside it what was left out.

    rejects: of all stages, `unread` of them of reading. filtered: {option: rows}. spoilt, skipped,
    extra: as `StagedPart` has them.
    """
    part = dataclasses.replace(
        write_part(rows, staging, name),
        rejected=len(rejects) - unread,
        filtered=sum(filtered.values()),
        extra=extra,
        unread=unread,
        spoilt=spoilt,
        skipped=skipped,
    )
    staging.place(f"{name}.json").write_bytes(to_json({"rejects": rejects, "filtered": filtered}))
    return part


def prepare(
    part: StagedPart, staging: Staging, make: Callable[[str], list[StagedPart]]
) -> list[StagedPart]:
    """What `make` makes of a part of the listing, given how the names begin of the parts that it
    writes; done already on resume.
    """
    stem = f"checked/{part.name.rpartition('/')[2].removesuffix('.arrow')}"
    done = staging.read_json(f"{stem}.json")
    if done is not None:
        return [StagedPart(**one) for one in done]
    staging.place("checked").make_dirs()
    parts = make(stem)
    # Written last: with it all parts are complete.
    staging.place(f"{stem}.json").write_bytes(to_json(parts))
    return parts


def outcome(part: StagedPart, *, staging: Staging) -> tuple[list[Reject], dict[str, int]]:
    """What was left out of a part: (rejects, {option: filtered})."""
    if part.name.startswith(("listing/", "batches/")):
        return [], {}
    done = staging.read_json(f"{part.name}.json")
    return [Reject(**reject) for reject in done["rejects"]], done["filtered"]


def read_part(
    name: str, *, staging: Staging, columns: Sequence[str] | None = None
) -> pa.RecordBatch:
    """Reads a part by its name, or some of its columns, as far as it has them."""
    source = open_arrow(staging.place(name))
    reader = pa.ipc.open_file(source)
    if columns is not None:
        there = [name for name in columns if name in reader.schema.names]
        fields = [reader.schema.get_field_index(name) for name in there]
        options = pa.ipc.IpcReadOptions(included_fields=fields)
        reader = pa.ipc.open_file(source, options=options)
    return reader.get_batch(0)


def described_columns(part: StagedPart, staging: Staging) -> str:
    """Return the names and types of a part's columns, for a message."""
    schema = read_part(part.name, staging=staging).schema
    return ", ".join(f"{field.name}: {field.type}" for field in schema)


def located(rows: pa.RecordBatch, staging: Staging) -> pa.RecordBatch:
    """Rows with the path of the staged file that they name, if they do: that is where staging is
    now, and so no part of what is staged.
    """
    if batch.DATA not in rows.schema.names:
        return rows
    names = rows[batch.DATA].dictionary_encode()
    paths = [staging.place(name).spelling for name in names.dictionary.to_pylist()]
    return batch.set_column(rows, batch.PATH, pa.array(paths, pa.string()).take(names.indices))
