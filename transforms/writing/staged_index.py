"""The index of a shard in staging, written in groups of rows while the shard is written."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from recordmill.format.file_info import FileInfo, HashingWriter
from recordmill.format.shard_index import index_writer
from recordmill.storage.files import Location
from recordmill.transforms.model import limits
from recordmill.transforms.writing.staged_file import StagedFile


class StagedIndex(StagedFile):
    """Writes the index of a shard into staging."""

    def __init__(self, place: Location, draft: Location) -> None:
        super().__init__(place, draft)
        self._tables: list[pa.Table] = []
        self._rows = 0
        self._hashed_keys = False
        self._hashing: HashingWriter | None = None
        self._writer: Any = None

    def add(self, table: pa.Table, *, hashed_keys: bool) -> None:
        """Add rows. hashed_keys: as in `index_writer`."""
        self._hashed_keys = hashed_keys
        self._tables.append(table)
        self._rows += len(table)
        if self._rows >= limits.INDEX_GROUP_ROWS:
            self._write_group()

    def finish(self) -> FileInfo:
        """Write the remaining rows, and move the complete index to its place."""
        if self._tables:
            self._write_group()
        assert self._hashing is not None
        self._writer.close()
        self._complete()
        return self._hashing.info

    def _write_group(self) -> None:
        # Where all records of a chunk were rejected, columns that their encoding adds are missing.
        tables = [table for table in self._tables if len(table)]
        if not tables and self._writer is None:
            tables = [max(self._tables, key=lambda table: table.num_columns)]
        self._tables, self._rows = [], 0
        if not tables:
            return
        table = pa.concat_tables(tables)
        if self._writer is None:
            self._hashing = HashingWriter(self._open())
            self._writer = index_writer(self._hashing, table.schema, hashed_keys=self._hashed_keys)
        self._writer.write_table(table)
