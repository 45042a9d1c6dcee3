"""Turns serialized tf.train.Examples into columns: a column per feature, a row per record.

A feature with one value per record is a column of values, null where a record lacks it; other
features are lists. int64 and float features are numbers; bytes are text if all of them are UTF-8.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.tfrecord.decode import (
    BYTES,
    FLOATS,
    INTS,
    ExampleError,
    Value,
    byte_strings,
    decode_example,
    find_bytes,
    is_sequence_example,
)
from recordmill.tfrecord.example_spans import Data, FeatureSpans, Ints, find_spans, single_values
from recordmill.tfrecord.varint import decode_varints, encode_varint
from recordmill.transforms.model.user_columns import is_list
from recordmill.transforms.sources.row_formats.values.column_types import ColumnType
from recordmill.transforms.sources.row_formats.values.text_columns import as_text

_SHORT = 64  # bytes of a value, in the mean, up to which values are gathered by index
_TYPES = {INTS: pa.int64(), FLOATS: pa.float32(), BYTES: pa.binary()}
_SHOWN = {INTS: "int64", FLOATS: "float", BYTES: "bytes"}


class _Lists(NamedTuple):
    """The lists of one type of a feature. rows: int64[k], ascending. counts: int64[k].

    values: of all lists, one after the other.
    """

    rows: Ints
    counts: Ints
    values: pa.Array


class ExampleColumns:
    """The features of a block of records.

    data: uint8[...]. starts, ends: int64[n], the payload of each record in `data`.
    wrong: {record: message} of the records that are not Examples; it grows as columns are read.
    skip: mean bytes of byte strings that `column_type` takes for binary data without reading them.
    """

    def __init__(self, data: Data, starts: Ints, ends: Ints, *, skip: int = 1 << 40) -> None:
        self._skip = skip
        self._data = data
        self._starts = starts
        self._ends = ends
        self.wrong: dict[int, str] = {}
        self._spans, rest = find_spans(data, starts, ends)
        self._decoded: dict[int, dict[str, Value]] = {}
        self._cached: dict[str, dict[int, _Lists]] = {}
        for row in rest.tolist():
            try:
                payload = self.payload(row)
                if is_sequence_example(payload):
                    raise ExampleError("it is a SequenceExample: expected an Example")
                self._decoded[row] = decode_example(payload)
            except ExampleError as error:
                self.wrong[row] = f"not a tf.train.Example: {error}"

    def __len__(self) -> int:
        return len(self._starts)

    @property
    def names(self) -> list[str]:
        """Names of the features that any record has, sorted."""
        others = {name for one in self._decoded.values() for name in one}
        return sorted({*self._spans, *others})

    def payload(self, row: int) -> bytes:
        """Return the serialized Example of a record."""
        return self._data[self._starts[row] : self._ends[row]].tobytes()

    def column_type(self, name: str) -> ColumnType:
        """Return the types that hold all values of a feature in this block."""
        spans = self._spans.get(name)
        if spans is not None and (spans.ends - spans.starts).sum() > self._skip * len(self):
            return ColumnType((pa.binary(),))
        found = {kind: lists for kind, lists in self._lists(name).items() if lists.counts.any()}
        if not found:
            return ColumnType(nullable=len(self) > 0)
        # Numbers and bytes have no common type: records of the rarer one are rejected later.
        of_bytes = sum(len(lists.rows) for kind, lists in found.items() if kind == BYTES)
        if 2 * of_bytes >= sum(len(lists.rows) for lists in found.values()):
            found = {BYTES: found[BYTES]}
        else:
            found.pop(BYTES, None)
        chosen = [*found.values()]
        if BYTES in found:
            kinds = [pa.binary()]
            if _is_utf8(found[BYTES].values):
                kinds.insert(0, pa.string())
        else:
            kinds = [pa.float64() if len(found) > 1 else _TYPES[next(iter(found))]]
        counts = np.concatenate([lists.counts for lists in chosen])
        present = sum(len(lists.rows) for lists in self._lists(name).values())
        whole = len(self) - len(self.wrong)
        lists = [pa.list_(kind) for kind in kinds]
        if counts.max() <= 1:
            return ColumnType((*kinds, *lists), nullable=bool(np.count_nonzero(counts) < whole))
        if counts.min() == counts.max() and len(counts) == whole:
            fixed = [pa.list_(kind, int(counts[0])) for kind in kinds]
            return ColumnType((*fixed, *lists), nullable=False)
        return ColumnType(tuple(lists), nullable=present < whole)

    def list_type(self, name: str) -> pa.DataType | None:
        """Return the type of lists that hold all values of a feature; None if it has no lists.

        Raises:
            ExampleError: some records have numbers and others bytes.
        """
        found = self._lists(name)
        kinds = sorted(kind for kind, lists in found.items() if lists.counts.any()) or [*found]
        if not kinds:
            return None
        if BYTES in kinds and len(kinds) > 1:
            shown = " and ".join(_SHOWN[kind] for kind in kinds)
            raise ExampleError(f"expected values of one type, got {shown}")
        return pa.list_(_TYPES[kinds[0]])  # floats if integers are among them

    def column(self, field: pa.Field, *, as_words: bool = False) -> pa.Array:
        """Return a feature as a column of the field's type; records that do not fit are `wrong`.

        as_words: return numbers and bytes as text.
        """
        name, kind = field.name, field.type
        listed = is_list(kind) and not as_words
        inner = kind.value_type if listed else kind
        found = self._lists(name)
        if as_words:
            accepted: tuple[int, ...] = (BYTES, INTS, FLOATS)
        elif pa.types.is_floating(inner):
            accepted = (FLOATS, INTS)
        else:
            accepted = (INTS,) if pa.types.is_integer(inner) else (BYTES,)
        chosen = []
        for number, lists in found.items():
            if number in accepted:
                values = lists.values
                if as_words:
                    values = as_text(values, name)
                elif values.type != inner:
                    values = values.cast(inner, safe=False)
                chosen.append(lists._replace(values=values))
                continue
            for row in lists.rows[lists.counts > 0].tolist():
                expected = _SHOWN[accepted[0]]
                self.wrong[row] = f"feature {name!r}: expected {expected}, got {_SHOWN[number]}"
        one = _joined(chosen, pa.string() if as_words else inner)
        if listed:
            return self._as_lists(one, field)
        for row, count in _where(one, one.counts > 1):
            self.wrong[row] = f"feature {name!r}: expected one value, got {count}"
        array = _as_values(one, len(self))
        if not field.nullable and array.null_count:
            for row in np.flatnonzero(np.asarray(array.is_null())).tolist():
                self.wrong.setdefault(row, f"feature {name!r}: it has no value")
        return array

    def places(self, name: str) -> tuple[Ints, Ints]:
        """Return where the content of a feature lies in `data`: starts, ends, int64[n].

        The content is the only byte string, or packed floats. Both are -1 for a record without it;
        records with several byte strings are `wrong`.
        """
        starts, ends = np.full(len(self), -1), np.full(len(self), -1)
        spans = self._spans.get(name)
        if spans is not None:
            some = spans.kinds == BYTES
            first, single = single_values(self._data, spans.starts, spans.ends)
            single &= some
            starts[single], ends[single] = first[single], spans.ends[single]
            for row in np.flatnonzero(some & ~single & (spans.ends > spans.starts)).tolist():
                self.wrong[row] = f"feature {name!r}: expected one value, got several"
            floats = spans.kinds == FLOATS
            starts[floats], ends[floats] = spans.starts[floats], spans.ends[floats]
            for row in np.flatnonzero(spans.kinds == INTS).tolist():
                self.wrong[row] = f"feature {name!r}: expected bytes, got int64"
        for row in self._decoded:
            found = find_bytes(self.payload(row), name)
            if len(found) > 1:
                self.wrong[row] = f"feature {name!r}: expected one value, got {len(found)}"
            elif found:
                starts[row], ends[row] = (self._starts[row] + place for place in found[0])
        return starts, ends

    def list_places(self, name: str) -> tuple[Ints, Ints]:
        """Return where the byte strings of a feature lie in `data`: starts, ends, int64[n].

        A range holds the fields of a BytesList. Both are -1 for a record without any.
        """
        starts, ends = np.full(len(self), -1), np.full(len(self), -1)
        spans = self._spans.get(name)
        if spans is not None:
            some = (spans.kinds == BYTES) & (spans.ends > spans.starts)
            starts[some], ends[some] = spans.starts[some], spans.ends[some]
            for row in np.flatnonzero((spans.kinds != BYTES) & (spans.kinds != 0)).tolist():
                self.wrong[row] = f"feature {name!r}: expected bytes, got numbers"
        for row in self._decoded:
            payload = self.payload(row)
            found = find_bytes(payload, name)
            if not found:
                continue
            begin = found[0][0] - 1 - len(encode_varint(found[0][1] - found[0][0]))
            end = found[-1][1]
            # Values may also lie in several lists, which protobuf joins.
            if not _are_strings(payload[begin:end], len(found)):
                self.wrong[row] = f"feature {name!r}: expected its values in one list"
                continue
            starts[row], ends[row] = self._starts[row] + begin, self._starts[row] + end
        return starts, ends

    def _as_lists(self, one: _Lists, field: pa.Field) -> pa.Array:
        sizes = np.zeros(len(self), np.int64)
        sizes[one.rows] = one.counts
        missing = np.ones(len(self), np.bool_)
        missing[one.rows] = False
        offsets = np.append(0, np.cumsum(sizes)).astype(np.int32)
        if pa.types.is_fixed_size_list(field.type):
            size = field.type.list_size
            for row in np.flatnonzero(sizes != size).tolist():
                what = f"expected {size} values, got {sizes[row]}"
                self.wrong.setdefault(row, f"feature {field.name!r}: {what}")
            at = offsets[:-1, None] + np.arange(size)
            at[sizes != size] = 0
            flat = one.values.take(pa.array(at.reshape(-1))) if len(one.values) else None
            if flat is None:
                flat = pa.nulls(len(self) * size, field.type.value_type)
            return pa.FixedSizeListArray.from_arrays(flat, size)
        if not field.nullable:
            for row in np.flatnonzero(missing).tolist():
                self.wrong.setdefault(row, f"feature {field.name!r}: it is missing")
        return pa.ListArray.from_arrays(
            pa.array(offsets), one.values, type=field.type, mask=pa.array(missing)
        )

    def _lists(self, name: str) -> dict[int, _Lists]:
        """Return the lists of a feature by their type."""
        if name not in self._cached:
            self._cached[name] = self._parse(name)
        return self._cached[name]

    def _parse(self, name: str) -> dict[int, _Lists]:
        found: dict[int, list[_Lists]] = {}
        spans = self._spans.get(name)
        for kind in (BYTES, INTS, FLOATS) if spans is not None else ():
            rows = np.flatnonzero(spans.kinds == kind)  # type: ignore[union-attr]
            if len(rows):
                found[kind] = [self._parsed(name, kind, rows, spans)]  # type: ignore[arg-type]
        for row, features in self._decoded.items():
            value = features.get(name)
            if value is not None:
                kind = BYTES if isinstance(value, list) else _NUMBERS[value.dtype.kind]
                values = pa.array(value, _TYPES[kind])
                lists = _Lists(np.array([row]), np.array([len(values)]), values)
                found.setdefault(kind, []).append(lists)
        return {kind: _joined(several, _TYPES[kind]) for kind, several in found.items()}

    def _parsed(self, name: str, kind: int, rows: Ints, spans: FeatureSpans) -> _Lists:
        starts, ends = spans.starts[rows], spans.ends[rows]
        if kind == BYTES:
            return self._parsed_bytes(name, rows, starts, ends)
        data = self._joined_bytes(starts, ends)
        sizes = ends - starts
        edges = np.append(0, np.cumsum(sizes))
        if kind == FLOATS:
            bad = sizes % 4 != 0
            if not bad.any():
                return _Lists(rows, sizes // 4, pa.array(np.frombuffer(data, "<f4")))
        else:
            last = np.frombuffer(data, np.uint8) < 0x80
            stops = np.append(0, np.cumsum(last))
            counts = stops[edges[1:]] - stops[edges[:-1]]
            bad = (sizes > 0) & ~last[np.maximum(edges[1:] - 1, 0)] if len(data) else sizes > 0
            if not bad.any():
                try:
                    return _Lists(rows, counts, pa.array(decode_varints(data)))
                except ValueError:  # find the records
                    bad = np.array([_is_bad(data[i:j]) for i, j in itertools.pairwise(edges)])
        for row in rows[bad].tolist():
            self.wrong[row] = f"not a tf.train.Example: feature {name!r} is cut off"
        return self._parsed(name, kind, rows[~bad], spans)

    def _parsed_bytes(self, name: str, rows: Ints, starts: Ints, ends: Ints) -> _Lists:
        first, single = single_values(self._data, starts, ends)
        if single.all():
            counts = np.ones(len(rows), np.int64)
            return _Lists(rows, counts, _binary(self._joined_bytes(first, ends), ends - first))
        several: list[list[bytes]] = []
        kept = []
        for row, start, end in zip(rows.tolist(), starts.tolist(), ends.tolist(), strict=True):
            try:
                several.append(byte_strings(self._data[start:end].tobytes()))
                kept.append(row)
            except ExampleError as error:
                self.wrong[row] = f"not a tf.train.Example: feature {name!r}: {error}"
        counts = np.array([len(some) for some in several], np.int64)
        values = pa.array([value for some in several for value in some], pa.binary())
        return _Lists(np.array(kept, np.int64), counts, values)

    def _joined_bytes(self, starts: Ints, ends: Ints) -> bytes:
        sizes = ends - starts
        total = int(sizes.sum())
        if total <= _SHORT * len(sizes):
            if len(sizes) and total == len(sizes) * int(sizes[0]) and (sizes == sizes[0]).all():
                return bytes(self._data[starts[:, None] + np.arange(sizes[0])].tobytes())
            at = np.arange(total) + np.repeat(starts - (np.cumsum(sizes) - sizes), sizes)
            return bytes(self._data[at].tobytes())
        view = memoryview(self._data)  # type: ignore[arg-type]
        return b"".join([view[i:j] for i, j in zip(starts.tolist(), ends.tolist(), strict=True)])


_NUMBERS = {"i": INTS, "f": FLOATS}  # by NumPy's kind


def _where(one: _Lists, chosen: npt.NDArray[np.bool_]) -> list[tuple[int, int]]:
    return [*zip(one.rows[chosen].tolist(), one.counts[chosen].tolist(), strict=True)]


def _joined(several: Sequence[_Lists], kind: pa.DataType) -> _Lists:
    """Return lists of one type as one, in the order of the rows."""
    if len(several) == 1:
        return several[0]
    if not several:
        return _Lists(np.zeros(0, np.int64), np.zeros(0, np.int64), pa.array([], kind))
    rows = np.concatenate([one.rows for one in several])
    counts = np.concatenate([one.counts for one in several])
    values = pa.concat_arrays([one.values for one in several])
    order = np.argsort(rows, kind="stable")
    starts = np.cumsum(counts) - counts
    counts, starts = counts[order], starts[order]
    ends = np.cumsum(counts)
    at = np.arange(counts.sum()) - np.repeat(ends - counts, counts) + np.repeat(starts, counts)
    return _Lists(rows[order], counts, values.take(pa.array(at)))


def _as_values(one: _Lists, count: int) -> pa.Array:
    """Return the first value of each record, null without one: [count]."""
    if len(one.rows) == count == len(one.values) and (one.counts == 1).all():
        return one.values
    at = np.full(count, -1)
    some = one.counts > 0
    at[one.rows[some]] = (np.cumsum(one.counts) - one.counts)[some]
    return one.values.take(pa.array(at, mask=at < 0))


def _binary(data: bytes, sizes: Ints) -> pa.Array:
    edges = np.append(0, np.cumsum(sizes)).astype(np.int32)
    buffers = [None, pa.py_buffer(edges.tobytes()), pa.py_buffer(data)]
    return pa.Array.from_buffers(pa.binary(), len(sizes), buffers)


def _is_utf8(values: pa.Array) -> bool:
    try:
        values.cast(pa.string())
    except pa.ArrowInvalid:
        return False
    return True


def _are_strings(data: bytes, count: int) -> bool:
    """Return whether data is a BytesList of so many strings."""
    try:
        return len(byte_strings(data)) == count
    except ExampleError:
        return False


def _is_bad(data: bytes) -> bool:
    try:
        decode_varints(data)
    except ValueError:
        return True
    return False
