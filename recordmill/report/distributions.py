"""Distributions of features over the sampled records of each split."""

from __future__ import annotations

import dataclasses
import heapq
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
from recordmill.report.time_coverage import iso_time
from recordmill.tfrecord.features import Feature, Features

_VALUES = 256  # values of one record that count
_TOP = 8  # most frequent texts or classes that are listed
_CLASSES = 40  # classes with their most specific tokens
_TEXT = 80  # characters of a text that are shown
_VARIED = 3  # values per class, at least, whose variance says something
_WINDOW_START = "window/start"  # microseconds since 1970
_RECURRING = 0.5  # up to this share of distinct texts among the values, texts count as names


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
    top: the most frequent texts, classes or tokens, with the fraction of values that they are;
      padding is left out. For masks, the fraction of masks with the class.
    masks: number of masks that `top` is of; 0 for other features.
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
    masks: int
    unknown: Mapping[str, float]
    specific: Mapping[str, Sequence[str]]
    between_classes: float | None


class Distributions:
    """Collects the values of sampled records."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._scalars = [
            name
            for name, one in features.items()
            if one.shape == () and one.dtype != "string" and not one.sequence
        ]
        self._others = [
            name
            for name, one in features.items()
            if one.kind != "image" and name not in self._scalars and not _is_of_objects(one)
        ]
        self._records: dict[str, list[str | None]] = {}  # the label of each, per split
        self._values: dict[tuple[str, str], list[Any]] = defaultdict(list)
        self._lists: dict[str, list[tuple[str, list[Any]]]] = {}  # values of scalars, per split
        self._lengths: dict[tuple[str, str], list[int]] = defaultdict(list)
        self._texts: dict[str, Counter[bytes]] = defaultdict(Counter)
        self._missing: Counter[tuple[str, str]] = Counter()
        self._brightness: dict[str, list[float]] = defaultdict(list)
        # Labels of the values of features that not all records have.
        self._labels: dict[tuple[str, str], list[str | None]] = defaultdict(list)

    @property
    def records(self) -> Mapping[str, int]:
        """Number of records added, per split."""
        return {split: len(labels) for split, labels in self._records.items()}

    def add(
        self,
        place: SampledRecord,
        record: Mapping[str, Any],
        images: Mapping[str, Thumbnail],
    ) -> None:
        """Add a record. images: thumbnails of its images, by feature."""
        split = place.split
        self._records.setdefault(split, []).append(place.label)
        for image in images.values():
            if image.mode != ARRAY:
                self._brightness[split].append(image.brightness)
        if split not in self._lists:
            self._lists[split] = [(name, self._values[name, split]) for name in self._scalars]
        for name, values in self._lists[split]:
            values.append(record[name])
        for name in self._others:
            self._add_value(place, name, self._features[name], record[name])

    def _add_value(self, place: SampledRecord, name: str, feature: Feature, value: Any) -> None:
        split = place.split
        if feature.kind == "mask":
            from recordmill.report.mask_drawing import class_ids  # Pillow takes 0.02 s

            value = class_ids(value)
        if isinstance(value, bytes):
            self._missing[name, split] += not value
            self._texts[name][value[: 4 * _TEXT]] += 1
            self._lengths[name, split].append(len(value.decode(errors="replace")))
            return
        if isinstance(value, list):
            value = np.concatenate([np.ravel(part) for part in value]) if value else np.empty(0)
        count = value.size
        if not count:
            self._missing[name, split] += 1
        if feature.shape != () and None in feature.shape:
            self._lengths[name, split].append(count)
        if not count:
            return
        array = value.reshape(-1)[:_VALUES]
        if array.dtype.kind in "biuf":
            self._values[name, split].append(array.copy() if count > _VALUES else array)
            self._labels[name, split].append(place.label)
        else:
            self._texts[name].update(bytes(one)[: 4 * _TEXT] for one in array)

    def summaries(self, names: Mapping[str, Mapping[int, str]]) -> list[FeatureFigure]:
        """Return the features in the order of the manifest.

        names: {feature: {number: name}} of classes and tokens.
        """
        drawn: dict[tuple[Any, ...], str] = {}
        return [self._summary(name, names.get(name, {}), drawn) for name in self._features]

    def brightness(self) -> Plot | None:
        """Return the distribution of the mean grey level of images; None without images."""
        values = {name: np.asarray(self._brightness[name]) for name in in_order(self._brightness)}
        what = "mean grey level of an image"
        return _plot("brightness", what, values, by="split") if values else None

    def _summary(
        self, name: str, names: Mapping[int, str], drawn_lengths: dict[tuple[Any, ...], str]
    ) -> FeatureFigure:
        """Return the figure of a feature.

        drawn_lengths: {distribution of lengths: first feature that has it}; the feature is added.
        """
        feature = self._features[name]
        records = self.records
        splits = in_order(records)
        plots = []
        are_names = feature.kind in ("label", "index", "mask")
        join = np.concatenate if name in self._others else np.array
        values: dict[str, npt.NDArray[Any]] = {
            split: join(some).astype(np.int64 if are_names else np.float64)
            for split in splits
            if (some := self._values.get((name, split)))
        }
        classes = self._of_classes(name, values)
        texts = self._texts[name]
        if values and name == _WINDOW_START:
            plots.append(_times(values))
        elif values and not are_names:
            plots.append(_plot("values", f"values of {name}", values, by="split"))
            if feature.kind == "value" and classes and plots[-1].chart:
                largest = sorted(classes, key=lambda label: (-len(classes[label]), label))
                by_class = {label: classes[label] for label in sorted(largest[: charts.COLOURS])}
                if not _are_alike(by_class):
                    plot = _plot("by class", f"values of {name}", by_class, by="class")
                    plots.append(dataclasses.replace(plot, facts=""))
        lengths = {
            split: np.asarray(counts, np.float64)
            for split in splits
            if (counts := self._lengths.get((name, split)))
        }
        # Not plotted for texts that recur, because these are names, nor for features with at most
        # one value per record, because `missing` says how many records have none.
        are_recurring = len(texts) <= _RECURRING * texts.total()
        longest = max((counts.max() for counts in lengths.values()), default=0)
        if lengths and (
            longest > 1 if feature.shape != () else texts.total() and not are_recurring
        ):
            what = "characters" if feature.shape == () else "values per record"
            plot = _plot(what, f"{what} of {name}", lengths, by="split")
            of_splits = tuple((split, *some.tolist()) for split, some in lengths.items())
            first = drawn_lengths.setdefault(of_splits, name)
            if first != name and plot.chart:
                plot = dataclasses.replace(plot, chart=Markup(""), facts=f"as in {first}")
            plots.append(plot)
        masks = 0
        if values and are_names:
            numbers = np.concatenate([*values.values()])
            if feature.kind == "index" and feature.shape != () and 0 not in names:
                numbers = numbers[numbers != 0]
            if feature.kind == "mask":
                masks = sum(len(self._values[name, split]) for split in values)
            total = masks or len(numbers)
            top, distinct = _frequent_names(numbers, names, total)
        else:
            top, distinct = _frequent(texts)
        known = np.array(sorted(names)) if feature.kind == "index" and names else None
        return FeatureFigure(
            name=name,
            feature=feature,
            missing={split: self._missing[name, split] / records[split] for split in splits},
            plots=plots,
            top=top,
            distinct=distinct,
            masks=masks,
            unknown={}
            if known is None
            else {
                split: float(np.mean(~np.isin(some[some != 0], known)))
                for split, some in values.items()
                if (some != 0).any()
            },
            specific={} if known is None else _specific(classes, known, names),
            between_classes=_between_classes(classes)
            if feature.kind == "value" and feature.shape in ((), (None,)) and name != _WINDOW_START
            else None,
        )

    def _of_classes(
        self, name: str, values: Mapping[str, npt.NDArray[np.float64]]
    ) -> dict[str, npt.NDArray[np.float64]]:
        """Return the values of a feature per class; empty if fewer than two classes have any."""
        groups: dict[str, list[npt.NDArray[np.float64]]] = defaultdict(list)
        for split, some in values.items():
            if name in self._others:
                labels = self._labels[name, split]
                sizes = [len(one) for one in self._values[name, split]]
            else:
                labels, sizes = self._records[split], [1]
            present = sorted({label for label in labels if label is not None})
            codes: dict[str | None, int] = {label: code for code, label in enumerate(present)}
            of_values = np.repeat([codes.get(label, -1) for label in labels], sizes)
            for label in present:
                groups[label].append(some[of_values == codes[label]])
        return {k: np.concatenate(groups[k]) for k in sorted(groups)} if len(groups) > 1 else {}


def _frequent(texts: Mapping[bytes, int]) -> tuple[list[tuple[str, float]], int]:
    """Return the most frequent texts with their fractions, and the number of texts.

    If each occurs once, none is frequent.
    """
    total = sum(texts.values())
    if len(texts) == total:
        return [], len(texts)
    order = heapq.nsmallest(_TOP, texts.items(), key=lambda one: (-one[1], one[0]))
    return [(shortened(text), count / total) for text, count in order], len(texts)


def _frequent_names(
    numbers: npt.NDArray[np.int64], names: Mapping[int, str], total: int
) -> tuple[list[tuple[str, float]], int]:
    """Return the same as `_frequent`, for numbers of classes or tokens, by their names.

    total: the number that frequencies are fractions of.
    """
    some, counts = np.unique(numbers, return_counts=True)
    if not len(some):
        return [], 0
    if len(some) == len(numbers):
        return [], len(some)
    is_frequent = counts >= np.sort(counts)[-_TOP:][0]
    named = sorted(
        (-count, names.get(number, f"#{number}"))
        for number, count in zip(
            some[is_frequent].tolist(), counts[is_frequent].tolist(), strict=True
        )
    )
    shown = [(shortened(name.encode()), -count / total) for count, name in named[:_TOP]]
    return shown, len(some)


def _specific(
    classes: Mapping[str, npt.NDArray[np.float64]],
    known: npt.NDArray[np.int64],
    names: Mapping[int, str],
) -> dict[str, list[str]]:
    """Return the tokens that contribute most to the divergence of each class from all records.

    classes: token numbers of each class. known: sorted numbers of the tokens with a name. names:
    {number: token}.
    """
    counts = {
        label: np.bincount(values[np.isin(values, known)], minlength=known[-1] + 1)[known]
        for label, values in classes.items()
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


def _between_classes(classes: Mapping[str, npt.NDArray[np.float64]]) -> float | None:
    groups = [finite for values in classes.values() if len(finite := values[np.isfinite(values)])]
    together = np.concatenate([np.empty(0), *groups])
    total = float(together.var()) if len(together) else 0.0
    if len(groups) < 2 or len(together) < _VARIED * len(groups) or not total:
        return None
    between = sum(len(one) * (one.mean() - together.mean()) ** 2 for one in groups)
    return float(between / len(together) / total)


def _are_alike(classes: Mapping[str, npt.NDArray[np.float64]]) -> bool:
    """Return whether all classes have the same distribution, so that a chart shows nothing."""
    counts = [*charts.histogram_of(classes).counts.values()]
    return all((one * counts[0].sum() == counts[0] * one.sum()).all() for one in counts)


def shortened(text: bytes) -> str:
    """Return a text as it is shown in one line."""
    shown = text.decode(errors="backslashreplace")
    return shown if len(shown) <= _TEXT else f"{shown[:_TEXT]}..."


def _times(values: Mapping[str, npt.NDArray[np.float64]]) -> Plot:
    """Return the range of some times, without a chart: the report draws their coverage."""
    together = np.concatenate([*values.values()])
    first, last = (iso_time(int(one)) for one in (together.min(), together.max()))
    facts = f"from {first} to {last}" if first != last else f"always {first}"
    return Plot(heading="times", chart=Markup(""), facts=facts, series=[*values])


def _plot(
    heading: str, title: str, values: Mapping[str, npt.NDArray[np.float64]], *, by: str
) -> Plot:
    together = np.concatenate([*values.values()])
    finite = together[np.isfinite(together)]
    odd = len(together) - len(finite)
    facts, chart = "no finite values", Markup("")
    if len(finite) and finite.min() == finite.max():
        facts = f"always {charts.number_text(float(finite[0]))}"
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


def _is_of_objects(feature: Feature) -> bool:
    """Return whether a feature holds masks of objects, whose values are only 0 and 1."""
    return feature.kind == "mask" and feature.shape != ()
