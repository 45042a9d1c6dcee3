"""How files of rows are written: what their names say, and what the user says instead."""

from __future__ import annotations

import codecs
import dataclasses
import functools
from collections.abc import Mapping
from typing import Literal, get_args

from recordmill.errors import ConfigError
from recordmill.transforms.sources.row_formats.value_parsing import Cells

Format = Literal["auto", "csv", "tsv", "jsonl", "parquet", "arrow", "avro", "lines"]
Quoting = Literal["auto", "on", "off"]
Decimal = Literal[".", ","]
Compression = Literal["gz", "bz2", "zst"]

DELIMITED: tuple[Format, ...] = ("csv", "tsv")
TEXT: tuple[Format, ...] = (*DELIMITED, "jsonl", "lines")
UTF8 = "utf-8"

_EXTENSIONS: Mapping[str, Format] = {
    "csv": "csv",
    "tsv": "tsv",
    "tab": "tsv",
    "jsonl": "jsonl",
    "ndjson": "jsonl",
    "parquet": "parquet",
    "pq": "parquet",
    "arrow": "arrow",
    "arrows": "arrow",
    "feather": "arrow",
    "ipc": "arrow",
    "avro": "avro",
    "txt": "lines",
}
_DELIMITERS = {"tab": "\t", "\\t": "\t"}
_MAX_ROW_BYTES = 1 << 30  # pyarrow counts the bytes of a block in 32 bits


@dataclasses.dataclass(frozen=True, kw_only=True)
class Shape:
    """How one file is written, with nothing left open.

    delimiter: one byte. quotes: whether they hold a value together, or are data as all else.
    columns: of CSV and TSV without a header. comment: what a line begins with that is no row; none
    where it is empty. encoding: as Python calls it.
    """

    format: Format
    compression: Compression | None
    delimiter: bytes
    quotes: bool
    columns: tuple[str, ...]
    comment: bytes
    cells: Cells
    encoding: str
    max_row_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowFormat:
    """How the rows of an input are written.

    format: auto goes by the extension of each file.
    delimiter: one character of ASCII, or 'tab'. Default: a comma in CSV, a tab in TSV.
    columns: names, for CSV and TSV without a header.
    quoting: whether quotes hold a value together, or are data as all else; auto: on in CSV, off in
      TSV.
    comment: what a line of CSV or TSV begins with that is no row.
    decimal: what stands before the decimals of numbers in CSV and TSV.
    missing: how values say that there is none: `?`, or `COLUMN=-200` for one column.
    trim: whether spaces around a value of CSV and TSV are no part of it.
    encoding: of text. A byte order mark is dropped.
    max_row_bytes: a longer row is a reject, and never held in memory.
    """

    format: Format = "auto"
    delimiter: str | None = None
    columns: tuple[str, ...] = ()
    quoting: Quoting = "auto"
    comment: str = ""
    decimal: Decimal = "."
    missing: tuple[str, ...] = ()
    trim: bool = False
    encoding: str = UTF8
    max_row_bytes: int = 64 << 20

    def __post_init__(self) -> None:
        for option, value, known in (
            ("--format", self.format, get_args(Format)),
            ("--quoting", self.quoting, get_args(Quoting)),
            ("--decimal", self.decimal, get_args(Decimal)),
        ):
            if value not in known:
                raise ConfigError(f"{option}: expected one of {', '.join(known)}, got {value!r}")
        if len(set(self.columns)) < len(self.columns) or "" in self.columns:
            raise ConfigError(
                f"--columns: expected a name per column, each once, got {','.join(self.columns)!r}"
            )
        if not 0 < self.max_row_bytes <= _MAX_ROW_BYTES:
            raise ConfigError(
                f"--max-row-bytes: expected 1 to {_MAX_ROW_BYTES}, got {self.max_row_bytes}"
            )
        _codec(self.encoding)
        if len(self.comment) > 1 or not self.comment.isascii() or self.comment in ('"', "\n", "\r"):
            raise ConfigError(
                f"--comment: expected one character of ASCII, such as '#', got {self.comment!r}"
            )
        if self.delimiter is not None:
            _delimiter(self.delimiter)
            if _delimiter(self.delimiter) == self.decimal.encode():
                raise ConfigError(
                    f"--decimal {self.decimal}: stands between columns too (--delimiter): numbers"
                    " could not be told apart"
                )
        if self.format != "auto":
            self._refuse_what_means_nothing("the input", self.format)

    @property
    def cells(self) -> Cells:
        """How values are written."""
        missing = [spelling.rpartition("=") for spelling in self.missing]
        return Cells(
            decimal=self.decimal,
            missing=tuple((column if equals else None, text) for column, equals, text in missing),
            trim=self.trim,
        )

    def knows(self, name: str) -> bool:
        """Whether a file of that name is one of rows."""
        return self.format != "auto" or format_of(name) is not None

    def of(self, path: str) -> Shape:
        """How the file at a path is written.

        Raises:
          ConfigError: its name does not say, or an option says nothing about such a file.
        """
        name = path.rpartition("/")[2]
        found = format_of(name) if self.format == "auto" else self.format
        if found is None:
            raise ConfigError(
                f"the name of {path} does not say how its rows are written: say it with --format, "
                f"as one of {', '.join(get_args(Format)[1:])}"
            )
        compression = compression_of(name)
        if compression is not None and found not in TEXT:
            raise ConfigError(
                f"{path}: expected {found} that is compressed inside, as its writers do, not as a "
                f"whole; unpack it (.{compression})"
            )
        if self.format == "auto":
            self._refuse_what_means_nothing(path, found)
        return Shape(
            format=found,
            compression=compression,
            delimiter=_delimiter("\t" if found == "tsv" else ",")
            if self.delimiter is None
            else _delimiter(self.delimiter),
            quotes=self.quoting == "on" or (self.quoting == "auto" and found == "csv"),
            columns=self.columns,
            comment=self.comment.encode(),
            cells=self.cells,
            encoding=_codec(self.encoding),
            max_row_bytes=self.max_row_bytes,
        )

    def _refuse_what_means_nothing(self, what: str, found: Format) -> None:
        for option, given, formats in (
            ("--delimiter", self.delimiter is not None, DELIMITED),
            ("--columns", bool(self.columns), DELIMITED),
            ("--quoting", self.quoting != "auto", DELIMITED),
            ("--comment", bool(self.comment), DELIMITED),
            ("--decimal", self.decimal != ".", DELIMITED),
            ("--encoding", _codec(self.encoding) != UTF8, TEXT),
        ):
            if given and found not in formats:
                raise ConfigError(
                    f"{option} is about {', '.join(formats)}, and {what} is read as {found}: leave "
                    f"it out, or say --format {formats[0]}"
                )


def format_of(name: str) -> Format | None:
    """What the extension says, that of a compression left aside."""
    compression = compression_of(name)
    if compression is not None:
        name = name[: -len(compression) - 1]
    stem, dot, extension = name.rpartition(".")
    return _EXTENSIONS.get(extension.lower()) if stem and dot else None


def compression_of(name: str) -> Compression | None:
    """What the extension says."""
    extension = name.lower().rpartition(".")[2] if "." in name else ""
    known: tuple[Compression, ...] = get_args(Compression)
    return next((one for one in known if one == extension), None)


@functools.cache
def stands_alone(encoding: str) -> bool:
    """Whether every byte is a character by itself, and ASCII is what it is in ASCII.

    Only then, and in UTF-8, a byte that looks like a line break or a quote is one.
    """
    if encoding == UTF8:
        return True
    decoder = codecs.getincrementaldecoder(encoding)
    for byte in range(256):
        try:
            text = decoder().decode(bytes([byte]))
        except UnicodeError:
            text = "" if byte < 128 else "\ufffd"
        if text != chr(byte) if byte < 128 else len(text) != 1 or ord(text) < 128:
            return False
    return True


def _delimiter(text: str) -> bytes:
    text = _DELIMITERS.get(text, text)
    if len(text) != 1 or not text.isascii() or text in '"\r\n\0':
        raise ConfigError(
            "--delimiter: expected one character of ASCII, such as ';' or '|', or tab; no quote "
            f"and no line break; got {text!r}"
        )
    return text.encode()


@functools.cache
def _codec(encoding: str) -> str:
    try:
        # Of no bytes, and with another way to handle errors, Python would not look for it.
        b"\n\n\n\n".decode(encoding, "replace")
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError) as error:
        raise ConfigError(
            "--encoding: expected the name of one, such as utf-8, latin-1, cp1252 or utf-16, got "
            f"{encoding!r}"
        ) from error
    return codecs.lookup(encoding).name.replace("utf-8-sig", UTF8)
