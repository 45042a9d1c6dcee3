"""Views of a dataset for notebooks: HTML without scripts, with styles that apply to it alone.

Jupyter and others call `_repr_html_` of the last value of a cell.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Collection, Iterable, Iterator, Sequence

from markupsafe import Markup

from recordmill.errors import RunError
from recordmill.format.manifest import Manifest
from recordmill.format.split_names import in_order
from recordmill.reading.reader import Records
from recordmill.report import charts
from recordmill.report.cards import Card, CardMaker
from recordmill.report.counts import kind_of
from recordmill.report.sampling import SampledRecord
from recordmill.report.vocabularies import vocabularies
from recordmill.storage.files import Location

MAX_BYTES = 1_000_000  # of a view
_FEW = 12  # records of an overview, over all splits
_ROWS = 20  # rows of a table
_VALUES = 12  # values, images or tokens of a record
_LINES = 6  # series of a record
_CHARACTERS = 200  # characters of a name or text

_STYLE = Markup("""<style>
.recordmill-view{font-size:13px;line-height:1.5;overflow-wrap:anywhere}
.recordmill-view h3,.recordmill-view h4{margin:.6em 0 .3em;font-size:1.1em;font-weight:600}
.recordmill-view p{margin:.3em 0}
.recordmill-view table{border-collapse:collapse;margin:.3em 0}
.recordmill-view th,.recordmill-view td{padding:.1em 1em .1em 0;text-align:left}
.recordmill-view .scroll{overflow-x:auto}
.recordmill-view .cards{display:grid;gap:.5em}
.recordmill-view .cards{grid-template-columns:repeat(auto-fill,minmax(15em,1fr))}
.recordmill-view .card{border:1px solid #8888;border-radius:4px;padding:.3em;min-width:0}
.recordmill-view .copy{border-style:dashed}
.recordmill-view img{margin:0 2px 0 0;max-width:100%;height:auto;vertical-align:top}
.recordmill-view .token{border:1px solid #8888;border-radius:3px;padding:0 .2em}
.recordmill-view .unknown{border-style:dashed}
.recordmill-view .lines{display:grid;grid-template-columns:1fr 1fr;gap:.2em 1em}
.recordmill-view .lines svg{display:block;width:100%;height:auto}
.recordmill-view .line{fill:none;stroke:#1c7ed6;stroke-width:1.25;stroke-linecap:round}
.recordmill-view .box{fill:none;stroke:#e03131;stroke-width:1.5}
</style>""")


def overview_html(
    dataset: Location, split: str | None, *, features: Collection[str] | None = None
) -> str:
    """Describe a dataset, or a split of it, and show its first records.

    split, features: as for `recordmill.open`.
    """
    manifest = Records(dataset, split, features=features).manifest
    splits = in_order(manifest.splits) if split is None else [split]
    shown = splits[: _FEW // 2]

    def groups() -> Iterator[tuple[str, Iterator[Markup]]]:
        for one in shown:
            records = Records(dataset, one, features=features)
            if count := min(len(records), _FEW // len(shown)):
                heading = f"{one}: the first {count} of {len(records):,}"
                yield heading, _cards(records, dataset, features, count)

    names = [name for name in manifest.features if features is None or name in features]
    return _within_bytes([*_overview(dataset, manifest, splits, names)], groups())


class RecordsView:
    """The first records of a split, or of all splits, for a notebook."""

    def __init__(
        self,
        dataset: Location,
        split: str | None,
        *,
        count: int,
        features: Collection[str] | None = None,
    ) -> None:
        """Prepare for at most `count` records. split, features: as for `recordmill.open`."""
        self._dataset = dataset
        self._features = features
        self._records = Records(dataset, split, features=features)
        self._count = min(count, len(self._records))

    def __repr__(self) -> str:
        return f"<the first {self._count} of {self._records!r}>"

    def _repr_html_(self) -> str:
        cards = _cards(self._records, self._dataset, self._features, self._count)
        return _within_bytes([], [("", cards)])


def _within_bytes(head: Sequence[Markup], groups: Iterable[tuple[str, Iterator[Markup]]]) -> str:
    """Return a view of at most MAX_BYTES; cards that do not fit are left out, and counted."""
    parts = [Markup('<div class="recordmill-view">'), _STYLE, *head]
    size = sum(len(part.encode()) for part in parts)
    shown = 0
    is_full = False
    try:
        for heading, cards in groups:
            parts += [Markup("<h4>{}</h4>").format(_short(heading))] if heading else []
            parts.append(Markup('<div class="cards">'))
            for card in cards:
                size += len(card.encode())
                is_full = size > MAX_BYTES - 4_000  # for headings and the notice
                if is_full:
                    break
                parts.append(card)
                shown += 1
            parts.append(Markup("</div>"))
            if is_full:
                break
    except RunError as error:  # such as a damaged record: what can be read is shown
        parts.append(Markup("</div><p><strong>{}</strong></p>").format(_short(str(error), 1_000)))
    if is_full:
        parts.append(
            Markup("<p>The first {} records: a view has at most {} MB.</p>").format(
                shown, MAX_BYTES // 1_000_000
            )
        )
    return str(Markup("\n").join([*parts, Markup("</div>")]))


def _overview(
    dataset: Location, manifest: Manifest, splits: Sequence[str], features: Sequence[str]
) -> Iterator[Markup]:
    counts = [(split, manifest.splits[split].records) for split in splits]
    listed = ", ".join(f"{count:,} in {split}" for split, count in counts[:_ROWS])
    yield Markup("<h3><bdi>{}</bdi></h3><p>{} dataset: {:,} records, {}</p>").format(
        _short(str(dataset)),
        _short(kind_of(manifest)),
        sum(count for _, count in counts),
        _short(listed, 1_000),
    )
    yield from _class_table(manifest, splits)
    yield _feature_table(manifest, features)
    for note in manifest.notes[:_ROWS]:
        yield Markup("<p>{}</p>").format(_short(f"note ({note.code}): {note}", 400))
    yield Markup("<p>digest <code>{}</code></p>").format(manifest.digest[:16])


def _class_table(manifest: Manifest, splits: Sequence[str]) -> Iterator[Markup]:
    labels = manifest.labels[:_ROWS]
    if not any(manifest.splits[split].classes for split in splits):
        return
    columns = splits[:_ROWS]
    rows = [
        [label, *(f"{manifest.splits[split].classes.get(label, 0):,}" for split in columns)]
        for label in labels
    ]
    yield _table(["class", *columns], rows, total=len(manifest.labels))


def _feature_table(manifest: Manifest, names: Sequence[str]) -> Markup:
    rows = []
    for name in names[:_ROWS]:
        feature = manifest.features[name]
        shape = ", ".join("any" if size is None else str(size) for size in feature.shape)
        rows.append([name, f"{feature.dtype} [{shape}]" if shape else feature.dtype, feature.kind])
    return _table(["feature", "type", "kind"], rows, total=len(names))


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, total: int) -> Markup:
    head = _cells("th", columns)
    body = Markup("").join(Markup("<tr>{}</tr>").format(_cells("td", row)) for row in rows)
    more = f"and {total - len(rows):,} more" if total > len(rows) else ""
    return Markup(
        '<div class="scroll"><table><thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>{}'
    ).format(head, body, Markup("<p>{}</p>").format(more) if more else "")


def _cells(tag: str, texts: Sequence[str]) -> Markup:
    cell = Markup(f"<{tag}><bdi>{{}}</bdi></{tag}>")
    return Markup("").join(cell.format(_short(text)) for text in texts)


def _cards(
    records: Records, dataset: Location, features: Collection[str] | None, count: int
) -> Iterator[Markup]:
    """Yield the cards of the first records."""
    whole = records.manifest
    kept = {n: one for n, one in whole.features.items() if features is None or n in features}
    manifest = dataclasses.replace(whole, features=kept)
    maker = CardMaker(manifest, vocabularies(dataset, manifest))
    places = itertools.islice(records.places(), count)
    for number, (place, record) in enumerate(zip(places, records.between(0, count), strict=True)):
        sampled = SampledRecord(
            split=place.split,
            number=number,
            key=place.key,
            label=place.label,
            copy=place.copy,
        )
        yield _card(maker.card(sampled, record, maker.thumbnails(record)))


def _card(card: Card) -> Markup:
    parts = []
    if card.images:
        boxes = card.boxes if len(card.images) == 1 else ()
        drawn = [
            Markup('<img src="{}" width="{}" height="{}" alt="{}">').format(
                image.uri, image.width, image.height, _short(card.place.key)
            )
            if not boxes
            else _boxed(card)
            for image in card.images[:_VALUES]
        ]
        parts.append(Markup("<div>{}</div>").format(Markup("").join(drawn)))
    if card.lines:
        line_of = Markup("<div>{}<br><small>{}</small>{}</div>")
        lines = [
            line_of.format(_short(name), extent, line) for name, extent, line in card.lines[:_LINES]
        ]
        parts.append(Markup('<div class="lines">{}</div>').format(Markup("").join(lines)))
        if len(card.lines) > _LINES:
            parts.append(Markup("<div>and {} more</div>").format(len(card.lines) - _LINES))
    if card.tokens:
        token = Markup('<span class="{}">{}</span>')
        shown = [
            token.format("token" if known else "token unknown", _short(text))
            for text, known in card.tokens
        ]
        if card.padding:
            shown.append(Markup("<small>{:,} padding</small>").format(card.padding))
        parts.append(Markup("<div>{}</div>").format(Markup(" ").join(shown)))
    value = Markup("<div><b>{}</b> <bdi>{}</bdi></div>")
    parts += [value.format(_short(name), _short(text)) for name, text in card.values[:_VALUES]]
    if len(card.values) > _VALUES:
        parts.append(Markup("<div>and {:,} more</div>").format(len(card.values) - _VALUES))
    place = card.place
    facts = [f"{place.number}", *([place.label] if place.label is not None else [])]
    facts += [f"copy {place.copy}"] if place.copy else []
    parts.append(
        Markup("<div>{}: <bdi>{}</bdi></div>").format(_short(", ".join(facts)), _short(place.key))
    )
    return Markup('<div class="card{}">{}</div>').format(
        " copy" if place.copy else "", Markup("").join(parts)
    )


def _boxed(card: Card) -> Markup:
    """Draw the boxes of a card on its image."""
    image = card.images[0]
    box = Markup(
        '<rect class="box" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}">'
        "<title>{}</title></rect>"
    )
    boxes = [
        box.format(
            one.left * image.width,
            one.top * image.height,
            one.width * image.width,
            one.height * image.height,
            _short(one.label),
        )
        for one in card.boxes[: 10 * _VALUES]
    ]
    return Markup(
        '<svg role="img" aria-label="{key}" viewBox="0 0 {w} {h}" width="{w}" height="{h}">'
        '<image href="{uri}" width="{w}" height="{h}"/>{boxes}</svg>'
    ).format(
        key=_short(card.place.key),
        w=image.width,
        h=image.height,
        uri=image.uri,
        boxes=Markup("").join(boxes),
    )


def _short(text: str, most: int = _CHARACTERS) -> Markup:
    """Return the beginning of a text, escaped."""
    return charts.visible(text if len(text) <= most else f"{text[:most]}...")
