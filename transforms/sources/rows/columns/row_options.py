"""Roles of the columns of rows, label, split, group, key and weight: their options and defaults."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

from recordmill.errors import ConfigError, did_you_mean
from recordmill.job.input_facts import ColumnRoles
from recordmill.option_checks import split_list
from recordmill.option_names import option_name
from recordmill.transforms.model import batch
from recordmill.transforms.model.usual_columns import LABELS, OF_FLAGS, SPLITS, quoted
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.folders.number_labels import LabelType
from recordmill.transforms.sources.folders.references import Unlabelled
from recordmill.transforms.sources.row_formats.values.nested import expand_names


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowOptions:
    """Options that give the columns of rows their roles, and select rows.

    Args:
      label_column: Column of labels; by default one with a usual name, such as 'label' or 'class'.
      split_column: By default 'split', if there is such a column.
      group_column: Column that identifies a group, which never spans two splits.
      key_column: Column of unique record keys, or several with commas between; by default the key
        is the path of a file, or a hash of the content of a row.
      drop_columns: Columns to ignore, by names or patterns.
      label_columns: Columns of 0 and 1, one per class, instead of a label column: their names, or
        patterns in which `*` stands for any text. Or one column of lists of 0 and 1.
      label_separator: Text between the labels in the label column, if rows may have several; a
        column of lists needs none.
      label_type: Reading of the label column: `class` (also None), `int` or `float` for numbers to
        predict, or `none` for an ordinary column.
      unlabelled: Whether to reject or keep rows without label if there is a label column.
      weight_column: Column with the weights of records, which are also values of the records.
      where: Condition of the rows to read; others are left out. It may name dropped columns.
    """

    label_column: str | None = None
    split_column: str | None = None
    group_column: str | None = None
    key_column: str | None = None
    drop_columns: tuple[str, ...] = ()
    label_columns: tuple[str, ...] = ()
    label_separator: str | None = None
    label_type: LabelType | None = None
    unlabelled: Unlabelled = "reject"
    weight_column: str | None = None
    where: str | None = None


def options_in(holder: Any) -> dict[str, Any]:
    """Return {name: value} of the options of `RowOptions` that a dataclass has, as arguments."""
    known = {field.name for field in dataclasses.fields(RowOptions)}
    names = (field.name for field in dataclasses.fields(holder) if field.name in known)
    values = {name: getattr(holder, name) for name in names}
    return {name: tuple(v) if isinstance(v, list) else v for name, v in values.items()}


def named_columns(options: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the columns, or patterns, that options of `RowOptions` give a role or drop."""
    roles = ("label_column", "split_column", "group_column", "key_column", "weight_column")
    given = (options.get(name) for name in roles)
    return (*filter(None, given), *options.get("drop_columns", ()))


class UsualNames(NamedTuple):
    """Usual names of columns of a kind of rows, in lower case, the most usual first.

    Attributes:
      main: Of the column that records are made of, such as the texts.
      labels: Of the column of labels.
      alone: Whether the only column without a role is the main column.
    """

    main: Sequence[str] = ()
    labels: Sequence[str] = LABELS
    alone: bool = False


def resolve(
    options: RowOptions,
    names: Sequence[str],
    usual: UsualNames,
    *,
    inputs: Inputs,
    in_path: Mapping[str, str],
    of_path: Collection[str] = (),
    main: str | None = None,
    others: Sequence[str] = (),
) -> ColumnRoles:
    """Return the roles of columns, from the options or else from usual names.

    Args:
      options: The options.
      names: Names of all columns.
      usual: Usual names of columns.
      inputs: The input.
      in_path: {system column: column} of the roles that paths give.
      of_path: Columns that are not in the files.
      main: Column that records are made of, if an option names it.
      others: Further columns that the source converts, such as times.

    Raises:
      ConfigError: A column does not exist, a name is reserved for system columns, two options
        contradict each other, or there is no label column to read numbers from.
    """
    label, group = (
        _given(role, column, inputs, in_path.get(system))
        for role, column, system in (
            ("label", options.label_column, batch.LABEL),
            ("group", options.group_column, batch.GROUP),
        )
    )
    dropped = expand_names("drop_columns", options.drop_columns, names, where=inputs)
    names = [name for name in names if name not in dropped]
    if options.label_columns:
        label = OF_FLAGS
    given = ColumnRoles(
        main=main,
        others=tuple(others),
        label=label,
        split=options.split_column,
        group=group,
        key=options.key_column,
        keys=_key_columns(options.key_column, names),
        weight=options.weight_column,
        dropped=tuple(sorted(dropped)),
        split_map=tuple(inputs.split_map.items()),
    )
    given = dataclasses.replace(given, flags=_flags(options, given, names, inputs))
    for wanted in (main, label, given.split, group, given.weight, *given.keys, *given.others):
        if wanted is not None and wanted not in names:
            raise ConfigError(
                f"no column {wanted!r} in {inputs}{did_you_mean(wanted, names)}: it has"
                f" {quoted(names)}"
            )
    free = [name for name in names if name not in given.named()]
    splits = SPLITS if inputs.split_from == "auto" else ()
    roles = dataclasses.replace(
        given,
        main=main or _first(free, usual.main),
        label=label or _first(free, usual.labels),
        split=given.split or _first(free, splits),
    )
    if roles.weight is not None and roles.weight in roles.named():
        raise ConfigError(
            f"{option_name('weight_column', roles.weight)}: the column has another role (label,"
            " split, group or key): name another one"
        )
    for name in roles.user_columns(names):
        if name.startswith("__"):
            raise ConfigError(
                f"column {name!r} in {inputs} starts with two underscores, which is reserved for "
                "system columns: rename it"
            )
    if usual.alone and roles.main is None:
        rest = [name for name in roles.user_columns(names) if name not in of_path]
        roles = dataclasses.replace(roles, main=rest[0] if len(rest) == 1 else None)
    if options.label_type in (None, "class"):
        return roles
    if options.label_type == "none":
        return dataclasses.replace(roles, label=None)
    if roles.label is None:
        raise ConfigError(
            f"{option_name('label_type', options.label_type)}: no label column was found in"
            f" {inputs}: name it with {option_name('label_column')}"
        )
    return dataclasses.replace(roles, label=None, target=roles.label)


def _given(role: str, column: str | None, inputs: Inputs, in_path: str | None) -> str | None:
    """Return the column to which an option or a path gives a role; ConfigError if both do."""
    if column is not None and in_path is not None:
        text = getattr(inputs, f"{role}_from")
        raise ConfigError(
            f"{option_name(f'{role}_column', column)}: {option_name(f'{role}_from', text)} gives"
            f" the {role}: leave one of them out"
        )
    return column or in_path


def _flags(
    options: RowOptions, given: ColumnRoles, names: Sequence[str], inputs: Inputs
) -> tuple[str, ...]:
    """Return the columns of 0 and 1, one per class; patterns match no column with another role."""
    free = [name for name in names if name not in given.named() and name != given.weight]
    for name in options.label_columns:
        if name in names and name not in free:
            raise ConfigError(
                f"{option_name('label_columns', name)}: another option gives this column a role:"
                " leave one of them out"
            )
    return expand_names("label_columns", options.label_columns, free, where=inputs)


def _key_columns(given: str | None, names: Sequence[str]) -> tuple[str, ...]:
    """Return the key columns of the option; the name of a column may contain commas."""
    if given is None:
        return ()
    return (given,) if given in names else tuple(split_list(given))


def _first(names: Sequence[str], usual: Sequence[str]) -> str | None:
    """Return the column with the first of the usual names that exists, in any case."""
    by_name = {name.lower(): name for name in reversed(names)}
    return next((by_name[name] for name in usual if name in by_name), None)
