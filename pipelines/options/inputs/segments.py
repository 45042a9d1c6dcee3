"""Options of commands whose listings name segments of files."""

from __future__ import annotations

import dataclasses
from typing import ClassVar, Literal

from recordmill.options.declaration import Group, option
from recordmill.pipelines.options.common.paths import MEANING
from recordmill.pipelines.options.inputs.rows import FilesConfig

SEGMENT_COLUMNS = ("start_column", "end_column", "duration_column")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SegmentsConfig(FilesConfig):
    """Options of files, of which a listing may name segments."""

    HEADING: ClassVar[Group] = MEANING

    start_column: str | None = option(
        None,
        metavar="COLUMN",
        help="If the input is a listing: the column with the start of each segment.",
    )
    end_column: str | None = option(
        None,
        metavar="COLUMN",
        help="If the input is a listing: the column with the end of each segment.",
    )
    duration_column: str | None = option(
        None,
        metavar="COLUMN",
        help="If the input is a listing: the column with the duration of each segment, instead of"
        " its end.",
    )
    segment_unit: Literal["s", "ms"] | None = option(
        None,
        help="Unit of these columns: seconds (default), or milliseconds.",
    )
