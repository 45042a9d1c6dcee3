"""Which versions a pipeline was made with, and whether a worker has the same."""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from importlib import metadata

from recordmill.errors import unlike_submitter

OPTION = "recordmill_versions"
"""The pipeline option in which the submitter's versions travel to the workers."""


def ours() -> dict[str, str]:
    """{what: version} of all that must be the same on both sides, for pickles to be understood."""
    return {
        "recordmill": metadata.version("recordmill"),
        "apache-beam": metadata.version("apache-beam"),
        "Python": ".".join(platform.python_version_tuple()[:2]),
    }


def to_option(versions: Mapping[str, str]) -> str:
    return json.dumps(versions, sort_keys=True)


def complaint(option: str | None) -> str | None:
    """Why this worker cannot run the pipeline of a submitter; None where it can."""
    if not option:  # a pipeline of somebody else's: nothing is known of it
        return None
    found = unlike_submitter(json.loads(option), ours())
    return None if found is None else f"{found}: install the same versions on both sides"
