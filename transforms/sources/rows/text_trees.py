"""Folders of text files as an input: a document is a file, or a line of one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterable, Iterator
from typing import Literal, get_args

import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.storage.files import Location, read_file
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Layout, ListingPart
from recordmill.transforms.sources.files import references
from recordmill.transforms.sources.files.file_stat import EMPTY, Problem
from recordmill.transforms.sources.files.folders import (
    ARCHIVES,
    SOUND_AND_VIDEO,
    Member,
    members,
    nothing_usable,
    read_layout,
)
from recordmill.transforms.sources.files.references import Sections, Unlabelled, check_unlabelled
from recordmill.transforms.sources.files.walks import File, LeftOut
from recordmill.transforms.sources.row_formats.json_lines import LINE, PlainLines
from recordmill.transforms.sources.row_formats.row_format import UTF8, RowFormat, Shape
from recordmill.transforms.sources.row_formats.rows import Origin
from recordmill.transforms.sources.row_formats.text_files import is_utf8, to_utf8
from recordmill.transforms.sources.rows.record_columns import OURS, TEXT_FIELDS, no_rows
from recordmill.transforms.sources.rows.row_tables import (
    numbered_keys,
    reading,
    regroup,
    sections_of,
)

Documents = Literal["file", "line"]

# Extensions of files that are no texts, whatever is in them.
_PICTURES = "avif bmp gif heic heif ico jpeg jpg png psd svg tif tiff webp"
_DOCUMENTS = "doc docx epub odp ods odt pdf ppt pptx xls xlsx"
_DATA = "arrow db feather h5 hdf5 mat npy npz onnx parquet pickle pkl pt pth sqlite tfrecord"
_PROGRAMS = "a bin class dll dylib exe jar o pyc so wasm"
_FONTS = "otf ttf woff woff2"
NOT_TEXTS = tuple(
    " ".join(
        (_PICTURES, _DOCUMENTS, _DATA, _PROGRAMS, _FONTS, ARCHIVES, SOUND_AND_VIDEO, "bz2 xz zst")
    ).split()
)

_MARK = b"\xef\xbb\xbf"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TextTree:
    """Lists the text files under a folder; folders give label and split, as in `FileTree`.

    documents: what a record is. A blank line is none; what stands around a line is part of it, but
      for its line break.
    encoding: of all files; a byte order mark is dropped.
    max_row_bytes: a longer document is a reject.
    leave_out: extensions (without dot, in lower case) that are no input.
    """

    root: str
    documents: Documents = "file"
    encoding: str = UTF8
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_TEXTS
    max_row_bytes: int = RowFormat.max_row_bytes

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        if self.documents not in get_args(Documents):
            raise ConfigError(
                f"--documents: expected one of {', '.join(get_args(Documents))}, got "
                f"{self.documents!r}"
            )
        Location.parse(self.root)
        self._shape  # noqa: B018, it refuses what is no encoding

    @property
    def unique_keys(self) -> bool:
        return True

    @property
    def notes(self) -> tuple[str, ...]:
        return ()

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError if there is no such folder or nothing to use in it."""
        root = Location.parse(self.root)
        layout = read_layout(root)
        found = Sections()
        for one in members(
            root, layout=layout, unlabelled=self.unlabelled, leave_out=self.leave_out
        ):
            if isinstance(one, LeftOut):
                found.filter(one.by)
            elif isinstance(one, Reject):
                found.rejects.append(one)
            else:
                yield from self._list(one, found)
            if found.full:
                yield found.take()
        yield found.take()
        if not found.totals["rows"]:
            raise ConfigError(nothing_usable(root, found))

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> Layout:
        """Raises ConfigError if there is no such folder."""
        del parts, keep
        layout = read_layout(Location.parse(self.root))
        return Layout(
            columns=pa.schema(TEXT_FIELDS),
            labelled=layout != "flat",
            grouped=False,
            presplit=layout == "splits",
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Raises ChangedInputError for a file that is not what was listed."""
        del layout
        return regroup(
            [self._files(sections)] if self.documents == "file" else self._lines(sections)
        )

    @functools.cached_property
    def _shape(self) -> Shape:
        row_format = RowFormat(
            format="lines", encoding=self.encoding, max_row_bytes=self.max_row_bytes
        )
        return row_format.of("")

    def _open(self, file: File) -> PlainLines:
        origin = Origin(place=Location.parse(file.path), size=file.size, mtime=file.mtime)
        return PlainLines(origin, self._shape)

    def _list(self, member: Member, found: Sections) -> Iterator[ListingPart]:
        file, label, split = member
        if self.documents == "file":
            if file.size > self.max_row_bytes:
                found.reject(file.key, self._too_large(file.size))
                return
            if not found.has_room(file.size):
                yield found.take()
            found.add(*file, 0, file.size, 1, label=label, split=split)
            found.bytes += file.size
            return
        try:
            for section in self._open(file).sections(references.PART_BYTES):
                if not found.has_room(section.size):
                    yield found.take()
                found.add_section(file, section, label=label, split=split)
        except RecordError as error:
            found.reject(file.key, Problem(error.reason, error.detail))

    def _files(self, sections: pa.RecordBatch) -> ListingPart:
        texts, at, rejects = [], [], []
        for row, listed in enumerate(sections.to_pylist()):
            try:
                data = read_file(
                    listed[batch.PATH], size=listed[batch.SIZE], mtime=listed[batch.MTIME]
                )
                texts.append(self._text(data))
                at.append(row)
            except RecordError as error:
                rejects.append(Reject(listed[batch.KEY], "read", error.reason, error.detail))
        kept = sections.take(pa.array(at, pa.int64()))
        arrays = [*(kept[name] for name in OURS), pa.array(texts, pa.string())]
        rows = pa.record_batch(arrays, schema=pa.schema(TEXT_FIELDS))
        return ListingPart(rows=rows if at else None, rejects=rejects)

    def _lines(self, sections: pa.RecordBatch) -> Iterator[ListingPart]:
        wanted = pa.schema([pa.field(LINE, pa.string())])
        for file, section, listed in sections_of(sections):
            with reading(file):
                for rows in self._open(file).read(section, wanted, (LINE,)):
                    count = len(rows.columns)
                    given = [
                        pa.repeat(pa.scalar(listed[name], pa.string()), count) for name in OURS[1:]
                    ]
                    arrays = [numbered_keys(file.key, rows.numbers), *given, rows.columns[LINE]]
                    yield ListingPart(
                        rows=pa.record_batch(arrays, schema=pa.schema(TEXT_FIELDS)),
                        rejects=no_rows(rows, file.key),
                    )

    def _text(self, data: bytes) -> bytes:
        """The document in UTF-8. Raises RecordError."""
        encoding = self._shape.encoding
        if encoding != UTF8:
            data = to_utf8(data, encoding)
        data = data.removeprefix(_MARK)
        if not data:
            raise RecordError(*EMPTY)
        if not is_utf8(data):
            why = f"not {encoding.upper()}: name its encoding with --encoding"
            raise RecordError(Reason.BAD_VALUE, why)
        if b"\0" in data:
            raise RecordError(Reason.BAD_VALUE, "a zero byte: expected text")
        return data

    def _too_large(self, size: int) -> Problem:
        why = f"a document of {size} bytes, more than --max-row-bytes {self.max_row_bytes}"
        return Problem(Reason.TOO_LARGE, why)
