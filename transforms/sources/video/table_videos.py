"""Source of clips of videos that the rows of tables hold."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import pyarrow as pa

from recordmill.errors import RecordError, Reject
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import Layout, ListingPart, Parts
from recordmill.transforms.model.user_columns import user_fields
from recordmill.transforms.sources.media.media_layout import TableLayout
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.video.clip_rows import clip_schema
from recordmill.transforms.sources.video.video_decoder import pyav
from recordmill.transforms.sources.video.video_source import FILE, VideoSource, with_sections


@dataclasses.dataclass(frozen=True, kw_only=True)
class TableVideos(VideoSource):
    """Lists sections of tables, and reads the clips of the videos in their rows.

    A video is not split into sections. One task reads all videos of a section of a table.
    """

    files: MediaRows

    def scan(self) -> Iterator[ListingPart]:
        """Yield the sections of the tables.

        Raises:
          ConfigError: a table cannot be parsed, or there are no rows.
        """
        pyav()
        return self.files.scan()

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> TableLayout:
        """Return the layout of the clips. Raises ConfigError as `MediaRows.layout` does."""
        table = self.files.layout(parts, keep, facts=facts)
        seconds = self.segments.names
        users = [field for field in user_fields(table.columns) if field.name not in seconds]
        fields = [table.columns.field(batch.PLACE), *users]
        return TableLayout.of(table, columns=clip_schema(self.cut.frames, fields), grouped=True)

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Return the clips of a part of the listing, as they are read.

        Raises:
          ChangedInputError: a table has changed since it was listed.
        """
        assert isinstance(layout, TableLayout)
        columns = layout.columns
        return self.files.read_contents(
            sections, layout.table, lambda rows, data: self._read_table(rows, columns)
        )

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Raise RunError, because a section of a table has too many videos to reject."""
        return self.files.reject_sections(sections, layout, error)

    def _read_table(self, rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        """Yield the clips of the videos of rows."""
        rows, rejects = self.segments.split_off(rows)
        keys = rows[batch.KEY].to_pylist()
        files = zip(*(rows[name].to_pylist() for name in FILE), strict=True)
        at: list[int] = []
        for row, file in enumerate(files):
            probed = self._video_probe.inspect(file)
            if isinstance(probed, RecordError):
                rejects.append(Reject(keys[row], "read", probed.reason, probed.detail))
            else:
                at.append(row)
        yield ListingPart(rejects=rejects, inputs=0)
        if at:
            yield from self._read(with_sections(rows, at, [(None, 1)] * len(at)), schema)
