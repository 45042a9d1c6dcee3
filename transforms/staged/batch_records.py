"""BatchRecords: batches of dicts, `beam.Row`s and other records that a pipeline makes."""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, TypeAlias

import apache_beam as beam
import numpy as np
import pyarrow as pa
from apache_beam.transforms.window import GlobalWindows
from apache_beam.utils.windowed_value import WindowedValue

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options
from recordmill.transforms.model import batch, coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.model.user_columns import is_list, user_feature, user_fields
from recordmill.transforms.sources.row_formats.values.value_parsing import without_nan
from recordmill.transforms.sources.rows.columns.content_keys import with_keys_by_content

# An element: a dict, `beam.Row`, named tuple, dataclass, `pyarrow.RecordBatch` or batch of
# tensorflow-transform. Beam does not know all of these types by annotations.
Record: TypeAlias = object

_OPTIONS = {
    batch.KEY: "key_column",
    batch.LABEL: "label_column",
    batch.GROUP: "group_column",
    batch.SPLIT: "split_column",
}
_LEAST = 64  # records of the first batch
_RECORDS = "dicts, beam.Rows, named tuples or dataclasses"


def roles_of(step: object) -> dict[str, str]:
    """Return {user column: system column} of a step with the options `key_column` and so on.

    Raises:
      ConfigError: A column has two roles.
    """
    given = {option: getattr(step, option) for option in _OPTIONS.values()}
    named = {option: name for option, name in given.items() if name is not None}
    if len({*named.values()}) < len(named):
        raise ConfigError(
            f"{type(step).__name__}: expected a different column for each option, got {named}"
        )
    return {named[option]: role for role, option in _OPTIONS.items() if option in named}


def expect_column(
    step: str, role: str, name: str, names: Collection[str], *, of: str = "the records"
) -> None:
    """Raise ConfigError if a column with a role is missing.

    role: the system column. names: the columns of the records, or of what `of` says.
    """
    if name not in names:
        they = "they have" if of == "the records" else "it has"
        raise ConfigError(
            f"{step}: {_OPTIONS[role]}: expected a column of {of}, got {name!r}:"
            f" {they} {', '.join(names)}"
        )


def with_roles(step: str, rows: pa.RecordBatch, roles: Mapping[str, str]) -> pa.RecordBatch:
    """Return rows whose columns with roles are system columns, as strings.

    Raises:
      ConfigError: A column is missing, its values cannot be cast to strings, or classes are decimal
        numbers.
    """
    columns = dict(zip(rows.schema.names, rows.columns, strict=True))
    for name, role in roles.items():
        expect_column(step, role, name, columns)
        values = columns.pop(name)
        if is_list(values.type):
            values = _only_values(values)
        if role == batch.LABEL and pa.types.is_floating(values.type):
            raise ConfigError(
                f"{step}: the classes of column {name!r} are decimal numbers: leave out"
                " label_column, so that they are numbers to predict, or convert them to integers or"
                " strings, which are classes"
            )
        try:
            columns[role] = values.cast(pa.string())
        except pa.ArrowException as error:
            raise ConfigError(
                f"{step}: column {name!r}: expected strings, got {values.type}: {error}"
            ) from error
    return pa.RecordBatch.from_pydict(columns)


def _only_values(lists: pa.Array) -> pa.Array:
    """Return the values of lists with one value each; return other lists unchanged."""
    flat = lists.flatten()
    return flat if not lists.null_count and len(flat) == len(lists) else lists


@dataclasses.dataclass(frozen=True)
class _Converter:
    """Makes batches of records. roles: as `roles_of` returns them."""

    roles: Mapping[str, str]
    schema: pa.Schema | None

    def batch(self, records: Sequence[Any]) -> pa.RecordBatch:
        """Return a batch with a row per record.

        Raises:
          ConfigError: The records have no columns, or the values of a column have several types.
        """
        rows = _as_dicts(records)
        if self.schema is not None:
            names = self.schema.names
        else:
            names = [*dict.fromkeys(itertools.chain.from_iterable(rows))]
            if not all(isinstance(name, str) for name in names):
                odd = next(name for name in names if not isinstance(name, str))
                raise ConfigError(f"BatchRecords: expected strings as column names, got {odd!r}")
        if not names:
            raise ConfigError("BatchRecords: expected records with values, got an empty record")
        arrays = {
            name: _array(name, values, None if self.schema is None else self.schema.field(name))
            for name, values in zip(names, _columns(rows, names), strict=True)
        }
        return self._finished(pa.RecordBatch.from_pydict(arrays))

    def of_transform(self, rows: pa.RecordBatch, passed: Mapping[str, Any]) -> pa.RecordBatch:
        """Return a batch of tensorflow-transform, whose columns are lists, as `of_batch` does.

        passed: columns that tensorflow-transform passed through; they also become features.
        """
        for name, values in passed.items():
            if values is not None:
                rows = rows.append_column(name, pa.array(values))
        rows = self.of_batch(rows)
        if self.schema is not None:
            return rows
        return with_tensors(with_keys_by_content(rows))  # its result depends on the whole batch

    def of_batch(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch of the pipeline with the columns of the schema, and system columns.

        Raises:
          ConfigError: The batch lacks a column, or a column has another type.
        """
        if self.schema is not None:
            missing = [name for name in self.schema.names if name not in rows.schema.names]
            if missing:
                raise ConfigError(
                    f"BatchRecords: expected a column {missing[0]!r}, got"
                    f" {', '.join(rows.schema.names)}"
                )
            try:
                rows = rows.select(self.schema.names).cast(self.schema)
            except (pa.ArrowException, ValueError) as error:
                raise ConfigError(f"BatchRecords: {error}: pass another schema") from error
        return self._finished(rows)

    def _finished(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        """Return rows with system columns, and with null instead of NaN, as in tables."""
        for field in rows.schema:
            if pa.types.is_floating(field.type):
                values = without_nan(rows[field.name])
                if values.null_count > rows[field.name].null_count:
                    rows = batch.set_column(rows, field.name, values)
        return with_roles("BatchRecords", rows, self.roles)


def _columns(rows: Sequence[Mapping[str, Any]], names: Sequence[str]) -> Iterator[Sequence[Any]]:
    """Yield the values of each column, None where a record lacks it."""
    if len(names) > 1:
        try:
            yield from zip(*map(itemgetter(*names), rows), strict=True)
        except KeyError:  # before the first column, as `zip` takes all rows
            pass
        else:
            return
    for name in names:
        yield [row.get(name) for row in rows]


def _as_dicts(records: Sequence[Any]) -> Sequence[Mapping[str, Any]]:
    if {*map(type, records)} == {dict}:
        return records
    return [one if isinstance(one, Mapping) else _as_dict(one) for one in records]


def _as_dict(record: Any) -> Mapping[str, Any]:
    """Return {name: value} of a record; values are not copied."""
    if hasattr(record, "_asdict"):
        return dict(record._asdict())
    if dataclasses.is_dataclass(record) and not isinstance(record, type):
        return {field.name: getattr(record, field.name) for field in dataclasses.fields(record)}
    advice = ""
    if isinstance(record, bytes):
        advice = ": if elements are serialized tf.train.Examples, apply ParseExamples instead"
    raise ConfigError(
        f"BatchRecords: expected {_RECORDS}, got an element of type {type(record).__name__}{advice}"
    )


def _array(name: str, values: Sequence[Any], field: pa.Field | None) -> pa.Array:
    """Return the values of a column; arrays of NumPy of one shape become lists of a fixed size."""
    try:
        array = None
        kinds = {*map(type, values)}
        if np.ndarray in kinds:
            array, values = _of_arrays(name, values)
        elif np.datetime64 in kinds:  # Arrow takes those of some units only, one by one
            units = {value.dtype for value in values if isinstance(value, np.datetime64)}
            array = pa.array(np.array(values, np.result_type(*units)))
        if array is None:
            array = pa.array(values, None if field is None else field.type)
        elif field is not None:
            array = array.cast(field.type)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        if isinstance(error, ConfigError):
            raise
        raise ConfigError(
            f"BatchRecords: column {name!r}: {error}: convert its values to one type, or pass a"
            " schema"
        ) from error
    if field is None and not _holds_nothing(array.type):
        try:
            user_feature(pa.field(name, array.type))
        except ConfigError as error:
            raise ConfigError(
                f"BatchRecords: column {name!r}: expected integers (except uint64), bools, floats,"
                f" strings, bytes, dates, timestamps, or lists of these, got {array.type}: convert"
                " the values, or pass a schema"
            ) from error
    return array


def _holds_nothing(kind: pa.DataType) -> bool:
    return pa.types.is_null(kind) or (is_list(kind) and pa.types.is_null(kind.value_type))


def _of_arrays(name: str, values: Sequence[Any]) -> tuple[pa.Array | None, Sequence[Any]]:
    """Return the column if the arrays have one shape; otherwise None, and values for Arrow."""
    shapes = {np.shape(value) if isinstance(value, np.ndarray) else None for value in values}
    if shapes == {()}:
        return None, [value[()] for value in values]
    shape = next(iter(shapes))
    if len(shapes) == 1 and shape and 0 not in shape:
        stacked = np.stack(values)
        array = fixed_lists(stacked.reshape(-1, shape[-1]))
        for size in shape[-2::-1]:
            array = pa.FixedSizeListArray.from_arrays(array, size)
        return array, values
    if any(shape is not None and len(shape) != 1 for shape in shapes):
        shown = " and ".join(sorted({str(shape) for shape in shapes if shape is not None}))
        raise ConfigError(
            f"BatchRecords: column {name!r}: expected arrays of one shape, or of one dimension,"
            f" got the shapes {shown}: flatten the arrays"
        )
    return None, values


def with_tensors(rows: pa.RecordBatch, *, text: bool = False) -> pa.RecordBatch:
    """Return a batch whose user columns of lists become columns of values or fixed-size lists.

    A column becomes values if each list has one value, and fixed-size lists if all lists have the
    same length.

    text: whether bytes become strings if all of them are UTF-8.
    """
    fields = {field.name for field in user_fields(rows.schema)}
    return pa.RecordBatch.from_pydict(
        {
            name: _as_tensor(values, text) if name in fields else values
            for name, values in zip(rows.schema.names, rows.columns, strict=True)
        }
    )


def _as_tensor(lists: pa.Array, text: bool) -> pa.Array:
    if not is_list(lists.type):
        return lists
    if text and pa.types.is_binary(lists.type.value_type):
        with contextlib.suppress(pa.ArrowInvalid):
            lists = lists.cast(pa.list_(pa.string()))
    sizes = np.asarray(lists.value_lengths().fill_null(-1))
    if not len(sizes) or sizes[0] < 1 or (sizes != sizes[0]).any():
        return lists
    flat = lists.flatten()
    return flat if sizes[0] == 1 else pa.FixedSizeListArray.from_arrays(flat, int(sizes[0]))


class _Collect(beam.DoFn):
    """Collects the records of a bundle into batches; converts elements that are batches."""

    def __init__(self, convert: _Converter) -> None:
        self._convert = convert
        self._most = _LEAST

    def start_bundle(self) -> None:
        self._records: list[Any] = []

    def process(self, record: Any) -> Any:
        kind = type(record)
        if kind is pa.RecordBatch:
            return [*self._flush(), self._convert.of_batch(record)]
        if kind is tuple and len(record) == 2 and isinstance(record[0], pa.RecordBatch):
            return [*self._flush(), self._convert.of_transform(*record)]
        self._records.append(record)
        return self._flush() if len(self._records) >= self._most else ()

    def finish_bundle(self) -> Iterator[WindowedValue]:
        for rows in self._flush():
            yield GlobalWindows.windowed_value_at_end_of_window(rows)

    def _flush(self) -> list[pa.RecordBatch]:
        if not self._records:
            return []
        rows = self._convert.batch(self._records)
        self._records = []
        fitting = limits.BATCH_BYTES * len(rows) // max(rows.nbytes, 1)
        self._most = min(max(fitting, 1), limits.VALUE_ROWS)
        return [rows]


@dataclasses.dataclass(eq=False)
class BatchRecords(beam.PTransform):
    """Make batches of records: dicts, `beam.Row`s, named tuples or dataclasses in,
    `pyarrow.RecordBatch`es out.

    Each key becomes a column, which is null for records without the key, and where a value is NaN.
    Values are numbers, strings, bytes, dates, timestamps, lists of these, scalars of NumPy and
    Arrow, and NumPy arrays. Arrays of one shape become a feature of that shape; lists, and arrays
    of one dimension that differ in length, become a feature of variable length. Elements may also
    be batches, such as the batches of tensorflow-transform (`output_record_batches=True`).

    Args:
      key_column, label_column, group_column, split_column: Columns with the unique name of a
        record, its class, its group and its split. They become system columns, not features.
        Classes are strings or integers.
      schema: Names and types of the columns; other columns are left out. Default: all columns of
        the records, with inferred types.

    Raises:
      ConfigError: An element is not a record, the values of a column have several types, no
        feature can hold them, or classes are decimal numbers.

    Example::

        rows | BatchRecords(label_column="species") | WriteToTFRecord("out/")
    """

    _: dataclasses.KW_ONLY
    key_column: str | None = None
    label_column: str | None = None
    group_column: str | None = None
    split_column: str | None = None
    schema: pa.Schema | None = None

    def __post_init__(self) -> None:
        super().__init__()
        check_options(self)
        self._roles = roles_of(self)
        self._fields: list[str] | None = None  # None if only the records show them
        if self.schema is not None:
            self._fields = self.schema.names
            for name, role in self._roles.items():
                expect_column("BatchRecords", role, name, self.schema.names, of="the schema")

    def has(self, system_column: str) -> bool:
        """Return whether the batches may have a system column, such as `__group__`."""
        given = system_column in self._roles.values()
        return given or self._fields is None or system_column in self._fields

    def expand(self, records: beam.PCollection[Record]) -> beam.PCollection[pa.RecordBatch]:
        kind = records.element_type
        fields = getattr(kind, "_fields", None)  # of a named tuple, or of a `beam.Row` type
        if fields is not None:
            names = [field if isinstance(field, str) else field[0] for field in fields]
            for name, role in self._roles.items():
                expect_column("BatchRecords", role, name, names)
            self._fields = self._fields or names
        collect = beam.ParDo(_Collect(_Converter(self._roles, self.schema)))
        return records | "Batch" >> collect.with_output_types(pa.RecordBatch)
