"""The outcome of a shard: which of its rows were written, and the rows of its index."""

from collections import Counter
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reject
from recordmill.format import shard_index
from recordmill.format.file_info import FileInfo
from recordmill.format.ledger import Counted, Reduced, add_counted
from recordmill.format.recipes import SCHEMA as RECIPES_SCHEMA
from recordmill.tfrecord.framing import payload_crcs
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.label_lists import held
from recordmill.transforms.model.reject_places import with_places
from recordmill.transforms.reuse.row_recipes import as_binary
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, add_pairs
from recordmill.transforms.writing.shards.ordered_encoding import RowChunk
from recordmill.transforms.writing.shards.shard_recipes import StagedRecipes
from recordmill.transforms.writing.shards.staged_index import StagedIndex


def indexed_columns(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return the columns that the counts and the index take, without the values of features."""
    return rows.select([name for name in rows.schema.names if name in _NEEDED])


class _Pending:
    """Chunks that are not in the index yet, without their data."""

    def __init__(self) -> None:
        self.count = 0  # of rows
        self.rows: list[pa.RecordBatch] = []
        self.kept: list[npt.NDArray[np.int64]] = []
        self.lengths: list[npt.NDArray[np.int64]] = []
        self.content: list[pa.Array] = []
        self.sizes: list[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]] = []
        self.names: list[str] | None = None
        self.recipes: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch, chunk: EncodedChunk) -> None:
        needed = indexed_columns(rows)
        if needed.nbytes * 5 < rows.nbytes * 2:  # views would keep the other columns in memory
            needed = batch.take(needed, np.arange(len(needed)))
        self.rows.append(needed)
        self.kept.append(chunk.kept + self.count)
        self.count += len(rows)
        self.lengths.append(chunk.lengths)
        if chunk.names is not None:
            self.names = [*(self.names or []), *chunk.names]
        if chunk.content is not None:
            self.content.append(chunk.content)
        if chunk.sizes is not None:
            self.sizes.append(chunk.sizes)


class ShardOutcome:
    """Collects the outcome of the rows of a shard, chunk by chunk, and writes its index.

    recipes: of the shard, if it can have any. groups: whether the index has the column `group`.
    """

    def __init__(
        self, index: StagedIndex, recipes: StagedRecipes | None = None, *, groups: bool
    ) -> None:
        self._index = index
        self._recipes = recipes
        self._groups = groups
        self._pending = _Pending()
        self._bytes = 0  # of the Examples in the index, before compression
        self.planned = 0
        self.planned_copies = 0
        self.kept = 0
        self.copies = 0
        self.packed: int | None = None
        self._classes: Counter[str] = Counter()
        self._originals: Counter[str] = Counter()
        self.rejects: list[Reject] = []
        self.rejected = 0
        self.filtered: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.filled: tuple[int, int] | None = None
        self.objects: tuple[int, int] | None = None
        self.dropped_objects: dict[str, tuple[int, str]] = {}
        self.reduced = Reduced()
        self.noted: Counted = {}
        self.reused = 0
        self.has_recipes = False

    def add(self, chunk: RowChunk, encoded: EncodedChunk) -> None:
        rows, pending = chunk.rows, self._pending
        self.filled = add_pairs(self.filled, encoded.filled)
        self.objects = add_pairs(self.objects, encoded.objects)
        self.dropped_objects = add_counted(self.dropped_objects, encoded.dropped_objects)
        self.reduced = self.reduced.plus(encoded.reduced)
        self.noted = add_counted(self.noted, encoded.noted)
        self.reused += encoded.reused
        # Recipes are hashed here, while later chunks are encoded.
        if self._recipes is not None and (recipes := chunk.recipes()) is not None:
            columns = [
                as_binary(recipes.recipes[encoded.kept]),
                as_binary(recipes.sources[encoded.kept]),
                pa.array(payload_crcs(encoded.data, encoded.lengths)),
                pa.array(encoded.facts or [], pa.string()),
            ]
            pending.recipes.append(pa.RecordBatch.from_arrays(columns, schema=RECIPES_SCHEMA))
        pending.add(rows, encoded)
        most = limits.REFERENCE_INDEX_GROUP_ROWS if chunk.refers else limits.INDEX_GROUP_ROWS
        if pending.count >= most:
            self._index_pending()
        self.rejects += with_places(encoded.rejects, rows)
        if not encoded.rejects and not encoded.filtered:
            return
        left_out = np.setdiff1d(np.arange(len(rows)), encoded.kept)
        copies = batch.copies(rows)
        excluded = rows.take(pa.array(left_out[copies[left_out] == 0]))
        originals = set(batch.keys(excluded).to_pylist())
        if batch.LABELS in rows.schema.names:
            self.lost.update(held(excluded).to_pylist())
        self.rejected += len(originals.intersection(reject.key for reject in encoded.rejects))
        self.filtered.update(o for key, o in dict(encoded.filtered).items() if key in originals)

    def finish(self, empty: pa.RecordBatch) -> FileInfo:
        """Complete the index and the recipes. empty: no rows, for a shard without any."""
        if not self.planned and not self._pending.rows:
            self._pending.rows.append(empty)
            self._pending.kept.append(np.zeros(0, np.int64))
            self._pending.lengths.append(np.zeros(0, np.int64))
        if self._pending.rows:
            self._index_pending()
        if self._recipes is not None and self.has_recipes:
            self._recipes.finish()
        return self._index.finish()

    @property
    def records(self) -> int:
        """Number of written records."""
        return self.kept if self.packed is None else self.packed

    @property
    def classes(self) -> dict[str, int]:
        """Numbers of written records that have each class; packed records have none."""
        return dict(sorted(self._classes.items()))

    @property
    def originals(self) -> dict[str, int]:
        """The same without copies."""
        return dict(sorted(self._originals.items()))

    def _index_pending(self) -> None:
        """Add the pending chunks to the counts, the index and the recipes."""
        pending, self._pending = self._pending, _Pending()
        rows, kept = batch.concat(pending.rows), np.concatenate(pending.kept)
        pending.rows.clear()  # they are as large as what follows
        copies = batch.copies(rows)
        self.planned += len(rows)
        self.planned_copies += int((copies > 0).sum())
        self.kept += len(kept)
        if pending.recipes:
            assert self._recipes is not None
            self._recipes.add(batch.concat(pending.recipes))
            self.has_recipes = True
        lengths = np.concatenate(pending.lengths)
        columns: dict[str, Any] = {
            "offset": pa.array(self._bytes + np.cumsum(lengths) - lengths),
            "length": pa.array(lengths),
        }
        self._bytes += int(lengths.sum())
        if pending.names is not None:
            self.packed = (self.packed or 0) + len(pending.names)
            columns["key"] = pa.array(pending.names, pa.string())
            columns["label"] = pa.nulls(len(pending.names), pa.string())
            columns["copy"] = pa.array(np.zeros(len(pending.names), np.int32))
            columns["group"] = columns["label"]
        else:
            copies = copies[kept]
            counted = _class_counts(rows, kept)
            self.copies += int((copies > 0).sum())
            self._classes += counted
            self._originals += _class_counts(rows, kept[copies == 0]) if copies.any() else counted
            columns |= _columns_of_rows(rows, kept, pending)
            columns["copy"] = pa.array(copies)
        if not self._groups:
            columns.pop("group", None)
        schema = shard_index.schema(columns)
        self._index.add(
            pa.table({name: columns[name] for name in schema.names}, schema=schema),
            hashed_keys=pending.names is None and batch.SOURCE in rows.schema.names,
        )


def _class_counts(rows: pa.RecordBatch, kept: npt.NDArray[np.int64]) -> Counter[str]:
    names = [name for name in (batch.LABEL, batch.LABELS) if name in rows.schema.names]
    counted = held(batch.choose(rows.select(names), kept)).value_counts()
    names, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
    return Counter(dict(zip(names, counts, strict=True)))


def _columns_of_rows(
    rows: pa.RecordBatch, kept: npt.NDArray[np.int64], pending: _Pending
) -> dict[str, pa.Array]:
    """Return the columns of the index whose values are those of the rows."""
    indexed = _INDEXED
    if batch.SOURCE not in rows.schema.names:
        indexed = {**_INDEXED, "source": batch.PLACE}
    present = [name for name in indexed.values() if name in rows.schema.names]
    chosen = batch.with_keys(batch.choose(rows.select(present), kept))
    columns = {
        name: batch.place_names(chosen[column])
        for name, column in indexed.items()
        if column in present
    }
    if pending.content:
        columns["content"] = pa.concat_arrays(pending.content)
    if pending.sizes:
        for number, name in enumerate(("width", "height")):
            sides = np.concatenate([sizes[number] for sizes in pending.sizes])
            columns[name] = pa.array(sides.astype(np.int32))
    return columns


_INDEXED = {
    "key": batch.KEY,
    "label": batch.LABEL,
    "labels": batch.LABELS,
    "group": batch.GROUP,
    "source": batch.SOURCE,
    "content": batch.CONTENT,
}
_NEEDED = {*_INDEXED.values(), batch.PLACE, batch.COPY}
