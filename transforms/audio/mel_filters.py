"""Mel filters as librosa makes them, with Slaney's scale and norm, and their sums over frequencies.

The sums avoid matrix products of BLAS, which round differently on different processors. A frequency
adds to two filters only.

Source: https://librosa.org/doc/latest/generated/librosa.filters.mel.html
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.audio.audio_options import MelOptions

Floats = npt.NDArray[np.float32]

# NumPy adds up to this many numbers one by one, and more of them in eight interleaved sums.
_SHORT = 8
# Slaney's mel scale: linear below 1000 Hz, logarithmic above.
_LINEAR = 200 / 3  # Hz per mel
_BREAK = 1000.0  # Hz
_LOG_STEP = math.log(6.4) / 27  # per mel


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MelFilters:
    """Mel filters as two factors per frequency.

    Each frequency lies in an interval between the centres of two neighbouring filters, and adds to
    both. The short intervals are summed together: the first frequencies of all, then the second
    ones, and so on, as far as an interval has that many.

    order: frequencies in the order of their sums, int64[n]: the first of each short interval, the
      second, ...; then those of the long intervals.
    weights: float32[2, n, 1], factors for the filters above and below.
    counts: number of short intervals that have a first, second, ... frequency.
    long: int64[...], where the long intervals begin, after the short ones.
    intervals: number of each interval, the short ones first: interval i lies between the centres of
      the filters i - 1 and i, where filter -1 and filter `bins` do not exist.
    """

    bins: int
    order: npt.NDArray[np.int64]
    weights: Floats
    counts: tuple[int, ...]
    long: npt.NDArray[np.int64]
    intervals: npt.NDArray[np.int64]

    def apply(self, power: Floats) -> Floats:
        """Return the sums of the filters, float32[bins, frames].

        power: float32[frequencies, frames].
        """
        weighted = power[self.order] * self.weights
        sums = [self._short_sums(weighted)]
        if len(self.long):
            sums.append(np.add.reduceat(weighted[:, sum(self.counts) :], self.long, axis=1))
        rising, falling = np.concatenate(sums, axis=1) if len(self.long) else sums[0]
        out = np.zeros((self.bins + 2, power.shape[1]), np.float32)
        out[self.intervals + 1] = rising
        out[self.intervals] += falling
        return out[1:-1]

    def _short_sums(self, weighted: Floats) -> Floats:
        """Return the sums of the short intervals, float32[2, intervals, frames], in place.

        They are rounded as those of `np.add.reduceat`: the first number is added last.
        """
        ranks = []
        at = 0
        for count in self.counts:
            ranks.append(weighted[:, at : at + count])
            at += count
        if len(ranks) > 1:
            for rank in ranks[2:]:
                ranks[1][:, : rank.shape[1]] += rank
            ranks[0][:, : ranks[1].shape[1]] += ranks[1]
        return ranks[0] if ranks else weighted[:, :0]


@functools.lru_cache(maxsize=8)
def mel_filters(options: MelOptions, rate: int) -> MelFilters:
    """Return the filters for a Fourier transform. rate: samples per second."""
    window, _ = options.samples(rate)
    low, high = _mel_of(options.f_min), _mel_of(options.highest(rate))
    step = (high - low) / (options.bins + 1)
    centres = np.array([_hertz(low + step * n) for n in range(options.bins + 2)])
    hertz = np.arange(window // 2 + 1) * (rate / window)
    interval = np.searchsorted(centres, hertz, side="right") - 1
    inside = (interval >= 0) & (interval <= options.bins)
    low_edge = np.where(inside, interval, 0)
    width = centres[low_edge + 1] - centres[low_edge]
    up = np.where(inside, (hertz - centres[low_edge]) / width, 0)
    down = np.where(inside, (centres[low_edge + 1] - hertz) / width, 0)
    # The height of a filter is 2 divided by its width, so its area is 1. No filter rises in the
    # last interval or falls in the first.
    area = np.zeros(options.bins + 2)
    area[1:-1] = 2 / (centres[2:] - centres[:-2])
    weights = np.stack([up * area[low_edge + 1], down * area[low_edge]])
    places = np.flatnonzero(inside)
    first = places[np.flatnonzero(np.diff(interval[places], prepend=-1))]
    sizes = np.diff(np.append(first, places[-1:] + 1)).astype(np.int64)
    short = np.flatnonzero(sizes <= _SHORT)
    short = short[np.argsort(-sizes[short], kind="stable")]
    long = np.flatnonzero(sizes > _SHORT)
    ranks = [first[short[sizes[short] > rank]] + rank for rank in range(_SHORT)]
    ranks = [rank for rank in ranks if len(rank)]
    longs = [np.arange(first[one], first[one] + sizes[one]) for one in long]
    order = np.concatenate([*ranks, *longs, places[:0]])
    return MelFilters(
        bins=options.bins,
        order=order,
        weights=weights[:, order, None].astype(np.float32),
        counts=tuple(map(len, ranks)),
        long=offsets_of(sizes[long])[:-1],
        intervals=interval[first[np.concatenate([short, long])]],
    )


def check_filters(options: MelOptions, rate: int) -> None:
    """Raise ConfigError if a filter lies between two frequencies, and would always be empty."""
    window, _ = options.samples(rate)
    sums = mel_filters(options, rate).apply(np.ones((window // 2 + 1, 1), np.float32))
    empty = int((sums == 0).sum())
    if empty:
        raise ConfigError(
            f"--mel-bins {options.bins}: {empty} of the bins hold no frequency of a window of"
            f" {window} samples: use fewer bins, or a larger --window-size"
        )


def _mel_of(hertz: float) -> float:
    if hertz < _BREAK:
        return hertz / _LINEAR
    return _BREAK / _LINEAR + math.log(hertz / _BREAK) / _LOG_STEP


def _hertz(mel: float) -> float:
    if mel < _BREAK / _LINEAR:
        return mel * _LINEAR
    return _BREAK * math.exp(_LOG_STEP * (mel - _BREAK / _LINEAR))
