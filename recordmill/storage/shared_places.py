"""Places that the submitter of a job and its workers on other machines must both reach."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping

from recordmill.errors import StorageError
from recordmill.storage.files import Location, shown
from recordmill.storage.s3_keys import has_keys
from recordmill.storage.storage_errors import PathError, short_cause


def find_unreachable(places: Mapping[str, str]) -> str | None:
    """Return why this worker cannot reach one of the places, or None if it reaches all.

    A store that does not answer now may do so later, so it is not reported.

    places: {path or URI: option that names it}.
    """
    for place, name in places.items():
        location = Location.parse(place)
        problem = _local_problem(place) if location.is_local else _store_problem(location)
        if problem is not None:
            return f"{name}: {problem}"
    return None


def existing_part(path: str) -> str:
    """Return the longest leading part of a local path that exists, as of a glob pattern."""
    while not os.path.exists(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path


def _local_problem(path: str) -> str | None:
    here = os.uname().nodename
    # To open a folder makes a network filesystem forget what it remembers of it.
    with contextlib.suppress(OSError):
        os.scandir(os.path.dirname(path)).close()
    try:
        os.stat(path)
    except PermissionError:
        return (
            f"the worker on {here} runs as user {os.getuid()}, who may not read {shown(path)}:"
            " change the mode of the folder, or run the worker pool as another user"
        )
    except OSError:
        while not os.path.exists(os.path.dirname(path)):
            path = os.path.dirname(path)
        return (
            f"not shared: the worker on {here} has no {shown(path)}: mount the folder under the"
            " same path on every machine, or use an object store"
        )
    return None


def _store_problem(location: Location) -> str | None:
    here = os.uname().nodename
    try:
        location.exists()
    except StorageError as error:
        if not isinstance(error, PathError):
            return None
        if location.root.startswith("s3://") and not has_keys():
            return (
                f"the worker on {here} has no credentials for {shown(location)}: set them where its"
                " worker pool starts, such as AWS_ACCESS_KEY_ID or AWS_PROFILE"
            )
        why = short_cause(error.__cause__ or error)
        return (
            f"the store denies {shown(location)} to the worker on {here} ({why}): check the"
            " credentials of its worker pool, and the policy of the store"
        )
    return None
