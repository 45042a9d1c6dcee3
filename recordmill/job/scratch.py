"""Intermediate files of a job on a disk of this machine, if its output is in a store.

If a job runs on one machine, no other reads its listing, its rows, the files of the shuffle and the
summaries of its shards. Only what will be published is written to the store.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import os
import stat
import uuid
from collections.abc import Iterator

from recordmill.errors import ConfigError, StorageError
from recordmill.job.staging import FOLDER, Staging
from recordmill.option_names import option_name
from recordmill.storage.files import Location, results_of, shown

IN_STORE = "store"  # instead of a folder
_MARK = "machine"  # file with the same content in both folders, if they belong together


def with_scratch(staging: Staging, folder: str | None) -> Staging:
    """Return staging whose intermediate files are on this machine, if its output is in a store.

    folder: holds them, in a folder for each output; `IN_STORE` for none; None for the cache folder
      of this user, or none if it cannot be written.

    Raises:
      ConfigError: the folder cannot be used.
    """
    if staging.root.can_move or folder == IN_STORE:
        return staging
    top = os.path.join(_cache() if folder is None else folder, f"recordmill-{os.geteuid()}")
    output = hashlib.sha256(str(staging.output).encode()).hexdigest()[:16]
    try:
        _make_private(top)
        place = Location.parse(top).without_links() / output / FOLDER / staging.root.name
        place.make_dirs()
    except OSError as error:
        if folder is None:
            return staging
        raise ConfigError(
            f"{option_name('scratch', shown(folder))}: {(error.strerror or str(error)).lower()};"
            f" choose a folder that this user can write, or {option_name('scratch', IN_STORE)}"
        ) from error
    return dataclasses.replace(staging, scratch=place)


def begin_scratch(staging: Staging) -> None:
    """Keep the intermediate files of an interrupted run of this machine, and delete any others.

    The staging folder in the store may be gone, or that of a run of another machine.
    """
    if staging.scratch is None:
        return
    here, there = staging.scratch / _MARK, staging.root / _MARK
    known, found = results_of(here.read_if_exists, there.read_if_exists, at=staging.root)
    if known is not None and known == found:
        return
    mark = uuid.uuid4().hex.encode()
    staging.scratch.delete_tree()
    staging.scratch.make_dirs()
    here.write_bytes(mark)
    there.write_bytes(mark)


@contextlib.contextmanager
def names_option(staging: Staging) -> Iterator[None]:
    """Add the option that selects another folder to errors of the one for intermediate files."""
    try:
        yield
    except StorageError as error:
        if staging.scratch is None or shown(staging.scratch) not in str(error):
            raise
        raise type(error)(
            f"{error}, or choose another folder for intermediate files with"
            f" {option_name('scratch')}"
        ) from error


def _cache() -> str:
    return os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")


def _make_private(folder: str) -> None:
    """Make a folder that only this user can use, unless it exists. Raises OSError."""
    os.makedirs(os.path.dirname(folder), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(folder, mode=0o700)
    found = os.lstat(folder)
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid() or found.st_mode & 0o077:
        raise PermissionError(None, f"{shown(folder)} is not a folder of this user alone")
    if not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(None, f"{shown(folder)} cannot be written")
