"""Interface of files of rows: sections, parsed rows, rejected rows."""

from __future__ import annotations

import contextlib
import dataclasses
import lzma
import zipfile
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, Literal, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RunError
from recordmill.format.file_content import (
    HEAD,
    Content,
    identify,
    not_compressed,
)
from recordmill.storage.files import Location
from recordmill.storage.input_files import open_file
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.json_documents import describe_json
from recordmill.transforms.sources.row_formats.values.column_types import ColumnTypes

_FIRST_READ = 1 << 16  # bytes of JSON that are searched for records
QuoteAnomalies = dict[str, tuple[int, int]]  # {kind of rows: (their number, the first row)}
COPIES = "copies"  # reason of rows that are oversampled copies in a dataset

# Errors of pyarrow, of decompressors, and of numbers too large for their column.
_UNREADABLE = (
    pa.ArrowException,
    OSError,
    EOFError,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
    NotImplementedError,
    UnicodeError,
    OverflowError,
)


class FileSection(NamedTuple):
    """Consecutive rows of a file.

    A file that is not splittable is one section.

    Attributes:
      start: Byte offset in a text file, row group of Parquet, or record batch of an Arrow file.
      end: End, exclusive, in the same unit.
      row: Number of the first row, counted from 1.
      size: Approximate size in bytes.
      more: Sections of further files, which are read with this one as a block.
    """

    start: int
    end: int
    row: int
    size: int
    more: tuple[tuple[Origin, FileSection], ...] = ()


Noun = Literal["file", "listing"]


class BadRow(NamedTuple):
    """A row that cannot be parsed: its number, the reason, a message, and the index of its file."""

    number: int
    reason: Reason
    why: str
    file: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Rows:
    """Up to `limits.PART_ROWS` rows of a file, or of several small files.

    Attributes:
      columns: The values.
      numbers: Row numbers, int64[n].
      files: Index of the file of each row among those of the section, int32[n]; None if all rows
        are in its first file.
      bad: Rows that could not be parsed.
      blank: Number of rows that were skipped because they have no value.
      copies: Number of rows that were skipped because they are oversampled copies in a dataset.
    """

    columns: pa.RecordBatch
    numbers: npt.NDArray[np.int64]
    files: npt.NDArray[np.int32] | None = None
    bad: Sequence[BadRow] = ()
    blank: int = 0
    copies: int = 0

    def file_of(self, row: int) -> int:
        """Return the index of the file of a row."""
        return 0 if self.files is None else int(self.files[row])

    def of_files(self, values: Sequence[str | None]) -> pa.Array:
        """Return a column with the value of the file of each row, string[n]."""
        if self.files is None:
            return pa.repeat(pa.scalar(values[0], pa.string()), len(self.columns))
        return pa.array(values, pa.string()).take(pa.array(self.files))

    def where(self, keep: npt.NDArray[np.bool_]) -> Rows:
        """Return the rows for which a mask, bool[n], is true."""
        return dataclasses.replace(
            self,
            columns=self.columns.filter(pa.array(keep)),
            numbers=self.numbers[keep],
            files=None if self.files is None else self.files[keep],
        )

    @property
    def skipped(self) -> dict[str, int]:
        """Counts of the skipped rows by filter reason."""
        counts = {"blank": self.blank, COPIES: self.copies}
        return {reason: count for reason, count in counts.items() if count}

    def replace(self, columns: pa.RecordBatch, wrong: Mapping[int, str]) -> Rows:
        """Return the rows with other columns, without the invalid ones ({index: message})."""
        replaced = dataclasses.replace(self, columns=columns)
        return replaced.without({row: (Reason.BAD_VALUE, why) for row, why in wrong.items()})

    def without(self, wrong: Mapping[int, tuple[Reason, str]]) -> Rows:
        """Return the rows without those of `wrong` ({index: reason, message}), which become bad."""
        if not wrong:
            return self
        keep = np.ones(len(self.columns), np.bool_)
        keep[list(wrong)] = False
        bad = [
            BadRow(int(self.numbers[row]), *cause, file=self.file_of(row))
            for row, cause in wrong.items()
        ]
        return dataclasses.replace(self.where(keep), bad=in_order([*self.bad, *bad]))


def in_order(bad: Iterable[BadRow]) -> list[BadRow]:
    """Return bad rows in the order of the input."""
    return sorted(bad, key=lambda row: (row.file, row))


class RowFile(Protocol):
    """A file of rows. All methods raise ConfigError for a file that cannot be parsed."""

    @property
    def quote_anomalies(self) -> QuoteAnomalies:
        """Quote anomalies in the sections that `sections` has yielded so far."""

    def header(self) -> ColumnTypes | None:
        """Return the columns that the file declares before its rows, None if it declares none."""

    def sections(self, size: int = limits.PART_BYTES) -> Iterator[FileSection]:
        """Yield consecutive sections that cover all rows.

        A section has about `size` bytes and up to `PART_ROWS` rows if the file is splittable.
        """

    def column_types(self, section: FileSection, names: Collection[str] | None) -> ColumnTypes:
        """Infer the types of the named columns, or of all, from the rows of a section."""

    def read(
        self, section: FileSection, wanted: pa.Schema, text: Collection[str]
    ) -> Iterator[Rows]:
        """Yield the rows of a section with the columns of the schema `wanted`.

        text: columns to read as text; their values must be text or numbers.
        """


@runtime_checkable
class TypeInferringFile(Protocol):
    """A file of rows without declared types, which has to be read to infer them."""

    def typed_rows(
        self, section: FileSection, names: Collection[str] | None, text: Collection[str]
    ) -> Iterator[tuple[ColumnTypes, Rows]]:
        """Yield rows of a section with the types inferred from them.

        names: columns to infer; None for all. text: columns to return as text. Other columns are
        returned with their inferred type.
        """


@dataclasses.dataclass(frozen=True, kw_only=True)
class Origin:
    """Location of a file of rows.

    size, mtime: if given, opening the file verifies that it has not changed. noun: the term for the
    file in messages. path: path of the file, or reference to it in the archive `place`; None for
    the path of `place`.
    """

    place: Location
    path: str | None = None
    size: int | None = None
    mtime: int | None = None
    noun: Noun = "file"

    def open(self) -> BinaryIO:
        """Open the file.

        Raises:
          StorageError: it cannot be opened.
          ChangedInputError: it has changed since it was listed.
          RecordError: a listed file cannot be read.
        """
        if self.size is None or self.mtime is None:
            return self.place.open_input()
        return open_file(self.path or str(self.place), size=self.size, mtime=self.mtime)

    def other_content(self) -> Content | None:
        """Return the content of a file that cannot be parsed; None if its extension is right."""
        head = self._head(HEAD)
        name = self.path or self.place.name
        content = identify(head)
        if (plain := not_compressed(name, head)) is not None:
            return plain
        if content is None or content.is_named(name):
            return None
        return self.json_content() if content.is_json else content

    def json_content(self) -> Content | None:
        """Return the content of a file that may be JSON by its name; None if it is unknown."""
        head = self._head(_FIRST_READ)
        content = identify(head)
        if content is None or not content.is_json:
            return content
        return describe_json(head.decode(errors="ignore"))

    def _head(self, size: int) -> bytes:
        with self.open() as file:
            return file.read(size)

    @property
    def encoding_advice(self) -> str:
        """Advice for text in another encoding."""
        return "name the encoding with --encoding"

    @contextlib.contextmanager
    def parsing(self) -> Iterator[None]:
        """Raise the errors of parsers of this file as ConfigError."""
        try:
            yield
        except _UNREADABLE as error:
            if (content := self.other_content()) is not None:
                raise ConfigError(f"the {self.noun} {self.place} is {content}") from error
            why = (str(error).splitlines() or [""])[0]
            if isinstance(error, UnicodeError):
                why += f": {self.encoding_advice}"
            if "lists to be of size" in why:
                why += " (a null among lists of a fixed size: write lists of any length, or drop "
                why += "the column with --drop-columns)"
            raise ConfigError(f"cannot parse the {self.noun} {self.place}: {why}") from error
        except MemoryError as error:
            raise RunError(
                f"cannot parse the {self.noun} {self.place}: not enough memory for the content"
                " that it declares: write a small file again, or use a machine with more memory"
            ) from error
