"""The options of files of rows: inputs of text, table and sensor, and listings of files."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import MEANING, CommonConfig
from recordmill.pipelines.options.declaration import Group, option, options_of
from recordmill.pipelines.options.selection import SELECTION
from recordmill.transforms.sources.row_formats.condition_syntax import parse_condition
from recordmill.transforms.sources.row_formats.row_format import RowFormat

ROWS = Group(25, "Rows and their format")
CUSTOM = Group(39, "Custom features")
_DEFAULT = RowFormat()


@dataclasses.dataclass(frozen=True, kw_only=True)
class DelimitedConfig(CommonConfig):
    """Options for CSV and TSV, as the input or as a listing of files."""

    delimiter: str | None = option(
        None,
        group=ROWS,
        shapes_bytes=True,
        metavar="CHARACTER",
        help="Character between the columns of CSV and TSV, such as ';' or tab. Default: a comma in"
        " CSV, a tab in TSV.",
    )
    columns: tuple[str, ...] = option(
        (),
        group=ROWS,
        shapes_bytes=True,
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Column names, for CSV and TSV without a header line.",
    )
    header: Literal["auto", "yes"] = option(
        _DEFAULT.header,
        group=ROWS,
        shapes_bytes=True,
        help="auto: the first row of CSV and TSV names the columns, and is an error if it looks"
        " like data; a file without a header needs --columns. yes: it names them in any case.",
    )
    quoting: Literal["auto", "on", "off"] = option(
        _DEFAULT.quoting,
        group=ROWS,
        shapes_bytes=True,
        help="on: double quotes enclose values in CSV and TSV. off: they are part of the value."
        " auto: on for CSV, off for TSV.",
    )
    escape: str = option(
        _DEFAULT.escape,
        group=ROWS,
        shapes_bytes=True,
        metavar="CHARACTER",
        help="Character in CSV and TSV that makes the next one part of the value, such as '\\' for"
        ' quotes that are written as \\".',
    )
    comment: str = option(
        _DEFAULT.comment,
        group=ROWS,
        shapes_bytes=True,
        metavar="CHARACTER",
        help="Skip lines of CSV and TSV that begin with this, such as '#'.",
    )
    trim: bool = option(
        _DEFAULT.trim,
        group=ROWS,
        shapes_bytes=True,
        help="Strip spaces around the values of CSV and TSV, and around the quotes of values.",
    )
    encoding: str = option(
        _DEFAULT.encoding,
        group=ROWS,
        shapes_bytes=True,
        metavar="NAME",
        help="Text encoding, such as cp1252 or utf-16, also of columns of bytes that are read as"
        " text; undecodable rows are rejected.",
    )
    skip_rows: int = option(
        _DEFAULT.skip_rows,
        group=ROWS,
        shapes_bytes=True,
        metavar="N",
        help="Skip this many lines at the start of each CSV or TSV file, before the header.",
    )
    decimal: Literal[".", ","] = option(
        _DEFAULT.decimal,
        group=ROWS,
        shapes_bytes=True,
        help="Decimal separator of numbers in CSV and TSV.",
    )
    missing: tuple[str, ...] = option(
        (),
        group=ROWS,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="[COLUMN=]VALUE,...",
        help="Values that stand for a missing value, such as '?' or -200, in all columns or in one;"
        " an empty value is always missing.",
    )
    where: str | None = option(
        None,
        group=SELECTION,
        shapes_bytes=True,
        metavar="CONDITION",
        help="Read only the rows for which a condition on their columns holds, such as"
        ' \'age >= 18 and country in ("DE", "FR")\'; comparisons with a missing value do not hold.',
    )

    weight_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Column with the weight of each record in training, a number of 0 or more; it becomes"
        " the feature weight.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.row_format()
        if self.where is not None:
            parse_condition(self.where)

    def given_format(self) -> tuple[str, ...]:
        """Return the names of the options for the format of rows that are given."""
        declared = options_of(type(self))
        names = (field.name for field in dataclasses.fields(DelimitedConfig))
        return tuple(
            name
            for name in names
            if declared[name].group == ROWS and getattr(self, name) != declared[name].default
        )

    def refuse_conflicts(self, needed: str, why: str) -> None:
        """Raise ConfigError if --conflicts is given without effect.

        needed: what gives keys that may repeat. why: other keys do not.
        """
        drops = "drop" in (self.dedup, self.near_duplicates)
        if self.conflicts != "reject" and not (drops and self.conflicts == "first"):
            remedy = " or --dedup drop" if self.conflicts == "first" else ""
            raise ConfigError(
                f"--conflicts {self.conflicts}: has no effect without {needed}{remedy}, because"
                f" {why}: add that, or leave the option out"
            )

    def refuse_facts_of_paths(self, what: str) -> None:
        """Raise ConfigError if --label-from or --group-from is given.

        what: has no facts in paths, such as "rows of listings".
        """
        for name, given in (("label", self.label_from != "top"), ("group", self.group_from)):
            if given:
                raise ConfigError(
                    f"--{name}-from {getattr(self, f'{name}_from')}: applies to files in folders"
                    f" and to the files of tables, not to {what}: leave it out, or use"
                    f" --{name}-column"
                )

    def row_format(self) -> RowFormat:
        """Return the format of the rows. Raises ConfigError if options contradict each other."""
        names = [field.name for field in dataclasses.fields(RowFormat)]
        return RowFormat(**{name: getattr(self, name) for name in names if hasattr(self, name)})


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsConfig(DelimitedConfig):
    """Options for the file format of the rows."""

    format: Literal[
        "auto", "csv", "tsv", "jsonl", "parquet", "arrow", "avro", "tfrecord", "lines"
    ] = option(
        _DEFAULT.format,
        group=ROWS,
        shapes_bytes=True,
        help="Format of the input files. auto: by their extensions. lines: one record per line.",
    )
    max_row_bytes: int = option(
        _DEFAULT.max_row_bytes,
        group=ROWS,
        shapes_bytes=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject longer rows, without loading them into memory.",
    )

    preprocessing_fn: str | None = option(
        None,
        group=CUSTOM,
        metavar="MODULE:FUNCTION",
        help="preprocessing_fn for tensorflow-transform that makes all features; its analyzers run"
        " on the split train.",
    )
    trust_transform: bool = option(
        False,
        group=CUSTOM,
        local=True,
        help="With --preprocessing-fn and --learned-from: run the TensorFlow model in that dataset."
        " It is a program with your rights, so pass this only if you trust its author.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.trust_transform and None in (self.preprocessing_fn, self.learned_from):
            raise ConfigError(
                "--trust-transform: has no effect without --preprocessing-fn and --learned-from"
            )
        if self.preprocessing_fn is not None and self.weight_column is not None:
            raise ConfigError(
                "--weight-column: cannot be combined with --preprocessing-fn, which makes all"
                " features: return the weight as one of them"
            )
        if self.key_column is None:
            self.refuse_conflicts("--key-column", "keys by content do not repeat")
