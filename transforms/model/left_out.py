"""Lines of duplicates.jsonl on records that were left out."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from recordmill.transforms.model import batch

# A line of duplicates.jsonl: key, label and given split of a record that was left out, its file and
# row (source) if its key is a hash, the reason, and the key (same_as) of the record that it
# repeats, if that is in the dataset. Of a record that resembles one of another dataset also the key
# of that one (like), and distance or similarity.
LeftOut = dict[str, Any]


def left_out_lines(
    rows: pa.RecordBatch, reason: str, same_as: pa.Array | None = None
) -> list[LeftOut]:
    """Return the lines of duplicates.jsonl on rows. same_as: as in `LeftOut`, string[n]."""
    names = [batch.KEY, batch.LABEL, batch.SPLIT]
    names += [batch.SOURCE] if batch.SOURCE in rows.schema.names else []
    if batch.SOURCE in names:
        rows = batch.set_column(rows, batch.SOURCE, batch.lineage(rows))
    lines = rows.select(names).rename_columns([name.strip("_") for name in names]).to_pylist()
    others = [None] * len(rows) if same_as is None else same_as.to_pylist()
    return [
        {**line, "reason": reason, "same_as": other}
        for line, other in zip(lines, others, strict=True)
    ]
