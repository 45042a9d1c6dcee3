"""Names and values of options as text, for messages and tables."""

from collections.abc import Mapping, Sequence
from typing import Any

from recordmill.option_checks import list_text


def option_name(name: str) -> str:
    """Return an option of a manifest as it is typed, such as `--num-shards`."""
    return f"--{name.replace('_', '-')}"


def option_text(value: Any) -> str:
    """Return a value as it is typed; `given` and `not given` for options without a value."""
    if value is True:
        return "given"
    if value is False or value in (None, "", [], (), {}):
        return "not given"
    if isinstance(value, Mapping):
        return ",".join(f"{name}={option_text(one)}" for name, one in sorted(value.items()))
    if isinstance(value, Sequence) and not isinstance(value, str):
        return list_text(map(option_text, value))
    return str(value)
