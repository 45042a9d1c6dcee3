"""The ordered shard writer: encodes the rows of a shard, in final order, into one file.

Names and compression are those of Beam's own WriteToTFRecord. Beyond it, this writer keeps an
order, resumes, and writes checksums and rejects. Tasks run ahead in all encoder processes and their
results are appended in order, so that a dataset of one shard still uses every core.
"""

import contextlib
import dataclasses
import functools
import hashlib
import itertools
from collections.abc import Generator, Iterable, Iterator, Mapping
from contextlib import closing

import pyarrow as pa
import xxhash

from recordmill.errors import RunError, unlike_submitter
from recordmill.format.file_names import index_name, shard_name
from recordmill.format.manifest import Shard
from recordmill.format.recipes import Fingerprint
from recordmill.job.staging import ShardInfo, Staging, attempt_name, segment_prefix, to_json
from recordmill.processes.pool import shared_pool
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Encoder
from recordmill.transforms.planning.plan import Plan
from recordmill.transforms.planning.sampled_frames import with_sampled_frames
from recordmill.transforms.reuse.frame_places import FramePlaces
from recordmill.transforms.reuse.row_recipes import can_have_recipes, row_recipes
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, pack_encoder
from recordmill.transforms.staged.parts import with_staged_paths
from recordmill.transforms.writing.shards.chunk_entries import StoredChunk
from recordmill.transforms.writing.shards.ordered_encoding import RowChunk, encode_in_order
from recordmill.transforms.writing.shards.segments import SegmentFile, stored_chunks
from recordmill.transforms.writing.shards.shard_draft import ShardDraft
from recordmill.transforms.writing.shards.shard_outcome import ShardOutcome
from recordmill.transforms.writing.shards.shard_recipes import StagedRecipes
from recordmill.transforms.writing.shards.shard_rows import (
    Chunk,
    CountedPiece,
    RowsDigest,
    Segment,
    ShardRows,
)
from recordmill.transforms.writing.shards.shuffle import BlockPiece, ShardId
from recordmill.transforms.writing.shards.staged_index import StagedIndex


@dataclasses.dataclass(frozen=True, kw_only=True)
class ShardWriter:
    """Writes shards into staging.

    workers: encoder processes; 0 is one per core. worker_limits: of each.
    versions: {library: version} of the submitter, for libraries that shape bytes; a worker must
      have the same.
    fingerprint: how the recipes of records recognize their sources. reuse: the frames of earlier
      datasets.
    """

    encoder: Encoder
    staging: Staging
    compression: str = "none"
    workers: int = 0
    worker_limits: TaskLimits = DEFAULT_LIMITS
    versions: Mapping[str, str] = dataclasses.field(default_factory=dict)
    fingerprint: Fingerprint = "stat"
    reuse: FramePlaces | None = None

    def check_versions(self) -> None:
        """Check that this machine writes the same bytes as the submitter.

        Raises:
          RunError: a library has another version.
        """
        here = self.encoder.versions()
        theirs = {name: version for name, version in self.versions.items() if name in here}
        found = unlike_submitter(theirs, here)
        if found is not None:
            raise RunError(
                f"{found}: other versions may write other bytes, so install the same ones on both"
                " sides"
            )

    def rows_of(self, shard: ShardId, pieces: Iterable[BlockPiece], plan: Plan) -> ShardRows:
        """Return the rows of a shard in their order. pieces: as for `write`."""
        blocks: dict[int, list[CountedPiece]] = {}
        for block, rows, piece in pieces:
            blocks.setdefault(block, []).append((rows, piece))
        split = plan.splits[shard[0]]
        context = self._context(plan, shard[0])
        return ShardRows(
            blocks=blocks,
            staging=self.staging,
            step=split.task_rows,
            seed=plan.seed,
            context=context,
        )

    def finished(self, shard: ShardId, plan: Plan) -> ShardInfo | None:
        """Return the info of a complete shard, maybe of other rows; None if it is incomplete."""
        count = plan.splits[shard[0]].shards
        done = self.staging.shard_info(self._name(shard, plan))
        return done if done is not None and self._is_complete(done, shard, count) else None

    def write_segment(
        self,
        shard: ShardId,
        pieces: Iterable[BlockPiece],
        plan: Plan,
        segment: Segment,
        earlier: Mapping[str, str],
    ) -> str:
        """Encode a segment of a shard into a file, and return the file's name in staging.

        pieces: those that have rows. earlier: the files that `segment_files` found.
        """
        rows = self.rows_of(shard, pieces, plan)
        prefix = segment_prefix(self._name(shard, plan), rows.context, *segment)
        chunks = (self._prepared(chunk, plan, shard) for chunk in rows.chunks(segment))
        found = stored_chunks(self.staging, earlier.get(prefix))
        with SegmentFile(self.staging, prefix) as file:
            for chunk, encoded in self._encoded(chunks, found, plan, shard):
                file.append(chunk, encoded)
        return file.name

    def write(
        self,
        shard: ShardId,
        pieces: Iterable[BlockPiece],
        plan: Plan,
        segments: Mapping[Segment, str] | None = None,
    ) -> ShardInfo:
        """Write a shard, unless an earlier run finished it from the same rows and artifacts.

        pieces: those that have rows. segments: {segment: file of `write_segment`}; rows of other
          segments are encoded.
        """
        split, number = shard
        count = plan.splits[split].shards
        name = self._name(shard, plan)
        rows = self.rows_of(shard, pieces, plan)
        done = self.staging.shard_info(name)
        if (
            done is not None
            and self._is_complete(done, shard, count)
            and done.plan == rows.digest()
        ):
            return done
        info_place = self.staging.place(f"info/{name}.json")
        if done is not None:
            # It describes other rows. Until the new one is written, the shard is unfinished.
            info_place.delete(missing_ok=True)
            info_place.parent.sync_folder()
        with contextlib.ExitStack() as files:
            draft = files.enter_context(ShardDraft(self.staging, name, rows.context))
            index_file = attempt_name(index_name(split, number, count), draft.attempt)
            place, index, recipes_place = map(
                self.staging.place,
                (
                    attempt_name(f"shards/{name}", draft.attempt),
                    index_file,
                    attempt_name(f"recipes/{name}.arrow", draft.attempt),
                ),
            )
            recipes = None
            if self._has_recipes:
                recipes = StagedRecipes(recipes_place, draft.draft_of(recipes_place, "recipes"))
                files.enter_context(recipes)
            staged = files.enter_context(
                StagedIndex(index, draft.draft_of(index, "index"), self.staging.copy_of(index_file))
            )
            outcome = ShardOutcome(staged, recipes, groups=plan.grouped)
            if segments:
                chunks = self._joined(rows, segments, plan, shard)
            else:
                prepared = (self._prepared(chunk, plan, shard) for chunk in rows.chunks())
                chunks = self._encoded(prepared, draft.earlier_chunks(), plan, shard)
            size, sha256, digest = self._write_rows(rows, chunks, draft, outcome)
            indexed = outcome.finish(_no_rows())
        place.parent.make_dirs()
        draft.finish(place)
        written = Shard(
            file=name,
            records=outcome.records,
            bytes=size,
            sha256=sha256,
            classes=outcome.classes,
            index=indexed,
        )
        info = self._info(shard, written, digest, outcome, draft.attempt)
        info_place.parent.make_dirs()
        # A run that resumes after a power cut takes what has an info for complete.
        place.parent.sync_folder()
        index.parent.sync_folder()
        info_place.write_bytes(to_json(info))
        return info

    def _prepared(self, chunk: Chunk, plan: Plan, shard: ShardId) -> RowChunk:
        """Return rows with the columns that the encoder gets."""
        split, number = shard
        rows = batch.set_column(chunk.rows, batch.SPLIT, batch.constant(split, len(chunk.rows)))
        inputs = with_staged_paths(self._without_unused(rows), self.staging)
        find = functools.partial(row_recipes, inputs, encoder=self.encoder, context=plan.context)
        recipes = functools.cache(functools.partial(find, fingerprint=self.fingerprint))
        if self.reuse is None:
            if self._has_recipes and number == 0:
                inputs = with_sampled_frames(
                    inputs, recipes, start=chunk.start, staging=self.staging
                )
        elif (found := recipes()) is not None:
            inputs = self.reuse.add_to(inputs, found.recipes)
        return RowChunk(
            rows=rows,
            inputs=inputs,
            recipes=recipes,
            digest=chunk.digest,
            refers=batch.refers_to_files(rows),
        )

    def _name(self, shard: ShardId, plan: Plan) -> str:
        return shard_name(*shard, plan.splits[shard[0]].shards, self.compression)

    def _without_unused(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows without the columns that only the index needs.

        Rows that refer to files keep the content hash: encoders compare what they read with it.
        """
        unused = {batch.SOURCE, batch.PLACE}
        if not batch.refers_to_files(rows) and not rows[batch.KEY].null_count:
            unused.add(batch.CONTENT)
        return rows.drop_columns([name for name in rows.schema.names if name in unused])

    def _context(self, plan: Plan, split: str) -> bytes:
        """Return a hash of all that determines the bytes of a shard, except its rows."""
        artifacts = {
            name: dataclasses.replace(a, path="") for name, a in plan.context.artifacts.items()
        }
        context = dataclasses.replace(plan.context, artifacts=artifacts)
        shared = [context, plan.splits[split].task_rows, plan.grouped]
        if self._has_recipes:
            shared.append(self.fingerprint)
        return xxhash.xxh3_128_digest(to_json(shared))

    def _is_complete(self, done: ShardInfo, shard: ShardId, count: int) -> bool:
        name = shard_name(*shard, count, self.compression)
        if (done.split, done.number, done.shard.file) != (*shard, name):
            return False
        if done.has_recipes and not self.staging.place(done.staged_recipes).exists():
            return False
        place, index = map(self.staging.place, (done.staged_shard, done.staged_index))
        return place.exists() and place.size() == done.shard.bytes and index.exists()

    @property
    def _has_recipes(self) -> bool:
        return can_have_recipes(self.encoder, self.compression)

    def _write_rows(
        self,
        rows: ShardRows,
        chunks: Iterable[tuple[RowChunk, EncodedChunk]],
        draft: ShardDraft,
        outcome: ShardOutcome,
    ) -> tuple[int, str, str]:
        """Write the Examples of rows, and return (size of the file, its sha256, digest of rows)."""
        sha256 = hashlib.sha256()
        size, digest = 0, RowsDigest(rows.context)
        for chunk, encoded in chunks:
            if self.reuse is None:  # frames of the sample are new
                encoded = dataclasses.replace(encoded, reused=0)
            digest.add(chunk.digest)
            draft.append(encoded, chunk.digest)
            sha256.update(encoded.data)
            size += len(encoded.data)
            outcome.add(chunk, encoded)
        return size, sha256.hexdigest(), digest.hex()

    def _encoded(
        self,
        chunks: Iterator[RowChunk],
        earlier: Generator[StoredChunk],
        plan: Plan,
        shard: ShardId,
    ) -> Iterator[tuple[RowChunk, EncodedChunk]]:
        """Yield rows and their Examples: those of an earlier attempt, then the others."""
        with closing(earlier):
            for chunk in chunks:
                found = next(earlier, None)
                if found is None or found.digest != chunk.digest:
                    chunks = itertools.chain([chunk], chunks)
                    break
                yield chunk, found.encoded
        yield from encode_in_order(
            chunks,
            packed=pack_encoder(self.encoder, plan.context),
            split=plan.splits[shard[0]],
            compression=self.compression,
            pool=shared_pool(self.workers),
            task_limits=self.worker_limits,
        )

    def _joined(
        self, rows: ShardRows, segments: Mapping[Segment, str], plan: Plan, shard: ShardId
    ) -> Iterator[tuple[RowChunk, EncodedChunk]]:
        """Yield rows and their Examples: those of segments, and the others from the rows."""
        at = 0
        for segment in [*sorted(segments), Segment(rows.chunk_count, rows.chunk_count)]:
            if at < segment.start:
                others = rows.chunks(Segment(at, segment.start))
                prepared = (self._prepared(chunk, plan, shard) for chunk in others)
                yield from self._encoded(prepared, _none(), plan, shard)
                at = segment.start
            if segment in segments:
                with closing(stored_chunks(self.staging, segments[segment])) as stored:
                    for found in stored:
                        assert found.rows is not None
                        yield found.rows, found.encoded
                        at += 1

    def _info(
        self, shard: ShardId, written: Shard, digest: str, outcome: ShardOutcome, attempt: str
    ) -> ShardInfo:
        return ShardInfo(
            split=shard[0],
            number=shard[1],
            plan=digest,
            planned=outcome.planned,
            planned_copies=outcome.planned_copies,
            shard=written,
            copies=outcome.copies,
            originals=outcome.originals,
            rejects=tuple(outcome.rejects),
            rejected=outcome.rejected,
            filtered=dict(outcome.filtered),
            lost=dict(outcome.lost),
            packed=None if outcome.packed is None else outcome.kept,
            filled=outcome.filled,
            objects=outcome.objects,
            dropped_objects=outcome.dropped_objects,
            reduced=outcome.reduced,
            noted=outcome.noted,
            reused=outcome.reused,
            has_recipes=outcome.has_recipes,
            attempt=attempt,
        )


def _none() -> Generator[StoredChunk]:
    yield from ()


def _no_rows() -> pa.RecordBatch:
    names = [batch.KEY, batch.LABEL, batch.GROUP]
    return pa.RecordBatch.from_pydict({name: pa.array([], pa.string()) for name in names})
