"""Classes as numbers."""

import pyarrow as pa
import pyarrow.compute as pc

from transforms.encoders.ragged import string_array
from transforms.kind import Context


def label_numbers(labels: pa.StringArray, context: Context) -> pa.Array:
    """int64[n], null where there is no label."""
    classes = pc.index_in(labels, value_set=string_array(context.labels))
    return pc.add(classes.cast(pa.int64()), context.label_offset)
