"""Options of commands whose listings name segments of files."""

from __future__ import annotations

import dataclasses

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
        help="If the input is a listing: the column with the start of each segment, in seconds.",
    )
    end_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="If the input is a listing: the column with the end of each segment, in seconds.",
    )
