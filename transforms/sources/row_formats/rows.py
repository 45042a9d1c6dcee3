"""What files of rows have in common: their sections, their rows, and what cannot be one."""

from __future__ import annotations

import contextlib
import dataclasses
import zlib
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import BinaryIO, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason
from recordmill.storage.files import Location, open_file
from recordmill.transforms.sources.row_formats.column_types import ColumnTypes

SECTION_BYTES = 8 << 20  # of a file that can be entered in the middle, about
READ_BYTES = 8 << 20  # of rows in memory at a time, about

# What pyarrow, the decompressors and numbers too large for their column raise.
_UNREADABLE = (
    pa.ArrowException,
    OSError,
    EOFError,
    zlib.error,
    UnicodeDecodeError,
    OverflowError,
)


class FileSection(NamedTuple):
    """Rows of a file that follow each other; the first has the number `row`, counted from 1.

    start, end: bytes of a file of text, row groups of Parquet, record batches of an Arrow file. A
    file that cannot be entered in the middle is one section. size: bytes of its rows, about.
    """

    start: int
    end: int
    row: int
    size: int


class BadRow(NamedTuple):
    """A row that cannot be understood, by its number."""

    number: int
    reason: Reason
    why: str


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Up to `batch.ROWS` rows of a file; numbers: int64[n]. bad: those that were left out. blank:
    how many others were, as they have no value at all.
    """

    columns: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    bad: Sequence[BadRow] = ()
    blank: int = 0

    def replace(self, columns: pa.RecordBatch, wrong: Mapping[int, str]) -> Rows:
        """The same rows with other columns, but for those that are wrong: {which: why}."""
        if not wrong:
            return dataclasses.replace(self, columns=columns)
        keep = np.ones(len(columns), np.bool_)
        keep[list(wrong)] = False
        bad = [BadRow(int(self.numbers[row]), Reason.BAD_VALUE, why) for row, why in wrong.items()]
        return Rows(
            columns=columns.filter(pa.array(keep)),
            numbers=self.numbers[keep],
            bad=sorted([*self.bad, *bad]),
            blank=self.blank,
        )


@dataclasses.dataclass(kw_only=True)
class Oddities:
    """Quotes that may be none, as a scan finds them: how many rows, and the first of them.

    spanning: with a value that spans lines. trailing: with one that goes on after its quotes.
    """

    spanning: int = 0
    first_spanning: int = 0
    trailing: int = 0
    first_trailing: int = 0


class RowFile(Protocol):
    """A file of rows. All raise ConfigError where the file cannot be understood."""

    @property
    def oddities(self) -> Oddities:
        """What has been seen, as far as `sections` has come."""

    def header(self) -> ColumnTypes | None:
        """The columns, in order, as far as the file says before its rows; None: not at all."""

    def sections(self, size: int = SECTION_BYTES) -> Iterator[FileSection]:
        """Consecutive, with every row in one of them; of about `size` bytes and up to `batch.ROWS`
        rows where the file can be cut so.
        """

    def kinds(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        """What the rows of a section say of the columns named, or of all."""

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        """The rows of a section, with the columns that are wanted.

        text: those that have to be text or numbers, and come as written.
        """


@runtime_checkable
class TypedFile(Protocol):
    """A file of rows that do not say what they are: who has found out has read them."""

    def typed(
        self, section: FileSection, names: Collection[str] | None, text: Collection[str]
    ) -> Iterator[tuple[ColumnTypes, Rows]]:
        """What some rows of a section say of the columns named, or of all, and those rows: with
        the columns of `text` as written, and the others as what these rows say.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """Where rows come from. With size and mtime it is what was listed whenever it is opened.

    noun: what it is to the user.
    """

    place: Location
    size: int | None = None
    mtime: int | None = None
    noun: Literal["file", "listing"] = "file"

    def open(self) -> BinaryIO:
        """Raises StorageError; of what was listed ChangedInputError or RecordError."""
        if self.size is None or self.mtime is None:
            return self.place.open_input()
        return open_file(str(self.place), size=self.size, mtime=self.mtime)

    @property
    def encoding_advice(self) -> str:
        """What to do where the text is not in the encoding that it should be in."""
        if self.noun == "listing":
            return "save the listing as UTF-8"
        return "name its encoding with --encoding"

    @contextlib.contextmanager
    def parsing(self) -> Iterator[None]:
        """Raises what parsers raise as ConfigError, as long as they read this file."""
        try:
            yield
        except _UNREADABLE as error:
            why = (str(error).splitlines() or [""])[0]
            if isinstance(error, UnicodeDecodeError):
                why += f": {self.encoding_advice}"
            if "lists to be of size" in why:
                why += " (a null among lists of a fixed size: write lists of any length, or leave "
                why += "the column out with --drop-columns)"
            raise ConfigError(f"cannot understand the {self.noun} {self.place}: {why}") from error
