"""Advice for files of rows that were read with the wrong encoding or delimiter.

When a run fails because of rejects, the start of the file with the most rejects is read again with
every other encoding or delimiter. The advice names the option that reads the file.
"""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.notes import count_of
from recordmill.storage.files import StorageError
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, Origin
from recordmill.transforms.sources.row_formats.reading.row_format import (
    DELIMITED,
    TEXT,
    UTF8,
    RowFormat,
)
from recordmill.transforms.sources.row_formats.text.delimited import DelimitedFile
from recordmill.transforms.sources.row_formats.text.header_check import DELIMITERS
from recordmill.transforms.sources.row_formats.text.text_files import TextFile
from recordmill.transforms.sources.row_formats.values.value_parsing import DECIMAL_HINT
from recordmill.transforms.sources.rows.reading.row_steps import RowSteps

_ENCODINGS = (UTF8, "utf-16", "cp1252", "latin-1")
_END = 1 << 62  # after the end of any file
_LARGEST_BAD = 0.01  # share of rows that may remain unreadable


class _Reading(NamedTuple):
    """Rows at the start of a file, read in one way.

    Attributes:
      good: Number of readable rows.
      bad: Messages of the unreadable rows, with their counts.
      columns: Number of columns.
      ascii: Whether the readable rows are ASCII.
      whole: Whether the whole file was read.
    """

    good: int
    bad: collections.Counter[str]
    columns: int
    ascii: bool
    whole: bool

    @property
    def rows(self) -> int:
        return self.good + self.bad.total()


def reading_advice(source: object, rejects: Sequence[Reject]) -> str | None:
    """Return a sentence on how to make the rejected rows readable, None without advice."""
    if 2 * sum(reject.detail.endswith(DECIMAL_HINT) for reject in rejects) > len(rejects):
        return "most of them are numbers with decimal commas, which --decimal , reads"
    files = collections.Counter(
        reject.key.rpartition("#")[0] for reject in rejects if reject.reason == Reason.BAD_VALUE
    )
    if not files:
        return None
    try:
        found = _file(source, files.most_common(1)[0][0])
        return None if found is None else _advice(*found)
    except (ConfigError, RecordError, StorageError):
        return None  # a failure here must not hide the error of the run


def _file(source: object, name: str) -> tuple[str, Origin, RowFormat] | None:
    """Return (name, origin, format) of the file with a key, None if it is not found."""
    if isinstance(source, RowSteps):
        rows = source.row_input
        for file in rows.files():
            if file.key == name:
                return name, rows.origin(file), rows.format
    return None


def _advice(name: str, origin: Origin, row_format: RowFormat) -> str | None:
    found = row_format.resolve(name)
    if found.format not in TEXT:
        return None
    before = _read(origin, row_format, name)
    if before is None or not before.bad:
        return None
    undecodable = sum(n for why, n in before.bad.items() if why.startswith("not "))
    wide = sum(n for why, n in before.bad.items() if " column" in why)
    count = max(undecodable, wide)
    if 2 * count <= before.bad.total():
        return None  # no option repairs most of the faults
    if count == undecodable and found.encoding == UTF8 and not before.ascii:
        return (
            f"{count_of(undecodable, 'row')} of {name} are not UTF-8, but non-ASCII characters"
            " of other rows are: convert these rows to UTF-8"
        )
    fault = (
        f"{count / before.rows:.0%} of the {'' if before.whole else f'first {before.rows:,} '}rows"
        f" of {name}"
        + (
            " have another number of columns"
            if count == wide
            else f" are not {found.encoding.upper()}"
        )
    )
    for option, other in _alternatives(row_format, name, by_columns=count == wide):
        after = _read(origin, other, name)
        if after is not None and _reads_more(before, after):
            some = "all" if not after.bad else f"{after.good:,} of"
            return f"{fault}; with {option} {some} {count_of(after.rows, 'row')} can be read"
    if count == wide and '"' in TextFile(origin, found).first_text:
        return f"{fault}; check --quoting, --escape and --trim, because values contain quotes"
    return None


def _reads_more(before: _Reading, after: _Reading) -> bool:
    """Return whether the second reading has more readable rows, and few others."""
    return (
        after.good > before.good
        and after.bad.total() <= _LARGEST_BAD * after.rows
        and (after.columns > 1 or before.columns == 1)
    )


def _alternatives(
    row_format: RowFormat, name: str, *, by_columns: bool
) -> Iterator[tuple[str, RowFormat]]:
    """Yield (option, format with it) for each alternative."""
    found = row_format.resolve(name)
    if not by_columns:
        for encoding in _ENCODINGS:
            if encoding != found.encoding:
                yield f"--encoding {encoding}", dataclasses.replace(row_format, encoding=encoding)
        return
    if found.format not in DELIMITED:
        return
    for delimiter in DELIMITERS:
        if delimiter.encode() != found.delimiter and delimiter != row_format.decimal:
            shown = "tab" if delimiter == "\t" else f"'{delimiter}'"
            yield f"--delimiter {shown}", dataclasses.replace(row_format, delimiter=delimiter)


def _read(origin: Origin, row_format: RowFormat, name: str) -> _Reading | None:
    """Read the start of a file; None if it cannot be parsed."""
    file_format = dataclasses.replace(row_format.resolve(name), checks_header=False)
    bad: collections.Counter[str] = collections.Counter()
    good = columns = size = 0
    ascii_ = True
    try:
        if file_format.format in DELIMITED:
            for rows in DelimitedFile(origin, file_format).rows_at_start():
                columns = len(rows.columns.schema)
                good += len(rows.columns)
                bad.update(one.why for one in rows.bad)
                size += rows.columns.nbytes
                accents = (pc.any(pc.invert(pc.string_is_ascii(one))) for one in rows.columns)
                ascii_ &= not any(found.as_py() for found in accents)
                if size > limits.BATCH_BYTES or good > limits.PART_ROWS:
                    return _Reading(good, bad, columns, ascii_, whole=False)
        else:
            for lines in TextFile(origin, file_format).lines(FileSection(0, _END, 1, 0)):
                good += len(lines.ends)
                bad.update(one.why for one in lines.bad)
                size += len(lines.data)
                ascii_ &= lines.data.isascii()
                if size > limits.BATCH_BYTES or good > limits.PART_ROWS:
                    return _Reading(good, bad, 1, ascii_, whole=False)
            columns = 1
    except ConfigError:
        return None
    return _Reading(good, bad, columns, ascii_, whole=True)
