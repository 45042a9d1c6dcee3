"""Locks for the cache files of tf.data.

While tf.data writes a cache it keeps a lock file, and it refuses to start if such a file exists,
even if the process that wrote it was killed. A kernel lock (flock), which ends with its process,
shows that the files of a killed process can be deleted.
"""

from __future__ import annotations

import fcntl
import os
import pathlib

from recordmill.errors import ConfigError

_held: dict[str, int] = {}  # descriptors of lock files, by the path of the cache


def lock_cache(path: str) -> str:
    """Lock a cache for this process, delete unfinished files of a killed one, and return the path.

    Raises:
      ConfigError: another process is writing the cache, or the folder is not writable.
    """
    if path in _held or pathlib.Path(f"{path}.index").exists():
        return path
    folder = pathlib.Path(path).parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(f"{path}.lock", flags, 0o666)
    except OSError as error:
        raise ConfigError(f"cache_decoded: cannot write to {folder}: {error.strerror}") from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        raise ConfigError(
            f"cache_decoded: another process is writing {path}; wait for it, or name another path"
        ) from error
    _held[path] = descriptor
    for left in folder.glob(f"{pathlib.Path(path).name}_*"):
        if left.name.endswith(".lockfile") or "tempstate" in left.name:  # of an unfinished cache
            left.unlink(missing_ok=True)
    return path
