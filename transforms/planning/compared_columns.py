"""Note on columns that differ in every row, so that rows are never equal although the rest is."""

from __future__ import annotations

import shlex
from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.notes import Note
from recordmill.option_checks import list_text
from recordmill.transforms.model.run_spec import RunSpec
from recordmill.transforms.planning.survey import Survey
from recordmill.transforms.sources.row_formats.values.value_parsing import ValueParser
from recordmill.transforms.sources.rows.columns.content_keys import content_hashes
from recordmill.transforms.sources.rows.columns.record_columns import TEXT
from recordmill.transforms.staged.listing import excluded_from
from recordmill.transforms.staged.parts import read_part

_FEWEST = 50  # rows of the sample; in fewer, numbers differ by chance
_MOST = 1 << 14
_DISTINCT = 0.99  # of the rows
_ID_BYTES = 64  # longest text of an id


def notes_on_compared(survey: Survey, run: RunSpec) -> Iterator[Note]:
    """Yield a note if columns such as ids hide that the other compared columns repeat.

    The sample is the beginning of the largest batch.
    """
    if not run.compared or not survey.batches:
        return
    largest = max(survey.batches, key=lambda handle: handle.part.rows)
    rows = read_part(largest.part.name, staging=run.staging, columns=run.compared, keys=False)
    rows = rows.select([name for name in run.compared if name in rows.schema.names])[:_MOST]
    if len(rows) < _FEWEST:
        return
    counts = {
        field.name: pc.count_distinct(rows[field.name]).as_py()
        for field in rows.schema
        if field.name != TEXT and _may_identify(rows[field.name])
    }
    found = [name for name, count in counts.items() if count >= _DISTINCT * len(rows)]
    rest = rows.drop_columns(found)
    if not found or not rest.num_columns:
        return
    if pc.count_distinct(content_hashes(rest, ValueParser())).as_py() == len(rows):
        return
    # Rows that --dedup drop left out repeat the ids of others.
    left_out = excluded_from(survey.parts, staging=run.staging)[1]["dedup"]
    kept = sum(part.rows for part in survey.parts)
    if kept < _DISTINCT * (kept + left_out):
        return
    every = not left_out and any(counts[name] == len(rows) for name in found)
    many = len(found) > 1
    yield Note(
        "leak",
        f"column{'s' if many else ''} {', '.join(map(repr, found))} differ{'' if many else 's'} in"
        f" {'every' if every else 'nearly every'} row, so {'no' if every else 'hardly any'} two"
        f" records are equal: name {'one of them' if many else 'it'} with --key-column, or drop"
        f" {'them' if many else 'it'} with --drop-columns {shlex.quote(list_text(found))}, to"
        " compare the others",
    )


def _may_identify(column: pa.Array) -> bool:
    """Return whether values are integers, times, or short texts without white space inside."""
    kind = column.type
    if not (pa.types.is_string(kind) or pa.types.is_large_string(kind)):
        return bool(pa.types.is_integer(kind) or pa.types.is_timestamp(kind))
    longest = pc.max(pc.binary_length(column)).as_py()
    if longest is None or longest > _ID_BYTES:
        return False
    return not pc.any(pc.match_substring_regex(column, r"[^\d:.+\-]\s|\s[^\d:.+\-]")).as_py()
