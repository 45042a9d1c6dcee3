"""A check that each worker makes before it works for a job, by the name of a function.

The runners know nothing of storage, so the submitter of the job chooses the function.
"""

from __future__ import annotations

import functools
import json
import pkgutil
from collections.abc import Callable, Mapping

from recordmill import strict_json

OPTION = "recordmill_start_check"
"""Name of the pipeline option that carries the check to the workers."""

StartCheck = Callable[[Mapping[str, str]], str | None]
"""Returns why a worker cannot work for a job, or None. It is a function of a module."""


def to_option(check: StartCheck, argument: Mapping[str, str]) -> str:
    """Encode a check and its argument as the value of the pipeline option."""
    name = f"{check.__module__}:{check.__qualname__}"
    return strict_json.to_text({"check": name, "argument": argument}, ascii_only=True)


@functools.lru_cache(maxsize=1)  # one process runs many workers of a job
def find_refusal(option: str | None) -> str | None:
    """Return why this worker cannot work for a job, or None if it can.

    option: value of the pipeline option; None if the job has no check.
    """
    if not option:
        return None
    content = json.loads(option)
    refusal: str | None = pkgutil.resolve_name(content["check"])(content["argument"])
    return refusal
