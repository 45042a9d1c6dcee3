"""Blocks of rows of text, as they are handed to parsers."""

from __future__ import annotations

import codecs
import dataclasses
import itertools
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from recordmill.errors import Reason
from recordmill.transforms.model import limits
from recordmill.transforms.sources.row_formats.reading.row_file import BadRow
from recordmill.transforms.sources.row_formats.text.row_boundaries import IntArray

_MARK = codecs.BOM_UTF8
_AFTER = b" \t\r\n"
_AROUND = b' \t"'


@dataclasses.dataclass(frozen=True, kw_only=True)
class LineBlock:
    """Up to `limits.PART_ROWS` consecutive rows of UTF-8 without blank rows.

    Attributes:
      data: Bytes of the rows.
      ends: End offset of each row in `data`, int64[n].
      numbers: Row numbers, int64[n].
      files: As in `Rows`.
      bad: Rejected rows.
    """

    data: bytes
    ends: IntArray
    numbers: IntArray
    files: npt.NDArray[np.int32] | None = None
    bad: tuple[BadRow, ...] = ()

    def bad_row(self, row: int, why: str) -> BadRow:
        """Return the row at an index as one with a value that is not as expected."""
        file = 0 if self.files is None else int(self.files[row])
        return BadRow(int(self.numbers[row]), Reason.BAD_VALUE, why, file)

    def files_of(self, rows: Sequence[int] | IntArray) -> npt.NDArray[np.int32] | None:
        """Return the file of the rows at indices, as in `Rows`."""
        return None if self.files is None else self.files[np.asarray(rows, np.int64)]

    def rows(self) -> list[bytes]:
        """Return the rows without line breaks."""
        starts = [0, *self.ends.tolist()]
        return [self.data[start:end].rstrip(b"\r\n") for start, end in itertools.pairwise(starts)]

    def reject_header(self, header: bytes, delimiter: bytes, why: str) -> LineBlock:
        """Return the block with the rows that repeat the header among the bad rows.

        Case, quotes, and spaces around names do not matter.
        """
        names = _names(header, delimiter)
        needle = max(names, key=len)
        lengths = np.diff(self.ends, prepend=0)
        fits = (lengths >= len(b"".join(names))) & (lengths <= len(header) + 4 * len(names))
        if names[0]:
            rows = np.flatnonzero(fits)
            begins = np.frombuffer(self.data, np.uint8)[(self.ends - lengths)[rows]]
            first = np.frombuffer(names[0][:1] + names[0][:1].upper() + _AROUND, np.uint8)
            fits[rows] = np.isin(begins, first)
        if not fits.any():  # as in most blocks, whose data is then not copied
            return self
        lower = self.data.lower()
        keep = np.ones(len(self.ends), np.bool_)
        at = lower.find(needle)
        while at >= 0:
            row = int(np.searchsorted(self.ends, at, side="right"))
            end = int(self.ends[row])
            line = self.data[end - int(lengths[row]) : end]
            keep[row] = not fits[row] or _names(line, delimiter) != names
            at = lower.find(needle, end)
        if keep.all():
            return self
        data, ends = select_rows(self.data, self.ends, keep)
        bad = [self.bad_row(row, why) for row in np.flatnonzero(~keep).tolist()]
        return LineBlock(
            data=data,
            ends=ends,
            numbers=self.numbers[keep],
            files=self.files_of(np.flatnonzero(keep)),
            bad=(*self.bad, *bad),
        )


def _names(line: bytes, delimiter: bytes) -> list[bytes]:
    """Return the names in a header in lower case, without quotes, spaces, trailing separators."""
    names = line.rstrip(_AFTER + delimiter).split(delimiter)
    return [name.strip(_AROUND).lower() for name in names]


def without_marks(data: bytes, ends: IntArray) -> tuple[bytes, IntArray]:
    """Return rows without byte order marks at their beginnings, which joined files have."""
    starts = np.append(0, ends)[:-1]
    content = np.frombuffer(data, np.uint8)
    marked = np.zeros(len(ends), np.bool_)
    # Only the first byte of each row is looked at: to search all bytes takes 1.5 ns for each.
    for row in np.flatnonzero(content.take(starts, mode="clip") == _MARK[0]) if data else ():
        marked[row] = data.startswith(_MARK, int(starts[row]))
    if not marked.any():
        return data, ends
    keep = np.ones(len(data), np.bool_)
    keep[(starts[marked, None] + np.arange(len(_MARK))).ravel()] = False
    return content[keep].tobytes(), ends - len(_MARK) * np.cumsum(marked)


def select_rows(data: bytes, ends: IntArray, keep: npt.NDArray[np.bool_]) -> tuple[bytes, IntArray]:
    """Return the data and the end offsets of some rows of a block."""
    lengths = np.diff(ends, prepend=0)
    return np.frombuffer(data, np.uint8)[np.repeat(keep, lengths)].tobytes(), np.cumsum(
        lengths[keep]
    )


def rejected_rows(bad: Sequence[BadRow]) -> LineBlock:
    """Return a block that has only rejected rows."""
    none = np.zeros(0, np.int64)
    return LineBlock(data=b"", ends=none, numbers=none, bad=tuple(bad))


def split_block(lines: LineBlock) -> Iterator[LineBlock]:
    """Split a block into blocks of up to `PART_ROWS` rows. The first one has the bad rows."""
    for row in range(0, max(len(lines.ends), 1), limits.PART_ROWS):
        start = int(lines.ends[row - 1]) if row else 0
        ends = lines.ends[row : row + limits.PART_ROWS]
        yield LineBlock(
            data=lines.data[start : int(ends[-1])] if len(ends) else b"",
            ends=ends - start,
            numbers=lines.numbers[row : row + limits.PART_ROWS],
            files=None if lines.files is None else lines.files[row : row + limits.PART_ROWS],
            bad=() if row else lines.bad,
        )
