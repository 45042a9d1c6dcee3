"""TFRecord files of tf.train.Examples as files of rows: features are columns.

A file of a dataset of recordmill also has the columns of its index, and lacks its copies.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Iterator, Mapping
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import shown
from recordmill.storage.input_files import InputFile
from recordmill.tfrecord.framing import (
    HEADER_BYTES,
    FrameError,
    FrameSizeError,
    begins_frame,
    compression_of,
)
from recordmill.transforms.model import batch, limits
from recordmill.transforms.sources.row_formats.reading.row_file import (
    BadRow,
    FileSection,
    Origin,
    QuoteAnomalies,
    Rows,
)
from recordmill.transforms.sources.row_formats.tfrecords.example_columns import ExampleColumns
from recordmill.transforms.sources.row_formats.tfrecords.known_folders import (
    DAMAGED,
    INDEXED,
    KnownShard,
    class_names,
    shard_at,
)
from recordmill.transforms.sources.row_formats.tfrecords.record_frames import (
    MISMATCH,
    FrameBlock,
    inflated_blocks,
    is_intact,
    list_sections,
    map_blocks,
    read_blocks,
)
from recordmill.transforms.sources.row_formats.values.column_types import (
    ColumnType,
    ColumnTypes,
    unify,
)
from recordmill.transforms.sources.row_formats.values.text_columns import valid_text
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser

# Columns of places: of the frame in the file, and of the content in its payload.
PLACES = ("__offset__", "__length__", "__start__", "__bytes__")
_ZLIB = (b"\x78\x01", b"\x78\x5e", b"\x78\x9c", b"\x78\xda")  # headers by level
_LARGE = 1 << 10  # bytes of a value, in the mean, that is no text in a record with media
_INDEX_NAMES = frozenset(INDEXED.values())
_INDEX_FIELDS = pa.schema([pa.field(name, pa.string()) for name in INDEXED.values()])


class TfrecordFile:
    """A TFRecord file, plain or gzip, by its content.

    value_parser: of the values that stand for missing ones.
    """

    def __init__(
        self, origin: Origin, max_row_bytes: int, value_parser: ValueParser | None = None
    ) -> None:
        self._origin = origin
        self._max_row_bytes = max_row_bytes
        self._value_parser = ValueParser() if value_parser is None else value_parser
        self.quote_anomalies: QuoteAnomalies = {}

    def header(self) -> ColumnTypes | None:
        return None

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        self._check_shard()
        if self.is_compressed:
            yield FileSection(0, self._size, 0, self._size)
            return
        with self._origin.open() as stream:
            yield from list_sections(stream, self._size, section=size)

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        return unify(found for found, _ in self.typed_rows(section, names, ()))

    def typed_rows(
        self, section: FileSection, names: Collection[str] | None, text: Collection[str]
    ) -> Iterator[tuple[ColumnTypes, Rows]]:
        for block in self._blocks(section):
            columns = ExampleColumns(block.data, block.starts, block.ends)
            found = self._types(columns, names)
            wanted = pa.schema(
                [pa.field(n, pa.string()) if n in text else found[n].field(n) for n in found]
            )
            rows = self._rows(block, columns, wanted, text)
            for name, kind in found.items():
                values = rows.columns[name]
                if not kind.nullable and self._value_parser.mask_missing(name, values).null_count:
                    found[name] = kind._replace(nullable=True)
            yield found, rows

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        for block in self._blocks(section):
            columns = ExampleColumns(block.data, block.starts, block.ends)
            yield self._rows(block, columns, wanted, text)

    def media_names(self) -> list[str]:
        """Return the names of all columns; those of a dataset of recordmill are known."""
        if self.shard is not None:
            return [*self.shard.manifest.features, *_INDEX_FIELDS.names]
        return sorted(
            {
                name
                for block in self._mapped()
                for name in ExampleColumns(block.data, block.starts, block.ends).names
            }
        )

    def first_names(self) -> list[str]:
        """Return the names of the features in the first block of records."""
        sections = self.sections()
        block = next((one for part in sections for one in self._blocks(part)), None)
        if block is None:
            return []
        return ExampleColumns(block.data, block.starts, block.ends).names

    def media_types(self, names: Collection[str]) -> ColumnTypes:
        """Return the types of columns; large values of local files are not read for it."""
        if self.shard is not None and _INDEX_NAMES.issuperset(names):
            return {name: kind for name, kind in self._index_types().items() if name in names}
        return unify(
            self._types(ExampleColumns(block.data, block.starts, block.ends, skip=_LARGE), names)
            for block in self._mapped()
        )

    def read_media(
        self,
        wanted: pa.Schema,
        text: Collection[str],
        media: str,
        more: Mapping[str, bool] | None = None,
    ) -> Iterator[Rows]:
        """Yield the rows of the file, with the places of the bytes of the feature `media`.

        more: {feature: whether it has several values} of further features with bytes, whose places
          are in the columns `range_names`. In a local file, checksums of the payloads are not
          checked.
        """
        for block in self._mapped():
            columns = ExampleColumns(block.data, block.starts, block.ends)
            yield self._rows(block, columns, wanted, text, media, more or {})

    @functools.cached_property
    def is_compressed(self) -> bool:
        """True if the file is a gzip file. Raises ConfigError for one of zlib."""
        with self._origin.open() as stream:
            head = stream.read(HEADER_BYTES)
        if head[:2] in _ZLIB and not begins_frame(head):
            raise ConfigError(
                f"{shown(self._origin.place)} is compressed with zlib, which is not read: write it"
                " as gzip, or without compression"
            )
        return compression_of(head) != "none"

    @functools.cached_property
    def shard(self) -> KnownShard | None:
        """The shard of a dataset of recordmill that the file is."""
        return shard_at(self._origin.place)

    @property
    def _size(self) -> int:
        size = self._origin.size
        return self._origin.place.stat().size if size is None else size

    def _check_shard(self) -> None:
        """Raise ConfigError for a shard of another size than its manifest says."""
        if self.shard is not None and self.shard.shard.bytes != self._size:
            raise ConfigError(
                f"{shown(self._origin.place)} has {self._size} bytes, its manifest says"
                f" {self.shard.shard.bytes}: {DAMAGED}"
            )

    def _blocks(self, section: FileSection) -> Iterator[FrameBlock]:
        with self._origin.open() as stream:
            if self.is_compressed:
                yield from self._inflated(stream)
            else:
                size, most = self._size, self._max_row_bytes
                yield from self._checked(read_blocks(stream, section, size=size, max_bytes=most))

    def _inflated(self, stream: BinaryIO) -> Iterator[FrameBlock]:
        try:
            yield from inflated_blocks(stream, max_bytes=self._max_row_bytes)
        except FrameError as error:
            if isinstance(error, FrameSizeError):
                remedy = ""
            elif self.shard is not None:
                remedy = f": {DAMAGED}"
            else:
                remedy = (
                    ", so this record and those after it cannot be read: repair the file, or name"
                    " the other files by a pattern"
                )
            raise ConfigError(
                f"{shown(self._origin.place)}: record {error.record}, at byte {error.offset} of the"
                f" inflated file: {error.what}{remedy}"
            ) from error

    def _mapped(self) -> Iterator[FrameBlock]:
        """Yield the records of an uncompressed file; a local file is mapped."""
        self._check_shard()
        origin = self._origin
        path = origin.path or str(origin.place)
        with InputFile(path, size=self._size, mtime=origin.mtime) as file:
            mapped = file.map() if self._size else None
        if mapped is None:
            for section in self.sections():
                yield from self._blocks(section)
        else:
            yield from self._checked(map_blocks(np.frombuffer(mapped, np.uint8)))

    def _checked(self, blocks: Iterator[FrameBlock]) -> Iterator[FrameBlock]:
        """Yield blocks; ConfigError for damage in a shard of a dataset, whose records are known."""
        for block in blocks:
            for row in block.bad if self.shard is not None else ():
                if row.reason != Reason.TOO_LARGE:
                    place = shown(self._origin.place)
                    raise ConfigError(f"{place}: record {row.number}: {row.why}: {DAMAGED}")
            yield block

    def _types(self, columns: ExampleColumns, names: Collection[str] | None) -> ColumnTypes:
        found = {
            name: columns.column_type(name)
            for name in columns.names
            if names is None or name in names
        }
        if self.shard is not None:
            declared = self.shard.manifest.features
            known = {name: ColumnType(nullable=len(columns) > 0) for name in declared}
            extra = {**known, **self._index_types()}
            found = {n: k for n, k in extra.items() if names is None or n in names} | found
        return found

    def _index_types(self) -> ColumnTypes:
        """Return the types of the columns of the index."""
        found = {f.name: ColumnType((f.type,), nullable=True) for f in _INDEX_FIELDS}
        found[batch.KEY] = ColumnType((pa.string(),), nullable=False)
        if self.shard is not None and self.shard.manifest.multi_label:
            found[batch.LABEL] = ColumnType((pa.list_(pa.string()),), nullable=True)
        return found

    def _rows(
        self,
        block: FrameBlock,
        columns: ExampleColumns,
        wanted: pa.Schema,
        text: Collection[str],
        media: str | None = None,
        more: Mapping[str, bool] | None = None,
    ) -> Rows:
        index = self._index_of(block)
        arrays = []
        for field in wanted:
            if index is not None and field.name in index:
                arrays.append(index[field.name])
            else:
                arrays.append(self._column(columns, field, text))
        fields = [*wanted]
        if media is not None:
            places = [block.offsets, block.lengths]
            names = [*PLACES]
            for one, several in {media: False, **(more or {})}.items():
                start, end = columns.list_places(one) if several else columns.places(one)
                places += [start - block.starts, end - start]
                names += [] if one == media else range_names(one)
            arrays += [pa.array(numbers) for numbers in places]
            fields += [pa.field(name, pa.int64()) for name in names]
        # A value that does not fit its type is null, but its row is dropped.
        loose = pa.schema([field.with_nullable(True) for field in fields])
        made = pa.record_batch(arrays, schema=loose)
        kept = np.ones(len(columns), np.bool_)
        copies = 0
        if index is not None:
            kept = np.asarray(pc.equal(index["copy"], 0))
            copies = int(np.count_nonzero(~kept))
        bad = [*block.bad]
        for row, why in sorted(columns.wrong.items()):
            if kept[row]:
                number = int(block.numbers[row])
                if media is not None and not is_intact(block, row):
                    bad.append(BadRow(number, Reason.CORRUPT, MISMATCH))
                else:
                    bad.append(BadRow(number, Reason.BAD_VALUE, why))
            kept[row] = False
        if not fields:  # no record has a feature
            return Rows(columns=made, numbers=block.numbers[:0], bad=sorted(bad), copies=copies)
        numbers = block.numbers
        if not kept.all():
            made, numbers = made.filter(pa.array(kept)), numbers[kept]
        made, misspelt = valid_text(made)
        for row, name in misspelt.items():
            bad.append(BadRow(int(numbers[row]), Reason.BAD_VALUE, f"feature {name!r}: not UTF-8"))
        made = pa.record_batch(made.columns, schema=pa.schema(fields))
        numbers = np.delete(numbers, [*misspelt])
        return Rows(columns=made, numbers=numbers, bad=sorted(bad), copies=copies)

    def _column(self, columns: ExampleColumns, field: pa.Field, text: Collection[str]) -> pa.Array:
        names = class_names(self._origin.place, field.name) if field.name in text else None
        if names is None:
            return columns.column(field, as_words=field.name in text)
        numbers = columns.column(field.with_type(pa.int64()))
        fits = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, len(names)))
        return pa.array(names, pa.string()).take(pc.if_else(fits, numbers, None))

    def _index_of(self, block: FrameBlock) -> dict[str, pa.Array] | None:
        """Return the rows of the index for a block, None for a file outside of datasets.

        Raises:
          ConfigError: the records are not where the index says.
        """
        if self.shard is None:
            return None
        rows = self.shard.index().take(pa.array(block.numbers))
        same = np.array_equal(np.asarray(rows["offset"]), block.offsets)
        if not (same and np.array_equal(np.asarray(rows["length"]), block.lengths)):
            raise ConfigError(
                f"{shown(self._origin.place)}: its records do not have the offsets in its index:"
                f" {DAMAGED}"
            )
        found = {INDEXED.get(name, name): rows[name].combine_chunks() for name in rows.column_names}
        return {name: _one_chunk(array) for name, array in found.items()}


def range_names(feature: str) -> tuple[str, str]:
    """Return the names of the columns with start and size of the bytes of a further feature."""
    return f"__start__{feature}", f"__bytes__{feature}"


def _one_chunk(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return array.chunk(0) if array.num_chunks else pa.array([], array.type)
