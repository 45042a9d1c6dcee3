"""Names of files that are spelled alike, for messages on names without a file and the reverse.

Names are near if they differ by case, Unicode form, percent-encoding, extension or folder only, so
that a file with another number is never suggested.
"""

from __future__ import annotations

import functools
import itertools
import os
import posixpath
import re
import unicodedata
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping

from recordmill.unicode_tables import has_later

_EXTENSIONS = re.compile(
    r"(\.(jpe?g|png|gif|webp|bmp|tiff?|avif|jp2|wav|mp3|flac|ogg|opus|m4a|mp4|avi|mov|mkv|webm"
    r"|npy|npz|h5|txt|xml))+$",
    re.IGNORECASE,
)
_MOST = 20_000  # files of a folder that are listed
_COMPARED = 100  # near names that are compared, at most
IN_FOLDER = "its folder"
_UNICODE = "its Unicode form (it looks the same)"

_Form = Callable[[str], str]
_FORMS: Mapping[str, _Form] = {
    "its percent-encoding": urllib.parse.unquote,
    _UNICODE: functools.partial(unicodedata.normalize, "NFC"),
    "case": str.casefold,
    "its extension": lambda name: _EXTENSIONS.sub("", name),
}


class NearNames:
    """Index of names for finding the nearest one."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_key: dict[str, list[str]] = {}
        for name in names:
            self._by_key.setdefault(_key(name), []).append(name)

    def find(self, path: str) -> str | None:
        """Return the name that is nearest to a path, None if no name is near."""
        near = self._by_key.get(_key(path), ())[:_COMPARED]
        return min(near, key=lambda name: (-_equal_parts(name, path), name), default=None)


def difference(name: str, path: str) -> str:
    """Describe how a name differs from the path of a near file, of which it may be the end."""
    name = name.replace("\\", "/")
    one, other = posixpath.basename(name), posixpath.basename(path)
    found = [
        what for what in _FORMS if _applied(one, without=what) != _applied(other, without=what)
    ]
    if not found and one != other:  # as `a.JPG` and `a.jpg`, whose extensions differ by case
        found = [what for what, form in _FORMS.items() if form(one) == form(other)][:1]
    folder = posixpath.dirname(name)
    if folder and not f"/{posixpath.dirname(path)}".endswith(f"/{folder}"):
        found.append(IN_FOLDER)
    return " and ".join(found) or "nothing that can be seen"


class NearFiles:
    """Local files near to missing ones. Each folder is listed once."""

    def __init__(self) -> None:
        self._folders: dict[str, NearNames] = {}

    def find(self, path: str) -> str | None:
        """Return the path of the file that is nearest to a missing one, None if no file is near.

        Searches the folder of the missing file, or else the nearest parent that exists, and its
        subfolders. The path is relative to that folder.
        """
        folder, name = os.path.split(path)
        if has_later(name) or "\\" in name:
            return None
        while not os.path.isdir(folder) and os.path.dirname(folder) != folder:
            folder = os.path.dirname(folder)
        try:
            if folder not in self._folders:
                self._folders[folder] = NearNames(itertools.islice(_files(folder), _MOST))
        except OSError:
            return None
        return self._folders[folder].find(name)


def _files(folder: str) -> Iterator[str]:
    """Yield the names of the files in a folder, and relative paths of those in its subfolders."""
    below = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir():
                below.append(entry.name)
            else:
                yield entry.name
    for name in sorted(below):
        with os.scandir(os.path.join(folder, name)) as entries:
            yield from (f"{name}/{entry.name}" for entry in entries if entry.is_file())


def _equal_parts(name: str, path: str) -> int:
    """Return the number of parent folders with equal names, from the files upwards."""
    parts = zip(reversed(name.split("/")[:-1]), reversed(path.split("/")[:-1]), strict=False)
    return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], parts))


def _key(path: str) -> str:
    return _applied(posixpath.basename(path.replace("\\", "/")), without="")


def _applied(name: str, *, without: str) -> str:
    """Return a name in all forms but one."""
    for what, form in _FORMS.items():
        if what != without:
            name = form(name)
    return name if without == _UNICODE else unicodedata.normalize("NFC", name)
