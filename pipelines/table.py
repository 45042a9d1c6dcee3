"""Builds a balanced, shuffled, sharded TFRecord dataset from the columns of tables.

    recordmill table --input adult.csv --output out/ --label-column income --zscore age

The input is a file (CSV, TSV, JSONL, Parquet, Arrow, Avro, TFRecord), a glob pattern, or a folder
of files.
"""

from __future__ import annotations

import dataclasses
import sys

from recordmill.pipelines.jobs.duplicate_rules import same_content
from recordmill.pipelines.options.inputs.columns import ColumnsConfig, making, reading
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.rows.values.table_rows import TableRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableConfig(ColumnsConfig):
    """The options of `recordmill table`."""


def data_type(config: TableConfig) -> DataType:
    """Return the source, check, analysis and encoder of tables."""
    return DataType(
        name="table",
        source=TableRows(unlabelled=config.unlabelled, **reading(config)),
        duplicates=same_content(config),
        **making(config),
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["table", *sys.argv[1:]])
