"""Reads facts in the path of a file: a folder, the name, a partition, or a part that matches.

The command line imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Sequence
from typing import NamedTuple

from recordmill.errors import ConfigError
from recordmill.option_names import option_name

_PARTITION = re.compile(r"([^\W\d][\w .-]*)=(.*)", re.DOTALL)
_NULL = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = re.compile(r"folder:(-?\d+)")
_KEY = re.compile(r"([^\W\d][\w .-]*)=")
_LEVELS = {"top": 1, "parent": -1}


class PathPartition(NamedTuple):
    """A folder KEY=VALUE. value: None if the value is missing."""

    key: str
    value: str | None


def partition_of(name: str) -> PathPartition | None:
    """Return the key and the value of a folder such as `kind=cat`, None for other names."""
    found = _PARTITION.fullmatch(name)
    if found is None:
        return None
    value = urllib.parse.unquote(found[2])
    return PathPartition(found[1], None if value in (_NULL, "") else value)


class PathFact(NamedTuple):
    """A fact in the path of a file below the folder of its split.

    level: number of a folder, from 1 at the top or from -1 at the file; 0 for other facts.
    key: of the folder KEY=VALUE whose value it is. pattern: a regular expression whose first group
      it is. Without any of these it is the name of the file without extension.
    """

    level: int = 0
    key: str | None = None
    pattern: str | None = None

    @classmethod
    def parse(cls, option: str, text: str) -> PathFact:
        """Parse `top`, `parent`, `folder:N`, `file`, `KEY=` or a regular expression with a group.

        option: name of the option that has the text as value.

        Raises:
          ConfigError: it is none of these.
        """
        if text in _LEVELS:
            return cls(level=_LEVELS[text])
        if found := _FOLDER.fullmatch(text):
            if not int(found[1]):
                raise ConfigError(
                    f"{option_name(option, text)}: expected 1 for the first folder, 2 for the"
                    " folder in it, or -1 for the folder around the file"
                )
            return cls(level=int(found[1]))
        if text == "file":
            return cls()
        if found := _KEY.fullmatch(text):
            return cls(key=found[1])
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise ConfigError(f"{option_name(option, text)}: {error}") from error
        if not groups:
            raise ConfigError(
                f"{option_name(option, text)}: expected top, parent, folder:N, file, KEY=, or a"
                " regular expression with a group (...)"
            )
        return cls(pattern=text)

    def of(self, folders: Sequence[str], name: str) -> str | None:
        """Return the fact, None if the path does not give it.

        folders: below that of the split, the outermost first. name: of the file.
        """
        if self.level:
            at = self.level - (self.level > 0)
            return folders[at] if -len(folders) <= at < len(folders) else None
        if self.pattern is not None:
            path = "/".join([*folders, name])
            found = re.search(self.pattern, self._masked(path, self.pattern))
            fact = path[slice(*found.span(1))] if found else ""
            return fact if fact.strip() else None
        if self.key is not None:
            values = (partition_of(one) for one in folders)
            return next((one.value for one in values if one and one.key == self.key), None)
        stem, dot, _ = name.rpartition(".")
        return stem if stem and dot else name

    @staticmethod
    def _masked(path: str, pattern: str) -> str:
        """Return a path in which a pattern matches the same under every Python."""
        if path.isascii():
            return path
        from recordmill.unicode_tables import mask_later  # it imports NumPy and Arrow

        return mask_later(path, keep=pattern)
