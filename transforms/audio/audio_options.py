"""Options of the audio that is written."""

from __future__ import annotations

import dataclasses
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.option_checks import check_options
from recordmill.option_names import option_name
from recordmill.options import values
from recordmill.options.declaration import option
from recordmill.options.durations import duration, show_duration

AudioFeature = Literal["waveform", "melspectrogram", "encoded"]
ClipMode = Literal["start", "centre", "split"]
ClipRest = Literal["pad", "drop"]
SampleType = Literal["float32", "int16"]
Length = int | float  # samples, or seconds

LEAST_RATE, MOST_RATE = 1000, 768_000  # samples per second
_SECOND = 10**6  # microseconds
MOST_VALUES = 1 << 28  # of the samples of a file, or of the array of a record: 1 GiB
_MOST_WINDOW = 1 << 16  # samples of a window of a spectrogram
_MOST_SECONDS = 86_400.0


def _length(text: str) -> Length:
    """Parse a number of samples, or a duration with a unit into seconds."""
    if text.strip().isdecimal():
        return int(text)
    try:
        return duration(text) / 10**6
    except ValueError:
        raise ValueError(
            f"expected a number of samples, or a duration such as 25ms; got {text!r}"
        ) from None


def _show_length(value: Length) -> str:
    return str(value) if isinstance(value, int) else str(show_duration(round(value * 10**6)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class MelOptions:
    """Options of log-mel spectrograms.

    Args:
      bins: Number of mel filters.
      window: Length of a window of the Fourier transform, in samples (int) or seconds (float).
      hop: Length from the start of a window to the start of the next, as `window`.
      f_min, f_max: Range of the filters in Hz; `f_max` None is half the sample rate.
    """

    bins: int = option(80, name="mel_bins", help="Mel bins of a spectrogram.")
    window: Length = option(
        0.025,
        name="window_size",
        parse=_length,
        show=_show_length,
        metavar="LENGTH",
        help="Length of a window of a spectrogram, and of its Fourier transform: a duration such as"
        " 25ms, or a number of samples such as 400.",
    )
    hop: Length = option(
        0.01,
        parse=_length,
        show=_show_length,
        metavar="LENGTH",
        help="Length from the start of a window to the start of the next, as for --window-size.",
    )
    f_min: float = option(
        0.0, parse=values.number, metavar="HZ", help="Lowest frequency of the mel bins."
    )
    f_max: float | None = option(
        None,
        parse=values.number,
        metavar="HZ",
        help="Highest frequency of the mel bins. Default: half of --sample-rate.",
    )

    def __post_init__(self) -> None:
        check_options(self)

    def samples(self, rate: int) -> tuple[int, int]:
        """Return the window and the hop in samples. rate: samples per second."""
        window, hop = (
            value if isinstance(value, int) else round(value * rate)
            for value in (self.window, self.hop)
        )
        return window, hop

    def highest(self, rate: int) -> float:
        """Return the upper end of the filters in Hz. rate: samples per second."""
        return rate / 2 if self.f_max is None else self.f_max

    def check(self, rate: int) -> None:
        """Raise ConfigError if an option is invalid. rate: samples per second."""
        if not 1 <= self.bins <= 1024:
            raise ConfigError(
                f"{option_name('bins', flag='mel-bins')}: expected 1 to 1024, got {self.bins}"
            )
        window, hop = self.samples(rate)
        window_size = option_name("window", flag="window-size")
        if not 2 <= window <= _MOST_WINDOW:
            raise ConfigError(
                f"{window_size}: expected 2 to {_MOST_WINDOW} samples, got {window} at a sample"
                f" rate of {rate}"
            )
        if not 1 <= hop <= window:
            raise ConfigError(
                f"{option_name('hop')}: expected 1 sample to the {window} of"
                f" {window_size}, got {hop}"
            )
        if not 0 <= self.f_min < self.highest(rate) <= rate / 2:
            raise ConfigError(
                f"{option_name('f_min')} and {option_name('f_max')}: expected 0 to half the sample"
                f" rate, and {option_name('f_min')} below {option_name('f_max')}; got"
                f" {self.f_min:g} and {self.highest(rate):g} at a sample rate of {rate}"
            )


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioOptions:
    """Options of the audio that is written.

    Args:
      sample_rate: Samples per second; None keeps the rate of each file.
      mono: Whether channels are mixed to one.
      clip: Length of records in microseconds; None keeps the length of each file.
      clip_mode: Part of a longer file that is kept; `split` makes consecutive clips of all of it.
      clip_rest: For `split`: whether an end that does not fill a clip is padded or dropped.
      features: Form of the audio.
      dtype: Type of the samples of waveforms.
      trim_silence: Trim frames at both ends that are at least so many decibels below the loudest
        frame; None trims nothing.
      max_seconds: Maximum length; longer files or segments are rejected.
      mel: Options of spectrograms.

    Raises:
      ConfigError: A value is invalid, or contradicts another.
    """

    sample_rate: int | None = option(
        None,
        after="features",
        metavar="HZ",
        help="Resample to this number of samples per second. Default: every file keeps its own.",
    )
    mono: bool = option(False, after="sample_rate", help="Mix the channels of each file to one.")
    clip: int | None = option(
        None,
        after="mono",
        parse=duration,
        show=show_duration,
        metavar="DURATION",
        help="Cut or pad records to this length, such as 1s or 500ms. Padding is silence.",
    )
    clip_mode: ClipMode = option(
        "start",
        after="clip",
        help="Part of a longer file that --clip keeps. start: its beginning. centre: its middle."
        " split: all of it, as consecutive clips, which go to the same split of the dataset.",
    )
    clip_rest: ClipRest = option(
        "pad",
        after="clip_mode",
        help="With --clip-mode split: pad the end of a file that fills no clip, or drop it.",
    )
    features: AudioFeature = option(
        "waveform",
        help="waveform: the samples. melspectrogram: a log-mel spectrogram of the channels mixed to"
        " one, in decibels, as float32 [frames, bins]. encoded: the bytes of the files.",
    )
    dtype: SampleType = option(
        "float32",
        help="Type of the samples of waveforms: float32 in [-1, 1], or int16.",
    )
    trim_silence: float | None = option(
        None,
        parse=values.number,
        metavar="DB",
        help="Remove the parts at the beginning and at the end of each file that are this many"
        " decibels quieter than its loudest part.",
    )
    max_seconds: float = option(
        600.0,
        parse=values.number,
        metavar="SECONDS",
        help="Reject longer files or segments. Each is held in memory as a whole.",
    )
    mel: MelOptions = MelOptions()

    def __post_init__(self) -> None:
        check_options(self, self._check_together)

    def _check_together(self) -> None:
        rate = self.sample_rate
        if rate is not None and not LEAST_RATE <= rate <= MOST_RATE:
            raise ConfigError(
                f"{option_name('sample_rate')}: expected {LEAST_RATE} to {MOST_RATE} samples a"
                f" second, got {rate}"
            )
        if not 0 < self.max_seconds <= _MOST_SECONDS:
            raise ConfigError(
                f"{option_name('max_seconds')}: expected more than 0 and at most {_MOST_SECONDS:g},"
                f" got {self.max_seconds:g}"
            )
        if self.trim_silence is not None and not 0 < self.trim_silence <= 200:
            raise ConfigError(
                f"{option_name('trim_silence')}: expected more than 0 and at most 200 decibels"
                f" below the loudest frame, got {self.trim_silence:g}"
            )
        if self.features == "encoded":
            self._check_encoded()
        self._check_clip()
        if self.features == "melspectrogram":
            if self.dtype != "float32":
                raise ConfigError(
                    f"{option_name('dtype', 'int16')}: spectrograms are float32: leave it out"
                )
            if rate is None:
                raise ConfigError(
                    f"{option_name('features', 'melspectrogram')}: needs"
                    f" {option_name('sample_rate')}, such as 16000, so that the bins of all records"
                    " mean the same frequencies"
                )
            self.mel.check(rate)
        length = self.clip_samples
        if length is not None and self.values(length, channels=1) > MOST_VALUES:
            raise ConfigError(
                f"{option_name('clip')}: a record would have {self.values(length, channels=1)}"
                f" values, more than {MOST_VALUES}: shorten it, or use a lower"
                f" {option_name('sample_rate')} or a longer {option_name('hop')}"
            )

    def values(self, samples: int, *, channels: int) -> int:
        """Return the number of values in the array of a record."""
        if self.features != "melspectrogram" or self.sample_rate is None:
            return samples * channels
        _, hop = self.mel.samples(self.sample_rate)
        return (samples // hop + 1) * self.mel.bins

    def _check_clip(self) -> None:
        if self.clip is None:
            if self.clip_mode != "start" or self.clip_rest != "pad":
                option = "clip_rest" if self.clip_mode == "start" else "clip_mode"
                raise ConfigError(
                    f"{option_name(option)}: has no effect without {option_name('clip')}, the"
                    " length of a clip"
                )
            return
        if self.clip_rest != "pad" and self.clip_mode != "split":
            raise ConfigError(
                f"{option_name('clip_rest', 'drop')}: has no effect without"
                f" {option_name('clip_mode', 'split')}"
            )
        if self.sample_rate is None:
            raise ConfigError(
                f"{option_name('clip')}: needs {option_name('sample_rate')}, such as 16000, so that"
                " all records have the same number of samples"
            )
        if not self.clip_samples or self.clip > self.max_seconds * _SECOND:
            raise ConfigError(
                f"{option_name('clip')}: expected one sample or more, and at most the"
                f" {self.max_seconds:g} seconds of {option_name('max_seconds')}; got"
                f" {self.clip / _SECOND:g} seconds"
            )

    def _check_encoded(self) -> None:
        given = [
            option_name(option)
            for option, value in (
                ("sample_rate", self.sample_rate is not None),
                ("clip", self.clip is not None),
                ("mono", self.mono),
                ("trim_silence", self.trim_silence is not None),
                ("dtype", self.dtype != "float32"),
            )
            if value
        ]
        if given:
            raise ConfigError(
                f"{option_name('features', 'encoded')}: writes the bytes of the files as they are,"
                f" so that {given[0]} has no effect: leave it out, or use"
                f" {option_name('features', 'waveform')}"
            )

    @property
    def clip_samples(self) -> int | None:
        """Samples of a clip per channel; None if records have their own length."""
        if self.clip is None or self.sample_rate is None:
            return None
        return round(self.clip * self.sample_rate / _SECOND)

    def resamples(self, rate: int) -> bool:
        """Return whether files of this sample rate are resampled."""
        return self.sample_rate not in (None, rate)

    @property
    def splits(self) -> bool:
        """True if a file is cut into consecutive clips."""
        return self.clip is not None and self.clip_mode == "split"

    @property
    def is_mono(self) -> bool:
        """True if channels are mixed to one, as spectrograms need."""
        return self.mono or self.features == "melspectrogram"
