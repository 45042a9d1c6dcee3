"""Source of files in tables: Parquet, Arrow, JSON lines or CSV whose rows hold the bytes of files.

Bytes in tables are compressed, so rows cannot be read in the order of the shuffle. Workers copy the
bytes once to staged files while they read the tables. A row is a reference to a range of a staged
file, and all later steps read it like a file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason
from recordmill.format.content_hashes import check_of, content_hash, file_hash
from recordmill.job.input_facts import NO_FACTS, ColumnRoles, InputFacts
from recordmill.notes import Note
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.storage.input_files import open_file
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.annotations import CLASS
from recordmill.transforms.model.file_ranges import RANGES
from recordmill.transforms.model.source import Layout, ListingPart, Parts
from recordmill.transforms.model.usual_columns import quoted
from recordmill.transforms.sources.files.file_stat import FileStat, RejectCause
from recordmill.transforms.sources.files.path_rules import normal_path
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.media.media_values import PATH, read_values, type_fault
from recordmill.transforms.sources.media.object_columns import NAME as OBJECT_COLUMN
from recordmill.transforms.sources.media.object_columns import ObjectColumns
from recordmill.transforms.sources.row_formats.reading.row_file import RowFile, Rows
from recordmill.transforms.sources.row_formats.tfrecords.tfrecord_file import TfrecordFile
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes
from recordmill.transforms.sources.row_formats.where.conditions import RowFilter
from recordmill.transforms.sources.rows.columns.hub_features import HubClassNames
from recordmill.transforms.sources.rows.columns.record_columns import SYSTEM_FIELDS
from recordmill.transforms.sources.rows.columns.row_options import UsualNames
from recordmill.transforms.sources.rows.reading.record_layout import (
    Attached,
    References,
    RowLayout,
    typed_rows,
    with_path_columns,
)
from recordmill.transforms.sources.rows.reading.row_sections import (
    as_run_error,
    iter_sections,
    read_header,
)
from recordmill.transforms.sources.rows.references.path_stats import PathOptions, StatCache
from recordmill.transforms.sources.rows.values.record_rows import RecordRows
from recordmill.transforms.sources.splitters.collector import Collector

_BYTES = "__bytes__"  # large_binary: content of a file, null for a row that names a file

_STAGED = (
    pa.field(batch.PATH, pa.string()),
    pa.field(batch.SIZE, pa.int64()),
    pa.field(batch.MTIME, pa.int64()),
    *RANGES,
    pa.field(batch.CONTENT, pa.binary(16)),
)
_READ = (
    pa.field(_BYTES, pa.large_binary()),
    pa.field(batch.PATH, pa.string()),
    pa.field(batch.SIZE, pa.int64()),
    pa.field(batch.MTIME, pa.int64()),
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class MediaRows(PathOptions, RecordRows):
    """Lists the sections of tables whose rows hold files, and reads the rows and the files.

    A row may name a file instead, by a path, if the column has structs of bytes and a path.

    bytes_column: column of bytes, of structs of bytes and a path, or of base64 text.
    key_column: as for `RecordRows`; COLUMN.path takes the paths in the column of files. By default
      the key is a hash of the bytes.
    objects: columns of boxes of images; None without any.
    remarks: notes on the input, known before it is listed.
    """

    bytes_column: str
    objects: ObjectColumns | None = None
    remarks: tuple[Note, ...] = ()
    _leading_fields: ClassVar[tuple[pa.Field, ...]] = (*SYSTEM_FIELDS, *_STAGED)

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> RowLayout:
        found = super().layout(parts, keep, facts=facts)
        roles = found.roles
        if self._keyed_by_path:
            roles = dataclasses.replace(roles, key=self.key_column, keys=(self._path_key,))
        notes = (*found.notes, *self.remarks)
        return dataclasses.replace(found, roles=roles, held_in=self.bytes_column, notes=notes)

    def scan(self) -> Iterator[ListingPart]:
        """Yield the sections of the files, and the classes of boxes.

        Raises:
          ConfigError: a file cannot be parsed, or there are no rows.
        """
        classes: set[str] = set()
        for part in super().scan():
            yield part
            if self.objects is not None and self.objects.names is None and part.rows is not None:
                classes |= self._classes_in(part.rows, self.objects)
        if self.objects is not None:
            labels = self.objects.classes(classes)
            notes = self.objects.notes(classes)
            yield ListingPart(notes=notes, facts=InputFacts(labels=labels))

    def _classes_in(self, sections: pa.RecordBatch, objects: ObjectColumns) -> set[str]:
        """Return the classes of the boxes of sections. Invalid boxes are rejected later."""
        found: set[str] = set()
        for file, section, _ in iter_sections(sections):
            with as_run_error(file):
                opened = self.row_input.open(file)
                wanted = pa.schema(objects.fields(opened.header() or {}))
                for rows in opened.read(section, wanted, ()):
                    (boxes, _), _ = objects.read(rows.columns)
                    found.update(boxes.flatten().field(CLASS).unique().to_pylist())
        return found

    def content_hashes(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return the hashes of the files of rows, binary(16)[n]."""
        return rows[batch.CONTENT]

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the records of a part of the listing, with the bytes of their files.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        assert isinstance(layout, RowLayout)
        found = Collector(schema=layout.columns, most_rows=limits.PART_ROWS // 2, inputs=None)
        for part in self._annotated(sections, layout):
            found.add_part(part, None if part.rows is None else _stage(part.rows, found))
            if found.is_full:
                yield found.take()
        if not found.is_empty:
            yield found.take()

    def _annotated(self, sections: pa.RecordBatch, layout: RowLayout) -> Iterator[ListingPart]:
        """Yield the records with the files in columns, after the rules for objects."""
        for part in self._read(sections, layout):
            if self.objects is None or part.rows is None:
                yield part
            else:
                yield dataclasses.replace(part, rows=None)
                yield from self.objects.apply(part.rows)

    @property
    def _path_key(self) -> str:
        """The name of the paths in the column of files, as a column of keys."""
        return f"{self.bytes_column}.{PATH}"

    @property
    def _keyed_by_path(self) -> bool:
        return self.key_column == self._path_key

    def _roles(self, names: Sequence[str], of_path: Collection[str] = ()) -> ColumnRoles:
        if self.bytes_column not in names:
            raise ConfigError(
                f"{option_name('bytes_column')}: no column {self.bytes_column!r} in {self.input}:"
                f" it has {quoted(names)}"
            )
        # The column does not become a feature.
        made = () if self.objects is None else (OBJECT_COLUMN,)
        dropped = (*self.drop_columns, self.bytes_column, *made)
        options = dataclasses.replace(self, drop_columns=dropped)
        if self._keyed_by_path and self._path_key not in names:
            options = dataclasses.replace(options, key_column=None)
        return super(MediaRows, options)._roles(names, of_path)

    def _user_fields(
        self, user_columns: Sequence[str], column_types: ColumnTypes, roles: ColumnRoles
    ) -> list[pa.Field]:
        found = column_types[self.bytes_column].types
        if found and self.format.format != "tfrecord" and (fault := type_fault(found[0])):
            raise ConfigError(
                f"{option_name('bytes_column')}: column {self.bytes_column!r} of {self.input} has"
                f" type {fault}"
            )
        return super()._user_fields(user_columns, column_types, roles)

    def _row_filter(self, found: ColumnTypes, fields: Sequence[pa.Field]) -> RowFilter | None:
        others = {name: kind for name, kind in found.items() if name != self.bytes_column}
        return super()._row_filter(others, fields)

    def _header(
        self, parts: Parts, dropped: Collection[str], hub: HubClassNames
    ) -> ColumnTypes | None:
        def look(file: File, opened: RowFile) -> None:
            hub.add(file, opened)
            if self.objects is not None:
                self.objects.check(file.key, opened)

        return read_header(parts, self.row_input, dropped, look)

    @property
    def _usual(self) -> UsualNames:
        # The classes of objects are those of their images.
        return super()._usual if self.objects is None else UsualNames(labels=())

    def _typed_columns(self, found: ColumnTypes) -> tuple[pa.Field, ...]:
        objects = () if self.objects is None else self.objects.fields(found)
        return (*super()._typed_columns(found), *objects)

    def _record_fields(self, roles: ColumnRoles, column_types: ColumnTypes) -> list[pa.Field]:
        objects = () if self.objects is None else self.objects.schema
        return [*self._leading_fields, *objects, *self._place_fields(roles)]

    def _place_fields(self, roles: ColumnRoles) -> list[pa.Field]:
        del roles
        return [pa.field(batch.PLACE, batch.PLACES, False)]

    def _read(
        self, sections: pa.RecordBatch, layout: RowLayout, references: References | None = None
    ) -> Iterator[ListingPart]:
        read = [field for field in layout.columns if field not in _STAGED]
        system = len(SYSTEM_FIELDS)
        before = dataclasses.replace(
            layout, columns=pa.schema([*read[:system], *_READ, *read[system:]]), row_filter=None
        )
        named = layout.read_names().difference((self._path_key,) if self._keyed_by_path else ())
        parser = self.format.value_parser
        for file, section, listed in iter_sections(sections):
            with as_run_error(file):
                opened = self.row_input.open(file)
                wanted = pa.schema(
                    [
                        self._bytes_field(opened),
                        *(pa.field(name, pa.string()) for name in sorted(named)),
                        *layout.more_fields(named),
                        *layout.written,
                    ]
                )
                stats = self.stats(Location.parse(file.path), "table")
                for rows in opened.read(section, wanted, named):
                    rows = with_path_columns(rows, layout, [file], [listed])
                    left_out: dict[str, int] = {}
                    if layout.row_filter is not None:  # first, as other rows are not checked
                        rows, left_out = layout.row_filter.apply(rows, parser)
                    rows = self._with_files(rows, stats)
                    typed = typed_rows(rows, layout, parser, [file])
                    part = self._records(typed, before, files=[file], listed=[listed])
                    yield dataclasses.replace(part, filtered={**part.filtered, **left_out})

    def _bytes_field(self, file: RowFile) -> pa.Field:
        """Return the field of the column of files, to read from a file."""
        declared = (file.header() or {}).get(self.bytes_column)
        if declared is None or not declared.types:
            kind = pa.binary() if isinstance(file, TfrecordFile) else pa.string()
            return pa.field(self.bytes_column, kind)
        return declared.field(self.bytes_column)

    def _with_files(self, rows: Rows, stats: StatCache) -> Rows:
        """Return rows with the columns `_READ` instead of the column of files."""
        values = read_values(rows.columns[self.bytes_column], self.bytes_column)
        problems = dict(values.problems)
        count = len(rows.columns)
        files: list[FileStat | None] = [None] * count
        paths = values.paths
        held = values.content.is_valid().to_pylist()
        named = [row for row in range(count) if not held[row] and row not in problems]
        for row, found in zip(named, stats.stat([paths[row] or "" for row in named]), strict=True):
            if isinstance(found, RejectCause):
                problems[row] = found
            else:
                files[row] = found
        if self._keyed_by_path:
            for row in range(count):
                if not paths[row]:
                    why = f"no path in column {self.bytes_column!r} for the key"
                    problems.setdefault(row, RejectCause(Reason.BAD_VALUE, why))
        named_sizes = pa.array([one and one.size for one in files], pa.int64())
        columns = {
            _BYTES: values.content,
            batch.PATH: pa.array([one and one.path for one in files], pa.string()),
            batch.SIZE: pc.coalesce(named_sizes, pc.binary_length(values.content)),
            batch.MTIME: pa.array([0 if one is None else one.mtime for one in files], pa.int64()),
        }
        if self._keyed_by_path:
            keys = [normal_path(path) if path else None for path in paths]
            columns[self._path_key] = pa.array(keys, pa.string())
        others = rows.columns.drop_columns([self.bytes_column])
        table = pa.RecordBatch.from_pydict(
            {**dict(zip(others.schema.names, others.columns, strict=True)), **columns}
        )
        return dataclasses.replace(rows, columns=table).without(problems)

    def _attach(self, rows: Rows, layout: RowLayout, files: Sequence[File]) -> Attached:
        del layout, files
        columns = [rows.columns[field.name] for field in _READ]
        if self.objects is None:
            return Attached(columns)
        annotations, wrong = self.objects.read(rows.columns)
        return Attached([*columns, *annotations], [wrong])


def _stage(rows: pa.RecordBatch, found: Collector) -> pa.RecordBatch:
    """Store the bytes of rows with the columns `_READ`, and return the rows with their places."""
    data, ends = _joined(rows[_BYTES])
    places = zip(*(rows[field.name].to_pylist() for field in _READ[1:]), strict=True)
    held = rows[_BYTES].is_valid()
    hashes = [
        content_hash(data[start:end]) if is_held else _hash_of_file(*place)
        for start, end, is_held, place in zip(
            *(ends[:-1].tolist(), ends[1:].tolist(), held.to_pylist(), places), strict=True
        )
    ]
    made = {
        batch.OFFSET: pc.if_else(held, pa.array(found.store(data) + ends[:-1]), None),
        batch.LENGTH: rows[batch.SIZE],
        batch.CHECK: pa.array([check_of(one) for one in hashes], pa.uint64()),
        batch.CONTENT: pa.array(hashes, pa.binary(16)),
    }
    columns = {name: rows[name] for name in rows.schema.names}
    return pa.RecordBatch.from_pydict(columns | made)


def _joined(values: pa.Array) -> tuple[memoryview, npt.NDArray[np.int64]]:
    """Return the bytes of values without a copy, and where each starts and the last ends.

    values: large_binary[n], n > 0.
    """
    places, data = values.buffers()[1:]
    ends = np.frombuffer(places, np.int64)[values.offset : values.offset + len(values) + 1]
    view = memoryview(data or b"")[int(ends[0]) : int(ends[-1])]
    return view, ends - ends[0]


def _hash_of_file(path: str, size: int, mtime: int) -> bytes:
    with open_file(path, size=size, mtime=mtime) as file:
        return file_hash(file)
