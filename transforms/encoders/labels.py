"""Class names as integer labels: one per record, or as many as a record has labels."""

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.features import Feature
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.label_lists import edges_of
from recordmill.transforms.model.ragged import fixed_lists, list_array, string_array


class LabelColumns(NamedTuple):
    """Integer labels and class names of rows, int64 and string.

    Each is a column of n values, null for a missing label; or of n lists, sorted by number, if rows
    may have several labels.
    """

    numbers: pa.Array
    names: pa.Array


def is_multi_label(rows: pa.Schema) -> bool:
    """Return whether rows may have several labels."""
    return batch.LABELS in rows.names


def label_feature(rows: pa.Schema, *, unlabelled: bool) -> Feature:
    """Return the feature of the label.

    unlabelled: records without a label may occur. The feature then has a variable length, as it has
      if rows may have several labels.
    """
    shape = (None,) if unlabelled or is_multi_label(rows) else ()
    return Feature(dtype="int64", shape=shape, kind="label")


def text_feature(rows: pa.Schema, *, unlabelled: bool) -> Feature:
    """Return the feature of the names of the labels, as long as that of the labels."""
    shape = label_feature(rows, unlabelled=unlabelled).shape
    return Feature(dtype="string", shape=shape, kind="text")


def label_columns(rows: pa.RecordBatch, context: Context) -> LabelColumns:
    """Return the labels of rows."""
    if not is_multi_label(rows.schema):
        names = rows[batch.LABEL]
        return LabelColumns(class_numbers(names, context), names)
    at, places = _cells(rows, context)
    edges = edges_of(at, len(rows))
    names = string_array(context.labels).take(pa.array(places))
    return LabelColumns(
        list_array(places + context.label_offset, edges),
        pa.ListArray.from_arrays(pa.array(edges.astype(np.int32)), names),
    )


def class_numbers(names: pa.StringArray, context: Context) -> pa.Array:
    """Return the integer label of each class name, int64[n], null for a missing name."""
    classes = pc.index_in(names, value_set=string_array(context.labels))
    return pc.add(classes.cast(pa.int64()), context.label_offset)


def one_hot_feature(rows: pa.Schema, context: Context, *, unlabelled: bool) -> Feature:
    """Return the feature of `one_hot`."""
    variable = unlabelled and not is_multi_label(rows)
    return Feature(dtype="float32", shape=(None if variable else len(context.labels),))


def one_hot(rows: pa.RecordBatch, context: Context) -> pa.FixedSizeListArray:
    """Return float32[n, classes] with 1 for each label; null for a row without its one label."""
    count = len(context.labels)
    at, places = _cells(rows, context)
    hot = np.zeros((len(rows), count), np.float32)
    hot[at, places] = 1
    if is_multi_label(rows.schema):
        return fixed_lists(hot)
    mask = rows[batch.LABEL].is_null()
    return pa.FixedSizeListArray.from_arrays(pa.array(hot.ravel()), count, mask=mask)


def _cells(rows: pa.RecordBatch, context: Context) -> tuple[np.ndarray, np.ndarray]:
    """Return the row of each label and the index of its class, int64[m], in this order."""
    if is_multi_label(rows.schema):
        lists = rows[batch.LABELS]
        names = pc.list_flatten(lists)
        counts = np.asarray(pc.list_value_length(lists)).astype(np.int64)
        at = np.repeat(np.arange(len(rows)), counts)
    else:
        at = np.flatnonzero(np.asarray(rows[batch.LABEL].is_valid()))
        names = rows[batch.LABEL].drop_null()
    found = pc.index_in(names, value_set=string_array(context.labels))
    places = np.asarray(found).astype(np.int64)
    order = np.lexsort((places, at))
    return at[order], places[order]
