"""Decodes records into the dtypes and shapes that a dataset declares.

All records of a dataset have the same layout: features sorted by name, each of them in one map
entry with one packed list. `RecordDecoder` reads this layout directly. A record with another layout
is decoded by `decode`, as protobuf would, which takes several times as long.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.errors import did_you_mean
from recordmill.tfrecord.decode import ExampleError, Value, decode_steps, decoder, writable_array
from recordmill.tfrecord.features import Feature, Features, shape_text
from recordmill.tfrecord.varint import decode_varints, encode_varint, read_varint

# bytes, a NumPy scalar, or an array, depending on the feature: too dynamic for a static type.
Typed = Any
TypedRecord = dict[str, Typed]

_FIELD_1 = 0x0A  # tag of field 1 with the wire type LEN
_LISTS = {"string": 0x0A, "float32": 0x12, "int64": 0x1A}  # tags of lists in a Feature
_NUMBERS: dict[str, np.dtype[Any]] = {"float32": np.dtype("<f4"), "int64": np.dtype("<i8")}
_CACHE_SIZE = 256  # values, and layouts, cached per feature


class _OtherLayoutError(Exception):
    """A record has another layout than the records of a dataset have."""


class RecordDecoder:
    """Decodes the records of a dataset.

    A value of shape () is a NumPy scalar or bytes. A value of any other shape is an array, with the
    dtype object for bytes. A feature that a record lacks, because a dimension is None, is an empty
    array. Arrays stored as bytes are arrays of their dtype and shape. A feature list with steps of
    different lengths is a list of arrays, one per step.
    """

    def __init__(self, features: Features, *, only: Collection[str] | None = None) -> None:
        """Prepare to decode records.

        only: names of the features to decode; None for all.

        Raises:
          ValueError: a name is unknown.
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
        self._selected = [name for name in features if only is None or name in only]
        # Arrays whose shape is stored in other features.
        self._shapes = {
            name: features[name].shape_features
            for name in self._selected
            if features[name].kind == "raw"
            and features[name].shape_is_open
            and features[name].shape_features
        }
        needed = {*self._selected, *itertools.chain.from_iterable(self._shapes.values())}
        self._names = [name for name in features if name in needed]
        self._decoders = {
            name: _FeatureDecoder(name, feature, is_needed=name in needed)
            for name, feature in features.items()
        }
        # Steps of different lengths do not form an array.
        self._ragged = [
            name
            for name in self._selected
            if features[name].sequence and features[name].shape.count(None) > 1
        ]
        self._sequences = any(feature.sequence for feature in features.values())
        # The order in which protobuf's deterministic serialization writes a map.
        self._sorted = sorted(self._decoders.values(), key=lambda one: one.name.encode())

    def __call__(self, payload: bytes) -> TypedRecord:
        """Decode a serialized Example or SequenceExample; values are in the order of the features.

        Raises:
          ExampleError: the payload is neither, or its features are not as declared.
        """
        record = self._record(payload)
        return self._in_shape(record) if self._shapes else record

    def _record(self, payload: bytes) -> TypedRecord:
        """Return the selected features, and those that hold shapes of arrays."""
        if not self._sequences:
            try:
                return self._decode_layout(payload)
            except (_OtherLayoutError, IndexError, ValueError):
                pass  # if the record is invalid, the code below reports why
        example = self._decode(payload)
        for name in sorted(example.keys() - self._decoders.keys()):
            raise ExampleError(f"has the feature {name!r}, which is not declared")
        record = {name: self._decoders[name].convert(example.get(name)) for name in self._names}
        if self._ragged:
            steps = decode_steps(payload)
            record |= {name: [*map(writable_array, steps.get(name, []))] for name in self._ragged}
        return record

    def _in_shape(self, record: TypedRecord) -> TypedRecord:
        """Return the selected features, arrays reshaped to the shape that the record holds.

        Raises:
          ExampleError: the values do not fill that shape.
        """
        for name, sizes in self._shapes.items():
            shape = tuple(int(n) for size in sizes for n in np.ravel(record[size]))
            try:
                record[name] = record[name].reshape(shape)
            except ValueError as error:
                what = f"{record[name].size} values do not fill the shape {_shape_text(shape)}"
                raise ExampleError(f"feature {name!r}: {what}") from error
        return {name: record[name] for name in self._selected}

    def _decode_layout(self, data: bytes) -> TypedRecord:
        """Decode an Example with the layout of a dataset's records.

        Raises:
          _OtherLayoutError, IndexError, ValueError: it has another layout.
        """
        end = len(data)
        values: dict[str, Typed] = dict.fromkeys(self._names, b"")
        at = _content(data, 0, _FIELD_1, end)
        for one in self._sorted:
            # Numbers and short texts repeat, so the values of short entries are cached.
            size = data[at + 1] if at < end else 0
            entry = data[at : at + 2 + size]
            value = one.cached_values.get(entry)
            if value is not None:
                values[one.name] = value
                at += 2 + size
                continue
            # Entries whose value has the same size have the same prefix.
            layout = one.cached_layouts.get(entry[1:4])
            if layout is not None and data.startswith(layout[0], at):
                start = at + layout[1]
                at += layout[2]
            elif (place := one.find(data, at)) is not None:
                start, at = place
            else:
                if one.is_needed:
                    values[one.name] = one.convert(None)
                continue
            if not one.is_needed:
                continue
            value = data[start:at] if one.is_plain_bytes else one.read(data, start, at)
            values[one.name] = value
            if one.is_immutable and size < 0x80 and len(one.cached_values) < _CACHE_SIZE:
                one.cached_values[entry] = value
        if at != end:
            raise _OtherLayoutError
        return values


class _FeatureDecoder:
    """Decodes one feature of all records.

    is_needed: whether records get the feature, or another needs it for its shape.
    cached_values: {map entry: value}.
    cached_layouts: {second to fourth byte of an entry: (prefix, start of the value, size)}, where
      start and size are relative to the entry.
    is_plain_bytes: a value is the bytes of the entry.
    is_immutable: a value is one scalar or bytes, so that records can share it.
    """

    def __init__(self, name: str, feature: Feature, *, is_needed: bool) -> None:
        self.name = name
        self.is_needed = is_needed
        self.cached_values: dict[bytes, Typed] = {}
        self.cached_layouts: dict[bytes, tuple[bytes, int, int]] = {}
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
        self.is_immutable = not self._shape and self._stored is None
        self.is_plain_bytes = self.is_immutable and feature.dtype == "string"

    def convert(self, value: Value) -> Typed:
        """Convert values that `decode` returned to the declared dtype and shape.

        Raises:
          ExampleError: the values are not as declared.
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
        """Return the start and end of the value in the entry at `at`; None for another feature.

        Raises:
          _OtherLayoutError: the entry has another layout.
        """
        if at == len(data):
            return None
        size, start = _length(data, at + 1)
        end = start + size
        if data[at] != _FIELD_1 or not data.startswith(self._head, start):
            return None
        size, start = _length(data, start + len(self._head))
        if start + size != end:
            raise _OtherLayoutError
        start = _content(data, start, self._list, end)
        if self._dtype is not None or not self._shape:  # packed numbers, or one byte string
            start = _content(data, start, _FIELD_1, end)
        if len(self.cached_layouts) < _CACHE_SIZE:
            self.cached_layouts[data[at + 1 : at + 4]] = data[at:start], start - at, end - at
        return start, end

    def read(self, data: bytes, start: int, end: int) -> Typed:
        """Decode the value in data[start:end].

        Raises:
          ValueError: the value is not as declared.
        """
        if self._dtype is None:
            if not self._shape:
                return self._element(data[start:end])
            return self._shaped([self._element(one) for one in _byte_strings(data, start, end)])
        if self._dtype.kind == "f":
            return self._shaped(np.frombuffer(data[start:end], self._dtype).copy())
        if not self._shape and start < end <= start + 2:
            value, start = _length(data, start)
            if start != end:
                raise _OtherLayoutError
            return np.int64(value)
        return self._shaped(decode_varints(data[start:end]))

    def _element(self, value: bytes) -> Any:
        """Return one byte string, or the array that it stores."""
        if self._stored is None:
            return value
        dtype, shape = self._stored
        try:
            array = np.frombuffer(value, dtype)
            return array.reshape(shape).copy()
        except ValueError as error:
            what = f"{len(value)} bytes do not fill an array of {dtype} {_shape_text(shape)}"
            raise ExampleError(f"feature {self.name!r}: {what}") from error

    def _shaped(self, values: list[Any] | npt.NDArray[Any]) -> Typed:
        count, unit = len(values), self._unit
        if count != unit if self._is_fixed else count and (not unit or count % unit):
            what = f"{count} values, expected {_shape_text(self._shape)}"
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
    """Return the start of a field's content, which must end at `end`."""
    size, start = _length(data, at + 1)
    if data[at] != tag or start + size != end:
        raise _OtherLayoutError
    return start


def _length(data: bytes, at: int) -> tuple[int, int]:
    """Decode the varint at `at`; return its value and the byte after it."""
    first = data[at]
    if first < 0x80:
        return first, at + 1
    second = data[at + 1]
    if second < 0x80:
        return first & 0x7F | second << 7, at + 2
    return read_varint(data, at, len(data))


def _byte_strings(data: bytes, at: int, end: int) -> list[bytes]:
    """Return the values of a BytesList."""
    found = []
    while at < end:
        size, start = _length(data, at + 1)
        if data[at] != _FIELD_1:
            raise _OtherLayoutError
        at = start + size
        found.append(data[start:at])
    if at != end:
        raise _OtherLayoutError
    return found


def _as_numpy(shape: Sequence[int | None]) -> tuple[int, ...]:
    """Return a shape with -1 for unknown dimensions."""
    return tuple(-1 if size is None else size for size in shape)


def _shape_text(shape: Sequence[int]) -> str:
    return shape_text(None if size < 0 else size for size in shape)
