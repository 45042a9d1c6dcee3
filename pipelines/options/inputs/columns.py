"""The options that turn columns into features, shared by table and sensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import (
    Group,
    GroupValues,
    option,
    option_group,
    shaping,
    value_of,
)
from recordmill.pipelines.options.common import rules
from recordmill.pipelines.options.common.preprocessing import described
from recordmill.pipelines.options.common.statistics import STATISTICS
from recordmill.pipelines.options.inputs.rows import RowsConfig
from recordmill.pipelines.options.inputs.tfrecord_inputs import columns_of
from recordmill.profile import schema_rules
from recordmill.profile.schema_rules import SchemaRules
from recordmill.transforms.encoders.preprocessed import PreprocessedEncoder
from recordmill.transforms.encoders.table_options import ColumnTransform, TableOptions
from recordmill.transforms.encoders.tables import TableCheck, TableEncoder
from recordmill.transforms.model.data_type import DataType, Preprocessing
from recordmill.transforms.sources.row_formats.values.nested import expand_fields, is_pattern
from recordmill.transforms.sources.rows.values.table_rows import TYPES
from recordmill.transforms.sources.tfrecords.known_inputs import Kind
from recordmill.transforms.windowing.window_layout import AHEAD

if TYPE_CHECKING:
    import pyarrow as pa

# Options whose values are names of columns, and those of final steps, of which a column has one.
_LAST = tuple(last.replace("-", "_") for last, _ in TableOptions().lasts())
_OF_COLUMNS = (*_LAST, "indicator", "impute", "clip", "log")

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

    def for_columns(
        self, fields: Sequence[pa.Field], data_type: DataType
    ) -> tuple[Mapping[str, Any], DataType]:
        table = with_columns(self.table, fields, where=self.inputs)
        if table is self.table:
            return {}, data_type
        config = dataclasses.replace(self, table=table)
        windows = data_type.windows
        made = making(
            config,
            sequences=value_of(config, "sequence_example", False),
            not_steps=() if windows is None else (AHEAD,),
        )
        if windows is not None:
            windows = dataclasses.replace(windows, scaled=scaled_by_row(table.make()))
        options = {name: one for name, one in shaping(config).items() if name in _OF_COLUMNS}
        return options, dataclasses.replace(data_type, windows=windows, **made)


def with_columns(
    table: GroupValues[TableOptions], fields: Sequence[pa.Field], *, where: object
) -> GroupValues[TableOptions]:
    """Return transforms with columns in place of patterns; the same if there are no patterns.

    A name has precedence over patterns: patterns match no column that an option of the same kind
    names, such as one of the final steps.

    Raises:
      ConfigError: A pattern matches no column, or several that an option gives other values.
    """
    given = {name: value for name, value in table.values.items() if value and name in _OF_COLUMNS}
    names = {field.name for field in fields}
    if not any(is_pattern(one) and one not in names for value in given.values() for one in value):
        return table
    named = {one for name in _LAST for one in given.get(name, ()) if one in names}
    changed: dict[str, Any] = {}
    for name, value in given.items():
        taken = named if name in _LAST else {one for one in value if one in names}
        free = [field for field in fields if field.name not in taken]
        found: dict[str, Any] = {}
        for one in value:
            some: tuple[str, ...] = (one,)
            if is_pattern(one) and one not in names:
                some = expand_fields(name, [one], free, where=where)
            both = sorted(found.keys() & {*some})
            if both and isinstance(value, Mapping) and found[both[0]] != value[one]:
                raise ConfigError(
                    f"{option_name(name)}: {one!r} and another pattern match the column"
                    f" {both[0]!r}, with other values: name the column itself, too"
                )
            found |= dict.fromkeys(some, value[one] if isinstance(value, Mapping) else None)
        columns = dict(sorted(found.items()))
        changed[name] = columns if isinstance(value, Mapping) else tuple(columns)
    return dataclasses.replace(table, values={**table.values, **changed})


def scaled_by_row(options: TableOptions) -> tuple[ColumnTransform, ...]:
    """Return the transforms with the mean and the scale of a series or of a window."""
    return tuple(one for one in options.column_transforms().values() if one.by is not None)


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
