"""The options about statistics and schemas, which every kind of data has."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options.declaration import Group, option

STATISTICS = Group(45, "Statistics and schema")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StatisticsConfig:
    """What is counted of the input, and what it has to be like."""

    statistics: bool = option(
        False,
        group=STATISTICS,
        shapes_bytes=True,
        help="Write statistics.pb: what the columns are like in each split and class.",
    )
    schema: str | None = option(
        None,
        group=STATISTICS,
        shapes_bytes=True,
        metavar="FILE",
        help="What the columns have to be like: a tensorflow_metadata Schema in text format.",
    )
    on_violation: Literal["reject", "fail", "keep"] = option(
        "reject",
        group=STATISTICS,
        shapes_bytes=True,
        help="What becomes of records that are out of the schema; fail: of the whole run.",
    )
    infer_schema: str | None = option(
        None,
        group=STATISTICS,
        metavar="FILE",
        help="Write a schema that the input keeps, to be edited, and no dataset.",
    )
    compare_with: str | None = option(
        None,
        group=STATISTICS,
        metavar="FOLDER",
        help="A dataset with statistics: say how far the new one is from it.",
    )

    def _check_statistics(self) -> None:
        """Raises ConfigError for options that cannot work together."""
        if self.schema is None and self.on_violation != "reject":
            raise ConfigError(f"--on-violation {self.on_violation}: says nothing without --schema")
        if self.infer_schema is not None and self.schema is not None:
            raise ConfigError("--infer-schema writes what --schema reads: leave one of them out")
        if self.compare_with is not None and not self.statistics:
            raise ConfigError("--compare-with compares statistics: add --statistics")
