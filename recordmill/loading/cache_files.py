"""Files that tf.data caches records in, and what a run that was killed has left of them.

tf.data keeps a file beside them while it writes, and refuses to begin where there is one: nobody
tells it that whoever made it is dead. A lock that ends with its process does.
"""

from __future__ import annotations

import fcntl
import os
import pathlib

from recordmill.errors import ConfigError

_held: dict[str, int] = {}  # descriptors, by the path of what is cached


def claim(path: str) -> str:
    """The path, for this process alone until it ends; leftovers of a dead one are removed.

    Raises:
      ConfigError: another process is at it, and has not finished; or its folder cannot be written.
    """
    if path in _held or pathlib.Path(f"{path}.index").exists():
        return path
    folder = pathlib.Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    except OSError as error:
        raise ConfigError(f"cache: cannot write to {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(
            f"cache: another process is writing {path}; wait for it, or name another path"
        ) from error
    _held[path] = descriptor
    for left in folder.glob(f"{pathlib.Path(path).name}_*"):
        if left.name.endswith(".lockfile") or "tempstate" in left.name:  # that was not finished
            left.unlink(missing_ok=True)
    return path
