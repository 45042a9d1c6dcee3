"""Small text files that are read as one block of rows.

Most of the time for a small file is spent once per block: to parse it, to infer types, to build
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

SMALL = 256 << 10  # bytes of a file that is joined with others
MOST = 1 << 20  # bytes of files that are joined


class JoinedFiles(NamedTuple):
    """Consecutive files with equal headers.

    first: index of the first one among the files of the section. origin: of that one. header: the
    line that names the columns, or all text up to it if it has quotes. rows: the bytes of each file
    after its header.
    """

    first: int
    origin: Origin
    header: bytes
    rows: Sequence[bytes]

    def lines(self, file_format: FileFormat) -> Iterator[LineBlock]:
        """Yield blocks of the rows, which are numbered in each file."""
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
    """Yield the rows of a section of files without headers, of which `file` is the first."""
    if not section.more:
        yield from file.lines(section)
        return
    for joined in read_joined(section, file.origin):
        yield from joined.lines(file.file_format)


def read_joined(section: FileSection, origin: Origin) -> Iterator[JoinedFiles]:
    """Read the files of a section. A file that is not UTF-8 is joined with no other.

    section: of text files that are neither compressed nor in another encoding, each to its end.
    origin: of the first file.

    Raises:
      ChangedInputError: a file has changed since it was listed.
    """
    files = [(origin, section), *section.more]

    def heads() -> Iterator[tuple[tuple[bytes, int], bytes]]:
        for number, (place, part) in enumerate(files):
            with place.parsing(), place.open() as file:
                text = file.read()
            if ends_lines_with_cr(text):
                text = text.replace(b"\r", b"\n")
            head = text[: part.start].removeprefix(codecs.BOM_UTF8).rstrip(b"\r\n")
            if b'"' not in head:
                head = head.rpartition(b"\n")[2]  # without the lines before the header
            yield (head, -1 if is_utf8(text) else number), text[part.start : part.end]

    first = 0
    for (header, _), several in itertools.groupby(heads(), key=lambda one: one[0]):
        rows = [text for _, text in several]
        yield JoinedFiles(first, files[first][0], header, rows)
        first += len(rows)
