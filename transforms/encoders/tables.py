"""Columns of tables as features, unchanged or transformed by `table_options`."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import Reason, RecordError
from recordmill.option_checks import check_options, types_option
from recordmill.tfrecord.features import Feature, Features
from recordmill.transforms.encoders.farmhash import fingerprint64
from recordmill.transforms.encoders.labels import label_columns, label_feature
from recordmill.transforms.encoders.table_learning import (
    TableAnalysis,
    filled,
    load_values,
    vocabulary_file,
)
from recordmill.transforms.encoders.table_numbers import (
    Floats,
    LearnedNumbers,
    compute,
    load_numbers,
    numbers_of,
)
from recordmill.transforms.encoders.table_options import (
    NUMBERED,
    ColumnTransform,
    DatePart,
    TableOptions,
)
from recordmill.transforms.encoders.table_types import check_type, check_types, text_of
from recordmill.transforms.encoders.time_zones import local_times, zone_of
from recordmill.transforms.encoders.tokenization.vocabulary import Vocabulary
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import (
    Analysis,
    Context,
    Encoded,
    OutcomeCollector,
    RowCheck,
    RowOutcome,
)
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.model.user_columns import (
    flat,
    flat_list,
    merged,
    scale_columns,
    user_feature,
    user_fields,
)

_PARTS: Mapping[DatePart, Callable[[pa.Array], pa.Array]] = {
    "year": pc.year,
    "month": pc.month,
    "day": pc.day,
    "weekday": functools.partial(pc.day_of_week, count_from_zero=False),  # Monday is 1
    "hour": pc.hour,
    "minute": pc.minute,
    "second": pc.second,
}
_NONE = -1  # missing integer in a window
_INTEGER = Feature(dtype="int64")
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableCheck:
    """Check that rejects rows with numbers that no feature can hold.

    Args:
      options: Transforms of columns, such as clipping, which are applied before the check.
    """

    options: TableOptions

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Check the numbers of every row."""
        bad: dict[int, str] = {}
        transforms = self.options.column_transforms()
        check_types(transforms, rows.schema)
        for field in user_fields(rows.schema):
            transform = transforms.get(field.name)
            if pa.types.is_floating(field.type) or (transform is not None and transform.is_numeric):
                text = ""
                if transform is None or not transform.is_numeric:
                    declared = types_option(field.name, "string")
                    text = f" (if it is an id such as 7E70, {declared} keeps the text)"
                for row, why in _unfit(rows[field.name], transform, text):
                    bad.setdefault(row, f"column {field.name!r}: {why}")
        if not bad:
            return RowOutcome(kept=np.arange(len(rows)))
        outcomes = OutcomeCollector("check")
        keys = rows[batch.KEY]
        for row in range(len(rows)):
            if row in bad:
                outcomes.leave_out(keys[row].as_py(), RecordError(Reason.BAD_VALUE, bad[row]))
            else:
                outcomes.keep(row)
        return outcomes.result()


def _unfit(
    column: pa.Array, transform: ColumnTransform | None, advice: str
) -> Iterator[tuple[int, str]]:
    """Yield (row, problem) for numbers that float32 cannot hold or that have no logarithm.

    advice: the end of the problem of numbers that float32 cannot hold.
    """
    values, missing = numbers_of(column)
    if transform is not None and transform.clip is not None:
        values = np.clip(values, *transform.clip)
    large = ~(np.abs(values) <= _LARGEST) & ~missing
    for row in np.flatnonzero(large).tolist():
        yield row, f"{values[row]:g} is not a finite float32{advice}"
    if transform is not None and transform.log:
        for row in np.flatnonzero((values <= -1) & ~missing & ~large).tolist():
            yield row, f"ln(1 + {values[row]:g}) is not defined"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableEncoder:
    """Encoder that makes a feature of each column.

    Args:
      options: Transforms of columns.
      unlabelled: Rows without a label may occur; they have no label feature.
      sequences: Write windows as SequenceExamples.
      not_steps: Columns of lists that do not have a value per row of a window.
    """

    options: TableOptions = TableOptions()  # noqa: RUF009, it is frozen
    unlabelled: bool = False
    sequences: bool = False
    not_steps: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_options(self)

    @property
    def analysis(self) -> Analysis | None:
        """Learns statistics and values of columns; None if no column needs any."""
        learns = any(transform.learns for transform in self.options.column_transforms().values())
        return TableAnalysis(options=self.options) if learns else None

    def row_check(self, *, balanced: bool = False) -> RowCheck:
        """Return the check of the numbers."""
        del balanced
        return TableCheck(options=self.options)

    def features(self, rows: pa.Schema, context: Context) -> Features:
        """Return the features of every record.

        Raises:
            ConfigError: a column has a type that its transform or an Example does not support.
        """
        transforms = self.options.column_transforms()
        declared: Features = {}
        if context.labels:
            declared = {"label": label_feature(rows, unlabelled=self.unlabelled)}
        sets: list[Features] = []
        for field in user_fields(rows):
            transform = transforms.get(field.name)
            made: Features
            if transform is None:
                made = {field.name: user_feature(field)}
            else:
                made = _features_of(transform, field, context)
            if self._has_steps(field):
                made = {n: dataclasses.replace(one, sequence=True) for n, one in made.items()}
            sets.append(made)
        return merged(declared, *sets, where="input")

    def versions(self) -> Mapping[str, str]:
        """Return the version of NumPy if a logarithm is used: releases may round differently."""
        return {"numpy": np.__version__} if any(r.log for r in self._transforms) else {}

    def _has_steps(self, field: pa.Field) -> bool:
        """Return whether the values of a column are the steps of a SequenceExample."""
        is_list = pa.types.is_fixed_size_list(field.type)
        return self.sequences and is_list and field.name not in self.not_steps

    @property
    def _transforms(self) -> list[ColumnTransform]:
        return list(self.options.column_transforms().values())

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        """Encode all rows."""
        transforms = self.options.column_transforms()
        columns: dict[str, pa.Array] = {}
        steps: dict[str, int] = {}
        by_name = dict(zip(rows.schema.names, rows.columns, strict=True))
        for field in user_fields(rows.schema):
            transform = transforms.get(field.name)
            made = _encode_column(transform, field, by_name[field.name], rows, context)
            if self._has_steps(field):
                steps |= dict.fromkeys(made, field.type.list_size)
            columns |= made
        if context.labels:
            columns["label"] = label_columns(rows, context).numbers
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=RowOutcome(kept=np.arange(len(rows))),
            steps=steps,
        )


def _encode_column(
    transform: ColumnTransform | None,
    field: pa.Field,
    column: pa.Array,
    rows: pa.RecordBatch,
    context: Context,
) -> dict[str, pa.Array]:
    """Return the features of a column of rows; windows are transformed value by value."""
    if transform is None:
        return {field.name: flat_list(column)}
    if not pa.types.is_fixed_size_list(field.type):
        return _transform_column(transform, column, context)
    scale = None
    if transform.by is not None:
        scale = [
            np.repeat(np.asarray(rows[name]), field.type.list_size)
            for name in scale_columns(field.name)
        ]
    transformed = _transform_column(transform, flat(column), context, scale)
    # Ids of buckets and hashes have one more id for missing values.
    none = transform.size if transform.last in NUMBERED else _NONE
    size = field.type.list_size
    return {name: _windows(values, size, none) for name, values in transformed.items()}


def _features_of(transform: ColumnTransform, field: pa.Field, context: Context) -> Features:
    """Return the features that `_encode_column` makes."""
    if not pa.types.is_fixed_size_list(field.type):
        return _features_of_values(transform, field, context)
    values = pa.field(field.name, field.type.value_type, False)
    size = field.type.list_size
    made = {}
    for name, feature in _features_of_values(transform, values, context).items():
        ids = feature.size
        if transform.last in NUMBERED and feature.kind == "index":
            ids = transform.size + 1
        made[name] = dataclasses.replace(feature, shape=(size, *feature.shape), size=ids)
    return made


def _windows(values: pa.Array, size: int, none: int) -> pa.FixedSizeListArray:
    """Return lists of `size` values, or of the concatenation of `size` lists.

    none: integer that replaces a missing value; missing floats become NaN.
    """
    if pa.types.is_fixed_size_list(values.type):
        size *= values.type.list_size
        values = values.flatten()
    if values.null_count:
        values = values.fill_null(math.nan if pa.types.is_floating(values.type) else none)
    return pa.FixedSizeListArray.from_arrays(values, size)


def _features_of_values(transform: ColumnTransform, field: pa.Field, context: Context) -> Features:
    """Return the features that `_transform_column` makes.

    Sizes that depend on learned vocabularies are None until these are known.
    """
    check_type(transform, field.type)
    name, filled = field.name, transform.impute is not None or not field.nullable
    shape: tuple[int | None, ...] = () if filled else (None,)
    index = dataclasses.replace(_INTEGER, kind="index")
    match transform.last:
        case "one-hot":
            made = {name: Feature(dtype="float32", shape=(_lines(name, context),))}
        case "vocabulary":
            lines = _lines(name, context)
            size = None if lines is None else 1 + transform.size + lines
            made = {name: dataclasses.replace(index, size=size)}
        case "hash":
            made = {name: dataclasses.replace(index, shape=shape, size=transform.size)}
        case "bucketize":
            made = {name: dataclasses.replace(index, shape=shape, size=transform.size)}
        case "date-parts":
            parts = {part: dataclasses.replace(_INTEGER, shape=shape) for part in transform.parts}
            made = {f"{name}/{part}": feature for part, feature in parts.items()}
        case _ if transform.is_numeric:
            made = {name: Feature(dtype="float32", shape=shape)}
        case _:
            made = {name: user_feature(field.with_nullable(not filled))}
    return made | ({f"{name}/missing": _INTEGER} if transform.indicator else {})


def _lines(column: str, context: Context) -> int | None:
    """Return the number of learned values; None if not known yet."""
    if vocabulary_file(column) not in context.artifacts:
        return None
    return len(load_values(context.artifacts, column).lines)


def _transform_column(
    transform: ColumnTransform,
    column: pa.Array,
    context: Context,
    scale: Sequence[Floats] | None = None,
) -> dict[str, pa.Array]:
    """Return the features of a column.

    scale: the mean and the scale of each value, if they are not those of train.
    """
    name = transform.column
    made = {}
    if transform.indicator:
        made[f"{name}/missing"] = column.is_null().cast(pa.int64())
    if transform.is_numeric:
        learned = load_numbers(context.artifacts).get(name, LearnedNumbers())
        return made | {name: _transform_numbers(transform, column, learned, scale)}
    column = filled(transform, column)
    match transform.last:
        case None:
            made[name] = column
        case "one-hot":
            made[name] = _one_hot(column, load_values(context.artifacts, name))
        case "vocabulary":
            known = load_values(context.artifacts, name)
            ids = known.ids(text_of(column).fill_null(""), oov_buckets=transform.size)
            made[name] = pa.array(np.where(column.is_null(), 0, ids))
        case "hash":
            hashes = fingerprint64(text_of(column).fill_null("")) % np.uint64(transform.size)
            made[name] = pa.array(hashes.astype(np.int64), mask=np.asarray(column.is_null()))
        case "date-parts":
            if transform.time_zone is not None and pa.types.is_timestamp(column.type):
                column = local_times(column, zone_of(transform.time_zone))
            made |= {f"{name}/{part}": _PARTS[part](column) for part in transform.parts}
    return made


def _transform_numbers(
    transform: ColumnTransform,
    column: pa.Array,
    learned: LearnedNumbers,
    scale: Sequence[Floats] | None,
) -> pa.Array:
    """Return float32[n], or int64[n] for buckets; null for a missing value that is not imputed."""
    values, missing = numbers_of(column)
    fill = learned.fill
    if fill is None and transform.impute is not None:
        fill = float(transform.impute)
    if fill is not None:
        values = np.where(missing, fill, values)
    values = compute(transform, values)
    mask = missing if fill is None and missing.any() else None
    match transform.last:
        case "zscore" if scale is not None:
            values = (values - scale[0]) / scale[1]
        case "zscore":
            values = (values - learned.mean) / (learned.deviation or 1.0)
        case "minmax":
            values = (values - learned.least) / ((learned.most - learned.least) or 1.0)
        case "bucketize":
            return pa.array(np.searchsorted(learned.boundaries, values, side="right"), mask=mask)
    return pa.array(values.astype(np.float32), mask=mask)


def _one_hot(column: pa.Array, known: Vocabulary) -> pa.Array:
    """Return float32[n, lines]; zeros for missing and unknown values."""
    found = known.find(text_of(column).fill_null(""))
    there = (found >= 0) & np.asarray(column.is_valid())
    table = np.zeros((len(column), len(known.lines)), np.float32)
    table[np.flatnonzero(there), found[there]] = 1
    return fixed_lists(table)
