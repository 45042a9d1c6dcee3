"""Rows that had to be read to learn what their columns are, kept for whoever reads them next.

A column is kept as the narrowest type that holds all texts of a part. Where it is to be of another
one, as other parts say more of it, the part is read again.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import xxhash

from recordmill.errors import Reason
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.sources.row_formats.rows import BadRow, Rows
from recordmill.transforms.staged.arrow_files import open_arrow

_NUMBERS = pa.field("__numbers__", pa.int64())  # the column after all others
_TOLD = b"told"


class Keep(NamedTuple):
    """folder: where rows are kept. text: columns that are wanted as they are written."""

    folder: Location
    text: Collection[str] = ()

    def put(self, sections: pa.RecordBatch, found: Sequence[Sequence[Rows]]) -> None:
        """Keeps the rows of each section of a part, unless a column is of several types there."""
        schema = _schema_of([rows.columns for several in found for rows in several])
        if schema is None:
            return
        self.folder.make_dirs()
        with (
            self._place(sections).open_output() as sink,
            pa.ipc.new_file(sink, schema.append(_NUMBERS)) as writer,
        ):
            for section, several in enumerate(found):
                for rows in several:
                    arrays = [_as(rows.columns[field.name], field.type) for field in schema]
                    arrays.append(pa.array(rows.numbers))
                    columns = pa.record_batch(arrays, schema=schema.append(_NUMBERS))
                    told = {"section": section, "bad": rows.bad, "blank": rows.blank}
                    writer.write_batch(columns, custom_metadata={_TOLD: json.dumps(told)})

    def take(self, sections: pa.RecordBatch, wanted: pa.Schema) -> list[list[Rows]] | None:
        """The rows of each section, with the columns that are wanted; None where they were not
        kept as these, or have been forgotten.
        """
        try:
            reader = pa.ipc.open_file(open_arrow(self._place(sections)))
        except FileNotFoundError:
            return None
        found: list[list[Rows]] = [[] for _ in range(len(sections))]
        for number in range(reader.num_record_batches):
            columns, metadata = reader.get_batch_with_custom_metadata(number)
            if not all(_fits(columns[field.name], field.type) for field in wanted):
                return None
            told = json.loads(metadata[_TOLD])
            arrays = [_as(columns[field.name], field.type) for field in wanted]
            rows = Rows(
                columns=pa.record_batch(arrays, schema=wanted),
                numbers=np.asarray(columns[_NUMBERS.name]),
                bad=[BadRow(number, Reason(reason), why) for number, reason, why in told["bad"]],
                blank=told["blank"],
            )
            found[told["section"]].append(rows)
        return found

    def forget(self, sections: pa.RecordBatch) -> None:
        """Their room is needed for what is made of them; another attempt reads the file again."""
        self._place(sections).delete(missing_ok=True)

    def _place(self, sections: pa.RecordBatch) -> Location:
        """Named after what was listed, with times and sizes: of another file nothing is found."""
        return self.folder / f"{xxhash.xxh3_128_hexdigest(batch.to_bytes(sections))}.arrow"


def _schema_of(parts: Sequence[pa.RecordBatch]) -> pa.Schema | None:
    """The columns of all parts, where those with a value are of one type."""
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
    """Whether a column is of a type; one without a value is of all."""
    return bool(column.type == kind or column.null_count == len(column))


def _as(column: pa.Array, kind: pa.DataType) -> pa.Array:
    """A column that fits a type, as one of it."""
    return column if column.type == kind else pa.nulls(len(column), kind)
