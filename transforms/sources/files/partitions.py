"""Folders such as `kind=cat`, by which Spark, Hive and pyarrow partition a table."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from recordmill.errors import ConfigError
from recordmill.format.split_names import canonical_split, is_split_name
from recordmill.option_names import option_name
from recordmill.transforms.model.usual_columns import LABELS, SPLITS
from recordmill.transforms.sources.files.path_facts import partition_of

_LEVELS = 16


class PartitionKey(NamedTuple):
    """A level of folders with the same key. values: of those beside the first, sorted."""

    name: str
    values: tuple[str, ...]


class Partitions(NamedTuple):
    """The levels of partitions of an input, the outermost first.

    below: names of the folders in the innermost.
    """

    keys: tuple[PartitionKey, ...] = ()
    below: tuple[str, ...] = ()


def find_partitions(top: Sequence[str], folders_in: Callable[[str], Sequence[str]]) -> Partitions:
    """Return the levels of partitions of an input.

    Looks at all top folders, and below them into the first folder of each level.

    top: names of the top folders. folders_in: returns the names of the folders in a folder.
    """
    levels: list[PartitionKey] = []
    names, path = top, ""
    while len(levels) < _LEVELS:
        found = [partition_of(name) for name in names]
        keys = {None if one is None else one.key for one in found}
        if len(keys) != 1 or None in keys:
            break
        values = {one.value for one in found if one is not None and one.value is not None}
        levels.append(PartitionKey(str(*keys), tuple(sorted(values))))
        path += f"/{names[0]}"
        names = folders_in(path[1:])
    return Partitions(tuple(levels), tuple(names) if levels else ())


def values_of(path: str) -> dict[str, str | None]:
    """Return {key: value} of the partitions in the path of a file."""
    found = map(partition_of, path.split("/")[:-1])
    return {one.key: one.value for one in found if one is not None}


def split_key(given: object, partitions: Partitions, split_from: str) -> PartitionKey | None:
    """Return the key of the partitions whose values are the splits, None if none are.

    Raises:
      ConfigError: the values of several keys are names of splits.
    """
    if not partitions.keys or split_from not in ("auto", "folders"):
        return None
    if split_from == "folders":
        (first, *_) = partitions.keys
        if odd := [value for value in first.values if not is_split_name(value)]:
            raise ConfigError(
                f"{option_name('split_from', 'folders')}: {first.name}={odd[0]} of {given} cannot"
                " name a split: expected letters, digits, _ and - after the =; rename it"
            )
        return first
    named = [one for one in partitions.keys if one.name.lower() in SPLITS]
    found = named or [
        one for one in partitions.keys if one.values and all(map(canonical_split, one.values))
    ]
    if len(found) > 1:
        several = " and ".join(f"{one.name}=" for one in found)
        raise ConfigError(
            f"{given} holds folders named as splits under several keys ({several}): name the split"
            f" of each, as in {option_name('input')} 'train=DIR/*/split=train/**';"
            f" {option_name('split_from')} none ignores these names"
        )
    return found[0] if found else None


def label_key(given: object, partitions: Partitions, others: Collection[str | None]) -> str | None:
    """Return the key of the partitions whose values are the classes; None if there is none.

    others: keys with another role.

    Raises:
      ConfigError: several folders around a file may be its class.
    """
    keys = [one.name for one in partitions.keys if one.name not in others]
    named = [key for key in keys if key.lower() in LABELS]
    if len(named) == 1:
        return named[0]
    if len(keys) > 1 or (keys and partitions.below):
        options = [option_name("label_from", f"{key}=") for key in keys]
        options += [option_name("label_from", "parent")] if partitions.below else []
        raise ConfigError(
            f"several folders around a file of {given} may be its class"
            f" ({', '.join([*(f'{key}=' for key in keys), *partitions.below[:1]])}): pass"
            f" {' or '.join(options)}, or {option_name('label_type', 'none')} for no classes"
        )
    return keys[0] if keys else None
