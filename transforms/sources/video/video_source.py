"""Source of clips of videos.

Reading clips in random order would decode each of them from the previous key frame. So a video, or
a section of a long video, is decoded once in order, and every frame is encoded once.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa

from recordmill.errors import ConfigError, RecordError, Reject
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.notes import LeftUnread, Note
from recordmill.processes.task_watch import DEFAULT_LIMITS, TaskLimits
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource, Source
from recordmill.transforms.sources.files.header_tasks import read_headers
from recordmill.transforms.sources.rows.segments import (
    FROM,
    TO,
    Segment,
    SegmentColumns,
    clips_layout,
)
from recordmill.transforms.sources.video.clip_plan import (
    Clip,
    ClipSampling,
    ClipSection,
    missing_frames,
    plan_sections,
)
from recordmill.transforms.sources.video.clip_rows import ClipCollector, clip_schema
from recordmill.transforms.sources.video.frame_encoder import EncodedFrame, FrameEncoder
from recordmill.transforms.sources.video.frame_times import Packets
from recordmill.transforms.sources.video.frames import (
    UnexpectedFramesError,
    count_frames,
    decode_section,
)
from recordmill.transforms.sources.video.video_decoder import VideoFile, pyav
from recordmill.transforms.sources.video.video_headers import ProbedVideo, VideoProbe

SECTION = "__section__"  # string: a `ClipSection`, null for a whole video
COUNTS = "__counts__"  # int64: number of inputs that a row of the listing counts as

_NEAR = Fraction(1, 50)  # tolerance for the frame rate of a header


class _File(NamedTuple):
    """A video, and its (row, segment) pairs in the listing."""

    path: str
    size: int
    mtime: int
    segments: list[tuple[int, Segment]]


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


@dataclasses.dataclass
class _Counts:
    """Counts of videos, for notes."""

    with_sound: int = 0
    unread: LeftUnread = dataclasses.field(default_factory=LeftUnread)

    def notes(self) -> Iterator[Note]:
        """Yield notes on what was counted."""
        yield from self.unread.notes()
        if self.with_sound:
            videos = "video has" if self.with_sound == 1 else "videos have"
            text = f"{self.with_sound} {videos} an audio track, which is dropped"
            yield Note("audio", text)


@dataclasses.dataclass(frozen=True, kw_only=True)
class VideoSource(RowSource):
    """Lists videos with their headers, and reads their clips.

    files: source of references.
    images: how frames are resized and encoded.
    cut: how clips are sampled.
    segments: columns of the listing with segments of videos.
    max_clip_bytes: maximum size of the encoded frames of a clip.
    section_above: bytes above which a video is split at key frames into sections, so that several
      workers read it.
    section_bytes: minimum size of a section.
    worker_limits: of an encoder process.
    """

    files: Source
    images: ImageOptions = dataclasses.field(default_factory=ImageOptions)
    cut: ClipSampling = dataclasses.field(default_factory=ClipSampling)
    segments: SegmentColumns = SegmentColumns()  # noqa: RUF009, it is frozen
    max_clip_bytes: int = 256 << 20
    section_above: int = 32 << 20
    section_bytes: int = 8 << 20
    worker_limits: TaskLimits = DEFAULT_LIMITS

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    def scan(self) -> Iterator[ListingPart]:
        """Yield the videos, or sections of them.

        Raises:
          ConfigError: no video can be used.
        """
        pyav()
        counts = _Counts()
        kept = 0
        first: Reject | None = None
        for listed in self.files.scan():
            rows = listed.rows
            first = first or next(iter(listed.rejects), None)
            if rows is None:
                yield listed
                continue
            yield dataclasses.replace(listed, rows=None)
            rows, unclear = self.segments.split_off(rows)
            first = first or next(iter(unclear), None)
            yield ListingPart(rejects=unclear)
            for part in self._list(rows, counts):
                kept += 0 if part.rows is None else len(part.rows)
                first = first or next(iter(part.rejects), None)
                yield part
        if not kept and first is not None:
            raise ConfigError(f"no video can be used; the first: {first.key}: {first.detail}")
        yield ListingPart(notes=[*counts.notes()])

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        """Return the layout of the clips.

        Raises:
          ConfigError: there is no usable video.
        """
        del keep
        schema = functools.partial(clip_schema, self.cut.frames)
        return clips_layout(parts, facts, schema, kind="video")

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the clips of a part of the listing.

        Raises:
          ChangedInputError: a video has changed since it was listed.
        """
        yield from self._read(sections, layout.columns)

    def _read(self, sections: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        """Yield the clips of videos, or of sections of them."""
        most = self.max_clip_bytes
        found = ClipCollector(sections=sections, schema=schema, max_bytes=most)
        known: tuple[str, Packets] | None = None
        for row, place in enumerate(map(_Place._make, _values(sections, *_PLACE))):
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
                found.reject_section(row, place.section, error, counts=place.counts)
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
            found.add(row, clip, frames, rate=rate, counts=place.counts)
            if found.is_full:
                yield found.take()
        if section.missing != 0:
            found.reject_record(row, section.stop, missing_frames(section.missing))

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Return the rejects of sections that cannot be read at all."""
        found = ClipCollector(sections=sections, schema=layout.columns, max_bytes=0)
        for row, (section, counts) in enumerate(_values(sections, SECTION, COUNTS)):
            found.reject_section(row, section, error, counts=counts)
        return found.take()

    def _list(self, rows: pa.RecordBatch, counts: _Counts) -> Iterator[ListingPart]:
        """Yield the usable videos and rejects, in parts for one task each."""
        keys = rows[batch.KEY].to_pylist()
        rejects: list[Reject] = []
        at: list[int] = []
        more: list[tuple[str | None, int]] = []
        held = 0
        for file, probed in self._probe_all(rows, counts):
            weight = min(file.size, self.section_bytes)
            for row, segment in file.segments:
                try:
                    sections = self._sections(probed, segment)
                except RecordError as error:
                    rejects.append(Reject(keys[row], "read", error.reason, error.detail))
                    continue
                for number, section in enumerate(sections):
                    if at and (
                        held + weight > limits.VIDEO_PART_BYTES or len(at) >= limits.VIDEO_PART_ROWS
                    ):
                        yield ListingPart(rows=with_sections(rows, at, more), rejects=rejects)
                        rejects, at, more, held = [], [], [], 0
                    at.append(row)
                    more.append((section, int(number == 0)))
                    held += weight
        if at or rejects:
            yield ListingPart(rows=with_sections(rows, at, more) if at else None, rejects=rejects)

    def _probe_all(
        self, rows: pa.RecordBatch, counts: _Counts
    ) -> Iterator[tuple[_File, ProbedVideo | RecordError]]:
        """Read the headers of the videos of rows."""
        files: dict[str, _File] = {}
        keys = rows[batch.KEY].to_pylist()
        names = (batch.PATH, batch.SIZE, batch.MTIME, FROM, TO)
        for row, (path, size, mtime, *segment) in enumerate(_values(rows, *names)):
            file = files.setdefault(path, _File(path, size, mtime, []))
            file.segments.append((row, (segment[0], segment[1])))
        tasks = _probe_tasks(files.values(), self.section_above)
        headers = read_headers(self._video_probe.inspect, tasks, task_limits=self.worker_limits)
        for file, probed in zip(files.values(), headers, strict=True):
            if isinstance(probed, ProbedVideo) and probed.has_sound:
                counts.with_sound += 1
            for part in probed.unread if isinstance(probed, ProbedVideo) else ():
                key = keys[file.segments[0][0]]
                counts.unread.add(part, "video", such_as=key)
            yield file, probed

    @property
    def _video_probe(self) -> VideoProbe:
        return VideoProbe(
            images=self.images,
            cut=self.cut,
            max_clip_bytes=self.max_clip_bytes,
            section_above=self.section_above,
        )

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


def _probe_tasks(
    files: Iterable[_File], most: int
) -> Iterator[tuple[list[tuple[str, int, int]], bool]]:
    """Yield the (path, size, mtime) of the files of each task, and whether they are remote.

    most: bytes of the files of a task, unless it has one file.
    """
    task: list[tuple[str, int, int]] = []
    held = 0
    for file in files:
        if task and (held + file.size > most or len(task) >= limits.PROBED_VIDEOS):
            yield task, is_uri(task[0][0])
            task, held = [], 0
        task.append((file.path, file.size, file.mtime))
        held += file.size
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


def with_sections(
    rows: pa.RecordBatch, at: Sequence[int], more: Sequence[tuple[str | None, int]]
) -> pa.RecordBatch:
    """Return rows of the listing with their sections and input counts."""
    out = rows.take(pa.array(at, pa.int64()))
    sections, counts = zip(*more, strict=True)
    out = out.append_column(SECTION, pa.array(sections, pa.string()))
    return out.append_column(COUNTS, pa.array(counts, pa.int64()))
