"""The files of rows that an input names: one, those that match a pattern, or those in a folder."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from recordmill.errors import ConfigError, Reject
from recordmill.storage.files import Location, StorageError, shown
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.folders import (
    filtered_by,
    read_layout,
    split_and_label,
    unusable,
)
from recordmill.transforms.sources.files.walks import File, LeftOut, as_pattern, glob, walk
from recordmill.transforms.sources.row_formats.row_files import open_rows
from recordmill.transforms.sources.row_formats.row_format import RowFormat, Shape, format_of
from recordmill.transforms.sources.row_formats.rows import Origin, RowFile

_LOOKED_AT = 10_000  # files


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowInput:
    """An input of files of rows, all of one format.

    input: a file, a pattern (`*`, `?`, `[...]`, `**` for folders), or a folder; a path or URI. In
    a folder whose top folders are all named as splits those give the split.
    """

    input: str
    format: RowFormat

    def find(self) -> Iterator[tuple[File, str | None] | LeftOut | Reject]:
        """The files with their splits, what is no file of rows, and what was left out.

        Raises ConfigError for an input that is not there, and for files of several formats.
        """
        first: tuple[File, Shape] | None = None
        splits = self.has_splits()
        for finding in self._find():
            if not isinstance(finding, File):
                yield finding
            elif problem := unusable(finding):
                yield Reject(shown(finding.key), "read", *problem)
            else:
                shape = self.shape(finding)
                first = first or (finding, shape)
                if shape.format != first[1].format:
                    raise ConfigError(
                        f"expected files of one format in {self.input}, got {first[0].key} and "
                        f"{finding.key}: name those that are meant by a pattern, such as *.csv"
                    )
                yield finding, split_and_label(finding.key, "splits")[0] if splits else None

    def has_splits(self) -> bool:
        """Whether folders give the split."""
        place = Location.parse(self.input)
        return as_pattern(place) is None and place.is_dir() and read_layout(place) == "splits"

    def shape(self, file: File) -> Shape:
        """How a file is written."""
        return self.format.of(file.key)

    def open(self, file: File) -> RowFile:
        """A file as it was listed."""
        origin = Origin(place=Location.parse(file.path), size=file.size, mtime=file.mtime)
        return open_rows(origin, self.shape(file))

    def _find(self) -> Iterator[File | LeftOut | Reject]:
        place = Location.parse(self.input)
        refuse_special(place)
        pattern = as_pattern(place)
        if pattern is not None:
            yield from self._match(*pattern)
            return
        try:
            if not place.exists():
                raise ConfigError(f"the input {shown(place)} is not there: check the path")
            if place.is_dir():
                yield from self._walk(place)
                return
            entry = place.stat()
        except StorageError as error:
            raise ConfigError(f"the input cannot be used: {error}") from error
        yield File(place.name, str(place), entry.size, entry.mtime_ns)

    def _match(self, root: Location, pattern: str) -> Iterator[File | Reject]:
        if not root.is_dir():
            raise ConfigError(f"no file matches {self.input}: there is no folder {root}")
        yield from glob(root, pattern, filtered_by)

    def _walk(self, root: Location) -> Iterator[File | LeftOut | Reject]:
        for finding in walk(root, filtered_by, depth=0):
            if isinstance(finding, File) and not self.format.knows(_name(finding)):
                yield LeftOut("extension")
            else:
                yield finding


def holds_rows(folder: str) -> bool:
    """Whether the files of a folder are rows (CSV, Parquet and the like), by their extensions.

    Of a large folder not all are looked at, but always the same.
    """
    some = itertools.islice(walk(Location.parse(folder), filtered_by, depth=0), _LOOKED_AT)
    formats = {format_of(_name(one)) for one in some if isinstance(one, File)}
    return not formats <= {None, "lines"}


def _name(file: File) -> str:
    return file.key.rpartition("/")[2]
