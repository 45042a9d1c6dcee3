"""Base of the sources that read records from files of rows in encoder processes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa

from recordmill.job.input_facts import ColumnRoles
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Layout, ListingPart, RowSource
from recordmill.transforms.model.usual_columns import LABELS
from recordmill.transforms.sources.files.input_paths import Inputs
from recordmill.transforms.sources.rows.columns import content_keys
from recordmill.transforms.sources.rows.reading.record_layout import RowLayout
from recordmill.transforms.sources.rows.reading.row_sections import list_sections, regroup
from recordmill.transforms.sources.rows.reading.row_steps import RowSteps


@dataclasses.dataclass(frozen=True, kw_only=True)
class RecordRows(RowSteps, RowSource):
    """Lists the sections of files of rows and reads records from them.

    Args:
      input: Path or URI of a file, a pattern (`*`, `?`, `[...]`, `**` for folders) or a folder; or
        several of them.
      worker_limits: Limits of an encoder process.
    """

    input: str | Inputs
    worker_limits: TaskLimits = DEFAULT_LIMITS

    @property
    def inputs(self) -> Inputs:
        return Inputs.of(self.input)

    @property
    def _worker_limits(self) -> TaskLimits:
        return self.worker_limits

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.key_column is None

    @property
    def keyed_by_content(self) -> bool:
        """True without a key column; the keys that `read` yields are then FILE#ROW."""
        return self.key_column is None

    def content_hashes(self, rows: pa.RecordBatch) -> pa.Array | None:
        """Return binary(16)[n]. Numbers to predict and weights do not count, as classes do not."""
        if self.weight_column is not None:
            rows = rows.drop_columns([self.weight_column])
        if self.label_type in ("int", "float"):
            names = {name.lower(): name for name in reversed(rows.schema.names)}
            usual = next((names[name] for name in LABELS if name in names), None)
            in_path = self.row_input.path_roles.get(batch.LABEL)
            rows = rows.drop_columns([self.label_column or in_path or usual])
        return content_keys.content_hashes(rows, self.format.value_parser)

    def scan(self) -> Iterator[ListingPart]:
        """Yield the sections of the files.

        Raises:
          ConfigError: a file cannot be parsed, or there are no rows.
        """
        return list_sections(self.row_input, must_label=self.unlabelled == "reject")

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the records of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        assert isinstance(layout, RowLayout)
        return regroup(self._read(sections, layout))

    def _place_fields(self, roles: ColumnRoles) -> list[pa.Field]:
        needed = roles.key is not None or self.keyed_by_content
        return [pa.field(batch.PLACE, batch.PLACES, False)] if needed else []
