"""The rows of the sample of a split, by which a dataset is planned."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.transforms.model import batch
from recordmill.transforms.staged.parts import (
    read_columns,
    read_part,
    with_all_keys,
    with_columns,
    with_staged_paths,
)


def sample_size(records: int) -> int:
    """Return the size of the sample of a split: a hundredth of its records, from 16 to 256."""
    return min(max(records // 100, 16), 256, records)


def _with_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with places as text, so that estimates do not depend on how places are staged."""
    for name in (batch.SOURCE, batch.PLACE):
        if name in rows.schema.names:
            rows = batch.set_column(rows, name, batch.place_names(rows[name]))
    return rows


def fetch_sample(
    sample: pa.RecordBatch, split: str, staging: Staging, *, unite: bool = False
) -> pa.RecordBatch:
    """Read the rows of a sample, in its order and in the form in which encoders get them.

    sample: as in `Survey`, not empty. unite: whether columns of batches may differ.
    """
    columns = read_columns(staging) if unite else None
    names = sample["part"].to_pylist()
    at = np.asarray(sample["row"])
    batches = []
    positions: list[int] = []
    for name in sorted(set(names)):
        chosen = [i for i, other in enumerate(names) if other == name]
        rows = read_part(name, staging=staging, keys=False).take(pa.array(at[chosen]))
        if columns is not None:
            rows = with_columns(rows, columns)
        batches.append(_with_names(with_all_keys(rows)))
        positions += chosen
    joined = batch.concat(batches).take(pa.array(np.argsort(positions)))
    count = len(joined)
    joined = batch.set_column(joined, batch.SPLIT, pa.repeat(split, count))
    joined = batch.set_column(joined, batch.COPY, pa.array(np.zeros(count, np.int32)))
    return with_staged_paths(joined, staging)
