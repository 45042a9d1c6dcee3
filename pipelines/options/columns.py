"""The options that turn columns into features, shared by table and sensor."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.declaration import Group, check_offered, option
from recordmill.pipelines.options.preprocessing import described, refuse_features
from recordmill.pipelines.options.rows import RowsConfig
from recordmill.pipelines.options.statistics import STATISTICS
from recordmill.pipelines.options.tfrecord_inputs import columns_of
from recordmill.profile import schema_rules
from recordmill.profile.schema_rules import SchemaRules
from recordmill.transforms.encoders.preprocessed import PreprocessedEncoder
from recordmill.transforms.encoders.table_options import TableOptions, parts_of
from recordmill.transforms.encoders.tables import TableCheck, TableEncoder
from recordmill.transforms.model.data_type import Preprocessing
from recordmill.transforms.sources.rows.table_rows import TYPES
from recordmill.transforms.sources.tfrecords.known_inputs import Kind

TABLE = Group(30, "Features of columns")
_DEFAULT = TableOptions()
_OF_WINDOWS = "zscore_by"  # an option of windows alone
_SHAPES = [field.name for field in dataclasses.fields(TableOptions) if field.name != _OF_WINDOWS]


def _columns(help_text: str) -> Any:
    return option(
        (),
        group=TABLE,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="COLUMN,...",
        help=help_text,
    )


def _by_column(metavar: str, help_text: str) -> Any:
    return option(
        {},
        group=TABLE,
        shapes_bytes=True,
        parse=values.by_column,
        repeat=True,
        metavar=metavar,
        help=help_text,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnsConfig(RowsConfig):
    """Options for the types of columns, and for the features made of them."""

    types: Mapping[str, str] = _by_column(
        "COLUMN=TYPE,...",
        f"Types of columns: {', '.join(TYPES)}; rows with a value of another type are rejected."
        " Default: the narrowest type that fits all values of the column.",
    )
    indicator: tuple[str, ...] = _columns("Add the feature COLUMN/missing: 1 if there is no value.")
    impute: Mapping[str, str] = _by_column(
        "COLUMN=VALUE,...", "Fill missing values with the mean, the median, or this value."
    )
    clip: Mapping[str, str] = _by_column("COLUMN=MIN:MAX,...", "Clip numbers to this range.")
    log: tuple[str, ...] = _columns("Replace x by ln(1 + x).")
    zscore: tuple[str, ...] = _columns(
        "Subtract the mean and divide by the standard deviation, both of train."
    )
    minmax: tuple[str, ...] = _columns("Scale the minimum of train to 0 and its maximum to 1.")
    bucketize: Mapping[str, str] = _by_column(
        "COLUMN=N,...", "Replace numbers by the index of one of N quantile buckets of train."
    )
    one_hot: tuple[str, ...] = _columns("One-hot encode the values that occur in train.")
    vocabulary: tuple[str, ...] = _columns("Replace values by ids, learned from train.")
    hash: Mapping[str, str] = _by_column(
        "COLUMN=N,...", "Replace values by one of N ids, by their hash."
    )
    date_parts: Mapping[str, str] = _by_column(
        "COLUMN=PART+PART,...",
        "Split dates and timestamps into year, month, day, weekday (Monday is 1), hour, minute,"
        " second.",
    )
    time_zone: str | None = option(
        None,
        group=TABLE,
        shapes_bytes=True,
        metavar="ZONE",
        help="With --date-parts: split timestamps by the clock of this time zone, such as"
        " Europe/Berlin. Timestamps without a time zone are UTC.",
    )
    statistics: bool = option(
        True,
        group=STATISTICS,
        shapes_bytes=True,
        help="Do not write statistics.pb, the statistics of the columns per split and class.",
    )
    vocab_size: int = option(
        _DEFAULT.vocab_size,
        group=TABLE,
        shapes_bytes=True,
        help="Maximum number of values to learn per column; the most frequent are kept.",
    )
    min_frequency: int = option(
        _DEFAULT.min_frequency,
        group=TABLE,
        shapes_bytes=True,
        help="Learn only values that occur at least this often in train.",
    )
    oov_buckets: int = option(
        _DEFAULT.oov_buckets,
        group=TABLE,
        shapes_bytes=True,
        help="Number of ids that out-of-vocabulary values share, by their hash.",
    )

    def __post_init__(self) -> None:
        check_offered(self)
        super().__post_init__()
        for column, name in self.types.items():
            if name not in TYPES:
                raise ConfigError(f"--types {column}={name}: expected one of {', '.join(TYPES)}")
        for name in ("vocab_size", "min_frequency", "oov_buckets"):
            learning = ("vocabulary",) if name == "oov_buckets" else ("vocabulary", "one_hot")
            is_given = getattr(self, name) != getattr(_DEFAULT, name)
            if is_given and not any(getattr(self, other) for other in learning):
                needed = " or ".join(f"--{other.replace('_', '-')}" for other in learning)
                raise ConfigError(f"--{name.replace('_', '-')}: has no effect without {needed}")
        self.table_options()
        if self.preprocessing_fn is not None:
            refuse_features(self, _SHAPES)

    def table_options(self) -> TableOptions:
        """Return the features to make of columns. Raises ConfigError for invalid options."""
        given = {name: getattr(self, name) for name in _SHAPES}
        return table_options(given | {_OF_WINDOWS: getattr(self, _OF_WINDOWS, None)})


def table_options(given: Mapping[str, Any]) -> TableOptions:
    """Return the options for columns, from a config's fields or the options of a manifest.

    Raises:
      ConfigError: a value is invalid, or two options contradict each other.
    """
    lists = ("indicator", "log", "zscore", "minmax", "one_hot", "vocabulary")
    return TableOptions(
        bucketize=_numbers("--bucketize", given["bucketize"]),
        hash=_numbers("--hash", given["hash"]),
        clip=_bounds(given["clip"]),
        impute=tuple(given["impute"].items()),
        date_parts=tuple((name, parts_of(text)) for name, text in given["date_parts"].items()),
        time_zone=given.get("time_zone"),
        zscore_by=given.get(_OF_WINDOWS),
        vocab_size=given["vocab_size"],
        min_frequency=given["min_frequency"],
        oov_buckets=given["oov_buckets"],
        **{name: tuple(given[name]) for name in lists},
    )


def reading(config: ColumnsConfig, *, kind: Kind = "rows") -> dict[str, Any]:
    """Return the keyword arguments of a source of tables that say how files are read.

    kind: of the records, if the input is a dataset of recordmill.
    """
    expected = () if config.schema is None else _expected(schema_rules.load(config.schema))
    return {
        "input": config.inputs,
        "format": config.row_format(),
        "types": tuple(config.types.items()),
        "expected": expected,
        "label_type": config.label_type,
        "worker_limits": config.worker_limits,
        "used": tuple(config.table_options().column_transforms()),
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
    options = config.table_options()
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


def _numbers(flag: str, given: Mapping[str, str]) -> tuple[tuple[str, int], ...]:
    found = []
    for column, text in given.items():
        try:
            found.append((column, values.whole_number(text)))
        except ValueError as error:
            raise ConfigError(f"{flag} {column}={text}: {error}") from error
    return tuple(found)


def _bounds(given: Mapping[str, str]) -> tuple[tuple[str, float, float], ...]:
    bounds = []
    for column, text in given.items():
        least, colon, most = text.partition(":")
        try:
            bounds.append((column, float(least or "-inf"), float(most or "inf")))
        except ValueError:
            colon = ""
        if not colon:
            raise ConfigError(f"--clip {column}={text}: expected MIN:MAX, such as 0:100")
    return tuple(bounds)
