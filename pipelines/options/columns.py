"""The options of what becomes of columns, which tables and sensor series share."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import COLUMNS
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.preprocessing import described, refuse_features
from recordmill.pipelines.options.rows import RowsConfig
from recordmill.pipelines.options.statistics import STATISTICS
from recordmill.profile import schema_rules
from recordmill.profile.schema_rules import Rules
from recordmill.transforms.encoders.preprocessed import PreprocessedEncoder
from recordmill.transforms.encoders.table_learning import TableAnalysis
from recordmill.transforms.encoders.table_options import TableOptions, parts_of
from recordmill.transforms.encoders.tables import TableCheck, TableEncoder
from recordmill.transforms.model.data_type import Preprocessing
from recordmill.transforms.sources.rows.tables import TYPES

TABLE = Group(30, "Columns")
_DEFAULT = TableOptions()
_SHAPES = [field.name for field in dataclasses.fields(TableOptions)]


def _columns(told: str) -> Any:
    return option(
        (),
        group=TABLE,
        shapes_bytes=True,
        parse=values.names,
        repeat=True,
        metavar="COLUMN,...",
        help=told,
    )


def _by_column(metavar: str, told: str) -> Any:
    return option(
        {},
        group=TABLE,
        shapes_bytes=True,
        parse=values.by_column,
        repeat=True,
        metavar=metavar,
        help=told,
    )


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnsConfig(RowsConfig):
    """What columns are, and what becomes of them."""

    types: Mapping[str, str] = _by_column(
        "COLUMN=TYPE,...",
        f"What columns are, of {', '.join(TYPES)}; a value that is none is rejected. Default: what"
        " all values of the column can be.",
    )
    indicator: tuple[str, ...] = _columns("Add COLUMN/missing: 1 where there was no value.")
    impute: Mapping[str, str] = _by_column(
        "COLUMN=VALUE,...", "What stands where there is no value: mean, median, or this one."
    )
    clip: Mapping[str, str] = _by_column(
        "COLUMN=LEAST:MOST,...", "Numbers below or above become these."
    )
    log: tuple[str, ...] = _columns("Take ln(1 + x).")
    zscore: tuple[str, ...] = _columns("Subtract the mean of train, divide by its deviation.")
    minmax: tuple[str, ...] = _columns("Bring the least of train to 0, the most to 1.")
    bucketize: Mapping[str, str] = _by_column(
        "COLUMN=N,...", "The number of one of N buckets, which hold equally many of train."
    )
    one_hot: tuple[str, ...] = _columns("A number per value of train, 1 for that of the record.")
    vocabulary: tuple[str, ...] = _columns("The id of the value, learned from train.")
    hash: Mapping[str, str] = _by_column("COLUMN=N,...", "One of N ids, by the value's hash.")
    date_parts: Mapping[str, str] = _by_column(
        "COLUMN=PART+PART,...",
        "Of dates and timestamps year, month, day, weekday (Monday is 1), hour, minute, second.",
    )
    statistics: bool = option(
        True,
        group=STATISTICS,
        shapes_bytes=True,
        help="Write no statistics.pb: what the columns are like in each split and class.",
    )
    vocab_size: int = option(
        _DEFAULT.vocab_size,
        group=TABLE,
        shapes_bytes=True,
        help="Values that are learned of a column, at most: the most frequent.",
    )
    min_frequency: int = option(
        _DEFAULT.min_frequency,
        group=TABLE,
        shapes_bytes=True,
        help="Learn a value if it comes so often in train.",
    )
    oov_buckets: int = option(
        _DEFAULT.oov_buckets,
        group=TABLE,
        shapes_bytes=True,
        help="Ids that values out of the vocabulary share, by their hash.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        for column, kind in self.types.items():
            if kind not in TYPES:
                raise ConfigError(f"--types {column}={kind}: expected one of {', '.join(TYPES)}")
        self.table_options()
        if self.preprocessing_fn is not None:
            refuse_features(self, _SHAPES)

    def table_options(self) -> TableOptions:
        """What becomes of the columns. Raises ConfigError."""
        return table_options({name: getattr(self, name) for name in _SHAPES})


def table_options(given: Mapping[str, Any]) -> TableOptions:
    """Of options as they are given, and as a manifest has them. Raises ConfigError."""
    lists = ("indicator", "log", "zscore", "minmax", "one_hot", "vocabulary")
    return TableOptions(
        bucketize=_numbers("--bucketize", given["bucketize"]),
        hash=_numbers("--hash", given["hash"]),
        clip=_bounds(given["clip"]),
        impute=tuple(given["impute"].items()),
        date_parts=tuple((name, parts_of(text)) for name, text in given["date_parts"].items()),
        vocab_size=given["vocab_size"],
        min_frequency=given["min_frequency"],
        oov_buckets=given["oov_buckets"],
        **{name: tuple(given[name]) for name in lists},
    )


def reading(config: ColumnsConfig) -> dict[str, Any]:
    """What of a source of tables is about how they are read."""
    expected = () if config.schema is None else _expected(schema_rules.load(config.schema))
    return {
        "input": config.input,
        "format": config.row_format(),
        "types": tuple(config.types.items()),
        "expected": expected,
        "used": tuple(config.table_options().recipes()),
        **{name: getattr(config, name) for name in COLUMNS},
    }


def _expected(rules: Rules) -> tuple[tuple[str, str], ...]:
    """What columns of text are read as, by a schema."""
    names = {"INT": "int", "FLOAT": "float", "BYTES": "string"}
    return tuple(
        (name, names[one.type]) for name, one in rules.columns.items() if one.type is not None
    )


def making(config: ColumnsConfig, *, sequences: bool = False) -> dict[str, Any]:
    """What of a `Kind` is about making features of columns.

    sequences: SequenceExamples of windows.
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
    learns = any(recipe.learns for recipe in options.recipes().values())
    return {
        "check": TableCheck(options=options),
        "encoder": TableEncoder(options=options, unlabelled=unlabelled, sequences=sequences),
        "analysis": TableAnalysis(options=options) if learns else None,
    }


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
            raise ConfigError(f"--clip {column}={text}: expected LEAST:MOST, such as 0:100")
    return tuple(bounds)
