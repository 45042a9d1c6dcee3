"""Facts about an input as a whole, which a scan learns in addition to its rows."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Mapping, Sequence

# Names of the index columns that pandas writes; the name may be empty.
_PANDAS_INDEX = re.compile(r"(__index_level_\d+__)?")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnRoles:
    """Names of the columns with a role.

    Attributes:
      main: Column that records are made of, such as a path or a text.
      label: Column of classes.
      target: Column of numbers to predict, which are also values of the records.
      split: Column of splits.
      group: Column of groups.
      key: Column of keys, or several with commas between them.
      keys: Names of the columns in `key`.
      others: Further columns that the source converts, such as times.
      dropped: Columns to ignore, or objects to ignore with all columns inside.
      labels: Column of lists of labels, instead of `label`.
      separator: Text between the labels in the column `label`, if it may hold several.
      weight: Column of weights, which are also values of the records.
      flags: Columns of 0 and 1, one per class; `label` or `labels` then names no column of the
        files.
      renames: (text, label or None) of the labels with another spelling.
      split_map: (value, split) of the values in `split`; empty if they are names of splits.
    """

    main: str | None = None
    label: str | None = None
    target: str | None = None
    split: str | None = None
    group: str | None = None
    key: str | None = None
    keys: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    labels: str | None = None
    separator: str | None = None
    weight: str | None = None
    flags: tuple[str, ...] = ()
    renames: tuple[tuple[str, str | None], ...] = ()
    split_map: tuple[tuple[str, str], ...] = ()

    @property
    def classes(self) -> str | None:
        """The column of classes, one or several per row."""
        return self.labels or self.label

    def named(self) -> set[str]:
        """Return the names of the columns that are read as text because of their roles."""
        single = (self.main, self.label, self.split, self.group)
        return {name for name in (*single, *self.keys, *self.others, *self.flags) if name}

    def user_columns(self, names: Sequence[str]) -> list[str]:
        """Return the columns without a role, which become values of the records."""
        others = self.named().union(self.dropped, {self.labels})
        return [n for n in names if n not in others and not _PANDAS_INDEX.fullmatch(n)]


@dataclasses.dataclass(frozen=True, kw_only=True)
class InputFacts:
    """Facts about an input as a whole, as far as a scan has learned them.

    Attributes:
      split_source: Part of the input that assigns records to splits, for messages.
      split_problem: Why names of splits in paths are ambiguous; an error unless a column gives the
        splits.
      split_hints: Remarks on names of splits in paths that no rule uses, for notes.
      partitions: Keys of folders KEY=VALUE, without the key of the splits.
      labelled: Whether paths give labels.
      roles: Columns of a listing, or features of TFRecords, that have a role.
      labels: Class names in the order of their numbers; None if they follow from the rows.
      class_numbers: {class: number in the input}; empty if the input numbers no classes.
    """

    split_source: str | None = None
    split_problem: str | None = None
    split_hints: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    labelled: bool = False
    roles: ColumnRoles | None = None
    labels: tuple[str, ...] | None = None
    class_numbers: Mapping[str, int] = dataclasses.field(default_factory=dict)

    def plus(self, later: InputFacts) -> InputFacts:
        """Return these facts, updated with those of a later part of the listing."""
        if later == NO_FACTS:
            return self
        learned = {
            name: value for name, value in vars(later).items() if value != getattr(NO_FACTS, name)
        }
        return dataclasses.replace(self, **learned)

    def split_source_of(self, *, presplit: bool) -> str | None:
        """Return the part of the input that assigns rows to splits, for messages; None without one.

        Args:
          presplit: Whether the input assigns any row to a split.
        """
        return (self.split_source or "the input") if presplit else None


NO_FACTS = InputFacts()
