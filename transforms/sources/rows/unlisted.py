"""Files in the folders of the files of a listing that no row of the listing names."""

from __future__ import annotations

import itertools
import os
from collections.abc import Collection, Iterable, Iterator

import xxhash

from recordmill.notes import Note
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.sources.files.folders import skip_reason

_MOST = 500_000  # paths in memory, and files that are compared with them
_SHOWN = 3  # files in a note


class ListedPaths:
    """The relative paths that a listing names, as hashes; none if there are too many."""

    def __init__(self) -> None:
        self._hashes: set[int] = set()
        self._folders: set[str] = set()
        self._extensions: set[str] = set()

    def add(self, paths: Iterable[str]) -> None:
        """Add normalized paths; those that are absolute or URIs are ignored."""
        for path in paths:
            if path.startswith(("/", "../")) or is_uri(path) or len(self._hashes) > _MOST:
                continue
            self._hashes.add(_hash(path))
            folder, slash, _ = path.partition("/")
            self._folders.add(folder if slash else "")
            self._extensions.add(_extension(path))

    def note(self, root: Location, name: str) -> tuple[Note, ...]:
        """Return a note on the files of the same folders and extensions that are not named.

        Folders of object stores are not listed for it. root: folder of the paths. name: of the
        listing.
        """
        if not root.is_local or not self._hashes or len(self._hashes) > _MOST:
            return ()
        found: list[str] = []
        count = 0
        for key in itertools.islice(_files(root.local_path, self._folders), _MOST):
            if _extension(key) in self._extensions and _hash(key) not in self._hashes:
                count += 1
                found += [key] if len(found) < _SHOWN else []
        if not count:
            return ()
        files_are = "file is" if count == 1 else "files are"
        more = ", ..." if count > len(found) else ""
        text = (
            f"{count} {files_are} in the folders of the listed files, but not in {name}:"
            f" {', '.join(found)}{more}"
        )
        return (Note("unlisted", text),)


def _files(root: str, folders: Collection[str]) -> Iterator[str]:
    """Yield the paths of files in some top folders of a root; "" stands for the root itself."""
    for folder, below, names in os.walk(root):
        inside = os.path.relpath(folder, root)
        prefix = "" if inside == "." else f"{inside}/"
        below[:] = sorted(name for name in below if not skip_reason(name))
        if prefix:
            yield from (prefix + name for name in sorted(names) if not skip_reason(name))
            continue
        below[:] = [name for name in below if name in folders]
        if "" in folders:
            yield from (name for name in sorted(names) if not skip_reason(name))


def _hash(path: str) -> int:
    return xxhash.xxh3_64_intdigest(os.fsencode(path))


def _extension(path: str) -> str:
    return os.path.splitext(path)[1].lower()
