"""Inputs as the user gives them: files, folders and glob patterns, with their splits.

The command line imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import dataclasses
import glob
import os
import re
from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split, is_split_name
from recordmill.option_names import option_name
from recordmill.transforms.sources.files.path_facts import PathFact

# Files that hold classes, such as .cls or .json:label. Groups: extension, field of a JSON object.
LABEL_FILE = re.compile(r"\.(\w+)(?::([^()]+))?")
SPLIT_WORDS = ("auto", "folders", "files", "none")  # further values of `split_from`


@dataclasses.dataclass(frozen=True)
class InputPath:
    """A file, a folder or a glob pattern to read, as a path or URI.

    split: the split of all its records, as in `test=photos/`; None if none is given.
    """

    path: str
    split: str | None = None

    @classmethod
    def parse(cls, text: str) -> InputPath:
        """Parse `photos/` or `test=photos/`. A usual name of a split becomes the canonical one.

        A text with `=`, such as `year=2026/*.csv`, is a path if its first folder or file exists.
        """
        name, equals, path = text.partition("=")
        if not equals or not path or not is_split_name(name) or _exists(text):
            return cls(text)
        return cls(path, canonical_split(name) or name)

    def __str__(self) -> str:
        return self.path if self.split is None else f"{self.split}={self.path}"


@dataclasses.dataclass(frozen=True, kw_only=True)
class Inputs:
    """Everything that a source reads.

    Attributes:
      paths: One or several inputs.
      split_from: Part that names the splits: `folders` at the top, names of `files` of many
        records, `none`, or a part of a path as in `PathFact`. `auto` takes the first of a column
        with a usual name, folders and files that names them.
      label_from: Part of a path that is the class of a file, as in `PathFact`. In archives also the
        extension of the files that hold the classes of the files next to them: `.cls`, or with a
        field of JSON, `.json:label`. None: the folders at the top for files, a column for rows.
      group_from: Part of a path that is the group of a file, as in `PathFact`; None if paths give
        no groups.
      split_map: {value: split} of the values of a column of splits or of `split_from`; `*` stands
        for all other values.
      split_files: {split: path of a list of the names of its files}; `*` in place of a path stands
        for all files that no list names. Other parts of the input then give no splits.
      column_from: {column: part of a path, as in `PathFact`} of columns of text that paths give.
      key_from: Part of a path that is the key of a file, as in `PathFact`; None for the whole path.

    Raises:
      ConfigError: A value is invalid.
    """

    paths: tuple[InputPath, ...]
    split_from: str = "auto"
    label_from: str | None = None
    group_from: str | None = None
    split_map: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    split_files: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    column_from: Mapping[str, str] = dataclasses.field(default_factory=dict, hash=False)
    key_from: str | None = None

    def __post_init__(self) -> None:
        if self.split_files and self.split_from == "auto":
            object.__setattr__(self, "split_from", "none")
        if self.split_from not in SPLIT_WORDS:
            PathFact.parse("split_from", self.split_from, words=SPLIT_WORDS)
        if (self.label_from or "").lower() == ".json":
            raise ConfigError(
                f"{option_name('label_from')} .json: name the field that holds the class, as in"
                f" {option_name('label_from')} .json:label"
            )
        if self.label_from is not None and not LABEL_FILE.fullmatch(self.label_from):
            PathFact.parse("label_from", self.label_from)
        if self.group_from is not None:
            PathFact.parse("group_from", self.group_from)
        if self.key_from is not None:
            PathFact.parse("key_from", self.key_from)
        for name, text in self.column_from.items():
            if name.startswith("__"):
                raise ConfigError(
                    f"{option_name('column_from')}: {name!r} starts with two underscores, which is"
                    " reserved for system columns: choose another name"
                )
            PathFact.parse("column_from", text)

    @classmethod
    def of(cls, inputs: str | Inputs) -> Inputs:
        """Return inputs, given them or a single path."""
        return cls(paths=(InputPath(inputs),)) if isinstance(inputs, str) else inputs

    def __str__(self) -> str:
        return ", ".join(one.path for one in self.paths)

    @property
    def labels_of_files(self) -> str:
        """The part of the path of a file that is its class, given or by default."""
        return "top" if self.label_from is None else self.label_from

    @property
    def single(self) -> InputPath | None:
        """The only input, None if there are several."""
        return self.paths[0] if len(self.paths) == 1 else None


# Fields of `Inputs` that are options of commands and of steps.
PATH_OPTIONS = tuple(one.name for one in dataclasses.fields(Inputs) if one.name != "paths")


def with_path_options(paths: tuple[InputPath, ...], holder: Any) -> Inputs:
    """Return inputs with the options of paths that an object holds. Raises ConfigError."""
    return Inputs(paths=paths, **{name: getattr(holder, name) for name in PATH_OPTIONS})


def _exists(text: str) -> bool:
    """Return whether the first folder or file of a local path, or a path of a pattern, exists."""
    first = text.partition("/")[0]
    return os.path.lexists(first) or any(glob.iglob(first))
