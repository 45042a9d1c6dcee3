"""Assemble the report of a dataset: one HTML file without references to other files."""

from __future__ import annotations

import dataclasses
import functools
import importlib.resources
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import jinja2
from markupsafe import Markup

from recordmill.checking import inspection
from recordmill.checking.inspection import Summary
from recordmill.format.manifest import MASK_LABELS, Manifest
from recordmill.format.split_names import in_order
from recordmill.profile.statistics_file import SliceView
from recordmill.reading.reader import Records
from recordmill.report import charts, commands, index_figures, notable, sampling
from recordmill.report.bytecode_files import BytecodeFiles
from recordmill.report.cards import Card, CardMaker
from recordmill.report.counts import ClassRow, class_rows, kind_of, stages
from recordmill.report.distributions import Distributions, FeatureFigure, Plot
from recordmill.report.index_figures import SizeFigure
from recordmill.report.pairs import similar_pairs
from recordmill.report.rejected import rejected_inputs
from recordmill.report.time_coverage import time_coverage
from recordmill.report.vocabularies import vocabularies
from recordmill.storage.files import Location

PLOTTED = 300  # records per split for distributions
_DRAWN = 160  # records to draw, copies not counted
_PER_CLASS = 8  # of them, per class and split
_CLASSES = 40  # classes of which records are drawn
_LARGE_CARDS = ("sensor", "text", "video")  # commands whose records take much space
_COLUMNS = 12  # of a table of records
_COMPILED_WITH: dict[str, Any] = {"autoescape": True, "trim_blocks": True, "lstrip_blocks": True}
_TITLES = {
    "length": "bytes of a record",
    "width": "image width",
    "height": "image height",
    index_figures.ASPECT: "width / height",
}


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleReport:
    """Report of the sample: records by class and split, and distributions."""

    cards: Mapping[str, Mapping[str, Sequence[Card]]]
    features: Sequence[FeatureFigure]
    brightness: Plot | None
    plotted: Mapping[str, int]

    @property
    def is_whole(self) -> bool:
        """True if distributions are over all records."""
        return all(count < PLOTTED for count in self.plotted.values())

    def all_cards(self) -> list[Card]:
        """Return the cards of all classes and splits."""
        return [card for group in self.cards.values() for some in group.values() for card in some]

    def images(self) -> list[Card]:
        """Return the cards with images or arrays, without copies."""
        return [card for card in self.all_cards() if card.images and not card.place.copy]


def render(
    dataset: Location,
    records: Records,
    *,
    compared: Mapping[str, SliceView] | None = None,
    other: str | None = None,
    command: str | None = None,
    inputs: Sequence[str] | None = None,
) -> str:
    """Return the report of a dataset as HTML.

    records: those of all splits.
    compared, other: the statistics of another dataset, and its name, for drift.
    command: the command that rebuilds the dataset. inputs: the paths that it reads, to show files
      of rejects; None if the page is to show no local files.

    Raises:
      ManifestError, IndexDamagedError, DatasetDamagedError, StorageError: the dataset cannot be
        read.
    """
    manifest = records.manifest
    summary = inspection.inspect(dataset, manifest=manifest, compared=compared)
    splits = in_order(manifest.splits)
    rows = class_rows(summary)
    drawn = _drawn(rows, alone=_PER_CLASS if manifest.command in _LARGE_CARDS else 3 * _PER_CLASS)
    tokens = vocabularies(dataset, manifest)
    maker = CardMaker(manifest, tokens)
    shown = _shown(dataset, records, drawn, maker, tokens)
    sizes = index_figures.sizes(dataset, manifest)
    images = shown.images()
    cards = shown.all_cards()
    value_names = table_columns(cards, manifest)
    encoded = [card for card in images if card.encoded]
    return template().render(
        name=str(dataset).rstrip("/").rpartition("/")[2],
        dataset=str(dataset),
        summary=summary,
        manifest=manifest,
        kind=kind_of(manifest),
        splits=splits,
        rows=rows,
        order=sampling.order(manifest),
        top={split: max((row.counts[split][0] for row in rows), default=0) for split in splits},
        most_before=max((row.before or 0.0 for row in rows), default=0.0),
        largest=max((one.records for one in summary.splits.values()), default=0),
        stages=stages(manifest.ledger, shards=sum(len(s.shards) for s in manifest.splits.values())),
        sizes=[(_TITLES[one.name], one, _size_chart(one)) for one in sizes],
        shown=shown,
        drawn=drawn,
        has_classes=len(rows) > 1 or rows[0].number is not None,
        has_vocabulary=any(not known for card in cards for _, known in card.tokens),
        are_tiles=bool(images) and all(len(card.images) == 1 for card in images),
        columns=value_names[:_COLUMNS],
        value_names=len(value_names),
        box_classes=maker.box_classes,
        in_lines=commands.in_lines,
        has_images=any(feature.kind == "image" for feature in manifest.features.values()),
        modes=Counter(image.mode for card in encoded for image in card.encoded).most_common(),
        notable=[
            *notable.by_size(dataset, records, sizes, _TITLES, maker),
            *notable.by_brightness(encoded),
        ],
        alike=notable.most_alike(images),
        pairs=notable.cards_of_pairs(records, similar_pairs(dataset, manifest), maker),
        coverage=time_coverage(dataset, manifest),
        distances=[*_largest(summary)],
        rejected=rejected_inputs(dataset, summary.rejects, inputs),
        other=other,
        command=command,
        with_local_files=None if inputs is not None else commands.report(dataset),
        inspect=functools.partial(commands.inspect, dataset),
        inspect_record=functools.partial(commands.inspect_record, dataset),
        draw_class=functools.partial(commands.draw_class, dataset),
    )


def table_columns(cards: Sequence[Card], manifest: Manifest) -> list[str]:
    """Return the features with values; none if cards have images, lines or tokens to draw."""
    if any(card.images or card.lines or card.tokens for card in cards):
        return []
    found = {name for card in cards for name, _ in card.values}
    return [name for name in manifest.features if name in found]


def _drawn(rows: Sequence[ClassRow], *, alone: int) -> dict[str | None, int]:
    """Return the number of records to draw of each class and split.

    If there are too many classes, the largest and the smallest are drawn. alone: the most records
    of each split if there is only one class.
    """
    present = [row for row in rows if row.total]
    if len(present) > _CLASSES:
        by_size = sorted(present, key=lambda row: (-row.total, row.name))
        present = [*by_size[: _CLASSES // 2], *by_size[-_CLASSES // 2 :]]
    splits = max((len(row.counts) for row in present), default=1)
    count = _DRAWN // max(len(present) * splits, 1)
    most = alone if len(present) == 1 else _PER_CLASS
    return {None if row.number is None else row.name: min(max(count, 1), most) for row in present}


def _size_chart(figure: SizeFigure) -> str:
    if figure.histogram is None or len(next(iter(figure.histogram.counts.values()))) == 1:
        return ""
    title = f"{_TITLES[figure.name]} per split, on a logarithmic axis"
    return charts.histogram(figure.histogram, title=title)


def _shown(
    dataset: Location,
    records: Records,
    drawn: Mapping[str | None, int],
    maker: CardMaker,
    tokens: Mapping[str, Mapping[int, str]],
) -> SampleReport:
    manifest = records.manifest
    distributions = Distributions(manifest.features)
    cards: dict[str, dict[str, list[Card]]] = {}
    for split in in_order(manifest.splits):
        sample = sampling.choose(dataset, split, manifest, plotted=PLOTTED, shown=drawn)
        plotted = {place.number: place for place in sample.plotted}
        places = {place.number: place for some in sample.shown.values() for place in some}
        made: dict[int, Card] = {}
        for number, record in sampling.read(records, split, sample.numbers()):
            images = maker.thumbnails(record) if number in places else {}
            if number in plotted:
                first = {name: some[0] for name, some in images.items()}
                distributions.add(plotted[number], record, first)
            if number in places:
                made[number] = maker.card(places[number], record, images)
        for label, some in sample.shown.items():
            group = cards.setdefault("(no class)" if label is None else label, {})
            group[split] = [made[place.number] for place in some]
    classes = dict(enumerate(manifest.labels, start=manifest.label_offset))
    labels = {name: classes for name, one in manifest.features.items() if one.kind == "label"}
    return SampleReport(
        cards=cards,
        features=distributions.summaries({**labels, **tokens, **_mask_names(dataset, manifest)}),
        brightness=distributions.brightness(),
        plotted=distributions.records,
    )


def _mask_names(dataset: Location, manifest: Manifest) -> dict[str, dict[int, str]]:
    """Return {feature: {class id: name}} of masks, if the dataset has the names."""
    if MASK_LABELS not in manifest.files:
        return {}
    names = dict(
        enumerate((dataset / MASK_LABELS).read_bytes().decode(errors="replace").splitlines())
    )
    return {name: names for name, one in manifest.features.items() if one.kind == "mask"}


def _largest(summary: Summary) -> list[tuple[str, object]]:
    """Return the largest distances between splits, and from the other dataset, beyond noise."""
    found: list[tuple[str, object]] = []
    for what, comparison in (("skew", summary.skew), ("drift", summary.drift)):
        if comparison is not None:
            found += [(what, one) for one in comparison.beyond_noise[:20]]
    return found


def _visible(value: object) -> object:
    """Make the control and direction marks of every text visible that a template prints."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return charts.visible(str(value)) if is_text else value


@functools.cache
def template() -> jinja2.Template:
    """Return the template of the page. The build of deploy/container calls this to compile it."""
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("recordmill.report"),
        bytecode_cache=BytecodeFiles(repr(_COMPILED_WITH)),
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        **_COMPILED_WITH,
    )
    environment.filters["number"] = charts.number_text
    environment.filters["breakable"] = charts.breakable
    environment.filters["ends_of"] = charts.ends_of
    environment.filters["shortened"] = charts.shortened
    environment.filters["percent"] = charts.percent_text
    environment.globals["bar"] = charts.bar
    folder = importlib.resources.files(__package__) / "templates"
    for name in ("css", "js"):  # no templates, which would take as long to compile as the page
        environment.globals[name] = Markup((folder / f"report.{name}").read_text("utf-8"))
    return environment.get_template("report.html.j2")
