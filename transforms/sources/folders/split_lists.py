"""Splits by lists of names, such as the testing_list.txt of Speech Commands."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from recordmill.errors import ConfigError
from recordmill.format.split_names import LEFT_OUT, NOTHING, option_split
from recordmill.notes import Note, count_of
from recordmill.option_files import expect_plain_text, read_option_file
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.folders.path_matcher import (
    PathMatcher,
    normal_name,
    path_to_match,
)

_OPTION = "split-files"
REST = "*"  # in place of a list: all files that no list names
_SHOWN = 3  # names in a message
_LAST_NUMBERS = re.compile(r"(\s+[-+]?\d+)+$")
_COMPARED = 1000  # files in no list to which the nearest name is looked for, at most


class _Names(NamedTuple):
    """Names of lists, as `NamedPaths`."""

    names: Sequence[str]
    by_stem: bool
    suffixes: Sequence[tuple[str, str]] = (("", ""),)
    folders: Mapping[str, str] = {}
    beside_images: bool = False
    splits: Sequence[str | None] = ()
    shared: str = ""


class _Line(NamedTuple):
    """A line of a list. name: as it is written there."""

    split: str
    number: int
    name: str


class SplitLists:
    """Finds the splits of files by the lists that name them, with or without extension.

    A file has the split of the name that is the longest end of its path.
    """

    def __init__(self, files: Mapping[str, str]) -> None:
        """Read the lists. files: {split: path of its list, or `REST`}. Raises ConfigError."""
        self._files = {option_split(split, _OPTION): path for split, path in files.items()}
        rest = [split for split, path in self._files.items() if path == REST]
        if len(rest) > 1:
            raise ConfigError(
                f"{option_name('split_files')}: expected {REST} for one split, got it for"
                f" {' and '.join(map(_shown, rest))}"
            )
        self._rest = rest[0] if rest else None
        self._places = {_real_place(path) for path in self._files.values() if path != REST}
        named = [*self._places, *self._files.values()]  # a file may be named by a link
        self._file_names = {os.path.basename(place) for place in named}
        self._lines: dict[str, _Line] = {}
        for split, path in self._files.items():
            if path != REST:
                self._read(split, path)
        self._matchers = [
            PathMatcher(
                _Names([*self._lines], by_stem), option_name("split_files"), "lists", files="files"
            )
            for by_stem in (False, True)
        ]
        self._unlisted: list[str] = []  # some of the files in no list
        self._count = 0  # of these files

    @classmethod
    def of(cls, inputs: Inputs) -> SplitLists | None:
        """Return the lists of an input, None without any. Raises ConfigError."""
        return cls(inputs.split_files) if inputs.split_files else None

    def is_list(self, path: str) -> bool:
        """Return whether a file is one of the lists."""
        return os.path.basename(path) in self._file_names and _real_place(path) in self._places

    def find(self, path: str, key: str) -> str | None:
        """Return the split of a file, None if no list names it."""
        path = path_to_match(path)
        for matcher in self._matchers:
            at = matcher.find(path, key=key)
            if at >= 0:
                return self._lines[matcher.annotations.names[at]].split
        if self._rest is None or self._count < _COMPARED:
            self._matchers[1].nearest(key)
        self._count += 1
        self._unlisted += [key] if len(self._unlisted) < _SHOWN else []
        return self._rest

    def see(self, key: str) -> None:
        """Mark the name of a rejected file as used."""
        for matcher in self._matchers:
            matcher.see(key)

    def close(self, where: object) -> list[Note]:
        """Return notes on names that match no file, or only in another Unicode form.

        Call it after all files are looked up.

        Args:
          where: The input, for messages.

        Raises:
          ConfigError: A list names no file, or a name is that of two files, or no list names some
            of the files.
        """
        for matcher in self._matchers:
            matcher.refuse_ambiguous()
        exact, by_stem = ({*one.unused()} for one in self._matchers)
        unused = [line for name, line in self._lines.items() if name in exact & by_stem]
        for split, path in self._files.items():
            lost = [line.name for line in unused if line.split == split]
            if path != REST and len(lost) == sum(x.split == split for x in self._lines.values()):
                near = map(self._matchers[1].near_image, map(normal_name, lost))
                files = f"; the files are {_quoted(self._unlisted)}" if self._unlisted else ""
                raise ConfigError(
                    f"{self._named(split)}: none of its names matches a file of {where}: it has"
                    f" {_quoted(lost)}{files}; the path of a file must end with a name, with or"
                    f" without the extension{next(filter(None, near), '')}{_fields_advice(lost)}"
                )
        if self._count and self._rest is None:
            are = "file is" if self._count == 1 else "files are"
            raise ConfigError(
                f"{option_name('split_files')}: {self._count:,} {are} in no list:"
                f" {_quoted(self._unlisted)}{', ...' if self._count > _SHOWN else ''}; add"
                f" {NOTHING}={REST} to leave out these files, or train={REST} to make them a split"
            )
        notes = [*self._matchers[0].form_notes("splits"), *self._matchers[1].form_notes("splits")]
        if not unused:
            return notes
        text = f"{count_of(len(unused), 'name')} in --split-files"
        some = _quoted([line.name for line in unused])
        more = ", ..." if len(unused) > _SHOWN else ""
        text += f" {'matches' if len(unused) == 1 else 'match'} no file: {some}{more}"
        return [*notes, Note("splits", text)]

    def _read(self, split: str, path: str) -> None:
        """Add the names of a list."""
        text = read_option_file(option_name("split_files"), path)
        expect_plain_text(text, self._named(split), "one name per line", colons=True)
        before = len(self._lines)
        for number, line in enumerate(text.splitlines(), 1):
            if not (name := line.strip()):
                continue
            other = self._lines.setdefault(normal_name(name), _Line(split, number, name))
            if other.split != split:
                raise ConfigError(
                    f"{option_name('split_files')}: {name!r} is in two lists, {path}:{number} and"
                    f" {self._files[other.split]}:{other.number}: remove it from one of them"
                )
        if len(self._lines) == before:
            raise ConfigError(f"{self._named(split)}: expected one name per line, got none")

    def _named(self, split: str) -> str:
        return option_name("split_files", f"{_shown(split)}={self._files[split]}")


def _real_place(path: str) -> str:
    """Return a path with links resolved, or a URI unchanged."""
    place = Location.parse(path)
    return os.path.realpath(place.local_path) if place.is_local else str(place)


def _fields_advice(lines: Sequence[str]) -> str:
    """Return advice if numbers follow the names in all lines; "" for other lines."""
    numbers = [_LAST_NUMBERS.search(line) for line in lines]
    count = min((len(one[0].split()) if one else 0 for one in numbers), default=0)
    if not count:
        return ""
    return (
        "; its lines have further fields, which are taken for parts of the names: keep only the"
        f" names (sed -E '{cut_fields(count)}' FILE > NAMES)"
    )


def cut_fields(count: int) -> str:
    """Return a sed script that removes the last fields of each line."""
    return rf"s/([[:space:]]+[^[:space:]]+){{{count}}}[[:space:]]*$//"


def _shown(split: str) -> str:
    return NOTHING if split.startswith(LEFT_OUT) else split


def _quoted(names: Sequence[str]) -> str:
    return ", ".join(map(repr, itertools.islice(names, _SHOWN)))
