"""Decodes serialized tf.train.Examples and SequenceExamples; `example` describes the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.tfrecord.features import Features
from recordmill.tfrecord.varint import decode_varints, read_varint

Value = list[bytes] | npt.NDArray[np.int64] | npt.NDArray[np.float32] | None
Decode = Callable[[bytes], dict[str, Value]]

FIELD_1, FIELD_2 = 0x0A, 0x12  # tags of fields 1 and 2 with the wire type LEN
BYTES, FLOATS, INTS = 0x0A, 0x12, 0x1A  # tags of the lists in a Feature
_KINDS = (BYTES, FLOATS, INTS)
_UNPACKED = {FLOATS: 0x0D, INTS: 0x08}  # tags of a number that is not packed


class ExampleError(ValueError):
    """Bytes that are not a tf.train.Example."""


def decoder(features: Features) -> Decode:
    """Return the function that decodes the records of a dataset with these features."""
    sequences = any(feature.sequence for feature in features.values())
    return decode_sequence_example if sequences else decode_example


def decode_example(payload: bytes) -> dict[str, Value]:
    """Decode a serialized tf.train.Example: {feature: values}, None for one without a list.

    Decodes as protobuf does: unknown fields are skipped, numbers may be packed or not, and of
    several entries of one name the last one counts.

    Raises:
        ExampleError: the bytes are not a tf.train.Example.
    """
    features: dict[str, Value] = {}
    for tag, at, stop in _spans(payload, 0, len(payload)):
        if tag == FIELD_1:
            features |= _map(payload, at, stop, steps=False)
    return features


def decode_sequence_example(payload: bytes) -> dict[str, Value]:
    """Decode a serialized tf.train.SequenceExample: {feature: values} of context and feature lists.

    The values of a feature list are those of all its steps, concatenated.

    Raises:
        ExampleError: the bytes are not a tf.train.SequenceExample, or the steps of a feature list
            have different types.
    """
    features: dict[str, Value] = {}
    for tag, at, stop in _spans(payload, 0, len(payload)):
        if tag in (FIELD_1, FIELD_2):
            features |= _map(payload, at, stop, steps=tag == FIELD_2)
    return features


def is_sequence_example(payload: bytes) -> bool:
    """Return whether a message is a SequenceExample: it has field 2, which an Example has not.

    Raises:
        ExampleError: the message has a field that neither of the two has. Decoding would skip it,
            and often take the message for an Example without features.
    """
    found = False
    for tag, *_ in _spans(payload, 0, len(payload)):
        if tag not in (FIELD_1, FIELD_2):
            raise ExampleError(f"has a field {tag >> 3} of wire type {tag & 7}, as no Example has")
        found = found or tag == FIELD_2
    return found


def decode_steps(payload: bytes) -> dict[str, list[Value]]:
    """Decode the feature lists of a SequenceExample: {feature: the values of each step}.

    Raises:
        ExampleError: the bytes are not a tf.train.SequenceExample.
    """
    return dict(
        _steps(payload, start, end)
        for tag, at, stop in _spans(payload, 0, len(payload))
        if tag == FIELD_2
        for inner, start, end in _spans(payload, at, stop)
        if inner == FIELD_1
    )


def feature_names(payload: bytes) -> list[str]:
    """Return the names of the features of an Example, in their order.

    Raises:
        ExampleError: the bytes are not a tf.train.Example.
    """
    return [
        _name(payload, first, last)
        for tag, at, stop in _spans(payload, 0, len(payload))
        if tag == FIELD_1
        for inner, start, end in _spans(payload, at, stop)
        if inner == FIELD_1
        for number, first, last in _spans(payload, start, end)
        if number == FIELD_1
    ]


def byte_strings(data: bytes) -> list[bytes]:
    """Return the values of a BytesList.

    Raises:
        ExampleError: the bytes are not a BytesList.
    """
    return [*_parts(data, 0, len(data), kind=BYTES)]


def find_bytes(payload: bytes, feature: str) -> list[tuple[int, int]]:
    """Return the start and end of each byte string of a feature of an Example.

    Raises:
        ExampleError: the bytes are not a tf.train.Example.
    """
    places: list[tuple[int, int]] = []
    for tag, at, stop in _spans(payload, 0, len(payload)):
        for inner, start, end in _spans(payload, at, stop) if tag == FIELD_1 else ():
            entry = [*_spans(payload, start, end)] if inner == FIELD_1 else []
            name = b"".join(payload[i:j] for number, i, j in entry if number == FIELD_1)
            if name == feature.encode():
                places = [
                    (i, j)
                    for number, first, last in entry
                    if number == FIELD_2
                    for kind, begin, done in _spans(payload, first, last)
                    if kind == BYTES
                    for field, i, j in _spans(payload, begin, done)
                    if field == FIELD_1
                ]
    return places


def writable_array(value: Value) -> Any:
    """Return decoded values as a writable array of one dimension, or None for no values.

    Its dtype is int64, float32, or object (for bytes).
    """
    if isinstance(value, list):
        array = np.empty(len(value), object)
        array[:] = value
        return array
    return value if value is None or value.flags.writeable else value.copy()


def _map(data: bytes, at: int, stop: int, *, steps: bool) -> dict[str, Value]:
    """Decode Features, or with `steps` FeatureLists: {name: values}."""
    return dict(
        _entry(data, start, end, steps=steps)
        for tag, start, end in _spans(data, at, stop)
        if tag == FIELD_1
    )


def _entry(data: bytes, at: int, stop: int, *, steps: bool) -> tuple[str, Value]:
    """Decode a map entry: its name, and its values, of all steps if it is a feature list."""
    name = ""
    kind = 0
    parts: list[bytes] = []
    for tag, start, end in _spans(data, at, stop):
        if tag == FIELD_1:
            name = _name(data, start, end)
        elif tag == FIELD_2:
            if not steps:
                kind, parts = _feature(data, start, end, kind, parts)
                continue
            for inner, first, last in _spans(data, start, end):
                if inner == FIELD_1:
                    one, some = _feature(data, first, last, 0, [])
                    if one != kind and parts:
                        raise ExampleError(f"feature list {name!r} has steps of different types")
                    kind = one
                    parts += some
    return name, _value(name, kind, parts)


def _steps(data: bytes, at: int, stop: int) -> tuple[str, list[Value]]:
    """Decode a map entry of FeatureLists: its name, and the values of each step."""
    name = ""
    features: list[tuple[int, list[bytes]]] = []
    for tag, start, end in _spans(data, at, stop):
        if tag == FIELD_1:
            name = _name(data, start, end)
        elif tag == FIELD_2:
            features += [
                _feature(data, first, last, 0, [])
                for inner, first, last in _spans(data, start, end)
                if inner == FIELD_1
            ]
    return name, [_value(name, kind, parts) for kind, parts in features]


def _name(data: bytes, at: int, stop: int) -> str:
    try:
        return data[at:stop].decode()
    except UnicodeDecodeError as error:
        raise ExampleError(f"the name at byte {at} is not UTF-8") from error


def _feature(
    data: bytes, at: int, stop: int, kind: int, parts: list[bytes]
) -> tuple[int, list[bytes]]:
    """Return the kind and the parts of a Feature, merged with those decoded before."""
    for tag, start, end in _spans(data, at, stop):
        if tag in _KINDS:
            if tag != kind:  # the last kind of a oneof counts; lists of one kind are merged
                kind, parts = tag, []
            parts.extend(_parts(data, start, end, kind=kind))
    return kind, parts


def _value(name: str, kind: int, parts: list[bytes]) -> Value:
    if kind == BYTES:
        return parts
    if kind == FLOATS:
        return np.frombuffer(b"".join(parts), "<f4")
    if kind == INTS:
        try:
            return decode_varints(b"".join(parts))
        except ValueError as error:
            raise ExampleError(f"feature {name!r}: {error}") from error
    return None


def _parts(data: bytes, at: int, stop: int, *, kind: int) -> Iterator[bytes]:
    """Yield the byte strings of a BytesList, or the encoded numbers of another list."""
    for tag, start, end in _spans(data, at, stop):
        if tag == FIELD_1:
            if kind == FLOATS and (end - start) % 4:
                raise ExampleError(
                    f"floats at byte {start} take {end - start} bytes, expected 4 each"
                )
            if kind == INTS and start < end and data[end - 1] > 0x7F:
                raise ExampleError(f"the last of the integers before byte {end} is cut off")
            yield data[start:end]
        elif tag == _UNPACKED.get(kind):
            yield data[start:end]


def _spans(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yield (tag, start, end of the content) of each field of the message data[at:stop]."""
    while at < stop:
        tag = data[at]
        if tag in _KINDS and at + 1 < stop and data[at + 1] < 0x80:  # fast path for common fields
            start = at + 2
            at = start + data[at + 1]
            if at > stop:
                raise _too_long(start, at, stop)
        else:
            tag, at = _varint(data, at, stop)
            start, at = _content(data, tag, at, stop)
        yield tag, start, at


def _content(data: bytes, tag: int, at: int, stop: int) -> tuple[int, int]:
    """Return the start and end of a field's content; at: the byte after its tag."""
    number, wire_type = tag >> 3, tag & 7
    if not 0 < number < 1 << 29:
        raise ExampleError(f"before byte {at}: no field can have the number {number}")
    if wire_type == 2:
        size, at = _varint(data, at, stop)
        end = at + size
    elif wire_type == 0:
        end = _varint(data, at, stop)[1]
    elif wire_type == 1:
        end = at + 8
    elif wire_type == 5:
        end = at + 4
    elif wire_type == 3:
        end = _end_of_group(data, number, at, stop)
    else:
        raise ExampleError(f"before byte {at}: no field can begin with the wire type {wire_type}")
    if end > stop:
        raise _too_long(at, end, stop)
    return at, end


def _too_long(at: int, end: int, stop: int) -> ExampleError:
    return ExampleError(f"the field at byte {at} ends at {end}, but its message at {stop}")


def _end_of_group(data: bytes, number: int, at: int, stop: int) -> int:
    """Return the byte after a group and its end tag."""
    opened = [number]
    while opened:
        tag, at = _varint(data, at, stop)
        if tag & 7 == 3:
            opened.append(tag >> 3)
        elif tag & 7 != 4:
            at = _content(data, tag, at, stop)[1]
        elif opened.pop() != tag >> 3:
            raise ExampleError(f"before byte {at}: a group ends that did not begin")
    return at


def _varint(data: bytes, at: int, stop: int) -> tuple[int, int]:
    if at < stop and data[at] < 0x80:
        return data[at], at + 1
    try:
        return read_varint(data, at, stop)
    except ValueError as error:
        raise ExampleError(str(error)) from error
