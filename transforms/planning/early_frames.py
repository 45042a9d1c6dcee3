"""Encoding of records before the pipeline runs, by an encoder process that would be idle.

While this process imports Beam and builds the pipeline, one encoder process encodes records of
small rank, those that follow the sample. Their frames are kept as those of the sample are, and
found by recipes: if an option changes the classes or the splits of records, a frame is not found,
and its record is encoded again. So the bytes of a dataset do not depend on it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.job.staging import Listing, StagedPart
from recordmill.processes.pool import ProcessPool, process_count, running_pool
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.splits import SplitByKey
from recordmill.transforms.planning.sample_rows import fetch_sample, sample_size
from recordmill.transforms.planning.sampled_frames import keeps_frames
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.reuse.row_recipes import RowRecipes, can_have_recipes, row_recipes
from recordmill.transforms.staged.encoder_tasks import (
    EncodedChunk,
    encode_chunk,
    pack_encoder,
    row_task,
)
from recordmill.transforms.staged.parts import read_part

THREAD = "early-frames"

_TASK_ROWS = 32  # a task ends soon, as the sample waits for it
_MOST = 256  # rows: more than an encoder process encodes in that time
_BYTES = limits.SAMPLE_BYTES // 2  # of the frames; the rest is left for those of the sample
_ROWS = range(1 << 10, 1 << 17)  # of a listing: more take too long to rank, and fewer gain nothing


class EarlyFrames(NamedTuple):
    """Encoded rows, as `SampledFrames.add` takes them. recipes: of these rows."""

    rows: pa.RecordBatch
    chunk: EncodedChunk
    recipes: RowRecipes


class _Chosen(NamedTuple):
    """Rows to encode. packed: result of `pack_encoder`."""

    packed: bytes
    rows: Sequence[tuple[pa.RecordBatch, RowRecipes]]


def _choose_rows(
    run: RunSpec, parts: Sequence[StagedPart], artifacts: Mapping[str, Artifact]
) -> _Chosen:
    """Choose the rows of each split that follow its sample, as the plan will probably have them."""
    by_key = SplitByKey(run.splits, run.seed)
    survey = Survey.sum(
        Survey.of(by_key(read_part(part.name, staging=run.staging)), part, seed=run.seed)
        for part in parts
    )
    context = run.context(survey.labels, artifacts)
    chosen: list[tuple[pa.RecordBatch, RowRecipes]] = []
    left = _MOST
    for split, sample in survey.samples.items():
        size = sample_size(sum(survey.counts[split].values()))
        following = sample.slice(size, left)
        if not len(following):
            continue
        rows = fetch_sample(following, split, run.staging)
        found = row_recipes(rows, encoder=run.encoder, context=context, fingerprint=run.fingerprint)
        if found is not None:
            chosen.append((rows, found))
            left -= len(rows)
    return _Chosen(pack_encoder(run.encoder, context), chosen)


@dataclasses.dataclass
class _EarlyEncoding:
    """A thread that has rows encoded, one task after another, until it is stopped."""

    run: RunSpec
    parts: Sequence[StagedPart]
    artifacts: Mapping[str, Artifact]
    pool: ProcessPool
    frames: list[EarlyFrames] = dataclasses.field(default_factory=list)

    def __post_init__(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._encode, name=THREAD)
        self._thread.start()

    def stop(self) -> None:
        """Begin no further task."""
        self._stopped.set()

    def finish(self) -> list[EarlyFrames]:
        """Stop, wait for the end of the task that runs, and return what was encoded."""
        self.stop()
        self._thread.join()
        return self.frames

    def _encode(self) -> None:
        chosen = self.pool.submit(_choose_rows, self.run, self.parts, self.artifacts)
        if chosen.exception() is not None:
            return  # the plan reads the same rows, and raises it
        packed, splits = chosen.result()
        size = 0
        for rows, recipes in splits:
            step = _TASK_ROWS
            if batch.SIZE in rows.schema.names:
                each = int(np.mean(np.asarray(rows[batch.SIZE])))
                step = max(min(step, limits.TASK_BYTES // max(each, 1)), 1)
            for at in range(0, len(rows), step):
                if self._stopped.is_set() or size > _BYTES:
                    return
                some = rows.slice(at, step)
                task = row_task(
                    encode_chunk,
                    packed,
                    self.run.compression,
                    rows=some,
                    memory=self.run.worker_memory,
                )
                encoded = self.pool.submit_rows(task)
                if encoded.exception() is not None:
                    return  # the shard encodes the same rows, and raises it
                chunk = encoded.result()
                size += len(chunk.data)
                of_some = RowRecipes(*(hashes[at : at + step] for hashes in recipes))
                self.frames.append(EarlyFrames(some, chunk, of_some))


# Keys are staging folders, because jobs may run at the same time.
_early: dict[str, _EarlyEncoding] = {}


@contextlib.contextmanager
def early_frames(
    run: RunSpec, listing: Listing, artifacts: Mapping[str, Artifact]
) -> Iterator[None]:
    """Begin to encode rows of a listing, if an encoder process runs that would be idle.

    listing: its rows are records. artifacts: files for the encoder.
    """
    pool, staging = running_pool(), run.staging
    if (
        pool is None
        or process_count(run.workers) < 2  # this process needs a core for its imports
        or listing.rows not in _ROWS
        or not can_have_recipes(run.encoder, run.compression)
        or not keeps_frames(run)
        or staging.place("estimate.json").exists()
    ):
        yield
        return
    early = _early[staging.root.spelling] = _EarlyEncoding(run, listing.parts, artifacts, pool)
    try:
        yield
    finally:
        _early.pop(staging.root.spelling, None)
        early.finish()


def stop_early_frames(run: RunSpec) -> None:
    """Begin no further task: all encoder processes are needed."""
    if (early := _early.get(run.staging.root.spelling)) is not None:
        early.stop()


def take_early_frames(run: RunSpec) -> list[EarlyFrames]:
    """Return what was encoded, the first time that it is called."""
    early = _early.pop(run.staging.root.spelling, None)
    return [] if early is None else early.finish()
