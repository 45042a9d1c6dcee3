"""Documents in the text files that a listing names, one record per file."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, ClassVar

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError
from recordmill.option_names import option_name
from recordmill.processes.task_watch import TaskLimits
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart, Parts
from recordmill.transforms.model.user_columns import carried_fields
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.rows.columns.content_keys import content_hashes
from recordmill.transforms.sources.rows.columns.record_columns import (
    SYSTEM_COLUMNS,
    TEXT,
    TEXT_FIELDS,
)
from recordmill.transforms.sources.rows.reading.row_sections import regroup
from recordmill.transforms.sources.rows.references.file_list import FileList
from recordmill.transforms.sources.rows.values.documents import DocumentFormat
from recordmill.transforms.sources.splitters.split_files import (
    Counts,
    ReadHeaders,
    RecordColumns,
    Section,
    SplitFiles,
    Splitter,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentReader(Splitter):
    """Reads each file as one document."""

    documents: DocumentFormat
    noun: ClassVar[str] = "text file"

    @property
    def groups_files(self) -> bool:
        return False

    @property
    def part_limits(self) -> tuple[int, int]:
        return limits.PART_BYTES, limits.PART_SECTIONS

    def plan(
        self, rows: pa.RecordBatch, counts: Counts, headers: ReadHeaders[Any, Any]
    ) -> Iterator[tuple[int, Section | RecordError]]:
        del counts, headers
        for row, size in enumerate(rows[batch.SIZE].to_pylist()):
            problem = self.documents.size_problem(size)
            yield row, Section((), size) if problem is None else RecordError(*problem)

    def columns(self, parts: Parts) -> RecordColumns:
        for rows in parts:
            given = rows.schema
        users = carried_fields(given)
        if any(field.name == TEXT for field in users):
            raise ConfigError(
                f"the listing has a column {TEXT!r} beside the column of paths, but the text"
                f" feature has that name: drop it with {option_name('drop_columns', TEXT)}, rename"
                f" it, or read it as the text with {option_name('text_column', TEXT)}"
            )
        content = pa.field(batch.CONTENT, pa.binary(16))
        return RecordColumns(pa.schema([*TEXT_FIELDS, content, *users]))

    def split(self, rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        kept, texts, rejects = self.documents.read(rows)
        text = pa.record_batch([texts], names=[TEXT])
        arrays = [*(kept[name] for name in SYSTEM_COLUMNS), texts]
        arrays.append(content_hashes(text, ValueParser()))
        arrays += [kept[name] for name in schema.names[len(arrays) :]]
        found = pa.record_batch(arrays, schema=schema)
        return regroup([ListingPart(rows=found if len(found) else None, rejects=rejects)])


def listed_documents(
    inputs: Inputs, row_format: RowFormat, *, worker_limits: TaskLimits, **fields: Any
) -> SplitFiles:
    """Return the source of the documents that listings name.

    Args:
      inputs: The listings.
      row_format: Format of the listings. It also gives the encoding and the limit of documents.
      worker_limits: Limits of an encoder process.
      **fields: Further fields of `FileList`.

    Raises:
      ConfigError: An option is invalid.
    """
    documents = DocumentFormat(encoding=row_format.encoding, max_row_bytes=row_format.max_row_bytes)
    return SplitFiles(
        files=FileList(path=inputs, format=row_format, **fields),
        splitter=DocumentReader(documents=documents),
        worker_limits=worker_limits,
    )
