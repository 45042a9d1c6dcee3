"""Matching of files and names, such as those of annotations, by the ends of paths."""

from __future__ import annotations

import functools
import posixpath
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Generic, Protocol, TypeVar

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split
from recordmill.notes import Note, count_of
from recordmill.option_names import option_name
from recordmill.storage.files import Location
from recordmill.storage.members import MARK
from recordmill.transforms.sources.files.near_names import IN_FOLDER, NearNames, difference
from recordmill.transforms.sources.folders.role_folders import (
    folder_of_images,
    without_image_folders,
    without_images,
)
from recordmill.unicode_tables import has_later

_DIGITS = re.compile(r"[0-9]+")
_NAMED = 5  # number of examples of images without annotations


def path_to_match(path: str) -> str:
    """Return the path of a file, or of a member as if its archive were a folder.

    The scheme and the options of an object store are no part of it.
    """
    place, mark, member = path.partition(MARK)
    if "://" in place:
        place = Location.parse(place).path
    return f"{place}/{member.rpartition(MARK)[2]}" if mark else place


def normal_name(name: str) -> str:
    """Return a name as the end of a path, with slashes and without a leading one."""
    return posixpath.normpath(name.replace("\\", "/")).lstrip("/")


def replace_affixes(path: str, old: str, new: str) -> str | None:
    """Return a path whose last name has other affixes, None if it lacks those to replace.

    Args:
      path: The path, without extension.
      old: Affixes of the last name: SUFFIX, or PREFIX*SUFFIX.
      new: The affixes in their place, in the same form.
    """
    folder, slash, stem = path.rpartition("/")
    prefix, _, suffix = old.rpartition("*")
    if not stem.startswith(prefix) or not stem[len(prefix) :].endswith(suffix):
        return None
    new_prefix, _, new_suffix = new.rpartition("*")
    return f"{folder}{slash}{new_prefix}{stem[len(prefix) : len(stem) - len(suffix)]}{new_suffix}"


def find_affixes(keys: Sequence[str], names: Collection[str]) -> str | None:
    """Return affixes, as NEW or OLD=NEW, with which `replace_affixes` makes all paths match names.

    Args:
      keys: Paths with extension.
      names: Names without extension, which are the ends of such paths.

    Returns:
      None without such affixes.
    """
    stems = [posixpath.splitext(key)[0] for key in keys]
    first = stems[0].rpartition("/")[2] if stems else ""
    known, lasts = frozenset(names), sorted({name.rpartition("/")[2] for name in names})
    for core in (first, *sorted(_DIGITS.findall(first), key=len, reverse=True)):
        prefix, _, suffix = first.rpartition(core) if core else ("", "", "")
        for last in (one for one in lasts if core and core in one):
            new_prefix, _, new_suffix = last.rpartition(core)
            star = "*" if prefix or new_prefix else ""
            old, new = f"{prefix}{star}{suffix}", f"{new_prefix}{star}{new_suffix}"
            changed = [replace_affixes(stem, old, new) for stem in stems]
            is_plain = not set(",=*").intersection(prefix + suffix + new_prefix + new_suffix)
            if is_plain and all(one and not known.isdisjoint(_ends_of(one)) for one in changed):
                return new if old in ("", "*") else f"{old}={new}"
    return None


def _ends_of(path: str) -> Iterator[str]:
    parts = path.split("/")
    return ("/".join(parts[start:]) for start in range(len(parts)))


class NamedPaths(Protocol):
    """Names that are the ends of paths; attributes as of `AnnotationReader`."""

    @property
    def names(self) -> Sequence[str]:
        """Unique names."""

    @property
    def by_stem(self) -> bool:
        """True if names have no extension."""

    @property
    def suffixes(self) -> Sequence[tuple[str, str]]:
        """Pairs of affixes of a path and of a name, as the arguments of `replace_affixes`."""

    @property
    def folders(self) -> Mapping[str, str]:
        """{folder of annotations: folder of images that it replaces in a path}.

        Folders of images are without their word for images: "" stands for `images`.
        """

    @property
    def beside_images(self) -> bool:
        """True if names lack folders such as `images`."""

    @property
    def splits(self) -> Sequence[str | None]:
        """Splits of the names; with `shared`, names are unique only in their split."""

    @property
    def shared(self) -> str:
        """Clause on the first name of images of several splits, for messages."""


_Named = TypeVar("_Named", bound=NamedPaths)


class PathMatcher(Generic[_Named]):
    """Finds the annotations of images, or the nearest name if an image has none.

    The annotations of an image are those whose name is the longest end of its path. The Unicode
    form of a name matters only if several names are equal in the form NFC. An image has the
    annotations of one name only, and these belong to one image only: otherwise it is ambiguous
    which image they describe.

    Attributes:
      annotations: Reader of the annotations.
      blank: Number of images without annotations.
      examples: Keys of some of these images.
      faults: {index of ambiguous annotations: the problem}, complete once all images are looked up.
    """

    def __init__(
        self, annotations: _Named, where: str, noun: str, *, files: str = "images"
    ) -> None:
        """Index annotations.

        Args:
          annotations: Names of the annotations.
          where: Their option and name, for messages.
          noun: Noun for them.
          files: Noun for the files that have them.
        """
        self.annotations = annotations
        self._where, self._noun, self._files = where, noun, files
        self._at = {normal_name(name): n for n, name in enumerate(annotations.names)}
        self._by_split: dict[str, dict[str | None, int]] = {}
        for n, split in enumerate(annotations.splits if annotations.shared else ()):
            name = normal_name(annotations.names[n])
            self._by_split.setdefault(name, {})[split] = n
        self._by_form = _by_form(self._at)
        self._other_form: set[int] = set()  # annotations found by names in another Unicode form
        self._used: dict[int, tuple[str, str | None]] = {}
        self._near: dict[str, str] = {}  # {name in the annotations: key of the nearest image}
        self.faults: dict[int, str] = {}
        self.blank = 0
        self.examples: list[str] = []

    @property
    def found(self) -> int:
        """Number of images that have annotations."""
        return len(self._used)

    @property
    def has_unused(self) -> bool:
        """True if annotations match no image, once all images are looked up."""
        return len(self._used) < len(self.annotations.names)

    def find(self, path: str, *, key: str, split: str | None = None) -> int:
        """Return the index of the annotations of an image, -1 without annotations.

        The same image may have several keys.

        Args:
          path: Path of the image.
          key: Its path relative to its input.
          split: Its split, if the folders in the key do not name one.

        Raises:
          ConfigError: Files of several splits name it, and it has no split.
        """
        found = self._look_up(path, self._splits_of(key, split))
        if not found:
            self.blank += 1
            self.examples += [key] if self.blank <= _NAMED else []
            return -1
        self._see_several(found, key, path)
        at = found[0]
        other, its_path = self._used.get(at, (key, path))
        if its_path is None:
            self._used[at] = (key, path)
            same = _is_reject(other, key, path)
        else:
            self._used.setdefault(at, (key, path))
            same = its_path == path or posixpath.normpath(its_path) == posixpath.normpath(path)
        if not same:
            self.faults.setdefault(at, self._two_images(at, other, key))
        return at

    def has(self, path: str) -> bool:
        """Return whether an image has annotations, without marking them as used."""
        return bool(self._look_up(path, self._splits_of(path)))

    def see(self, key: str) -> None:
        """Mark the annotations of a rejected image as used. Raises ConfigError as `find`."""
        found = self._look_up(key, self._splits_of(key))
        if found:
            at = found[0]
            self._see_several(found, key, None)
            other, path = self._used.setdefault(at, (key, None))
            if path is not None and not _is_reject(key, other, path):
                self.faults.setdefault(at, self._two_images(at, other, key))

    def refuse_ambiguous(self, *, least: float = 0) -> None:
        """Raise ConfigError if more than this fraction of the used annotations are ambiguous."""
        count, used = len(self.faults), len(self._used)
        if count > least * used:
            text = next(iter(self.faults.values()))
            some = f" ({count:,} of {used:,} are ambiguous)" if count > 1 else ""
            raise ConfigError(f"{self._where}: {text}{some}")

    def _see_several(self, found: Sequence[int], key: str, path: str | None) -> None:
        """Note the fault of an image that has the annotations of several names."""
        if len(found) > 1:
            for at in found[1:]:
                self._used.setdefault(at, (key, path))
            for at in found:
                self.faults.setdefault(at, self._two_files(path or key, *found[:2]))

    def nearest(self, key: str) -> str:
        """Describe the name in the annotations that is nearest to an image without any."""
        name = self._by_near_name.find(key)
        if name is None:
            return ""
        self._near[name] = min(key, self._near.get(name, key))
        how = self._difference(name, key)
        if how == IN_FOLDER:
            return ""  # the name may be that of another image
        return f" (the nearest name there is {name!r}, which differs in {how})"

    def near_image(self, name: str) -> str:
        """Describe the image that is nearest to a name. Call it after all images are looked up."""
        key = self._near.get(name)
        if key is None:
            return ""
        return f"; the nearest is {key!r}, which differs in {self._difference(name, key)}"

    def form_notes(self, code: str) -> Iterator[Note]:
        """Yield a note on names that match only without regard to their Unicode form."""
        found = sorted(self._other_form.intersection(self._used))
        if found:
            text = f"{self._where}: {count_of(len(found), 'name')}, such as"
            text += f" {self.annotations.names[found[0]]!r},"
            text += f" {'matches' if len(found) == 1 else 'match'} {self._files} whose names have"
            yield Note(code, f"{text} another Unicode form (NFC or NFD) and look the same")

    def unused(self) -> list[str]:
        """Return the names in the annotations that match no image."""
        names = self.annotations.names
        return [name for n, name in enumerate(names) if n not in self._used]

    @functools.cached_property
    def _by_near_name(self) -> NearNames:
        return NearNames(self.annotations.names)

    def _difference(self, name: str, key: str) -> str:
        return difference(name, posixpath.splitext(key)[0] if self.annotations.by_stem else key)

    def _splits_of(self, key: str, split: str | None = None) -> Sequence[str]:
        """Return the splits that an image may have, the most likely first, if they matter."""
        if not self._by_split:
            return ()
        folders = map(canonical_split, reversed(key.split("/")[:-1]))
        return [one for one in (*folders, split) if one is not None]

    def _look_up(self, path: str, splits: Sequence[str]) -> Sequence[int]:
        """Return the annotations whose names are the longest end of a path, empty without any."""
        found = self._longest_end(path, splits)
        if not found and self.annotations.beside_images:
            found = self._longest_end(without_image_folders(path), splits)
        return found

    def _longest_end(self, path: str, splits: Sequence[str]) -> Sequence[int]:
        parts = path.split("/")
        if self.annotations.by_stem:
            stem, dot, _ = parts[-1].rpartition(".")
            parts[-1] = stem if stem and dot else parts[-1]
        folders = self.annotations.folders.items()
        replaced = [
            (n, other)
            for n, one in enumerate(parts[:-1] if folders else ())
            for other, of in folders
            if of == without_images(one)
        ]
        for start in range(len(parts)):
            found = self._named("/".join(parts[start:]), splits)
            for at, other in replaced:
                if at >= start:
                    name = "/".join([*parts[start:at], other, *parts[at + 1 :]])
                    found += [one for one in self._named(name, splits) if one not in found]
            if found:
                return found
        return ()

    def _named(self, name: str, splits: Sequence[str]) -> list[int]:
        """Return the indices of the annotations of an image with this name."""
        found: list[int] = []
        for old, new in self.annotations.suffixes:
            wanted = replace_affixes(name, old, new) if old or new else name
            if wanted is not None:
                is_known = wanted in self._at
                stem = wanted if is_known else self._by_form.get(_composed(wanted), wanted)
                at = self._at.get(stem, -1)
                at = self._of_split(stem, splits) if at >= 0 and self._by_split else at
                found += [at] if at >= 0 and at not in found else []
                if at >= 0 and stem != wanted:
                    self._other_form.add(at)
        return found

    def _of_split(self, name: str, splits: Sequence[str]) -> int:
        """Return the index of the annotations with a name that are of one of the splits.

        Raises:
          ConfigError: The image has no split, and files of several splits name it.
        """
        found = self._by_split[name]
        if not splits and len(found) > 1:
            split, *_ = filter(None, found)
            raise ConfigError(
                f"{self.annotations.shared}, and the path of the image has no folder of a split:"
                " remove one of the two, put each file into the folder of its images, or name the"
                f" split of the images, as in {option_name('input', f'{split}=FOLDER')}"
            )
        if not splits:
            return next(iter(found.values()))
        return next((found[one] for one in (*splits, None) if one in found), -1)

    def _two_files(self, path: str, *found: int) -> str:
        one, other = (repr(self.annotations.names[at]) for at in found)
        return (
            f"{one} and {other} are both {self._noun} of the image {path!r}: remove one of the two,"
            " or pass a folder that holds only one"
        )

    def _two_images(self, at: int, *keys: str) -> str:
        one, other = sorted(keys)
        folders = [found for key in keys if (found := folder_of_images(key)) is not None]
        only = ""
        if len(folders) == 1:
            only = f", or pass the images alone: {option_name('input', f'.../{folders[0]}')}"
        return (
            f"{self.annotations.names[at]!r} matches two {self._files}, {one!r} and {other!r},"
            f" which is ambiguous: write a longer part of the path in the {self._noun}, or remove"
            f" one of the two from the input{only}"
        )


def _composed(name: str) -> str:
    """Return a name in form NFC, if all supported versions of Python compose it equally."""
    return name if name.isascii() or has_later(name) else unicodedata.normalize("NFC", name)


def _by_form(names: Iterable[str]) -> Mapping[str, str]:
    """Return {name in the form NFC: name}, for names that no other equals in this form."""
    found: dict[str, str | None] = {}
    for name in names:
        if not name.isascii():
            form = _composed(name)
            found[form] = None if form in found else name
    return {form: name for form, name in found.items() if name is not None}


def _is_reject(reject: str, key: str, path: str) -> bool:
    """Return whether a reject, of which only the key is known, may be the image with this path."""
    named_by_path = path.endswith(key)
    return reject == key or (not named_by_path and f"/{path}".endswith(f"/{reject}"))
