"""Frames of the sample that is encoded to plan a dataset, so that they are not encoded twice.

The sample of a split has the smallest ranks, so its records begin the first shard. The shard writer
finds them by their recipes, as it finds frames of earlier datasets.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, Self

import numpy as np
import pyarrow as pa

from recordmill.job.staging import REUSE, Staging
from recordmill.tfrecord.framing import payload_crcs
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.survey import SAMPLE
from recordmill.transforms.reuse.frame_places import PLACE, FramePlaces, PlacesWriter
from recordmill.transforms.reuse.row_recipes import RowRecipes
from recordmill.transforms.staged.encoder_tasks import EncodedChunk

_NAME = "sample"


def keeps_frames(run: RunSpec) -> bool:
    """Return whether frames of the sample are kept for the shards, if they have recipes.

    Compressed frames cannot be taken one by one, and with `--reuse` most records are known.
    """
    return run.reuse is None and run.compression == "none" and run.staging.intermediate.is_local


def forget_frames(staging: Staging) -> None:
    """Delete the list of the frames that an earlier run has staged."""
    staging.place(f"{REUSE}/{_NAME}.json").delete(missing_ok=True)


def with_sampled_frames(
    rows: pa.RecordBatch,
    recipes: Callable[[], RowRecipes | None],
    *,
    start: int,
    staging: Staging,
) -> pa.RecordBatch:
    """Return rows of the first shard of a split with the places of frames of the sample, if any.

    recipes: returns the recipes of the rows. start: index of the first row in the shard.
    """
    if start >= SAMPLE or not staging.intermediate.is_local:
        return rows
    places = FramePlaces(staging, _NAME)
    found = recipes() if places.recipes else None
    return rows if found is None else places.add_to(rows, found.recipes)


class SampledFrames:
    """Context manager that stages frames of the sample, up to `limits.SAMPLE_BYTES`."""

    def __init__(self, staging: Staging) -> None:
        self._staging = staging
        self._file = staging.place(f"{REUSE}/{_NAME}.frames")
        self._sink: BinaryIO | None = None
        self._bytes = 0
        self._places: list[np.ndarray] = []
        self._facts: list[str | None] = []
        self._recipes: list[RowRecipes] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._sink is not None:
            self._sink.close()

    def add(self, rows: pa.RecordBatch, chunk: EncodedChunk, recipes: RowRecipes) -> None:
        """Write the frames of a chunk. rows: those that were encoded. recipes: of these rows."""
        fits = self._bytes + len(chunk.data) <= limits.SAMPLE_BYTES
        if not fits or not chunk.facts:
            return
        content = chunk.content
        if content is None:
            content = rows[batch.CONTENT].take(pa.array(chunk.kept))
        places = np.zeros(len(chunk.kept), PLACE)
        places["length"] = chunk.lengths
        places["offset"] = self._bytes + np.cumsum(chunk.lengths) - chunk.lengths
        places["crc"] = payload_crcs(chunk.data, chunk.lengths)
        places["width"], places["height"] = chunk.sizes or (-1, -1)
        places["content"] = np.frombuffer(b"".join(content.to_pylist()), "V16")
        if self._sink is None:
            self._file.parent.make_dirs()
            self._sink = self._file.open_scratch()
        self._sink.write(chunk.data)
        self._bytes += len(chunk.data)
        self._places.append(places)
        self._facts += chunk.facts
        self._recipes.append(RowRecipes(*(hashes[chunk.kept] for hashes in recipes)))

    def finish(self) -> None:
        """Write the places of the frames, if there are any."""
        if self._sink is None:
            return
        self._sink.close()
        recipes = RowRecipes(*map(np.concatenate, zip(*self._recipes, strict=True)))
        place = FramePlaces(self._staging, _NAME).place
        with PlacesWriter(place, records=len(self._facts)) as writer:
            found = np.concatenate(self._places)
            writer.add(self._file, recipes, found, pa.array(self._facts, pa.string()))
            writer.finish()
