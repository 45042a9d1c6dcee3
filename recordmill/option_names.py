"""Names of options in messages: flags for commands, fields and keywords for Python.

The entry point of the command line says that this process, and the processes that it starts, belong
to a command. Messages must be those of the submitter, or end the run: what a dataset holds, such as
the details of rejects, may not depend on the front end.
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
    """Return an option in the terms of the user: `--image-format png`, or `image_format='png'`.

    name: name of the field or keyword. value: value of the option, if the message says it. flag:
    name of the flag, if it is not that of the field with dashes.
    """
    if are_flags():
        found = "--" + (flag or name.replace("_", "-"))
        return found if value is _NO_VALUE else f"{found} {value}"
    return name if value is _NO_VALUE else f"{name}={value!r}"
