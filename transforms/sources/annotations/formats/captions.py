"""Tables of captions of images, with a row per caption; `caption_files` reads other captions.

A table has a header with a column of images and one of captions, or is a token file of Flickr8k and
Flickr30k, whose lines are `1.jpg#0`, a tab and the caption. JSON lines, the items of a JSON array,
and the members of a JSON object with the names of images are read as rows, too. JSON lines of the
Hugging Face hub (`metadata.jsonl`) name images beside the file. All captions of an image are in one
record, in their order.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import functools
import io
import itertools
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, Literal, NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.format.file_content import HEAD
from recordmill.notes import LeftUnread
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.model.annotations import (
    CAPTIONS_FIELD,
    SIDES_FIELD,
    count_unread,
    grouped,
    strings,
)
from recordmill.transforms.sources.annotations.formats.annotation_files import files_of
from recordmill.transforms.sources.annotations.formats.annotation_table import (
    AnnotationTable,
)
from recordmill.transforms.sources.annotations.formats.named_images import (
    SPLIT,
    NamedImages,
    naming_files,
    unread_splits,
)
from recordmill.transforms.sources.files.inputs import is_utf8
from recordmill.transforms.sources.files.json_members import iter_items, iter_members
from recordmill.transforms.sources.folders.companions import METADATA
from recordmill.transforms.sources.row_formats.reading.json_documents import SPACE, refuse_document

SCHEMA = pa.schema([SIDES_FIELD, CAPTIONS_FIELD])  # the sides of images are not known
_TOKEN = re.compile(r"(?:([^\t]*)#\d+ *\t|(\S*)#\d+ +)(.*)", re.DOTALL)
_IMAGES = ("image", "filename", "file_name", "image_name", "path", "file", "image_path", "image_id")
_CAPTIONS = ("caption", "captions", "comment", "text", "sentence", "description")
# Names of further columns that do not count as unread: most only number rows or images.
_KNOWN = frozenset(
    (SPLIT, "id", "image_id", "caption_id", "caption_number", "comment_number", "width", "height")
)
_DELIMITERS = (",", "\t", ";", "|")
_HEADERLESS = "image, caption"  # in messages
# A line without a header above it: an image, a delimiter and a caption.
_NAMED = re.compile(
    r"([^,\t;|]*\.(?:jpe?g|png|gif|bmp|webp|tiff?))\s*([,\t;|])(.*)", re.I | re.DOTALL
)
# Beginnings of JSON objects: one with the captions of each image by its name, and one of Karpathy's
# splits of Flickr8k, Flickr30k and COCO.
_MAPPING = re.compile(r'\{\s*"[^"]+\.(jpe?g|png|gif|bmp|webp|tiff?)"\s*:\s*(\[\s*)?"', re.I)
_SENTENCES = re.compile(r'\{\s*("dataset"|"images"\s*:\s*\[).*"sentences"\s*:\s*\[', re.DOTALL)
_NUMBER = re.compile(r"[\d.+-]+")  # in the next cells: then they are the sides or corners of a box
_JSON = (".jsonl", ".json")
_LONGEST = 1 << 20  # characters of a line, and bytes of a file
_FIRST_LINES = 10  # lines that show the format of a table
_NOT_UTF8 = "not UTF-8 (iconv -f cp1252 -t utf-8 converts a file whose encoding is cp1252)"
_ENDS = "\r\n"
_SHOWN = 60  # characters of a value in a message


class _Row(NamedTuple):
    """A row of a table of captions.

    Attributes:
      number: From 1, without the header.
      line: Number of its first line, from 1; in a JSON array or object, number of the item.
      image: Name of the image.
      caption: The caption.
      others: Values of other columns by name.
      fault: Problem of the row, if it cannot be read.
      unit: Noun for `line`: line or item.
    """

    number: int
    line: int
    image: str = ""
    caption: str = ""
    others: Mapping[str, Any] = {}
    fault: str | None = None
    unit: str = "line"

    @property
    def place(self) -> str:
        """Place of the row in its file, for messages."""
        return f"{self.unit} {self.line}"

    @property
    def problem(self) -> str | None:
        """Reason to reject the row, None without one."""
        if self.fault is None and self.image and self.caption:
            return None
        return self.fault or (f"no caption of {self.image!r}" if self.image else "no image")


def holds_captions(file: Location) -> bool:
    """Return whether a table has a header or a first row of captions.

    A `.json` file with a single object is not a table: it may describe the image beside it.
    """
    with file.open_input() as data:
        start = data.read(_LONGEST)
    if (name := file.name.lower()).endswith(_JSON):
        rows: list[_Row] = []
        with contextlib.suppress(ConfigError):  # `start` may end inside an array
            rows.extend(itertools.islice(_json_rows(io.BytesIO(start), file), _FIRST_LINES))
        is_one = name.endswith(_JSON[1]) and {(row.unit, row.line) for row in rows} == {("line", 1)}
        has_boxes = any("objects" in row.others for row in rows)
        return not is_one and not has_boxes and any(row.caption for row in rows)
    text = start.decode("utf-8-sig", "replace")
    head = [line.rstrip(_ENDS) for line in text.split("\n")[:_FIRST_LINES]]
    is_table = _columns_of(head[0]) is not None or _headerless_delimiter(head) is not None
    return is_table or any(map(_TOKEN.fullmatch, head))


def _headerless_delimiter(lines: Iterable[str]) -> str | None:
    """Return the delimiter of lines with an image and a caption each, without a header line.

    Returns:
      None if the first line or most of the next have another form, if numbers follow the image, or
      if no text has several words.
    """
    texts = [text for line in lines if (text := line.strip())]
    if not texts or _NAMED.fullmatch(texts[0]) is None:
        return None  # it may be a header, such as that of a table of boxes
    found = [one for one in map(_NAMED.fullmatch, texts) if one is not None]
    delimiter, count = Counter(one[2] for one in found).most_common(1)[0]
    has_words = any(" " in one[3].strip() for one in found)
    cells = (one[3].split(delimiter)[:2] for one in found if one[2] == delimiter)
    has_numbers = any(all(_NUMBER.fullmatch(cell.strip()) for cell in pair) for pair in cells)
    return delimiter if count * 2 > len(texts) and has_words and not has_numbers else None


def read_captions(places: Sequence[Location]) -> AnnotationTable:
    """Read tables of captions.

    Args:
      places: Files, or folders with files `metadata.jsonl` or `metadata.csv`.

    Raises:
      ConfigError: A file has another format, or has no caption.
    """
    files: list[Location] = []
    images = NamedImages()
    texts: list[str] = []
    of: list[int] = []
    rejects: list[Reject] = []
    notes: dict[str, None] = {}
    unread = LeftUnread()
    divided: Location | None = None  # the first file with splits
    json_name, csv_name = METADATA
    for place in places:
        found = files_of(place, *METADATA)
        folders = {one.parent for one in found if one.name == json_name}
        unused = [one for one in found if one.name == csv_name and one.parent in folders]
        files += [one for one in found if one not in unused]
        if unused:
            notes[f"{csv_name} was not read where {json_name} is beside it"] = None
    for file in naming_files(files, lambda file: (row.image for row in _rows(file, {}))):
        for row in _rows(file.place, notes):
            if row.problem is not None:
                detail = f"{row.place}: {row.problem}"
                key = f"{file.shown}#{row.number}"
                rejects.append(Reject(key, "read", Reason.BAD_VALUE, detail))
                continue
            of.append(images.index(row.image, file, f"{file.place}: {row.place}"))
            texts.append(row.caption)
            if row.others.get(SPLIT) and divided is None:
                divided = file.place
            others = {name: value for name, value in row.others.items() if name not in _KNOWN}
            if others:
                count_unread(unread, others, such_as=f"one of {row.image}")
    names = images.names
    if not names:
        named = ", ".join(map(str, files))
        such = f": {rejects[0].detail}" if rejects else ""
        raise ConfigError(f"{option_name('annotations')}: {named} has no row with a caption{such}")
    column = grouped(strings(texts), np.array(of, np.int64), len(names))
    return AnnotationTable(
        names=names,
        table=with_sides(column),
        rejects=rejects,
        notes=[*notes, *unread.notes()],
        unread_splits=unread_splits(divided, has_rows=len(of) == len(names)) if divided else "",
        by_stem=not any("." in name.rpartition("/")[2] for name in names),
        sources=images.sources,
        splits=images.splits,
        shared=images.shared,
    )


def with_sides(captions: pa.Array) -> pa.RecordBatch:
    """Return the columns of images with captions: `SCHEMA`."""
    return pa.record_batch([pa.nulls(len(captions), SIDES_FIELD.type), captions], schema=SCHEMA)


def _rows(file: Location, notes: dict[str, None]) -> Iterator[_Row]:
    """Yield the rows of a table.

    notes: gets a note if there is no header line.

    Raises:
      ConfigError: It has another format.
    """
    with file.open_input() as data:
        if file.name.lower().endswith(_JSON):
            yield from _json_rows(data, file)
            return
        text = _text_of(data)
        first = [*itertools.islice(iter(lambda: text.readline(_LONGEST), ""), _FIRST_LINES)]
        lines = itertools.chain(first, text)
        columns = _columns_of(first[0]) if first else None
        if columns is not None:
            next(lines)
            yield from _table_rows(lines, *columns)
            return
        if any(_TOKEN.fullmatch(line.rstrip(_ENDS)) for line in first):
            yield from _token_rows(lines)
            return
        if (delimiter := _headerless_delimiter(first)) is not None:
            notes[f"there is no header line: lines are read as {_HEADERLESS}"] = None
            yield from _headerless_rows(lines, delimiter)
            return
        start = first[0] if first else ""
        if not is_utf8(start):
            raise ConfigError(f"{option_name('annotations')}: {file} is not UTF-8, at line 1")
        raise ConfigError(
            f"{option_name('annotations')}: expected lines such as 1.jpg#0, a tab and a caption, or"
            " 1.jpg, a comma and a caption, or a header with the columns image and caption, got"
            f" {start[:_SHOWN].strip()!r} in line 1 of {file}"
        )


def _token_rows(lines: Iterable[str]) -> Iterator[_Row]:
    """Yield the rows of a token file."""
    for number, line in enumerate(lines, 1):
        found = _TOKEN.fullmatch(line.rstrip(_ENDS))
        if not is_utf8(line):
            yield _Row(number, number, fault=_NOT_UTF8)
        elif found is not None:
            image, caption = found[1] or found[2] or "", found[3]
            yield _Row(number, number, image.strip(), caption.strip())
        elif line.strip():
            fault = f"expected IMAGE#N, a tab and a caption, got {line[:_SHOWN].strip()!r}"
            yield _Row(number, number, fault=fault)


def _headerless_rows(lines: Iterable[str], delimiter: str) -> Iterator[_Row]:
    """Yield the rows of a table without a header. A caption may contain the delimiter."""
    for number, line in enumerate(lines, 1):
        found = _NAMED.fullmatch(line.strip())
        if not is_utf8(line):
            yield _Row(number, number, fault=_NOT_UTF8)
        elif found is not None and found[2] == delimiter:
            caption = found[3].strip()
            is_quoted = len(caption) > 1 and caption[0] == caption[-1] == '"'
            caption = caption[1:-1].replace('""', '"').strip() if is_quoted else caption
            yield _Row(number, number, found[1].strip(), caption)
        elif line.strip():
            fault = f"expected IMAGE{delimiter}CAPTION, got {line[:_SHOWN].strip()!r}"
            yield _Row(number, number, fault=fault)


def _table_rows(
    lines: Iterator[str], delimiter: str, image: int, caption: int, names: Sequence[str]
) -> Iterator[_Row]:
    """Yield the rows of CSV below its header; arguments are those that `_columns_of` returns.

    After a line that is not CSV, reading goes on at the next line, even if its quotes are open.
    """
    width = len(names)
    taken: list[str] = []  # lines of the current row
    again: collections.deque[str] = collections.deque()  # lines after a fault

    def feed() -> Iterator[str]:
        while (one := again.popleft() if again else next(lines, None)) is not None:
            taken.append(one)
            yield one

    # The table of Flickr30k separates by bars, and does not quote.
    quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL
    read = functools.partial(csv.reader, delimiter=delimiter, quoting=quoting, strict=True)
    reader = read(feed())
    line = 2
    for number in itertools.count(1):
        taken.clear()
        try:
            cells = next(reader, None)
        except csv.Error as error:
            yield _Row(number, line, fault=f"not CSV: {error}")
            again.extendleft(reversed(taken[1:]))
            reader = read(feed())
            line += 1
            continue
        if cells is None:
            return
        if not all(map(is_utf8, cells)):
            yield _Row(number, line, fault=_NOT_UTF8)
        elif any(one.strip() for one in cells[width:]):
            fault = f"expected {width} columns, got {len(cells)}: quote captions with {delimiter!r}"
            yield _Row(number, line, fault=fault)
        elif cells:
            padded = [*cells, *[""] * width]
            others = {
                name: value
                for at, (name, value) in enumerate(zip(names, cells, strict=False))
                if at not in (image, caption) and name and value.strip()
            }
            yield _Row(number, line, padded[image].strip(), padded[caption].strip(), others)
        line += len(taken)


def _text_of(data: BinaryIO) -> io.TextIOWrapper:
    return io.TextIOWrapper(data, "utf-8-sig", "surrogateescape", newline="")


def _json_rows(data: BinaryIO, file: Location) -> Iterator[_Row]:
    """Yield the rows of lines of JSON, or of a JSON array or object.

    Raises:
      ConfigError: It is invalid JSON, or an object of another form over several lines.
    """
    where = f"{option_name('annotations')}: {file}"
    start = data.read(HEAD).decode("utf-8-sig", "replace")
    data.seek(0)
    if (items := _items_of(data, start.lstrip(SPACE), where)) is not None:
        for number, item in enumerate(items, 1):
            yield from _rows_of(item, number, "item")
        return
    refuse_document(start, where)
    for number, line in enumerate(_text_of(data), 1):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            row = None
        if not is_utf8(line):
            yield _Row(number, number, fault=_NOT_UTF8)
        elif line.strip():
            yield from _rows_of(row, number, "line")


def _items_of(data: BinaryIO, start: str, where: str) -> Iterator[Any] | None:
    """Return the items of a JSON array or object of captions; None for JSON lines.

    Args:
      data: The file.
      start: Its beginning.
      where: The file, for messages.
    """
    if start.startswith("["):
        return iter_items(data, where=where)
    if _MAPPING.match(start):
        found = iter_members(data, None, where=where)
        return ({_IMAGES[0]: name, _CAPTIONS[0]: value} for name, _, value in found)
    if _SENTENCES.match(start):
        return (_of_sentences(item) for *_, item in iter_members(data, ("images",), where=where))
    return None


def _of_sentences(item: Any) -> Any:
    """Return the row of an image in a file of Karpathy's splits."""
    try:
        captions = [one["raw"] for one in item["sentences"]]
        return {_IMAGES[0]: item["filename"], _CAPTIONS[0]: captions, SPLIT: item.get(SPLIT)}
    except (AttributeError, KeyError, TypeError):
        return None


def _rows_of(value: Any, number: int, unit: str) -> Iterator[_Row]:
    """Yield a row for each caption in a line or an item of JSON."""
    row = dict(value) if isinstance(value, dict) else {}
    image, captions = (
        next((row.pop(name) for name in usual if name in row), "") for usual in (_IMAGES, _CAPTIONS)
    )
    texts = captions if isinstance(captions, list) else [captions]
    if not isinstance(value, dict) or not all(
        isinstance(one, str) and is_utf8(one) for one in (image, *texts)
    ):
        names = f"{_IMAGES[2]!r} and {_CAPTIONS[0]!r} or {_CAPTIONS[3]!r}"
        fault = f"expected a JSON object with texts {names}"
        yield _Row(number, number, fault=fault, unit=unit)
        return
    for caption in [one.strip() for one in texts if one.strip()] or [""]:
        yield _Row(number, number, image.strip(), caption, row, unit=unit)


def _columns_of(first: str) -> tuple[str, int, int, Sequence[str]] | None:
    """Return the delimiter of a header, the places of images and captions, and all names.

    Returns:
      None without such columns.
    """
    for delimiter in _DELIMITERS:
        row = next(csv.reader([first.strip()], delimiter=delimiter), [])
        names = [name.strip().lower() for name in row]
        found = [
            next((names.index(name) for name in usual if name in names), None)
            for usual in (_IMAGES, _CAPTIONS)
        ]
        if found[0] is not None and found[1] is not None:
            return delimiter, found[0], found[1], names
    return None
