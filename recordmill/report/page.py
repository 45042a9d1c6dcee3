"""Assemble the report of a dataset: one HTML file without references to other files."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import jinja2
from markupsafe import Markup

from recordmill.checking import inspection
from recordmill.checking.inspection import Summary
from recordmill.format.ledger import Ledger
from recordmill.format.manifest import Manifest
from recordmill.format.split_names import in_order
from recordmill.profile.statistics_file import SliceView
from recordmill.report import charts, index_figures, sampling
from recordmill.report.cards import Card, CardMaker
from recordmill.report.distributions import Distributions, FeatureFigure, Plot
from recordmill.report.index_figures import SizeFigure
from recordmill.report.pairs import Pair, similar_pairs
from recordmill.report.sampling import SampledRecord
from recordmill.report.vocabularies import vocabularies
from recordmill.storage.files import Location

PLOTTED = 1_000  # records per split for distributions
_DRAWN = 160  # records to draw, copies not counted
_PER_CLASS = 8  # of them, per class and split
_CLASSES = 40  # classes of which records are drawn
_TITLES = {"length": "bytes of a record", "width": "image width", "height": "image height"}


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassRow:
    """Counts of one class: {split: (records, of which copies)}. number: of the class."""

    name: str
    number: int | None
    counts: Mapping[str, tuple[int, int]]
    weight: float | None

    @property
    def total(self) -> int:
        """Records of all splits."""
        return sum(records for records, _ in self.counts.values())


@dataclasses.dataclass(frozen=True, kw_only=True)
class LedgerStage:
    """A stage of the ledger: its number, and the numbers that left there, by reason."""

    name: str
    count: int
    left: Sequence[tuple[str, int]]

    @property
    def text(self) -> str:
        """The name for this number: `1 record`, `2 records`."""
        first, _, rest = self.name.partition(" ")
        if self.count == 1:
            first = "copy" if first == "copies" else first.removesuffix("s")
        return f"{first} {rest}".rstrip()


@dataclasses.dataclass(frozen=True, kw_only=True)
class SampleReport:
    """Report of the sample: records by class and split, and distributions."""

    cards: Mapping[str, Mapping[str, Sequence[Card]]]
    features: Sequence[FeatureFigure]
    brightness: Plot | None
    plotted: Mapping[str, int]


def render(
    dataset: Location,
    *,
    compared: Mapping[str, SliceView] | None = None,
    other: str | None = None,
    command: str | None = None,
) -> str:
    """Return the report of a dataset as HTML.

    compared, other: the statistics of another dataset, and its name, for drift.
    command: the command that rebuilds the dataset.

    Raises:
      ManifestError, IndexDamagedError, DatasetDamagedError, StorageError: the dataset cannot be
        read.
    """
    summary = inspection.inspect(dataset, compared=compared)
    manifest = summary.manifest
    splits = in_order(manifest.splits)
    rows = class_rows(summary)
    drawn = _drawn(rows)
    tokens = vocabularies(dataset, manifest)
    maker = CardMaker(manifest, tokens)
    shown = _shown(dataset, manifest, drawn, maker, tokens)
    sizes = index_figures.sizes(dataset, manifest)
    return _template().render(
        name=str(dataset).rstrip("/").rpartition("/")[2],
        dataset=str(dataset),
        summary=summary,
        manifest=manifest,
        splits=splits,
        rows=rows,
        top={split: max((row.counts[split][0] for row in rows), default=0) for split in splits},
        stages=stages(manifest.ledger, shards=sum(len(s.shards) for s in manifest.splits.values())),
        sizes=[(_TITLES[one.name], one, _size_chart(one)) for one in sizes],
        shown=shown,
        extremes=extremes(shown),
        drawn=drawn,
        pairs=pairs_of(dataset, manifest, maker),
        distances=[*_largest(summary)],
        other=other,
        command=command,
    )


def class_rows(summary: Summary) -> list[ClassRow]:
    """Return the classes in the order of their numbers, then the unlabelled records."""
    manifest = summary.manifest
    rows = [
        ClassRow(
            name=label,
            number=number,
            counts={
                name: (split.classes[label].records, split.classes[label].copies)
                for name, split in summary.splits.items()
            },
            weight=manifest.class_weights.get(label),
        )
        for number, label in enumerate(manifest.labels, start=manifest.label_offset)
    ]
    unlabelled = ClassRow(
        name="(no class)",
        number=None,
        counts={
            name: (split.unlabelled.records, split.unlabelled.copies)
            for name, split in summary.splits.items()
        },
        weight=None,
    )
    if not any(row.total for row in rows):  # the classes are those of boxes, if any
        return [unlabelled]
    return [*rows, unlabelled] if unlabelled.total else rows


def stages(ledger: Ledger, *, shards: int) -> list[LedgerStage]:
    """Return the stages from inputs to shards; the numbers of each add up to that before it."""
    inputs, records, copies = ledger.inputs, ledger.records, ledger.copies
    unit = "records" if ledger.unit == "input" else f"{ledger.unit}s"

    def left(**counts: int) -> list[tuple[str, int]]:
        return [(reason, count) for reason, count in counts.items() if count]

    found = [
        LedgerStage(
            name="inputs",
            count=inputs.read + inputs.rejected + inputs.filtered,
            left=left(rejected=inputs.rejected, filtered=inputs.filtered),
        ),
        LedgerStage(
            name=unit,
            count=records.made,
            left=left(
                rejected=records.rejected, filtered=records.filtered, dropped=records.dropped
            ),
        ),
    ]
    if copies.planned:
        found.append(
            LedgerStage(
                name="copies added", count=copies.planned, left=left(rejected=copies.rejected)
            )
        )
    written = records.written + copies.written
    if ledger.packs is not None:
        found.append(LedgerStage(name="texts packed", count=written, left=()))
        written = ledger.packs
    return [
        *found,
        LedgerStage(name="records written", count=written, left=()),
        LedgerStage(name="shards", count=shards, left=()),
    ]


def _drawn(rows: Sequence[ClassRow]) -> dict[str | None, int]:
    """Return the number of records to draw of each class and split.

    If there are too many classes, the largest and the smallest are drawn.
    """
    present = [row for row in rows if row.total]
    if len(present) > _CLASSES:
        by_size = sorted(present, key=lambda row: (-row.total, row.name))
        present = [*by_size[: _CLASSES // 2], *by_size[-_CLASSES // 2 :]]
    splits = max((len(row.counts) for row in present), default=1)
    count = _DRAWN // max(len(present) * splits, 1)
    most = 3 * _PER_CLASS if len(present) == 1 else _PER_CLASS
    return {None if row.number is None else row.name: min(max(count, 1), most) for row in present}


def _size_chart(figure: SizeFigure) -> str:
    if figure.histogram is None:
        return ""
    title = f"{_TITLES[figure.name]} per split, on a logarithmic axis"
    return charts.histogram(figure.histogram, title=title)


def _shown(
    dataset: Location,
    manifest: Manifest,
    drawn: Mapping[str | None, int],
    maker: CardMaker,
    tokens: Mapping[str, Mapping[int, str]],
) -> SampleReport:
    distributions = Distributions(manifest.features)
    cards: dict[str, dict[str, list[Card]]] = {}
    for split in in_order(manifest.splits):
        sample = sampling.choose(
            dataset, split, manifest.splits[split], plotted=PLOTTED, shown=drawn
        )
        plotted = {place.number: place for place in sample.plotted}
        places = {place.number: place for some in sample.shown.values() for place in some}
        made: dict[int, Card] = {}
        for number, record in sampling.read(dataset, manifest, split, sample.numbers()):
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
        features=distributions.summaries({**labels, **tokens}),
        brightness=distributions.brightness(),
        plotted=distributions.records,
    )


def extremes(shown: SampleReport) -> list[tuple[str, Card]]:
    """Return the darkest and the brightest of the images that are drawn; empty without images."""
    cards = [
        card
        for group in shown.cards.values()
        for some in group.values()
        for card in some
        if card.images and not card.place.copy
    ]
    if len(cards) < 2:
        return []
    by_brightness = sorted(cards, key=lambda card: (card.images[0].brightness, card.place.key))
    return [("darkest", by_brightness[0]), ("brightest", by_brightness[-1])]


def pairs_of(
    dataset: Location, manifest: Manifest, maker: CardMaker
) -> list[tuple[Pair, list[Card]]]:
    """Return pairs of similar records, with the cards of those that are in the dataset."""
    pairs = similar_pairs(dataset, manifest)
    places = {key: place for pair in pairs for key, place in pair.places.items()}
    cards: dict[str, Card] = {}
    for split in manifest.splits:
        keys = {number: key for key, (of, number) in places.items() if of == split}
        for number, record in sampling.read(dataset, manifest, split, sorted(keys)):
            place = SampledRecord(
                split=split, number=number, key=keys[number], label=None, copy=0, rank=0
            )
            cards[place.key] = maker.card(place, record, maker.thumbnails(record))
    return [(pair, [cards[key] for key in pair.keys if key in cards]) for pair in pairs]


def _largest(summary: Summary) -> list[tuple[str, object]]:
    """Return the largest distances between splits, and from the other dataset."""
    found: list[tuple[str, object]] = []
    for what, comparison in (("skew", summary.skew), ("drift", summary.drift)):
        if comparison is not None:
            found += [(what, one) for one in comparison.distances[:20]]
    return found


def _visible(value: object) -> object:
    """Make the control and direction marks of every text visible that a template prints."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return charts.visible(str(value)) if is_text else value


@functools.cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("recordmill.report"),
        autoescape=True,
        finalize=_visible,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["number"] = charts.number_text
    environment.globals["bar"] = charts.bar
    return environment.get_template("report.html.j2")
