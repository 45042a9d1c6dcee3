"""Model of the transforms of a table's columns."""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

import tensorflow as tf

from recordmill.transforms.encoders.table_numbers import LearnedNumbers
from recordmill.transforms.encoders.table_options import NUMBERED, ColumnTransform, DatePart
from recordmill.transforms.serving.models import LookupLines, argument_names

NONE = -1  # missing bucket, hash or part of a date


class TableTransform(tf.Module):
    """Function from columns, {name: [n]}, to the features of a dataset.

    transforms: transforms of columns; other columns are not part of the model.
    numbers: statistics of numeric columns.
    vocabularies: {column: vocabulary file}.
    rename: {feature: name in the dataset}.
    window: rows of a window. Columns are then [n, window], and missing values are encoded as in the
        dataset.

    Inputs: numbers are float64, NaN if missing. Categorical values and dates are strings, empty if
        missing, numbers as text, dates such as 2026-01-31 or 2026-01-31 18:00:00. Outputs: a
        feature that a record does not have is NaN or -1.
    """

    def __init__(
        self,
        transforms: Mapping[str, ColumnTransform],
        *,
        numbers: Mapping[str, LearnedNumbers],
        vocabularies: Mapping[str, pathlib.Path],
        rename: Mapping[str, str] | None = None,
        window: int | None = None,
    ) -> None:
        super().__init__()
        self._transforms = dict(transforms)
        self._numbers = dict(numbers)
        self._rename = dict(rename or {})
        self._lines = {column: LookupLines(path) for column, path in vocabularies.items()}
        self._in_windows = window is not None
        shape = [None] if window is None else [None, window]
        names = argument_names(self._transforms)
        signature = {
            column: tf.TensorSpec(
                shape, tf.float64 if transform.is_numeric else tf.string, name=names[column]
            )
            for column, transform in self._transforms.items()
        }
        self.serve = tf.function(self.__call__, input_signature=[signature], autograph=False)

    def __call__(self, columns: Mapping[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        out: dict[str, tf.Tensor] = {}
        for column, transform in self._transforms.items():
            out |= self._transform_column(transform, columns[column])
        return {self._rename.get(name, name): value for name, value in out.items()}

    def _transform_column(
        self, transform: ColumnTransform, column: tf.Tensor
    ) -> dict[str, tf.Tensor]:
        name, none = transform.column, self._none(transform)
        out = {}
        missing = tf.math.is_nan(column) if transform.is_numeric else column == ""
        if transform.indicator:
            out[f"{name}/missing"] = tf.cast(missing, tf.int64)
        if transform.is_numeric:
            return out | {name: self._number(transform, column)}
        if transform.impute is not None:
            column = tf.where(missing, transform.impute, column)
            missing = tf.zeros_like(missing)
        match transform.last:
            case "one-hot":
                lines = tf.where(missing, none, self._lines[name].find(column))
                out[name] = tf.one_hot(lines, self._lines[name].size, dtype=tf.float32)
            case "vocabulary":
                ids = self._lines[name].ids(column, oov_buckets=transform.size)
                out[name] = tf.where(missing, tf.zeros_like(ids), ids)
            case "hash":
                ids = tf.strings.to_hash_bucket_fast(column, transform.size)
                out[name] = tf.where(missing, none, ids)
            case "date-parts":
                for part in transform.parts:
                    found = _part(tf.where(missing, "1970-01-01 00:00:00", column), part)
                    out[f"{name}/{part}"] = tf.where(missing, none, found)
            case _:
                out[name] = column
        return out

    def _number(self, transform: ColumnTransform, column: tf.Tensor) -> tf.Tensor:
        """Compute in float64, as for the dataset, and return float32, or int64 for buckets."""
        learned = self._numbers.get(transform.column, LearnedNumbers())
        fill = learned.fill
        if fill is None and transform.impute is not None:
            fill = float(transform.impute)
        if fill is not None:
            column = tf.where(tf.math.is_nan(column), tf.constant(fill, tf.float64), column)
        if transform.clip is not None:
            column = tf.clip_by_value(column, *(tf.constant(x, tf.float64) for x in transform.clip))
        if transform.log:
            column = tf.math.log1p(column)
        match transform.last:
            case "zscore":
                column = (column - learned.mean) / (learned.deviation or 1.0)
            case "minmax":
                column = (column - learned.least) / ((learned.most - learned.least) or 1.0)
            case "bucketize":
                edges = tf.constant(learned.boundaries, tf.float64)
                flat = tf.reshape(column, [-1])
                found = tf.searchsorted(edges, flat, side="right", out_type=tf.int64)
                found = tf.reshape(found, tf.shape(column))
                return tf.where(tf.math.is_nan(column), self._none(transform), found)
        return tf.cast(column, tf.float32)

    def _none(self, transform: ColumnTransform) -> tf.Tensor:
        """Return the integer for a missing value."""
        numbered = self._in_windows and transform.last in NUMBERED
        return tf.constant(transform.size if numbered else NONE, tf.int64)


def _part(dates: tf.Tensor, part: DatePart) -> tf.Tensor:
    """Return a part of dates such as 2026-01-31 or 2026-01-31 18:00:00, int64[n]."""

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
    # Zeller's congruence, with Monday as 1: January and February belong to the previous year.
    early = tf.cast(month < 3, tf.int64)
    year, month = year - early, month + 12 * early
    days = day + 13 * (month + 1) // 5 + year + year // 4 - year // 100 + year // 400
    return (days + 5) % 7 + 1
