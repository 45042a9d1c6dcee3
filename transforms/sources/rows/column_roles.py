"""Which column of an input of rows is what: found by name, or as the user says."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Collection, Sequence

from recordmill.errors import ConfigError, did_you_mean

SPLITS = ("split",)
# The index that pandas writes under this name, or as a column without name.
_PANDAS_INDEX = re.compile(r"(__index_level_\d+__)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Roles:
    """Which column is what. main: what records are made of, such as a path or a text. others: of
    which something else is made, such as times.
    """

    main: str | None = None
    label: str | None = None
    split: str | None = None
    group: str | None = None
    key: str | None = None
    others: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()

    def named(self) -> set[str]:
        single = (self.main, self.label, self.split, self.group, self.key)
        return {name for name in (*single, *self.others) if name}

    def users(self, names: Sequence[str]) -> list[str]:
        """The columns that are carried along."""
        others = self.named().union(self.dropped)
        return [n for n in names if n not in others and not _PANDAS_INDEX.fullmatch(n)]


def find_roles(
    names: Sequence[str], asked: Roles, *, where: str, mains: Sequence[str], labels: Sequence[str]
) -> Roles:
    """The roles of columns: those that were asked for, else those with one of the usual names.

    where: the input, for messages. mains, labels: names that main and label often have, the most
    usual first, in lower case.

    Raises:
      ConfigError: a column is not there, or has a name that only ours may have.
    """
    for name in asked.dropped:
        if name not in names:
            raise ConfigError(
                f"--drop-columns: no column {name!r} in {where}{did_you_mean(name, names)}:"
                f" it has {quoted(names)}"
            )
    names = [name for name in names if name not in asked.dropped]
    single = (asked.main, asked.label, asked.split, asked.group, asked.key)
    for wanted in (*single, *asked.others):
        if wanted is not None and wanted not in names:
            raise ConfigError(f"no column {wanted!r} in {where}: it has {quoted(names)}")
    free = [name for name in names if name not in asked.named()]
    roles = dataclasses.replace(
        asked,
        main=asked.main or _first(free, mains),
        label=asked.label or _first(free, labels),
        split=asked.split or _first(free, SPLITS),
    )
    for name in roles.users(names):
        if name.startswith("__"):
            raise ConfigError(
                f"column {name!r} in {where} starts with two underscores, as only our own "
                "may: rename it"
            )
    return roles


def quoted(names: Collection[str]) -> str:
    return ", ".join(map(repr, names)) or "no columns"


def _first(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """The column with the first of the usual names that is there, in any case."""
    there = {name.lower(): name for name in reversed(names)}
    return next((there[name] for name in usual if name in there), None)
