"""Reads statistics.pb of a dataset: the part of it that datasets and splits are compared by."""

from __future__ import annotations

import contextlib
import dataclasses
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from recordmill.errors import ConfigError
from recordmill.format.file_info import file_info
from recordmill.format.manifest import Manifest, ManifestError, load
from recordmill.format.replaced_datasets import expect_unchanged
from recordmill.format.typed_json import MAX_COUNT
from recordmill.option_names import option_name
from recordmill.storage.files import Location, PathError

STATISTICS = "statistics.pb"
ALL_EXAMPLES = "All Examples"  # TFDV's name for the slice of all splits
FINE_HISTOGRAM = "fine_histogram"  # a custom statistic: its bucket boundaries are always the same
LONGEST = 256  # bytes: longer texts are not listed among the most frequent ones

_ROUNDING = 1e-6  # of a float32, and of sums of counts
# The share of a short text that is not listed, because it is not among the 1,000 most frequent
# ones, is at most 1/1,000, and its count may be too low by 1/1,024 of all values.
_RARE = 0.002
_INFINITE = "infinite"  # values of both signs
_EXACT_DISTINCT = 1024  # fewer distinct values are counted exactly
_LEAST_DISTINCT = 0.85  # of an estimate of more, whose standard error is 3 %


@dataclasses.dataclass(frozen=True, kw_only=True)
class ColumnView:
    """Statistics of one column.

    records, missing: numbers of records with and without a value. values: number of all values.
    categories: {text: count} of the most frequent texts; None for columns without texts.
    buckets: ascending (low, high, count) of a histogram; None for columns without numbers.
    odd: {"NaN", "inf", "-inf" or, for both signs, "infinite": count} of the numbers that are in no
      bucket.
    unlisted: the largest share of values that a text outside of `categories`, or an infinity of one
      sign, may have.
    """

    records: int
    missing: int
    values: int
    categories: Mapping[str, float] | None = None
    buckets: tuple[tuple[float, float, float], ...] | None = None
    odd: Mapping[str, float] = dataclasses.field(default_factory=dict)
    unlisted: float = 0.0

    @property
    def has_all_numbers(self) -> bool:
        """True if buckets and `odd` hold all values."""
        counts = (*(count for _, _, count in self.buckets or ()), *self.odd.values())
        return math.isclose(math.fsum(counts), self.values, rel_tol=_ROUNDING)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SliceView:
    """Statistics of a set of records, such as a split: their number, and their columns by name."""

    records: int
    columns: Mapping[str, ColumnView]


def parse(content: bytes, *, whole: bool = True) -> dict[str, SliceView]:
    """Parse statistics into {slice: statistics}, for all splits together and for each split.

    Slices of single classes are left out. whole: include the slice of all splits together.

    Raises:
      ManifestError: the content is not a valid DatasetFeatureStatisticsList.
    """
    with _damage():
        return {
            dataset.name: SliceView(
                records=dataset.num_examples,
                columns={_name(feature): _column(feature) for feature in dataset.features},
            )
            for dataset in _parsed(content).datasets
            if "/" not in dataset.name and (whole or dataset.name != ALL_EXAMPLES)
        }


def column_types(content: bytes) -> dict[str, str]:
    """Return the types of all columns: "int" (also dates and booleans), "float" or "string".

    Columns without statistics and those of bytes are left out.

    Raises:
      ManifestError: the content is not a valid DatasetFeatureStatisticsList.
    """
    from tensorflow_metadata.proto.v0 import statistics_pb2

    kinds = statistics_pb2.FeatureNameStatistics
    names = {kinds.INT: "int", kinds.FLOAT: "float", kinds.STRING: "string"}
    return {
        _name(feature): names[feature.type]
        for dataset in _parsed(content).datasets
        if dataset.name == ALL_EXAMPLES
        for feature in dataset.features
        if feature.WhichOneof("stats") is not None and feature.type in names
    }


def read(
    dataset: Location, manifest: Manifest, *, whole: bool = True
) -> dict[str, SliceView] | None:
    """Read the statistics of a dataset, as `parse` does; return None if it has no statistics.

    Raises:
      ManifestError: they are invalid.
    """
    if STATISTICS not in manifest.files:
        return None
    return parse(_content(dataset, manifest), whole=whole)


def _content(dataset: Location, manifest: Manifest) -> bytes:
    """Return the content of the file, of which many damaged versions can be parsed."""
    content = (dataset / STATISTICS).read_bytes()
    if file_info(content) != manifest.files[STATISTICS]:
        raise ManifestError(
            f"{STATISTICS} is damaged: its sha256 is not that in the manifest; `recordmill verify`"
            " lists all damage"
        )
    return content


def load_compared(path: str) -> bytes:
    """Return the content of statistics.pb of the dataset to compare with.

    Raises:
      ConfigError: there is no such dataset, or it has no valid statistics.
    """
    place = Location.parse(path)
    try:
        with expect_unchanged(place):
            manifest = load(place)
            if STATISTICS in manifest.files:
                content = _content(place, manifest)
                parse(content)
                return content
    except (ManifestError, PathError, ValueError) as error:
        raise ConfigError(f"{option_name('compare_with', path)}: {error}") from error
    raise ConfigError(
        f"{option_name('compare_with', path)}: the dataset has no {STATISTICS}: write it again with"
        f" {option_name('statistics')}"
    )


def _parsed(content: bytes) -> Any:
    from google.protobuf.message import DecodeError
    from tensorflow_metadata.proto.v0 import statistics_pb2

    message = statistics_pb2.DatasetFeatureStatisticsList()
    with _damage():
        try:
            message.ParseFromString(content)
        except DecodeError as error:
            raise ValueError("expected a DatasetFeatureStatisticsList") from error
        for dataset in message.datasets:
            _check_numbers(dataset)
    return message


@contextlib.contextmanager
def _damage() -> Iterator[None]:
    """Raise ValueError as ManifestError."""
    try:
        yield
    except ValueError as error:
        raise ManifestError(f"{STATISTICS} is damaged: {error}") from error


def _check_numbers(dataset: Any) -> None:
    """Check the numbers of a slice that are compared. Raises ValueError."""
    _check_count(dataset.num_examples, f"{dataset.name!r:.80}: num_examples")
    for feature in dataset.features:
        where = f"{dataset.name!r:.80}, feature {_name(feature)!r:.80}"
        kind = feature.WhichOneof("stats")
        common = getattr(feature, kind).common_stats if kind else None
        for name in ("num_non_missing", "num_missing", "tot_num_values"):
            _check_count(getattr(common, name, 0), f"{where}: {name}")
        for bucket in feature.string_stats.rank_histogram.buckets:
            _check_count(bucket.sample_count, f"{where}: sample_count")
        for custom in feature.custom_stats:
            _check_count(custom.histogram.num_nan, f"{where}: num_nan")
            for one in custom.histogram.buckets:
                _check_count(one.sample_count, f"{where}: sample_count")
                if not one.low_value <= one.high_value:
                    raise ValueError(
                        f"{where}: expected low_value <= high_value, got {one.low_value} and"
                        f" {one.high_value}"
                    )
            if custom.name == "num_infinite":
                _check_count(custom.num, f"{where}: num_infinite")


def _check_count(value: float, name: str) -> None:
    if not 0 <= value <= MAX_COUNT:
        raise ValueError(f"{name}: expected a number >= 0 and <= {MAX_COUNT}, got {value}")


def _name(feature: Any) -> str:
    return feature.name or ".".join(feature.path.step)


def _column(feature: Any) -> ColumnView:
    kind = feature.WhichOneof("stats")
    if kind is None:  # the column has no statistics
        return ColumnView(records=0, missing=0, values=0)
    common = getattr(feature, kind).common_stats
    counted = {
        "records": common.num_non_missing,
        "missing": common.num_missing,
        "values": common.tot_num_values,
    }
    if kind == "string_stats":
        ranked = feature.string_stats.rank_histogram.buckets
        categories = {bucket.label: bucket.sample_count for bucket in ranked}
        if math.fsum(categories.values()) > counted["values"] * (1 + _ROUNDING):
            raise ValueError(f"column {_name(feature)!r} has more texts than values")
        unlisted = _unlisted(feature.string_stats, categories)
        return ColumnView(categories=categories, unlisted=unlisted, **counted)
    if kind != "num_stats":
        return ColumnView(**counted)
    odd = {}
    buckets: tuple[tuple[float, float, float], ...] = ()
    for custom in feature.custom_stats:
        if custom.name == FINE_HISTOGRAM:
            buckets = tuple(
                (one.low_value, one.high_value, one.sample_count)
                for one in custom.histogram.buckets
            )
            odd["NaN"] = float(custom.histogram.num_nan)
        elif custom.name == "num_infinite":
            odd[_sign(feature.num_stats)] = custom.num
    _check_order((edge for bucket in buckets for edge in bucket[:2]), feature)
    unlisted = odd.get(_INFINITE, 0.0) / max(common.tot_num_values, 1)
    return ColumnView(buckets=buckets, odd=odd, unlisted=unlisted, **counted)


def _sign(stats: Any) -> str:
    """Return the name of the infinite values of a column that has some."""
    if stats.min > -math.inf:
        return "inf"
    return "-inf" if stats.max < math.inf else _INFINITE


def _check_order(edges: Iterable[float], feature: Any) -> None:
    """Raise ValueError unless the boundaries of buckets are finite and ascending."""
    before = -math.inf
    for edge in edges:
        if not before <= edge < math.inf or edge == -math.inf:
            raise ValueError(
                f"column {_name(feature)!r}: expected ascending finite boundaries of buckets, got"
                f" {before:g}, {edge:g}"
            )
        before = edge


def _unlisted(stats: Any, categories: Mapping[str, float]) -> float:
    """Return the largest possible share of a text that is not listed.

    It is rare, or longer than LONGEST. Of long texts only the lengths and the number of distinct
    ones are known: each has a part of the bytes, and all others have one value at least.
    """
    values = stats.common_stats.tot_num_values
    rest = values - math.fsum(categories.values())
    if rest <= values * _ROUNDING:
        return 0.0
    size = stats.avg_length * values * (1 + _ROUNDING)
    size -= math.fsum(len(text.encode()) * count for text, count in categories.items())
    distinct = stats.unique * (1 if stats.unique < _EXACT_DISTINCT else _LEAST_DISTINCT)
    others = max(distinct - len(categories) - 1, 0)
    long = max(min(size / (LONGEST + 1), rest - others), 0)
    return float(min(rest / values, max(long / values, _RARE)))


def parse_compared(dataset: str, other: str | None) -> dict[str, SliceView] | None:
    """Return the statistics of the --compare-with dataset, None without one.

    Raises:
      ConfigError: one of the datasets has no statistics.
    """
    if other is None:
        return None
    if STATISTICS not in load(Location.parse(dataset)).files:
        raise ConfigError(
            f"{option_name('compare_with')}: {dataset} has no {STATISTICS}; expected a dataset that"
            f" was made with {option_name('statistics')}"
        )
    return parse(load_compared(other))
