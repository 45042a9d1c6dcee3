"""Tables to a balanced, shuffled, verified TFRecord dataset of their columns.

    python -m pipelines.table --input=adult.csv --output=out/ --label-column=income --zscore=age

The input is a file of rows (CSV, TSV, JSONL, Parquet, Arrow, Avro), a glob or a folder of them.
`recordmill table` is the same command.
"""

from __future__ import annotations

import dataclasses
import sys

from pipelines.columns import ColumnsConfig, making, reading
from transforms.kind import Kind
from transforms.sources.tables import TableRows


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableConfig(ColumnsConfig):
    """The options of `recordmill table`."""


def kind(config: TableConfig) -> Kind:
    """What tables put on the road."""
    return Kind(
        name="table",
        source=TableRows(unlabelled=config.unlabelled, **reading(config)),
        **making(config),
    )


if __name__ == "__main__":
    from pipelines.cli import main

    sys.exit(main(["table", *sys.argv[1:]]))
