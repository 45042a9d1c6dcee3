"""Packages of extras, imported when they are first needed."""

from __future__ import annotations

import importlib
from typing import Any

from recordmill.errors import ConfigError, install_extra


def import_package(name: str, *, extra: str, needed_for: str) -> Any:
    """Return a package of an extra.

    needed_for: the beginning of the message if it is missing, such as `reading videos`.

    Raises:
      ConfigError: it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"{needed_for} needs the package {name}, which is not installed: {install_extra(extra)}"
        ) from error
