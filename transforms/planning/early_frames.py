"""Encoding of records before the pipeline runs, by an encoder process that would be idle.

While this process imports Beam and builds the pipeline, one encoder process encodes records of
small rank, those that follow the sample. Their frames are kept as those of the sample are, and
found by recipes: if an option changes the classes or the splits of records, a frame is not found,
and its record is encoded again. So the bytes of a dataset do not depend on it.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future, wait
from typing import Any, NamedTuple

import pyarrow as pa

from recordmill.job.staging import REUSE, Listing, StagedPart
from recordmill.processes.pool import process_count, running_pool
from recordmill.processes.row_tasks import Faults, RowTask, WorkerDiedError
from recordmill.storage.files import Location
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Artifact
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.model.splits import SplitByKey
from recordmill.transforms.planning.sample_rows import fetch_samples, sample_size
from recordmill.transforms.planning.sampled_frames import keeps_frames
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.reuse.row_recipes import RowRecipes, can_have_recipes, row_recipes
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, encode_chunk, pack_encoder
from recordmill.transforms.staged.handles import StagedBatch

_STEP = 32  # rows that are encoded before the process looks whether it is to stop
_MOST = 512  # rows: more than are encoded in that time
_BYTES = limits.SAMPLE_BYTES // 2  # of their frames; the rest is left for those of the sample
_ROWS = range(1 << 10, 1 << 17)  # of a listing: more take too long to rank, and fewer gain nothing


class EarlyFrames(NamedTuple):
    """Encoded rows, as `SampledFrames.add` takes them. recipes: of these rows."""

    rows: pa.RecordBatch
    chunk: EncodedChunk
    recipes: RowRecipes


class _Following(NamedTuple):
    """Rows of a split that follow its sample, and the results of the first of them.

    chunks: of `_STEP` rows each.
    """

    rows: pa.RecordBatch
    recipes: RowRecipes
    chunks: list[EncodedChunk]


def _encode_rows(
    run: RunSpec, parts: Sequence[StagedPart], artifacts: Mapping[str, Artifact], stop: Location
) -> list[_Following]:
    """Encode the rows that follow the samples, as the plan will probably have them.

    stop: a file, which exists once no more rows are to be encoded.
    """
    by_key = SplitByKey(run.splits, run.seed)
    handles = [StagedBatch(part, (by_key,)) for part in parts]
    survey = Survey.sum(
        Survey.of(handle.read(run.staging), handle, seed=run.seed) for handle in handles
    )
    context = run.context(survey.labels, artifacts)
    packed = pack_encoder(run.encoder, context)
    encoded = []
    rows_left, bytes_left = _MOST, _BYTES
    for split, sample in survey.samples.items():
        size = sample_size(sum(survey.counts[split].values()))
        following = sample.slice(size, rows_left)
        if stop.exists() or not len(following):
            continue
        rows = fetch_samples({split: following}, run.staging)[split]
        rows_left -= len(rows)
        recipes = row_recipes(
            rows, encoder=run.encoder, context=context, fingerprint=run.fingerprint
        )
        if recipes is None:
            break
        chunks: list[EncodedChunk] = []
        encoded.append(_Following(rows, recipes, chunks))
        for at in range(0, len(rows), _STEP):
            if stop.exists() or bytes_left <= 0:
                break
            some = batch.to_bytes(rows.slice(at, _STEP))
            chunks.append(encode_chunk(packed, run.compression, some))
            bytes_left -= len(chunks[-1].data)
    return encoded


# Keys are staging folders, because jobs may run at the same time.
_early: dict[str, Future[list[_Following]]] = {}


def _stop_file(run: RunSpec) -> Location:
    return run.staging.place(f"{REUSE}/sample.begun")


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
        or process_count(0) < 2  # this process needs a core for its imports
        or listing.rows not in _ROWS
        or not can_have_recipes(run.encoder, run.compression)
        or not keeps_frames(run)
        or staging.place("estimate.json").exists()
    ):
        yield
        return
    stop = _stop_file(run)
    stop.delete(missing_ok=True)
    encode = functools.partial(_encode_rows, run, listing.parts, artifacts, stop)

    def call(faults: Faults) -> Any:
        del faults
        return encode

    # If a record crashes the process, nothing is taken, and its shard finds out about it.
    task = RowTask(count=0, call=call, trial=_no_trial, limits=run.worker_limits)
    _early[staging.root.spelling] = pool.submit_rows(task)
    try:
        yield
    finally:
        stop_early_frames(run)
        if (early := _early.pop(staging.root.spelling, None)) is not None:
            wait([early])


def _no_trial(some: range) -> None:
    del some


def stop_early_frames(run: RunSpec) -> None:
    """Let the encoder process stop soon, because all of them are needed."""
    if run.staging.root.spelling in _early:
        stop = _stop_file(run)
        stop.parent.make_dirs()
        stop.write_bytes(b"", scratch=True)


def take_early_frames(run: RunSpec) -> Iterator[EarlyFrames]:
    """Wait for the encoder process, and yield what it encoded; the first time only.

    If a record crashed it, nothing was encoded, and its shard rejects it.
    """
    early = _early.pop(run.staging.root.spelling, None)
    if early is None or isinstance(early.exception(), WorkerDiedError):
        return
    for rows, recipes, chunks in early.result():
        for number, chunk in enumerate(chunks):
            some = slice(number * _STEP, (number + 1) * _STEP)
            yield EarlyFrames(rows[some], chunk, RowRecipes(*(hashes[some] for hashes in recipes)))
