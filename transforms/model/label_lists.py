"""Labels of records that may have several: the column `__all_labels__`, and `__label__` as text.

A list holds each label of a record once, sorted by UTF-8; a record without labels has an empty list
and no text. The text is equal for equal lists alone, so that all steps which compare labels, such
as the search for duplicates, compare lists without knowing it.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.label_texts import join_labels
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.model import batch
from recordmill.transforms.model.ragged import list_array

Indices = npt.NDArray[np.int64]

FIELD = pa.field(batch.LABELS, pa.list_(pa.string()), False)


def split_labels(texts: pa.Array, separator: str) -> pa.ListArray:
    """Return the labels in texts with a separator between them, without spaces around each."""
    parts = pc.split_pattern(texts.fill_null(""), separator)
    names = pc.utf8_trim_whitespace(parts.flatten())
    return distinct_labels(pa.ListArray.from_arrays(parts.offsets, names))


def distinct_labels(lists: pa.ListArray) -> pa.ListArray:
    """Return lists of names as labels: sorted, each once, without nulls and blank names.

    lists: list<string>[n]; a null list has no labels.
    """
    rows, codes, names = label_cells(lists)
    order = np.argsort(np.array([name.encode() for name in names.to_pylist()], object))
    places = np.empty(len(order), np.int64)
    places[order] = np.arange(len(order))
    k = max(len(order), 1)
    cells = np.unique(rows * k + places[codes])
    return list_array(names.take(pa.array(order[cells % k])), edges_of(cells // k, len(lists)))


def is_blank(names: pa.Array) -> pa.BooleanArray:
    """Return whether each name is empty or white space alone; null for a null."""
    return pc.or_(pc.equal(names, ""), pc.utf8_is_space(names))


def label_cells(lists: pa.ListArray) -> tuple[Indices, Indices, pa.Array]:
    """Return the row and the code of each name in lists, int64[m] each, and the distinct names.

    Nulls and blank names are left out: those that are empty or white space alone.
    """
    counts = np.asarray(pc.list_value_length(lists).fill_null(0)).astype(np.int64)
    flat = pc.list_flatten(lists)
    known = np.asarray(pc.invert(is_blank(flat)).fill_null(False), bool)
    codes, names = batch.encode(flat.filter(pa.array(known)))
    return np.repeat(np.arange(len(lists)), counts)[known], codes, names


def edges_of(rows: Indices, count: int) -> Indices:
    """Return the offsets of lists, int64[count + 1], given the row of each value in order."""
    return offsets_of(np.bincount(rows, minlength=count))


def with_labels(rows: pa.RecordBatch, lists: pa.ListArray) -> pa.RecordBatch:
    """Return rows with other labels, and their text."""
    rows = batch.set_column(rows, batch.LABELS, lists)
    return batch.set_column(rows, batch.LABEL, join_labels(lists))


def held(rows: pa.RecordBatch) -> pa.Array:
    """Return all classes that rows hold: the labels of all rows, or one class per row: string[m].

    Rows without a class are left out.
    """
    if batch.LABELS in rows.schema.names:
        return pc.list_flatten(rows[batch.LABELS])
    return rows[batch.LABEL].drop_null()
