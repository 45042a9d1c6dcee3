"""Sources, which list an input, and the information that they give on it.

All parts are frozen and picklable, because they are sent to workers and encoder processes. This
module does not import Beam, and modules that define sources must not import it either.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Protocol, TypeAlias, runtime_checkable

import pyarrow as pa

from recordmill.errors import RecordError, Reject, RunError
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import Note
from recordmill.storage.files import Location, shown
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
      notes: Remarks on the input, for the user.
      facts: Facts about the input as a whole; those of later parts are added.
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
    facts: InputFacts = NO_FACTS
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

    Attributes:
      columns: Schema of the rows, with system columns and the user's columns.
      labelled: Whether any row may have a label.
      grouped: Whether any row may have a group.
      split_source: Part of the input that assigns rows to splits, for messages; None if no part
        does.
      of_values: Whether labels are numbers or booleans, as in `ListingPart`.
      notes: Remarks on the input, for the user, that follow from the layout.
    """

    columns: pa.Schema
    labelled: bool
    grouped: bool
    split_source: str | None = None
    of_values: bool = False
    notes: tuple[Note, ...] = ()

    @property
    def multi_label(self) -> bool:
        """True if a row may have several labels."""
        return batch.LABELS in self.columns.names

    @property
    def presplit(self) -> bool:
        """True if the input may assign a row to a split."""
        return self.split_source is not None


Parts: TypeAlias = Iterable[pa.RecordBatch]  # the rows of a listing; no one-time iterator


class RowSource(abc.ABC):
    """Base of the sources that list places of rows, such as sections of files, for workers to read.

    One task reads a part of the listing as a whole, so it should stand for a few MiB.
    """

    @property
    @abc.abstractmethod
    def unique_keys(self) -> bool:
        """True if keys cannot repeat, as in `Source`."""

    @property
    def parts(self) -> Sequence[object]:
        """The objects whose modules an encoder process needs."""
        return (self,)

    @property
    def keyed_by_content(self) -> bool:
        """True if rows get keys by content, and the keys that `read` yields become lineage."""
        return False

    @abc.abstractmethod
    def scan(self) -> Iterator[ListingPart]:
        """Yield the places of the rows, as `Source.scan` does."""

    @abc.abstractmethod
    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        """Return the layout of the rows that `read` yields.

        Args:
          parts: All parts of the listing, to read rows from if the layout depends on them.
          keep: Folder for the rows that were read, so that `read` can reuse them.
          facts: Facts that the scan has learned.

        Raises:
          ConfigError: The input is unusable.
        """

    @abc.abstractmethod
    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the rows of a part of the listing, in parts of up to `PART_ROWS` rows, a few MiB.

        It runs in an encoder process, and must yield the same parts whenever it is called.
        """

    def content_hashes(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return binary(16)[n], equal for rows of equal content; runs in an encoder process.

        None if rows are not records, so that their content does not matter.
        """
        del rows
        return None

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Return the rejects of sections that cannot be read at all.

        Raises:
          RunError: A section holds too many records to reject.
        """
        del layout
        raise RunError(f"cannot read {shown(sections[batch.PATH][0].as_py())}: {error.detail}")
