"""The options that turn columns into features, shared by table and sensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.preprocessing import described
from recordmill.pipelines.options.common.statistics import STATISTICS
from recordmill.pipelines.options.inputs.rows import RowsConfig
from recordmill.pipelines.options.inputs.tfrecord_inputs import columns_of
from recordmill.profile import schema_rules
from recordmill.profile.schema_rules import SchemaRules
from recordmill.transforms.encoders.preprocessed import PreprocessedEncoder
from recordmill.transforms.encoders.table_options import TableOptions
from recordmill.transforms.encoders.tables import TableCheck, TableEncoder
from recordmill.transforms.model.data_type import Preprocessing
from recordmill.transforms.sources.rows.values.table_rows import TYPES
from recordmill.transforms.sources.tfrecords.known_inputs import Kind

TABLE = Group(30, "Features of columns", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnsConfig(RowsConfig):
    """Options for the types of columns, and for the features made of them."""

    types: Mapping[str, str] = option(
        {},
        group=TABLE,
        parse=values.by_column,
        repeat=True,
        metavar="COLUMN=TYPE,...",
        help=f"Types of columns: {', '.join(TYPES)}; rows with a value of another type are"
        " rejected. Default: the narrowest type that fits all values of the column.",
    )
    table: GroupValues[TableOptions] = option_group(TableOptions, group=TABLE, omit=("zscore_by",))
    statistics: bool = option(
        True,
        group=STATISTICS,
        shapes_bytes=True,
        help="Do not write statistics.pb, the statistics of the columns per split and class.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for column, name in self.types.items():
            if name not in TYPES:
                raise ConfigError(f"--types {column}={name}: expected one of {', '.join(TYPES)}")
        self.table.make()


def reading(config: ColumnsConfig, *, kind: Kind = "rows") -> dict[str, Any]:
    """Return the keyword arguments of a source of tables that say how files are read.

    kind: of the records, if the input is a dataset of recordmill.
    """
    rules.check(config, shape="values", where=config.inputs)
    expected = () if config.schema is None else _expected(schema_rules.load(config.schema))
    return {
        "input": config.inputs,
        "format": config.rows.make(),
        "types": tuple(config.types.items()),
        "expected": expected,
        "label_type": config.label_type,
        "worker_limits": config.worker_limits,
        "used": tuple(config.table.make().column_transforms()),
        **columns_of(config, kind=kind),
    }


def _expected(rules: SchemaRules) -> tuple[tuple[str, str], ...]:
    """Return the types that a schema gives to columns of text, as (column, type)."""
    names = {"INT": "int", "FLOAT": "float", "BYTES": "string"}
    return tuple(
        (name, names[one.type]) for name, one in rules.columns.items() if one.type is not None
    )


def making(
    config: ColumnsConfig, *, sequences: bool = False, not_steps: tuple[str, ...] = ()
) -> dict[str, Any]:
    """Return the keyword arguments of a `DataType` that make features of columns.

    sequences: write SequenceExamples, for windows. not_steps: columns of windows that are no steps.
    """
    unlabelled = config.unlabelled == "keep"
    options = config.table.make()
    if config.preprocessing_fn is not None:
        return {
            "check": TableCheck(options=options),
            "encoder": PreprocessedEncoder(unlabelled=unlabelled),
            "analysis": Preprocessing(function=config.preprocessing_fn),
            "shaping": {"preprocessing_fn": described(config.preprocessing_fn)},
        }
    encoder = TableEncoder(
        options=options, unlabelled=unlabelled, sequences=sequences, not_steps=not_steps
    )
    return {"check": encoder.row_check(), "encoder": encoder, "analysis": encoder.analysis}
