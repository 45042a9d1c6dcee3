"""The outcome of a shard: which of its rows were written, and the rows of its index."""

import functools
from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from recordmill.errors import Reject
from recordmill.format import shard_index
from recordmill.format.ledger import Counted, Reduced, add_counted
from recordmill.format.recipes import SCHEMA as RECIPES_SCHEMA
from recordmill.tfrecord.framing import payload_crcs
from recordmill.transforms.model import batch
from recordmill.transforms.model.label_lists import held
from recordmill.transforms.reuse.row_recipes import RowRecipes, as_binary
from recordmill.transforms.staged.encoder_tasks import EncodedChunk, add_pairs


class ShardOutcome:
    """Collects the outcome of the rows of a shard, chunk by chunk."""

    def __init__(
        self, rows: pa.RecordBatch, find_recipes: Callable[[], RowRecipes | None] | None = None
    ) -> None:
        """find_recipes: returns those of the rows; None if the shard has no recipes."""
        self._rows = rows
        self._find_recipes = find_recipes
        self.copies = batch.copies(rows)
        self._kept: list[np.ndarray] = []
        self._lengths: list[np.ndarray] = []
        self._content: list[pa.Array] = []
        self._sizes: list[tuple[np.ndarray, np.ndarray]] = []
        self.rejects: list[Reject] = []
        self.rejected = 0
        self.filtered: Counter[str] = Counter()
        self.lost: Counter[str] = Counter()
        self.names: list[str] | None = None
        self.filled: tuple[int, int] | None = None
        self.objects: tuple[int, int] | None = None
        self.dropped_objects: dict[str, tuple[int, str]] = {}
        self.reduced = Reduced()
        self.noted: Counted = {}
        self.reused = 0
        self._facts: list[str | None] = []
        self._crcs: list[np.ndarray] = []

    @functools.cached_property
    def _recipes(self) -> RowRecipes | None:
        """Recipes of all rows, hashed with the first chunk, while later chunks are encoded."""
        return None if self._find_recipes is None else self._find_recipes()

    def add(self, start: int, chunk: EncodedChunk) -> None:
        if chunk.names is not None:
            self.names = self.names or []
            self.names += chunk.names
        self.filled = add_pairs(self.filled, chunk.filled)
        self.objects = add_pairs(self.objects, chunk.objects)
        self.dropped_objects = add_counted(self.dropped_objects, chunk.dropped_objects)
        self.reduced = self.reduced.plus(chunk.reduced)
        self.noted = add_counted(self.noted, chunk.noted)
        self.reused += chunk.reused
        self._kept.append(chunk.kept + start)
        self._lengths.append(chunk.lengths)
        if chunk.facts is not None:
            self._facts += chunk.facts
        if self._recipes is not None:
            self._crcs.append(payload_crcs(chunk.data, chunk.lengths))
        if chunk.content is not None:
            self._content.append(chunk.content)
        if chunk.sizes is not None:
            self._sizes.append(chunk.sizes)
        self.rejects += chunk.rejects
        if not chunk.rejects and not chunk.filtered:
            return
        end = start + len(chunk.kept) + len(chunk.rejects) + len(chunk.filtered)
        left_out = np.setdiff1d(np.arange(start, end), chunk.kept + start)
        excluded = self._rows.take(pa.array(left_out[self.copies[left_out] == 0]))
        originals = set(batch.keys(excluded).to_pylist())
        if batch.LABELS in self._rows.schema.names:
            self.lost.update(held(excluded).to_pylist())
        self.rejected += len(originals.intersection(reject.key for reject in chunk.rejects))
        self.filtered.update(o for key, o in dict(chunk.filtered).items() if key in originals)

    @property
    def hashed_keys(self) -> bool:
        """True if keys are by content."""
        return self.names is None and batch.SOURCE in self._rows.schema.names

    @property
    def kept(self) -> np.ndarray:
        return np.concatenate(self._kept) if self._kept else np.zeros(0, np.int64)

    @property
    def classes(self) -> dict[str, int]:
        """Numbers of written records that have each class; packed records have none."""
        return {} if self.names is not None else self._count(self.kept)

    @property
    def originals(self) -> dict[str, int]:
        """The same without copies."""
        kept = self.kept
        return {} if self.names is not None else self._count(kept[self.copies[kept] == 0])

    def _count(self, kept: np.ndarray) -> dict[str, int]:
        names = [n for n in (batch.LABEL, batch.LABELS) if n in self._rows.schema.names]
        counted = held(batch.choose(self._rows.select(names), kept)).value_counts()
        names, counts = counted.field("values").to_pylist(), counted.field("counts").to_pylist()
        return dict(sorted(zip(names, counts, strict=True)))

    def index(self, *, groups: bool) -> pa.Table:
        """Return the rows of the index. groups: whether it has the column `group`."""
        lengths = np.concatenate(self._lengths) if self._lengths else np.zeros(0, np.int64)
        columns: dict[str, Any] = {
            "offset": pa.array(np.cumsum(lengths) - lengths),
            "length": pa.array(lengths),
        }
        if self.names is not None:
            columns["key"] = pa.array(self.names, pa.string())
            columns["label"] = pa.nulls(len(self.names), pa.string())
            columns["copy"] = pa.array(np.zeros(len(self.names), np.int32))
            if groups:
                columns["group"] = columns["label"]
        else:
            columns |= self._columns_of_rows()
        if not groups:
            columns.pop("group", None)
        schema = shard_index.schema(columns)
        return pa.table({name: columns[name] for name in schema.names}, schema=schema)

    @property
    def has_recipes(self) -> bool:
        return self._recipes is not None

    def recipes(self) -> pa.RecordBatch | None:
        """Return the recipes of the records, in their order; None if the shard has none."""
        if self._recipes is None:
            return None
        kept = self.kept
        crcs = np.concatenate(self._crcs) if self._crcs else np.zeros(0, np.uint32)
        columns = [
            as_binary(self._recipes.recipes[kept]),
            as_binary(self._recipes.sources[kept]),
            pa.array(crcs),
            pa.array(self._facts, pa.string()),
        ]
        return pa.RecordBatch.from_arrays(columns, schema=RECIPES_SCHEMA)

    def _columns_of_rows(self) -> dict[str, pa.Array]:
        """Return the columns of the index whose values are those of the rows."""
        indexed = _INDEXED
        if batch.SOURCE not in self._rows.schema.names:
            indexed = {**_INDEXED, "source": batch.PLACE}
        present = [name for name in indexed.values() if name in self._rows.schema.names]
        kept = batch.with_keys(batch.choose(self._rows.select(present), self.kept))
        columns = {
            name: batch.place_names(kept[column])
            for name, column in indexed.items()
            if column in present
        }
        columns["copy"] = pa.array(self.copies[self.kept])
        if self._content:
            columns["content"] = pa.concat_arrays(self._content)
        if self._sizes:
            for number, name in enumerate(("width", "height")):
                sides = np.concatenate([sizes[number] for sizes in self._sizes])
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
