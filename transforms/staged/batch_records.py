"""BatchRecords: batches of dicts, `beam.Row`s or named tuples, for pipelines that make records."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import apache_beam as beam
import pyarrow as pa

from recordmill.errors import ConfigError
from recordmill.transforms.model import batch, coders  # noqa: F401  (coders: registers the batch's coder)

# Elements of a pipeline that are records, or batches of them.
Record: TypeAlias = pa.RecordBatch | dict[str, object] | beam.Row | tuple[object, ...]

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
                    f"BatchRecords: expected a column {name!r}, got {', '.join(arrays)}"
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
        roles = {batch.KEY: self.key_column, batch.LABEL: self.label_column}
        roles |= {batch.GROUP: self.group_column, batch.SPLIT: self.split_column}
        given = {role: name for role, name in roles.items() if name is not None}
        if len({*given.values()}) < len(given):
            raise ConfigError(
                f"BatchRecords: expected a column of its own for each role, got {given}"
            )
        self._roles = {name: role for role, name in given.items()}

    def expand(self, records: beam.PCollection[Record]) -> beam.PCollection[pa.RecordBatch]:
        return (
            records
            | "Batch" >> beam.BatchElements(min_batch_size=_LEAST, max_batch_size=_MOST)
            | "Convert"
            >> beam.Map(_Converter(self._roles, self.schema)).with_output_types(pa.RecordBatch)
        )
