"""The options of inputs that are rows, which text and tables share."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import CommonConfig
from recordmill.pipelines.options.declaration import Group, option
from recordmill.transforms.sources.row_formats.row_format import RowFormat

ROWS = Group(25, "Files of rows")
YOURS = Group(39, "A function of your own")
_DEFAULT = RowFormat()


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsConfig(CommonConfig):
    """How the rows of the input are written."""

    format: Literal["auto", "csv", "tsv", "jsonl", "parquet", "arrow", "avro", "lines"] = option(
        _DEFAULT.format,
        group=ROWS,
        shapes_bytes=True,
        help="What the input's files are; auto goes by their extensions. lines: a record per line.",
    )
    delimiter: str | None = option(
        None,
        group=ROWS,
        shapes_bytes=True,
        metavar="CHARACTER",
        help="Between the columns of CSV and TSV, such as ';' or tab. Default: a comma in CSV, a"
        " tab in TSV.",
    )
    columns: tuple[str, ...] = option(
        (),
        group=ROWS,
        shapes_bytes=True,
        parse=values.ordered_names,
        repeat=True,
        metavar="COLUMN,...",
        help="Names of the columns, in CSV and TSV without a header.",
    )
    quoting: Literal["auto", "on", "off"] = option(
        _DEFAULT.quoting,
        group=ROWS,
        shapes_bytes=True,
        help="Whether quotes hold a value together, or are data as all else; auto: on in CSV, off"
        " in TSV.",
    )
    comment: str = option(
        _DEFAULT.comment,
        group=ROWS,
        shapes_bytes=True,
        metavar="CHARACTER",
        help="What lines of CSV and TSV begin with that are no rows, such as '#'.",
    )
    decimal: Literal[".", ","] = option(
        _DEFAULT.decimal,
        group=ROWS,
        shapes_bytes=True,
        help="What stands before the decimals of numbers in CSV and TSV.",
    )
    missing: tuple[str, ...] = option(
        (),
        group=ROWS,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="[COLUMN=]VALUE,...",
        help="How values say that there is none, such as '?' or -200; an empty one always does.",
    )
    trim: bool = option(
        _DEFAULT.trim,
        group=ROWS,
        shapes_bytes=True,
        help="Leave out spaces around the values of CSV and TSV.",
    )
    encoding: str = option(
        _DEFAULT.encoding,
        group=ROWS,
        shapes_bytes=True,
        metavar="NAME",
        help="Of the text, such as latin-1 or utf-16. What is none in it is rejected.",
    )
    max_row_bytes: int = option(
        _DEFAULT.max_row_bytes,
        group=ROWS,
        shapes_bytes=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject longer rows, without holding them in memory.",
    )

    preprocessing_fn: str | None = option(
        None,
        group=YOURS,
        metavar="MODULE:FUNCTION",
        help="Make all features by a function of yours for tensorflow-transform, which learns from"
        " train what it needs.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.row_format()

    def row_format(self) -> RowFormat:
        """How the rows are written. Raises ConfigError."""
        names = [field.name for field in dataclasses.fields(RowFormat)]
        return RowFormat(**{name: getattr(self, name) for name in names})
