"""Files of arrays, or films, as an input: a folder, a pattern, or a single one."""

from __future__ import annotations

import dataclasses
import fnmatch
from collections.abc import Iterator

from recordmill.errors import ConfigError, Reject
from recordmill.files import Location, StorageError, shown
from transforms.kind import Listed
from transforms.sources.folders import (
    NOT_PICTURES,
    Layout,
    Member,
    filtered_by,
    layout_of,
    members,
    nothing_usable,
    read_layout,
    split_and_label,
    unusable,
)
from transforms.sources.references import References, Unlabelled, check_unlabelled, no_label
from transforms.sources.text_trees import NOT_TEXTS
from transforms.sources.walks import File, LeftOut, as_pattern, glob, top_folders

NOT_ARRAYS = tuple(
    sorted({*NOT_PICTURES, *NOT_TEXTS} - {"npy", "npz", "h5", "hdf5", "mat", "bin", "bak"})
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ArrayTree:
    """Lists files as references.

    input: a folder, a pattern (`*`, `?`, `[...]`, `**` for folders), or a file; a path or URI.
      Folders give split and label as in `FileTree`, those that a pattern matches too.
    unlabelled: what becomes of files without label where folders give labels.
    leave_out: extensions (without dot, in lower case) that are no input.
    """

    input: str
    unlabelled: Unlabelled = "reject"
    leave_out: tuple[str, ...] = NOT_ARRAYS

    def __post_init__(self) -> None:
        check_unlabelled(self.unlabelled)
        Location.parse(self.input)

    @property
    def unique_keys(self) -> bool:
        return True

    def scan(self) -> Iterator[Listed]:
        """Raises ConfigError if there is nothing to use."""
        found = References()
        for one in self._find():
            if isinstance(one, Member):
                found.add(*one.file, label=one.label, split=one.split)
            elif isinstance(one, LeftOut):
                found.filter(one.by)
            else:
                found.rejects.append(one)
            if found.full:
                yield found.take()
        yield found.take()
        if not found.totals["rows"]:
            raise ConfigError(nothing_usable(Location.parse(self.input), found))

    def _find(self) -> Iterator[Member | LeftOut | Reject]:
        place = Location.parse(self.input)
        pattern = as_pattern(place)
        try:
            if pattern is not None:
                yield from self._match(*pattern)
                return
            if not place.exists():
                raise ConfigError(f"the input {shown(place)} is not there: check the path")
            if place.is_dir():
                yield from members(
                    place,
                    layout=read_layout(place),
                    unlabelled=self.unlabelled,
                    leave_out=self.leave_out,
                )
                return
            entry = place.stat()
        except StorageError as error:
            raise ConfigError(f"the input cannot be used: {error}") from error
        file = File(place.name, str(place), entry.size, entry.mtime_ns)
        yield from self._member(file, "flat")

    def _match(self, root: Location, pattern: str) -> Iterator[Member | LeftOut | Reject]:
        if not root.is_dir():
            raise ConfigError(f"no file matches {self.input}: there is no folder {root}")
        first, *rest = pattern.split("/")
        layout: Layout = "flat"
        if rest or first == "**":
            there = top_folders(root, filtered_by)
            layout = layout_of(
                [one for one in there if first == "**" or fnmatch.fnmatchcase(one, first)]
            )
        for finding in glob(root, pattern, filtered_by):
            if isinstance(finding, File):
                yield from self._member(finding, layout)
            else:
                yield finding

    def _member(self, file: File, layout: Layout) -> Iterator[Member | Reject]:
        split, label = split_and_label(file.key, layout)
        if problem := unusable(file):
            yield Reject(shown(file.key), "read", *problem)
        elif label is None and layout != "flat" and self.unlabelled == "reject":
            yield Reject(file.key, "read", *no_label("a file in a folder of its class"))
        else:
            yield Member(file, label, split)
