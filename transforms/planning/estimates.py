"""Estimates of the size of a split's records and of the time to encode them, from a sample."""

from __future__ import annotations

import collections
import dataclasses
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Annotated, NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.errors import DamageError
from recordmill.format.ledger import Counted, Reduced, add_counted
from recordmill.format.typed_json import MAX_COUNT, Count
from recordmill.job.staging import advice_on, to_json
from recordmill.option_checks import Between
from recordmill.processes.pool import ProcessPool, shared_pool
from recordmill.storage.files import shown
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.early_frames import stop_early_frames, take_early_frames
from recordmill.transforms.planning.sample_rows import fetch_samples, sample_size
from recordmill.transforms.planning.sampled_frames import SampledFrames, forget_frames, keeps_frames
from recordmill.transforms.reuse.row_recipes import RowRecipes, can_have_recipes, row_recipes
from recordmill.transforms.staged.encoder_tasks import (
    EncodedChunk,
    encode_chunk,
    pack_encoder,
    row_task,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Estimate:
    """Means over the sample of a split.

    record_bytes: size of a framed record, compressed if the dataset is. input_bytes: size of its
    input. seconds: time to encode it. reduced: records of the sample with images of which not all
    bits were read. noted: as in `Encoded`, of the sample.
    """

    record_bytes: Count
    input_bytes: Count
    seconds: Annotated[float, Between(0, MAX_COUNT)]
    reduced: Reduced = Reduced()  # noqa: RUF009, it is frozen
    noted: Counted = dataclasses.field(default_factory=dict)


def measure(
    samples: Mapping[str, pa.RecordBatch],
    records: Mapping[str, int],
    *,
    context: Context,
    run: RunSpec,
) -> dict[str, Estimate]:
    """Estimate each split by encoding a sample; on resume return the estimate of the earlier run.

    samples: {split: its records of smallest rank}, as in `Survey`. records: {split: number of
    records}.

    Raises:
      DamageError: the estimate of the earlier run is damaged.
    """
    staging = run.staging
    stored: dict[str, Estimate] | None = staging.read_json("estimate.json", dict[str, Estimate])
    if stored is not None:
        if missing := samples.keys() - stored.keys():
            place = staging.place("estimate.json")
            raise DamageError(
                f"{shown(place)} is damaged: expected the split {min(missing)!r};"
                f" {advice_on(place)}"
            )
        forget_frames(staging)  # a power cut may have left parts of them
        return stored
    stop_early_frames(run)
    pool = shared_pool(run.workers)
    packed = pack_encoder(run.encoder, context)
    started = time.perf_counter()
    tasks = {}
    sizes = {}
    chosen = {name: sample.slice(0, sample_size(records[name])) for name, sample in samples.items()}
    for name, rows in fetch_samples(chosen, staging, unite=run.layout is None).items():
        recipes = None
        if run.reuse is not None or keeps_frames(run):
            recipes = row_recipes(
                rows, encoder=run.encoder, context=context, fingerprint=run.fingerprint
            )
        if run.reuse is not None and recipes is not None:
            rows, recipes = run.reuse.add_to(rows, recipes.recipes), None
        if batch.SIZE in rows.schema.names:
            sizes[name] = int(np.mean(np.asarray(rows[batch.SIZE])))
        else:
            sizes[name] = rows.nbytes // len(rows)
        step = len(rows) // 8
        if can_have_recipes(run.encoder, run.compression):  # bytes do not depend on tasks, of which
            step = -(-len(rows) // min(pool.workers, 8))  # each costs 2 ms
        step = max(min(step, limits.SAMPLE_TASK_BYTES // max(sizes[name], 1)), 1)
        tasks[name] = collections.deque(
            _submit(packed, rows, slice(at, at + step), recipes, run=run, pool=pool)
            for at in range(0, len(rows), step)
        )
    with SampledFrames(staging) as frames:
        results = {name: _sum(of_split, frames) for name, of_split in tasks.items()}
        elapsed = time.perf_counter() - started
        for early in take_early_frames(run):
            frames.add(*early)
        frames.finish()
    taken = sum(int(sample_size(records[name])) for name in samples)
    seconds = elapsed / max(taken, 1)
    estimates = {}
    for name, made in results.items():
        # If no record of the sample could be encoded, estimate by the size of the inputs.
        estimates[name] = Estimate(
            record_bytes=made.bytes // made.kept if made.kept else sizes[name] + 64,
            input_bytes=sizes[name],
            seconds=seconds,
            reduced=made.reduced,
            noted=made.noted,
        )
    staging.place("estimate.json").write_bytes(to_json(estimates))
    return estimates


class _Task(NamedTuple):
    """A task of the sample. rows: the rows to encode. recipes: of these rows, if any."""

    rows: pa.RecordBatch
    recipes: RowRecipes | None
    chunk: Future[EncodedChunk]


def _submit(
    packed: bytes,
    rows: pa.RecordBatch,
    some: slice,
    recipes: RowRecipes | None,
    *,
    run: RunSpec,
    pool: ProcessPool,
) -> _Task:
    """Start to encode some rows. recipes: of all rows."""
    chosen = rows[some]
    limits = run.worker_limits
    task = row_task(encode_chunk, packed, run.compression, rows=chosen, task_limits=limits)
    of_chosen = None if recipes is None else RowRecipes(*(hashes[some] for hashes in recipes))
    return _Task(chosen, of_chosen, pool.submit_rows(task))


class _Encoded(NamedTuple):
    """Sums over the encoded sample of a split."""

    kept: int
    bytes: int
    reduced: Reduced
    noted: Counted


def _sum(tasks: collections.deque[_Task], frames: SampledFrames) -> _Encoded:
    """Add up results and collect frames. Tasks are dropped early to free memory."""
    kept = total = 0
    reduced = Reduced()
    noted: Counted = {}
    while tasks:
        rows, recipes, future = tasks.popleft()
        chunk = future.result()
        kept += len(chunk.kept)
        total += len(chunk.data)
        reduced = reduced.plus(chunk.reduced)
        noted = add_counted(noted, chunk.noted)
        if recipes is not None:
            frames.add(rows, chunk, recipes)
    return _Encoded(kept, total, reduced, noted)
