"""The frames of a section of a film, decoded in order, each by its number."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from recordmill.errors import Reason, RecordError
from transforms.sources.clip_cut import Section
from transforms.sources.films import Film, library

Frames = Iterator[tuple[int, Any]]


def decode_section(film: Film, section: Section) -> Frames:
    """(number in the film, a frame of PyAV's, or the RecordError of one that cannot be decoded) of
    every frame from the section's key frame on, ascending.

    After a frame that is broken, those are too that are decoded after it, to the next key frame:
    they are made of it.
    """
    decoder = _Decoder(section)
    for packet in _from_key(film, section):
        yield from decoder.take(packet)
        if decoder.is_done:
            return
    yield from decoder.finish(film.stream.codec_context)


def _from_key(film: Film, section: Section) -> Iterator[Any]:
    """The packets from a key frame on. Where the index leads past it, the film is read up to it."""
    key = section.key
    if section.base:
        film.seek(key)
    started = False
    for again in (False, True):
        if again:
            film.restart()
        for packet in film.demux():
            is_first = packet.pts == key[0] or not section.ordered
            started = started or (packet.is_keyframe and is_first)
            if started:
                yield packet
        if started:
            return


class _Decoder:
    """Decodes packets, and says of every frame that is expected what became of it, in order."""

    def __init__(self, section: Section) -> None:
        self._times = section.times.tolist()
        self._places = {time: place for place, time in enumerate(self._times)}
        self._key = section.key[0]
        self._base = section.base
        self._ordered = section.ordered
        self._next = 0
        self._is_broken = False
        self._broken: set[int] = set()
        self._errors = library().FFmpegError

    @property
    def is_done(self) -> bool:
        return self._next == len(self._times)

    def take(self, packet: Any) -> Frames:
        if packet.is_keyframe and self._ordered:
            self._is_broken = False
        frames: list[Any] = []
        is_bad = packet.is_corrupt
        try:
            frames = packet.decode()
        except self._errors:
            is_bad = True
        # What is shown before the first key frame may be made of frames before that.
        is_bad &= packet.pts is None or packet.pts >= self._key
        self._is_broken = self._is_broken or is_bad
        if self._is_broken:
            self._broken.add(packet.pts)
        yield from self._placed(frames)

    def finish(self, context: Any) -> Frames:
        """What the decoder still has, and what never came."""
        frames: list[Any] = []
        try:
            frames = context.decode(None)
        except self._errors:
            self._is_broken = True
        yield from self._placed(frames)
        yield from self._lost(len(self._times))

    def _placed(self, frames: list[Any]) -> Frames:
        for frame in frames:
            place = self._places.get(frame.pts) if self._ordered else self._next
            if place is None or not self._next <= place < len(self._times):
                continue
            if place > self._next:
                yield from self._lost(place)
            self._next = place + 1
            is_bad = frame.is_corrupt
            is_bad |= frame.pts in self._broken if self._ordered else self._is_broken
            yield self._base + place, self._error(place) if is_bad else frame

    def _lost(self, stop: int) -> Frames:
        for place in range(self._next, stop):
            yield self._base + place, self._error(place)
        self._next = max(self._next, stop)

    def _error(self, place: int) -> RecordError:
        number = self._base + place
        return RecordError(Reason.CORRUPT, f"frame {number} of the film cannot be decoded")
