"""Arrays as an input: references to arrays, to their items or to chunks of them.

A listing has a row per file (of a long one several), with what its header says; workers make of it
a row per record, which says where its numbers stand. No number is read before the shard is written.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.model import batch
from recordmill.transforms.model.casts import Cast, cast_problem
from recordmill.transforms.model.data_type import Layout, ListingPart, Source
from recordmill.transforms.sources.arrays.array_file import Span
from recordmill.transforms.sources.arrays.array_formats import open_arrays
from recordmill.transforms.sources.arrays.array_headers import ArrayLook, Looked
from recordmill.transforms.sources.arrays.chunking import ArrayCut, Shape, merged
from recordmill.transforms.sources.arrays.npy import Stored, shape_told
from recordmill.transforms.sources.files.file_stat import Problem
from recordmill.transforms.sources.files.references import COLUMNS, broken_label, no_label

ARRAY = "__array__"  # string: a `Stored`
FIRST, LAST = "__first__", "__last__"  # int64: the numbers of records of a file, LAST left out
FILE = "__file__"  # int64: bytes of the file, where `batch.SIZE` is those of the record
NAME = "__name__"  # string: the key of the file
AT, TO = "__at__", "__to__"  # int64: where a record begins and ends along the axis
LABELS = "__labels__"  # string: a JSON list: path, size, mtime of the file of labels, the `Stored`

_DECLARED = b"recordmill.arrays"  # metadata of the column ARRAY: what all arrays have in common
_REQUESTS = 32  # at a time, to a store
_LOOKED_AT = 4096  # files at once

_LISTED = (
    pa.field(ARRAY, pa.string()),
    pa.field(LABELS, pa.string()),
    pa.field(FIRST, pa.int64()),
    pa.field(LAST, pa.int64()),
)
_OWN = (
    pa.field(FILE, pa.int64()),
    pa.field(NAME, pa.string()),
    pa.field(AT, pa.int64()),
    pa.field(TO, pa.int64()),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Declared:
    """What the records of a dataset are: dtype by numpy's name, shape with None where it varies."""

    dtype: str
    shape: Shape

    @classmethod
    def of(cls, rows: pa.Schema) -> Declared:
        """As the source has put it into the schema of its rows."""
        told = json.loads(rows.field(ARRAY).metadata[_DECLARED])
        return cls(dtype=told["dtype"], shape=tuple(told["shape"]))

    def field(self) -> pa.Field:
        """The column ARRAY, which tells of it."""
        told = json.dumps(dataclasses.asdict(self), sort_keys=True).encode()
        return pa.field(ARRAY, pa.string(), metadata={_DECLARED: told})


@dataclasses.dataclass
class _Seen:
    """What was found out while files were listed."""

    files_cut: int = 0
    steps_left: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Arrays:
    """Lists files of arrays by their headers, and reads of them where records stand.

    files: lists them, as references. look: what is taken of each.
    dtype: what arrays are cast to, None for that of most; cast: how.
    """

    files: Source
    look: ArrayLook = dataclasses.field(default_factory=ArrayLook)
    dtype: str | None = None
    cast: Cast = "safe"
    seen: _Seen = dataclasses.field(default_factory=_Seen, compare=False, repr=False)

    @property
    def _cut(self) -> ArrayCut:
        return self.look.cut

    @property
    def unique_keys(self) -> bool:
        return self.files.unique_keys

    @property
    def notes(self) -> tuple[str, ...]:
        files, steps = self.seen.files_cut, self.seen.steps_left
        if not files:
            return ()
        return (f"{steps} steps at the ends of {files} arrays fill no chunk, and were left out",)

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError for an input that cannot be used."""
        self.seen.files_cut = self.seen.steps_left = 0
        seen = kept = 0
        first: Reject | None = None
        for listed in self.files.scan():
            rows = listed.rows
            if rows is None:
                yield listed
                continue
            yield dataclasses.replace(listed, rows=None)
            for start in range(0, len(rows), _LOOKED_AT):
                some = rows.slice(start, _LOOKED_AT)
                seen += len(some)
                if self.look.label_input is not None and seen > 1:
                    raise ConfigError(
                        "--label-input has the labels of one file, and --input has several: put"
                        " labels into each file (--label-array), or name one file"
                    )
                for part in self._look_at(some):
                    kept += 0 if part.rows is None else len(part.rows)
                    first = first or next(iter(part.rejects), None)
                    yield part
        if not kept and first is not None:
            raise ConfigError(
                f"no file holds an array that can be used; the first: {first.key}: {first.detail}"
            )

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> Layout:
        """Raises ConfigError where there is nothing to tell what arrays are."""
        del keep
        kinds: collections.Counter[tuple[str, int]] = collections.Counter()
        shapes: dict[tuple[str, int], set[Shape]] = collections.defaultdict(set)
        users: list[pa.Field] = []
        labelled = grouped = presplit = False
        for rows in parts:
            labelled |= rows[batch.LABEL].null_count < len(rows)
            grouped |= rows[batch.GROUP].null_count < len(rows)
            presplit |= rows[batch.SPLIT].null_count < len(rows)
            users = [field for field in rows.schema if not field.name.startswith("__")]
            for counted in rows[ARRAY].value_counts().to_pylist():
                stored = Stored.from_text(counted["values"])
                shape = self._cut.shape_of(stored.shape)
                kind = self._stored_as(stored), len(shape)
                kinds[kind] += counted["counts"]
                # Of many shapes two are as good as all: no dimension of theirs is the same.
                shapes[kind] = {merged({*shapes[kind], shape})}
        if not kinds:
            raise ConfigError("the input has no array that can be used")
        most = min(kinds, key=lambda kind: (-kinds[kind], kind))
        (shape,) = shapes[most]
        declared = Declared(dtype=most[0], shape=shape)
        ours = [declared.field() if name == ARRAY else field for name, field in _fields().items()]
        return Layout(
            columns=pa.schema([*ours, *users]),
            labelled=labelled or self.look.has_labels,
            grouped=grouped or self._cut.unit == "chunk",
            presplit=presplit,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Raises ChangedInputError for a file that is not what was listed."""
        declared = Declared.of(layout.columns)
        rejects: list[Reject] = []
        kept: list[int] = []
        files = 0
        labels: list[pa.Array] = []
        places = _pairs(sections, batch.KEY, ARRAY, LABELS, FIRST, LAST)
        for row, (key, text, told, first, last) in enumerate(places):
            if why := self._problem(Stored.from_text(text), declared):
                # Of a long file there are several sections, and one reject.
                rejects += [] if first else [Reject(key, "read", *why)]
                continue
            try:
                labels += [] if told is None else [self._labels(told, first, last)]
            except RecordError as error:
                rejects.append(Reject(key, "read", error.reason, error.detail))
            else:
                kept.append(row)
                files += first == 0
        inputs = files if self._cut.unit == "chunk" else None
        if not kept:
            yield ListingPart(rejects=rejects, inputs=inputs)
            return
        rows = self._records(sections.take(pa.array(kept, pa.int64())), layout.columns)
        spoilt: list[Reject] = []
        if labels:
            rows = batch.set_column(rows, batch.LABEL, pa.concat_arrays(labels))
            rows, spoilt = self._labelled(rows)
        if inputs is None:
            rejects, spoilt = rejects + spoilt, []
        yield ListingPart(
            rows=rows if len(rows) else None, rejects=rejects, spoilt=spoilt, inputs=inputs
        )

    def _look_at(self, rows: pa.RecordBatch) -> Iterator[ListingPart]:
        """Files that can be used, a part of the listing each time that they give many records."""
        rows = self.look.named(rows)
        rejects: list[Reject] = []
        at: list[int] = []
        more: list[tuple[str, str | None, int, int]] = []
        room = batch.ROWS
        for row, (key, found) in enumerate(
            zip(rows[batch.KEY].to_pylist(), self._looked(rows), strict=True)
        ):
            if isinstance(found, Problem):
                rejects.append(Reject(key, "read", *found))
                continue
            left = self._cut.leaves(found.array.shape)
            self.seen.files_cut += left > 0
            self.seen.steps_left += left
            first = 0
            while first < found.records:
                last = min(first + room, found.records)
                at.append(row)
                more.append((found.array.to_text(), found.labels, first, last))
                room -= last - first
                first = last
                if not room:
                    yield ListingPart(rows=_listed(rows, at, more), rejects=rejects)
                    rejects, at, more, room = [], [], [], batch.ROWS
        if at or rejects:
            yield ListingPart(rows=_listed(rows, at, more) if at else None, rejects=rejects)

    def _looked(self, rows: pa.RecordBatch) -> Iterator[Looked | Problem]:
        """What each file is; of those in a store many at a time."""
        names = (batch.PATH, batch.SIZE, batch.MTIME, batch.LABEL)
        files = list(_pairs(rows, *names))
        if not any(is_uri(file[0]) for file in files):
            yield from map(self.look.at, files)
            return
        with ThreadPoolExecutor(_REQUESTS) as pool:
            yield from pool.map(self.look.at, files)

    def _stored_as(self, stored: Stored) -> str:
        """The dtype that it will have in records; its own where it cannot be cast."""
        own = stored.numbers.name
        if self.dtype is None or cast_problem(own, self.dtype, self.cast):
            return own
        return self.dtype

    def _problem(self, stored: Stored, declared: Declared) -> Problem | None:
        """Why an array cannot be among the others."""
        own = stored.numbers.name
        if self.dtype is not None and (why := cast_problem(own, self.dtype, self.cast)):
            return Problem(Reason.BAD_VALUE, why)
        if self._stored_as(stored) != declared.dtype:
            common = np.result_type(own, declared.dtype).name
            return Problem(
                Reason.BAD_VALUE,
                f"an array of {own}, where most are {declared.dtype}: --dtype {common} casts both",
            )
        if len(self._cut.shape_of(stored.shape)) != len(declared.shape):
            return Problem(
                Reason.BAD_VALUE,
                f"an array of {len(stored.shape)} dimensions ({shape_told(stored.shape)}), where"
                f" most records have {len(declared.shape)}: leave it out, or make a dataset of its"
                " own of it",
            )
        return None

    def _labels(self, text: str, first: int, last: int) -> pa.Array:
        """Those of the records of a section. Raises RecordError."""
        path, size, mtime, stored = json.loads(text)
        with open_arrays(path, size=size, mtime=mtime) as opened:
            labels = Stored.from_text(stored)
            if self._cut.unit == "item":
                return opened.labels(labels, Span(0, first, last))
            return _repeated(opened.labels(labels)[0].as_py(), last - first)

    def _labelled(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        """Rows whose label can be one."""
        rejects = []
        bad = np.zeros(len(rows), np.bool_)
        codes, texts = batch.encode(rows[batch.LABEL])
        problems: list[Problem | None] = [
            Problem(Reason.BAD_VALUE, why) if (why := broken_label(text)) else None
            for text in texts.to_pylist()
        ]
        missing = (
            no_label("one in the array of labels") if self.look.unlabelled == "reject" else None
        )
        problems.append(missing)
        for code, problem in enumerate(problems):
            if problem is None:
                continue
            at = codes == (code if code < len(problems) - 1 else -1)
            bad |= at
            keys = rows[batch.KEY].filter(pa.array(at)).to_pylist()
            rejects += [Reject(key, "read", *problem) for key in keys]
        return (rows.filter(pa.array(~bad)) if bad.any() else rows), rejects

    def _records(self, sections: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
        """A row per record."""
        first, last = (np.asarray(sections[name]) for name in (FIRST, LAST))
        counts = last - first
        at = np.repeat(np.arange(len(sections)), counts)
        ends = np.cumsum(counts)
        numbers = np.arange(len(at)) - np.repeat(ends - counts - first, counts)
        arrays = [Stored.from_text(text) for text in sections[ARRAY].to_pylist()]
        whole = self._cut.unit == "array"
        lengths = [0 if whole else one.shape[self._cut.along(one.shape)] for one in arrays]
        starts, stops = self._cut.places(numbers, np.array(lengths, np.int64)[at])
        units = [
            one.bytes if whole else one.bytes // n for one, n in zip(arrays, lengths, strict=True)
        ]
        sizes = np.array(units, np.int64)[at] * (1 if whole else stops - starts)
        rows = sections.take(pa.array(at))
        key = group = rows[batch.KEY]
        if not whole:
            texts = pa.array(starts).cast(pa.string())
            key = pc.binary_join_element_wise(key, texts, "#")
        columns_: Mapping[str, Any] = {
            batch.KEY: key,
            batch.GROUP: pc.coalesce(rows[batch.GROUP], group)
            if self._cut.unit == "chunk"
            else rows[batch.GROUP],
            batch.SIZE: pa.array(sizes),
            FILE: rows[batch.SIZE],
            NAME: rows[batch.KEY],
            AT: pa.array(starts),
            TO: pa.array(stops),
        }
        made = [columns_[name] if name in columns_ else rows[name] for name in columns.names]
        return pa.record_batch(made, schema=columns)


def _fields() -> dict[str, pa.Field]:
    """The columns of a row that are ours."""
    return {field.name: field for field in (*COLUMNS, pa.field(ARRAY, pa.string()), *_OWN)}


def _listed(
    rows: pa.RecordBatch, at: Sequence[int], more: Sequence[tuple[Any, ...]]
) -> pa.RecordBatch:
    """Rows of a listing: ours of a reference, what was found out, the user's."""
    taken = rows.take(pa.array(at, pa.int64()))
    found = [
        pa.array(values, field.type)
        for field, values in zip(_LISTED, zip(*more, strict=True), strict=True)
    ]
    ours = len(COLUMNS)
    arrays = [*taken.columns[:ours], *found, *taken.columns[ours:]]
    given = [*rows.schema]
    fields = [*given[:ours], *_LISTED, *given[ours:]]
    return pa.record_batch(arrays, schema=pa.schema(fields))


def _pairs(rows: pa.RecordBatch, *names: str) -> Iterator[Any]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _repeated(label: str | None, count: int) -> pa.Array:
    return pa.array(list(itertools.repeat(label, count)), pa.string())
