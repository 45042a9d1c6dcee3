"""The index of a shard in staging, written in groups of rows while the shard is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from recordmill.format.file_info import FileInfo, HashingWriter
from recordmill.format.shard_index import index_writer
from recordmill.storage.files import Location
from recordmill.transforms.writing.shards.staged_file import StagedFile

_BUFFER = 1 << 18  # bytes of pages


class StagedIndex(StagedFile):
    """Writes the index of a shard into staging."""

    def __init__(self, place: Location, draft: Location, copy: Location | None = None) -> None:
        super().__init__(place, draft, copy)
        self._empty: pa.Table | None = None
        self._hashing: HashingWriter | None = None
        self._writer: Any = None

    def add(self, table: pa.Table, *, hashed_keys: bool) -> None:
        """Write a table as a row group. hashed_keys: as in `index_writer`."""
        if len(table):
            self._write(table, hashed_keys=hashed_keys)
        elif self._empty is None or table.num_columns > self._empty.num_columns:
            # Where all records of a chunk were rejected, columns that encoding adds are missing.
            self._empty = table

    def finish(self) -> FileInfo:
        """Move the complete index to its place."""
        if self._writer is None:
            assert self._empty is not None
            self._write(self._empty)
        assert self._hashing is not None
        self._complete()
        return self._hashing.info

    def _write(self, table: pa.Table, *, hashed_keys: bool = False) -> None:
        if self._writer is None:
            self._hashing = HashingWriter(self._open())
            # Arrow collects pages, as it takes the interpreter's lock for whatever it passes on.
            pages = self._keep(pa.BufferedOutputStream(pa.PythonFile(self._hashing, "wb"), _BUFFER))
            writer = index_writer(pages, table.schema, hashed_keys=hashed_keys)
            self._writer = self._keep(writer)
        self._writer.write_table(table)
