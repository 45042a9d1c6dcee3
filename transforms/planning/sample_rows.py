"""The rows of the sample of a split, by which a dataset is planned."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.job.staging import Staging
from recordmill.storage.files import results_of_each
from recordmill.transforms.model import batch
from recordmill.transforms.staged.parts import (
    read_columns,
    read_part,
    with_all_keys,
    with_columns,
    with_staged_paths,
)

_PARTS = 2  # read at the same time from a store, with all columns: about 8 MiB each


def sample_size(records: int) -> int:
    """Return the size of the sample of a split: a hundredth of its records, from 16 to 256."""
    return min(max(records // 100, 16), 256, records)


def _with_names(rows: pa.RecordBatch) -> pa.RecordBatch:
    """Return rows with places as text, so that estimates do not depend on how places are staged."""
    for name in (batch.SOURCE, batch.PLACE):
        if name in rows.schema.names:
            rows = batch.set_column(rows, name, batch.place_names(rows[name]))
    return rows


def fetch_samples(
    samples: Mapping[str, pa.RecordBatch], staging: Staging, *, unite: bool = False
) -> dict[str, pa.RecordBatch]:
    """Read the rows of samples, in their order and in the form in which encoders get them.

    Each part is read once.

    samples: {split: its sample as in `Survey`, not empty}. unite: whether columns of batches may
      differ.
    """
    columns = read_columns(staging) if unite else None
    places = {
        split: (np.asarray(sample["part"].to_pylist()), np.asarray(sample["row"]))
        for split, sample in samples.items()
    }

    def read(name: str) -> dict[str, pa.RecordBatch]:
        rows = read_part(name, staging=staging, keys=False)
        chosen = {split: at[names == name] for split, (names, at) in places.items()}
        taken = {split: rows.take(pa.array(at)) for split, at in chosen.items() if len(at)}
        if columns is not None:
            taken = {split: with_columns(some, columns) for split, some in taken.items()}
        return {split: _with_names(with_all_keys(some)) for split, some in taken.items()}

    found: dict[str, list[pa.RecordBatch]] = {split: [] for split in samples}
    in_order = sorted(set().union(*(names.tolist() for names, _ in places.values())))
    for taken in results_of_each(read, in_order, at=staging.intermediate, most=_PARTS):
        for split, rows in taken.items():
            found[split].append(rows)
    return {
        split: with_staged_paths(_in_order(split, found[split], names), staging)
        for split, (names, _) in places.items()
    }


def _in_order(
    split: str, batches: list[pa.RecordBatch], names: npt.NDArray[np.str_]
) -> pa.RecordBatch:
    """Return the rows of a sample in its order.

    batches: its rows of each part, sorted by the names of parts. names: name of the part of each
      row of the sample.
    """
    order = np.argsort(np.argsort(names, kind="stable"))
    joined = batch.concat(batches).take(pa.array(order))
    count = len(joined)
    joined = batch.set_column(joined, batch.SPLIT, pa.repeat(split, count))
    return batch.set_column(joined, batch.COPY, pa.array(np.zeros(count, np.int32)))
