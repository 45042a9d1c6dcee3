"""Sources of several records per file, such as the clips of a video.

A splitter is specific to a kind of file. It plans the files of a listing by their headers, and
splits them into records. The files come from a source of references, or from rows of tables that
hold them.
"""

from __future__ import annotations

import abc
import collections
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, ClassVar, NamedTuple, TypeVar

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError, Reject
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import LeftUnread, Note
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.file_ranges import with_temporary_ranges, without_paths
from recordmill.transforms.model.reject_places import part_with_places
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource, Source
from recordmill.transforms.model.user_columns import carried_fields
from recordmill.transforms.sources.files.header_tasks import Tasks, read_headers
from recordmill.transforms.sources.row_formats.where.condition_syntax import WHERE
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout
from recordmill.transforms.sources.splitters.collector import Collector
from recordmill.transforms.sources.splitters.segments import NAME, SegmentColumns, usable

F = TypeVar("F")
H = TypeVar("H")

# Reads the headers of files in order, given a function for one file.
ReadHeaders = Callable[[Callable[[F], H], Tasks[F]], Iterator[H | RecordError]]

_TEXTS = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, NAME, batch.DATA)


class Section(NamedTuple):
    """A row of the listing: a file, or a part of it that one task reads.

    Attributes:
      values: Values of the columns that the splitter adds to the listing.
      weight: Weight of the row, for the size of parts.
    """

    values: tuple[Any, ...]
    weight: int


@dataclasses.dataclass
class Counts:
    """Counts of facts in the headers of files, for notes."""

    numbers: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    unread: LeftUnread = dataclasses.field(default_factory=LeftUnread)

    def merge(self, other: Counts) -> None:
        """Add the counts of other files."""
        self.numbers.update(other.numbers)
        self.unread.merge(other.unread)


class RecordColumns(NamedTuple):
    """Columns of records. labelled, of_values: as in `Layout`, for labels that files hold."""

    schema: pa.Schema
    labelled: bool = False
    of_values: bool = False


class Splitter(abc.ABC):
    """Splits files of a kind into records.

    Attributes:
      noun: Singular of the files, for messages.
      listed: Columns that the splitter adds to the listing.
      own: Columns of the records that depend on the kind of file.
      by_headers: Whether the columns of the records follow from the headers of the files.
      groups_files: Whether the records of a file are a group, which stays in one split.
    """

    noun: ClassVar[str]
    listed: ClassVar[Sequence[pa.Field]] = ()
    by_headers: ClassVar[bool] = False

    @property
    def own(self) -> Sequence[pa.Field]:
        return ()

    @property
    def groups_files(self) -> bool:
        return True

    @property
    @abc.abstractmethod
    def part_limits(self) -> tuple[int, int]:
        """Maximum weight and maximum number of the rows in a part of the listing."""

    @abc.abstractmethod
    def plan(
        self, rows: pa.RecordBatch, counts: Counts, headers: ReadHeaders[Any, Any]
    ) -> Iterator[tuple[int, Section | RecordError]]:
        """Yield the index of a row and a section of its file, or the error of the file."""

    @abc.abstractmethod
    def split(self, rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        """Yield the records of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """

    def columns(self, parts: Parts) -> RecordColumns:
        """Return the columns of the records, given all parts of the listing."""
        for rows in parts:
            given = rows.schema
        places = [field for field in given if field.type == batch.PLACES]  # of rows of tables
        texts = [pa.field(name, pa.string()) for name in _TEXTS]
        return RecordColumns(pa.schema([*texts, *self.own, *places, *carried_fields(given)]))

    def notes(self, counts: Counts) -> Iterator[Note]:
        """Yield notes on the counts."""
        yield from counts.unread.notes()

    def later_parts(self, rows: pa.RecordBatch) -> Iterable[int | None]:
        """Return the number of the first record of each row; None for the first row of a file."""
        return [None] * len(rows)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitFiles(RowSource):
    """Lists files with their headers, and reads the records in them.

    Attributes:
      files: Source of references.
      splitter: Splitter of the files.
      segments: Columns of the listing with segments of files; None if rows cannot be segments.
      worker_limits: Limits of an encoder process.
    """

    files: Source
    splitter: Splitter
    segments: SegmentColumns | None = None
    worker_limits: TaskLimits = DEFAULT_LIMITS

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    @property
    def parts(self) -> Sequence[object]:
        return (self, self.splitter)

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files, or sections of them.

        Raises:
          ConfigError: no file can be used.
        """
        counts = Counts()
        yield from usable(self._scan(counts), self.splitter.noun)
        yield ListingPart(notes=[*self.splitter.notes(counts)])

    def _scan(self, counts: Counts) -> Iterator[ListingPart]:
        headers = functools.partial(read_headers, task_limits=self.worker_limits)
        files = self.files.scan()
        for listed in files if self.segments is None else self.segments.of_files(files):
            yield dataclasses.replace(listed, rows=None)
            if listed.rows is not None:
                yield from self._plan(listed.rows, counts, headers)

    def _plan(
        self, rows: pa.RecordBatch, counts: Counts, headers: ReadHeaders[Any, Any]
    ) -> Iterator[ListingPart]:
        """Yield the usable files of rows and rejects, in parts for one task each."""
        keys = rows[batch.KEY].to_pylist()
        most_weight, most_rows = self.splitter.part_limits
        rejects: list[Reject] = []
        at: list[int] = []
        values: list[tuple[Any, ...]] = []
        held = 0
        for row, found in self.splitter.plan(rows, counts, headers):
            if isinstance(found, RecordError):
                rejects.append(Reject(keys[row], "read", found.reason, found.detail))
                continue
            if at and (held + found.weight > most_weight or len(at) >= most_rows):
                yield ListingPart(rows=self._listed(rows, at, values), rejects=rejects)
                rejects, at, values, held = [], [], [], 0
            at.append(row)
            values.append(found.values)
            held += found.weight
        if at or rejects:
            yield ListingPart(rows=self._listed(rows, at, values) if at else None, rejects=rejects)

    def _listed(
        self, rows: pa.RecordBatch, at: Sequence[int], values: Sequence[tuple[Any, ...]]
    ) -> pa.RecordBatch:
        rows = rows.take(pa.array(at, pa.int64()))
        for field, column in zip(self.splitter.listed, zip(*values, strict=True), strict=True):
            rows = rows.append_column(field, pa.array(column, field.type))
        return rows

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        """Return the layout of the records.

        Raises:
          ConfigError: there is no usable file.
        """
        del keep
        given: collections.Counter[str] = collections.Counter()  # rows with a value

        def counted() -> Iterator[pa.RecordBatch]:
            for rows in parts:
                for name in (batch.LABEL, batch.GROUP, batch.SPLIT):
                    given[name] += len(rows) - rows[name].null_count
                yield rows
            if not given:
                raise ConfigError(f"the input has no usable {self.splitter.noun}")

        schema, labelled, of_values = self.splitter.columns(counted())
        return Layout(
            columns=schema,
            labelled=labelled or given[batch.LABEL] > 0,
            grouped=self.splitter.groups_files or given[batch.GROUP] > 0,
            split_source=facts.split_source_of(presplit=given[batch.SPLIT] > 0),
            of_values=of_values,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the records of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        return self.splitter.split(sections, layout.columns)

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Return the rejects of sections that cannot be read at all."""
        inputs = 0 if self.splitter.groups_files else None
        found = Collector(given=sections, schema=layout.columns, inputs=inputs)
        for row, number in enumerate(self.splitter.later_parts(sections)):
            found.reject(row, error, number)
        return found.take()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitLayout(RowLayout):
    """Layout of the records of files that rows hold. table: the layout of the rows."""

    table: RowLayout


@dataclasses.dataclass(frozen=True, kw_only=True)
class SplitTables(SplitFiles):
    """Lists sections of tables, and reads the records in the files that their rows hold.

    Attributes:
      files: Source of rows with the bytes of files.
    """

    files: RowSource

    def scan(self) -> Iterator[ListingPart]:
        """Yield the sections of the tables.

        Raises:
          ConfigError: a table cannot be parsed, or there are no rows.
        """
        return self.files.scan()

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> SplitLayout:
        """Return the layout of the records. If it depends on headers, the tables are read twice.

        Raises:
          ConfigError: There is no usable file, or the layout of the rows raises it.
        """
        counts = Counts()
        table = self.files.layout(parts, keep, facts=facts)
        assert isinstance(table, RowLayout)
        none = pa.RecordBatch.from_pylist([], schema=table.columns)
        headers = iter([self._segments(none)[0]])
        if self.splitter.by_headers:
            headers = self._headers(parts, table, counts)
        found = super().layout(headers)
        return SplitLayout(
            **{
                **vars(table),
                "columns": found.columns,
                "labelled": found.labelled if self.splitter.by_headers else table.labelled,
                "grouped": found.grouped,
                "class_names": None,
                "notes": (*table.notes, *self.splitter.notes(counts)),
            },
            table=table,
        )

    def _headers(self, parts: Parts, table: RowLayout, counts: Counts) -> Iterator[pa.RecordBatch]:
        """Yield the rows of tables with the headers of their files, read in encoder processes."""
        waiting: collections.deque[pa.RecordBatch] = collections.deque()

        def tasks() -> Iterator[tuple[list[bytes], bool]]:
            for part in parts:
                sections = [part.slice(row, 1) for row in range(len(part))]
                waiting.extend(sections)
                yield [batch.to_bytes(section) for section in sections], False

        read = functools.partial(_read_section, self, table)
        for found in read_headers(read, tasks(), task_limits=self.worker_limits):
            section = waiting.popleft()
            if isinstance(found, RecordError):
                self.files.reject_sections(section, table, found)
                continue
            counts.merge(found[1])
            yield from map(batch.from_bytes, found[0])

    def _held(
        self, sections: pa.RecordBatch, table: Layout
    ) -> Iterator[tuple[ListingPart, pa.RecordBatch | None]]:
        """Yield parts of tables, and their rows with paths that are valid until the next part."""
        for listed in self.files.read(sections, table):
            with with_temporary_ranges(listed) as rows:
                if rows is not None and self.files.keyed_by_content:
                    rows = batch.set_column(rows, batch.KEY, batch.hex_of(rows[batch.CONTENT]))
                yield listed, rows

    def _segments(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        return (rows, []) if self.segments is None else self.segments.split_off(rows)

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the records in the files of a part of the listing, as they are read.

        Rejects name the places of the rows that hold the files.

        Raises:
          ChangedInputError: a table has changed since it was listed.
        """
        assert isinstance(layout, SplitLayout)
        headers = functools.partial(read_headers, task_limits=None)
        for listed, rows in self._held(sections, layout.table):
            left_out = listed.filtered.get(WHERE, 0)  # each is an input that counts as a record
            yield ListingPart(rejects=listed.rejects, filtered=listed.filtered, inputs=left_out)
            if rows is None:
                continue
            files, rejects = self._segments(rows)
            yield part_with_places(ListingPart(rejects=rejects, inputs=0), rows)
            for planned in self._plan(files, Counts(), headers):
                yield part_with_places(ListingPart(rejects=planned.rejects, inputs=0), rows)
                if planned.rows is None:
                    continue
                for part in self.splitter.split(planned.rows, layout.columns):
                    if part.rows is not None and part.data is None:  # the records are references
                        held = without_paths(part.rows)
                        part = dataclasses.replace(part, rows=held, data=listed.data)
                    yield part_with_places(part, rows)

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Raise RunError, because a section of a table has too many files to reject."""
        return self.files.reject_sections(sections, layout, error)


def _read_section(
    source: SplitTables, table: RowLayout, section: bytes
) -> tuple[list[bytes], Counts]:
    """Return the rows of a section, with the headers of their files, as Arrow IPC, and counts."""
    counts, headers = Counts(), functools.partial(read_headers, task_limits=None)
    packed: list[bytes] = []
    for _, rows in source._held(batch.from_bytes(section), table):
        for part in () if rows is None else source._plan(rows, counts, headers):
            packed += [] if part.rows is None else [batch.to_bytes(part.rows)]
    return packed, counts


def split_files(
    files: Source,
    splitter: Splitter,
    *,
    segments: SegmentColumns | None = None,
    worker_limits: TaskLimits = DEFAULT_LIMITS,
) -> SplitFiles:
    """Return the source of the records in files, given by references or held by tables."""
    if isinstance(files, RowSource):
        return SplitTables(
            files=files, splitter=splitter, segments=segments, worker_limits=worker_limits
        )
    return SplitFiles(
        files=files, splitter=splitter, segments=segments, worker_limits=worker_limits
    )
