"""Columns of tables as features: as they are, or as `table_options` say."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError
from recordmill.format.features import Feature, Features
from recordmill.transforms.encoders.labels import label_feature, label_numbers
from recordmill.transforms.encoders.table_learning import (
    LearnedNumbers,
    compute,
    filled,
    load_numbers,
    load_values,
    numbers_of,
    text_of,
    vocabulary_file,
)
from recordmill.transforms.encoders.table_options import (
    MEAN,
    MEDIAN,
    NUMBERED,
    NUMERIC,
    OF_TEXT,
    DatePart,
    Recipe,
    TableOptions,
)
from recordmill.transforms.encoders.tokenization.vocabulary import Vocabulary
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context, Encoded, OutcomeCollector, RowOutcome
from recordmill.transforms.model.farmhash import fingerprint64
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.model.user_columns import (
    flat,
    is_list,
    merged,
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
_NONE = -1  # of a part of a date, where every value has one
_INTEGER = Feature(dtype="int64")
_LARGEST = float(np.finfo(np.float32).max)


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableCheck:
    """Leaves out rows with numbers that no feature can hold."""

    options: TableOptions

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        bad: dict[int, str] = {}
        recipes = self.options.recipes()
        for field in user_fields(rows.schema):
            recipe = recipes.get(field.name)
            if pa.types.is_floating(field.type) or (recipe is not None and recipe.is_numeric):
                for row, why in _unfit(rows[field.name], recipe):
                    bad.setdefault(row, f"column {field.name!r}: {why}")
        if not bad:
            return RowOutcome(kept=np.arange(len(rows)))
        sorter = OutcomeCollector("check")
        keys = rows[batch.KEY]
        for row in range(len(rows)):
            if row in bad:
                sorter.leave_out(keys[row].as_py(), RecordError(Reason.BAD_VALUE, bad[row]))
            else:
                sorter.keep(row)
        return sorter.result()


def _unfit(column: pa.Array, recipe: Recipe | None) -> Iterator[tuple[int, str]]:
    """Rows with a number that is none as float32, or has no logarithm, and why."""
    values, missing = numbers_of(column)
    if recipe is not None and recipe.clip is not None:
        values = np.clip(values, *recipe.clip)
    large = ~(np.abs(values) <= _LARGEST) & ~missing
    for row in np.flatnonzero(large).tolist():
        yield row, f"{values[row]:g} is no finite float32"
    if recipe is not None and recipe.log:
        for row in np.flatnonzero((values <= -1) & ~missing & ~large).tolist():
            yield row, f"ln(1 + {values[row]:g}) is not defined"


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableEncoder:
    """Makes features of columns.

    unlabelled: rows without a label may occur, and have no label feature. sequences: of windows
    SequenceExamples are made.
    """

    options: TableOptions = TableOptions()  # noqa: RUF009, it is frozen
    unlabelled: bool = False
    sequences: bool = False

    def features(self, rows: pa.Schema, context: Context) -> Features:
        recipes = self.options.recipes()
        declared: Features = {}
        if context.labels:
            declared = {"label": label_feature(unlabelled=self.unlabelled)}
        for field in user_fields(rows):
            recipe = recipes.get(field.name)
            made: Features
            if recipe is None:
                made = {field.name: user_feature(field)}
            else:
                made = _features_of(recipe, field, context)
            if self.sequences and pa.types.is_fixed_size_list(field.type):
                made = {n: dataclasses.replace(one, sequence=True) for n, one in made.items()}
            declared = merged(declared, made, where="input")
        return declared

    def versions(self) -> Mapping[str, str]:
        """Of what makes the values."""
        return {"numpy": np.__version__} if any(r.log for r in self._recipes) else {}

    @property
    def _recipes(self) -> list[Recipe]:
        return list(self.options.recipes().values())

    def encode(self, rows: pa.RecordBatch, context: Context) -> Encoded:
        recipes = self.options.recipes()
        columns: dict[str, pa.Array] = {}
        steps: dict[str, int] = {}
        for field in user_fields(rows.schema):
            made = _made(recipes.get(field.name), field, rows[field.name], context)
            if self.sequences and pa.types.is_fixed_size_list(field.type):
                steps |= dict.fromkeys(made, field.type.list_size)
            columns |= made
        if context.labels:
            columns["label"] = label_numbers(rows[batch.LABEL], context)
        return Encoded(
            columns=pa.RecordBatch.from_pydict(columns),
            rows=RowOutcome(kept=np.arange(len(rows))),
            steps=steps,
        )


def _made(
    recipe: Recipe | None, field: pa.Field, column: pa.Array, context: Context
) -> dict[str, pa.Array]:
    """The features of a column, or of each value of its lists."""
    if recipe is None:
        return {field.name: column}
    if not pa.types.is_fixed_size_list(field.type):
        return _cook(recipe, column, context)
    cooked = _cook(recipe, flat(column), context)
    # Where every value has an id, those that are missing have one more.
    none = recipe.size if recipe.last in NUMBERED else _NONE
    size = field.type.list_size
    return {name: _windows(values, size, none) for name, values in cooked.items()}


def _features_of(recipe: Recipe, field: pa.Field, context: Context) -> Features:
    """What is made of a column, or of each value of its lists."""
    if not pa.types.is_fixed_size_list(field.type):
        return _features_of_values(recipe, field, context)
    values = pa.field(field.name, field.type.value_type, False)
    size = field.type.list_size
    made = {}
    for name, feature in _features_of_values(recipe, values, context).items():
        ids = feature.size
        if recipe.last in NUMBERED and feature.kind == "index":
            ids = recipe.size + 1
        made[name] = dataclasses.replace(feature, shape=(size, *feature.shape), size=ids)
    return made


def _windows(values: pa.Array, size: int, none: int) -> pa.FixedSizeListArray:
    """Lists of `size` values each, or of so many lists one after another.

    none: what stands in place of an integer that is not there; of numbers a NaN does.
    """
    if pa.types.is_fixed_size_list(values.type):
        size *= values.type.list_size
        values = values.flatten()
    if values.null_count:
        values = values.fill_null(math.nan if pa.types.is_floating(values.type) else none)
    return pa.FixedSizeListArray.from_arrays(values, size)


def _features_of_values(recipe: Recipe, field: pa.Field, context: Context) -> Features:
    """What `_cook` makes. Of what is to be learned the size is known once it is."""
    _refuse_type(recipe, field.type)
    name, filled = field.name, recipe.impute is not None or not field.nullable
    shape: tuple[int | None, ...] = () if filled else (None,)
    index = dataclasses.replace(_INTEGER, kind="index")
    match recipe.last:
        case "one-hot":
            made = {name: Feature(dtype="float32", shape=(_lines(name, context),))}
        case "vocabulary":
            lines = _lines(name, context)
            size = None if lines is None else 1 + recipe.size + lines
            made = {name: dataclasses.replace(index, size=size)}
        case "hash":
            made = {name: dataclasses.replace(index, shape=shape, size=recipe.size)}
        case "bucketize":
            made = {name: dataclasses.replace(index, shape=shape, size=recipe.size)}
        case "date-parts":
            parts = {part: dataclasses.replace(_INTEGER, shape=shape) for part in recipe.parts}
            made = {f"{name}/{part}": feature for part, feature in parts.items()}
        case _ if recipe.is_numeric:
            made = {name: Feature(dtype="float32", shape=shape)}
        case _:
            made = {name: user_feature(field.with_nullable(not filled))}
    return made | ({f"{name}/missing": _INTEGER} if recipe.indicator else {})


def _refuse_type(recipe: Recipe, kind: pa.DataType) -> None:
    """Raises ConfigError where values of the type cannot become what they should."""
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)
    temporal = pa.types.is_date(kind) or pa.types.is_timestamp(kind)
    clocked = pa.types.is_timestamp(kind) or not {"hour", "minute", "second"} & {*recipe.parts}
    computed = (("clip", recipe.clip is not None), ("log", recipe.log))
    given = [option for option, is_given in computed if is_given]
    if recipe.last in NUMERIC:
        given.append(recipe.last)
    if is_list(kind):
        raise ConfigError(
            f"column {recipe.column!r} is of lists, and nothing is made of them: named in no such"
            " option they stay as they are"
        )
    for option in given if not numeric else ():
        raise ConfigError(
            f"--{option} {recipe.column}: is of numbers, and the column is of {kind};"
            f" {_instead_of_numbers(recipe.column, kind)}"
        )
    if recipe.last in OF_TEXT and (pa.types.is_binary(kind) or pa.types.is_large_binary(kind)):
        raise ConfigError(
            f"--{recipe.last} {recipe.column}: is of values as text, and the column is of {kind};"
            f" with --types {recipe.column}=string what is no text in UTF-8 is rejected"
        )
    if recipe.last == "date-parts" and not (temporal and clocked):
        raise ConfigError(
            f"--date-parts {recipe.column}: is of dates{'' if clocked else ' with a time'}, and "
            f"the column is of {kind}; say --types {recipe.column}="
            f"{'date' if clocked else 'timestamp'}"
        )
    _refuse_fill(recipe, kind, numeric=numeric)


def _instead_of_numbers(column: str, kind: pa.DataType) -> str:
    if pa.types.is_date(kind) or pa.types.is_timestamp(kind):
        return f"--date-parts {column}=year+month makes numbers of it"
    return f"with --types {column}=float what is no number is rejected"


def _refuse_fill(recipe: Recipe, kind: pa.DataType, *, numeric: bool) -> None:
    if recipe.impute is None:
        return
    if recipe.impute in (MEAN, MEDIAN):
        fits = numeric
    else:
        fits = _casts(recipe.impute, pa.float64() if recipe.is_numeric else kind)
    if not fits:
        raise ConfigError(
            f"--impute {recipe.column}={recipe.impute}: expected a value of the column, which is of"
            f" {kind}"
        )
    if recipe.last in OF_TEXT:
        _refuse_spelling(recipe, kind)


def _refuse_spelling(recipe: Recipe, kind: pa.DataType) -> None:
    """Raises ConfigError for a value that is another text than the same among the column's.

    A model to serve has only texts, and no column.
    """
    value = pa.array([recipe.impute], pa.string()).cast(kind)
    text = text_of(value)[0].as_py()
    if text != recipe.impute:
        raise ConfigError(
            f"--impute {recipe.column}={recipe.impute}: as text such a value of the column, which"
            f" is of {kind}, is {text}: say --impute {recipe.column}={text}"
        )


def _casts(text: str, kind: pa.DataType) -> bool:
    try:
        pa.scalar(text).cast(kind)
    except pa.ArrowInvalid:
        return False
    return True


def _lines(column: str, context: Context) -> int | None:
    """How many values were learned; None where none are yet."""
    if vocabulary_file(column) not in context.artifacts:
        return None
    return len(load_values(context.artifacts, column).lines)


def _cook(recipe: Recipe, column: pa.Array, context: Context) -> dict[str, pa.Array]:
    """The features of a column."""
    name = recipe.column
    made = {}
    if recipe.indicator:
        made[f"{name}/missing"] = column.is_null().cast(pa.int64())
    if recipe.is_numeric:
        learned = load_numbers(context.artifacts).get(name, LearnedNumbers())
        return made | {name: _cook_numbers(recipe, column, learned)}
    column = filled(recipe, column)
    match recipe.last:
        case None:
            made[name] = column
        case "one-hot":
            made[name] = _one_hot(column, load_values(context.artifacts, name))
        case "vocabulary":
            known = load_values(context.artifacts, name)
            ids = known.ids(text_of(column).fill_null(""), oov_buckets=recipe.size)
            made[name] = pa.array(np.where(column.is_null(), 0, ids))
        case "hash":
            hashes = fingerprint64(text_of(column).fill_null("")) % np.uint64(recipe.size)
            made[name] = pa.array(hashes.astype(np.int64), mask=np.asarray(column.is_null()))
        case "date-parts":
            made |= {f"{name}/{part}": _PARTS[part](column) for part in recipe.parts}
    return made


def _cook_numbers(recipe: Recipe, column: pa.Array, learned: LearnedNumbers) -> pa.Array:
    """float32[n], int64[n] of buckets; null where there was nothing, and nothing stands for it."""
    values, missing = numbers_of(column)
    fill = learned.fill
    if fill is None and recipe.impute is not None:
        fill = float(recipe.impute)
    if fill is not None:
        values = np.where(missing, fill, values)
    values = compute(recipe, values)
    mask = missing if fill is None else None
    match recipe.last:
        case "zscore":
            values = (values - learned.mean) / (learned.deviation or 1.0)
        case "minmax":
            values = (values - learned.least) / ((learned.most - learned.least) or 1.0)
        case "bucketize":
            return pa.array(np.searchsorted(learned.boundaries, values, side="right"), mask=mask)
    return pa.array(values.astype(np.float32), mask=mask)


def _one_hot(column: pa.Array, known: Vocabulary) -> pa.Array:
    """float32[n, lines], zeros where there was nothing, or a value that was not learned."""
    found = known.find(text_of(column).fill_null(""))
    there = (found >= 0) & np.asarray(column.is_valid())
    table = np.zeros((len(column), len(known.lines)), np.float32)
    table[np.flatnonzero(there), found[there]] = 1
    return fixed_lists(table)
