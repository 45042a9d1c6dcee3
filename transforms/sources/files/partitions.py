"""Folders such as `kind=cat`, by which Spark, Hive and pyarrow partition a table."""

from __future__ import annotations

import re
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

_PARTITION = re.compile(r"([^\W\d][\w .-]*)=(.*)", re.DOTALL)
_NULL = "__HIVE_DEFAULT_PARTITION__"
_LEVELS = 16


class PathPartition(NamedTuple):
    """A folder KEY=VALUE. value: None if the value is missing."""

    key: str
    value: str | None


class PartitionKey(NamedTuple):
    """A level of folders with the same key. values: of those beside the first, sorted."""

    name: str
    values: tuple[str, ...]


def partition_of(name: str) -> PathPartition | None:
    """Return the key and the value of a folder such as `kind=cat`, None for other names."""
    found = _PARTITION.fullmatch(name)
    if found is None:
        return None
    value = urllib.parse.unquote(found[2])
    return PathPartition(found[1], None if value in (_NULL, "") else value)


def find_partitions(
    top: Sequence[str], folders_in: Callable[[str], Sequence[str]]
) -> tuple[PartitionKey, ...]:
    """Return the levels of partitions of an input, the outermost first.

    Looks at all top folders, and below them into the first folder of each level.

    top: names of the top folders. folders_in: returns the names of the folders in a folder.
    """
    return tuple(_levels(top, folders_in))


def _levels(
    names: Sequence[str], folders_in: Callable[[str], Sequence[str]]
) -> Iterator[PartitionKey]:
    path = ""
    for _ in range(_LEVELS):
        found = [partition_of(name) for name in names]
        keys = {None if one is None else one.key for one in found}
        if len(keys) != 1 or None in keys:
            return
        values = {one.value for one in found if one is not None and one.value is not None}
        yield PartitionKey(str(*keys), tuple(sorted(values)))
        path += f"/{names[0]}"
        names = folders_in(path[1:])
