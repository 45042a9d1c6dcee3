"""Options of commands whose listings name segments of files."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options.config import MEANING
from recordmill.pipelines.options.declaration import option
from recordmill.pipelines.options.file_inputs import FilesConfig

SEGMENT_COLUMNS = ("start_column", "end_column")


@dataclasses.dataclass(frozen=True, kw_only=True)
class SegmentsConfig(FilesConfig):
    """Options of files, of which a listing may name segments."""

    start_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="If the input is a listing: the column with the start of each segment.",
    )
    end_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="If the input is a listing: the column with the end of each segment.",
    )
    segment_unit: Literal["s", "ms"] | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        help="Unit of these columns: seconds (default), or milliseconds.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.segment_unit is not None and not (self.start_column or self.end_column):
            raise ConfigError(
                "--segment-unit: has no effect without --start-column or --end-column"
            )
