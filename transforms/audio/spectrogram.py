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
import threading

import numpy as np
import numpy.typing as npt

from recordmill.errors import ConfigError
from recordmill.transforms.audio.audio_options import MelOptions

Floats = npt.NDArray[np.float32]

_LEAST_POWER = 1e-10  # power_to_db's `amin`: -100 dB
_DB = 10 / math.log(10)
_FRACTION_BITS = 23  # of a float32
_ROOT_OF_HALF = 0x3F3504F3  # the square root of 0.5 as a float32
_BLOCK = 1 << 16  # samples that are transformed at once, so that they stay in the cache
# Slaney's mel scale: linear below 1000 Hz, logarithmic above.
_LINEAR = 200 / 3  # Hz per mel
_BREAK = 1000.0  # Hz
_LOG_STEP = math.log(6.4) / 27  # per mel


@dataclasses.dataclass(frozen=True, kw_only=True, eq=False)
class _Filters:
    """Mel filters as two factors per frequency.

    Each frequency lies between the centres of two neighbouring filters, and adds to both.

    first: number of the first frequency between two centres, int64[bins + 1], without empty ones.
    intervals: number of the interval of each of `first`.
    weights: float32[2, frequencies, 1], factors for the filters above and below, up to the last
    frequency that has any.
    """

    first: npt.NDArray[np.int64]
    intervals: npt.NDArray[np.int64]
    weights: Floats


class _Workspace:
    """Memory for Fourier transforms: new memory for each would take most of the time.

    frames: transformed at once.
    """

    def __init__(self, window: int) -> None:
        self.frames = max(_BLOCK // window, 1)
        self._windowed = np.empty((self.frames, window))
        frequencies = window // 2 + 1
        self._spectrum = np.empty((self.frames, frequencies), np.complex128)
        self._power = np.empty(self.frames * frequencies, np.float32)
        self._weighted = np.empty(2 * self.frames * frequencies, np.float32)

    def mel(self, frames: Floats, filters: _Filters, *, bins: int) -> Floats:
        """Return the mel spectrum of frames, float32[bins, frames].

        In float32 the noise of the transform would change quiet frequencies by a hundredth of a dB.
        """
        count, window = frames.shape
        windowed, spectrum = self._windowed[:count], self._spectrum[:count]
        np.multiply(frames, _hann(window), out=windowed)
        np.fft.rfft(windowed, out=spectrum)
        parts = spectrum.view(np.float64)
        parts *= parts
        power = self._power[: parts.shape[1] // 2 * count].reshape(-1, count)
        np.add(parts[:, ::2].T, parts[:, 1::2].T, out=power, casting="same_kind")
        return _mel(power, filters, self._weighted, bins=bins)


class _Workspaces(threading.local):
    """The workspace of each thread, for the latest window."""

    window = 0
    latest: _Workspace | None = None


_workspaces = _Workspaces()


def _workspace(window: int) -> _Workspace:
    if _workspaces.latest is None or _workspaces.window != window:
        _workspaces.window, _workspaces.latest = window, _Workspace(window)
    return _workspaces.latest


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
    filters, workspace = _filters(options, rate), _workspace(window)
    out = np.empty((len(frames), options.bins), np.float32)
    for start in range(0, len(frames), workspace.frames):
        some = frames[start : start + workspace.frames]
        mel = workspace.mel(some, filters, bins=options.bins)
        out[start : start + len(some)] = decibels(mel).T
    return out


def frames_of(samples: int, options: MelOptions, *, rate: int) -> int:
    """Return the frames of the spectrogram of so many samples. rate: samples per second."""
    window, hop = options.samples(rate)
    return max(samples + window // 2 * 2 - window, 0) // hop + 1


def decibels(power: Floats) -> Floats:
    """Return 10 log10 of powers, at least -100.

    A power is m * 2**e with m near 1, and log(m) = 2 artanh((m - 1) / (m + 1)), by its series.
    """
    bits = np.maximum(power, np.float32(_LEAST_POWER)).view(np.int32)
    exponent = (bits - _ROOT_OF_HALF) >> _FRACTION_BITS
    fraction = (bits - (exponent << _FRACTION_BITS)).view(np.float32).astype(np.float64)
    ratio = (fraction - 1) / (fraction + 1)
    square = ratio * ratio
    series = square * (1 / 13)
    for odd in (11, 9, 7, 5, 3):
        series += 1 / odd
        series *= square
    series += 1
    series *= ratio
    series *= 2 * _DB
    series += exponent * (math.log(2) * _DB)
    return series.astype(np.float32)


def check_filters(options: MelOptions, rate: int) -> None:
    """Raise ConfigError if a filter lies between two frequencies, and would always be empty."""
    filters = _filters(options, rate)
    window, _ = options.samples(rate)
    power = np.ones((window // 2 + 1, 1), np.float32)
    sums = _mel(power, filters, np.empty(2 * len(power), np.float32), bins=options.bins)
    empty = int((sums == 0).sum())
    if empty:
        raise ConfigError(
            f"--mel-bins {options.bins}: {empty} of the bins hold no frequency of a window of"
            f" {window} samples: use fewer bins, or a larger --window-size"
        )


def _mel(power: Floats, filters: _Filters, weighted: Floats, *, bins: int) -> Floats:
    """Return the sums of the filters, float32[bins, frames]. power: float32[frequencies, frames].

    Interval i lies between the centres of the filters i - 1 and i, where filter -1 and filter
    `bins` do not exist. weighted: memory for the products, float32[2 * power.size] or more.
    """
    count = power.shape[1]
    out = np.zeros((bins + 2, count), np.float32)
    if len(filters.first):
        weighted = weighted[: filters.weights.size * count].reshape(2, -1, count)
        np.multiply(power[: filters.weights.shape[1]], filters.weights, out=weighted)
        rising, falling = np.add.reduceat(weighted, filters.first, axis=1)
        out[filters.intervals + 1] = rising
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
    last = int(places[-1]) + 1 if len(places) else 0
    return _Filters(
        first=first,
        intervals=interval[first],
        weights=np.stack([rising, falling])[:, :last, None].astype(np.float32),
    )


def _mel_of(hertz: float) -> float:
    if hertz < _BREAK:
        return hertz / _LINEAR
    return _BREAK / _LINEAR + math.log(hertz / _BREAK) / _LOG_STEP


def _hertz(mel: float) -> float:
    if mel < _BREAK / _LINEAR:
        return mel * _LINEAR
    return _BREAK * math.exp(_LOG_STEP * (mel - _BREAK / _LINEAR))
