"""TFRecord files as other programs write them, for tests of TFRecords as input."""

import gzip
import pathlib
import struct
from collections.abc import Iterable, Mapping, Sequence

from recordmill.tfrecord.framing import frame
from recordmill.tfrecord.varint import encode_varint

Values = Sequence[int] | Sequence[float] | Sequence[bytes]


def field(tag: int, content: bytes) -> bytes:
    return bytes([tag]) + encode_varint(len(content)) + content


def feature(values: Values, *, packed: bool = True) -> bytes:
    """A serialized Feature; without values it has no list."""
    if not values:
        return b""
    if isinstance(values[0], bytes):
        return field(0x0A, b"".join(field(0x0A, one) for one in values))
    if isinstance(values[0], float):
        numbers = [struct.pack("<f", one) for one in values]
        tag, single = 0x12, b"\x0d"
    else:
        numbers = [encode_varint(one & (1 << 64) - 1) for one in values]
        tag, single = 0x1A, b"\x08"
    if packed:
        return field(tag, field(0x0A, b"".join(numbers)))
    return field(tag, b"".join(single + one for one in numbers))


def example(features: Mapping[str, Values], *, packed: bool = True) -> bytes:
    """A serialized tf.train.Example, with its features in the order of the mapping."""
    entries = (
        field(0x0A, field(0x0A, name.encode()) + field(0x12, feature(values, packed=packed)))
        for name, values in features.items()
    )
    return field(0x0A, b"".join(entries))


def write_records(
    path: pathlib.Path, records: Iterable[Mapping[str, Values] | bytes], *, compressed: bool = False
) -> pathlib.Path:
    """Writes a TFRecord file of Examples, or of given payloads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    payloads = (one if isinstance(one, bytes) else example(one) for one in records)
    data = b"".join(map(frame, payloads))
    path.write_bytes(gzip.compress(data) if compressed else data)
    return path
