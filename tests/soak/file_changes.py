"""Changes of one file of a dataset, by its format: damaged, or forged by someone who knows it."""

from __future__ import annotations

import io
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tests.soak.mutations import change_json

_NOISE = tuple(bytes([n]) for n in (0, 10, 34, 91, 123, 127, 128, 255))


def _bytes(content: bytes, random: np.random.Generator) -> bytes:
    data = bytearray(content)
    for _ in range(int(random.integers(1, 4))):
        at, stop = sorted(random.integers(0, len(data) + 1, 2).tolist())
        match int(random.integers(4)):
            case 0 if data:
                data[min(at, len(data) - 1)] ^= 1 << int(random.integers(8))
            case 1:
                del data[at:stop]
            case 2:
                data[at:at] = data[at : min(stop, at + 2000)]
            case _:
                data[at:at] = _NOISE[int(random.integers(len(_NOISE)))]
    return bytes(data)


def add_noise(content: bytes, random: np.random.Generator) -> bytes:
    return content + random.bytes(20)


def _json(content: bytes, random: np.random.Generator) -> bytes:
    return change_json(content, random)


def _lines(content: bytes, random: np.random.Generator) -> bytes:
    lines = content.splitlines()
    at = int(random.integers(len(lines)))
    lines[at] = change_json(lines[at], random)
    return b"\n".join(lines) + b"\n"


def _texts(content: bytes, random: np.random.Generator) -> bytes:
    """Lines that are repeated, missing, empty, long, or not UTF-8."""
    lines = content.split(b"\n")
    at = int(random.integers(len(lines)))
    choices = [b"\xff\xfe", b"", b"x" * 70_000, lines[0], b"\x00", "\u202e".encode()]
    match int(random.integers(3)):
        case 0:
            lines[at] = choices[int(random.integers(len(choices)))]
        case 1:
            lines.insert(at, choices[int(random.integers(len(choices)))])
        case _:
            del lines[at:]
    return b"\n".join(lines)


def _deep(content: bytes, random: np.random.Generator) -> bytes:
    depth = int(random.choice([500, 5_000, 200_000]))
    return content[: int(random.integers(2))] + b'[{"a":' * depth + b"9" * 5_000


def _parquet(content: bytes, random: np.random.Generator) -> bytes:
    table = pq.read_table(io.BytesIO(content))
    name = table.column_names[int(random.integers(table.num_columns))]
    at = table.column_names.index(name)
    kind = table[name].type
    match int(random.integers(8)):
        case 0:
            table = table.drop_columns([name])
        case 1:
            table = table.set_column(at, name, pa.nulls(len(table), kind))
        case 2:
            table = table.set_column(at, name, pa.array(["?"] * len(table)))
        case 3:
            table = table.take(pa.array(random.permutation(len(table))))
        case 4:
            table = table.take(pa.array([0] * 50_000))
        case 5 if pa.types.is_integer(kind):
            bits = kind.bit_width - (0 if pa.types.is_unsigned_integer(kind) else 1)
            some = [0, 1, (1 << bits) - 1, 1 << (bits - 1), *([-1] if bits % 8 else [])]
            table = table.set_column(at, name, pa.array(random.choice(some, len(table)), kind))
        case 6 if pa.types.is_string(kind):
            some = ["", "[" * 9_000, '{"objects": 7}', "\u0000", "x" * 50_000, "{}", '{"a": 1}']
            table = table.set_column(at, name, pa.array(random.choice(some, len(table)), kind))
        case _:
            schema = table.schema
            metadata = {
                b"recordmill": change_json(b'{"format": "recipes/1", "digest": ""}', random)
            }
            table = table.replace_schema_metadata(
                metadata if schema.metadata and b"recordmill" in schema.metadata else None
            )
            names = [f"{one}\ud7ff" if one == name else one for one in table.column_names]
            table = table.rename_columns(names)
    sink = io.BytesIO()
    pq.write_table(table, sink, row_group_size=max(len(table), 1))
    return sink.getvalue()


_Change = Callable[[bytes, np.random.Generator], bytes]
CHANGES: dict[str, tuple[_Change, ...]] = {
    "json": (_json, _json, _json, _json, _json, _deep, _bytes),
    "jsonl": (_lines, _lines, _lines, _deep, _texts, _bytes),
    "parquet": (_parquet, _parquet, _bytes),
    "txt": (_texts, _texts, _bytes),
    "pbtxt": (_texts, _bytes),
    "other": (_bytes,),
}


def form_of(file: str) -> str:
    """Return the key in `CHANGES` of a file."""
    suffix = file.rpartition(".")[2]
    return suffix if suffix in CHANGES else "other"
