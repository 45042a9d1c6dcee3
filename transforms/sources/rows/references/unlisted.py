"""Notes on a listing: files that no row names or that have several names, columns of segments."""

from __future__ import annotations

import itertools
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Sequence

import xxhash

from recordmill.notes import Note, count_of
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.sources.archives.member_index import MemberIndex
from recordmill.transforms.sources.files.skipped_names import skipped_among_media

_MOST = 500_000  # paths in memory, and files that are compared with them
_SHOWN = 3  # files in a note
# Names of columns of times in a file, without their unit.
_STARTS = ("start", "begin", "onset", "offset", "from")
_ENDS = ("end", "stop", "offset", "to")
_DURATIONS = ("duration", "dur", "length")
_SUFFIX = re.compile(r"[ _-]*(time|sec|secs|seconds|s|ms|msec|milliseconds)$")


class ListedPaths:
    """The relative paths that a listing names, as hashes; none if there are too many.

    Of paths that are absolute or begin with `..` it holds those that lead into `root`, the folder
    of relative paths.
    """

    def __init__(self, root: Location) -> None:
        self._root = root
        self._hashes: set[int] = set()
        self._aliases: dict[str, str] = {}  # by the relative path of the same file
        self._folders: set[str] = set()
        self._extensions: set[str] = set()

    def add(self, paths: Iterable[str]) -> None:
        """Add normalized paths; URIs are ignored."""
        for path in paths:
            if is_uri(path) or len(self._hashes) + len(self._aliases) > _MOST:
                continue
            if path.startswith(("/", "../")):
                base = os.path.abspath(self._root.path)
                inside = os.path.relpath(os.path.join(base, path), base)
                if self._root.is_local and not inside.startswith("../"):
                    self._aliases.setdefault(inside, path)
                continue
            self._hashes.add(_hash(path))
            folder, slash, _ = path.partition("/")
            self._folders.add(folder if slash else "")
            self._extensions.add(_extension(path))

    def notes(
        self, name: str, archives: Iterable[tuple[Location, MemberIndex]]
    ) -> tuple[Note, ...]:
        """Return the notes. name: of the listing. archives: whose members it names."""
        of_archives = (self._not_named_in(*one, name) for one in archives)
        found = [*self._several_names(name), *self._not_named(name)]
        return (*found, *(note for note in of_archives if note is not None))

    def _not_named_in(self, archive: Location, members: MemberIndex, name: str) -> Note | None:
        """Return a note on the files of an archive, of the same extensions, that are not named."""
        extensions = {one.removeprefix(".") for one in self._extensions}
        count, first = members.unnamed(extensions, skipped_among_media)
        return _unlisted(count, first, f"in {archive.name}", name) if count else None

    def _several_names(self, name: str) -> tuple[Note, ...]:
        """Return a note on the files that have several names."""
        found = [
            (inside, path)
            for inside, path in sorted(self._aliases.items())
            if _hash(inside) in self._hashes
        ]
        if not found:
            return ()
        inside, path = found[0]
        text = (
            f"{count_of(len(found), 'file')} of {name} {'has' if len(found) == 1 else 'have'}"
            f" several paths, such as {inside} and {path}: each path is a record; write the paths"
            " in one way, and equal rows count once"
        )
        return (Note("same-file", text),)

    def _not_named(self, name: str) -> tuple[Note, ...]:
        """Return a note on the files of the same folders and extensions that are not named.

        Folders of object stores are not listed for it.
        """
        root = self._root
        if not root.is_local or not self._hashes or len(self._hashes) > _MOST:
            return ()
        found: list[str] = []
        count = 0
        for key in itertools.islice(_files(root.local_path, self._folders), _MOST):
            if _extension(key) in self._extensions and _hash(key) not in self._hashes:
                if key in self._aliases:
                    continue
                count += 1
                found += [key] if len(found) < _SHOWN else []
        where = "in the folders of the listed files"
        return (_unlisted(count, found, where, name),) if count else ()


def segment_notes(names: Sequence[str], listing: str) -> list[Note]:
    """Return a note if columns are named like the start and end (or duration) of segments."""
    by_stem: dict[str, str] = {}
    for name in names:
        by_stem.setdefault(_SUFFIX.sub("", name.strip().lower()), name)
    start = next((by_stem[stem] for stem in _STARTS if stem in by_stem), None)
    for option, stems in (("end", _ENDS), ("duration", _DURATIONS)):
        found = next((by_stem[stem] for stem in stems if by_stem.get(stem, start) != start), None)
        if start is not None and found is not None:
            text = (
                f"whole files are read, but the columns {start!r} and {found!r} of {listing} may"
                f" be segments: --start-column {shlex.quote(start)} --{option}-column"
                f" {shlex.quote(found)} reads them"
            )
            return [Note("segments", text)]
    return []


def _unlisted(count: int, first: Sequence[str], where: str, name: str) -> Note:
    """Return a note on files that are not named. first: some of them. name: of the listing."""
    files_are = "file is" if count == 1 else "files are"
    more = ", ..." if count > len(first) else ""
    text = f"{count} {files_are} {where}, but not in {name}: {', '.join(first)}{more}"
    return Note("unlisted", text)


def _files(root: str, folders: Collection[str]) -> Iterator[str]:
    """Yield the paths of files in some top folders of a root; "" stands for the root itself."""
    for folder, below, names in os.walk(root):
        inside = os.path.relpath(folder, root)
        prefix = "" if inside == "." else f"{inside}/"
        below[:] = sorted(name for name in below if not skipped_among_media(name))
        if prefix:
            yield from (prefix + name for name in sorted(names) if not skipped_among_media(name))
            continue
        below[:] = [name for name in below if name in folders]
        if "" in folders:
            yield from (name for name in sorted(names) if not skipped_among_media(name))


def _hash(path: str) -> int:
    return xxhash.xxh3_64_intdigest(os.fsencode(path))


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()
