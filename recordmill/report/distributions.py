"""Distributions of features over the sampled records of each split."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from markupsafe import Markup

from recordmill.format.split_names import in_order
from recordmill.report import charts
from recordmill.report.sampling import SampledRecord
from recordmill.report.thumbnails import ARRAY, Thumbnail
from recordmill.tfrecord.features import Feature, Features

_VALUES = 256  # values of one record that count
_TOP = 8  # most frequent texts or classes that are listed
_CLASSES = 40  # classes with their most specific tokens
_TEXT = 80  # characters of a text that are shown


@dataclasses.dataclass(frozen=True, kw_only=True)
class Plot:
    """A chart and its heading, such as `values` or `values per record`.

    chart: empty if all values are equal.
    series: names of its series, in the order of their colours.
    """

    heading: str
    chart: Markup
    facts: str
    series: Sequence[str]


@dataclasses.dataclass(frozen=True, kw_only=True)
class FeatureFigure:
    """A feature as the sample shows it.

    missing: per split, the fraction of sampled records without a value.
    top: the most frequent texts, classes or tokens, with the fraction of values that they are.
    unknown: per split, the fraction of tokens that the vocabulary lacks; empty without one.
    specific: per class, the tokens that set it apart from the others.
    between_classes: the fraction of a number's variance that lies between classes; None if that is
      not defined.
    """

    name: str
    feature: Feature
    missing: Mapping[str, float]
    plots: Sequence[Plot]
    top: Sequence[tuple[str, float]]
    distinct: int
    unknown: Mapping[str, float]
    specific: Mapping[str, Sequence[str]]
    between_classes: float | None


class Distributions:
    """Collects the values of sampled records."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._records: Counter[str] = Counter()
        self._values: dict[tuple[str, str], list[npt.NDArray[np.float64] | float]] = defaultdict(
            list
        )
        self._lengths: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._texts: dict[str, Counter[bytes]] = defaultdict(Counter)
        self._missing: Counter[tuple[str, str]] = Counter()
        self._brightness: dict[str, list[float]] = defaultdict(list)
        self._labels: dict[str, list[str | None]] = defaultdict(list)  # of each added value

    @property
    def records(self) -> Mapping[str, int]:
        """Number of records added, per split."""
        return self._records

    def add(
        self,
        place: SampledRecord,
        record: Mapping[str, Any],
        images: Mapping[str, Thumbnail],
    ) -> None:
        """Add a record. images: thumbnails of its images, by feature."""
        split = place.split
        self._records[split] += 1
        for name, feature in self._features.items():
            if name in images and images[name].mode != ARRAY:
                self._brightness[split].append(images[name].brightness)
            if feature.kind == "image":
                continue
            self._add_value(place, name, feature, record[name])

    def _add_value(self, place: SampledRecord, name: str, feature: Feature, value: Any) -> None:
        split = place.split
        if isinstance(value, bytes):
            self._missing[name, split] += not value
            self._texts[name][value[: 4 * _TEXT]] += 1
            self._lengths[name, split].append(len(value.decode(errors="replace")))
            return
        if isinstance(value, np.number | int | float):
            self._values[name, split].append(float(value))
            self._labels[name].append(place.label)
            return
        parts = value if isinstance(value, list) else [value]
        flat = [np.asarray(part).reshape(-1) for part in parts]
        count = sum(map(len, flat))
        self._missing[name, split] += not count
        if feature.shape != () and None in feature.shape:
            self._lengths[name, split].append(count)
        if not count:
            return
        array = np.concatenate(flat)[:_VALUES]
        if array.dtype.kind in "biuf":
            self._values[name, split].append(array.astype(np.float64))
            self._labels[name].append(place.label)
        else:
            self._texts[name].update(bytes(one)[: 4 * _TEXT] for one in array)

    def summaries(self, names: Mapping[str, Mapping[int, str]]) -> list[FeatureFigure]:
        """Return the features in the order of the manifest.

        names: {feature: {number: name}} of classes and tokens.
        """
        return [self._summary(name, names.get(name, {})) for name in self._features]

    def brightness(self) -> Plot | None:
        """Return the distribution of the mean grey level of images; None without images."""
        values = {name: np.asarray(self._brightness[name]) for name in in_order(self._brightness)}
        what = "mean grey level of an image"
        return _plot("brightness", what, values, by="split") if values else None

    def _summary(self, name: str, names: Mapping[int, str]) -> FeatureFigure:
        feature = self._features[name]
        splits = in_order(self._records)
        plots = []
        values = {
            split: _joined(some)
            for split in splits
            if (some := self._values.get((name, split))) is not None
        }
        texts = self._texts[name]
        if feature.kind in ("label", "index") and values:
            numbers = np.concatenate([*values.values()]).astype(np.int64)
            texts = Counter(names.get(int(one), f"#{one}").encode() for one in numbers)
        elif values:
            plots.append(_plot("values", f"values of {name}", values, by="split"))
            by_class = self._largest_classes(name) if feature.kind == "value" else {}
            if by_class and plots[-1].chart:
                plots.append(_plot("by class", f"values of {name}", by_class, by="class"))
        lengths = {
            split: np.asarray(counts, np.float64)
            for split in splits
            if (counts := self._lengths.get((name, split)))
        }
        if lengths:
            what = "characters" if feature.shape == () else "values per record"
            plots.append(_plot(what, f"{what} of {name}", lengths, by="split"))
        total = max(texts.total(), 1)
        repeated = len(texts) < total  # texts of which each is there once say nothing
        return FeatureFigure(
            name=name,
            feature=feature,
            missing={split: self._missing[name, split] / self._records[split] for split in splits},
            plots=plots,
            top=[
                (shortened(text), count / total)
                for text, count in sorted(texts.items(), key=lambda one: (-one[1], one[0]))[:_TOP]
            ]
            if repeated
            else [],
            distinct=len(texts),
            unknown={
                split: float(np.mean(~np.isin(some[some != 0], [*names])))
                for split, some in values.items()
                if (some != 0).any()
            }
            if feature.kind == "index" and names
            else {},
            specific=self._specific(name, names) if feature.kind == "index" and names else {},
            between_classes=self._between_classes(name),
        )

    def _of_classes(self, name: str) -> dict[str, npt.NDArray[np.float64]]:
        """Return the values of a feature per class; empty if fewer than two classes have any."""
        groups: dict[str, list[npt.NDArray[np.float64] | float]] = defaultdict(list)
        every = [one for split in self._records for one in self._values.get((name, split), ())]
        for values, label in zip(every, self._labels[name], strict=True):
            if label is not None:
                groups[label].append(values)
        return {k: _joined(v) for k, v in groups.items()} if len(groups) > 1 else {}

    def _largest_classes(self, name: str) -> dict[str, npt.NDArray[np.float64]]:
        groups = self._of_classes(name)
        names = sorted(groups, key=lambda label: (-len(groups[label]), label))[: charts.COLOURS]
        return {label: groups[label] for label in sorted(names)}

    def _specific(self, name: str, names: Mapping[int, str]) -> dict[str, list[str]]:
        """Return the tokens with the largest part in the divergence of a class from all records."""
        known = np.array(sorted(names))
        counts = {
            label: np.bincount(
                np.searchsorted(known, values[np.isin(values, known)]), minlength=len(known)
            )
            for label, values in self._of_classes(name).items()
        }
        whole = sum(counts.values(), np.zeros(len(known)))
        shares = whole / max(whole.sum(), 1)
        found = {}
        for label, own in list(counts.items())[:_CLASSES]:
            used = np.flatnonzero(own)
            scores = own[used] * np.log(own[used] / own.sum() / shares[used])
            best = used[np.lexsort((used, -scores))[:_TOP]]
            positive = int((scores > 0).sum())
            found[label] = [names[number] for number in known[best[:positive]].tolist()]
        return found

    def _between_classes(self, name: str) -> float | None:
        feature = self._features[name]
        if feature.kind != "value" or feature.shape not in ((), (None,)):
            return None
        groups = {
            label: finite
            for label, values in self._of_classes(name).items()
            if len(finite := values[np.isfinite(values)])
        }
        together = np.concatenate([np.empty(0), *groups.values()])
        total = float(together.var()) if len(together) else 0.0
        if len(groups) < 2 or not total:
            return None
        between = sum(len(one) * (one.mean() - together.mean()) ** 2 for one in groups.values())
        return float(between / len(together) / total)


def _joined(values: Sequence[npt.NDArray[np.float64] | float]) -> npt.NDArray[np.float64]:
    """Return the values of several records, which are one number or an array each."""
    if isinstance(values[0], float):
        return np.array(values, np.float64)
    return np.concatenate(values)


def shortened(text: bytes) -> str:
    """Return a text as it is shown in one line."""
    shown = text.decode(errors="backslashreplace")
    return shown if len(shown) <= _TEXT else f"{shown[:_TEXT]}..."


def _plot(
    heading: str, title: str, values: Mapping[str, npt.NDArray[np.float64]], *, by: str
) -> Plot:
    together = np.concatenate([*values.values()])
    finite = together[np.isfinite(together)]
    odd = len(together) - len(finite)
    facts, chart = "no finite values", Markup("")
    if len(finite) and finite.min() == finite.max():
        facts = f"{charts.number_text(float(finite[0]))} each"
    elif len(finite):
        largest = np.abs(finite).max()
        mean = (finite / largest).mean() * largest  # a sum of the largest floats is infinite
        least, mean, greatest = (
            charts.number_text(float(one)) for one in (finite.min(), mean, finite.max())
        )
        facts = f"min {least}, mean {mean}, max {greatest}"
    if odd:
        facts += f", {odd:,} NaN or infinite"
    if len(finite) and finite.min() < finite.max():
        title = f"{title} per {by}: {', '.join(values)}; {facts}"
        chart = charts.histogram(charts.histogram_of(values), title=title)
    return Plot(heading=heading, chart=chart, facts=facts, series=[*values])
