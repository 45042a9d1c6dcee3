"""Records that cost nothing: a kind of data that leaves only the road to be measured."""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from benchmarks.measure import FailedError
from recordmill.format.manifest import load
from recordmill.storage.files import Location
from recordmill.tfrecord.features import DType, Feature, Features
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.data_type import Context, Encoded, RowOutcome
from recordmill.transforms.model.source import ListingPart


@dataclasses.dataclass(frozen=True, kw_only=True)
class Counted:
    """Lists `rows` numbered records, class after class, as folders do.

    The first class has 1.2 times the records of the mean one, the last 0.8 times.
    """

    rows: int
    classes: int

    @property
    def unique_keys(self) -> bool:
        return True

    def scan(self) -> Iterator[ListingPart]:
        names = pa.array(np.array([f"class-{i:04d}" for i in range(self.classes)], object))
        edges = np.cumsum(np.linspace(1.2, 0.8, self.classes)) / self.classes * self.rows
        for start in range(0, self.rows, limits.PART_ROWS):
            numbers = np.arange(start, min(start + limits.PART_ROWS, self.rows))
            none = pa.nulls(len(numbers), pa.string())
            labels = np.minimum(np.searchsorted(edges, numbers, side="right"), self.classes - 1)
            digits = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), 10, "0")
            columns = {
                batch.KEY: pc.binary_join_element_wise("record", digits, "-"),
                batch.LABEL: names.take(pa.array(labels)),
                batch.GROUP: none,
                batch.SPLIT: none,
                "value": pa.array(numbers),
            }
            yield ListingPart(rows=pa.RecordBatch.from_pydict(columns))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnEncoder:
    """An Example of one column, as it stands."""

    column: str
    dtype: DType

    def features(self, rows: pa.Schema, context: Context) -> Features:
        del rows, context
        return {self.column: Feature(dtype=self.dtype)}

    def versions(self) -> Mapping[str, str]:
        return {"benchmark": "1"}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        del context
        return Encoded(
            columns=rows.select([self.column]), rows=RowOutcome(kept=np.arange(len(rows)))
        )


def check_written(output: pathlib.Path, rows: int) -> int:
    """How many records a run has written, copies included; raises FailedError unless it is all."""
    ledger = load(Location.parse(str(output))).ledger
    if ledger.records.written != rows or ledger.copies.written != ledger.copies.planned:
        raise FailedError(f"expected {rows} records and all copies, got {ledger}")
    return ledger.records.written + ledger.copies.written
