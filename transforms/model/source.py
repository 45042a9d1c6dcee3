"""Sources, which list an input, and the information that they give on it.

All parts are frozen and picklable, because they are sent to workers and encoder processes. This
module does not import Beam, and modules that define sources must not import it either.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, runtime_checkable

import pyarrow as pa

from recordmill.errors import RecordError, Reject
from recordmill.notes import Note
from recordmill.storage.files import Location
from recordmill.transforms.model import batch


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListingPart:
    """A part of a listing: rows, and the inputs that did not become rows.

    Attributes:
      rows: Up to `limits.PART_ROWS` rows.
      rejects: Inputs that could not be read.
      invalid: Records that could not be made from an input that was read, if a `RowSource` makes
        several records of an input.
      inputs: Number of inputs that the part stands for, unless each row is an input. Each input
        counts in one part.
      data: Large values, stored apart from the rows, which have their offsets. The data is written
        to a staged file, and encoders get its path as `__path__` of the rows.
      filtered: {option: number of inputs that it excluded}.
      rejected_labels: {label: number of rejected inputs}, as far as labels are known.
      notes: Remarks on the input, if the source itself does not keep them.
      of_values: Whether labels are numbers or booleans, by their own type or their column's type.
    """

    rows: pa.RecordBatch | None = None
    rejects: Sequence[Reject] = ()
    invalid: Sequence[Reject] = ()
    inputs: int | None = None
    data: bytes | bytearray | memoryview | None = None
    filtered: Mapping[str, int] = dataclasses.field(default_factory=dict)
    rejected_labels: Mapping[str, int] = dataclasses.field(default_factory=dict)
    notes: Sequence[Note] = ()
    of_values: bool = False


@runtime_checkable
class Source(Protocol):
    """Lists an input. Every part has the same schema: `__key__`, `__label__`, `__group__`,
    `__split__` (all string), for references `__path__`, `__size__`, `__mtime__`, and user columns.
    """

    @property
    def unique_keys(self) -> bool:
        """True if keys cannot repeat, as in a folder; otherwise `Analyze` checks them."""

    def scan(self) -> Iterator[ListingPart]:
        """Yield the listing in parts, in any order.

        Raises:
          ConfigError: the input is unusable.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Layout:
    """The columns of rows, and the system columns that they use.

    columns: schema of the rows, with system columns and the user's columns.
    labelled, grouped: whether any row may have a label, or a group.
    split_source: the part of the input that assigns rows to splits, for messages; None if nothing
      does.
    of_values: whether labels are numbers or booleans, as of `ListingPart`.
    """

    columns: pa.Schema
    labelled: bool
    grouped: bool
    split_source: str | None = None
    of_values: bool = False

    @property
    def multi_label(self) -> bool:
        """True if a row may have several labels."""
        return batch.LABELS in self.columns.names

    @property
    def presplit(self) -> bool:
        """True if the input may assign a row to a split."""
        return self.split_source is not None


@runtime_checkable
class RowSource(Source, Protocol):
    """Lists places of rows, such as sections of large files, that workers read later.

    One task reads a part of the listing as a whole, so it should stand for a few MiB.
    """

    @property
    def notes(self) -> tuple[Note, ...]:
        """Remarks on the input for the user, known once it is listed."""

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> Layout:
        """Return the layout of the rows that `read` yields.

        parts: all parts of the listing, to read rows from if the layout depends on them.
        keep: a folder for the rows that were read, so that `read` can reuse them.

        Raises:
          ConfigError: the input is unusable.
        """

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the rows of a part of the listing, in parts of up to `PART_ROWS` rows, a few MiB.

        It runs in an encoder process, and must yield the same parts whenever it is called.
        """


@runtime_checkable
class RejectingSource(RowSource, Protocol):
    """A source whose sections are records or files, so that a section can be rejected."""

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Return the rejects of sections that cannot be read at all."""


@runtime_checkable
class ContentKeyedSource(Protocol):
    """A `RowSource` whose rows may have no keys but their places in the files.

    Then a row gets a key by its content, and its place becomes lineage (`__source__`).
    """

    @property
    def keyed_by_content(self) -> bool:
        """True if rows get keys by content; the keys that `read` yields are places."""

    def content_hashes(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return binary(16)[n], equal for rows of equal content; runs in an encoder process.

        None if rows are no records, so that their content does not matter.
        """


def keyed_by_content(source: Source) -> bool:
    """Return whether rows of a source get keys by content."""
    return isinstance(source, ContentKeyedSource) and source.keyed_by_content


@runtime_checkable
class MovableSource(Source, Protocol):
    """A source that another process can list, as far as `is_movable` says so."""

    @property
    def is_movable(self) -> bool:
        """True if `scan` leaves nothing in the source, and reads local files only.

        Raises:
          ConfigError: the input is unusable.
        """


@runtime_checkable
class InformedSource(Source, Protocol):
    """A source with information on the input as a whole, available once it is listed."""

    @property
    def labels(self) -> tuple[str, ...] | None:
        """Class names in the order of their numbers; None if they follow from the rows."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Remarks on the input for the user."""


@runtime_checkable
class NumberedSource(Source, Protocol):
    """A source that knows the numbers of its classes once it is listed."""

    @property
    def class_numbers(self) -> Mapping[str, int]:
        """{class: number in the input}; empty if the input numbers no classes."""


@runtime_checkable
class NotedSource(Source, Protocol):
    """A source that has notes for the user once its input is listed."""

    @property
    def notes(self) -> tuple[Note, ...]:
        """Remarks on the input for the user."""


def notes_of_source(source: Source) -> tuple[Note, ...]:
    """Return the notes of a source, if it can have any."""
    return source.notes if isinstance(source, NotedSource) else ()


@runtime_checkable
class PresplitSource(Source, Protocol):
    """A source that knows which part of its input assigns rows to splits."""

    @property
    def split_source(self) -> str | None:
        """The part, for messages; None if no row is assigned."""


def split_source_of(source: Source, *, presplit: bool) -> str | None:
    """Return the part of the input that assigns rows to splits, for messages; None without one.

    presplit: whether any row is assigned.
    """
    if not presplit:
        return None
    named = source.split_source if isinstance(source, PresplitSource) else None
    return named or "the input"
