"""Fast parser of valid JSON lines, based on pyarrow.

Blocks that pyarrow rejects, or parses differently from Python's `json`, are left to `json_lines`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from recordmill.transforms.sources.row_formats.text.line_blocks import LineBlock
from recordmill.transforms.sources.row_formats.values.equal_floats import EqualFloats, equal_floats
from recordmill.transforms.sources.row_formats.values.nested import (
    flat_schema,
    flatten,
    is_nested,
    nested_schema,
    object_names,
)
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser

_KEY = re.compile(rb'"((?:[^"\\]|\\.)*)"\s*:')
_DOTTED = re.compile(rb'"[^"\\]*\.[^"\\]*"\s*:')  # a key with a dot
_LEAST_VALUE = 5  # bytes of a key and a value: "":1,
_SAMPLED_ROWS = 256
_SUSPICIOUS_CELLS = 1 << 24
_BRACKETS = 500  # limit per row: pyarrow crashes on deep nesting, Python fails at a depth of 1000


def parse(lines: LineBlock, wanted: pa.Schema) -> pa.RecordBatch | None:
    """Return the rows with the columns of `wanted`, None if they must be parsed one by one."""
    schema: pa.Schema | None = wanted
    if any("." in name for name in wanted.names) and _has_objects(lines):
        # A dot in a key could stand for another value than the same dot between two keys.
        schema = None if _DOTTED.search(lines.data) else nested_schema(wanted)
    table = None if schema is None else _parse(lines, schema)
    if table is None:
        return None
    if schema is not wanted:
        (rows,) = table.combine_chunks().to_batches()
        table = flatten(rows)
    arrays = [_one_chunk(table.column(name)) for name in wanted.names]
    return pa.record_batch(arrays, schema=wanted)


def _has_objects(lines: LineBlock) -> bool:
    """Return whether a row may have objects inside."""
    return lines.data.count(b"{") > len(lines.ends)


def _one_chunk(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


class InferredColumns(NamedTuple):
    """The type of each column, the names of objects, and floats that become equal as float32."""

    types: dict[str, pa.DataType]
    objects: set[str]
    equal: dict[str, EqualFloats | None]


def infer(lines: LineBlock, parser: ValueParser) -> InferredColumns | None:
    """Return what is inferred of columns, None if rows are parsed singly.

    The type of a column of which all values are missing is null.
    """
    table = _parse(lines, None)
    if table is None:
        return None
    objects = object_names(table.schema)
    if any(map(is_nested, table.schema.types)):
        try:
            schema = flat_schema(table.schema)
        except ValueError:
            return None
        if len({*schema.names}) < len(schema.names):
            return None
        table = pa.Table.from_batches([flatten(one) for one in table.to_batches()], schema)
    if any(map(_differs_from_json, table.columns)):
        return None
    types = {name: _without_times(table.schema.field(name).type) for name in table.schema.names}
    for name, kind in types.items():
        if kind == pa.string() and (spelled := parser.spellings(name)):
            values = table[name].cast(pa.string()).unique().drop_null()
            if pc.all(pc.is_in(values, value_set=pa.array(spelled, pa.string()))).as_py():
                types[name] = pa.null()
    floats = (name for name, kind in types.items() if kind == pa.float64())
    equal = {name: equal_floats(_one_chunk(table[name])) for name in floats}
    return InferredColumns(types, objects, equal)


def may_have_many_keys(lines: LineBlock) -> bool:
    """Return whether the rows times their different keys may be many more than their values.

    Only rows at regular distances are looked at, and the length of the longest row.
    """
    rows = len(lines.ends)
    if rows < 2:
        return False
    starts = np.append(0, lines.ends[:-1])
    longest = int((lines.ends - starts).max()) // _LEAST_VALUE
    chosen = np.linspace(0, rows - 1, min(rows, _SAMPLED_ROWS), dtype=np.int64)
    found: set[bytes] = set()
    for row in chosen.tolist():
        found.update(_KEY.findall(lines.data, int(starts[row]), int(lines.ends[row])))
    expected = len(found) * -(-rows // len(chosen))
    return rows * max(expected, longest) > _SUSPICIOUS_CELLS


def count_keys(lines: LineBlock) -> int:
    """Return the number of different keys, of objects inside of rows too."""
    return len(set(_KEY.findall(lines.data)))


def _parse(lines: LineBlock, wanted: pa.Schema | None) -> pa.Table | None:
    data = lines.data if lines.data.endswith(b"\n") else lines.data + b"\n"
    if not len(lines.ends) or not _are_objects(data, lines):
        return None
    try:
        table = pyarrow.json.read_json(
            pa.BufferReader(data),
            read_options=pyarrow.json.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pyarrow.json.ParseOptions(
                explicit_schema=wanted,
                unexpected_field_behavior="infer" if wanted is None else "ignore",
            ),
        )
    except (pa.ArrowInvalid, UnicodeDecodeError):
        return None
    # Every line holds at least one object, so equal counts mean one object per line.
    return table if len(table) == len(lines.ends) else None


def _are_objects(data: bytes, lines: LineBlock) -> bool:
    """Return whether every line has the brackets of an object, and none is nested too deeply."""
    raw = np.frombuffer(data, np.uint8)
    starts = np.append(0, lines.ends[:-1])
    ends = np.append(starts[1:], len(data))
    last = raw[ends - 2]
    last = np.where(last == ord("\r"), raw[np.maximum(ends - 3, 0)], last)
    if not ((raw[starts] == ord("{")).all() and (last == ord("}")).all()):
        return False
    if data.count(b"{") + data.count(b"[") - len(starts) < _BRACKETS:
        return True
    brackets = (raw == ord("{")) | (raw == ord("["))
    return int(np.add.reduceat(brackets, starts, dtype=np.int64).max()) < _BRACKETS


def _differs_from_json(column: pa.ChunkedArray) -> bool:
    """Return whether Python's parser may infer another type for a column.

    pyarrow converts integers to floats if they are very large, or mixed with floats; Python keeps
    integers that a float cannot hold.
    """
    while pa.types.is_list(column.type):
        column = pc.list_flatten(column)
    if pa.types.is_struct(column.type):
        return True
    if not pa.types.is_floating(column.type):
        return False
    largest = pc.max(pc.abs(column)).as_py()
    return largest is not None and not largest < 2**53


def _without_times(kind: pa.DataType) -> pa.DataType:
    """Return a type with string for times, because pyarrow parses some texts as times."""
    if pa.types.is_list(kind):
        return pa.list_(_without_times(kind.value_type))
    return pa.string() if pa.types.is_temporal(kind) else kind
