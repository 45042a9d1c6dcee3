"""Small text files that are read as one block of rows.

For small files, most of the time is a fixed cost per block: parsing, inferring types, building
records. So consecutive files with equal headers are parsed together.
"""

from __future__ import annotations

import codecs
import dataclasses
import itertools
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from recordmill.transforms.sources.row_formats.reading.row_file import FileSection, Origin
from recordmill.transforms.sources.row_formats.reading.row_format import FileFormat
from recordmill.transforms.sources.row_formats.text.line_blocks import LineBlock, split_block
from recordmill.transforms.sources.row_formats.text.text_encodings import is_utf8
from recordmill.transforms.sources.row_formats.text.text_files import TextFile, ends_lines_with_cr

SMALL = 256 << 10  # maximum bytes of a file that is joined with others
MOST = 1 << 20  # maximum bytes of the files of a block


class JoinedFiles(NamedTuple):
    """Consecutive files with equal headers.

    Attributes:
      first: Index of the first of them among the files of the section.
      origin: Origin of the first one.
      header: The line that names the columns; if the text up to its end has quotes, all of it.
      rows: Bytes of each file after its header.
    """

    first: int
    origin: Origin
    header: bytes
    rows: Sequence[bytes]

    def lines(self, file_format: FileFormat) -> Iterator[LineBlock]:
        """Yield the rows in blocks, with their numbers in each file."""
        texts = [text + b"\n" if text and text[-1:] != b"\n" else text for text in self.rows]
        starts = np.cumsum([0, *map(len, texts)])[:-1]
        file = TextFile(self.origin, file_format)
        for lines, before in file.joined_lines(b"".join(texts), starts):
            of = np.searchsorted(before, lines.numbers, side="right") - 1
            bad = []
            for row in lines.bad:
                at = int(np.searchsorted(before, row.number, side="right")) - 1
                number = row.number - int(before[at]) + 1
                bad.append(row._replace(number=number, file=self.first + at))
            joined = dataclasses.replace(
                lines,
                numbers=lines.numbers - before[of] + 1,
                files=(self.first + of).astype(np.int32),
                bad=tuple(bad),
            )
            yield from split_block(joined)


def lines_of(file: TextFile, section: FileSection) -> Iterator[LineBlock]:
    """Yield the rows of a section of files without a header, of which `file` is the first."""
    if not section.more:
        yield from file.lines(section)
        return
    for joined in read_joined(section, file.origin, file.file_format.header_rows):
        yield from joined.lines(file.file_format)


def read_joined(section: FileSection, origin: Origin, header_rows: int) -> Iterator[JoinedFiles]:
    """Yield the joined files of a section. A file that is not UTF-8 is not joined with others.

    Args:
      section: Section of text files that are not compressed, and not declared as another encoding.
        Each is read to its end.
      origin: Origin of the first file.
      header_rows: Number of rows before the data of each file.

    Raises:
      ChangedInputError: A file has changed since it was listed.
    """
    files = [(origin, section), *section.more]

    def heads() -> Iterator[tuple[tuple[bytes, int], bytes]]:
        for number, (place, part) in enumerate(files):
            with place.parsing(), place.open() as file:
                text = file.read()
            if ends_lines_with_cr(text):
                text = text.replace(b"\r", b"\n")
            head = text[: part.start].removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
            if b'"' not in head and header_rows == 1:
                head = head.rpartition(b"\n")[2]  # without the lines before the header
            yield (head, -1 if is_utf8(text) else number), text[part.start : part.end]

    first = 0
    for (header, _), several in itertools.groupby(heads(), key=lambda one: one[0]):
        rows = [text for _, text in several]
        yield JoinedFiles(first, files[first][0], header, rows)
        first += len(rows)
