"""Base of the sources whose rows refer to bytes: of listed files, or of TFRecord files."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.job.input_facts import NO_FACTS, ColumnRoles
from recordmill.transforms.model import batch
from recordmill.transforms.model.repeated_hashes import repeated_hashes
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.files.walks import File
from recordmill.transforms.sources.row_formats.open_rows import wanted_columns
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.rows.reading.record_layout import References, RowLayout
from recordmill.transforms.sources.rows.reading.row_sections import (
    as_config_error,
    iter_sections,
    list_sections,
)
from recordmill.transforms.sources.rows.reading.row_steps import RowSteps
from recordmill.transforms.sources.rows.reading.unusable_input import RejectedRows
from recordmill.transforms.sources.rows.references.repeated_rows import (
    Conflicts,
    RepeatedRows,
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RowReferences(RowSteps):
    """Lists the rows of files as references.

    Args:
      conflicts: Treatment of rows that have the same key and differ; equal rows count once. None:
        repeated keys are an error, which `Analyze` finds.
    """

    conflicts: Conflicts | None = None
    _infers_here: ClassVar[bool] = True
    _needs_classes: ClassVar[bool] = False
    _noun: ClassVar[str] = "row"
    _repeats: ClassVar[bool] = False  # whether keys may repeat without a column of keys

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction, or conflicts are decided."""
        if self.conflicts is not None and not self._distinct:
            return True
        return self.key_column is None and not self._repeats

    def scan(self) -> Iterator[ListingPart]:
        """Yield the rows as references.

        Raises:
          ConfigError: The input cannot be used, or has no usable row.
        """
        listed: list[pa.RecordBatch] = []
        facts, rejected = NO_FACTS, RejectedRows()
        for part in self._list():
            facts = facts.plus(part.facts)
            listed += [] if part.rows is None else [part.rows]
            rejected.add(part)
            if part.rejects or part.filtered or part.notes:
                yield dataclasses.replace(part, rows=None, facts=NO_FACTS)
        layout = self.layout(listed, facts=facts)
        references = self._references(layout)
        repeated = self._find_repeated(listed, layout, references)
        kept = 0
        for sections in listed:
            for part in self._read(sections, layout, references):
                rejected.add(part)
                if part.rows is not None:
                    kept += len(part.rows)
                    rows = _with_number_texts(part.rows, self._distinct)
                    identities = _identities(rows[batch.KEY], rows, self._distinct)
                    part = dataclasses.replace(part, rows=repeated.hold(rows, identities))
                yield self._finished(part, layout)
        for part in repeated.decide():
            yield self._finished(part, layout)
        if not kept:
            clause, advice = self._root_clause, references.advice()
            raise rejected.no_rows(self.inputs, self._noun, clause, advice=advice)
        end = references.end()
        facts = dataclasses.replace(end.facts, split_source=layout.split_source, roles=layout.roles)
        yield ListingPart(notes=(*layout.notes, *end.notes), facts=facts)

    def _list(self) -> Iterator[ListingPart]:
        """Yield parts of sections, as `list_sections`."""
        return list_sections(self.row_input)

    def _references(self, layout: RowLayout) -> References:
        """Return the references of a scan, which `attach` makes for its rows."""
        raise NotImplementedError

    @property
    def _distinct(self) -> tuple[str, ...]:
        """Columns that distinguish rows with the same key, such as times of segments."""
        return ()

    @property
    def _root_clause(self) -> str | None:
        """Clause on the folder of relative paths, for a message; None without such paths."""
        return None

    @property
    def _as_annotations(self) -> str | None:
        """Options that read the rows as annotations of images, for rejects; None without any."""
        return None

    def _reading(self, file: File) -> AbstractContextManager[None]:
        return as_config_error(file)

    def _place_fields(self, roles: ColumnRoles) -> list[pa.Field]:
        has_places = any(field.name == batch.PLACE for field in self._leading_fields)
        return [] if has_places else [pa.field(batch.PLACE, batch.PLACES, False)]

    def _finished(self, part: ListingPart, layout: RowLayout) -> ListingPart:
        """Return a part of the listing without the places of rows, which only messages need."""
        rows = part.rows if part.rows is not None and len(part.rows) else None
        if rows is not None and self._place_fields(layout.roles):
            rows = rows.drop_columns([batch.PLACE])
        return dataclasses.replace(part, rows=rows, of_values=layout.of_values)

    def _find_repeated(
        self, listed: Sequence[pa.RecordBatch], layout: RowLayout, references: References
    ) -> RepeatedRows:
        """Read all keys, and return the collector of the rows whose keys repeat."""
        roles, conflicts = layout.roles, self.conflicts
        names = sorted({*(roles.keys or (str(roles.main),)), *roles.others}.difference(layout.made))
        distinct = (
            layout.columns.field(name) for name in self._distinct if name in layout.columns.names
        )
        wanted = pa.schema([*wanted_columns(names, (), {}), *distinct])

        def read() -> Iterable[pa.Array]:
            for sections in listed:
                for file, section, _ in iter_sections(sections):
                    for rows in self._rows_of(file, section, wanted, names, layout):
                        keys = references.keys(rows, roles, file)
                        yield _identities(keys, rows.columns, self._distinct).drop_null()

        may_repeat = conflicts is not None and (roles.keys or self._repeats)
        hashes = repeated_hashes(read) if may_repeat else np.zeros(0, np.uint64)
        return RepeatedRows(
            hashes,
            conflicts=conflicts,
            inputs=str(self.inputs),
            annotations=self._as_annotations,
            content=references.content,
        )


def _identities(keys: pa.Array, rows: pa.RecordBatch, names: Sequence[str]) -> pa.Array:
    """Return the identity of each row, string[n]: the key, and the values of some columns."""
    columns = [rows[name] for name in names if name in rows.schema.names]
    columns = [column for column in columns if not pa.types.is_nested(column.type)]
    if not columns:
        return keys
    values = (_number_texts(column).fill_null("") for column in columns)
    return pc.binary_join_element_wise(keys, *values, "\x1f")


def _with_number_texts(rows: pa.RecordBatch, names: Sequence[str]) -> pa.RecordBatch:
    """Return rows with one spelling for equal numbers in columns of text."""
    for name in names:
        if name in rows.schema.names and rows[name].type == pa.string():
            rows = batch.set_column(rows, name, _number_texts(rows[name]))
    return rows


def _number_texts(column: pa.Array) -> pa.Array:
    """Return a column as text, string[n], with one spelling for equal numbers, as 0 and 0.0."""
    texts = column.cast(pa.string())
    numbers, _ = ValueParser().cast_or_null(texts, pa.float64())
    return pc.coalesce(numbers.cast(pa.string()), texts)
