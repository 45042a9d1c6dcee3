"""Serialised tf.train.Examples and SequenceExamples back to values; `example` has the format."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.format.features import Features
from recordmill.format.varint import decode_varints, read_varint

Value = list[bytes] | npt.NDArray[np.int64] | npt.NDArray[np.float32] | None
Decode = Callable[[bytes], dict[str, Value]]

_FIRST, _SECOND = 0x0A, 0x12  # tags of fields 1 and 2 where they are of a given length
_BYTES, _FLOATS, _INTS = 0x0A, 0x12, 0x1A
_KINDS = (_BYTES, _FLOATS, _INTS)
_UNPACKED = {_FLOATS: 0x0D, _INTS: 0x08}  # the tag of a number by itself


class ExampleError(ValueError):
    """Bytes that are not a tf.train.Example."""


def decoder(features: Features) -> Decode:
    """What reads the records of a dataset."""
    sequences = any(feature.sequence for feature in features.values())
    return decode_sequence_example if sequences else decode_example


def decode_example(payload: bytes) -> dict[str, Value]:
    """Reads a serialised tf.train.Example: its features by name, None for one of no kind.

    Reads as protobuf does: fields that an Example does not have are skipped, numbers may be packed
    or not, of several entries of one name the last counts.

    Raises:
        ExampleError: the bytes are not a tf.train.Example.
    """
    features: dict[str, Value] = {}
    for tag, at, stop in _spans(payload, 0, len(payload)):
        if tag == _FIRST:
            features |= _map(payload, at, stop, steps=False)
    return features


def decode_sequence_example(payload: bytes) -> dict[str, Value]:
    """Reads a serialised tf.train.SequenceExample: its context, and of its feature lists the values
    of all steps one after another.

    Raises:
        ExampleError: the bytes are no such message, or a feature list has steps of several kinds.
    """
    features: dict[str, Value] = {}
    for tag, at, stop in _spans(payload, 0, len(payload)):
        if tag in (_FIRST, _SECOND):
            features |= _map(payload, at, stop, steps=tag == _SECOND)
    return features


def is_sequence_example(payload: bytes) -> bool:
    """Whether a message is a SequenceExample, by its second field, which an Example has not.

    Raises:
        ExampleError: it has a field that neither has. Other messages often read as an Example
            without features, since fields that are not known are skipped.
    """
    found = False
    for tag, *_ in _spans(payload, 0, len(payload)):
        if tag not in (_FIRST, _SECOND):
            raise ExampleError(f"has a field {tag >> 3} of wire type {tag & 7}, as no Example has")
        found = found or tag == _SECOND
    return found


def decode_steps(payload: bytes) -> dict[str, list[Value]]:
    """Reads the feature lists of a SequenceExample: the values of every step by themselves.

    Raises:
        ExampleError: the bytes are no such message.
    """
    return dict(
        _steps(payload, start, end)
        for tag, at, stop in _spans(payload, 0, len(payload))
        if tag == _SECOND
        for inner, start, end in _spans(payload, at, stop)
        if inner == _FIRST
    )


def own_array(value: Value) -> Any:
    """A value as an array of one dimension, of objects where it holds bytes, that can be written
    to; None where there is none.
    """
    if isinstance(value, list):
        array = np.empty(len(value), object)
        array[:] = value
        return array
    return value if value is None or value.flags.writeable else value.copy()


def bytes_of_list(data: bytes, at: int, stop: int) -> list[bytes]:
    """Reads a BytesList."""
    return [*_parts(data, at, stop, kind=_BYTES)]


def _map(data: bytes, at: int, stop: int, *, steps: bool) -> dict[str, Value]:
    """Reads Features, or FeatureLists: a Feature by name, or the steps of a list."""
    return dict(
        _entry(data, start, end, steps=steps)
        for tag, start, end in _spans(data, at, stop)
        if tag == _FIRST
    )


def _entry(data: bytes, at: int, stop: int, *, steps: bool) -> tuple[str, Value]:
    """Reads an entry of the map."""
    name = ""
    kind = 0
    parts: list[bytes] = []
    for tag, start, end in _spans(data, at, stop):
        if tag == _FIRST:
            name = _name(data, start, end)
        elif tag == _SECOND:
            if not steps:
                kind, parts = _feature(data, start, end, kind, parts)
                continue
            for inner, first, last in _spans(data, start, end):
                if inner == _FIRST:
                    one, some = _feature(data, first, last, 0, [])
                    if one != kind and parts:
                        raise ExampleError(f"feature list {name!r} has steps of several kinds")
                    kind = one
                    parts += some
    return name, _value(name, kind, parts)


def _steps(data: bytes, at: int, stop: int) -> tuple[str, list[Value]]:
    """Reads an entry of FeatureLists, step by step."""
    name = ""
    features: list[tuple[int, list[bytes]]] = []
    for tag, start, end in _spans(data, at, stop):
        if tag == _FIRST:
            name = _name(data, start, end)
        elif tag == _SECOND:
            features += [
                _feature(data, first, last, 0, [])
                for inner, first, last in _spans(data, start, end)
                if inner == _FIRST
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
    """The kind and the parts of a Feature, given those that there are already."""
    for tag, start, end in _spans(data, at, stop):
        if tag in _KINDS:
            if tag != kind:  # of a oneof the last counts, of one kind all together
                kind, parts = tag, []
            parts.extend(_parts(data, start, end, kind=kind))
    return kind, parts


def _value(name: str, kind: int, parts: list[bytes]) -> Value:
    if kind == _BYTES:
        return parts
    if kind == _FLOATS:
        return np.frombuffer(b"".join(parts), "<f4")
    if kind == _INTS:
        try:
            return decode_varints(b"".join(parts))
        except ValueError as error:
            raise ExampleError(f"feature {name!r}: {error}") from error
    return None


def _parts(data: bytes, at: int, stop: int, *, kind: int) -> Iterator[bytes]:
    """Yields the byte strings of a list, or stretches of whole encoded numbers."""
    for tag, start, end in _spans(data, at, stop):
        if tag == _FIRST:
            if kind == _FLOATS and (end - start) % 4:
                raise ExampleError(
                    f"floats at byte {start} take {end - start} bytes, expected 4 each"
                )
            if kind == _INTS and start < end and data[end - 1] > 0x7F:
                raise ExampleError(f"the last of the integers before byte {end} is cut off")
            yield data[start:end]
        elif tag == _UNPACKED.get(kind):
            yield data[start:end]


def _spans(data: bytes, at: int, stop: int) -> Iterator[tuple[int, int, int]]:
    """Yields the fields of the message data[at:stop]: tag, and where the content is."""
    while at < stop:
        tag = data[at]
        if tag in _KINDS and at + 1 < stop and data[at + 1] < 0x80:  # what is common, fast
            start = at + 2
            at = start + data[at + 1]
            if at > stop:
                raise _too_long(start, at, stop)
        else:
            tag, at = _varint(data, at, stop)
            start, at = _content(data, tag, at, stop)
        yield tag, start, at


def _content(data: bytes, tag: int, at: int, stop: int) -> tuple[int, int]:
    """Where the content of a field begins and ends, given where its tag ends."""
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
    """Where a group ends, its closing tag included."""
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
