"""Split and class in the path of a file, by the layout of its input (`path_layout`)."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from recordmill.format.split_names import (
    canonical_split,
    is_split_name,
    mapped_split,
    may_hold_split,
)
from recordmill.transforms.sources.archives.label_files import LabelFiles
from recordmill.transforms.sources.files.partitions import values_of
from recordmill.transforms.sources.files.path_facts import PathFact, partition_of
from recordmill.transforms.sources.folders.role_folders import without_image_folders
from recordmill.unicode_tables import mask_later

_WORD = re.compile(r"[^\W\d_]+")


class FileFacts(NamedTuple):
    """The facts in the path of a file; None for those that the path does not give."""

    split: str | None
    label: str | None
    group: str | None
    key: str | None = None
    columns: tuple[str | None, ...] = ()


@dataclasses.dataclass(frozen=True)
class PathLayout:
    """Meaning of the parts of a path relative to its input.

    Attributes:
      splits: `folders` if the first folder is the split, `files` if the name of the file contains
        it, `shards` if its name begins with it, as in a dataset of recordmill; otherwise the part
        of a path that it is, as `Inputs.split_from`.
      labels: As `Inputs.label_from`; None if there are no classes.
      partitions: Keys of folders such as `kind=cat`, the outermost first.
      split_key: Key among these whose values are the splits.
      label_key: Key among these whose values are the classes.
      groups: As `Inputs.group_from`.
      split_map: As `Inputs.split_map`, for splits that are a part of paths.
      skip_image_folders: Whether folders such as `images`, beside those of masks or captions, are
        neither classes nor splits.
      columns: The parts of a path that are columns, as `Inputs.column_from`.
      keys: As `Inputs.key_from`.
      inside: The only top folder, if images and their annotations are in folders in it.
      images: Folder of the images in those of the splits, if their annotations are beside it.
    """

    splits: str | None = None
    labels: str | None = None
    partitions: tuple[str, ...] = ()
    split_key: str | None = None
    label_key: str | None = None
    groups: str | None = None
    split_map: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    skip_image_folders: bool = False
    columns: tuple[str, ...] = ()
    keys: str | None = None
    inside: str | None = None
    images: str | None = None

    @property
    def depth(self) -> int:
        """Number of levels of folders whose names are the split or the label."""
        return (self.splits == "folders") + (self.labels == "top")

    @property
    def form(self) -> str:
        """The form of paths, for messages."""
        if self._split is not None:
            return f"a path in which --split-from {self.splits} is a split"
        parts = ["SPLIT"] if self.splits == "folders" else []
        if self.images is not None:
            parts.append(self.images)
        elif self.labels in ("top", "parent"):
            parts.append("LABEL")
        if self.partitions:
            roles = {self.split_key: "SPLIT", self.label_key: "LABEL"}
            parts = [f"{key}={roles.get(key, 'VALUE')}" for key in self.partitions]
        form = "/".join([*parts, "FILE"])
        if self.labels is not None and (by_file := LabelFiles.parse(self.labels)):
            return f"a class in a .{by_file.extension} file next to it in the archive"
        if self.labels is None or self.labels in ("top", "parent"):
            return form
        return f"{form} that matches --label-from {self.labels}"

    def facts(self, key: str) -> FileFacts:
        """Return the facts in the path of a file, given its path relative to the input."""
        outer = [self.inside] if self.inside and key.startswith(f"{self.inside}/") else []
        key = key.removeprefix(f"{self.inside}/") if outer else key
        *folders, name = (without_image_folders(key) if self.skip_image_folders else key).split("/")
        below = self._below_split(folders)
        if self.partitions:
            split, label = self._of_partitions(key, folders, below)
        else:
            split, label = self._split_of(folders, name), self._label_of(below, name)
        below = [*outer, *below]
        return FileFacts(
            split,
            label,
            None if self._group is None else self._group.of(below, name),
            None if self._key is None else self._key.of(below, name),
            tuple(one.of(below, name) for one in self._columns),
        )

    def _split_of(self, folders: Sequence[str], name: str) -> str | None:
        if self._split is not None:
            return self._mapped(self._split.of(folders, name))
        if self.splits == "folders" and folders:
            return canonical_split(folders[0]) or folders[0]
        if self.splits == "files":
            return file_split(name)
        return name.partition(".tfrecord-")[0] if self.splits == "shards" else None

    def _below_split(self, folders: list[str]) -> list[str]:
        """Return the folders around a file without the folder of its split."""
        if self._split is not None:
            return self._split.without(folders)
        if self.partitions:
            return [one for one in folders if not one.startswith(f"{self.split_key}=")]
        return folders[1:] if self.splits == "folders" else folders

    def _of_partitions(
        self, key: str, folders: Sequence[str], below: list[str]
    ) -> tuple[str | None, str | None]:
        """Return (split, label) of a file in partitions. below: its folders but for the split."""
        name = key.rpartition("/")[2]
        values = values_of(key)
        split = _named_split(values.get(self.split_key or ""))
        if self._split is not None:
            split = self._mapped(self._split.of(folders, name))
        elif split is None and self.splits == "files":
            split = file_split(name)
        if self.label_key is not None:
            return split, values.get(self.label_key)
        if self.labels == "top":
            below = [one for one in below if partition_of(one) is None]
        label = self._label_of(below, name)
        found = None if label is None or self.labels != "parent" else partition_of(label)
        return split, label if found is None else found.value

    @functools.cached_property
    def _label(self) -> PathFact | None:
        """The rule for classes; None if there are none, or other files in the archive hold them."""
        if self.labels is None or LabelFiles.parse(self.labels) is not None:
            return None
        return PathFact.parse("label_from", self.labels)

    @functools.cached_property
    def of_folders(self) -> bool:
        """True if all files of a folder have the same facts."""
        facts = (self._split, self._label, self._group, self._key, *self._columns)
        by_name = self.splits in ("files", "shards")
        return not by_name and all(fact is None or fact.of_folders for fact in facts)

    @property
    def split_fact(self) -> str | None:
        """The part of a path that `splits` names; None if it is one of the words."""
        return None if self.splits in ("folders", "files", "shards") else self.splits

    @functools.cached_property
    def _split(self) -> PathFact | None:
        fact = self.split_fact
        return None if fact is None else PathFact.parse("split_from", fact)

    @functools.cached_property
    def _key(self) -> PathFact | None:
        return None if self.keys is None else PathFact.parse("key_from", self.keys)

    @functools.cached_property
    def _columns(self) -> tuple[PathFact, ...]:
        return tuple(PathFact.parse("column_from", text) for text in self.columns)

    @functools.cached_property
    def _group(self) -> PathFact | None:
        return None if self.groups is None else PathFact.parse("group_from", self.groups)

    def _mapped(self, name: str | None) -> str | None:
        """Return the split of a part of a path."""
        if name is None or not self.split_map:
            return _named_split(name)
        return mapped_split(name, self.split_map)

    def _label_of(self, folders: Sequence[str], name: str) -> str | None:
        return None if self._label is None else self._label.of(folders, name)


def _named_split(name: str | None) -> str | None:
    """Return the split of a name, None if the name cannot be that of a split."""
    if name is None:
        return None
    return canonical_split(name) or (name if is_split_name(name) else None)


def splits_in(name: str) -> list[str]:
    """Return the splits that a file name contains as words, sorted: `test` of imdb_test.csv."""
    if not may_hold_split(name):
        return []
    words = _WORD.findall(mask_later(name))
    return sorted({split for word in words if (split := canonical_split(word)) is not None})


def file_split(name: str) -> str | None:
    """Return the split that a file name contains as a word, None without one or with several."""
    found = splits_in(name)
    return found[0] if len(found) == 1 else None
