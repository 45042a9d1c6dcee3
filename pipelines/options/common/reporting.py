"""The options for what a job prints, and for the check of an existing dataset."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

from recordmill.options.declaration import Group, option

RUN = Group(80, "Job")
REPORT_HELP = (
    "Write a report on the dataset as one HTML page, OUT.report.html, beside the output folder OUT."
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Options for what a job prints, and for the check of an existing dataset."""

    HEADING: ClassVar[Group] = RUN

    json: bool = option(
        False,
        local=True,
        help="With --dry-run: print how the input was understood, the plan, the number of rejects"
        " and the notes as JSON.",
    )

    report: bool = option(
        False,
        local=True,
        help=REPORT_HELP,
    )
    verify: bool = option(
        False,
        local=True,
        help="If the output already holds this dataset, compare the contents of its files with the"
        " manifest, not just their sizes, and write damaged shards again.",
    )
