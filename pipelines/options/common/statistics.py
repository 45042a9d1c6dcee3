"""The options for statistics and schemas, common to all data types."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import ClassVar, Literal

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
