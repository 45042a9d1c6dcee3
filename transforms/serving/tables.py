"""What a table's columns became."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import tensorflow as tf

from recordmill.transforms.encoders.table_learning import LearnedNumbers
from recordmill.transforms.encoders.table_options import NUMBERED, DatePart, Recipe
from recordmill.transforms.serving.models import LookupLines, argument_names

NONE = -1  # of a bucket, a hash or a part of a date


class TableTransform(tf.Module):
    """Called with columns ({name: [n]}) it gives the features that a dataset holds of them.

    recipes: what becomes of columns. numbers: learned of some. vocabularies: {column: file of
    values}. Columns that nothing became of are not part of it.

    Numbers are float64, NaN where there is none. Values that became ids or ones are strings, empty
    where there is none, numbers as text. Dates are strings too, such as 2026-01-31 or 2026-01-31
    18:00:00. A feature that a record does not have is NaN, or -1.

    window: rows of a window; then columns are [n, window], and what is missing is what it is in the
    dataset.
    """

    def __init__(
        self,
        recipes: Mapping[str, Recipe],
        *,
        numbers: Mapping[str, LearnedNumbers],
        vocabularies: Mapping[str, pathlib.Path],
        rename: Mapping[str, str] | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self._recipes = dict(recipes)
        self._numbers = dict(numbers)
        self._rename = dict(rename or {})
        self._lines = {column: LookupLines(path) for column, path in vocabularies.items()}
        self._in_windows = window is not None
        shape = [None] if window is None else [None, window]
        names = argument_names(self._recipes)
        signature = {
            column: tf.TensorSpec(
                shape, tf.float64 if recipe.is_numeric else tf.string, name=names[column]
            )
            for column, recipe in self._recipes.items()
        }
        self.serve = tf.function(self.__call__, input_signature=[signature], autograph=False)

    def __call__(self, columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        out: dict[str, tf.Tensor] = {}
        for column, recipe in self._recipes.items():
            out |= self._cook(recipe, columns[column])
        return {self._rename.get(name, name): value for name, value in out.items()}

    def _cook(self, recipe: Recipe, column: tf.Tensor) -> dict[str, tf.Tensor]:
        name, none = recipe.column, self._none(recipe)
        out = {}
        missing = tf.math.is_nan(column) if recipe.is_numeric else column == ""
        if recipe.indicator:
            out[f"{name}/missing"] = tf.cast(missing, tf.int64)
        if recipe.is_numeric:
            return out | {name: self._number(recipe, column)}
        if recipe.impute is not None:
            column = tf.where(missing, recipe.impute, column)
            missing = tf.zeros_like(missing)
        match recipe.last:
            case "one-hot":
                lines = tf.where(missing, none, self._lines[name].find(column))
                out[name] = tf.one_hot(lines, self._lines[name].size, dtype=tf.float32)
            case "vocabulary":
                ids = self._lines[name].ids(column, oov_buckets=recipe.size)
                out[name] = tf.where(missing, tf.zeros_like(ids), ids)
            case "hash":
                ids = tf.strings.to_hash_bucket_fast(column, recipe.size)
                out[name] = tf.where(missing, none, ids)
            case "date-parts":
                for part in recipe.parts:
                    found = _part(tf.where(missing, "1970-01-01 00:00:00", column), part)
                    out[f"{name}/{part}"] = tf.where(missing, none, found)
            case _:
                out[name] = column
        return out

    def _number(self, recipe: Recipe, column: tf.Tensor) -> tf.Tensor:
        """In float64, as the dataset's, and in the end float32."""
        learned = self._numbers.get(recipe.column, LearnedNumbers())
        fill = learned.fill
        if fill is None and recipe.impute is not None:
            fill = float(recipe.impute)
        if fill is not None:
            column = tf.where(tf.math.is_nan(column), tf.constant(fill, tf.float64), column)
        if recipe.clip is not None:
            column = tf.clip_by_value(column, *(tf.constant(x, tf.float64) for x in recipe.clip))
        if recipe.log:
            column = tf.math.log1p(column)
        match recipe.last:
            case "zscore":
                column = (column - learned.mean) / (learned.deviation or 1.0)
            case "minmax":
                column = (column - learned.least) / ((learned.most - learned.least) or 1.0)
            case "bucketize":
                edges = tf.constant(learned.boundaries, tf.float64)
                flat = tf.reshape(column, [-1])
                found = tf.searchsorted(edges, flat, side="right", out_type=tf.int64)
                found = tf.reshape(found, tf.shape(column))
                return tf.where(tf.math.is_nan(column), self._none(recipe), found)
        return tf.cast(column, tf.float32)

    def _none(self, recipe: Recipe) -> tf.Tensor:
        """What stands for a value that is missing."""
        numbered = self._in_windows and recipe.last in NUMBERED
        return tf.constant(recipe.size if numbered else NONE, tf.int64)


def _part(dates: tf.Tensor, part: DatePart) -> tf.Tensor:
    """int64[n] of texts such as 2026-01-31 or 2026-01-31 18:00:00."""

    def digits(start: int, size: int) -> tf.Tensor:
        there = tf.strings.length(dates) >= start + size
        padded = tf.where(there, dates, "1970-01-01 00:00:00")
        return tf.strings.to_number(tf.strings.substr(padded, start, size), tf.int64)

    places = {"year": (0, 4), "month": (5, 2), "day": (8, 2), "hour": (11, 2), "minute": (14, 2)}
    if part in places:
        return digits(*places[part])
    if part == "second":
        return digits(17, 2)
    year, month, day = (digits(*places[name]) for name in ("year", "month", "day"))
    # Zeller's congruence, with Monday as 1: January and February are of the year before.
    early = tf.cast(month < 3, tf.int64)
    year, month = year - early, month + 12 * early
    days = day + 13 * (month + 1) // 5 + year + year // 4 - year // 100 + year // 400
    return (days + 5) % 7 + 1
