"""Paths inside a folder that no symbolic link leads to, so that nothing is written elsewhere."""

from __future__ import annotations

import contextlib
import os
import stat as modes
from collections.abc import Iterator

from recordmill.errors import StorageError
from recordmill.storage.redaction import shown

_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_OPEN_FILES = "/proc/self/fd"


@contextlib.contextmanager
def pinned_path(path: str, *, top: int, itself: bool) -> Iterator[str]:
    """Yield a path to the same file through its open folder, so that a link cannot replace it.

    top: length of the path of the folder below which links are refused; that folder may be reached
      through links. itself: whether to refuse a link at the path itself, too.

    Raises:
      StorageError: a part of the path is a symbolic link.
      OSError: a folder of the path is missing.
    """
    *folders, name = path[top:].strip("/").split("/")
    with contextlib.ExitStack() as stack:
        at = os.open(path[:top] or "/", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        stack.callback(os.close, at)
        for folder in folders:
            try:
                at = os.open(folder, _FOLDER, dir_fd=at)  # fails for a link
            except OSError:
                _refuse_link(folder, at, path)
                raise
            stack.callback(os.close, at)
        if itself:
            _refuse_link(name, at, path)
        # Without /proc the check before use is all that there is.
        yield f"{_OPEN_FILES}/{at}/{name}" if os.path.isdir(_OPEN_FILES) else path


def _refuse_link(name: str, folder: int, path: str) -> None:
    try:
        mode = os.lstat(name, dir_fd=folder).st_mode
    except FileNotFoundError:
        return
    if modes.S_ISLNK(mode):
        raise StorageError(
            f"{name!r} in {shown(path)} is a symbolic link: nothing is written or deleted through"
            " links inside an output folder; remove the link, then run the same command again"
        )
