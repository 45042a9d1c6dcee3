"""Cache of the rows that were read to infer column types, so that they are parsed once.

A column is cached with the narrowest type that holds all its texts in a part of the listing. If
other parts widen the type, the part is read again from its files.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from recordmill import strict_json
from recordmill.errors import DamageError, Reason
from recordmill.storage.files import Location, MissingError
from recordmill.transforms.model import batch
from recordmill.transforms.sources.row_formats.reading.row_file import BadRow, Rows
from recordmill.transforms.staged.arrow_files import (
    PIECE_SUM,
    piece_sum,
    read_checked,
    read_piece,
)
from recordmill.transforms.staged.mapped_files import open_arrow

_NUMBERS = pa.field("__numbers__", pa.int64())
_FILES = pa.field("__files__", pa.int32())  # the last column
_ROW_INFO = b"rows"


class RowCache(NamedTuple):
    """Cache of parsed rows in files of a folder. text: columns that are cached as text."""

    folder: Location
    text: Collection[str] = ()

    def put(self, sections: pa.RecordBatch, found: Sequence[Sequence[Rows]]) -> None:
        """Store the rows of each block of a part, unless a column has several types."""
        schema = _schema_of([rows.columns for several in found for rows in several])
        if schema is None:
            return
        self.folder.make_dirs()
        place = self._place(sections)
        if place.is_local:
            with place.open_scratch() as file:
                _write(file, schema, found)
            return
        stored = pa.BufferOutputStream()
        _write(stored, schema, found)
        content = stored.getvalue()
        place.write_bytes(content.to_pybytes() + piece_sum(content), scratch=True)

    def take(self, sections: pa.RecordBatch, wanted: pa.Schema) -> list[list[Rows]] | None:
        """Return the rows of each block with the schema `wanted`.

        Returns None if the cache does not have them, or has other types or damaged data.
        """
        place = self._place(sections)
        try:
            return read_checked(place, lambda: self._read(place, len(sections), wanted))
        except (MissingError, DamageError):
            return None

    def _read(self, place: Location, blocks: int, wanted: pa.Schema) -> list[list[Rows]] | None:
        if place.is_local:
            reader = pa.ipc.open_file(open_arrow(place))
        else:
            reader = pa.ipc.open_file(read_piece(place, 0, place.size() - PIECE_SUM))
        found: list[list[Rows]] = [[] for _ in range(blocks)]
        for number in range(reader.num_record_batches):
            columns, metadata = reader.get_batch_with_custom_metadata(number)
            if not all(_fits(columns[field.name], field.type) for field in wanted):
                return None
            info = json.loads(metadata[_ROW_INFO])
            arrays = [_as(columns[field.name], field.type) for field in wanted]
            files = columns[_FILES.name]
            rows = Rows(
                columns=pa.record_batch(arrays, schema=wanted),
                numbers=np.asarray(columns[_NUMBERS.name]),
                files=None if files.null_count else np.asarray(files),
                bad=[
                    BadRow(number, Reason(reason), why, file)
                    for number, reason, why, file in info["bad"]
                ],
                blank=info["blank"],
                copies=info["copies"],
            )
            found[info["block"]].append(rows)
        return found

    def forget(self, sections: pa.RecordBatch) -> None:
        """Delete the rows of a part, to free disk space. A retry reads the files again."""
        self._place(sections).delete(missing_ok=True)

    def _place(self, sections: pa.RecordBatch) -> Location:
        """Return the cache file. Its name depends on the sizes and times of the listed files."""
        return self.folder / f"{xxhash.xxh3_128_hexdigest(batch.to_bytes(sections))}.arrow"


def _write(sink: Any, schema: pa.Schema, found: Sequence[Sequence[Rows]]) -> None:
    """Write the rows of each block."""
    written = schema.append(_NUMBERS).append(_FILES)
    with pa.ipc.new_file(sink, written) as writer:
        for block, several in enumerate(found):
            for rows in several:
                arrays = [_as(rows.columns[field.name], field.type) for field in schema]
                files = pa.nulls(len(rows.numbers), pa.int32())
                arrays += [
                    pa.array(rows.numbers),
                    files if rows.files is None else pa.array(rows.files),
                ]
                columns = pa.record_batch(arrays, schema=written)
                info = {"block": block, "bad": rows.bad}
                info |= {"blank": rows.blank, "copies": rows.copies}
                writer.write_batch(
                    columns, custom_metadata={_ROW_INFO: strict_json.to_text(info, ascii_only=True)}
                )


def _schema_of(parts: Sequence[pa.RecordBatch]) -> pa.Schema | None:
    """Return the common schema of parts, None if a column has several types."""
    if not parts:
        return None
    fields = []
    for name in parts[0].schema.names:
        columns = [part[name] for part in parts]
        types = {column.type for column in columns if column.null_count < len(column)}
        if len(types) > 1:
            return None
        fields.append(pa.field(name, types.pop() if types else pa.string()))
    return pa.schema(fields)


def _fits(column: pa.Array, kind: pa.DataType) -> bool:
    """Return whether a column has a type; a column of nulls has any type."""
    return bool(column.type == kind or column.null_count == len(column))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """Return a column that fits a type as a column of that type."""
    return column if column.type == kind else pa.nulls(len(column), kind)
