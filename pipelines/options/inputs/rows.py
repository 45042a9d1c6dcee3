"""The options of files of rows: inputs of text, table and sensor, and listings of files."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from recordmill.options import values
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.options.common.config import CommonConfig
from recordmill.pipelines.options.common.paths import MEANING
from recordmill.pipelines.options.common.selection import SELECTION
from recordmill.transforms.sources.row_formats.reading.row_format import RowFormat
from recordmill.transforms.sources.row_formats.where.condition_syntax import parse_condition

ROWS = Group(25, "Rows and their format", shapes_bytes=True)
CUSTOM = Group(39, "Custom features")


@dataclasses.dataclass(frozen=True, kw_only=True)
class DelimitedConfig(CommonConfig):
    """Options for CSV and TSV, as the input or as a listing of files."""

    rows: GroupValues[RowFormat] = option_group(
        RowFormat, group=ROWS, omit=("format", "max_row_bytes")
    )
    where: str | None = option(
        None,
        group=SELECTION,
        metavar="CONDITION",
        help="Read only the rows for which a condition on their columns holds, such as"
        ' \'age >= 18 and country in ("DE", "FR")\'; comparisons with a missing value do not hold.',
    )

    weight_column: str | None = option(
        None,
        group=MEANING,
        metavar="COLUMN",
        help="Column with the weight of each record in training, a number of 0 or more; it becomes"
        " the feature weight.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.rows.make()
        if self.where is not None:
            parse_condition(self.where)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ListingConfig(DelimitedConfig):
    """Options of listings, which are tables that name files."""

    HEADING: ClassVar[Group] = MEANING

    path_column: str | None = option(
        None,
        metavar="COLUMN",
        help="If the input is a listing: the column with the path of each record's file.",
    )
    path_template: str | None = option(
        None,
        metavar="TEMPLATE",
        help="If the input is a listing: the path of each record's file, with columns in braces,"
        " such as 'fold{fold}/{slice_file_name}', or '{id}.jpg' for ids without extension.",
    )
    input_root: str | None = option(
        None,
        shapes_bytes=False,
        metavar="FOLDER",
        help="Folder or archive (.tar, .zip) that the paths of a listing are relative to. Default:"
        " the listing's folder.",
    )
    confine: bool = option(
        True,
        shapes_bytes=False,
        help="Accept local paths outside of --input-root, or, in tables that hold files, outside of"
        " the folder of the table. By default rows with such paths are rejected.",
    )
    allow_store: tuple[str, ...] = option(
        (),
        shapes_bytes=False,
        parse=values.each(str),
        repeat=True,
        metavar="URI",
        help="Object store that the rows of a listing may name, such as s3://bucket?region=eu-west-1,"
        " in addition to those of the listing and of --input-root. May be repeated.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class FilesConfig(ListingConfig):
    """Options of files, such as images, that tables name or hold."""

    HEADING: ClassVar[Group] = MEANING

    bytes_column: str | None = option(
        None,
        after="path_template",
        metavar="COLUMN",
        help="Column, or feature of TFRecord files, with the bytes of each record's file; in"
        " tables also with structs of bytes and a path, or with base64 text. Default: the column of"
        " bytes, or a feature with a usual name, such as image/encoded.",
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowsConfig(DelimitedConfig):
    """Options for the file format of the rows."""

    rows: GroupValues[RowFormat] = option_group(RowFormat, group=ROWS)

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
