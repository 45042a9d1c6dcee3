"""Notable records: the largest and smallest, darkest and brightest, and the most alike."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from recordmill.reading.reader import Records
from recordmill.report import charts, sampling
from recordmill.report.cards import Card, CardMaker
from recordmill.report.index_figures import SizeFigure
from recordmill.report.pairs import Pair
from recordmill.report.sampling import SampledRecord
from recordmill.storage.files import Location

_ALIKE = 3  # pairs of images that are shown
_DIFFERENCE = 10.0  # largest mean difference of the grey levels of images that are alike
_COMPARED = 256  # images that are compared with each other


@dataclasses.dataclass(frozen=True, kw_only=True)
class Notable:
    """A record, and the reason for showing it, such as `largest image width: 640`."""

    reason: str
    card: Card


@dataclasses.dataclass(frozen=True, kw_only=True)
class AlikePair:
    """Two images and the mean difference of their grey levels, 0 to 255."""

    difference: float
    cards: tuple[Card, Card]


def by_brightness(cards: Sequence[Card]) -> list[Notable]:
    """Return the darkest and the brightest of drawn images; empty without images."""
    if len(cards) < 2:
        return []
    ordered = sorted(cards, key=lambda card: (card.encoded[0].brightness, card.place.key))
    return [
        Notable(reason=f"{name}: mean grey level {card.encoded[0].brightness:.0f}", card=card)
        for name, card in (("darkest", ordered[0]), ("brightest", ordered[-1]))
    ]


def most_alike(cards: Sequence[Card]) -> list[AlikePair]:
    """Return the pairs of drawn images whose grey levels differ least, on average by at most 10."""
    cards = [card for card in cards if len(card.images) == 1][:_COMPARED]
    if len(cards) < 3:
        return []
    levels = np.stack([card.images[0].levels.reshape(-1) for card in cards])
    differences = np.stack([np.abs(levels - one).mean(axis=1) for one in levels])
    differences[np.tril_indices(len(cards))] = np.inf
    found = []
    for _ in range(_ALIKE):
        one, other = np.unravel_index(int(differences.argmin()), differences.shape)
        difference = float(differences[one, other])
        if difference > _DIFFERENCE:
            break
        found.append(AlikePair(difference=difference, cards=(cards[one], cards[other])))
        differences[[one, other], :] = differences[:, [one, other]] = np.inf
    return found


def by_size(
    dataset: Location,
    records: Records,
    sizes: Iterable[SizeFigure],
    titles: Mapping[str, str],
    maker: CardMaker,
) -> list[Notable]:
    """Return the smallest and the largest records of all, by each size that differs.

    Raises:
      IndexDamagedError, DatasetDamagedError, StorageError: they cannot be read.
    """
    reasons: dict[tuple[str, int], list[str]] = {}
    for size in sizes:
        if size.histogram is not None:
            for name, one in (("smallest", size.smallest), ("largest", size.largest)):
                value, split, number = one
                what, unit = titles[size.name], ""
                if size.name == "length":
                    what, unit = "record", " bytes"
                text = f"{name} {what}: {charts.number_text(value)}{unit}"
                reasons.setdefault((split, number), []).append(text)
    places: list[SampledRecord] = []
    for split, info in records.manifest.splits.items():
        numbers = [number for of, number in reasons if of == split]
        places += sampling.find(dataset, split, info, numbers)
    cards = read_cards(records, places, maker)
    return [Notable(reason="; ".join(texts), card=cards[place]) for place, texts in reasons.items()]


def cards_of_pairs(
    records: Records, pairs: Sequence[Pair], maker: CardMaker
) -> list[tuple[Pair, list[Card]]]:
    """Return pairs of similar records, with the cards of those that are in the dataset.

    Raises:
      DatasetDamagedError, StorageError: they cannot be read.
    """
    found = {key: place for pair in pairs for key, place in pair.places.items()}
    places = [
        SampledRecord(split=split, number=number, key=key, label=None, copy=0)
        for key, (split, number) in found.items()
    ]
    cards = read_cards(records, places, maker)
    return [
        (pair, [cards[pair.places[key]] for key in pair.keys if key in pair.places])
        for pair in pairs
    ]


def read_cards(
    records: Records, places: Sequence[SampledRecord], maker: CardMaker
) -> dict[tuple[str, int], Card]:
    """Return the cards of some records, by split and number."""
    by_split: dict[str, dict[int, SampledRecord]] = defaultdict(dict)
    for place in places:
        by_split[place.split][place.number] = place
    return {
        (split, number): maker.card(some[number], record, maker.thumbnails(record))
        for split, some in by_split.items()
        for number, record in sampling.read(records, split, sorted(some))
    }
