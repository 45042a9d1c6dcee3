"""The order in which a mixture takes records of its sources: a function of the position alone.

Positions are divided into windows of 1,000. A source with the share s gets either floor(1000 s) or
ceil(1000 s) of any 1,000 consecutive positions, wherever they begin:

- In every window the same places belong to floor(1000 s) records of each source: one at random in
  each of as many equal parts of the window.
- The places that are left are slots. The fractions of the sources are laid end to end on a line of
  as many units as there are slots, and window b gives slot i to the source at i + b/1000. A source
  that reaches from one unit into the next has only one slot at a time, because its fraction is
  below 1, and only moves to a later place between two windows.

Shares are whole millionths. So after a million positions the sequence repeats, and each source has
had exactly its share.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.reading.epoch_order import GOLDEN, Numbers, mix

WINDOW = 1_000
PARTS = 1_000_000  # into which shares are divided


def shares(weights: Mapping[Any, float]) -> tuple[int, ...]:
    """Return the shares of sources as whole millionths, by their weights.

    Raises:
      ConfigError: a share is less than a millionth.
    """
    exact = {name: Fraction(weight) for name, weight in weights.items()}
    total = sum(exact.values())
    quotas = [PARTS * weight / total for weight in exact.values()]
    rounded = [int(quota) for quota in quotas]
    by_remainder = sorted(range(len(quotas)), key=lambda one: rounded[one] - quotas[one])
    for one in by_remainder[: PARTS - sum(rounded)]:
        rounded[one] += 1
    for name, part in zip(weights, rounded, strict=True):
        if not part:
            raise ConfigError(
                f"the weight of {name} is less than a millionth of all weights: increase it, or"
                " leave the dataset out"
            )
    return tuple(rounded)


@dataclasses.dataclass(frozen=True, kw_only=True)
class SourceTables:
    """Tables from which the positions of a source's records in a mixture are computed.

    part: its share in millionths.
    before: int64[1001], its records before each window of a million positions.
    places: int64[n + 1], places in every window that belong to it, and 1,000.
    slot: int64[1000], the place of its slot in each window; 1,000 in windows without one.
    slot_rank: int64[1000], the number of its records before the slot in a window.
    """

    part: int
    before: Numbers
    places: Numbers
    slot: Numbers
    slot_rank: Numbers

    def positions(self, indices: Numbers) -> Numbers:
        """Return the positions of records, by the number of the source's records before each."""
        repeats, rest = np.divmod(indices, self.part)
        windows = np.searchsorted(self.before, rest, side="right") - 1
        rank, slot_rank = rest - self.before[windows], self.slot_rank[windows]
        place = np.where(
            rank == slot_rank, self.slot[windows], self.places[rank - (rank > slot_rank)]
        )
        # In windows without a slot, its rank is that after all of the source's records.
        found: Numbers = (repeats * WINDOW + windows) * WINDOW + place
        return found


class MixtureSchedule:
    """The source at each position of a mixture, and the number of its records before it.

    parts: the share of each source in millionths.
    """

    def __init__(self, parts: Sequence[int]) -> None:
        self.parts = tuple(parts)

    @property
    def sources(self) -> int:
        """Number of sources."""
        return len(self.parts)

    @functools.cached_property
    def whole(self) -> Numbers:
        """Records of each source that every window has: int64[sources]."""
        return np.array(self.parts) // WINDOW

    @functools.cached_property
    def ends(self) -> Numbers:
        """Ends of the fractions of sources on their line, in thousandths: int64[sources]."""
        return np.cumsum(np.array(self.parts) % WINDOW)

    @functools.cached_property
    def starts(self) -> Numbers:
        """Starts of the fractions of sources on their line, in thousandths: int64[sources]."""
        found: Numbers = self.ends - np.array(self.parts) % WINDOW
        return found

    @functools.cached_property
    def pattern(self) -> Numbers:
        """The source at each place of a window, or `sources` + the slot: int64[1000]."""
        counts = [*self.whole.tolist(), int(self.ends[-1]) // WINDOW]
        times = [
            (np.arange(count) + _jitter(source, count)) / count
            for source, count in enumerate(counts)
        ]
        of_sources = np.repeat(np.arange(self.sources), self.whole)
        ids = np.append(of_sources, self.sources + np.arange(counts[-1]))
        found: Numbers = ids[np.lexsort((ids, np.concatenate(times)))]
        return found

    @functools.cached_property
    def _places(self) -> list[Numbers]:
        """Places of each source in a window, and of each slot."""
        return [
            np.flatnonzero(self.pattern == one)
            for one in range(self.sources + int(self.ends[-1]) // WINDOW)
        ]

    @functools.cached_property
    def _slot_places(self) -> Numbers:
        """Place of each slot in a window, and one after all: int64[slots + 1]."""
        return np.array([*(int(one[0]) for one in self._places[self.sources :]), WINDOW])

    @functools.cached_property
    def _ordinals(self) -> Numbers:
        """Records of a place's own source before it in its window, without slots: int64[1000]."""
        found = np.zeros(WINDOW, np.int64)
        for places in self._places:
            found[places] = np.arange(len(places))
        return found

    def locate(self, positions: Numbers) -> tuple[Numbers, Numbers]:
        """Return the source at each position, and the number of its records before."""
        windows, places = np.divmod(positions, WINDOW)
        phases = windows % WINDOW
        found = self.pattern[places]
        in_slot = found >= self.sources
        line = (found[in_slot] - self.sources) * WINDOW + phases[in_slot]
        source = found.copy()
        source[in_slot] = np.searchsorted(self.ends, line, side="right")
        before = self._before_windows(source, windows)
        index = before + self._ordinals[places] * ~in_slot
        slot = self._slot_of(source, phases)
        index += ~in_slot & (self._slot_places[slot] < places)
        for one in np.unique(source[in_slot]).tolist():
            chosen = in_slot & (source == one)
            index[chosen] += np.searchsorted(self._places[one], places[chosen])
        return source, index

    def counts(self, position: int) -> Numbers:
        """Return the records of each source before a position: int64[sources]."""
        window, place = divmod(position, WINDOW)
        sources = np.arange(self.sources)
        windows = np.full(self.sources, window)
        slot = self._slot_of(sources, windows % WINDOW)
        inside = [np.searchsorted(self._places[one], place) for one in range(self.sources)]
        return (
            self._before_windows(sources, windows)
            + np.array(inside)
            + (self._slot_places[slot] < place)
        )

    def source_tables(self, source: int) -> SourceTables:
        """Return the tables from which the positions of a source's records are computed."""
        windows = np.arange(WINDOW + 1)
        sources = np.full(WINDOW + 1, source)
        slot = self._slot_places[self._slot_of(sources, windows % WINDOW)][:WINDOW]
        places = self._places[source]
        return SourceTables(
            part=self.parts[source],
            before=self._before_windows(sources, windows),
            places=np.append(places, WINDOW),
            slot=slot,
            slot_rank=np.searchsorted(places, slot),
        )

    def position(self, source: int, index: int) -> int:
        """Return the position of a source's record, by the number of its records before."""
        return int(self.source_tables(source).positions(np.array([index]))[0])

    def length(self, records: Sequence[int], *, until: str) -> int:
        """Return the number of positions until the first, or the last, source is exhausted.

        records: number of records of each source.
        """
        ends = itertools.starmap(self.position, enumerate(one - 1 for one in records))
        return (min(ends) if until == "first_exhausted" else max(ends)) + 1

    def _before_windows(self, sources: Numbers, windows: Numbers) -> Numbers:
        """Return the records of sources in all windows before these: int64[n]."""
        repeats, phases = np.divmod(windows, WINDOW)
        in_slots = _points(self.ends[sources], phases) - _points(self.starts[sources], phases)
        found: Numbers = (
            repeats * np.array(self.parts)[sources] + phases * self.whole[sources] + in_slots
        )
        return found

    def _slot_of(self, sources: Numbers, phases: Numbers) -> Numbers:
        """Return the slot that each source has in a window; the number of slots for none."""
        starts = self.starts[sources]
        line = starts + (phases - starts) % WINDOW
        return np.where(line < self.ends[sources], line // WINDOW, self.ends[-1] // WINDOW)


def _jitter(source: int, count: int) -> npt.NDArray[np.float64]:
    """Return numbers in [0, 1) for the places of a source.

    Places at equal distances would give some of several hosts no record of a source.
    """
    numbers = (np.arange(count) + (source << 32)).astype(np.uint64)
    return (mix(numbers * np.uint64(GOLDEN)) >> np.uint64(11)) / 2**53


def _points(end: Numbers, phases: Numbers) -> Numbers:
    """Return how many numbers below `end` have a remainder by 1,000 below `phases`."""
    found: Numbers = end // WINDOW * phases + np.minimum(end % WINDOW, phases)
    return found
