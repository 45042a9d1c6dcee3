"""Mel filters as librosa makes them, with Slaney's scale and norm, and their sums over frequencies.

The sums avoid matrix products of BLAS, which round differently on different processors. A frequency
adds to two filters only, so they take far fewer operations.

Source: https://librosa.org/doc/latest/generated/librosa.filters.mel.html
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.option_names import option_name
from recordmill.transforms.audio.audio_options import MelOptions

Floats = npt.NDArray[np.float32]

# Slaney's mel scale: linear below 1000 Hz, logarithmic above.
_LINEAR = 200 / 3  # Hz per mel
_BREAK = 1000.0  # Hz
_LOG_STEP = math.log(6.4) / 27  # per mel


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class MelFilters:
    """Mel filters as two factors per frequency.

    Interval i lies between the centres of the filters i - 1 and i (filter -1 and filter `bins` do
    not exist). Its frequencies add to the filter above with the factor `rising`, and to the one
    below with `falling`. The intervals are summed together: the first frequency of each, then the
    second ones, and so on. Intervals that have no such frequency take the row of zeros that
    follows the frequencies, so that those of a rank are consecutive.

    order: rows of the power spectra in the order of their sums, int64[n].
    rising, falling: float32[n, 1].
    starts: the interval from which on the first, second, ... frequencies are summed.
    """

    bins: int
    order: npt.NDArray[np.int64]
    rising: Floats
    falling: Floats
    starts: tuple[int, ...]

    def apply(self, power: Floats, out: Floats) -> None:
        """Write the sums of the filters to `out`, float32[bins, frames].

        power: float32[frequencies + 1, frames], of which the last row is zeros.
        """
        values = np.take(power, self.order, axis=0)
        rising = self._sums(values * self.rising)
        values *= self.falling
        falling = self._sums(values)
        np.add(rising[:-1], falling[1:], out=out)

    def _sums(self, weighted: Floats) -> Floats:
        """Return the sums of the intervals, float32[bins + 1, frames], in place."""
        intervals = self.bins + 1
        sums, at = weighted[:intervals], intervals
        for start in self.starts[1:]:
            some = sums[start:]
            some += weighted[at : at + intervals - start]
            at += intervals - start
        return sums


@functools.lru_cache(maxsize=8)
def mel_filters(options: MelOptions, rate: int) -> MelFilters:
    """Return the filters for a Fourier transform. rate: samples per second."""
    window, _ = options.samples(rate)
    frequencies = window // 2 + 1
    low, high = _mel_of(options.f_min), _mel_of(options.highest(rate))
    step = (high - low) / (options.bins + 1)
    centres = np.array([_hertz(low + step * n) for n in range(options.bins + 2)])
    hertz = np.arange(frequencies) * (rate / window)
    interval = np.searchsorted(centres, hertz, side="right") - 1
    inside = (interval >= 0) & (interval <= options.bins)
    low_edge = np.where(inside, interval, 0)
    width = centres[low_edge + 1] - centres[low_edge]
    up = np.where(inside, (hertz - centres[low_edge]) / width, 0)
    down = np.where(inside, (centres[low_edge + 1] - hertz) / width, 0)
    # The height of a filter is 2 divided by its width, so its area is 1. No filter rises in the
    # last interval or falls in the first. The row of zeros has no weight.
    area = np.zeros(options.bins + 2)
    area[1:-1] = 2 / (centres[2:] - centres[:-2])
    rising = np.append(up * area[low_edge + 1], 0)
    falling = np.append(down * area[low_edge], 0)
    first = np.searchsorted(interval, np.arange(options.bins + 1))
    sizes = np.bincount(interval[inside], minlength=options.bins + 1)
    starts = [0, *(int(np.argmax(sizes > rank)) for rank in range(1, int(sizes.max(initial=0))))]
    ranks = [
        np.where(rank < sizes[start:], first[start:] + rank, frequencies)
        for rank, start in enumerate(starts)
    ]
    order = np.concatenate(ranks)
    return MelFilters(
        bins=options.bins,
        order=order,
        rising=rising[order, None].astype(np.float32),
        falling=falling[order, None].astype(np.float32),
        starts=tuple(starts),
    )


def check_filters(options: MelOptions, rate: int) -> None:
    """Raise ConfigError if a filter lies between two frequencies, and would always be empty."""
    window, _ = options.samples(rate)
    power = np.ones((window // 2 + 2, 1), np.float32)
    power[-1] = 0
    sums = np.empty((options.bins, 1), np.float32)
    mel_filters(options, rate).apply(power, sums)
    empty = int((sums == 0).sum())
    if empty:
        raise ConfigError(
            f"{option_name('bins', options.bins, flag='mel-bins')}: {empty} of the bins hold no"
            f" frequency of a window of {window} samples: use fewer bins, or a larger"
            f" {option_name('window', flag='window-size')}"
        )


def _mel_of(hertz: float) -> float:
    if hertz < _BREAK:
        return hertz / _LINEAR
    return _BREAK / _LINEAR + math.log(hertz / _BREAK) / _LOG_STEP


def _hertz(mel: float) -> float:
    if mel < _BREAK / _LINEAR:
        return mel * _LINEAR
    return _BREAK * math.exp(_LOG_STEP * (mel - _BREAK / _LINEAR))
