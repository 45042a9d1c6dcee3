"""Classes as numbers."""

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.features import Feature
from recordmill.transforms.model.data_type import Context
from recordmill.transforms.model.ragged import string_array


def label_feature(*, unlabelled: bool) -> Feature:
    """The class as a number; none of a record without one, where there may be such."""
    return Feature(dtype="int64", shape=(None,) if unlabelled else (), kind="label")


def label_numbers(labels: pa.StringArray, context: Context) -> pa.Array:
    """int64[n], null where there is no label."""
    classes = pc.index_in(labels, value_set=string_array(context.labels))
    return pc.add(classes.cast(pa.int64()), context.label_offset)
