"""Collection of the records of files, and of their bytes, into parts of a listing."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Sequence
from typing import Any

import pyarrow as pa

from recordmill.errors import RecordError, Reject
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart

Bytes = bytes | bytearray | memoryview


@dataclasses.dataclass(kw_only=True)
class Collector:
    """Collects records, the bytes that they refer to, and rejects, into parts of a few MiB.

    Attributes:
      schema: Columns of the records.
      given: Rows of files, which give records the columns for which they have no values.
      own: Columns of the values that `add` gets, after the key.
      most_rows: Number of records that fill a part.
      inputs: As in `ListingPart`.
      size: Number of the bytes that are held, which is the offset of the next bytes.
    """

    schema: pa.Schema
    given: pa.RecordBatch | None = None
    own: Sequence[pa.Field] = ()
    most_rows: int = dataclasses.field(default_factory=lambda: limits.PART_ROWS)
    inputs: int | None = 0
    size: int = 0
    _count: int = 0  # records of the part
    _at: list[int] = dataclasses.field(default_factory=list)
    _values: list[tuple[Any, ...]] = dataclasses.field(default_factory=list)
    _blocks: list[pa.RecordBatch] = dataclasses.field(default_factory=list)
    _pieces: list[Bytes] = dataclasses.field(default_factory=list)
    _rejects: list[Reject] = dataclasses.field(default_factory=list)
    _invalid: list[Reject] = dataclasses.field(default_factory=list)
    _filtered: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)

    def __post_init__(self) -> None:
        self._keys = [] if self.given is None else self.given[batch.KEY].to_pylist()

    @property
    def is_full(self) -> bool:
        """True if the records or their bytes fill a part."""
        return self.size >= limits.STAGED_BYTES or self._count >= self.most_rows

    @property
    def is_empty(self) -> bool:
        """True if nothing was collected."""
        return not (self._at or self._blocks or self._rejects or self._invalid or self._filtered)

    def count_inputs(self, number: int) -> None:
        """Count inputs whose records are added, unless each record is an input."""
        self.inputs = None if self.inputs is None else self.inputs + number

    def add(self, row: int, number: int, *values: Any) -> None:
        """Add a record of the file in a row. number: number of the record in the file."""
        self._at.append(row)
        self._values.append((f"{self._keys[row]}#{number}", *values))
        self._count += 1

    def add_part(self, part: ListingPart, rows: pa.RecordBatch | None) -> None:
        """Add the rejects and counts of a part, and rows with all columns but `__data__`."""
        self._rejects += part.rejects
        self._invalid += part.invalid
        self._filtered.update(part.filtered)
        if rows is not None:
            self._blocks.append(self._with_columns(rows, {}))
            self._count += len(rows)

    def store(self, data: Bytes) -> int:
        """Hold bytes of records, and return their offset."""
        offset = self.size
        if len(data):
            self._pieces.append(data)
            self.size += len(data)
        return offset

    def reject(self, row: int, error: RecordError, number: int | None = None) -> None:
        """Reject a record of the file in a row. number: as in `add`; None for the whole file."""
        rejects, key = self._rejects, self._keys[row]
        if number is not None:
            rejects, key = self._invalid, f"{key}#{number}"
        rejects.append(Reject(key, "read", error.reason, error.detail))

    def take(self) -> ListingPart:
        """Return the items collected since the last call."""
        if self._at:
            assert self.given is not None
            fields = [self.schema.field(batch.KEY), *self.own]
            values = zip(fields, zip(*self._values, strict=True), strict=True)
            made = {field.name: pa.array(column, field.type) for field, column in values}
            self._blocks.append(self._with_columns(self.given.take(pa.array(self._at)), made))
        part = ListingPart(
            rows=batch.concat(self._blocks) if self._blocks else None,
            rejects=self._rejects,
            invalid=self._invalid,
            inputs=self.inputs,
            filtered=self._filtered,
            data=self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces) or None,
        )
        self._at, self._values, self._blocks, self._pieces = [], [], [], []
        self.size = self._count = 0
        self._rejects, self._invalid, self._filtered = [], [], collections.Counter()
        self.inputs = None if self.inputs is None else 0
        return part

    def _with_columns(self, rows: pa.RecordBatch, made: dict[str, pa.Array]) -> pa.RecordBatch:
        if batch.DATA not in rows.schema.names:  # the file with the data is not written yet
            made = {batch.DATA: pa.nulls(len(rows), pa.string()), **made}
        columns = [made[name] if name in made else rows[name] for name in self.schema.names]
        return pa.record_batch(columns, schema=self.schema)
