"""Options that change labels, and that select records by label, by key or up to a number."""

from __future__ import annotations

import csv
import dataclasses
import hashlib
import io
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import yaml

from recordmill.errors import ConfigError
from recordmill.option_checks import split_list
from recordmill.option_files import DELIMITERS, expect_plain_text, read_option_file
from recordmill.options import values
from recordmill.options.declaration import Group, option

if TYPE_CHECKING:
    from recordmill.transforms.model.label_rules import LabelRules

SELECTION = Group(23, "Labels and selection of records", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SelectionConfig:
    """Rules for labels, and the records to keep. They apply before splits are assigned."""

    HEADING: ClassVar[Group] = SELECTION

    label_type: Literal["class", "int", "float", "none"] | None = option(
        None,
        help="Type of the labels. class: classes. int, float: numbers to predict, in the feature"
        " label; there are no classes. none: a label column has no special role, and folders give"
        " no classes. Default: class, but decimal numbers or more than 50 integers in a column or"
        " an array are an error.",
    )
    label_columns: tuple[str, ...] = option(
        (),
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Columns of 0 and 1, one for each class, also by patterns such as 'is_*'. A record has"
        " the classes whose columns are 1; if that is one class in every row, it has that class.",
    )
    label_separator: str | None = option(
        None,
        metavar="TEXT",
        help="A record may have several classes: text between their names in the label column, such"
        " as '|'. Columns of lists in JSON lines and Parquet need no separator.",
    )
    label_bins: int | None = option(
        None,
        metavar="N",
        help="With --label-type int or float: --balance and --stratify take N bins of the number"
        " for classes, each with as many records as equal numbers allow. The number itself is"
        " written.",
    )
    label_map: tuple[str, ...] = option(
        (),
        shapes_bytes=False,
        parse=values.lists,
        show=values.show_lists,
        repeat=True,
        metavar="OLD=NEW,...|FILE",
        help="Rename classes, or join several into one; an empty new name leaves their records out."
        " FILE: a CSV file of old and new names, or YAML. May be repeated.",
    )
    fold_labels: bool = option(
        False,
        help="Join classes that differ only by case, surrounding spaces, Unicode form or"
        " invisible characters; their names become lower case.",
    )
    include_labels: tuple[str, ...] = option(
        (),
        parse=values.names,
        repeat=True,
        metavar="NAME,...",
        help="Keep only records of these classes.",
    )
    exclude_labels: tuple[str, ...] = option(
        (),
        parse=values.names,
        repeat=True,
        metavar="NAME,...",
        help="Leave out records of these classes.",
    )
    exclude_keys: str | None = option(
        None,
        shapes_bytes=False,
        metavar="FILE",
        help="Leave out the records whose keys are in this file, one per line.",
    )
    limit: int | None = option(
        None,
        help="Keep this many records, chosen by the hash of their keys, for a quick trial. A larger"
        " limit also keeps the records of a smaller one.",
    )
    limit_per_class: int | None = option(
        None,
        help="Keep this many records of each class, chosen in the same way, before --limit.",
    )

    @property
    def number_type(self) -> Literal["int", "float"] | None:
        """Type of the number to predict; None for classes."""
        return self.label_type if self.label_type in ("int", "float") else None

    def _check_selection(self) -> None:
        for name in ("limit", "limit_per_class"):
            value = getattr(self, name)
            if value is not None and value < 1:
                flag = name.replace("_", "-")
                raise ConfigError(f"--{flag}: expected 1 or more, got {value}")
        if both := sorted({*self.include_labels} & {*self.exclude_labels}):
            raise ConfigError(
                f"--exclude-labels {both[0]}: contradicts --include-labels; leave one out"
            )
        if self.label_separator is not None and not self.label_separator.strip():
            raise ConfigError(
                "--label-separator: expected a text such as '|' or ',', got"
                f" {self.label_separator!r}"
            )
        if self.label_bins is not None and self.label_bins < 2:
            raise ConfigError(f"--label-bins: expected 2 or more, got {self.label_bins}")

    def label_rules(self, **others: Any) -> LabelRules:
        """Return the rules for labels. others: further fields. Raises ConfigError."""
        # Only commands that read an input need this module.
        from recordmill.transforms.model.label_rules import LabelRules

        return LabelRules(
            fold=self.fold_labels,
            mapping=tuple(sorted(self.label_mapping().items())),
            included=self.include_labels,
            excluded=self.exclude_labels,
            **others,
        )

    def label_mapping(self) -> dict[str, str]:
        """Return {label: new label} of --label-map. Raises ConfigError."""
        mapping: dict[str, str] = {}
        for text in self.label_map:
            for old, new in _inline(text) if "=" in text else _pairs_of_file(text):
                if mapping.setdefault(old, new) != new:
                    raise ConfigError(
                        f"--label-map: expected one new name for {old!r}, got {mapping[old]!r} and"
                        f" {new!r}"
                    )
        return mapping

    def selection_shaping(self) -> dict[str, Any]:
        """Return the content of the files of these options, which shapes bytes. Raises ConfigError.

        Options that are not given are left out.
        """
        shaping: dict[str, Any] = {}
        if self.label_map:
            shaping["label_map"] = self.label_mapping()
        if self.exclude_keys is not None:
            content = read_option_file("--exclude-keys", self.exclude_keys)
            where = f"--exclude-keys {self.exclude_keys}"
            expect_plain_text(content, where, "one key per line", colons=True)
            shaping["exclude_keys"] = hashlib.sha256(content.encode()).hexdigest()
        return shaping


def _inline(text: str) -> list[tuple[str, str]]:
    pairs = []
    for part in split_list(text, trim=False):
        old, equals, new = part.rpartition("=")
        if not equals or not old.strip():
            raise ConfigError(f"--label-map: expected OLD=NEW,... or a file, got {text!r}")
        pairs.append((old, new))
    return pairs


def _pairs_of_file(path: str) -> list[tuple[str, str]]:
    content = read_option_file("--label-map", path)
    if path.lower().endswith((".yaml", ".yml", ".json")):  # JSON is YAML, too
        try:
            root = yaml.compose(content, Loader=yaml.BaseLoader)
        except yaml.YAMLError as error:
            raise ConfigError(f"--label-map {path}: {' '.join(str(error).split())}") from error
        except RecursionError as error:
            raise ConfigError(f"--label-map {path}: expected lines of `old: new`") from error
        entries = root.value if isinstance(root, yaml.MappingNode) else None
        if entries is None or not all(
            isinstance(node, yaml.ScalarNode) for entry in entries for node in entry
        ):
            raise ConfigError(f"--label-map {path}: expected lines of `old: new`")
        return [(old.value, new.value) for old, new in entries]
    expect_plain_text(content, f"--label-map {path}", "two columns, old and new")
    pairs = []
    rows: list[list[str]] = []
    try:
        for delimiter in DELIMITERS:
            rows = list(csv.reader(io.StringIO(content, newline=""), delimiter=delimiter))
            if {len(row) for row in rows if row} == {2}:
                break
        else:
            rows = list(csv.reader(io.StringIO(content, newline="")))
    except csv.Error as error:
        raise ConfigError(f"--label-map {path}: it is not CSV: {error}") from error
    for number, row in enumerate(rows, 1):
        if not row:
            continue
        if len(row) != 2:
            raise ConfigError(
                f"--label-map {path}: expected two columns, old and new, got {len(row)} in line"
                f" {number}"
            )
        if number > 1 or [name.strip().lower() for name in row] != ["old", "new"]:
            pairs.append((row[0], row[1]))
    return pairs
