"""Log-mel spectrograms, equal to librosa's with Slaney's filters.

They equal `power_to_db(melspectrogram(y=..., center=True, power=2), top_db=None).T` of librosa.
Only operations that round alike on every processor are used: no matrix products of BLAS, and no
logarithm of NumPy, whose last bits depend on the processor.

Source: https://librosa.org/doc/latest/generated/librosa.feature.melspectrogram.html
"""

from __future__ import annotations

import dataclasses
import functools
import math

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.transforms.audio.audio_options import MelOptions

Floats = npt.NDArray[np.float32]

_LEAST_POWER = 1e-10  # power_to_db's `amin`: -100 dB
_DB = 10 / math.log(10)
# Slaney's mel scale: linear below 1000 Hz, logarithmic above.
_LINEAR = 200 / 3  # Hz per mel
_BREAK = 1000.0  # Hz
_LOG_STEP = math.log(6.4) / 27  # per mel


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Filters:
    """Mel filters as two factors per frequency.

    Each frequency lies between the centres of two neighbouring filters, and adds to both.

    first: number of the first frequency between two centres, int64[bins + 1], without empty ones.
    intervals: number of the interval of each of `first`. last: one past the last frequency.
    rising, falling: float32[frequencies, 1], factors for the filters on both sides.
    """

    first: npt.NDArray[np.int64]
    intervals: npt.NDArray[np.int64]
    last: int
    rising: Floats
    falling: Floats


def log_mel(samples: Floats, options: MelOptions, *, rate: int) -> Floats:
    """Return the spectrogram of a mono waveform in decibels, float32[frames, bins].

    samples: float32[n]. rate: samples per second.
    """
    window, hop = options.samples(rate)
    edges = np.zeros(window // 2, np.float32)
    padded = np.concatenate([edges, samples, edges])
    if len(padded) < window:  # an odd window, and one sample less
        padded = np.concatenate([padded, np.zeros(window - len(padded), np.float32)])
    frames = np.lib.stride_tricks.sliding_window_view(padded, window)[::hop]
    # In float32 the noise of the transform would change quiet frequencies by a hundredth of a dB.
    spectrum = np.fft.rfft(frames * _hann(window)).view(np.float64)
    spectrum *= spectrum
    power = (spectrum[:, ::2] + spectrum[:, 1::2]).T.astype(np.float32, order="C")
    filters = _filters(options, rate)
    return decibels(_mel(power, filters, bins=options.bins).T)


def frames_of(samples: int, options: MelOptions, *, rate: int) -> int:
    """Return the frames of the spectrogram of so many samples. rate: samples per second."""
    window, hop = options.samples(rate)
    return max(samples + window // 2 * 2 - window, 0) // hop + 1


def decibels(power: npt.NDArray[np.floating]) -> Floats:
    """Return 10 log10 of powers, at least -100, as float32.

    A power is m * 2**e, and log(m) = 2 artanh((m - 1) / (m + 1)), with m near 1 by its series.
    """
    fraction, exponent = np.frexp(np.maximum(power.astype(np.float64), _LEAST_POWER))
    below = fraction < math.sqrt(0.5)
    fraction = np.where(below, 2 * fraction, fraction)
    ratio = (fraction - 1) / (fraction + 1)
    square = ratio * ratio
    series = np.full_like(square, 1 / 13)
    for odd in (11, 9, 7, 5, 3, 1):
        series *= square
        series += 1 / odd
    series *= 2 * ratio
    series += (exponent - below) * math.log(2)
    return np.asarray(series * _DB, np.float32)


def check_filters(options: MelOptions, rate: int) -> None:
    """Raise ConfigError if a filter lies between two frequencies, and would always be empty."""
    filters = _filters(options, rate)
    power = np.ones((len(filters.rising), 1), np.float32)
    empty = int((_mel(power, filters, bins=options.bins) == 0).sum())
    if empty:
        window, _ = options.samples(rate)
        raise ConfigError(
            f"--mel-bins {options.bins}: {empty} of the bins hold no frequency of a window of"
            f" {window} samples: use fewer bins, or a larger --window-size"
        )


def _mel(power: Floats, filters: _Filters, *, bins: int) -> Floats:
    """Return the sums of the filters, float32[bins, frames]. power: float32[frequencies, frames].

    Interval i lies between the centres of the filters i - 1 and i, where filter -1 and filter
    `bins` do not exist.
    """
    out = np.zeros((bins + 2, power.shape[1]), np.float32)
    if len(filters.first):
        power = power[: filters.last]
        rising = np.add.reduceat(power * filters.rising[: filters.last], filters.first, axis=0)
        falling = np.add.reduceat(power * filters.falling[: filters.last], filters.first, axis=0)
        out[filters.intervals + 1] += rising
        out[filters.intervals] += falling
    return out[1:-1]


@functools.lru_cache(maxsize=8)
def _hann(size: int) -> npt.NDArray[np.float64]:
    """Return the periodic Hann window, rounded a little, as C libraries differ in the last bit."""
    return np.array([round(0.5 - 0.5 * math.cos(2 * math.pi * n / size), 13) for n in range(size)])


@functools.lru_cache(maxsize=8)
def _filters(options: MelOptions, rate: int) -> _Filters:
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
    # The area of each filter is 1: 2 divided by its width. None rises at the end, or falls at the
    # beginning.
    area = np.zeros(options.bins + 2)
    area[1:-1] = 2 / (centres[2:] - centres[:-2])
    rising, falling = up * area[low_edge + 1], down * area[low_edge]
    places = np.flatnonzero(inside)
    changes = np.flatnonzero(np.diff(interval[places], prepend=-1))
    first = places[changes]
    return _Filters(
        first=first,
        intervals=interval[first],
        last=int(places[-1]) + 1 if len(places) else 0,
        rising=rising.astype(np.float32)[:, None],
        falling=falling.astype(np.float32)[:, None],
    )


def _mel_of(hertz: float) -> float:
    if hertz < _BREAK:
        return hertz / _LINEAR
    return _BREAK / _LINEAR + math.log(hertz / _BREAK) / _LOG_STEP


def _hertz(mel: float) -> float:
    if mel < _BREAK / _LINEAR:
        return mel * _LINEAR
    return _BREAK * math.exp(_LOG_STEP * (mel - _BREAK / _LINEAR))
