"""Files among the inputs that no record is made of: masks, annotations, tables and captions."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from typing import Literal, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.split_names import canonical_split
from recordmill.notes import Note, count_of
from recordmill.storage.files import Location
from recordmill.storage.members import Member
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.model.usual_columns import LABELS, PATHS
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.files.inputs import InputRoot
from recordmill.transforms.sources.files.sample_images import (
    LOSSLESS,
    SampleImages,
    SidecarTexts,
)
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.folders.path_names import file_split
from recordmill.transforms.sources.folders.role_folders import FOLDERS_OF_MASKS, path_of_image

Companion = Literal["annotations", "lists", "masks", "samples", "sidecars", "tables"]

# Suffixes of the names of masks, as in several public datasets.
MASK_SUFFIXES = (
    "_mask",
    "_masks",
    "-mask",
    "_segmentation",
    "_seg",
    "_label",
    "_labels",
    "_gt",
    "_L",
)
_MASKS = rf"({'|'.join(MASK_SUFFIXES)})\.[^./]*$|{FOLDERS_OF_MASKS}"
_IN_FOLDERS = ""  # kind of masks that are in folders of their own
_MOST_OF = 0.9  # least fraction of images with a file of the same name in a folder of masks
_TABLES = ("csv", "jsonl", "parquet", "tsv")
METADATA = ("metadata.jsonl", "metadata.csv")  # of each folder, as on the Hugging Face hub
_ANNOTATED = ("objects", "caption", "captions", "text")  # columns of boxes and captions
_COLOURS = (frozenset("rgb"), frozenset(("red", "green", "blue")))
_CORNERS = frozenset(("xmin", "ymin", "xmax", "ymax"))  # columns of a box
_OPENED = 8  # tables whose columns are read
_COMMANDED = 4  # tables that a note names as inputs
_YOLO = re.compile(rb"\s*\d+( +[\d.eE+-]+){4,}[ \t]*(\r?\n|$)")
# Patterns that files of these formats hold near their beginning.
COCO = re.compile(rb'"(images|annotations|categories)"\s*:\s*\[')
LABELME = re.compile(rb'"shapes"\s*:\s*\[')
DOTA = re.compile(rb"^[ \t]*(-?[\d.]+[ \t]+){8}[^\s\d.+-]\S*([ \t]+\d)?[ \t]*\r?$", re.MULTILINE)
_CAPTION_TABLE = re.compile(rb"(\xef\xbb\xbf)?image(_name)?[ \t]*[,|\t].*(caption|comment)\b")
_CAPTION_ARRAY = re.compile(
    rb'(\xef\xbb\xbf)?\s*\[\s*\{(?=[^{}]*"(image|file)[^"]*"\s*:)[^{}]*"(captions?|text)"\s*:'
)
# {extension: [(pattern that a file of annotations begins with or contains, what it is)]}
_ANNOTATIONS: dict[str, list[tuple[Callable[[bytes], object], str]]] = {
    "json": [
        (COCO.search, "COCO"),
        (LABELME.search, "LabelMe"),
        (_CAPTION_ARRAY.match, "captions"),
    ],
    "txt": [(_YOLO.match, "YOLO"), (DOTA.search, "DOTA"), (_CAPTION_TABLE.match, "captions")],
    "xml": [
        (re.compile(rb"<annotation\b").search, "Pascal VOC"),
        (re.compile(rb"<annotations\b").search, "CVAT"),
    ],
}
_CAPTIONS = {
    "txt": " (--captions-from .txt reads captions)",
    "json": " (--captions-from .json:FIELD reads captions)",
}
_DEEPEST = 100  # folders beside a table
_READ = 1 << 16  # bytes at the beginning of a file
_PROBED = 3  # files per extension that are opened


class CompanionFinder:
    """Collects files of an input that may be meant for another option, whether read or skipped.

    inputs: of the records. kinds: the kinds of files to look for. sampled: the inputs include
      WebDataset shards, whose samples may have several images.
    """

    def __init__(
        self, inputs: Inputs, kinds: Iterable[Companion], *, sampled: bool = False
    ) -> None:
        self._inputs = inputs
        self._kinds = frozenset(kinds)
        self._counts: Counter[str] = Counter()
        self._probed: Counter[str] = Counter()
        self._tables: list[_Table] = []
        self._first: dict[str, str] = {}  # a table, or file of annotations, by its extension
        self._formats: dict[str, str] = {}  # format of these annotations, by extension
        self._folders: dict[str, str] = {}  # of these annotations
        self._places: dict[str, str] = {}  # value of --annotations that reads them
        self._images = 0
        self._samples = SampleImages() if sampled and "samples" in self._kinds else None
        self._sidecars = SidecarTexts() if "sidecars" in self._kinds else None
        # By their suffix; an example is a mask and its image.
        self._masks: Counter[str] = Counter()
        self._examples: dict[str, tuple[str, str]] = {}

    def skip(self, root: InputRoot, file: File) -> None:
        """Take a file of a folder or an archive that is skipped by its extension."""
        if self._sidecars is not None:
            self._sidecars.add_skipped(root.prefix + file.key)
        if Member.of(file.path) is not None:
            return
        extension = file.key.rpartition(".")[2].lower()
        self._counts[extension] += 1
        path = f"{root.given.path.rstrip('/')}/{file.key}"
        if extension in _TABLES and "tables" in self._kinds:
            table = _Table.of(root, file, path) if len(self._tables) < _OPENED else None
            if table is not None and table.holds_colours:
                self._counts[extension] -= 1
                return
            self._first.setdefault(extension, path)
            self._tables += [] if table is None else [table]
            return
        if extension in self._first:
            if file.key.rpartition("/")[0] != self._folders.get(extension):
                self._places[extension] = str(root.root)
            return
        if extension in _ANNOTATIONS and "annotations" in self._kinds:
            self._probed[extension] += 1
            begin = _begin(file.path) if self._probed[extension] <= _PROBED else b""
            format_ = next(
                (name for matches, name in _ANNOTATIONS[extension] if matches(begin)), None
            )
            if format_ is not None:
                self._first[extension], self._formats[extension] = path, format_
                self._folders[extension] = file.key.rpartition("/")[0]
                alone = format_ in ("COCO", "CVAT", "captions")
                self._places[extension] = path if alone else os.path.dirname(path)

    def add_record(self, key: str) -> None:
        """Take the key of a record, in the order of all files."""
        if self._sidecars is not None:
            self._sidecars.add_record(key)

    def seen(self, part: ListingPart) -> ListingPart:
        """Take the names of records. A mask is found if its image is in the same part."""
        if part.rows is not None and "masks" in self._kinds:
            self._find_masks(part.rows)
        if part.rows is not None and self._samples is not None:
            self._samples.see(part.rows[batch.KEY])
        return part

    def _find_masks(self, rows: pa.RecordBatch) -> None:
        self._images += len(rows)
        may_be_mask = pc.match_substring_regex(rows[batch.KEY], _MASKS)
        if not pc.any(may_be_mask).as_py():
            return
        others = rows[batch.KEY].filter(pc.invert(may_be_mask)).to_pylist()
        beside = {os.path.splitext(key)[0]: key for key in others}
        by_name = {os.path.basename(stem): key for stem, key in beside.items()}
        for key in rows[batch.KEY].filter(may_be_mask).to_pylist():
            stem = os.path.splitext(key)[0]
            suffix = _suffix(stem)
            folder, name = os.path.split(stem.removesuffix(suffix))
            kind = suffix
            image = beside.get(os.path.join(folder, name)) if suffix else None
            if image is None and key.lower().endswith(LOSSLESS) and path_of_image(stem) is not None:
                kind, image = _IN_FOLDERS, by_name.get(name)
            if image is not None:
                self._masks[kind] += 1
                self._examples.setdefault(kind, (key, image))

    def notes(self) -> Iterator[Note]:
        """Yield notes on masks and samples, and one on each kind of files that were not read."""
        yield from self._mask_notes()
        if self._samples is not None:
            yield from self._samples.notes()
        if self._sidecars is not None:
            of_images = "annotations" in self._kinds
            yield from self._sidecars.notes(self._first, _CAPTIONS if of_images else None)
        where = str(self._inputs)
        if self._tables:
            count = sum(self._counts[name] for name in _TABLES)
            files, were = ("table", "was") if count == 1 else ("tables", "were")
            yield Note(
                "unread",
                f"{count:,} {files} among the files of {where} {were} not read, such as"
                f" {self._tables[0].path}: {self._table_advice()}",
            )
        for extension, path in sorted(self._first.items()):
            if extension not in _ANNOTATIONS:
                continue
            files, were = ("file", "was") if self._counts[extension] == 1 else ("files", "were")
            yield Note(
                "unread",
                f"{self._counts[extension]:,} .{extension} {files} among the files of {where}"
                f" {were} not read, such as {path}, which holds annotations"
                f" ({self._formats[extension]}): --annotations {self._places[extension]} reads"
                " them",
            )

    def advice(self) -> str:
        """Return the option that reads tables that list files, for messages; empty without any."""
        if not any(table.lists_files for table in self._tables):
            return ""
        return f"; {self._tables[0].path} is a table: {self._table_advice()}"

    def _table_advice(self) -> str:
        """Return the option that reads the tables."""
        tables = [table for table in self._tables if table.lists_files]
        if not tables:
            return (
                "if it lists the files, pass it as --input, and the name of its column of paths as"
                " --path-column"
            )
        first = tables[0]
        if "annotations" in self._kinds and first.annotates:
            in_folders = len(tables) > 1 and all(table.name == first.name for table in tables)
            as_one = in_folders and (first.name in METADATA or first.has_boxes)
            place = str(self._inputs.paths[0].path) if as_one else first.path
            return f"--annotations {shlex.quote(place)} reads boxes or captions from it"
        divided = file_split(first.name) is not None  # such as train.csv beside test.csv
        tables = [
            one for one in tables if one.name == first.name or (divided and file_split(one.name))
        ]
        if not all(table.split for table in tables):
            tables = [table._replace(split=None) for table in tables]
        given = " ".join(table.as_input for table in tables[:_COMMANDED])
        more = " ..." if len(tables) > _COMMANDED else ""
        roots = {os.path.join(os.path.dirname(one.path), one.root) for one in tables if one.root}
        if len(roots) == 1 and all(one.root for one in tables):
            more += f" --input-root {shlex.quote(*roots)}"
        it = "it lists" if len(tables) == 1 else "they list"
        return f"{given}{more} reads the files that {it}, and their columns"

    def _mask_notes(self) -> Iterator[Note]:
        masks = self._masks.total()
        for kind, count in sorted(self._masks.items()):
            only = self._inputs.single
            root = "FOLDER" if only is None else only.path.rstrip("/")
            option = f"--masks {root}"
            if kind != _IN_FOLDERS:
                option += f" --mask-suffix {kind}"
            elif masks < _MOST_OF * (self._images - masks):
                continue  # a class may have the name of such a folder
            mask, image = self._examples[kind]
            look = "looks like a mask of another" if count == 1 else "look like masks of others"
            yield Note(
                "masks",
                f"{count_of(count, 'file')} of the dataset {look}, such as"
                f" {mask} of {image}: {option} reads them as masks",
            )


class _Table(NamedTuple):
    """A table among the files.

    Attributes:
      path: Path for options.
      split: Split of its folder or its input.
      columns: Names of its columns in lower case, if it is CSV or JSON lines.
      root: Name of a folder beside it that holds the first file it names; "" if none does.
    """

    path: str
    split: str | None
    columns: frozenset[str]
    root: str = ""

    @classmethod
    def of(cls, root: InputRoot, file: File, path: str) -> _Table:
        top = file.key.partition("/")[0] if "/" in file.key else ""
        head, _, rest = _begin(file.path).decode("utf-8-sig", "replace").partition("\n")
        first = _first_row(head, rest.partition("\n")[0])
        listed = next((first[name] for name in PATHS if name in first), "")
        split = root.given.split or canonical_split(top)
        return cls(path, split, frozenset(_columns_in(head)), _folder_of(listed, file.path))

    @property
    def name(self) -> str:
        """Name of the file."""
        return os.path.basename(self.path)

    @property
    def lists_files(self) -> bool:
        """True if it has a column that usually holds paths."""
        return not self.columns.isdisjoint(PATHS)

    @property
    def holds_colours(self) -> bool:
        """True if the table gives the colours of classes in masks."""
        return any(self.columns >= names for names in _COLOURS)

    @property
    def has_boxes(self) -> bool:
        """True if it has a box per row."""
        return self.columns >= _CORNERS

    @property
    def annotates(self) -> bool:
        """True if it has boxes, or captions but no classes."""
        has_captions = not self.columns.isdisjoint(_ANNOTATED)
        return self.has_boxes or (has_captions and self.columns.isdisjoint(LABELS))

    @property
    def as_input(self) -> str:
        """The option that reads it as a listing."""
        given = self.path if self.split is None else f"{self.split}={self.path}"
        return f"--input {shlex.quote(given)}"


def _columns_in(line: str) -> list[str]:
    """Return the names of columns in the first line of CSV or of JSON lines, in lower case."""
    return [*_first_row(line, line)]


def _first_row(head: str, line: str) -> dict[str, str]:
    """Return {column in lower case: value} of the first row of CSV or of JSON lines.

    Args:
      head: First line of the file.
      line: Second line.
    """
    if not head.startswith("{"):
        names, values = (re.split(r"[,;\t|]", one.strip("\r")) for one in (head, line))
        cells = zip(names, values, strict=False)
        return {name.strip(" \"'").lower(): value.strip(" \"'") for name, value in cells}
    try:
        return {name.lower(): str(value) for name, value in json.loads(head).items()}
    except (ValueError, RecursionError):
        return {}


def _folder_of(name: str, table: str) -> str:
    """Return the folder beside a table that holds a file it names without folder; "" if none."""
    beside = os.path.dirname(table)
    if not name or "/" in name or "\0" in name or os.path.isfile(os.path.join(beside, name)):
        return ""
    try:
        with os.scandir(beside) as entries:
            folders = itertools.islice((one.name for one in entries if one.is_dir()), _DEEPEST)
            found = [one for one in folders if os.path.isfile(os.path.join(beside, one, name))]
    except OSError:
        return ""  # the table is remote
    return found[0] if len(found) == 1 else ""


def _suffix(stem: str) -> str:
    return next((one for one in MASK_SUFFIXES if stem.endswith(one)), "")


def _begin(path: str) -> bytes:
    """Return the first bytes of a local file; none if it cannot be read, or is remote."""
    place = Location.parse(path)
    if not place.is_local:
        return b""
    try:
        with open(place.local_path, "rb") as file:
            return file.read(_READ)
    except OSError:
        return b""  # no record depends on it
