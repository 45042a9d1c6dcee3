"""Records as a dataset declares them: numbers, arrays of their shape, texts and files as bytes.

The records of a dataset are laid out alike: features by their names, each in one piece. So they are
read as what they are expected to be, and only one that is laid out in another way as protobuf reads
it, which takes several times as long.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.errors import did_you_mean
from recordmill.format.decode import ExampleError, Value, decode_steps, decoder, own_array
from recordmill.format.features import Feature, Features
from recordmill.format.varint import decode_varints, encode_varint, read_varint

# bytes, a NumPy scalar, or an array: whoever reads a feature knows which.
Typed = Any
TypedRecord = dict[str, Typed]

_FIRST = 0x0A  # tag of field 1 where it is of a given length
_LISTS = {"string": 0x0A, "float32": 0x12, "int64": 0x1A}  # tags of lists in a Feature
_NUMBERS: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "int64": np.dtype("<i8")}
_REMEMBERED = 256  # entries of one feature, and sizes of them


class _UnlikeError(Exception):
    """A record is laid out in another way than expected."""


class RecordDecoder:
    """Decodes the records of a dataset.

    A value of shape () is a NumPy scalar, or bytes; of another shape it is an array, of objects
    where it holds bytes. One that a record lacks, as it may where a dimension is None, is an empty
    array. What is stored as the bytes of an array is that array, in its dtype and shape. A feature
    list whose steps are of different length is a list of arrays, one per step.
    """

    def __init__(self, features: Features, *, only: Collection[str] | None = None) -> None:
        """only: names of those that are asked for; None for all.

        Raises:
          ValueError: there is none of such a name.
        """
        if isinstance(only, str):
            raise ValueError(f"features: expected several names, such as [{only!r}], got {only!r}")
        for name in only or ():
            if name not in features:
                known = ", ".join(features)
                raise ValueError(
                    f"expected features among {known}, got {name!r}{did_you_mean(name, features)}"
                )
        self._decode = decoder(features)
        self._asked = [name for name in features if only is None or name in only]
        # Arrays whose bytes do not tell their shape: other features do.
        self._shapes = {
            name: features[name].shape_features
            for name in self._asked
            if features[name].shape_is_open and features[name].shape_features
        }
        needed = {*self._asked, *itertools.chain.from_iterable(self._shapes.values())}
        self._names = [name for name in features if name in needed]
        self._columns = {
            name: _Column(name, feature, asked=name in needed) for name, feature in features.items()
        }
        # Of steps that are of different length no array can be made.
        self._ragged = [
            name
            for name in self._asked
            if features[name].sequence and features[name].shape.count(None) > 1
        ]
        self._sequences = any(feature.sequence for feature in features.values())
        # As protobuf writes a map where equal ones are to have equal bytes.
        self._written = sorted(self._columns.values(), key=lambda column: column.name.encode())

    def __call__(self, payload: bytes) -> TypedRecord:
        """The values of a serialised Example, or SequenceExample, in the order of the features.

        Raises:
          ExampleError: it is none, or not as declared.
        """
        record = self._record(payload)
        return self._in_shape(record) if self._shapes else record

    def _record(self, payload: bytes) -> TypedRecord:
        """The values of all that is needed."""
        if not self._sequences:
            try:
                return self._as_expected(payload)
            except (_UnlikeError, IndexError, ValueError):
                pass  # what is wrong with it, if anything, is told below
        example = self._decode(payload)
        for name in sorted(example.keys() - self._columns.keys()):
            raise ExampleError(f"has the feature {name!r}, which is not declared")
        record = {name: self._columns[name].of(example.get(name)) for name in self._names}
        if self._ragged:
            steps = decode_steps(payload)
            record |= {name: [*map(own_array, steps.get(name, []))] for name in self._ragged}
        return record

    def _in_shape(self, record: TypedRecord) -> TypedRecord:
        """Raises ExampleError where an array is not of the shape that its record tells."""
        for name, sizes in self._shapes.items():
            shape = tuple(int(n) for size in sizes for n in np.ravel(record[size]))
            try:
                record[name] = record[name].reshape(shape)
            except ValueError as error:
                what = f"{record[name].size} values are no array of {_told(shape)}"
                raise ExampleError(f"feature {name!r}: {what}") from error
        return {name: record[name] for name in self._asked}

    def _as_expected(self, data: bytes) -> TypedRecord:
        end = len(data)
        values: dict[str, Typed] = dict.fromkeys(self._names, b"")
        at = _content(data, 0, _FIRST, end)
        for column in self._written:
            # Numbers and short texts come again and again: entries of the same bytes.
            size = data[at + 1] if at < end else 0
            entry = data[at : at + 2 + size]
            value = column.seen.get(entry)
            if value is not None:
                values[column.name] = value
                at += 2 + size
                continue
            # Entries whose value has the same size begin with the same bytes.
            known = column.known.get(entry[1:4])
            if known is not None and data.startswith(known[0], at):
                start = at + known[1]
                at += known[2]
            elif (place := column.find(data, at)) is not None:
                start, at = place
            else:
                if column.asked:
                    values[column.name] = column.of(None)
                continue
            if not column.asked:
                continue
            value = data[start:at] if column.is_plain else column.read(data, start, at)
            values[column.name] = value
            if column.is_single and size < 0x80 and len(column.seen) < _REMEMBERED:
                column.seen[entry] = value
        if at != end:
            raise _UnlikeError
        return values


class _Column:
    """One feature of all records.

    asked: a record is to have it. seen: values by their entries. known: by the second to fourth
    byte of an entry with what it begins, and where its value begins and ends. is_plain: a value is
    the bytes that stand there. is_single: it is one that nobody can change.
    """

    def __init__(self, name: str, feature: Feature, *, asked: bool) -> None:
        self.name = name
        self.asked = asked
        self.seen: dict[bytes, Typed] = {}
        self.known: dict[bytes, tuple[bytes, int, int]] = {}
        self._dtype = _NUMBERS.get(feature.dtype)
        self._list = _LISTS[feature.dtype]
        encoded = name.encode()
        self._head = b"\x0a" + encode_varint(len(encoded)) + encoded + b"\x12"
        self._shape = _as_numpy(feature.shape)
        self._is_fixed = -1 not in self._shape
        self._unit = math.prod(size for size in self._shape if size >= 0)
        self._stored: tuple[np.dtype[Any], tuple[int, ...]] | None = None
        if feature.kind == "raw" and feature.raw_dtype and feature.raw_shape is not None:
            dtype = np.dtype(feature.raw_dtype).newbyteorder("<")
            shape = feature.raw_shape
            self._stored = dtype, (-1,) if feature.shape_is_open else _as_numpy(shape)
        self.is_single = not self._shape and self._stored is None
        self.is_plain = self.is_single and feature.dtype == "string"

    def of(self, value: Value) -> Typed:
        """What `decode` has of it.

        Raises:
          ExampleError: it is not as declared.
        """
        if value is None:
            value = [] if self._dtype is None else np.zeros(0, self._dtype)
        dtype = None if isinstance(value, list) else value.dtype
        if dtype != self._dtype:
            expected, got = self._dtype or "string", dtype or "string"
            raise ExampleError(f"feature {self.name!r}: expected {expected}, got {got}")
        if isinstance(value, list):
            return self._shaped([self._element(one) for one in value])
        return self._shaped(value)

    def find(self, data: bytes, at: int) -> tuple[int, int] | None:
        """Where the value begins and ends, of an entry that begins at `at`; None where that is of
        another feature.

        Raises:
          _UnlikeError: it is laid out in another way.
        """
        if at == len(data):
            return None
        size, start = _length(data, at + 1)
        end = start + size
        if data[at] != _FIRST or not data.startswith(self._head, start):
            return None
        size, start = _length(data, start + len(self._head))
        if start + size != end:
            raise _UnlikeError
        start = _content(data, start, self._list, end)
        if self._dtype is not None or not self._shape:  # all of it in one piece
            start = _content(data, start, _FIRST, end)
        if len(self.known) < _REMEMBERED:
            self.known[data[at + 1 : at + 4]] = data[at:start], start - at, end - at
        return start, end

    def read(self, data: bytes, start: int, end: int) -> Typed:
        """The value that stands there.

        Raises:
          ValueError: it is not as declared.
        """
        if self._dtype is None:
            if not self._shape:
                return self._element(data[start:end])
            return self._shaped([self._element(one) for one in _pieces(data, start, end)])
        if self._dtype.kind == "f":
            return self._shaped(np.frombuffer(data[start:end], self._dtype).copy())
        if not self._shape and start < end <= start + 2:
            value, start = _length(data, start)
            if start != end:
                raise _UnlikeError
            return np.int64(value)
        return self._shaped(decode_varints(data[start:end]))

    def _element(self, value: bytes) -> Any:
        """One of its values."""
        if self._stored is None:
            return value
        dtype, shape = self._stored
        try:
            array = np.frombuffer(value, dtype)
            return array.reshape(shape).copy()
        except ValueError as error:
            what = f"{len(value)} bytes are no array of {dtype} and {_told(shape)}"
            raise ExampleError(f"feature {self.name!r}: {what}") from error

    def _shaped(self, values: list[Any] | npt.NDArray[Any]) -> Typed:
        count, unit = len(values), self._unit
        if count != unit if self._is_fixed else count and (not unit or count % unit):
            what = f"{count} values, expected {_told(self._shape)}"
            raise ExampleError(f"feature {self.name!r}: {what}")
        if not self._shape:
            return values[0]
        if isinstance(values, list):
            array = np.empty(count, object)
            for place, value in enumerate(values):
                array[place] = value
            values = array
        if self._shape.count(-1) > 1:
            return values
        return (
            values.reshape(self._shape)
            if count
            else values.reshape([max(n, 0) for n in self._shape])
        )


def _content(data: bytes, at: int, tag: int, end: int) -> int:
    """Where a field has its content, which has to end at `end`."""
    size, start = _length(data, at + 1)
    if data[at] != tag or start + size != end:
        raise _UnlikeError
    return start


def _length(data: bytes, at: int) -> tuple[int, int]:
    """A varint, and where what follows stands."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    second = data[at + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, at + 2
    return read_varint(data, at, len(data))


def _pieces(data: bytes, at: int, end: int) -> list[bytes]:
    """The values of a BytesList."""
    found = []
    while at < end:
        size, start = _length(data, at + 1)
        if data[at] != _FIRST:
            raise _UnlikeError
        at = start + size
        found.append(data[start:at])
    if at != end:
        raise _UnlikeError
    return found


def _as_numpy(shape: Sequence[int | None]) -> tuple[int, ...]:
    """A shape with -1 for what is not known."""
    return tuple(-1 if size is None else size for size in shape)


def _told(shape: Sequence[int]) -> str:
    return "x".join("?" if size < 0 else str(size) for size in shape) or "one"
