"""Versions of installed distributions, read from the names of their metadata folders."""

from __future__ import annotations

import contextlib
import os
import re
import sys

_SUFFIX = ".dist-info"


def installed_version(name: str) -> str:
    """Return the version of a distribution, as `importlib.metadata.version` does.

    That takes 0.01 s of a job: it imports the parser of emails and parses a whole file.

    Raises:
      importlib.metadata.PackageNotFoundError: it is not installed.
    """
    wanted = _normalized(name)
    for folder in sys.path:
        with contextlib.suppress(OSError):  # an archive, or a folder that does not exist
            for entry in os.listdir(folder or os.curdir):
                if entry.endswith(_SUFFIX):
                    found, _, version = entry.removesuffix(_SUFFIX).partition("-")
                    if version and _normalized(found) == wanted:
                        return version
    from importlib.metadata import version as parsed_version

    return parsed_version(name)


def _normalized(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name).lower()
