"""The options for statistics and schemas, common to all data types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import Group, option

STATISTICS = Group(45, "Statistics and schema")


@dataclasses.dataclass(frozen=True, kw_only=True)
class StatisticsConfig:
    """Options for statistics of the input, and for the schema that it has to match."""

    HEADING: ClassVar[Group] = STATISTICS

    statistics: bool = option(
        False,
        shapes_bytes=True,
        help="Write statistics.pb: statistics of the columns, per split and class.",
    )
    schema: str | None = option(
        None,
        shapes_bytes=True,
        metavar="FILE",
        help="Schema that the columns have to match: a tensorflow_metadata Schema in text format.",
    )
    on_violation: Literal["reject", "fail", "keep"] = option(
        "reject",
        shapes_bytes=True,
        help="Reject records that violate the schema, fail the whole run, or keep and count them.",
    )
    infer_schema: str | None = option(
        None,
        local=True,
        metavar="FILE",
        help="Infer a schema from the input, write it to this file, and write no dataset.",
    )
    compare_with: str | None = option(
        None,
        metavar="FOLDER",
        help="Report the drift from this earlier dataset; both datasets need statistics. Default:"
        " the dataset of --learned-from.",
    )
    max_drift: Mapping[str, float] = option(
        {},
        parse=values.drift_limits,
        show=values.show_drift_limits,
        repeat=True,
        metavar="[COLUMN=]X,...",
        help="Fail, and publish nothing, if the drift of a column, or of this one, from the"
        " dataset of --compare-with or --learned-from is larger than X, 0 to 1, or cannot be"
        " computed; 1 allows any drift.",
    )
    learned_from: str | None = option(
        None,
        metavar="FOLDER",
        help="Learn nothing: take vocabularies, means, buckets, classes and types of columns from"
        " this earlier dataset, which was made with the same options for features.",
    )

    def _check_statistics(self) -> None:
        """Raise ConfigError for options that contradict each other."""
        if self.schema is None and self.on_violation != "reject":
            raise ConfigError(f"--on-violation {self.on_violation}: has no effect without --schema")
        if self.infer_schema is not None and self.schema is not None:
            raise ConfigError("--infer-schema writes what --schema reads: leave one of them out")
        if self.compare_with is not None and not self.statistics:
            raise ConfigError("--compare-with compares statistics: add --statistics")
        if self.learned_from is not None and self.infer_schema is not None:
            raise ConfigError(
                "--infer-schema writes no dataset, and --learned-from would have no effect: leave"
                " one of them out"
            )
        if not self.max_drift:
            return
        if self.compare_with is None and self.learned_from is None:
            raise ConfigError(
                "--max-drift: has no effect without --compare-with or --learned-from, which name"
                " the dataset to compare with"
            )
        if not self.statistics:
            raise ConfigError("--max-drift compares statistics: add --statistics")
