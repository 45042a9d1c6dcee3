"""Columns that hold names of splits, but that no option uses as the splits."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError
from recordmill.format.split_names import canonical_split
from recordmill.job.staging import Listing, Staging
from recordmill.notes import Note
from recordmill.storage.files import StorageError
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.source import Layout
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.sources.folders.unused_splits import some
from recordmill.transforms.sources.row_formats.open_rows import wanted_columns
from recordmill.transforms.sources.rows.reading.row_sections import iter_sections
from recordmill.transforms.sources.rows.values.record_rows import RecordRows
from recordmill.transforms.staged.parts import read_part

_NAMES = re.compile(r"split|sets?$|partition|fold|phase|usage|purpose", re.IGNORECASE)
_SAMPLED = 4  # parts of the listing, and sections of each part


def unused_split_columns(
    data_type: DataType, layout: Layout, listing: Listing, staging: Staging
) -> Mapping[str, Sequence[str]]:
    """Return {column: names of splits that are its only values}, if nothing names the splits.

    Columns are selected by their names, and values are those of a few parts of the listing.
    """
    windows = data_type.windows
    if windows is not None and windows.divides_time:
        return {}
    if layout.split_source is not None or not listing.parts:
        return {}
    names = [
        field.name
        for field in user_fields(layout.columns)
        if pa.types.is_string(field.type) and _NAMES.search(field.name)
    ]
    if not names:
        return {}
    values: dict[str, set[str]] = {name: set() for name in names}
    try:
        for rows in _sample(data_type.source, names, listing, staging):
            for name in {*names}.intersection(rows.schema.names):
                values[name].update(rows[name].unique().drop_null().to_pylist())
    except (ConfigError, RecordError, StorageError):
        return {}  # the errors are reported when the rows are read again
    found = {name: sorted(filter(str.strip, values[name])) for name in names}
    return {
        name: splits
        for name, splits in found.items()
        if all(map(canonical_split, splits)) and len({*map(canonical_split, splits)}) > 1
    }


def column_notes(columns: Mapping[str, Sequence[str]]) -> Iterator[Note]:
    """Yield a note on each column of `unused_split_columns`."""
    for name, splits in columns.items():
        yield Note(
            "splits",
            f"the column {name!r} holds names of splits ({some(splits)}), but records are divided"
            f" by --splits: --split-column {shlex.quote(name)} takes them, --split-from none omits"
            " this note",
        )


def _sample(
    source: object, names: Sequence[str], listing: Listing, staging: Staging
) -> Iterator[pa.RecordBatch]:
    """Yield a sample of rows: of a listing itself, or of the sections of files that it names."""
    for number in _spread(len(listing.parts)):
        name = listing.parts[number].name
        listed = read_part(name, staging=staging)
        if not isinstance(source, RecordRows):
            yield listed
            continue
        wanted = wanted_columns(names, (), {})
        for file, section, _ in iter_sections(listed.take(pa.array(_spread(len(listed))))):
            opened = source.row_input.open(file)
            for rows in opened.read(section, wanted, names):
                yield pa.record_batch(
                    {
                        name: source.format.value_parser.mask_missing(name, rows.columns[name])
                        for name in names
                    }
                )


def _spread(count: int) -> list[int]:
    """Return up to `_SAMPLED` evenly spaced numbers below `count`, with the first and the last."""
    if count <= _SAMPLED:
        return [*range(count)]
    return [number * (count - 1) // (_SAMPLED - 1) for number in range(_SAMPLED)]
