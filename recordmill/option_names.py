"""Names of options in messages: flags for commands, fields and keywords for Python.

The entry point of the command line sets an environment variable, which tells this process and the
processes that it starts that they belong to a command. Only errors may use these names: rejects and
notes are part of a dataset, and must not depend on the front end.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

_VARIABLE = "RECORDMILL_NAMES_FLAGS"
_NO_VALUE = object()


@contextlib.contextmanager
def as_flags() -> Iterator[None]:
    """Name options as flags in this process and in the processes that it starts."""
    before = os.environ.get(_VARIABLE)
    os.environ[_VARIABLE] = "1"
    try:
        yield
    finally:
        del os.environ[_VARIABLE]
        if before is not None:
            os.environ[_VARIABLE] = before


def are_flags() -> bool:
    """Return whether messages name options as flags."""
    return _VARIABLE in os.environ


def option_name(name: str, value: Any = _NO_VALUE, *, flag: str | None = None) -> str:
    """Return an option as a flag or as a field: `--image-format png`, or `image_format='png'`.

    Args:
      name: Name of the field or keyword.
      value: Value of the option, if the message has it.
      flag: Name of the flag, if it is not the name of the field with dashes.
    """
    if are_flags():
        found = "--" + (flag or name.replace("_", "-"))
        return found if value is _NO_VALUE else f"{found} {value}"
    return name if value is _NO_VALUE else f"{name}={value!r}"
