"""Splitting of videos into clips.

Reading clips in random order would decode each of them from the previous key frame. So a video, or
a section of a long video, is decoded once in order, and every frame is encoded once.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, ClassVar, NamedTuple

import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.notes import Note
from recordmill.storage.files import is_uri
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.imaging.unread_parts import HDR
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.splitters.segments import FROM, TO, Segment
from recordmill.transforms.sources.splitters.split_files import (
    Counts,
    ReadHeaders,
    Section,
    Splitter,
)
from recordmill.transforms.sources.video.clip_plan import (
    Clip,
    ClipSampling,
    ClipSection,
    missing_frames,
    plan_sections,
)
from recordmill.transforms.sources.video.clip_rows import ClipCollector, clip_fields
from recordmill.transforms.sources.video.frame_encoder import (
    EncodedFrame,
    FrameEncoder,
    too_many_pixels,
)
from recordmill.transforms.sources.video.frame_times import Packets
from recordmill.transforms.sources.video.frames import (
    UnexpectedFramesError,
    count_frames,
    decode_section,
    is_divisible,
)
from recordmill.transforms.sources.video.video_decoder import VideoFile, pyav

SECTION = "__section__"  # string: a `ClipSection`, null for a whole video
COUNTS = "__counts__"  # int64: number of inputs that a row of the listing counts as

_BT2020 = 9  # of ColourPrimaries in ITU-T H.273
_NEAR = Fraction(1, 50)  # tolerance for the frame rate of a header

File = tuple[str, int, int]  # path, size, mtime


class ProbedVideo(NamedTuple):
    """Header of a video.

    Attributes:
      has_sound: Whether the video has an audio track.
      unread: Result of `unread_parts`.
      unit: Time base of the stream in seconds.
      packets: Packets of a long video that can be cut into sections, else None.
    """

    has_sound: bool
    unread: Sequence[str]
    unit: Fraction
    packets: Packets | None


class _Place(NamedTuple):
    """A row of the listing."""

    path: str
    size: int
    mtime: int
    section: str | None
    start: float | None
    end: float | None
    counts: int


FILE = (batch.PATH, batch.SIZE, batch.MTIME)
_PLACE = (*FILE, SECTION, FROM, TO, COUNTS)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoSplitter(Splitter):
    """Splits videos into clips.

    Attributes:
      images: Options for resizing and encoding frames.
      cut: Options for sampling clips.
      max_clip_bytes: Maximum size of the encoded frames of a clip.
      section_above: Bytes above which a video is split at key frames into sections, so that several
        workers read it.
      section_bytes: Minimum size of a section.
    """

    images: ImageOptions = dataclasses.field(default_factory=ImageOptions)
    cut: ClipSampling = dataclasses.field(default_factory=ClipSampling)
    max_clip_bytes: int = 256 << 20
    section_above: int = 32 << 20
    section_bytes: int = 8 << 20
    noun: ClassVar[str] = "video"
    listed: ClassVar[Sequence[pa.Field]] = (
        pa.field(SECTION, pa.string()),
        pa.field(COUNTS, pa.int64()),
    )

    def __post_init__(self) -> None:
        pyav()  # raises ConfigError without the library

    @property
    def own(self) -> Sequence[pa.Field]:
        return clip_fields(self.cut.frames)

    @property
    def part_limits(self) -> tuple[int, int]:
        return limits.VIDEO_PART_BYTES, limits.VIDEO_PART_ROWS

    def plan(
        self, rows: pa.RecordBatch, counts: Counts, headers: ReadHeaders[Any, Any]
    ) -> Iterator[tuple[int, Section | RecordError]]:
        keys = rows[batch.KEY].to_pylist()
        files: dict[File, list[tuple[int, Segment]]] = {}
        for row, (path, size, mtime, *segment) in enumerate(_values(rows, *FILE, FROM, TO)):
            files.setdefault((path, size, mtime), []).append((row, (segment[0], segment[1])))
        found = headers(self.inspect, _tasks(files, self.section_above))
        for (file, places), probed in zip(files.items(), found, strict=True):
            if isinstance(probed, ProbedVideo):
                counts.numbers["sound"] += probed.has_sound
                for part in probed.unread:
                    counts.unread.add(part, "video", such_as=keys[places[0][0]])
            for row, segment in places:
                try:
                    sections = self._sections(probed, segment)
                except RecordError as error:
                    yield row, error
                    continue
                for number, section in enumerate(sections):
                    weight = min(file[1], self.section_bytes)
                    yield row, Section((section, int(number == 0)), weight)

    def notes(self, counts: Counts) -> Iterator[Note]:
        yield from super().notes(counts)
        if number := counts.numbers["sound"]:
            videos = "video has" if number == 1 else "videos have"
            yield Note("audio", f"{number} {videos} an audio track, which is dropped")

    def later_parts(self, rows: pa.RecordBatch) -> Iterable[int | None]:
        for section, counts in _values(rows, SECTION, COUNTS):
            yield None if counts else ClipSection.from_text(section).start

    def inspect(self, file: File) -> ProbedVideo:
        """Read the header of a video. Raises RecordError."""
        path, size, mtime = file
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

    def split(self, rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        """Yield the clips of videos, or of sections of them."""
        found = ClipCollector(
            given=rows, schema=schema, own=self.own, max_bytes=self.max_clip_bytes
        )
        known: tuple[str, Packets] | None = None
        for row, place in enumerate(map(_Place._make, _values(rows, *_PLACE))):
            try:
                with VideoFile(place.path, size=place.size, mtime=place.mtime) as video:
                    if place.section is not None:
                        section = ClipSection.from_text(place.section)
                        yield from self._collect(found, row, place, video, section)
                        continue
                    if known is None or known[0] != place.path:
                        known = place.path, self._packets(video, place.size)
                    plan = functools.partial(
                        plan_sections,
                        cut=self.cut,
                        unit=video.unit,
                        segment=(place.start, place.end),
                    )
                    try:
                        (section,) = plan(known[1])
                        yield from self._collect(found, row, place, video, section, strict=True)
                    except UnexpectedFramesError:
                        known = place.path, count_frames(video, known[1])
                        (section,) = plan(known[1])
                        yield from self._collect(found, row, place, video, section)
            except RecordError as error:
                first = None if place.counts else ClipSection.from_text(str(place.section)).start
                found.reject(row, error, first)
        yield found.take()

    def _packets(self, video: VideoFile, size: int) -> Packets:
        """Return the packets of a whole video; counts the frames if times do not identify them."""
        packets = video.packets(keep=size <= self.section_above)
        return packets if packets.ordered else count_frames(video, packets)

    def _collect(
        self,
        found: ClipCollector,
        row: int,
        place: _Place,
        video: VideoFile,
        section: ClipSection,
        *,
        strict: bool = False,
    ) -> Iterator[ListingPart]:
        """Add the clips of a section to a collector, and yield its parts when it is full.

        strict: as of `decode_section`, with its errors.
        """
        rate = self._rate(video, section)
        for clip, frames in self._clips(video, section, strict=strict):
            found.add_clip(row, clip, frames, rate=rate, counts=place.counts)
            if found.is_full:
                yield found.take()
        if section.missing != 0:
            found.reject(row, missing_frames(section.missing), section.stop)

    def _sections(
        self, probed: ProbedVideo | RecordError, segment: Segment
    ) -> Sequence[str | None]:
        """Return the sections of a video or a segment. Raises RecordError if it has no clip."""
        if isinstance(probed, RecordError):
            raise probed
        if probed.packets is None:
            return [None]
        cut = plan_sections(
            probed.packets, self.cut, probed.unit, segment=segment, size=self.section_bytes
        )
        return [section.to_text() for section in cut]

    def _clips(
        self, video: VideoFile, section: ClipSection, *, strict: bool
    ) -> Iterator[tuple[Clip, list[EncodedFrame | RecordError]]]:
        """Yield the clips of a section in order. Encodes each frame once.

        strict: as of `decode_section`.
        """
        clips = collections.deque(section.clips(self.cut, video.unit))
        needed = {number for clip in clips for number in clip.frames.tolist()}
        encoder = FrameEncoder(self.images, aspect=video.aspect)
        held: dict[int, EncodedFrame | RecordError] = {}
        for number, frame in decode_section(video, section, strict=strict):
            if number in needed:
                held[number] = _encode(encoder, frame)
            while clips and clips[0].frames[-1] <= number:
                clip = clips.popleft()
                yield clip, [held[one] for one in clip.frames.tolist()]
                low = int(clips[0].frames[0]) if clips else number + 1
                for one in [one for one in held if one < low]:
                    del held[one]

    def _rate(self, video: VideoFile, section: ClipSection) -> Fraction:
        """Return the frame rate of clips, from the header if it is about right."""
        found = section.rate(video.unit)
        rate = video.rate if abs(video.rate - found) <= found * _NEAR else found
        return (self.cut.rate or rate) / self.cut.step


def _tasks(files: Iterable[File], most: int) -> Iterator[tuple[list[File], bool]]:
    """Yield the files of each task, and whether they are remote.

    most: maximum bytes of the files of a task with several files.
    """
    task: list[File] = []
    held = 0
    for file in files:
        if task and (held + file[1] > most or len(task) >= limits.PROBED_VIDEOS):
            yield task, is_uri(task[0][0])
            task, held = [], 0
        task.append(file)
        held += file[1]
    if task:
        yield task, is_uri(task[0][0])


def _encode(encoder: FrameEncoder, frame: Any) -> EncodedFrame | RecordError:
    if isinstance(frame, RecordError):
        return frame
    try:
        return encoder.encode(frame)
    except RecordError as error:
        return error


def _values(rows: pa.RecordBatch, *names: str) -> Iterator[Any]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def unread_parts(video: VideoFile) -> Sequence[str]:
    """Return nouns for the parts of a video that are not read, or not applied to its frames."""
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
