"""Names of files that are nearly equal, for messages on names without a file, and the reverse.

Only spellings of the same name are near: of two numbered files, one is never proposed for the
other.
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
_MOST = 20_000  # files that are looked at for one name
_COMPARED = 100  # names of one file name, in different folders
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
    """Names by which a near one can be found."""

    def __init__(self, names: Iterable[str]) -> None:
        self._by_key: dict[str, list[str]] = {}
        for name in names:
            self._by_key.setdefault(_key(name), []).append(name)

    def find(self, path: str) -> str | None:
        """Return the name that is nearest to a path, None without a near one."""
        near = self._by_key.get(_key(path), ())[:_COMPARED]
        return min(near, key=lambda name: (-_equal_parts(name, path), name), default=None)


def difference(name: str, path: str) -> str:
    """Return words for the difference between a name and the path of a near one.

    The name may be the end of the path.
    """
    name = name.replace("\\", "/")
    one, other = posixpath.basename(name), posixpath.basename(path)
    found = [
        what for what in _FORMS if _applied(one, without=what) != _applied(other, without=what)
    ]
    folder = posixpath.dirname(name)
    if folder and not f"/{posixpath.dirname(path)}".endswith(f"/{folder}"):
        found.append(IN_FOLDER)
    return " and ".join(found) or "nothing that can be seen"


class NearFiles:
    """Local files by which a near one of a missing one can be found. Folders are listed once."""

    def __init__(self) -> None:
        self._folders: dict[str, NearNames] = {}

    def find(self, path: str) -> str | None:
        """Return the relative path of a file that is near to a missing one; None without one.

        It is relative to the folder of the missing file, or the folder above that exists. Looks
        there and in the folders in it.
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
    """Yield the files in a folder, and in the folders in it."""
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
    """Return the number of equal parts at the ends of two paths, above the names of the files."""
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
