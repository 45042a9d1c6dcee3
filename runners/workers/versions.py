"""Versions that the submitter of a pipeline and its workers must have in common."""

from __future__ import annotations

import functools
import json
import platform
from collections.abc import Mapping
from importlib import metadata

from recordmill import strict_json
from recordmill.errors import unlike_submitter

OPTION = "recordmill_versions"
"""Name of the pipeline option that carries the submitter's versions to the workers."""


@functools.cache  # after an upgrade of packages, a pool runs the code that it has imported
def installed() -> Mapping[str, str]:
    """Return {name: version} of what must be equal on both sides to unpickle a pipeline."""
    return {
        "recordmill": metadata.version("recordmill"),
        "apache-beam": metadata.version("apache-beam"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def to_option(versions: Mapping[str, str]) -> str:
    """Encode versions as the value of the pipeline option."""
    return strict_json.to_text(versions, sort_keys=True, ascii_only=True)


def find_mismatch(option: str | None) -> str | None:
    """Return how this worker's versions differ from the submitter's, or None if they do not.

    option: value of the pipeline option; None if the pipeline was not submitted by recordmill.
    """
    if not option:
        return None
    difference = unlike_submitter(json.loads(option), installed())
    return None if difference is None else f"{difference}: install the same versions on both sides"
