"""Inputs on their filesystems, and the prefixes of their keys."""

from __future__ import annotations

import dataclasses
import itertools
import os
from collections.abc import Iterator, Mapping, Sequence
from glob import iglob

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError, shown
from recordmill.transforms.sources.files.file_stat import refuse_special
from recordmill.transforms.sources.files.input_paths import InputPath, Inputs
from recordmill.transforms.sources.files.other_kinds import compressed_tar, is_archive
from recordmill.transforms.sources.files.walks import (
    File,
    SkippedPath,
    SkipRule,
    WalkItem,
    glob,
    matches,
    split_pattern,
    walk,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputRoot:
    """An input on its filesystem.

    root: the folder that keys are relative to. pattern: for paths below `root`; None for a folder
    or a file. file: whether the input is a file in `root`. prefix: prefix of its keys; empty unless
    inputs have different roots. archive: whether `root` is an archive that stands for a folder.
    """

    given: InputPath
    place: Location
    root: Location
    pattern: str | None = None
    file: bool = False
    prefix: str = ""
    archive: bool = False

    @property
    def is_folder(self) -> bool:
        """True for a folder that is read as a whole."""
        return self.pattern is None and not self.file

    def covers(self, place: Location) -> bool:
        """Return whether the input may hold a file."""
        inside = _below(place, self.root)
        if self.file:
            return place == self.place
        if inside is None:
            return self.is_folder and place == self.root
        return self.pattern is None or matches(inside.split("/"), self.pattern.split("/"))


def walk_input(root: InputRoot, skip: SkipRule, *, depth: int) -> Iterator[WalkItem]:
    """Yield the files of an input, skipped paths and rejects. Arguments as for `walk`."""
    if root.file or root.archive:
        entry = root.place.stat()
        yield File(root.place.name, str(root.place), entry.size, entry.mtime_ns)
    elif root.pattern is not None:
        yield from glob(root.root, root.pattern, skip)
    else:
        yield from walk(root.root, skip, depth=depth)


def read_once(
    found: Iterator[WalkItem], root: InputRoot, others: Sequence[InputRoot]
) -> Iterator[WalkItem]:
    """Yield what was found in one of several inputs.

    Raises:
      ConfigError: another input holds one of the files, or nothing was found.
    """
    is_empty = True
    for item in found:
        is_empty &= isinstance(item, SkippedPath)
        if isinstance(item, File):
            place = Location.parse(item.path)
            other = next((one for one in others if one.covers(place)), None)
            if other is not None:
                raise ConfigError(
                    f"{shown(item.path)} is read twice, by {option_name('input', other.given)} and"
                    f" by {option_name('input', root.given)}: leave one of them out"
                )
        yield item
    if is_empty:
        what = "matches no file" if root.pattern is not None else "holds no file"
        advice = matched_folders(Inputs(paths=(root.given,)))
        raise ConfigError(
            f"{option_name('input', root.given)}"
            f" {what}{advice or ': check the path, or leave it out'}"
        )


def matched_folders(inputs: Inputs) -> str:
    """Return advice if a pattern matches local folders, which are not read; else an empty text."""
    for one in inputs.paths:
        place = Location.parse(one.path)
        deep = place.path.endswith(("/**", "/**/*"))  # these match all files in folders
        if deep or not place.is_local or split_pattern(place) is None:
            continue
        found = iglob(place.path, recursive=True)
        if (folder := next(filter(os.path.isdir, found), None)) is not None:
            every = InputPath(f"{one.path.rstrip('/')}/**", one.split)
            return (
                f"; a pattern matches files, but {one.path} matches folders, such as {folder}:"
                f" --input '{every}' reads the files in them and in deeper folders"
            )
    return ""


def check_paths(inputs: str | Inputs) -> None:
    """Raise ConfigError for an invalid path, and for one that is given twice."""
    seen: set[Location] = set()
    for one in Inputs.of(inputs).paths:
        place = Location.parse(one.path)
        if place in seen:
            raise ConfigError(f"{option_name('input', one)} is given twice: leave one out")
        seen.add(place)


def find_roots(inputs: Inputs, *, archives: bool = False) -> tuple[InputRoot, ...]:
    """Find the inputs. If their folders differ, keys begin with the names of the folders.

    archives: whether an archive stands for a folder; otherwise it is a file.

    Raises:
      ConfigError: an input does not exist or cannot be read, or lies in another one.
    """
    check_paths(inputs)
    roots = [_find_root(one, archives=archives) for one in inputs.paths]
    for one, other in itertools.permutations(roots, 2):
        if other.is_folder and other.covers(one.root):
            raise ConfigError(
                f"{option_name('input', one.given)} lies inside"
                f" {option_name('input', other.given)}: its files would be read twice; leave one of"
                " them out"
            )
    folders = [_as_folder(one) for one in roots]
    prefixes = key_prefixes(folders)
    return tuple(
        dataclasses.replace(one, prefix=prefixes[folder])
        for one, folder in zip(roots, folders, strict=True)
    )


def _as_folder(root: InputRoot) -> Location:
    """Return the folder of an input; `a.tar` stands for the folder `a`."""
    if not root.archive:
        return root.root
    return dataclasses.replace(root.root, path=root.root.path.rpartition(".")[0])


def _find_root(given: InputPath, *, archives: bool) -> InputRoot:
    place = Location.parse(given.path)
    if not is_utf8(str(place)):
        raise ConfigError(
            f"expected an input whose path is UTF-8, got {shown(place)}: rename it, or make a"
            " symbolic link to it"
        )
    refuse_special(place)
    try:
        pattern = split_pattern(place)
        if pattern is not None:
            root, below = pattern
            if not root.is_dir():
                raise ConfigError(f"no file matches {given.path}: there is no folder {root}")
            return InputRoot(given=given, place=place, root=root, pattern=below)
        if place.is_dir():
            return InputRoot(given=given, place=place, root=place)
        if not place.is_file():
            raise ConfigError(f"the input {shown(place)} does not exist: check the path")
    except PathError as error:
        raise ConfigError(f"the input cannot be used: {error}") from error
    if archives and (what := compressed_tar(place.name)):
        raise ConfigError(f"{option_name('input', shown(place))} {what}")
    if archives and is_archive(place.name):
        return InputRoot(given=given, place=place, root=place, archive=True)
    return InputRoot(given=given, place=place, root=place.parent, file=True)


def key_prefixes(roots: Sequence[Location]) -> Mapping[Location, str]:
    """Return a prefix of keys per folder: the shortest ends of their paths that all differ."""
    distinct = list(dict.fromkeys(roots))
    if len(distinct) == 1:
        return {distinct[0]: ""}
    parts = [[one.root, *(part for part in one.path.split("/") if part)] for one in distinct]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(one[-length:]) for one in parts]
        if len(set(names)) == len(names):
            break
    return {one: f"{name}/" for one, name in zip(distinct, names, strict=True)}


def _below(place: Location, folder: Location) -> str | None:
    """Return the path of a place relative to a folder around it, else None."""
    if (place.root, place.query) != (folder.root, folder.query):
        return None
    start = f"{folder.path.rstrip('/')}/" if folder.path else ""
    return place.path[len(start) :] if place.path.startswith(start) else None


def is_utf8(text: str) -> bool:
    """Return whether a text, such as a name of a file, can be encoded as UTF-8."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
