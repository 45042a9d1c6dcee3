"""Inference of a schema from statistics, for the user to edit."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np

from recordmill.option_checks import list_text
from recordmill.transforms.statistics.column_statistics import ColumnStatistics
from recordmill.transforms.statistics.dataset_statistics import SliceStatistics

_WORDS = 100  # the greatest number of distinct texts that a schema enumerates

_HEADING = """\
# Inferred from {records} records of all splits. Edit it, and pass it with --schema.
#
# Limit the distance between datasets (--compare-with) or splits with a comparator in a feature:
#   drift_comparator { infinity_norm { threshold: 0.1 } }
#   skew_comparator { infinity_norm { threshold: 0.1 } }
"""

_TIMES = """\
#
# Dates and times are integers here. For a text file, declare these columns again:
#   --types {types}
"""


def infer_schema(found: SliceStatistics) -> str:
    """Return a tensorflow_metadata Schema, as text, that all records of the statistics satisfy."""
    from google.protobuf import text_format
    from tensorflow_metadata.proto.v0 import schema_pb2

    schema = schema_pb2.Schema()
    for name, column in found.columns.items():
        feature = schema.feature.add(name=name)
        feature.type = {"int": 2, "float": 3, "string": 1, "bytes": 1}[column.type]
        if column.records == found.records:
            feature.presence.min_fraction = 1
        if column.records:
            feature.presence.min_count = 1
            _infer_values(feature, column)
            _infer_domain(feature, column)
    text: str = text_format.MessageToString(schema, as_utf8=True)
    heading = _HEADING.replace("{records}", f"{found.records}")
    times = [f"{name}={column.time}" for name, column in found.columns.items() if column.time]
    if times:
        heading += _TIMES.replace("{types}", shlex.quote(list_text(times)))
    return heading + text


def _infer_values(feature: Any, column: ColumnStatistics) -> None:
    """Set a shape if all records have the same number of values, else the range of that number."""
    if column.fewest != column.largest:
        feature.value_count.min = column.fewest or 0
    elif feature.presence.min_fraction != 1:
        feature.value_count.min = feature.value_count.max = column.largest or 0
    elif column.largest == 1:
        feature.shape.SetInParent()
    else:
        feature.shape.dim.add(size=column.largest)


def _infer_domain(feature: Any, column: ColumnStatistics) -> None:
    numbers = column.numbers
    if numbers is not None and column.type == "int" and numbers.least is not None:
        feature.int_domain.min, feature.int_domain.max = int(numbers.least), int(numbers.most or 0)
    elif numbers is not None and column.type == "float":
        domain = feature.float_domain
        if numbers.least is not None:
            with np.errstate(over="ignore"):
                domain.min = float(np.float32(numbers.least))
                domain.max = float(np.float32(numbers.most or 0))
        if numbers.below:
            domain.min = -np.inf
        if numbers.above:
            domain.max = np.inf
        domain.disallow_nan = numbers.nans == 0
        domain.disallow_inf = numbers.below + numbers.above == 0
    elif column.top is not None and column.top.complete and len(column.top.values) <= _WORDS:
        values, counts = column.top.ranked()
        if int(counts.sum()) == column.values:  # no text was too long to be counted
            feature.string_domain.value.extend(sorted(values.to_pylist()))
