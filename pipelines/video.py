"""Builds a balanced, shuffled, sharded TFRecord dataset of clips from videos.

    recordmill video --input videos/ --output out/ --clip-frames 16 --size 112

The input is a folder of `class/...` or `split/class/...`, a glob pattern, a single video, or a
listing: a CSV, JSONL or Parquet file that names videos, or segments of them. It may also be an
archive, a table that holds the videos, or TFRecord files.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.duplicate_rules import near_duplicates, same_content
from recordmill.pipelines.options import values
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.file_inputs import (
    check_record_bytes,
    files_of,
)
from recordmill.pipelines.options.segments import SEGMENT_COLUMNS, SegmentsConfig
from recordmill.transforms.encoders.clip_contents import ClipContents
from recordmill.transforms.encoders.clips import ClipEncoder
from recordmill.transforms.imaging.image_options import ImageOptions, ResizeMode
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.files.folders import NOT_VIDEOS
from recordmill.transforms.sources.media.media_rows import MediaRows
from recordmill.transforms.sources.rows.segments import SegmentColumns
from recordmill.transforms.sources.video.clip_plan import ClipSampling
from recordmill.transforms.sources.video.table_videos import TableVideos
from recordmill.transforms.sources.video.video_source import VideoSource

CLIPS = Group(30, "Clips")
FRAMES = Group(31, "Frames")
_DEFAULT = ImageOptions()
_CUT = ClipSampling()


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoConfig(SegmentsConfig):
    """The options of `recordmill video`."""

    clip_frames: int = option(
        _CUT.frames, group=CLIPS, shapes_bytes=True, metavar="N", help="Frames per clip."
    )
    clip_stride: int | None = option(
        None,
        group=CLIPS,
        shapes_bytes=True,
        metavar="N",
        help="Frames from the start of one clip to the start of the next. Default: clips follow"
        " each other without overlap.",
    )
    frame_step: int = option(
        _CUT.step,
        group=CLIPS,
        shapes_bytes=True,
        metavar="N",
        help="Take every N-th frame of the video into a clip.",
    )
    fps: float | None = option(
        None,
        group=CLIPS,
        shapes_bytes=True,
        parse=values.number,
        metavar="RATE",
        help="Resample the video to this frame rate. Default: all frames as they are.",
    )
    clip_rest: Literal["drop", "pad"] = option(
        _CUT.rest,
        group=CLIPS,
        shapes_bytes=True,
        help="Frames at the end that do not fill a clip: drop them, or pad a clip by repeating the"
        " last frame.",
    )
    size: tuple[int, int] | None = option(
        None,
        group=FRAMES,
        shapes_bytes=True,
        parse=values.size,
        show=values.show_size,
        metavar="N|HxW",
        help="Height and width in pixels. Default: every video keeps its own size.",
    )
    resize_mode: ResizeMode = option(
        "crop",
        group=FRAMES,
        shapes_bytes=True,
        help="How a frame is brought to --size. crop: scale to cover it, cut the rest off. pad:"
        " scale to fit into it, fill the rest with --background. stretch: scale without keeping"
        " the aspect ratio. fit: only shrink until it fits into it. none: do not resize.",
    )
    mode: Literal["rgb", "gray"] = option(
        "rgb", group=FRAMES, shapes_bytes=True, help="Colour channels."
    )
    background: tuple[int, int, int] = option(
        _DEFAULT.background,
        group=FRAMES,
        shapes_bytes=True,
        parse=values.colour,
        show=values.show_colour,
        metavar="R,G,B",
        help="Colour of the padding of --resize-mode pad.",
    )
    image_format: Literal["jpeg", "png", "raw"] = option(
        "jpeg",
        group=FRAMES,
        shapes_bytes=True,
        help="Encoding of the frames. jpeg and png write SequenceExamples with an encoded image per"
        " frame; raw writes Examples with the pixel array of the whole clip, for"
        " tf.io.decode_raw.",
    )
    quality: int = option(
        _DEFAULT.quality, group=FRAMES, shapes_bytes=True, help="JPEG quality, 1 to 95."
    )
    max_pixels: int = option(
        _DEFAULT.max_pixels,
        group=FRAMES,
        shapes_bytes=True,
        help="Reject videos whose frames have more pixels, judged by the header before decoding.",
    )
    max_clip_bytes: int = option(
        256 << 20,
        group=FRAMES,
        shapes_bytes=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject clips whose encoded frames take more.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self._refuse_group_of_parts(
            "the clips of a video",
            "--dedup drop, or --near-duplicates group --near-distance 0, which joins groups",
        )
        self.clip_cut()
        check_record_bytes("--max-clip-bytes", self.max_clip_bytes)
        options = self.image_options()
        if options.is_raw and options.size is not None:
            size = self.clip_frames * options.size[0] * options.size[1] * options.channels
            if size > self.max_clip_bytes:
                raise ConfigError(
                    f"--image-format raw: a clip takes {size} bytes, more than --max-clip-bytes"
                    f" {self.max_clip_bytes}: reduce --clip-frames or --size, or use jpeg"
                )

    def image_options(self) -> ImageOptions:
        """Return the size and encoding of the written frames. Raises ConfigError."""
        names = (
            *("size", "resize_mode", "mode", "background", "image_format", "quality", "max_pixels"),
        )
        return ImageOptions(**{name: getattr(self, name) for name in names})

    def clip_cut(self) -> ClipSampling:
        """Return the frames that make up clips. Raises ConfigError."""
        return ClipSampling(
            frames=self.clip_frames,
            stride=self.clip_stride,
            step=self.frame_step,
            fps=self.fps,
            rest=self.clip_rest,
        )


def data_type(config: VideoConfig) -> DataType:
    """Return the source and encoder of video clips."""
    files = files_of(config, leave_out=NOT_VIDEOS, columns=SEGMENT_COLUMNS)
    frames = config.image_options()
    contents = ClipContents(frame_options=frames, frames=config.clip_frames)
    kind: type[VideoSource] = TableVideos if isinstance(files, MediaRows) else VideoSource
    return DataType(
        name="video",
        source=kind(
            files=files,
            images=frames,
            cut=config.clip_cut(),
            segments=SegmentColumns.of(
                files,
                start=config.start_column,
                end=config.end_column,
                duration=config.duration_column,
                unit=config.segment_unit,
            ),
            max_clip_bytes=config.max_clip_bytes,
            worker_limits=config.worker_limits,
        ),
        encoder=ClipEncoder(
            frame_options=frames,
            frames=config.clip_frames,
            unlabelled=config.unlabelled == "keep",
        ),
        duplicates=same_content(config),
        content=contents if config.near_duplicates != "none" else None,
        near=near_duplicates(config, "distance"),
        unit="clip",
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import run_process

    run_process(["video", *sys.argv[1:]])
