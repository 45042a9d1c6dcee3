"""Log-mel spectrograms, equal to librosa's with Slaney's filters.

They equal `power_to_db(melspectrogram(y=..., center=True, power=2), top_db=None).T` of librosa.
Only operations that round alike on every processor are used: no matrix products of BLAS, and no
logarithm of NumPy, whose last bits depend on the processor.

Source: https://librosa.org/doc/latest/generated/librosa.feature.melspectrogram.html
"""

from __future__ import annotations

import functools
import math

import numpy as np
import numpy.typing as npt

from recordmill.transforms.audio.audio_options import MelOptions
from recordmill.transforms.audio.mel_filters import mel_filters

Floats = npt.NDArray[np.float32]

_LEAST_POWER = 1e-10  # power_to_db's `amin`: -100 dB
_DB = 10 / math.log(10)
_FRACTION_BITS = 23  # of a float32
_ROOT_OF_HALF = 0x3F3504F3  # the square root of 0.5 as a float32
_BLOCK = 1 << 16  # values that a step takes at once, so that they stay in the cache


class LogMel:
    """Computes the spectrograms of waveforms.

    The Fourier transform takes the frames of one waveform, the other steps those of several, which
    saves calls. They treat every frame alone, so the values do not depend on the other waveforms.

    rate: samples per second.
    """

    def __init__(self, options: MelOptions, *, rate: int) -> None:
        self._window, self._hop = options.samples(rate)
        self._filters = mel_filters(options, rate)
        frequencies = self._window // 2 + 1
        self._step = max(_BLOCK // self._window, 1)  # frames
        self._windowed = np.empty((self._step, self._window))
        self._spectrum = np.empty((self._step, frequencies), np.complex128)
        columns = max(_BLOCK // frequencies, self._step)
        self._power = np.empty((frequencies, columns), np.float32)
        self._filled = 0  # columns of `_power`
        self._done: list[Floats] = []

    def add(self, samples: Floats, *, silent_from: int | None = None) -> int:
        """Add a mono waveform, float32[n], and return the number of its frames.

        silent_from: all samples from this one on are zeros.
        """
        window, hop, edge = self._window, self._hop, self._window // 2
        count = _count_frames(len(samples), window, hop)
        padded = np.zeros(max(len(samples) + 2 * edge, window), np.float32)
        padded[edge : edge + len(samples)] = samples
        size = padded.itemsize
        frames = np.ndarray((count, window), np.float32, padded, 0, (hop * size, size))
        loud = count
        if silent_from is not None:
            loud = min(-(-(silent_from + edge) // hop), count)
        for start in range(0, loud, self._step):
            self._transform(frames[start : min(start + self._step, loud)])
        for start in range(loud, count, self._step):
            self._take_columns(min(self._step, count - start))[:] = 0
        return count

    def _transform(self, frames: Floats) -> None:
        """Add the power spectra of frames, float32[n, window].

        In float32 the noise of the transform would change quiet frequencies by a hundredth of a dB.
        """
        windowed, spectrum = self._windowed[: len(frames)], self._spectrum[: len(frames)]
        np.multiply(frames, _hann(self._window), out=windowed)
        np.fft.rfft(windowed, out=spectrum)
        parts = spectrum.view(np.float64)
        parts *= parts
        power = parts[:, ::2] + parts[:, 1::2]
        self._take_columns(len(frames))[:] = power.T

    def _take_columns(self, count: int) -> Floats:
        """Return the next columns of the power spectra."""
        if self._filled + count > self._power.shape[1]:
            self._finish_columns()
        self._filled += count
        return self._power[:, self._filled - count : self._filled]

    def _finish_columns(self) -> None:
        mel = self._filters.apply(self._power[:, : self._filled])
        self._done.append(np.ascontiguousarray(decibels(mel).T))
        self._filled = 0

    def take(self) -> list[Floats]:
        """Return the spectrograms since the last call in decibels: all their frames, in blocks of
        float32[n, bins].
        """
        if self._filled:
            self._finish_columns()
        done, self._done = self._done, []
        return done


def log_mel(samples: Floats, options: MelOptions, *, rate: int) -> Floats:
    """Return the spectrogram of a mono waveform in decibels, float32[frames, bins].

    samples: float32[n]. rate: samples per second.
    """
    transform = LogMel(options, rate=rate)
    transform.add(samples)
    return np.concatenate(transform.take())


def frames_of(samples: int, options: MelOptions, *, rate: int) -> int:
    """Return the frames of the spectrogram of so many samples. rate: samples per second."""
    return _count_frames(samples, *options.samples(rate))


def _count_frames(samples: int, window: int, hop: int) -> int:
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


@functools.lru_cache(maxsize=8)
def _hann(size: int) -> npt.NDArray[np.float64]:
    """Return the periodic Hann window, rounded a little, as C libraries differ in the last bit."""
    return np.array([round(0.5 - 0.5 * math.cos(2 * math.pi * n / size), 13) for n in range(size)])
