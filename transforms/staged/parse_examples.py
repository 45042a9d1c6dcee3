"""Parsing of serialized tf.train.Examples in memory: bytes become batches, and rejects."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import apache_beam as beam
import numpy as np
import pyarrow as pa
import xxhash
from apache_beam.pvalue import TaggedOutput
from apache_beam.transforms.window import GlobalWindows

from recordmill.errors import ConfigError, Reason, Reject
from recordmill.tfrecord.decode import ExampleError
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.model import coders, limits  # noqa: F401  (coders: registers the batch's coder)
from recordmill.transforms.model.counters import RecordCounters
from recordmill.transforms.sources.row_formats.tfrecords.example_columns import ExampleColumns
from recordmill.transforms.sources.rows.columns.content_keys import with_keys_by_content
from recordmill.transforms.staged.batch_records import with_roles, with_tensors

REJECTS = "rejects"


@dataclasses.dataclass(frozen=True)
class _Parser:
    """Parses Examples.

    roles: {feature: system column}. schema: schema of the features to keep; None keeps all.
    """

    roles: Mapping[str, str]
    schema: pa.Schema | None

    def parse(self, payloads: list[bytes]) -> tuple[pa.RecordBatch, list[Reject]]:
        """Return a batch of the valid Examples, and rejects of the others.

        Raises:
          ConfigError: The feature of a role is missing, or a feature holds numbers and bytes.
        """
        offsets = offsets_of(np.fromiter(map(len, payloads), np.int64, len(payloads)))
        data = np.frombuffer(b"".join(payloads), np.uint8)
        found = ExampleColumns(data, offsets[:-1], offsets[1:])
        columns = {field.name: found.column(field) for field in self._fields(found)}
        empty = np.ones(len(payloads), np.bool_)
        for column in columns.values():
            empty &= np.asarray(column.is_null())
        for row in np.flatnonzero(empty).tolist():
            found.wrong.setdefault(row, "it has no features")
        rejects = [
            Reject(xxhash.xxh3_128_hexdigest(payloads[row]), "read", Reason.BAD_VALUE, why)
            for row, why in sorted(found.wrong.items())
        ]
        rows = pa.RecordBatch.from_pydict(columns)
        if len(rejects) == len(payloads):
            return rows.slice(0, 0), rejects
        if rejects:
            keep = np.ones(len(payloads), np.bool_)
            keep[[*found.wrong]] = False
            rows = rows.filter(pa.array(keep))
        # Keys must not depend on the other records of a batch, but whether a list becomes a value,
        # or bytes become text, does.
        rows = with_keys_by_content(with_roles("ParseExamples", rows, self.roles))
        return rows if self.schema is not None else with_tensors(rows, text=True), rejects

    def _fields(self, found: ExampleColumns) -> Iterator[pa.Field]:
        if self.schema is not None:
            yield from self.schema
            return
        for name in found.names:
            try:
                kind = found.list_type(name)
            except ExampleError as error:
                raise ConfigError(
                    f"ParseExamples: feature {name!r}: {error}: pass a schema, such as"
                    f" pyarrow.schema([({name!r}, pyarrow.int64())]), to reject other types"
                ) from error
            if kind is not None:
                yield pa.field(name, kind)


class _Parse(beam.DoFn):
    def __init__(self, parser: _Parser) -> None:
        self._parser = parser
        self._counters = RecordCounters("ParseExamples")

    def start_bundle(self) -> None:
        self._payloads: list[bytes] = []
        self._bytes = 0

    def process(self, payload: bytes) -> Any:
        if not isinstance(payload, bytes):
            raise ConfigError(
                "ParseExamples: expected serialized tf.train.Examples as bytes, got an element of"
                f" type {type(payload).__name__}"
            )
        self._payloads.append(payload)
        self._bytes += len(payload)
        if self._bytes >= limits.BATCH_BYTES or len(self._payloads) >= limits.VALUE_ROWS:
            return self._flush()
        return ()

    def finish_bundle(self) -> Iterator[Any]:
        for one in self._flush():
            tagged = isinstance(one, TaggedOutput)
            value = GlobalWindows.windowed_value_at_end_of_window(one.value if tagged else one)
            yield TaggedOutput(one.tag, value) if tagged else value

    def _flush(self) -> list[Any]:
        if not self._payloads:
            return []
        rows, rejects = self._parser.parse(self._payloads)
        self._counters.add(read=len(self._payloads), out=len(rows), rejected=len(rejects))
        self.start_bundle()
        found: list[Any] = [TaggedOutput(REJECTS, reject) for reject in rejects]
        return [*found, rows] if len(rows) else found


def parse_examples(
    records: beam.PCollection[bytes], roles: Mapping[str, str], schema: pa.Schema | None
) -> tuple[beam.PCollection[pa.RecordBatch], beam.PCollection[Reject]]:
    """Return batches of serialized Examples, and rejects of elements that are not Examples.

    roles, schema: as in `_Parser`.
    """
    parsed = records | "Parse" >> beam.ParDo(_Parse(_Parser(roles, schema))).with_outputs(
        REJECTS, main="batches"
    )
    batches, rejects = parsed.batches, parsed[REJECTS]
    batches.element_type, rejects.element_type = pa.RecordBatch, Reject
    return batches, rejects
