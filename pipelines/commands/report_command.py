"""The command `recordmill report`: one HTML file that shows a finished dataset.

It raises ConfigError for wrong usage and RunError if there is no readable dataset.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Sequence

from recordmill.errors import RunError
from recordmill.options.declaration import Group, option
from recordmill.pipelines.commands.dataset_options import ComparedDatasetConfig
from recordmill.pipelines.earlier.report_file import write_report
from recordmill.pipelines.options.arguments.command_line import parse_command
from recordmill.profile.statistics_file import parse_compared
from recordmill.storage.files import Location, shown

_OUTPUT = Group(20, "Output")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportPageConfig(ComparedDatasetConfig):
    """Options of `recordmill report`."""

    output: str | None = option(
        None,
        group=_OUTPUT,
        metavar="FILE",
        help="HTML file to write, replaced if it exists; default: FOLDER.report.html.",
    )
    local_files: bool = option(
        False,
        group=_OUTPUT,
        help="Also show paths of local files that job.json and rejects.jsonl name, and thumbnails"
        " of rejected images. They are read from this machine: check the page before you share it,"
        " and do not pass this for a dataset that you do not trust.",
    )
    open: bool = option(False, group=_OUTPUT, help="Open the report in the default browser.")


def report_main(argv: Sequence[str]) -> int:
    """Writes one HTML file that shows a dataset: its counts, and a sample of its records.

    Example:
      recordmill report --dataset out --open
    """
    config = parse_command(ReportPageConfig, argv, report_main)
    dataset = Location.parse(config.dataset.rstrip("/") or "/")
    try:
        written = write_report(
            dataset,
            output=config.output,
            compared=parse_compared(config.dataset, config.compare_with),
            other=config.compare_with,
            local_files=config.local_files,
        )
    except RunError as error:
        raise RunError(f"no report was written: {error}") from error
    print(f"The report is in {shown(written)}")
    if config.open:
        import webbrowser

        is_local = written.is_local
        webbrowser.open(
            pathlib.Path(written.local_path).absolute().as_uri() if is_local else str(written)
        )
    return 0
