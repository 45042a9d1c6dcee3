"""Tables to a balanced, shuffled, verified TFRecord dataset of their columns.

    python -m recordmill table --input=adult.csv --output=out/ --label-column=income --zscore=age

The input is a file of rows (CSV, TSV, JSONL, Parquet, Arrow, Avro), a glob or a folder of them.
`recordmill table` is the same command.
"""

from __future__ import annotations

import dataclasses
import sys

from recordmill.pipelines.options.columns import ColumnsConfig, making, reading
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.rows.tables import TableRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableConfig(ColumnsConfig):
    """The options of `recordmill table`."""


def kind(config: TableConfig) -> DataType:
    """What tables put on the road."""
    return DataType(
        name="table",
        source=TableRows(unlabelled=config.unlabelled, **reading(config)),
        **making(config),
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import main

    sys.exit(main(["table", *sys.argv[1:]]))
