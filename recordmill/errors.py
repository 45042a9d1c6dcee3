"""The errors of Recordmill, by how a run reacts to them.

`ConfigError`   invalid options or input, reported before the job starts (exit code 2)
`RunError`      the job cannot continue: a full disk, a file that changed (exit code 1)
`DamageError`   a RunError: a file that Recordmill itself wrote is damaged
`StorageError`  a RunError: a fault of the machine, the storage or the network
`RecordError`   one bad record: it becomes a reject, and the job continues
anything else   a bug, which fails the job
"""

from __future__ import annotations

import dataclasses
import difflib
import enum
import os
from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Literal


class ConfigError(ValueError):
    """Invalid options or input; the message says what was expected, what was found, what to do."""

    exit_code: ClassVar[int] = 2


def install_extra(extra: str) -> str:
    """Return the advice to install recordmill again with an extra, from its folder."""
    return f"install recordmill with that extra: pip install '/path/to/recordmill[{extra}]'"


def did_you_mean(name: str, known: Collection[str]) -> str:
    """Return " (did you mean 'X'?)" with the most similar known name, or "" if none is similar.

    A name with a comma, of which the name may be a part, is shown as it is written in a list.
    """
    for one in known:
        if "," in one and '"' not in one and name in map(str.strip, one.split(",")):
            return f" (did you mean {one!r}? In a list it needs double quotes: '\"{one}\"')"
    nearest = difflib.get_close_matches(name, known, n=1)
    return f" (did you mean {nearest[0]!r}?)" if nearest else ""


def unlike_submitter(theirs: Mapping[str, str], here: Mapping[str, str]) -> str | None:
    """Return the beginning of a message that lists the versions in which this worker differs.

    theirs: {software: version} of the job's submitter. here: those of this worker. Returns None if
    all of theirs are the same here.
    """
    differ = [
        f"{what} {here.get(what, 'none')}, the submitter {version}"
        for what, version in sorted(theirs.items())
        if version != here.get(what)
    ]
    return f"the worker on {os.uname().nodename} has {'; it has '.join(differ)}" if differ else None


class RunError(Exception):
    """The job cannot continue. Once the cause is fixed, the same command continues it."""

    exit_code: ClassVar[int] = 1


class StorageError(RunError):
    """An operation on storage failed. No record is at fault, so it never becomes a reject."""


class DamageError(RunError):
    """A file of a dataset or of staging is damaged; the message names it, and the line or field."""


class Reason(enum.StrEnum):
    """Reasons for rejecting a record: a closed set, so that they can be counted and compared."""

    BAD_NAME = "bad_name"  # a name that is not UTF-8, or too long
    MISSING = "missing"  # a file that a listing or an annotation names does not exist
    SYMLINK_LOOP = "symlink_loop"
    UNLABELLED = "unlabelled"  # --unlabelled reject
    BAD_VALUE = "bad_value"  # an invalid row, text or array
    EMPTY = "empty"  # an empty file, a row without text
    TOO_LARGE = "too_large"  # --max-row-bytes, --max-array-bytes, --max-worker-memory
    TOO_SLOW = "too_slow"  # --max-worker-seconds
    NOT_AN_IMAGE = "not_an_image"  # the bytes have no known image format
    CORRUPT = "corrupt"  # a known format with invalid content
    TRUNCATED = "truncated"  # the content ends early
    TOO_MANY_PIXELS = "too_many_pixels"  # --max-pixels
    OUT_OF_SCHEMA = "out_of_schema"  # --schema
    CRASHED_DECODER = "crashed_decoder"  # its content crashes the library that decodes it
    UNSUPPORTED = "unsupported"  # a valid file of a type that a dataset cannot hold


class RecordError(ValueError):
    """One bad record, which becomes a `Reject`."""

    def __init__(self, reason: Reason, detail: str) -> None:
        super().__init__(f"{reason}: {detail}")
        self.reason = reason
        self.detail = detail

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.reason, self.detail), vars(self)


class Filtered(ValueError):
    """A record that an option excludes; it is counted, but is not a reject."""

    def __init__(self, option: str) -> None:
        super().__init__(option)
        self.option = option


Stage = Literal["read", "check", "encode"]


@dataclasses.dataclass(frozen=True, order=True)
class Reject:
    """A line of rejects.jsonl.

    detail: a message of Recordmill itself. Messages of libraries may hold addresses or times, and
      would differ between runs.
    """

    key: str
    stage: Stage
    reason: Reason
    detail: str
