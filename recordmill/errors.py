"""What can go wrong, told apart by who can mend it.

`ConfigError`   the user, before any work starts (exit code 2)
`RunError`      the user, while the job runs: a full disk, a file that changed (exit code 1)
`RecordError`   nobody has to: the record becomes a reject and the job goes on
anything else   us: it is a bug and crashes
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import os
from collections.abc import Collection, Mapping
from typing import Any, Literal


class ConfigError(ValueError):
    """Options that cannot work; the message says what was expected, what was got, what to do."""


def did_you_mean(name: str, known: Collection[str]) -> str:
    """The nearest spelling among the known names, as the end of a message; empty without one."""
    nearest = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


def unlike_submitter(theirs: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """Which versions this worker has other than the submitter of its job, as the start of a
    message; None where all are the same.
    """
    differ = [
        f"{what} {here.get(what, 'none')}, the submitter {version}"
        for what, version in sorted(theirs.items())
        if version != here.get(what)
    ]
    return f"the worker on {os.uname().nodename} has {'; it has '.join(differ)}" if differ else None


class RunError(Exception):
    """The job cannot go on; running the same command again, once mended, continues it."""


class Reason(enum.StrEnum):
    """Why a record is not in the dataset. Closed, so that reasons can be counted and compared."""

    BAD_NAME = "bad_name"  # a name that is not UTF-8
    MISSING = "missing"  # a listing names a file that is not there
    UNREADABLE = "unreadable"  # no permission, an I/O error
    SYMLINK_LOOP = "symlink_loop"
    UNLABELLED = "unlabelled"  # --unlabelled reject
    BAD_VALUE = "bad_value"  # a row, a text or an array that cannot be used as it is
    EMPTY = "empty"  # a file of no bytes, a row without text
    TOO_LARGE = "too_large"  # --max-row-bytes, --max-array-bytes
    NOT_AN_IMAGE = "not_an_image"  # no known picture format in the bytes
    CORRUPT = "corrupt"  # the format is known, the content broken
    TRUNCATED = "truncated"  # the content ends early
    TOO_MANY_PIXELS = "too_many_pixels"  # --max-pixels
    OUT_OF_SCHEMA = "out_of_schema"  # --schema
    UNSUPPORTED = "unsupported"  # a sound file, of a kind that a dataset cannot hold


class RecordError(ValueError):
    """One bad record: becomes a `Reject`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.detail), vars(self)


class Filtered(ValueError):
    """One record that an option asked to leave out; counted, not a reject."""

    def __init__(self, option: str) -> None:
        super().__init__(option)
        self.option = option


Stage = Literal["read", "check", "encode"]


@dataclasses.dataclass(frozen=True, order=True)
class Reject:
    """A line of rejects.jsonl. `detail` is our own words: a library's carry addresses and times."""

    key: str
    stage: Stage
    reason: Reason
    detail: str
