"""BatchRecords: batches of dicts, `beam.Row`s or named tuples, for pipelines that make records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)

# Elements of a pipeline that are records, or batches of them.
Record: TypeAlias = pa.RecordBatch | dict[str, object] | beam.Row | tuple[object, ...]

_OPTIONS = {
    batch.KEY: "key_column",
    batch.LABEL: "label_column",
    batch.GROUP: "group_column",
    batch.SPLIT: "split_column",
}
_LEAST, _MOST = 256, 4096  # records of a batch


@dataclasses.dataclass(frozen=True)
class _Converter:
    """Makes a batch of records. roles: {column of the user: system column}."""

    roles: Mapping[str, str]
    schema: pa.Schema | None

    def __call__(self, records: Sequence[Any]) -> pa.RecordBatch:
        """Return a batch with a row per record.

        Raises:
          ConfigError: the records have no columns, or values of one column have several types.
        """
        rows = [one if isinstance(one, dict) else _as_dict(one) for one in records]
        if self.schema is None:
            names = dict.fromkeys(name for row in rows for name in row)
            columns = {name: [row.get(name) for row in rows] for name in names}
        else:
            columns = {name: [row.get(name) for row in rows] for name in self.schema.names}
        arrays = {}
        for name, values in columns.items():
            kind = None if self.schema is None else self.schema.field(name).type
            try:
                arrays[name] = pa.array(values, kind)
            except (pa.ArrowException, TypeError, OverflowError) as error:
                raise ConfigError(
                    f"BatchRecords: column {name!r}: {error}: convert its values to one type, or"
                    " pass a schema"
                ) from error
        for name, role in self.roles.items():
            if name not in arrays:
                raise ConfigError(
                    f"BatchRecords: {_OPTIONS[role]}: expected a column of the records, got"
                    f" {name!r}: they have {', '.join(arrays)}"
                )
            arrays[role] = arrays.pop(name).cast(pa.string())
        return pa.RecordBatch.from_pydict(arrays)


def _as_dict(record: Any) -> dict[str, Any]:
    """Return a `beam.Row` or a named tuple as a dict."""
    if hasattr(record, "_asdict"):
        return dict(record._asdict())
    raise ConfigError(
        "BatchRecords: expected dicts, beam.Rows or named tuples, got an element of type"
        f" {type(record).__name__}"
    )


@dataclasses.dataclass(eq=False)
class BatchRecords(beam.PTransform):
    """Make batches of records: dicts, `beam.Row`s or named tuples in, `pyarrow.RecordBatch`es out.

    Each key is a column; a record without it has a null there. Numbers, strings, bytes, dates,
    timestamps, lists and arrays of NumPy are values.

    Args:
      key_column, label_column, group_column, split_column: Columns with the unique name of a
        record, its class, its group and its split. They become system columns, and are no features.
      schema: Names and types of the columns; others are left out. None takes those of the records.

    Raises:
      ConfigError: An element is no record, or values of one column have several types.

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
        roles = {role: getattr(self, option) for role, option in _OPTIONS.items()}
        given = {role: name for role, name in roles.items() if name is not None}
        if len({*given.values()}) < len(given):
            raise ConfigError(
                f"BatchRecords: expected a column of its own for each role, got {given}"
            )
        self._roles = {name: role for role, name in given.items()}
        self._fields: list[str] | None = None  # None if only the records show them
        if self.schema is not None:
            self._fields = self.schema.names
            self._check_names(self.schema.names, of="the schema", they="it has")

    def _check_names(self, names: Sequence[str], *, of: str, they: str) -> None:
        """Raise ConfigError for a column that is not among the names of a source of them."""
        for name, role in self._roles.items():
            if name not in names:
                raise ConfigError(
                    f"BatchRecords: {_OPTIONS[role]}: expected a column of {of}, got {name!r}:"
                    f" {they} {', '.join(names)}"
                )

    def has(self, system_column: str) -> bool:
        """Return whether the batches may have a system column, such as `__group__`."""
        given = system_column in self._roles.values()
        return given or self._fields is None or system_column in self._fields

    def expand(self, records: beam.PCollection[Record]) -> beam.PCollection[pa.RecordBatch]:
        kind = records.element_type
        fields = getattr(kind, "_fields", None)  # of a named tuple, or of the type of `beam.Row`s
        if fields is not None:
            names = [field if isinstance(field, str) else field[0] for field in fields]
            self._check_names(names, of="the records", they="they have")
            self._fields = self._fields or names
        return (
            records
            | "Batch" >> beam.BatchElements(min_batch_size=_LEAST, max_batch_size=_MOST)
            | "Convert"
            >> beam.Map(_Converter(self._roles, self.schema)).with_output_types(pa.RecordBatch)
        )
