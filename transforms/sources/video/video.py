"""Films as an input: their clips, with frames that are coded when the film is read.

Overlapping clips, read in random order out of a film, would each decode from the key frame before
them on. So a film is decoded once, from its beginning, or a section of a long one; every frame is
coded once, and the rows are the clips themselves.
"""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from fractions import Fraction
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from recordmill.errors import ConfigError, Reason, RecordError, Reject, did_you_mean
from recordmill.storage.files import Location, is_uri
from recordmill.transforms.imaging.image_options import ImageOptions
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Layout, ListingPart, Source
from recordmill.transforms.sources.video.clip_plan import Clip, ClipCut, ClipSection, sections_of
from recordmill.transforms.sources.video.clip_rows import FILM, ClipRows, clip_schema
from recordmill.transforms.sources.video.frame_images import (
    EncodedFrame,
    FramePictures,
    too_many_pixels,
)
from recordmill.transforms.sources.video.frames import decode_section
from recordmill.transforms.sources.video.video_decoder import Film, Packets, jpegs, library

SECTION = "__section__"  # string, null where the film is one: a `ClipSection`
FROM, TO = "__from__", "__to__"  # float64, null without: seconds where a segment begins and ends
COUNTS = "__counts__"  # int64: inputs that a row of the listing counts for

Segment = tuple[float | None, float | None]  # seconds from the beginning of the film

_REQUESTS = 32  # at a time, to a store
_THREADS = 4  # that look at local files
_LOOKED_AT = 64  # films at once: of long ones the times of all frames are held
_PART_BYTES = 2 << 20  # of films, that a task reads together
_PART_ROWS = 256
_ROW_BYTES = 16 << 20  # of frames whose clips are written together
_NEAR = Fraction(1, 50)  # that the frame rate of a header may be wrong by


class _File(NamedTuple):
    """A film, and the rows of the listing that are about it."""

    path: str
    size: int
    mtime: int
    segments: list[tuple[int, Segment]]


class _Looked(NamedTuple):
    """What is known of a film before it is read; of a long one also its packets."""

    has_sound: bool
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


_PLACE = (batch.PATH, batch.SIZE, batch.MTIME, SECTION, FROM, TO, COUNTS)


@dataclasses.dataclass
class _Seen:
    """What was found out while films were listed."""

    with_sound: int = 0


@dataclasses.dataclass(frozen=True, kw_only=True)
class Films:
    """Lists films by their headers, and reads the clips of them.

    files: lists them, as references. pictures: how frames come out. cut: which of them make clips.
    max_clip_bytes: of the coded frames of a clip.
    start, end: columns of the listing, of seconds, that make a row a segment of a film.
    root: what is left out of a film's path, where a listing names its rows, not the films.
    cut_above: bytes from which a film is cut into sections of `section_bytes` or more, at key
    frames, so that several workers read it.
    """

    files: Source
    pictures: ImageOptions = dataclasses.field(default_factory=ImageOptions)
    cut: ClipCut = dataclasses.field(default_factory=ClipCut)
    start: str | None = None
    end: str | None = None
    max_clip_bytes: int = 256 << 20
    root: str | None = None
    cut_above: int = 32 << 20
    section_bytes: int = 8 << 20
    seen: _Seen = dataclasses.field(default_factory=_Seen, compare=False, repr=False)

    @property
    def unique_keys(self) -> bool:
        return self.files.unique_keys

    @property
    def notes(self) -> tuple[str, ...]:
        found = self.seen
        if not found.with_sound:
            return ()
        films = "film has" if found.with_sound == 1 else "films have"
        return (f"{found.with_sound} {films} sound, which is left out",)

    def scan(self) -> Iterator[ListingPart]:
        """Raises ConfigError for an input that cannot be used."""
        library()
        jpegs()
        kept = 0
        first: Reject | None = None
        for listed in self.files.scan():
            rows = listed.rows
            if rows is None:
                yield listed
                continue
            yield dataclasses.replace(listed, rows=None)
            rows, unclear = self._segments(rows)
            first = first or next(iter(unclear), None)
            yield ListingPart(rejects=unclear)
            for part in self._look_at(rows):
                kept += 0 if part.rows is None else len(part.rows)
                first = first or next(iter(part.rejects), None)
                yield part
        if not kept and first is not None:
            raise ConfigError(f"no film can be used; the first: {first.key}: {first.detail}")

    def layout(self, parts: Iterable[pa.RecordBatch], keep: Location | None = None) -> Layout:
        """Raises ConfigError where there is no film."""
        del keep
        labelled = presplit = False
        users: list[pa.Field] | None = None
        for rows in parts:
            labelled |= rows[batch.LABEL].null_count < len(rows)
            presplit |= rows[batch.SPLIT].null_count < len(rows)
            users = [field for field in rows.schema if not field.name.startswith("__")]
        if users is None:
            raise ConfigError("the input has no film that can be used")
        return Layout(
            columns=clip_schema(self.cut.frames, users),
            labelled=labelled,
            grouped=True,  # clips of a film never part
            presplit=presplit,
        )

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Raises ChangedInputError for a film that is not what was listed."""
        found = ClipRows(
            sections=sections,
            schema=layout.columns,
            max_bytes=self.max_clip_bytes,
        )
        known: tuple[str, Packets] | None = None
        for row, place in enumerate(map(_Place._make, _values(sections, *_PLACE))):
            try:
                with Film(place.path, size=place.size, mtime=place.mtime) as film:
                    if place.section is not None:
                        section = ClipSection.from_text(place.section)
                    else:
                        if known is None or known[0] != place.path:
                            known = place.path, film.packets(keep=True)
                        segment = (place.start, place.end)
                        (section,) = sections_of(known[1], self.cut, film.unit, segment=segment)
                    found.inputs += place.counts
                    rate = self._rate(film, section)
                    for clip, frames in self._clips(film, section):
                        found.add(row, clip, frames, rate=rate)
                        if found.bytes >= _ROW_BYTES:
                            yield found.take()
                    if section.missing != 0:
                        found.spoil(row, section.stop, _missing(section.missing))
            except RecordError as error:
                if place.counts:
                    found.reject(row, error)
                else:  # the film counts where its first section is
                    found.spoil(row, ClipSection.from_text(str(place.section)).start, error)
        yield found.take()

    def _segments(self, rows: pa.RecordBatch) -> tuple[pa.RecordBatch, list[Reject]]:
        """References with the seconds of segments, under names of their own; and those that have
        none that can be understood.
        """
        given = [_seconds(rows, *one) for one in (("start", self.start), ("end", self.end))]
        faults = given[0][1] | given[1][1]
        starts, ends = (values for values, _ in given)
        keys = rows[batch.KEY].to_pylist()
        rejects = [
            Reject(keys[row], "read", Reason.BAD_VALUE, why) for row, why in sorted(faults.items())
        ]
        if faults:
            sound = pa.array([row not in faults for row in range(len(rows))])
            rows, starts, ends = rows.filter(sound), starts.filter(sound), ends.filter(sound)
        films = rows[batch.KEY]
        if self.root is not None:
            paths = [path.removeprefix(f"{self.root}/") for path in rows[batch.PATH].to_pylist()]
            films = pa.array(paths, pa.string())
        rows = batch.set_column(rows, batch.GROUP, pc.coalesce(rows[batch.GROUP], films))
        if self.root is None and (self.start or self.end):
            told = zip(films.to_pylist(), starts.to_pylist(), ends.to_pylist(), strict=True)
            keys = [f"{film}@{_told(start or 0)}-{_told(end)}" for film, start, end in told]
            rows = batch.set_column(rows, batch.KEY, pa.array(keys, pa.string()))
        for name, values in ((FILM, films), (FROM, starts), (TO, ends)):
            rows = rows.append_column(name, values)
        return rows, rejects

    def _look_at(self, rows: pa.RecordBatch) -> Iterator[ListingPart]:
        """Films that can be used, in parts that each are read by one task."""
        keys = rows[batch.KEY].to_pylist()
        rejects: list[Reject] = []
        at: list[int] = []
        more: list[tuple[str | None, int]] = []
        held = 0
        for file, looked in self._looked(rows):
            weight = min(file.size, self.section_bytes)
            for row, segment in file.segments:
                try:
                    sections = self._listed(looked, segment)
                except RecordError as error:
                    rejects.append(Reject(keys[row], "read", error.reason, error.detail))
                    continue
                for number, section in enumerate(sections):
                    if at and (held + weight > _PART_BYTES or len(at) >= _PART_ROWS):
                        yield ListingPart(rows=_listing(rows, at, more), rejects=rejects)
                        rejects, at, more, held = [], [], [], 0
                    at.append(row)
                    more.append((section, int(number == 0)))
                    held += weight
        if at or rejects:
            yield ListingPart(rows=_listing(rows, at, more) if at else None, rejects=rejects)

    def _looked(self, rows: pa.RecordBatch) -> Iterator[tuple[_File, _Looked | RecordError]]:
        """What each film is; several are looked at at a time."""
        files: dict[str, _File] = {}
        names = (batch.PATH, batch.SIZE, batch.MTIME, FROM, TO)
        for row, (path, size, mtime, *segment) in enumerate(_values(rows, *names)):
            file = files.setdefault(path, _File(path, size, mtime, []))
            file.segments.append((row, (segment[0], segment[1])))
        threads = _REQUESTS if any(map(is_uri, files)) else _THREADS
        with ThreadPoolExecutor(threads) as pool:
            for first in range(0, len(files), _LOOKED_AT):
                some = [*itertools.islice(files.values(), first, first + _LOOKED_AT)]
                for file, looked in zip(some, pool.map(self._look, some), strict=True):
                    if isinstance(looked, _Looked) and looked.has_sound:
                        self.seen.with_sound += 1
                    yield file, looked

    def _look(self, file: _File) -> _Looked | RecordError:
        try:
            with Film(file.path, size=file.size, mtime=file.mtime) as film:
                height, width = film.pixels
                if height * width > self.pictures.max_pixels:
                    raise too_many_pixels(height, width, self.pictures)
                self._check_bytes(height * width)
                packets = film.packets() if file.size > self.cut_above else None
                return _Looked(film.has_sound, film.unit, packets)
        except RecordError as error:
            return error

    def _check_bytes(self, pixels: int) -> None:
        """Raises RecordError where a clip takes too much memory, if that can be told."""
        if not self.pictures.is_raw or self.pictures.size is not None:
            return
        size = self.cut.frames * pixels * self.pictures.channels
        if size > self.max_clip_bytes:
            raise RecordError(
                Reason.TOO_LARGE,
                f"a clip takes {size} bytes, more than --max-clip-bytes {self.max_clip_bytes}:"
                " fewer frames, a --size, or jpeg",
            )

    def _listed(self, looked: _Looked | RecordError, segment: Segment) -> Sequence[str | None]:
        """The sections of a film or a segment. Raises RecordError where there is no clip in it."""
        if isinstance(looked, RecordError):
            raise looked
        if looked.packets is None:
            return [None]
        cut = sections_of(
            looked.packets, self.cut, looked.unit, segment=segment, size=self.section_bytes
        )
        return [section.to_text() for section in cut]

    def _clips(
        self, film: Film, section: ClipSection
    ) -> Iterator[tuple[Clip, list[EncodedFrame | RecordError]]]:
        """The clips of a section in their order; each frame is coded once."""
        clips = collections.deque(section.clips(self.cut, film.unit))
        needed = {number for clip in clips for number in clip.frames.tolist()}
        pictures = FramePictures(self.pictures, aspect=film.aspect)
        held: dict[int, EncodedFrame | RecordError] = {}
        for number, frame in decode_section(film, section):
            if number in needed:
                held[number] = _coded(pictures, frame)
            while clips and clips[0].frames[-1] <= number:
                clip = clips.popleft()
                yield clip, [held[one] for one in clip.frames.tolist()]
                low = int(clips[0].frames[0]) if clips else number + 1
                for one in [one for one in held if one < low]:
                    del held[one]

    def _rate(self, film: Film, section: ClipSection) -> Fraction:
        """Frames of a clip per second; what the header says, where that is about right."""
        found = section.rate(film.unit)
        told = film.rate if abs(film.rate - found) <= found * _NEAR else found
        return (self.cut.rate or told) / self.cut.step


def _coded(pictures: FramePictures, frame: Any) -> EncodedFrame | RecordError:
    if isinstance(frame, RecordError):
        return frame
    try:
        return pictures.code(frame)
    except RecordError as error:
        return error


def _missing(count: int | None) -> RecordError:
    """What the header of a film tells of and is not there."""
    what = "a part of the film cannot be read, or it ends before the end that its header tells"
    if count is not None:
        what = f"the last {count} frames that the header of the film tells of are not there"
    return RecordError(Reason.TRUNCATED, what)


def _seconds(
    rows: pa.RecordBatch, option: str, column: str | None
) -> tuple[pa.Array, dict[int, str]]:
    """A column of seconds, nulls without one; and {row: why it says none}.

    Raises ConfigError where it is none of numbers.
    """
    if column is None:
        return pa.nulls(len(rows), pa.float64()), {}
    names = [name for name in rows.schema.names if not name.startswith("__")]
    if column not in names:
        raise ConfigError(
            f"--{option}-column: the listing has no column {column!r}"
            f"{did_you_mean(column, names)}; it has {', '.join(names)}"
        )
    values = rows[column]
    if pa.types.is_null(values.type):
        return pa.nulls(len(rows), pa.float64()), {}
    if pa.types.is_string(values.type):  # as it is with one value that is no number
        return _read_seconds(values.to_pylist(), column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type)):
        raise ConfigError(
            f"--{option}-column: expected seconds as numbers, and {column!r} is of {values.type}"
        )
    return values.cast(pa.float64()), {}


def _read_seconds(texts: Sequence[str | None], column: str) -> tuple[pa.Array, dict[int, str]]:
    found: list[float | None] = []
    faults = {}
    for row, text in enumerate(texts):
        try:
            found.append(float(text) if text else None)
        except ValueError:
            found.append(None)
            faults[row] = f"{column}: expected seconds as a number, got {str(text)[:40]!r}"
    return pa.array(found, pa.float64()), faults


def _told(seconds: float | None) -> str:
    """Seconds as they stand in a key."""
    return "" if seconds is None else f"{seconds:.6f}".rstrip("0").rstrip(".")


def _values(rows: pa.RecordBatch, *names: str) -> Iterator[Any]:
    return zip(*(rows[name].to_pylist() for name in names), strict=True)


def _listing(
    rows: pa.RecordBatch, at: Sequence[int], more: Sequence[tuple[str | None, int]]
) -> pa.RecordBatch:
    """Rows of the listing, with what is to be read of each."""
    out = rows.take(pa.array(at, pa.int64()))
    sections, counts = zip(*more, strict=True)
    out = out.append_column(SECTION, pa.array(sections, pa.string()))
    return out.append_column(COUNTS, pa.array(counts, pa.int64()))
