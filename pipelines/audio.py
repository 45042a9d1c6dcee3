"""Builds a balanced, shuffled, sharded TFRecord dataset of audio.

    recordmill audio --input speech/ --output out/ --sample-rate 16000 --mono --clip 1s

The input is a folder of `class/...` or `split/class/...`, a glob pattern, a single file, or a
listing: a CSV, JSONL or Parquet file that names audio files, or segments of them. It may also be an
archive, a table that holds the files, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys

from recordmill.options.declaration import Group, GroupValues, option_group
from recordmill.pipelines.jobs.duplicate_rules import same_content
from recordmill.pipelines.options.common.augmentation import augment_all_option, augment_option
from recordmill.pipelines.options.inputs.file_inputs import files_of
from recordmill.pipelines.options.inputs.segments import SEGMENT_COLUMNS, SegmentsConfig
from recordmill.transforms.audio.audio_augment import AUGMENTATIONS
from recordmill.transforms.audio.audio_options import AudioOptions, MelOptions
from recordmill.transforms.encoders.audio import AudioFileEncoder, audio_encoder
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.audio.audio_reading import AudioHeaders
from recordmill.transforms.sources.audio.audio_splitter import AudioSplitter
from recordmill.transforms.sources.folders.folders import NOT_AUDIO
from recordmill.transforms.sources.splitters.segments import SegmentColumns, SegmentedFiles
from recordmill.transforms.sources.splitters.split_files import split_files

AUDIO = Group(30, "Audio", shapes_bytes=True)
SPECTROGRAMS = Group(31, "Spectrograms", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioConfig(SegmentsConfig):
    """The options of `recordmill audio`."""

    audio: GroupValues[AudioOptions] = option_group(AudioOptions, group=AUDIO)
    augment: tuple[str, ...] = augment_option(AUGMENTATIONS, AUDIO)
    augment_all: bool = augment_all_option(AUDIO)
    mel: GroupValues[MelOptions] = option_group(MelOptions, group=SPECTROGRAMS)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.audio_options()

    def audio_options(self) -> AudioOptions:
        """Return the form of the written audio. Raises ConfigError."""
        return self.audio.make(mel=self.mel.make())


def data_type(config: AudioConfig) -> DataType:
    """Return the source, check and encoder of audio."""
    options = config.audio_options()
    files = files_of(config, leave_out=NOT_AUDIO, columns=SEGMENT_COLUMNS, raw="audio")
    segments = SegmentColumns.of(
        files.source,
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
        return DataType(
            name="audio",
            source=split_files(
                files.source,
                AudioSplitter(options=options),
                segments=segments,
                worker_limits=config.worker_limits,
            ),
            encoder=encoder,
            duplicates=same_content(config),
            unit="clip",
            shape=files.shape,
        )
    return DataType(
        name="audio",
        source=SegmentedFiles(files=files.source, columns=segments)
        if segments.given
        else files.source,
        encoder=encoder,
        check=encoder.row_check(balanced=config.changes_counts),
        headers=AudioHeaders(options=options),
        duplicates=same_content(config),
        content=encoder,
        shape=files.shape,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["audio", *sys.argv[1:]])
