"""Files of rows of an input: one file, the matches of a pattern, or a folder."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator

from recordmill.errors import ConfigError, Reject
from recordmill.storage.files import Location, StorageError, shown
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.folders import (
    file_problem,
    read_layout,
    skip_reason,
    split_and_label,
)
from recordmill.transforms.sources.files.walks import File, SkippedPath, glob, split_pattern, walk
from recordmill.transforms.sources.row_formats.open_rows import open_rows
from recordmill.transforms.sources.row_formats.row_file import Origin, RowFile
from recordmill.transforms.sources.row_formats.row_format import FileFormat, RowFormat, format_of

_SAMPLED_FILES = 10_000  # files


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowInput:
    """Files of rows, all in one format.

    input: path or URI of a file, a pattern (`*`, `?`, `[...]`, `**` for folders), or a folder. If
      all top-level folders are named as splits, they give the split.
    """

    input: str
    format: RowFormat

    def find(self) -> Iterator[tuple[File, str | None] | SkippedPath | Reject]:
        """Yield the files with their splits, skipped paths and rejects.

        Raises:
          ConfigError: the input does not exist, or its files have several formats.
        """
        first: tuple[File, FileFormat] | None = None
        splits = self.has_splits()
        for item in self._find():
            if not isinstance(item, File):
                yield item
            elif problem := file_problem(item):
                yield Reject(shown(item.key), "read", *problem)
            else:
                file_format = self.file_format(item)
                first = first or (item, file_format)
                if file_format.format != first[1].format:
                    raise ConfigError(
                        f"expected files of one format in {self.input}, got {first[0].key} and "
                        f"{item.key}: select files with a pattern, such as *.csv"
                    )
                yield item, split_and_label(item.key, "splits")[0] if splits else None

    def has_splits(self) -> bool:
        """Return whether folders give the split."""
        place = Location.parse(self.input)
        return split_pattern(place) is None and place.is_dir() and read_layout(place) == "splits"

    def file_format(self, file: File) -> FileFormat:
        """Return the format of a file."""
        return self.format.resolve(file.key)

    def open(self, file: File) -> RowFile:
        """Open a listed file."""
        origin = Origin(place=Location.parse(file.path), size=file.size, mtime=file.mtime)
        return open_rows(origin, self.file_format(file))

    def _find(self) -> Iterator[File | SkippedPath | Reject]:
        place = Location.parse(self.input)
        refuse_special(place)
        pattern = split_pattern(place)
        if pattern is not None:
            yield from self._match(*pattern)
            return
        try:
            if not place.exists():
                raise ConfigError(f"the input {shown(place)} does not exist: check the path")
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
        yield from glob(root, pattern, skip_reason)

    def _walk(self, root: Location) -> Iterator[File | SkippedPath | Reject]:
        for item in walk(root, skip_reason, depth=0):
            if isinstance(item, File) and not self.format.recognizes(_name(item)):
                yield SkippedPath("extension")
            else:
                yield item


def holds_rows(folder: str) -> bool:
    """Return whether a folder holds files of rows such as CSV or Parquet, by their extensions.

    Checks the first files of a large folder, always the same ones.
    """
    some = itertools.islice(walk(Location.parse(folder), skip_reason, depth=0), _SAMPLED_FILES)
    formats = {format_of(_name(one)) for one in some if isinstance(one, File)}
    return not formats <= {None, "lines"}


def _name(file: File) -> str:
    return file.key.rpartition("/")[2]
