"""Augmentations of rows: which copies have them, and what makes them differ."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from recordmill.format.split_names import TRAIN
from recordmill.transforms.model import batch

Names = tuple[str, ...]


def augmentations_of(rows: pa.RecordBatch, names: Names, *, all_of_train: bool) -> list[Names]:
    """Return the names of the augmentations of each row: of copies, or of all rows of train."""
    if not names:
        return [()] * len(rows)
    splits, copies = rows[batch.SPLIT].to_pylist(), rows[batch.COPY].to_pylist()
    return [
        names if copy > 0 or (all_of_train and split == TRAIN) else ()
        for copy, split in zip(copies, splits, strict=True)
    ]


def describe_augmentations(
    rows: pa.RecordBatch, augmentations: Sequence[Names], *, seed: int
) -> pa.Array:
    """Return all that shapes the augmentation of each row, string[n]; null without one."""
    if not any(augmentations):
        return pa.nulls(len(rows), pa.string())
    texts = [
        f"{names} seed {seed} copy {copy}" if names else None
        for names, copy in zip(augmentations, rows[batch.COPY].to_pylist(), strict=True)
    ]
    return pa.array(texts, pa.string())
