"""Zips that hold a single file of rows, as downloads often do."""

from __future__ import annotations

import contextlib
import zipfile
from collections.abc import Iterator
from typing import IO, BinaryIO

from recordmill.errors import ConfigError
from recordmill.storage.files import Location, shown
from recordmill.transforms.sources.files.skipped_names import skipped_among_rows

_SHOWN = 3  # names of members in a message


def is_zip(name: str) -> bool:
    """Return whether the name of a file is that of a zip."""
    return name.lower().endswith(".zip")


def only_member(archive: zipfile.ZipFile, place: Location) -> str:
    """Return the name of the only file in a zip, without files such as those of macOS.

    Raises:
      ConfigError: There are none, several, or it is encrypted.
    """
    found = [
        one
        for one in archive.infolist()
        if not one.is_dir() and not any(map(skipped_among_rows, one.filename.split("/")))
    ]
    names = [one.filename for one in found]
    if len(found) != 1:
        some = ", ".join(names[:_SHOWN]) + ", ..." * (len(names) > _SHOWN)
        raise ConfigError(
            f"the zip {shown(place)} holds {len(names)} files{f' ({some})' if names else ''},"
            " expected one with rows: unpack it, and pass the folder or some of its files"
        )
    if found[0].flag_bits & 1:
        raise ConfigError(f"the zip {shown(place)} is encrypted: unpack it")
    return names[0]


@contextlib.contextmanager
def open_only_member(file: BinaryIO, place: Location) -> Iterator[IO[bytes]]:
    """Open the only file in a zip.

    Raises:
      ConfigError: As for `only_member`.
      zipfile.BadZipFile: The file is not a zip.
    """
    with zipfile.ZipFile(file) as archive, archive.open(only_member(archive, place)) as member:
        yield member
