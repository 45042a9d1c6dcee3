"""Waveforms of records: mixed, resampled, trimmed and cut, and as the bytes of a feature."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.transforms.audio.audio_files import too_large
from recordmill.transforms.audio.audio_options import MOST_VALUES, AudioOptions, ClipMode
from recordmill.transforms.audio.resampling import resample
from recordmill.transforms.audio.spectrogram import LogMel
from recordmill.transforms.model.ragged import cut_binary

Floats = npt.NDArray[np.float32]

# librosa's frames, so that --trim-silence equals librosa.effects.trim.
_FRAME, _HOP = 2048, 512  # samples
_LEAST_LEVEL = 1e-5  # -100 dB
_INT16 = 32768.0


def prepare(samples: Floats, options: AudioOptions, *, rate: int) -> tuple[Floats, int]:
    """Mix, resample and trim the samples of a file or of a segment, float32[n, channels].

    rate: samples per second. Also returns the number of samples that were cut off the beginning.

    Raises:
      RecordError: no sample is left.
    """
    samples = mix(samples, options, rate=rate)
    if options.resamples(rate):
        samples = resample(samples, rate, options.sample_rate or rate)
    return trim(samples, options)


def mix(samples: Floats, options: AudioOptions, *, rate: int) -> Floats:
    """Return samples, float32[n, channels], mixed to one channel if the options say so.

    rate: samples per second.

    Raises:
      RecordError: they will be too many once they are resampled.
    """
    if options.is_mono and samples.shape[1] > 1:
        samples = samples.mean(axis=1, keepdims=True, dtype=np.float32)
    length = len(samples) * (options.sample_rate or rate) // rate
    if options.resamples(rate) and length * samples.shape[1] > MOST_VALUES:
        raise too_large(length, samples.shape[1])
    return samples


def trim(samples: Floats, options: AudioOptions) -> tuple[Floats, int]:
    """Return samples, float32[n, channels], without silence at both ends if the options say so.

    Also returns the number of samples that were cut off the beginning.

    Raises:
      RecordError: there are no samples, or too many.
    """
    if not len(samples):
        raise RecordError(Reason.EMPTY, "no samples are left after resampling")
    start = 0
    if options.trim_silence is not None:
        start, stop = loud_range(samples, options.trim_silence)
        samples = samples[start:stop]
    if options.clip is None:
        _check_size(len(samples), samples.shape[1], options)
    return samples, start


def _check_size(samples: int, channels: int, options: AudioOptions) -> None:
    """Raise RecordError if the array of a record would be too large."""
    count = options.values(samples, channels=channels)
    if count > MOST_VALUES:
        raise RecordError(Reason.TOO_LARGE, f"an array of {count} values, more than {MOST_VALUES}")


def loud_range(samples: Floats, decibels: float) -> tuple[int, int]:
    """Return start and stop of samples without the frames at both ends that are silent.

    decibels: a frame is silent if it is that much below the loudest frame in all channels.
    """
    count = len(samples)
    blocks = -(-(count + _FRAME) // _HOP)
    padded = np.zeros((blocks * _HOP, samples.shape[1]))
    padded[_FRAME // 2 : _FRAME // 2 + count] = samples
    sums = (padded * padded).reshape(blocks, _HOP, -1).sum(axis=1)
    per_frame = _FRAME // _HOP
    frames = sum(sums[n : blocks - per_frame + 1 + n] for n in range(per_frame))
    levels = np.maximum(np.sqrt(frames / _FRAME), _LEAST_LEVEL)[: 1 + count // _HOP]
    loud = levels > levels.max() * np.float64(10 ** (-decibels / 20))
    places = np.flatnonzero(loud.any(axis=1))
    start, stop = int(places[0]) * _HOP, min((int(places[-1]) + 1) * _HOP, count)
    return (start, stop) if start < stop else (0, count)


def fit(samples: Floats, length: int | None, mode: ClipMode) -> tuple[Floats, int]:
    """Cut or pad samples to a length, and return them with the number of those not padded.

    length: None keeps all. mode: the part of a longer waveform that is kept; padding of a shorter
    one is on both sides for `centre`, else at the end.
    """
    count = len(samples)
    if length is None or count == length:
        return samples, count
    if count > length:
        start = (count - length) // 2 if mode == "centre" else 0
        return samples[start : start + length], length
    start = (length - count) // 2 if mode == "centre" else 0
    padded = np.zeros((length, samples.shape[1]), np.float32)
    padded[start : start + count] = samples
    return padded, count


class RecordArrays:
    """The arrays of records: waveforms, or spectrograms, several of which are computed together."""

    def __init__(self, options: AudioOptions) -> None:
        self._options = options
        self._transform: LogMel | None = None
        if options.features == "melspectrogram":
            assert options.sample_rate is not None
            self._transform = LogMel(options.mel, rate=options.sample_rate)
        self._waveforms = bytearray()
        self._shapes: list[tuple[int, ...]] = []

    def add(self, samples: Floats, *, silent_from: int | None = None) -> None:
        """Add the waveform of a record, float32[n, channels].

        silent_from: all samples from this one on are zeros.
        """
        if self._transform is not None:
            frames = self._transform.add(samples[:, 0], silent_from=silent_from)
            self._shapes.append((frames, self._options.mel.bins))
            return
        is_int16 = self._options.dtype == "int16"
        found = _levels(samples) if is_int16 else np.ascontiguousarray(samples, "<f4")
        self._waveforms += found.data
        self._shapes.append(found.shape)

    @property
    def shapes(self) -> npt.NDArray[np.int64]:
        """Shapes of the arrays, int64[records, 2]: samples and channels, or frames and bins."""
        return np.array(self._shapes, np.int64).reshape(-1, 2)

    def column(self) -> pa.LargeBinaryArray:
        """Return the bytes of the arrays, in order; no other may be added afterwards."""
        data: bytes | bytearray = self._waveforms
        if self._transform is not None:
            data = b"".join(block.data for block in self._transform.take())
        size = np.dtype(self._options.dtype).itemsize
        return cut_binary(data, [size * count * width for count, width in self._shapes])


def _levels(samples: Floats) -> npt.NDArray[np.int16]:
    """Return samples in [-1, 1] as int16, rounded; others are clipped."""
    levels = samples * np.float32(_INT16)
    np.rint(levels, out=levels)
    levels.clip(-_INT16, _INT16 - 1, out=levels)
    return levels.astype("<i2", "C")
