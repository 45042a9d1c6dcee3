"""Films to a balanced, shuffled, verified TFRecord dataset of clips.

    python -m recordmill video --input=films/ --output=out/ --clip-frames=16 --size=112

The input is a folder of `class/...` or `split/class/...`, a pattern, a single film, or a CSV, JSONL
or Parquet listing that names films, or segments of them. `recordmill video` is the same command.
"""

from __future__ import annotations

import dataclasses
import sys
from typing import Literal

from recordmill.errors import ConfigError
from recordmill.pipelines.options import values
from recordmill.pipelines.options.config import MEANING
from recordmill.pipelines.options.declaration import Group, option
from recordmill.pipelines.options.file_inputs import FilesConfig, check_record_bytes, files_of
from recordmill.transforms.encoders.clips import ClipEncoder
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model.data_type import DataType
from recordmill.transforms.sources.files.folders import NOT_PICTURES, SOUND_AND_VIDEO
from recordmill.transforms.sources.rows.listings import FileList
from recordmill.transforms.sources.video.clip_plan import ClipCut
from recordmill.transforms.sources.video.video import Films

VIDEO = Group(30, "Clips")
PICTURES = Group(31, "Pictures")
_DEFAULT = ImageOptions()
_CUT = ClipCut()
_SEGMENTS = ("start_column", "end_column")

# What often stands between films. Sound is not among it: who has put it there should hear of it.
_BESIDE = "ass bmp idx jpeg jpg nfo png srt sub tif tiff vtt webp"
NOT_FILMS = tuple(sorted({*NOT_PICTURES, *_BESIDE.split(" ")} - {*SOUND_AND_VIDEO.split(), "bin"}))


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoConfig(FilesConfig):
    """The options of `recordmill video`."""

    start_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Where the input is a table: the column that says at which second a segment begins.",
    )
    end_column: str | None = option(
        None,
        group=MEANING,
        shapes_bytes=True,
        metavar="COLUMN",
        help="Where the input is a table: the column that says at which second a segment ends.",
    )
    clip_frames: int = option(
        _CUT.frames, group=VIDEO, shapes_bytes=True, metavar="N", help="Frames of a clip."
    )
    clip_stride: int | None = option(
        None,
        group=VIDEO,
        shapes_bytes=True,
        metavar="N",
        help="Frames of the film from the start of a clip to that of the next. Default: side by"
        " side.",
    )
    frame_step: int = option(
        _CUT.step,
        group=VIDEO,
        shapes_bytes=True,
        metavar="N",
        help="Frames of the film from a frame of a clip to the next one.",
    )
    fps: float | None = option(
        None,
        group=VIDEO,
        shapes_bytes=True,
        parse=values.number,
        metavar="RATE",
        help="Take so many frames of each second, whatever the film has. Default: all as they are.",
    )
    clip_rest: Literal["drop", "pad"] = option(
        _CUT.rest,
        group=VIDEO,
        shapes_bytes=True,
        help="What becomes of frames at the end that fill no clip: pad makes one of them, which"
        " repeats the last frame.",
    )
    size: tuple[int, int] | None = option(
        None,
        group=PICTURES,
        shapes_bytes=True,
        parse=values.size,
        show=values.show_size,
        metavar="N|HxW",
        help="Height and width in pixels. Default: every film keeps its own.",
    )
    resize_mode: Literal["crop", "pad", "stretch", "fit", "none"] = option(
        "crop",
        group=PICTURES,
        shapes_bytes=True,
        help="How a frame gets to --size: crop covers it and cuts the rest off; pad fits into it"
        " and fills up with --background; stretch ignores proportions; fit shrinks until it fits"
        " inside; none keeps the size.",
    )
    mode: Literal["rgb", "gray"] = option(
        "rgb", group=PICTURES, shapes_bytes=True, help="The channels."
    )
    background: tuple[int, int, int] = option(
        _DEFAULT.background,
        group=PICTURES,
        shapes_bytes=True,
        parse=values.colour,
        show=values.show_colour,
        metavar="R,G,B",
        help="What fills up for pad.",
    )
    image_format: Literal["jpeg", "png", "raw"] = option(
        "jpeg",
        group=PICTURES,
        shapes_bytes=True,
        help="How frames are stored, in SequenceExamples; raw is the array of the whole clip, for"
        " tf.io.decode_raw, in Examples.",
    )
    quality: int = option(
        _DEFAULT.quality, group=PICTURES, shapes_bytes=True, help="Of JPEG, 1 to 95."
    )
    max_pixels: int = option(
        _DEFAULT.max_pixels,
        group=PICTURES,
        shapes_bytes=True,
        help="Reject films of larger frames, by their header, before memory is spent on them.",
    )
    max_clip_bytes: int = option(
        256 << 20,
        group=PICTURES,
        shapes_bytes=True,
        parse=values.byte_size,
        show=values.show_bytes,
        metavar="BYTES",
        help="Reject clips whose frames, as they are stored, take more.",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        self.clip_cut()
        check_record_bytes("--max-clip-bytes", self.max_clip_bytes)
        options = self.image_options()
        if options.is_raw and options.size is not None:
            size = self.clip_frames * options.size[0] * options.size[1] * options.channels
            if size > self.max_clip_bytes:
                raise ConfigError(
                    f"--image-format raw: a clip takes {size} bytes, more than --max-clip-bytes"
                    f" {self.max_clip_bytes}: fewer frames, a smaller --size, or jpeg"
                )

    def image_options(self) -> ImageOptions:
        """How frames shall come out."""
        names = (
            *("size", "resize_mode", "mode", "background", "image_format", "quality", "max_pixels"),
        )
        return ImageOptions(**{name: getattr(self, name) for name in names})

    def clip_cut(self) -> ClipCut:
        """Which frames make clips."""
        return ClipCut(
            frames=self.clip_frames,
            stride=self.clip_stride,
            step=self.frame_step,
            fps=self.fps,
            rest=self.clip_rest,
        )


def kind(config: VideoConfig) -> DataType:
    """What films put on the road."""
    files = files_of(config, leave_out=NOT_FILMS, columns=_SEGMENTS)
    root = None
    if isinstance(files, FileList) and files.key_column is not None:
        root = str(files.root)
    pictures = config.image_options()
    return DataType(
        name="video",
        source=Films(
            files=files,
            pictures=pictures,
            cut=config.clip_cut(),
            start=config.start_column,
            end=config.end_column,
            max_clip_bytes=config.max_clip_bytes,
            root=root,
        ),
        encoder=ClipEncoder(
            pictures=pictures,
            frames=config.clip_frames,
            unlabelled=config.unlabelled == "keep",
        ),
        unit="clip",
    )


if __name__ == "__main__":
    from recordmill.pipelines.cli import main

    sys.exit(main(["video", *sys.argv[1:]]))
