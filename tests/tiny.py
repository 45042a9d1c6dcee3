"""A second kind of data, as small as a kind can be: rows of bytes, made of a source and an encoder.

It shows that nothing on the road knows pictures, and is quick enough to run the road many times.
Encoder processes import this module, so it must not import Beam.
"""

import dataclasses
import os
from collections.abc import Iterator, Mapping

import numpy as np
import pyarrow as pa

from recordmill.errors import Filtered, Reason, RecordError
from recordmill.features import Feature, Features
from transforms.kind import Context, Encoded, Listed, Sorted, Sorter


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinySource:
    """rows: (key, label or None, value); `part` of them are listed together."""

    rows: tuple[tuple[str, str | None, bytes], ...]
    part: int = 100
    unique_keys: bool = True
    groups: tuple[str | None, ...] | None = None
    splits: tuple[str | None, ...] | None = None

    def scan(self) -> Iterator[Listed]:
        count = len(self.rows)
        for at in range(0, count, self.part):
            rows = self.rows[at : at + self.part]
            none = (None,) * count
            groups = (self.groups or none)[at : at + self.part]
            splits = (self.splits or none)[at : at + self.part]
            columns = {
                "__key__": pa.array([key for key, _, _ in rows], pa.string()),
                "__label__": pa.array([label for _, label, _ in rows], pa.string()),
                "__group__": pa.array(groups, pa.string()),
                "__split__": pa.array(splits, pa.string()),
                "value": pa.array([value for _, _, value in rows], pa.binary()),
            }
            yield Listed(rows=pa.RecordBatch.from_pydict(columns))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyEncoder:
    """Writes the value; rejects those that begin with `bad`, filters those with `skip`, and at
    `die` its process does.
    """

    def features(self, rows: pa.Schema, context: Context) -> Features:
        del rows
        label = {"label": Feature(dtype="int64", kind="label")} if context.labels else {}
        return {"value": Feature(dtype="string"), "copy": Feature(dtype="int64"), **label}

    def versions(self) -> Mapping[str, str]:
        return {"tiny": "1"}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        sorter = Sorter("encode")
        for row, (key, value) in enumerate(
            zip(rows["__key__"].to_pylist(), rows["value"].to_pylist(), strict=True)
        ):
            if value.startswith(b"bad"):
                sorter.leave_out(key, RecordError(Reason.CORRUPT, "it begins with bad"))
            elif value.startswith(b"skip"):
                sorter.leave_out(key, Filtered("skip"))
            elif value == b"die":
                os._exit(42)
            else:
                sorter.keep(row)
        outcome = sorter.result()
        kept = rows.take(pa.array(outcome.kept))
        columns = {"value": kept["value"], "copy": kept["__copy__"]}
        if context.labels:
            names = {name: i + context.label_offset for i, name in enumerate(context.labels)}
            numbers = [names.get(name) for name in kept["__label__"].to_pylist()]
            columns["label"] = pa.array(numbers, pa.int64())
        return Encoded(columns=pa.RecordBatch.from_pydict(columns), rows=outcome)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyCheck:
    """Rejects values that begin with `early`."""

    def check(self, rows: pa.RecordBatch) -> Sorted:
        sorter = Sorter("check")
        for row, (key, value) in enumerate(
            zip(rows["__key__"].to_pylist(), rows["value"].to_pylist(), strict=True)
        ):
            if value.startswith(b"early"):
                sorter.leave_out(key, RecordError(Reason.CORRUPT, "it begins with early"))
            else:
                sorter.keep(row)
        return sorter.result()


def tiny_rows(count: int, *, classes: int = 3, seed: int = 0) -> tuple[tuple[str, str, bytes], ...]:
    """Rows of unequal classes: class c0 is about twice as frequent as c1, and so on."""
    generator = np.random.default_rng(seed)
    weights = 0.5 ** np.arange(classes)
    labels = generator.choice(classes, size=count, p=weights / weights.sum())
    return tuple(
        (
            f"key-{i:05d}",
            f"c{label}",
            generator.bytes(int(generator.integers(1, 40))).hex().encode(),
        )
        for i, label in enumerate(labels)
    )
