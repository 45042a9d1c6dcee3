"""The smallest data type: rows of bytes, with a source and an encoder.

It shows that no step depends on images, and it is quick enough to run the road many times.
Encoder processes import this module, so it must not import Beam.
"""

import dataclasses
import os
import signal
from collections import Counter
from collections.abc import Iterator, Mapping
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Filtered, Reason, RecordError, Reject, RunError
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.storage.files import Location
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.model.data_type import (
    Artifact,
    Context,
    Encoded,
    OutcomeCollector,
    RowOutcome,
)
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinySource:
    """rows: (key, label or None, value); `part` of them are listed together."""

    rows: tuple[tuple[str, str | None, bytes], ...]
    part: int = 100
    unique_keys: bool = True
    groups: tuple[str | None, ...] | None = None
    splits: tuple[str | None, ...] | None = None

    def scan(self) -> Iterator[ListingPart]:
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
            yield ListingPart(rows=pa.RecordBatch.from_pydict(columns))


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinySections(RowSource):
    """The rows of a TinySource, of which it lists the places only; those without value cannot be
    read. section: how many rows a task reads, and `part` of them come together.
    """

    rows: tuple[tuple[str, str | None, bytes], ...]
    section: int = 50
    part: int = 20
    unique_keys: ClassVar[bool] = True

    def scan(self) -> Iterator[ListingPart]:
        for at in range(0, len(self.rows), self.section):
            columns = {
                "__key__": pa.array([f"rows@{at}"]),
                "__path__": pa.array(["/nowhere/rows"]),
                **{name: pa.nulls(1, pa.string()) for name in _UNKNOWN},
                "__start__": pa.array([at]),
            }
            yield ListingPart(rows=pa.RecordBatch.from_pydict(columns))

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        del parts, keep, facts
        fields = [("__key__", pa.string()), *((name, pa.string()) for name in _UNKNOWN)]
        columns = pa.schema([*fields, ("value", pa.binary())])
        return Layout(columns=columns, labelled=True, grouped=False)

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        del layout
        for start in sections["__start__"].to_pylist():
            end = min(start + self.section, len(self.rows))
            for at in range(start, end, self.part):
                some = self.rows[at : min(at + self.part, end)]
                rejects = [
                    Reject(key, "read", Reason.EMPTY, "no value") for key, _, v in some if not v
                ]
                good = tuple(row for row in some if row[2])
                for listed in TinySource(rows=good).scan():
                    yield ListingPart(rows=listed.rows, rejects=rejects)
                if not good:
                    yield ListingPart(rejects=rejects)


_UNKNOWN = ("__label__", "__group__", "__split__")


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyDuplicates:
    """Rows whose values differ in case only are the same."""

    mode: Literal["drop", "group"]

    def names(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.array(
            [value.lower().decode() for value in rows["value"].to_pylist()], pa.string()
        )


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyAnalysis:
    """Counts how often train has each first byte of a value, without the rarest."""

    least: int = 1

    @property
    def columns(self) -> tuple[str, ...]:
        return ("value",)

    @property
    def files(self) -> tuple[str, ...]:
        return ("learned/bytes.txt",)

    def count(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        counts = Counter(chr(value[0]) for value in rows["value"].to_pylist())
        columns = {"item": pa.array(list(counts), pa.string())}
        columns["count"] = pa.array(list(counts.values()), pa.int64())
        return pa.RecordBatch.from_pydict(columns)

    def select(self, counts: pa.RecordBatch) -> pa.RecordBatch:
        return counts.filter(pc.greater_equal(counts["count"], self.least))

    def learn(self, counts: pa.RecordBatch, *, records: int) -> Mapping[str, bytes]:
        if not len(counts):
            raise RunError("there is nothing to learn")
        found = dict(zip(counts["item"].to_pylist(), counts["count"].to_pylist(), strict=True))
        lines = [f"{item} {found[item]}" for item in sorted(found)]
        return {"learned/bytes.txt": "\n".join([f"{records}", *lines, ""]).encode()}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyEncoder:
    """Writes the value; rejects those that begin with `bad`, filters those with `skip`, and its
    process ends at `die`, crashes at values that begin with `crash`, and takes memory at `grow`.
    """

    def features(self, rows: pa.Schema, context: Context) -> Features:
        del rows
        label = {"label": Feature(dtype="int64", kind="label")} if context.labels else {}
        return {"value": Feature(dtype="string"), "copy": Feature(dtype="int64"), **label}

    def versions(self) -> Mapping[str, str]:
        return {"tiny": "1"}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        sorter = OutcomeCollector("encode")
        for row, (key, value) in enumerate(
            zip(rows["__key__"].to_pylist(), rows["value"].to_pylist(), strict=True)
        ):
            if value.startswith(b"bad"):
                sorter.leave_out(key, RecordError(Reason.CORRUPT, "it begins with bad"))
            elif value.startswith(b"skip"):
                sorter.leave_out(key, Filtered("skip"))
            elif value == b"die":
                os._exit(42)
            elif value.startswith(b"crash"):
                os.kill(os.getpid(), signal.SIGSEGV)
            elif value == b"grow":
                grown = bytearray(os.urandom(1 << 20) * 400)
                signal.pause()
                del grown
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
class TinyChunker:
    """Records of so many bytes at most."""

    size: int

    def cut(
        self, rows: pa.RecordBatch, artifacts: Mapping[str, Artifact]
    ) -> tuple[pa.RecordBatch, npt.NDArray[np.int64]]:
        del artifacts
        pieces = [
            (row, value[at : at + self.size])
            for row, value in enumerate(rows["value"].to_pylist())
            for at in range(0, len(value), self.size)
        ]
        columns = {"value": pa.array([piece for _, piece in pieces], pa.binary())}
        parents = np.array([row for row, _ in pieces], np.int64)
        return pa.RecordBatch.from_pydict(columns), parents


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyPacker(TinyEncoder):
    """Three values to an Example."""

    def features(self, rows: pa.Schema, context: Context) -> Features:
        del rows, context
        return {"values": Feature(dtype="string", shape=(None,))}

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        made = super().encode(rows, context)
        values = made.columns["value"].to_pylist()
        keys = rows["__key__"].take(pa.array(made.rows.kept)).to_pylist()
        starts = range(0, len(values), 3)
        lists = [values[at : at + 3] for at in starts]
        columns = {"values": pa.array(lists, pa.list_(pa.binary()))}
        names = pa.array([keys[at] for at in starts], pa.string())
        return Encoded(columns=pa.RecordBatch.from_pydict(columns), rows=made.rows, names=names)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyMisdeclared(TinyEncoder):
    """Declares other features than it writes."""

    features_declared: tuple[tuple[str, Feature], ...]

    def features(self, rows: pa.Schema, context: Context) -> Features:
        return {**super().features(rows, context), **dict(self.features_declared)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class TinyCheck:
    """Rejects values that begin with `early`."""

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        sorter = OutcomeCollector("check")
        for row, (key, value) in enumerate(
            zip(rows["__key__"].to_pylist(), rows["value"].to_pylist(), strict=True)
        ):
            if value.startswith(b"early-crash"):
                os.kill(os.getpid(), signal.SIGSEGV)
            elif value.startswith(b"early"):
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
