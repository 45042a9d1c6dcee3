"""statistics.pb of a dataset, read: what of it can be compared."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.format.manifest import Manifest, ManifestError, load
from recordmill.storage.files import Location, StorageError

STATISTICS = "statistics.pb"
WHOLE = "All Examples"  # the slice of all splits, by the name that TFDV has for it
FINE = "fine_histogram"  # the custom statistic with buckets whose bounds datasets share


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnView:
    """What is known of a column. records: that have it; missing: that have not. values: of all.

    categories: {text: how often it comes}, the most frequent, None where it is no text. buckets:
    (least, most, values) of numbers, ascending, None where it is no number; odd: {what: how many}
    of those that are in none, as they are not finite.
    """

    records: int
    missing: int
    values: int
    categories: Mapping[str, float] | None = None
    buckets: tuple[tuple[float, float, float], ...] | None = None
    odd: Mapping[str, float] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceView:
    """Records of a dataset, and their columns by name."""

    records: int
    columns: Mapping[str, ColumnView]


def parse(content: bytes) -> dict[str, SliceView]:
    """{slice: what is known of it}: all splits together, and each of them; classes are left out.

    Raises ValueError where it is no such message.
    """
    from google.protobuf.message import DecodeError
    from tensorflow_metadata.proto.v0 import statistics_pb2

    message = statistics_pb2.DatasetFeatureStatisticsList()
    try:
        message.ParseFromString(content)
    except DecodeError as error:
        raise ValueError("expected a DatasetFeatureStatisticsList") from error
    return {
        dataset.name: SliceView(
            records=dataset.num_examples,
            columns={_name(feature): _column(feature) for feature in dataset.features},
        )
        for dataset in message.datasets
        if "/" not in dataset.name
    }


def read(dataset: Location, manifest: Manifest) -> dict[str, SliceView] | None:
    """Those of a dataset; None where it has none.

    Raises ManifestError where they cannot be understood.
    """
    if STATISTICS not in manifest.files:
        return None
    try:
        return parse((dataset / STATISTICS).read_bytes())
    except ValueError as error:
        raise ManifestError(f"{STATISTICS} is damaged: {error}") from error


def load_compared(path: str) -> bytes:
    """The statistics of another dataset, as its file has them. Raises ConfigError."""
    place = Location.parse(path)
    try:
        if STATISTICS in load(place).files:
            content = (place / STATISTICS).read_bytes()
            parse(content)
            return content
    except (ManifestError, StorageError, ValueError) as error:
        raise ConfigError(f"--compare-with {path}: {error}") from error
    raise ConfigError(
        f"--compare-with {path}: the dataset has no {STATISTICS}; expected one that was made with"
        " --statistics: make it again"
    )


def _name(feature: Any) -> str:
    return feature.name or ".".join(feature.path.step)


def _column(feature: Any) -> ColumnView:
    kind = feature.WhichOneof("stats")
    if kind is None:  # nothing is told of it
        return ColumnView(records=0, missing=0, values=0)
    common = getattr(feature, kind).common_stats
    counted = {
        "records": common.num_non_missing,
        "missing": common.num_missing,
        "values": common.tot_num_values,
    }
    if kind == "string_stats":
        ranked = feature.string_stats.rank_histogram.buckets
        return ColumnView(
            categories={bucket.label: bucket.sample_count for bucket in ranked}, **counted
        )
    if kind != "num_stats":
        return ColumnView(**counted)
    odd = {}
    buckets: tuple[tuple[float, float, float], ...] = ()
    for custom in feature.custom_stats:
        if custom.name == FINE:
            buckets = tuple(
                (one.low_value, one.high_value, one.sample_count)
                for one in custom.histogram.buckets
            )
            odd["NaN"] = float(custom.histogram.num_nan)
        elif custom.name == "num_infinite":
            odd["infinite"] = custom.num
    return ColumnView(buckets=buckets, odd=odd, **counted)
