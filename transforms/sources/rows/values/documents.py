"""Files that are documents: their size, their encoding and their problems."""

from __future__ import annotations

import codecs
import dataclasses
import functools

import pyarrow as pa

from recordmill.errors import Reason, RecordError, Reject
from recordmill.format.file_content import HEAD, LFS_POINTER, identify
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.transforms.model import batch
from recordmill.transforms.sources.files.file_stat import EMPTY, RejectCause
from recordmill.transforms.sources.folders.folders import ARCHIVES, SOUND_AND_VIDEO
from recordmill.transforms.sources.row_formats.reading.row_format import (
    UTF8,
    FileFormat,
    RowFormat,
)
from recordmill.transforms.sources.row_formats.text.text_encodings import is_utf8, to_utf8
from recordmill.transforms.sources.rows.columns.record_columns import ONLY_SPACE

# Extensions of files that are never text.
_IMAGES = "avif bmp gif heic heif ico jpeg jpg png psd svg tif tiff webp"
_DOCUMENTS = "doc docx epub odp ods odt pdf ppt pptx xls xlsx"
_DATA = "arrow db feather h5 hdf5 mat npy npz onnx parquet pickle pkl pt pth sqlite tfrecord"
_PROGRAMS = "a bin class dll dylib exe jar o pyc so wasm"
_FONTS = "otf ttf woff woff2"
NOT_TEXTS = tuple(
    " ".join(
        (_IMAGES, _DOCUMENTS, _DATA, _PROGRAMS, _FONTS, ARCHIVES, SOUND_AND_VIDEO, "bz2 xz zst")
    ).split()
)

UTF_16 = "not UTF-8: it looks like UTF-16, which --encoding utf-16 reads"
_BOM = b"\xef\xbb\xbf"
_BEGIN = 64  # bytes of a document that are looked at first


@dataclasses.dataclass(frozen=True, kw_only=True)
class DocumentFormat:
    """Format of files that are documents.

    Attributes:
      encoding: Encoding of all files; a byte order mark is dropped.
      max_row_bytes: Largest size of a document; larger ones are rejected.
    """

    encoding: str
    max_row_bytes: int

    @functools.cached_property
    def lines(self) -> FileFormat:
        """The format of files whose lines are documents. Raises ConfigError for its encoding."""
        row_format = RowFormat(
            format="lines", encoding=self.encoding, max_row_bytes=self.max_row_bytes
        )
        return row_format.resolve("")

    def size_problem(self, size: int) -> RejectCause | None:
        """Return the problem of a document that is too large, None if it is not."""
        if size <= self.max_row_bytes:
            return None
        why = f"a document of {size} bytes, more than --max-row-bytes {self.max_row_bytes}"
        return RejectCause(Reason.TOO_LARGE, why)

    def read(self, files: pa.RecordBatch) -> tuple[pa.RecordBatch, pa.Array, list[Reject]]:
        """Read files.

        Args:
          files: References to the files, with the columns of every listing of files.

        Returns:
          The references to valid documents, the documents, string[n], and the rejects.

        Raises:
          ChangedInputError: A file has changed since it was listed.
        """
        texts, at, rejects = [], [], []
        rows = files.select([batch.KEY, batch.PATH, batch.SIZE, batch.MTIME]).to_pylist()
        places = [(one[batch.PATH], one[batch.SIZE], one[batch.MTIME]) for one in rows]
        for row, listed in enumerate(read_ahead(rows, places)):
            try:
                data = read_file(
                    listed[batch.PATH], size=listed[batch.SIZE], mtime=listed[batch.MTIME]
                )
                texts.append(self._text(data))
                at.append(row)
            except RecordError as error:
                rejects.append(Reject(listed[batch.KEY], "read", error.reason, error.detail))
        return files.take(pa.array(at, pa.int64())), pa.array(texts, pa.string()), rejects

    def _text(self, data: bytes) -> bytes:
        """Return a document as UTF-8. Raises RecordError."""
        encoding = self.lines.encoding
        if encoding != UTF8:
            data = to_utf8(data, encoding)
        data = data.removeprefix(_BOM)
        if not data:
            raise RecordError(*EMPTY)
        if data.startswith(LFS_POINTER):
            raise RecordError(Reason.BAD_VALUE, str(identify(data[:HEAD])))
        utf_16 = encoding == UTF8 and _looks_like_utf_16(data)
        if not is_utf8(data) or utf_16:
            content = identify(data[:HEAD])
            if content is not None and content.kind != "text":
                raise RecordError(Reason.BAD_VALUE, str(content))
            why = f"not {encoding.upper()}: name the encoding with --encoding"
            raise RecordError(Reason.BAD_VALUE, UTF_16 if utf_16 else why)
        if b"\0" in data:
            raise RecordError(Reason.BAD_VALUE, "a zero byte: expected text")
        # A copy of a whole document is decoded only if its beginning is white space.
        if not data[:_BEGIN].decode(errors="ignore").strip() and not data.decode().strip():
            raise RecordError(*ONLY_SPACE)
        return data


def _looks_like_utf_16(data: bytes) -> bool:
    """Return whether text is UTF-16: by its byte order mark, or by zeros in every other byte."""
    some = data[: 2 * _BEGIN]
    return data[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) or (
        len(data) % 2 == 0 and 0 in (max(some[::2]), max(some[1::2]))
    )
