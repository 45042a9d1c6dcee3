"""Facts in the path of a file: a folder, the name, a partition, or the match of a pattern.

The command line imports this module, so it imports nothing heavy.
"""

from __future__ import annotations

import collections
import functools
import re
import signal
import threading
import urllib.parse
from collections.abc import Sequence
from types import FrameType
from typing import NamedTuple

from recordmill.errors import ConfigError
from recordmill.option_names import option_name

_PARTITION = re.compile(r"([^\W\d][\w .-]*)=(.*)", re.DOTALL)
_NULL = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = re.compile(r"folder:(-?\d+)")
_KEY = re.compile(r"([^\W\d][\w .-]*)=")
_LEVELS = {"top": 1, "parent": -1}
# A repeated group, or several repetitions, whose searches may take exponential or long time.
_MAY_BE_SLOW = re.compile(r"\)[*+{?]|([*+}].*){4}", re.DOTALL)
SEARCH_SECONDS = 5.0  # processor time of a search in one path, at most


def named_key(text: str | None) -> str | None:
    """Return KEY of an option `KEY=`, None for other values."""
    found = _KEY.fullmatch(text or "")
    return found[1] if found else None


class PathPartition(NamedTuple):
    """A folder KEY=VALUE; the value is None if it is missing."""

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
    """Rule for the part of a path that is a class or a group, below the folder of the split.

    Or for the part that is the split.

    Without `level`, `key` and `pattern`, this is the name of the file without extension.

    Attributes:
      level: Number of a folder, from 1 at the top, or from -1 around the file; 0 for another part.
      key: KEY of the folder KEY=VALUE whose value it is.
      pattern: Regular expression whose first group it is, in the first match.
      option: Name of the option, for messages.
    """

    level: int = 0
    key: str | None = None
    pattern: str | None = None
    option: str = ""

    @property
    def of_folders(self) -> bool:
        """True if all files of a folder have the same fact."""
        return bool(self.level) or self.key is not None

    @classmethod
    def parse(cls, option: str, text: str, words: Sequence[str] = ()) -> PathFact:
        """Parse `top`, `parent`, `folder:N`, `file`, `KEY=` or a regular expression with a group.

        Args:
          option: Name of the option, for messages.
          text: Value of the option.
          words: Other values of the option, for messages.

        Raises:
          ConfigError: The value has another form.
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
        if key := named_key(text):
            return cls(key=key)
        try:
            groups = re.compile(text).groups
        except re.error as error:
            raise ConfigError(
                f"{option_name(option, text)}: not a valid regular expression: {error}"
            ) from error
        if not groups:
            raise ConfigError(
                f"{option_name(option, text)}: expected"
                f" {', '.join([*words, 'top'])}, parent, folder:N, file, KEY=, or a"
                " regular expression with a group (...)"
            )
        return cls(pattern=text, option=option)

    def without(self, folders: Sequence[str]) -> list[str]:
        """Return the folders of a path without the one that this fact is."""
        if self.level:
            at = self.level - (self.level > 0)
            at = at if at >= 0 else at + len(folders)
            return [name for number, name in enumerate(folders) if number != at]
        found = (partition_of(name) for name in folders)
        return [
            name
            for name, one in zip(folders, found, strict=True)
            if self.key is None or one is None or one.key != self.key
        ]

    def of(self, folders: Sequence[str], name: str) -> str | None:
        """Return the fact, None if the path does not give it.

        Args:
          folders: Folders around the file, the outermost first.
          name: Name of the file.

        Raises:
          ConfigError: A search takes longer than `SEARCH_SECONDS`.
        """
        if self.level:
            at = self.level - (self.level > 0)
            return folders[at] if -len(folders) <= at < len(folders) else None
        if self.pattern is not None:
            path = "/".join([*folders, name])
            found = self._find(self._masked(path, self.pattern))
            fact = path[slice(*found)] if found else ""
            return fact if fact.strip() else None
        if self.key is not None:
            values = (partition_of(one) for one in folders)
            return next((one.value for one in values if one and one.key == self.key), None)
        stem, dot, _ = name.rpartition(".")
        return stem if stem and dot else name

    def _find(self, path: str) -> tuple[int, int] | None:
        """Return the span of the first group in the first match of the pattern, as `of` does."""
        assert self.pattern is not None
        tried = _tried(self.pattern)
        tried.append(path)
        try:
            if threading.current_thread() is threading.main_thread() and _handles_timer():
                return _search(self.pattern, path, SEARCH_SECONDS)
            if _MAY_BE_SLOW.search(self.pattern) is None:
                return _span(re.search(self.pattern, path))
            from recordmill.processes.pool import shared_pool  # imports much

            # Only the main thread of a process can be interrupted.
            return shared_pool().submit(_search, self.pattern, path, SEARCH_SECONDS).result()
        except _SlowSearchError as error:
            others = " and ".join(map(repr, [*tried][:-1]))
            raise ConfigError(
                f"{option_name(self.option, self.pattern)}: the search in {path!r} was stopped"
                f" after {SEARCH_SECONDS:g} s{f' (those in {others} were not)' if others else ''},"
                " because the expression matches a text in too many ways: avoid a repeated group"
                " that contains a repetition, such as (a+)+; write [^_/]+ for the characters up to"
                " the next _ or /"
            ) from error

    @staticmethod
    def _masked(path: str, pattern: str) -> str:
        """Return a path in which a pattern matches the same under every Python."""
        if path.isascii():
            return path
        from recordmill.unicode_tables import mask_later  # imports NumPy and Arrow

        return mask_later(path, keep=pattern)


class _SlowSearchError(Exception):
    """Raised if a search takes too long."""


@functools.cache
def _tried(pattern: str) -> collections.deque[str]:
    """Return the last paths in which a pattern is searched for, for messages."""
    return collections.deque(maxlen=3)


def _search(pattern: str, path: str, seconds: float) -> tuple[int, int] | None:
    """Return the span of the first group, as `PathFact.of`; in the main thread of a process.

    Raises:
      _SlowSearchError: The search takes longer than some seconds of processor time.
    """
    _handles_timer()
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        return _span(re.search(pattern, path))
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)


def _span(found: re.Match[str] | None) -> tuple[int, int] | None:
    return None if found is None else found.span(1)


@functools.cache
def _handles_timer() -> bool:
    """Install the handler of the timer; return False if there is another handler."""
    if signal.getsignal(signal.SIGVTALRM) is not signal.SIG_DFL:
        return False
    signal.signal(signal.SIGVTALRM, _interrupt)
    return True


def _interrupt(number: int, frame: FrameType | None) -> None:
    """Stop a search; `re` checks for signals while it searches."""
    del number, frame
    raise _SlowSearchError
