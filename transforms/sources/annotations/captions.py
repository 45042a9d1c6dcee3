"""Captions of images: in a table with a row per caption, or in files beside the images.

A table has a header with a column of images and one of captions, or is a token file of Flickr8k and
Flickr30k, whose lines are `1.jpg#0`, a tab and the caption. JSON lines are also such rows; those
of the Hugging Face hub (`metadata.jsonl`) name images beside the file. All captions of an image are
in one record, in their order.
"""

from __future__ import annotations

import csv
import dataclasses
import io
import itertools
import json
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
import pyarrow as pa

from recordmill.errors import ConfigError, Reason, RecordError, Reject
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.storage.input_files import read_file
from recordmill.transforms.model import batch
from recordmill.transforms.model.annotations import (
    CAPTIONS_FIELD,
    SIDES_FIELD,
    Annotated,
    Indices,
    grouped,
    strings,
)
from recordmill.transforms.sources.annotations.annotation_files import distinct_folders, files_of
from recordmill.transforms.sources.annotations.annotation_table import (
    AnnotationReader,
    AnnotationTable,
)
from recordmill.transforms.sources.annotations.hub_metadata import NAME
from recordmill.transforms.sources.archives.label_files import field_of
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import is_utf8
from recordmill.transforms.sources.folders.folders import NOT_IMAGES, FileTree
from recordmill.transforms.sources.folders.path_matcher import path_to_match

_REFERENCE = (batch.PATH, batch.SIZE, batch.MTIME)
_SCHEMA = pa.schema([SIDES_FIELD, CAPTIONS_FIELD])  # the sides of images are not known
_TOKEN = re.compile(r"(?P<image>[^\t]*)#\d+\t(?P<caption>.*)", re.DOTALL)
_IMAGES = ("image", "filename", "file_name", "image_name", "path", "file", "image_path", "image_id")
_CAPTIONS = ("caption", "captions", "comment", "text", "sentence", "description")
_DELIMITERS = (",", "\t", ";", "|")
_JSON = ".jsonl"
_LONGEST = 1 << 20  # characters of a line, and bytes of a file
_SHOWN = 60  # characters of a value in a message


class _Row(NamedTuple):
    """A row of a table of captions. number: from 1, without the header."""

    number: int
    image: str
    caption: str


def holds_captions(file: Location) -> bool:
    """Return whether a table has a header or a first line of captions."""
    with file.open_input() as data:
        first = data.read(_LONGEST).decode("utf-8-sig", "replace").partition("\n")[0]
    if first.startswith("{"):
        found = _of_json(first)
        return found is not None and bool(found[1]) and "objects" not in json.loads(first)
    return _TOKEN.fullmatch(first.rstrip("\r")) is not None or _columns_of(first) is not None


def read_captions(places: Sequence[Location]) -> AnnotationTable:
    """Read tables of captions.

    Args:
      places: Files, or folders with files `metadata.jsonl`.

    Raises:
      ConfigError: A file has another format, or has no caption.
    """
    files = [one for place in places for one in files_of(place, NAME)]
    images: dict[str, int] = {}
    texts: list[str] = []
    of: list[int] = []
    rejects: list[Reject] = []
    for file, folder in zip(files, distinct_folders(files), strict=True):
        is_json = file.name.lower().endswith(_JSON)
        for number, image, caption in _json_rows(file, folder) if is_json else _rows(file):
            if not image or not caption:
                why = f"row {number}: " + (f"no caption of {image!r}" if image else "no image")
                rejects.append(Reject(f"{file.name}#{number}", "read", Reason.BAD_VALUE, why))
                continue
            of.append(images.setdefault(image, len(images)))
            texts.append(caption)
    if not images:
        named = ", ".join(map(str, files))
        raise ConfigError(f"{option_name('annotations')}: {named} has no row with a caption")
    column = grouped(strings(texts), np.array(of, np.int64), len(images))
    return AnnotationTable(
        names=list(images),
        table=_with_sides(column),
        rejects=rejects,
        by_stem=not any("." in name.rpartition("/")[2] for name in images),
    )


def _with_sides(captions: pa.Array) -> pa.RecordBatch:
    return pa.record_batch([pa.nulls(len(captions), SIDES_FIELD.type), captions], schema=_SCHEMA)


def _rows(file: Location) -> Iterator[_Row]:
    """Yield the rows of a table. Raises ConfigError if it has another format."""
    with file.open_input() as data, io.TextIOWrapper(data, "utf-8-sig", newline="") as text:
        line = 0
        try:
            first = text.readline(_LONGEST)
            lines = itertools.chain([first], text)
            if _TOKEN.fullmatch(first.rstrip("\r\n")) is not None:
                for line, one in enumerate(lines, 1):
                    found = _TOKEN.fullmatch(one.rstrip("\r\n"))
                    if found is not None:
                        yield _Row(line, found["image"].strip(), found["caption"].strip())
                    elif one.strip():
                        raise ConfigError(
                            f"{option_name('annotations')}: line {line} of {file} is not IMAGE#N, a"
                            f" tab and a caption, as the lines before it: {one[:_SHOWN]!r}"
                        )
                return
            columns = _columns_of(first)
            if columns is None:
                raise ConfigError(
                    f"{option_name('annotations')}: expected lines such as 1.jpg#0, a tab and a"
                    " caption, or a header with the columns image and caption, got"
                    f" {first[:_SHOWN].strip()!r} in {file}"
                )
            delimiter, image, caption = columns
            # The table of Flickr30k separates by bars, and does not quote.
            quoting: Literal[0, 3] = csv.QUOTE_NONE if delimiter == "|" else csv.QUOTE_MINIMAL
            reader = csv.reader(lines, delimiter=delimiter, quoting=quoting, strict=True)
            next(reader)
            for number, cells in enumerate(reader, 1):
                line = reader.line_num
                if cells:
                    padded = [*cells, *[""] * max(image + 1, caption + 1)]
                    yield _Row(number, padded[image].strip(), padded[caption].strip())
        except (csv.Error, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{option_name('annotations')}: {file} is not CSV in UTF-8, at line {line + 1}"
            ) from error


def _json_rows(file: Location, folder: str) -> Iterator[_Row]:
    """Yield the rows of lines of JSON. folder: of the images, if files are in several."""
    with file.open_input() as data:
        for number, line in enumerate(data, 1):
            found = _of_json(line.decode("utf-8-sig", "replace"))
            image, captions = found or ("", ())
            for caption in captions or ([""] if line.strip() else []):
                yield _Row(number, posixpath.join(folder, image) if image else "", caption)


def _of_json(line: str) -> tuple[str, Sequence[str]] | None:
    """Return the image and the captions in a line of JSON, None if it is something else."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        return None
    if not isinstance(row, dict):
        return None
    image, value = (
        next((row[name] for name in usual if name in row), "") for usual in (_IMAGES, _CAPTIONS)
    )
    texts = value if isinstance(value, list) else [value]
    if not all(isinstance(one, str) and is_utf8(one) for one in (image, *texts)):
        return None
    return image.strip(), [one.strip() for one in texts if one.strip()]


def _columns_of(first: str) -> tuple[str, int, int] | None:
    """Return the delimiter of a header and the places of images and captions, None without them."""
    for delimiter in _DELIMITERS:
        row = next(csv.reader([first.strip()], delimiter=delimiter), [])
        names = [name.strip().lower() for name in row]
        found = [
            next((names.index(name) for name in usual if name in names), None)
            for usual in (_IMAGES, _CAPTIONS)
        ]
        if found[0] is not None and found[1] is not None:
            return delimiter, found[0], found[1]
    return None


@dataclasses.dataclass(frozen=True, kw_only=True)
class CaptionFiles:
    """Files with the captions of the images beside them; calling it lists them.

    Attributes:
      inputs: The inputs that hold images and captions: folders, patterns or archives.
      extension: Extension of the files, in lower case.
      field: Field of JSON; None if lines of text are captions.
      optional: Whether a file may have no caption.
    """

    inputs: Inputs
    extension: str
    field: str | None
    optional: bool

    @property
    def where(self) -> str:
        """The files, for messages."""
        return f".{self.extension} files"

    def __call__(self) -> AnnotationReader:
        """List the files.

        Raises:
          ConfigError: There are none.
        """
        tree = FileTree(
            input=dataclasses.replace(self.inputs, label_from="top", group_from=None),
            unlabelled="keep",
            leave_out=tuple(one for one in NOT_IMAGES if one != self.extension),
            labelled=False,
        )
        files: list[tuple[str, int, int]] = []
        for part in tree.scan():
            if part.rows is not None:
                columns = (part.rows[name].to_pylist() for name in _REFERENCE)
                some = zip(*columns, strict=True)
                files += [one for one in some if one[0].lower().endswith(f".{self.extension}")]
        if not files:
            raise ConfigError(
                f"{option_name('captions_from')}: found no .{self.extension} file in {self.inputs}:"
                " captions are in files that have the names of the images"
            )
        paths = [path_to_match(path) for path, _, _ in files]
        names = [path[: -len(self.extension) - 1] for path in paths]
        return _CaptionReader(names=names, files=files, field=self.field, optional=self.optional)


@dataclasses.dataclass(frozen=True, kw_only=True)
class _CaptionReader(AnnotationReader):
    """Reader of files of captions.

    Attributes:
      files: Path, size and time of each.
      field: As in `CaptionFiles`.
      optional: As in `CaptionFiles`.
    """

    files: Sequence[tuple[str, int, int]]
    field: str | None
    optional: bool

    @property
    def fields(self) -> pa.Schema:
        return _SCHEMA

    def read(self, which: Indices) -> Annotated:
        found: list[list[str]] = []
        faults: dict[int, str] = {}
        for row, at in enumerate(which.tolist()):
            path, size, mtime = self.files[at]
            name = path_to_match(path).rpartition("/")[2]
            found.append([])
            try:
                if size > _LONGEST:
                    raise ValueError(f"it has {size} bytes, more than captions have")
                found[row] = self._captions(read_file(path, size=size, mtime=mtime))
                if not found[row] and not self.optional:
                    where = f" in the field {self.field!r}" if self.field else ""
                    raise ValueError(f"no caption{where}")
            except RecordError as error:
                faults[row] = f"{name}: {error.detail}"
            except ValueError as error:
                faults[row] = f"{name}: {error}"
        return Annotated(columns=_with_sides(pa.array(found, CAPTIONS_FIELD.type)), faults=faults)

    def _captions(self, content: bytes) -> list[str]:
        """Return the captions in a file: its lines, or a text or texts in a field of JSON.

        Raises:
          ValueError: It is not UTF-8 or JSON, or the field holds something else.
        """
        try:
            text = content.decode("utf-8-sig")
            document = None if self.field is None else json.loads(text)
        except UnicodeDecodeError as error:
            raise ValueError("not UTF-8") from error
        except (ValueError, RecursionError) as error:
            raise ValueError("not JSON") from error
        if self.field is None:
            return [line.strip() for line in text.splitlines() if line.strip()]
        value = field_of(document, self.field)
        texts = value if isinstance(value, list) else [] if value is None else [value]
        if not all(isinstance(one, str) and is_utf8(one) for one in texts):
            shown = repr(value)[:_SHOWN]
            raise ValueError(
                f"expected a text or a list of texts in the field {self.field!r}, got {shown}"
            )
        return [one.strip() for one in texts if one.strip()]
