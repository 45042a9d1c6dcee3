"""Formats of files of rows, given by options or by the extensions of files."""

from __future__ import annotations

import codecs
import dataclasses
import functools
from collections.abc import Mapping
from typing import Literal, get_args

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.transforms.sources.files.other_kinds import is_tfrecord_name, other_kind
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser

Format = Literal["auto", "csv", "tsv", "jsonl", "parquet", "arrow", "avro", "tfrecord", "lines"]
Quoting = Literal["auto", "on", "off"]
Header = Literal["auto", "yes", "no"]
Decimal = Literal[".", ","]
Compression = Literal["gz", "bz2", "xz", "zst", "zip"]

DELIMITED: tuple[Format, ...] = ("csv", "tsv")
TEXT: tuple[Format, ...] = (*DELIMITED, "jsonl", "lines")
_OF_BYTES: tuple[Format, ...] = ("parquet", "arrow", "avro")  # may have columns of bytes
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
_COMPRESSIONS: Mapping[str, Compression] = {"gz": "gz", "bz2": "bz2", "xz": "xz", "zst": "zst"}
SPACES = "whitespace"  # the delimiter that stands for runs of spaces and tabs
_DELIMITERS = {"tab": "\t", "\\t": "\t", SPACES: " "}
_MAX_ROW_BYTES = 1 << 30  # pyarrow has 32-bit block sizes


@dataclasses.dataclass(frozen=True, kw_only=True)
class FileFormat:
    """Resolved format of one file.

    delimiter: one byte. runs: whether runs of spaces and tabs are one delimiter. quotes:
    whether values may be quoted; otherwise quotes are data. checks_quotes: whether a quote that
    seems unclosed is an error. escape: byte that makes the next byte data; empty for none.
    columns: names for CSV and TSV without header. header_rows: number of rows before the data:
    the header, if there is one, and rows of units. comment: first byte of lines that are
    comments; empty for no comments. skip_rows: lines to skip at the start. checks_header:
    whether to raise an error for a first row that looks like data. encoding: name of Python's
    codec.
    """

    format: Format
    compression: Compression | None
    delimiter: bytes
    runs: bool
    quotes: bool
    checks_quotes: bool
    escape: bytes
    columns: tuple[str, ...]
    header_rows: int
    comment: bytes
    skip_rows: int
    checks_header: bool
    value_parser: ValueParser
    encoding: str
    max_row_bytes: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowFormat:
    """Options for the format of the rows of an input.

    Args:
      format: Name of the format; `auto` selects the format by the extension of each file.
      delimiter: One ASCII character, 'tab', or 'whitespace' for runs of spaces and tabs. Default: a
        comma in CSV, a tab in TSV.
      columns: Names for CSV and TSV without header.
      header: `auto` raises an error for a first row that looks like data; `yes` takes it as the
        header; with `no`, all rows are data, of columns `c1`, `c2` and so on.
      quoting: Whether values may be quoted; otherwise quotes are data. `auto`: on in CSV, off in
        TSV, and an error for a quote that seems to be unclosed.
      escape: Character in CSV and TSV that makes the next one data, also a quote or a delimiter.
      comment: First character of comment lines in CSV and TSV.
      skip_rows: Number of lines to skip at the start of each file of CSV or TSV.
      units_rows: Number of rows below the header of CSV and TSV that are not data, such as units.
      decimal: Decimal separator in CSV and TSV.
      missing: Spellings of missing values: `?` for all columns, or `COLUMN=-200` for one column.
      trim: Whether to strip spaces around values of CSV and TSV, and around their quotes.
      encoding: Encoding of text. A byte order mark is dropped.
      max_row_bytes: Size above which a row is rejected without being held in memory.
    """

    format: Format = option(
        "auto",
        after="missing",
        help="Format of the input files. auto: by their extensions. lines: one record per line.",
    )
    delimiter: str | None = option(
        None,
        metavar="CHARACTER",
        help="Character between the columns of CSV and TSV, such as ';' or tab; whitespace: any"
        " number of spaces and tabs. Default: a comma in CSV, a tab in TSV.",
    )
    columns: tuple[str, ...] = option(
        (),
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Column names, for CSV and TSV without a header line.",
    )
    header: Header = option(
        "auto",
        help="auto: the first row of CSV and TSV names the columns, and is an error if it looks"
        " like data; a file without a header needs --columns. yes: it names them in any case. no:"
        " it is data, and the columns are c1, c2 and so on.",
    )
    quoting: Quoting = option(
        "auto",
        help="on: double quotes enclose values in CSV and TSV. off: they are part of the value."
        " auto: on for CSV, off for TSV.",
    )
    escape: str = option(
        "",
        metavar="CHARACTER",
        help="Character in CSV and TSV that makes the next one part of the value, such as '\\' for"
        ' quotes that are written as \\".',
    )
    comment: str = option(
        "",
        metavar="CHARACTER",
        help="Skip lines of CSV and TSV that begin with this, such as '#'.",
    )
    skip_rows: int = option(
        0, help="Skip this many lines at the start of each CSV or TSV file, before the header."
    )
    units_rows: int = option(
        0,
        help="Skip this many rows of CSV and TSV below the header, such as a row of units.",
    )
    decimal: Decimal = option(".", help="Decimal separator of numbers in CSV and TSV.")
    missing: tuple[str, ...] = option(
        (),
        parse=values.names,
        repeat=True,
        metavar="[COLUMN=]VALUE,...",
        help="Values that stand for a missing value, such as '?' or -200, in all columns or in one;"
        " an empty value is always missing.",
    )
    trim: bool = option(
        False,
        after="comment",
        help="Strip spaces around the values of CSV and TSV, and around the quotes of values.",
    )
    encoding: str = option(
        UTF8,
        after="trim",
        metavar="NAME",
        help="Text encoding, such as cp1252 or utf-16, also of columns of bytes that are read as"
        " text; undecodable rows are rejected.",
    )
    max_row_bytes: int = option(
        64 << 20,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject longer rows, without loading them into memory.",
    )

    def __post_init__(self) -> None:
        for name, value, known in (
            ("format", self.format, get_args(Format)),
            ("header", self.header, get_args(Header)),
            ("quoting", self.quoting, get_args(Quoting)),
            ("decimal", self.decimal, get_args(Decimal)),
        ):
            if value not in known:
                raise ConfigError(
                    f"{option_name(name)}: expected one of {', '.join(known)}, got {value!r}"
                )
        if len(set(self.columns)) < len(self.columns) or "" in self.columns:
            raise ConfigError(
                f"{option_name('columns')}: expected unique names, one per column, got"
                f" {','.join(self.columns)!r}"
            )
        if self.columns and self.header == "yes":
            raise ConfigError(
                f"{option_name('header')} yes: {option_name('columns')} names the columns of files"
                " without header; leave one out"
            )
        for name, count in (("skip_rows", self.skip_rows), ("units_rows", self.units_rows)):
            if count < 0:
                raise ConfigError(f"{option_name(name)}: expected 0 lines or more, got {count}")
        if self.units_rows and not self._has_header:
            raise ConfigError(
                f"{option_name('units_rows', self.units_rows)}: expected a header line above"
                f" these rows, but the files have none: {option_name('skip_rows')} skips lines at"
                " the start of files"
            )
        if not 0 < self.max_row_bytes <= _MAX_ROW_BYTES:
            raise ConfigError(
                f"{option_name('max_row_bytes')}: expected 1 to {_MAX_ROW_BYTES}, got"
                f" {self.max_row_bytes}"
            )
        _codec(self.encoding)
        if self.escape and (
            len(self.escape) > 1
            or not self.escape.isascii()
            or self.escape in ('"', "\n", "\r", self.comment)
            or self.escape.encode() == _delimiter(self.delimiter or ",")
        ):
            raise ConfigError(
                f"{option_name('escape')}: expected one ASCII character that is not the delimiter,"
                f" a quote or {option_name('comment')}, such as '\\', got {self.escape!r}"
            )
        if len(self.comment) > 1 or not self.comment.isascii() or self.comment in ('"', "\n", "\r"):
            raise ConfigError(
                f"{option_name('comment')}: expected one ASCII character, such as '#', got"
                f" {self.comment!r}"
            )
        if self.delimiter is not None:
            _delimiter(self.delimiter)
            if _delimiter(self.delimiter) == self.decimal.encode():
                raise ConfigError(
                    f"{option_name('decimal', self.decimal)}: {option_name('delimiter')} is the"
                    " same character, so that numbers would be ambiguous"
                )
        if self.format != "auto":
            self._check_applicable("the input", self.format)

    @property
    def _has_header(self) -> bool:
        return not self.columns and self.header != "no"

    @functools.cached_property
    def value_parser(self) -> ValueParser:
        """Parser of the values."""
        missing = [spelling.rpartition("=") for spelling in self.missing]
        return ValueParser(
            decimal=self.decimal,
            missing=tuple((column if equals else None, text) for column, equals, text in missing),
            trim=self.trim,
        )

    def recognizes(self, name: str) -> bool:
        """Return whether a file of that name is read as rows."""
        if self.format == "tfrecord":
            return is_tfrecord_name(name)
        return self.format != "auto" or format_of(name) is not None

    def is_joined(self, name: str) -> bool:
        """Return whether small files with this name, which are plain text, are read together."""
        found = format_of(name) if self.format == "auto" else self.format
        return found in TEXT and not compression_of(name) and _codec(self.encoding) == UTF8

    def resolve(
        self, path: str, *, way_out: str | None = None, member: str | None = None
    ) -> FileFormat:
        """Return the format of the file at a path.

        way_out: other advice in the message for options that do not apply to the format. member:
        name of the only file in a zip.

        Raises:
          ConfigError: its extension is unknown, or an option does not apply to its format.
        """
        name = path.rpartition("/")[2] if member is None else member
        found = format_of(name) if self.format == "auto" else self.format
        if found is None and (what := other_kind(name)) is not None:
            raise ConfigError(f"{path} {what}")
        if found is None:
            raise ConfigError(
                f"{path} has no extension of a known format: name the format with"
                f" {option_name('format')}, one of {', '.join(get_args(Format)[1:])}"
            )
        compression = compression_of(name) if member is None else "zip"
        if member is not None and compression_of(member):
            raise ConfigError(f"{path} holds {member}, which is itself compressed: unpack the zip")
        if compression is not None and found not in (*TEXT, "tfrecord"):
            raise ConfigError(
                f"{path}: expected {found} with internal compression, got a file compressed "
                f"as a whole (.{compression}): decompress it"
            )
        if self.format == "auto":
            self._check_applicable(path, found, way_out)
        quotes = self.quoting == "on" or (self.quoting == "auto" and found == "csv")
        if self.escape and not quotes:
            raise ConfigError(
                f"{option_name('escape', self.escape)}: needs quotes around values, and those of"
                f" {path} are data: add {option_name('quoting')} on, or leave it out"
            )
        return FileFormat(
            format=found,
            compression=compression,
            delimiter=_delimiter("\t" if found == "tsv" else ",")
            if self.delimiter is None
            else _delimiter(self.delimiter),
            runs=self.delimiter == SPACES,
            quotes=quotes,
            checks_quotes=self.quoting == "auto",
            escape=self.escape.encode(),
            columns=self.columns,
            header_rows=1 + self.units_rows if self._has_header else 0,
            comment=self.comment.encode(),
            skip_rows=self.skip_rows,
            checks_header=self.header == "auto",
            value_parser=self.value_parser,
            encoding=_codec(self.encoding),
            max_row_bytes=self.max_row_bytes,
        )

    def _check_applicable(self, what: str, found: Format, way_out: str | None = None) -> None:
        for name, given, formats in (
            ("delimiter", self.delimiter is not None, DELIMITED),
            ("columns", bool(self.columns), DELIMITED),
            ("header", self.header != "auto", DELIMITED),
            ("quoting", self.quoting != "auto", DELIMITED),
            ("escape", bool(self.escape), DELIMITED),
            ("comment", bool(self.comment), DELIMITED),
            ("skip_rows", self.skip_rows > 0, DELIMITED),
            ("units_rows", self.units_rows > 0, DELIMITED),
            ("decimal", self.decimal != ".", DELIMITED),
            ("trim", self.trim, DELIMITED),
            ("encoding", _codec(self.encoding) != UTF8, (*TEXT, *_OF_BYTES)),
        ):
            if given and found not in formats:
                if way_out is None:
                    way_out = f", or pass {option_name('format', 'csv')}"
                raise ConfigError(
                    f"{option_name(name)} applies to {', '.join(formats)}, but {what} is read as"
                    f" {found}: leave it out{way_out}"
                )


def format_of(name: str) -> Format | None:
    """Return the row format of an extension, ignoring that of a compression."""
    compression = compression_of(name)
    stem, _, extension = (name[: -len(compression) - 1] if compression else name).rpartition(".")
    found = _EXTENSIONS.get(extension.lower()) if stem else None
    return "tfrecord" if found is None and is_tfrecord_name(name) else found


def compression_of(name: str) -> Compression | None:
    """Return the compression of an extension."""
    return _COMPRESSIONS.get(name.lower().rpartition(".")[2]) if "." in name else None


@functools.cache
def is_byte_searchable(encoding: str) -> bool:
    """Return whether line breaks and quotes can be found in undecoded bytes.

    This holds for UTF-8, and for encodings with one byte per character that contain ASCII.
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
            f"{option_name('delimiter')}: expected one ASCII character, such as ';' or '|', tab, or"
            f" whitespace, but no quote or line break; got {text!r}"
        )
    return text.encode()


@functools.cache
def _codec(encoding: str) -> str:
    try:
        # Without bytes, or with another error handler, Python would not look up the codec.
        b"\n\n\n\n".decode(encoding, "replace")
        codecs.getincrementaldecoder(encoding)
    except (LookupError, ValueError) as error:
        raise ConfigError(
            f"{option_name('encoding')}: expected an encoding, such as utf-8, cp1252 or utf-16, got"
            f" {encoding!r}"
        ) from error
    return codecs.lookup(encoding).name.replace("utf-8-sig", UTF8)
