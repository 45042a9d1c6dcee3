"""Builds a balanced, shuffled, sharded TFRecord dataset of audio.

    recordmill audio --input speech/ --output out/ --sample-rate 16000 --mono --clip 1s

The input is a folder of `class/...` or `split/class/...`, a glob pattern, a single file, or a
listing: a CSV, JSONL or Parquet file that names audio files, or segments of them. It may also be an
archive, a table that holds the files, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.duplicate_rules import same_content
from recordmill.pipelines.options import values
from recordmill.pipelines.options.augmentation import (
    augment_all_option,
    augment_option,
    check_augment,
)
from recordmill.pipelines.options.config import refuse_given
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.file_inputs import files_of
from recordmill.pipelines.options.segments import SEGMENT_COLUMNS, SegmentsConfig
from recordmill.transforms.audio.audio_augment import AUGMENTATIONS
from recordmill.transforms.audio.audio_options import AudioOptions, MelOptions
from recordmill.transforms.encoders.audio import AudioFileEncoder, audio_encoder
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.model.durations import duration, show_duration
from recordmill.transforms.sources.audio.audio_clips import AudioClips
from recordmill.transforms.sources.audio.audio_reading import AudioHeaders
from recordmill.transforms.sources.files.folders import NOT_AUDIO
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.rows.segments import SegmentColumns, SegmentedFiles

AUDIO = Group(30, "Audio")
SPECTROGRAMS = Group(31, "Spectrograms")
_DEFAULT = AudioOptions()
_MEL = MelOptions()


def _length(text: str) -> int | float:
    """Parse a number of samples, or a duration with a unit into seconds."""
    if text.strip().isdecimal():
        return int(text)
    try:
        return duration(text) / 10**6
    except ValueError:
        raise ValueError(
            f"expected a number of samples, or a duration such as 25ms; got {text!r}"
        ) from None


def _show_length(value: float) -> str:
    return str(value) if isinstance(value, int) else str(show_duration(round(value * 10**6)))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioConfig(SegmentsConfig):
    """The options of `recordmill audio`."""

    features: Literal["waveform", "melspectrogram", "encoded"] = option(
        _DEFAULT.features,
        group=AUDIO,
        shapes_bytes=True,
        help="waveform: the samples. melspectrogram: a log-mel spectrogram of the channels mixed to"
        " one, in decibels, as float32 [frames, bins]. encoded: the bytes of the files.",
    )
    sample_rate: int | None = option(
        None,
        group=AUDIO,
        shapes_bytes=True,
        metavar="HZ",
        help="Resample to this number of samples per second. Default: every file keeps its own.",
    )
    mono: bool = option(
        False, group=AUDIO, shapes_bytes=True, help="Mix the channels of each file to one."
    )
    clip: int | None = option(
        None,
        group=AUDIO,
        shapes_bytes=True,
        parse=duration,
        show=show_duration,
        metavar="DURATION",
        help="Cut or pad records to this length, such as 1s or 500ms. Padding is silence.",
    )
    clip_mode: Literal["start", "centre", "split"] = option(
        _DEFAULT.clip_mode,
        group=AUDIO,
        shapes_bytes=True,
        help="Part of a longer file that --clip keeps. start: its beginning. centre: its middle."
        " split: all of it, as consecutive clips, which go to the same split of the dataset.",
    )
    clip_rest: Literal["pad", "drop"] = option(
        _DEFAULT.clip_rest,
        group=AUDIO,
        shapes_bytes=True,
        help="With --clip-mode split: pad the end of a file that fills no clip, or drop it.",
    )
    dtype: Literal["float32", "int16"] = option(
        _DEFAULT.dtype,
        group=AUDIO,
        shapes_bytes=True,
        help="Type of the samples of waveforms: float32 in [-1, 1], or int16.",
    )
    trim_silence: float | None = option(
        None,
        group=AUDIO,
        shapes_bytes=True,
        parse=values.number,
        metavar="DB",
        help="Remove the parts at the beginning and at the end of each file that are this many"
        " decibels quieter than its loudest part.",
    )
    max_seconds: float = option(
        _DEFAULT.max_seconds,
        group=AUDIO,
        shapes_bytes=True,
        parse=values.number,
        metavar="SECONDS",
        help="Reject longer files or segments. Each is held in memory as a whole.",
    )
    augment: tuple[str, ...] = augment_option(AUGMENTATIONS, AUDIO)
    augment_all: bool = augment_all_option(AUDIO)
    mel_bins: int = option(
        _MEL.bins, group=SPECTROGRAMS, shapes_bytes=True, help="Mel bins of a spectrogram."
    )
    window_size: int | float = option(
        _MEL.window,
        group=SPECTROGRAMS,
        shapes_bytes=True,
        parse=_length,
        show=_show_length,
        metavar="LENGTH",
        help="Length of a window of a spectrogram, and of its Fourier transform: a duration such as"
        " 25ms, or a number of samples such as 400.",
    )
    hop: int | float = option(
        _MEL.hop,
        group=SPECTROGRAMS,
        shapes_bytes=True,
        parse=_length,
        show=_show_length,
        metavar="LENGTH",
        help="Length from the start of a window to the start of the next, as for --window-size.",
    )
    f_min: float = option(
        _MEL.f_min,
        group=SPECTROGRAMS,
        shapes_bytes=True,
        parse=values.number,
        metavar="HZ",
        help="Lowest frequency of the mel bins.",
    )
    f_max: float | None = option(
        None,
        group=SPECTROGRAMS,
        shapes_bytes=True,
        parse=values.number,
        metavar="HZ",
        help="Highest frequency of the mel bins. Default: half of --sample-rate.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        options = self.audio_options()
        if options.splits:
            self._refuse_group_of_parts("the clips of a file", "--dedup drop")
        if options.features != "melspectrogram":
            for name in ("mel_bins", "window_size", "hop", "f_min", "f_max"):
                if getattr(self, name) != getattr(AudioConfig, name, None):
                    raise ConfigError(
                        f"--{name.replace('_', '-')}: has no effect without --features"
                        " melspectrogram"
                    )
        if options.features == "encoded" and self.has_segments:
            raise ConfigError(
                "--features encoded: writes the bytes of whole files, but --start-column and"
                " --end-column name segments of them: use --features waveform"
            )
        check_augment(self)

    def audio_options(self) -> AudioOptions:
        """Return the form of the written audio. Raises ConfigError."""
        names = [field.name for field in dataclasses.fields(AudioOptions) if field.name != "mel"]
        mel = MelOptions(
            bins=self.mel_bins,
            window=self.window_size,
            hop=self.hop,
            f_min=self.f_min,
            f_max=self.f_max,
        )
        return AudioOptions(mel=mel, **{name: getattr(self, name) for name in names})


def data_type(config: AudioConfig) -> DataType:
    """Return the source, check and encoder of audio."""
    config.refuse_near_duplicates("audio")
    options = config.audio_options()
    files = files_of(config, leave_out=NOT_AUDIO, columns=SEGMENT_COLUMNS, raw="audio")
    if isinstance(files, MediaRows):
        refuse_given(
            config,
            SEGMENT_COLUMNS,
            "is for segments of files that a listing names, but --input"
            f" {config.inputs} holds the files themselves, in the column"
            f" {files.bytes_column!r}, and segments of these are not supported: write each value"
            " to a file, and name the files in a listing",
        )
    segments = SegmentColumns.of(
        files,
        start=config.start_column,
        end=config.end_column,
        duration=config.duration_column,
        unit=config.segment_unit,
    )
    encoder = audio_encoder(
        options,
        augment=config.augment,
        augment_all=config.augment_all,
        unlabelled=config.unlabelled == "keep",
    )
    if not isinstance(encoder, AudioFileEncoder):
        if isinstance(files, MediaRows):
            raise ConfigError(
                f"--clip-mode split: cannot split the files in the column {files.bytes_column!r} of"
                f" --input {config.inputs}: write each value to a file"
            )
        return DataType(
            name="audio",
            source=AudioClips(files=files, options=options, segments=segments),
            encoder=encoder,
            duplicates=same_content(config),
            unit="clip",
        )
    return DataType(
        name="audio",
        source=SegmentedFiles(files=files, columns=segments) if segments.given else files,
        encoder=encoder,
        check=encoder.row_check(balanced=config.changes_counts),
        headers=AudioHeaders(options=options),
        duplicates=same_content(config),
        content=encoder,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["audio", *sys.argv[1:]])
