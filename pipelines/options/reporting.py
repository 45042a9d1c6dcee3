"""The options for what a job prints."""

from __future__ import annotations

import dataclasses

from recordmill.errors import ConfigError
from recordmill.pipelines.options.declaration import Group, option

RUN = Group(80, "Job")


@dataclasses.dataclass(frozen=True, kw_only=True)
class ReportConfig:
    """Options for what a job prints."""

    json: bool = option(
        False,
        group=RUN,
        help="With --dry-run: print how the input was understood, the plan, the number of rejects"
        " and the notes as JSON.",
    )

    def _check_report(self, *, dry_run: bool) -> None:
        if self.json and not dry_run:
            raise ConfigError("--json: prints the plan of --dry-run; add --dry-run")
