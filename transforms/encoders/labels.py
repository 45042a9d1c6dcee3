"""Class names as integer labels."""

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.tfrecord.features import Feature
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.ragged import string_array


def label_feature(*, unlabelled: bool) -> Feature:
    """Return the feature of the label.

    unlabelled: records without a label may occur; the feature then has a variable length.
    """
    return Feature(dtype="int64", shape=(None,) if unlabelled else (), kind="label")


def label_numbers(labels: pa.StringArray, context: Context) -> pa.Array:
    """Return the integer label of each row, int64[n], null for a missing label."""
    classes = pc.index_in(labels, value_set=string_array(context.labels))
    return pc.add(classes.cast(pa.int64()), context.label_offset)
