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
_ROOT_OF_HALF = np.int32(0x3F3504F3)  # the square root of 0.5 as a float32
_ONE = np.float32(1)
# artanh(x) / x as a polynomial in x * x, for x between +-0.1716, within 1.2e-7.
_SERIES = (1.0000001185873046, 0.3332611456510731, 0.20648094140348394)
_DECIBELS = tuple(np.float32(2 * _DB * factor) for factor in _SERIES)
_OCTAVE = np.float32(_DB * math.log(2))  # decibels of a factor of 2
_BLOCK = 1 << 16  # values of windows that are transformed at once, so that they stay in the cache
_COLUMNS = 1 << 17  # values of power spectra that are filtered at once


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
        self._padded = np.zeros(0)
        self._windowed = np.empty((self._step, self._window))
        self._spectrum = np.empty((self._step, frequencies), np.complex128)
        columns = max(_COLUMNS // frequencies, self._step)
        self._power = np.zeros((frequencies + 1, columns), np.float32)
        self._filled = 0  # columns of `_power`
        self._pieces: list[tuple[int, bool]] = []  # frames, and if they are those of `_power`
        self._silence = decibels(np.zeros((options.bins, 1), np.float32))
        self._done: list[Floats] = []

    def add(self, samples: Floats, *, silent_from: int | None = None) -> int:
        """Add a mono waveform, float32[n], and return the number of its frames.

        silent_from: all samples from this one on are zeros.
        """
        window, hop, edge = self._window, self._hop, self._window // 2
        count = _count_frames(len(samples), window, hop)
        size = max(len(samples) + 2 * edge, window)
        if len(self._padded) != size:
            self._padded = np.zeros(size)
        padded = self._padded
        padded[edge : edge + len(samples)] = samples
        padded[edge + len(samples) :] = 0
        width = padded.itemsize
        frames = np.ndarray((count, window), padded.dtype, padded, 0, (hop * width, width))
        loud = count
        if silent_from is not None:
            loud = min(-(-(silent_from + edge) // hop), count)
        for start in range(0, loud, self._step):
            self._transform(frames[start : min(start + self._step, loud)])
        if loud < count:
            self._pieces.append((count - loud, False))
        return count

    def _transform(self, frames: npt.NDArray[np.float64]) -> None:
        """Add the power spectra of frames, float64[n, window].

        In float32 the noise of the transform would change quiet frequencies by a hundredth of a dB.
        """
        count = len(frames)
        windowed, spectrum = self._windowed[:count], self._spectrum[:count]
        np.multiply(frames, _hann(self._window), out=windowed)
        np.fft.rfft(windowed, out=spectrum)
        parts = spectrum.view(np.float64)
        parts *= parts
        power = np.add(parts[:, ::2], parts[:, 1::2])
        self._take_columns(count)[:] = power.T

    def _take_columns(self, count: int) -> Floats:
        """Return the next columns of the power spectra."""
        if self._filled + count > self._power.shape[1]:
            self._finish_columns()
        self._filled += count
        self._pieces.append((count, True))
        return self._power[:-1, self._filled - count : self._filled]

    def _finish_columns(self) -> None:
        mel = np.empty((self._filters.bins, self._filled), np.float32)
        self._filters.apply(self._power[:, : self._filled], mel)
        rows, at = decibels(mel), 0
        for count, is_loud in self._pieces:
            piece = rows[at : at + count] if is_loud else np.repeat(self._silence, count, axis=0)
            self._done.append(piece)
            at += count if is_loud else 0
        self._filled, self._pieces = 0, []

    def take(self) -> list[Floats]:
        """Return the spectrograms since the last call in decibels: all their frames, in blocks of
        float32[n, bins].
        """
        if self._pieces:
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
    """Return 10 log10 of powers, at least -100, as float32[frames, bins].

    power: float32[bins, frames]; it is overwritten.

    A power is m * 2**e with m near 1, and log(m) = 2 artanh((m - 1) / (m + 1)).
    """
    least = np.full(power.shape[1], _LEAST_POWER, np.float32)  # NumPy is slow with a scalar
    np.maximum(power, least, out=power)
    bits = power.view(np.int32)
    exponent = bits - _ROOT_OF_HALF
    exponent >>= _FRACTION_BITS
    fraction, ratio = power, np.empty_like(power)
    bits -= np.left_shift(exponent, _FRACTION_BITS, out=ratio.view(np.int32))
    np.subtract(fraction, _ONE, out=ratio)
    fraction += _ONE
    ratio /= fraction
    square = np.multiply(ratio, ratio, out=fraction)
    series = square * _DECIBELS[2]
    series += _DECIBELS[1]
    series *= square
    series += _DECIBELS[0]
    series *= ratio
    octaves = np.multiply(exponent, _OCTAVE, out=ratio, dtype=np.float32, casting="unsafe")
    found = np.empty(power.shape[::-1], np.float32)
    np.add(series, octaves, out=found.T)
    return found


@functools.lru_cache(maxsize=8)
def _hann(size: int) -> npt.NDArray[np.float64]:
    """Return the periodic Hann window, rounded a little, as C libraries differ in the last bit."""
    return np.array([round(0.5 - 0.5 * math.cos(2 * math.pi * n / size), 13) for n in range(size)])
