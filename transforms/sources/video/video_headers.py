"""Reading of video headers: time base, sound, and the packets of long videos."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

from recordmill.errors import Reason, RecordError
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.unread_parts import HDR
from recordmill.transforms.sources.video.clip_plan import ClipSampling
from recordmill.transforms.sources.video.frame_encoder import too_many_pixels
from recordmill.transforms.sources.video.frame_times import Packets
from recordmill.transforms.sources.video.frames import is_divisible
from recordmill.transforms.sources.video.video_decoder import VideoFile, pyav

_BT2020 = 9  # of ColourPrimaries in ITU-T H.273


class ProbedVideo(NamedTuple):
    """Header of a video; for a long video also its packets, if it can be cut into sections.

    unread: as of `unread_parts`.
    """

    has_sound: bool
    unread: Sequence[str]
    unit: Fraction
    packets: Packets | None


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoProbe:
    """Reads the headers of videos.

    images, cut, max_clip_bytes, section_above: as in `VideoSource`.
    """

    images: ImageOptions
    cut: ClipSampling
    max_clip_bytes: int
    section_above: int

    def inspect(self, file: tuple[str, int, int]) -> ProbedVideo | RecordError:
        """Read the header of a video, given (path, size, mtime)."""
        path, size, mtime = file
        try:
            with VideoFile(path, size=size, mtime=mtime) as video:
                height, width = video.pixels
                if height * width > self.images.max_pixels:
                    raise too_many_pixels(height, width, self.images)
                self._check_bytes(height * width)
                unread = unread_parts(video)
                packets = video.packets() if size > self.section_above else None
                if packets is not None and not is_divisible(video, packets):
                    packets = None
                return ProbedVideo(video.has_sound, unread, video.unit, packets)
        except RecordError as error:
            return error

    def _check_bytes(self, pixels: int) -> None:
        """Raise RecordError if the size of a clip is known and too large."""
        if not self.images.is_raw or self.images.size is not None:
            return
        size = self.cut.frames * pixels * self.images.channels
        if size > self.max_clip_bytes:
            raise RecordError(
                Reason.TOO_LARGE,
                f"a clip takes {size} bytes, more than --max-clip-bytes {self.max_clip_bytes}:"
                " use fewer frames, a --size, or jpeg",
            )


def unread_parts(video: VideoFile) -> Sequence[str]:
    """Return the parts of a video that are not read, or are not applied to its frames."""
    found: list[str] = []
    stream, context = video.stream, video.stream.codec_context
    # Frames of GIF always have a format with alpha. VP8 and VP9 store alpha beside the frames.
    components = (
        () if context.name == "gif" or context.format is None else context.format.components
    )
    if any(one.is_alpha for one in components) or stream.metadata.get("alpha_mode") == "1":
        found.append("alpha")
    if context.color_trc in HDR:
        found.append(f"the range of HDR ({HDR[context.color_trc]})")
    elif context.color_primaries == _BT2020:
        found.append("the colors of BT.2020")
    attached = pyav().stream.Disposition.attached_pic
    if sum(not one.disposition & attached for one in video.streams.video) > 1:
        found.append("further video streams")
    return [*found, "subtitles"] if video.streams.subtitles else found
