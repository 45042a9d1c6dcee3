"""Builds a balanced, shuffled, sharded TFRecord dataset of clips from videos.

    recordmill video --input videos/ --output out/ --clip-frames 16 --size 112

The input is a folder of `class/...` or `split/class/...`, a glob pattern, a single video, or a
listing: a CSV, JSONL or Parquet file that names videos, or segments of them. It may also be an
archive, a table that holds the videos, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys

from recordmill.errors import ConfigError
from recordmill.options import values
from recordmill.options.declaration import Group, GroupValues, option, option_group
from recordmill.pipelines.jobs.duplicate_rules import near_duplicates, same_content
from recordmill.pipelines.options.inputs.file_inputs import (
    check_record_bytes,
    files_of,
)
from recordmill.pipelines.options.inputs.segments import SEGMENT_COLUMNS, SegmentsConfig
from recordmill.transforms.encoders.clip_contents import ClipContents
from recordmill.transforms.encoders.clips import ClipEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.folders.folders import NOT_VIDEOS
from recordmill.transforms.sources.splitters.segments import SegmentColumns
from recordmill.transforms.sources.splitters.split_files import split_files
from recordmill.transforms.sources.video.clip_plan import ClipSampling
from recordmill.transforms.sources.video.video_splitter import VideoSplitter

CLIPS = Group(30, "Clips", shapes_bytes=True)
FRAMES = Group(31, "Frames", shapes_bytes=True)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoConfig(SegmentsConfig):
    """The options of `recordmill video`."""

    clips: GroupValues[ClipSampling] = option_group(ClipSampling, group=CLIPS)
    frames: GroupValues[ImageOptions] = option_group(
        ImageOptions,
        group=FRAMES,
        omit=("depth", "normalize", "min_size", "damaged", "intensity_window"),
        size={
            "help": "Height and width in pixels. Default: every video keeps its own size.",
        },
        resize_mode={
            "help": "How a frame is brought to --size. crop: scale to cover it, cut the rest off."
            " pad: scale to fit into it, fill the rest with --background. stretch: scale without"
            " keeping the aspect ratio. fit: only shrink until it fits. none: do not"
            " resize.",
        },
        mode={"choices": ("rgb", "gray")},
        background={"help": "Colour of the padding of --resize-mode pad."},
        image_format={
            "help": "Encoding of the frames. jpeg and png write SequenceExamples with an encoded"
            " image per frame; raw writes Examples with the pixel array of the whole clip, for"
            " tf.io.decode_raw.",
        },
        max_pixels={
            "help": "Reject videos whose frames have more pixels, judged by the header before"
            " decoding.",
        },
    )
    max_clip_bytes: int = option(
        256 << 20,
        group=FRAMES,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject clips whose encoded frames take more.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        cut = self.clips.make()
        check_record_bytes("--max-clip-bytes", self.max_clip_bytes)
        options = self.frames.make()
        if options.is_raw and options.size is not None:
            size = cut.frames * options.size[0] * options.size[1] * options.channels
            if size > self.max_clip_bytes:
                raise ConfigError(
                    f"--image-format raw: a clip takes {size} bytes, more than --max-clip-bytes"
                    f" {self.max_clip_bytes}: reduce --clip-frames or --size, or use jpeg"
                )


def data_type(config: VideoConfig) -> DataType:
    """Return the source and encoder of video clips."""
    files = files_of(config, leave_out=NOT_VIDEOS, columns=SEGMENT_COLUMNS)
    frames, cut = config.frames.make(), config.clips.make()
    contents = ClipContents(frame_options=frames, frames=cut.frames)
    return DataType(
        name="video",
        source=split_files(
            files.source,
            VideoSplitter(images=frames, cut=cut, max_clip_bytes=config.max_clip_bytes),
            segments=SegmentColumns.of(
                files.source,
                start=config.start_column,
                end=config.end_column,
                duration=config.duration_column,
                unit=config.segment_unit,
            ),
            worker_limits=config.worker_limits,
        ),
        encoder=ClipEncoder(
            frame_options=frames,
            frames=cut.frames,
            unlabelled=config.unlabelled == "keep",
        ),
        duplicates=same_content(config),
        content=contents if config.near_duplicates != "none" else None,
        near=near_duplicates(config, "distance"),
        unit="clip",
        shape=files.shape,
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["video", *sys.argv[1:]])
