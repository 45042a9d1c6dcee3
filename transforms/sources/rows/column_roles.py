"""Roles of the columns of a table: label, split, group, key, found by name or given by options."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence

from recordmill.errors import ConfigError, did_you_mean
from recordmill.job.input_facts import ColumnRoles
from recordmill.option_checks import split_list
from recordmill.option_names import option_name
from recordmill.transforms.sources.row_formats.nested import columns_of

LABELS = ("label", "class", "category", "target")
SPLITS = ("split",)


def find_roles(
    names: Sequence[str],
    requested: ColumnRoles,
    *,
    where: str,
    main_names: Sequence[str],
    labels: Sequence[str],
    splits: Sequence[str] = SPLITS,
) -> ColumnRoles:
    """Return the roles of columns: as requested, else by the usual names of columns.

    Args:
      names: of all columns.
      requested: roles that options assign.
      where: the input, for messages.
      main_names: usual names of the main column in lower case, the most usual first.
      labels: usual names of the label column in lower case, the most usual first.
      splits: the same of the split column.

    Raises:
      ConfigError: a requested column does not exist, or a name is reserved for system columns.
    """
    for name in requested.dropped:
        if not columns_of([name], names):
            raise ConfigError(
                f"{option_name('drop_columns')}: no column {name!r} in"
                f" {where}{did_you_mean(name, names)}: it has {quoted(names)}"
            )
    dropped = columns_of(requested.dropped, names)
    names = [name for name in names if name not in dropped]
    requested = dataclasses.replace(requested, dropped=tuple(sorted(dropped)))
    requested = dataclasses.replace(requested, keys=_key_columns(requested.key, names))
    single = (requested.main, requested.label, requested.split, requested.group)
    for wanted in (*single, requested.weight, *requested.keys, *requested.others):
        if wanted is not None and wanted not in names:
            raise ConfigError(f"no column {wanted!r} in {where}: it has {quoted(names)}")
    free = [name for name in names if name not in requested.named()]
    roles = dataclasses.replace(
        requested,
        main=requested.main or _first(free, main_names),
        label=requested.label or _first(free, labels),
        split=requested.split or _first(free, splits),
    )
    if roles.weight is not None and roles.weight in {*roles.named(), roles.target}:
        raise ConfigError(
            f"{option_name('weight_column', roles.weight)}: the column is the label, the key or the"
            " like, too"
        )
    for name in roles.user_columns(names):
        if name.startswith("__"):
            raise ConfigError(
                f"column {name!r} in {where} starts with two underscores, which is reserved for "
                "system columns: rename it"
            )
    return roles


def quoted(names: Collection[str]) -> str:
    """Return names as a list for a message."""
    return ", ".join(map(repr, names)) or "no columns"


def _key_columns(given: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of keys; the name of an existing column may contain commas."""
    if given is None:
        return ()
    return (given,) if given in names else tuple(split_list(given))


def _first(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the column with the first of the usual names that exists, in any case."""
    by_name = {name.lower(): name for name in reversed(names)}
    return next((by_name[name] for name in usual if name in by_name), None)
