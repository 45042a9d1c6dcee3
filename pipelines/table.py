"""Builds a balanced, shuffled, sharded TFRecord dataset from the columns of tables.

    recordmill table --input adult.csv --output out/ --label-column income --zscore age

The input is a file (CSV, TSV, JSONL, Parquet, Arrow, Avro, TFRecord), a glob pattern, or a folder
of files.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping

from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.pipelines.jobs.duplicate_rules import same_content
from recordmill.pipelines.options.inputs.columns import TABLE, ColumnsConfig, making, reading
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.rows.values.table_rows import TableRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableConfig(ColumnsConfig):
    """The options of `recordmill table`."""

    time_format: Mapping[str, str] = option(
        {},
        group=TABLE,
        after="types",
        parse=values.by_column,
        repeat=True,
        metavar="COLUMN=FORMAT,...",
        help="Formats of the dates and times in columns, as for strptime, such as %d.%m.%Y:"
        " values become dates, or times if the format has a time of day. Rows with other values are"
        " rejected.",
    )


def data_type(config: TableConfig) -> DataType:
    """Return the source, check, analysis and encoder of tables."""
    return DataType(
        name="table",
        source=TableRows(
            unlabelled=config.unlabelled,
            time_formats=tuple(config.time_format.items()),
            **reading(config),
        ),
        duplicates=same_content(config),
        **making(config),
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["table", *sys.argv[1:]])
