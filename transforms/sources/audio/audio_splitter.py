"""Splitting of audio files into consecutive clips.

Reading clips in random order would open and decode a file once per clip. So each file is decoded
once into a staged file of samples, and the row of a clip holds its offset in the staged file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, RecordError
from recordmill.format.content_hashes import content_hash
from recordmill.storage.files import Location
from recordmill.storage.input_files import damaged_staging
from recordmill.storage.storage_errors import MissingError
from recordmill.transforms.audio.audio_files import is_far_beyond
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.audio.audio_reading import (
    Sound,
    audio_references,
    content_name,
    read_whole,
)
from recordmill.transforms.sources.splitters.collector import Collector
from recordmill.transforms.sources.splitters.split_files import (
    Counts,
    ReadHeaders,
    Section,
    Splitter,
)
from recordmill.transforms.staged.mapped_files import read_ahead, read_or_take

AT = "__at__"  # int64: offset of the samples of a clip in the staged file
REAL = "__real__"  # int64: samples without padding
CHANNELS = "__channels__"  # int64
RATE = "__rate__"  # int64: samples per second
START = "__start__"  # int64: microseconds from the beginning of the file
FORMAT = "__format__"  # string: of the file

_MICRO = 10**6
_NUMBERS = (batch.SIZE, AT, REAL, CHANNELS, RATE, START)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioSplitter(Splitter):
    """Splits audio files, or segments of them, into clips."""

    options: AudioOptions
    noun: ClassVar[str] = "audio file"

    @property
    def own(self) -> Sequence[pa.Field]:
        return (
            pa.field(FORMAT, pa.string()),
            pa.field(batch.CONTENT, pa.binary(16)),
            *(pa.field(name, pa.int64()) for name in _NUMBERS),
        )

    @property
    def part_limits(self) -> tuple[int, int]:
        return limits.AUDIO_PART_BYTES, limits.AUDIO_PART_ROWS

    def plan(
        self, rows: pa.RecordBatch, counts: Counts, headers: ReadHeaders[Any, Any]
    ) -> Iterator[tuple[int, Section | RecordError]]:
        del counts, headers
        yield from enumerate(Section((), size) for size in rows[batch.SIZE].to_pylist())

    def split(self, rows: pa.RecordBatch, schema: pa.Schema) -> Iterator[ListingPart]:
        found = Collector(given=rows, schema=schema, own=self.own)
        for row, (_, place) in enumerate(audio_references(rows)):
            try:
                sound = read_whole(place, self.options)
                starts = self._starts(len(sound.samples))
            except RecordError as error:
                found.reject(row, error)
                continue
            found.count_inputs(1)
            for start in starts:
                found.add(row, start, *self._clip(sound, start, found))
                if found.is_full:
                    yield found.take()
        yield found.take()

    def _clip(self, sound: Sound, start: int, found: Collector) -> tuple[Any, ...]:
        """Store the samples of the clip from `start` on, and return its values."""
        length = self.options.clip_samples or len(sound.samples)
        samples, channels = sound.samples[start : start + length], sound.samples.shape[1]
        clip = np.zeros((length, channels), np.float32)
        clip[: len(samples)] = samples
        data = clip.tobytes()
        content = content_hash(data, name=content_name(sound.rate, clip.shape))
        time = sound.start + start * _MICRO // sound.rate
        numbers = (len(data), found.store(data), len(samples), channels, sound.rate, time)
        return (sound.format, content, *numbers)

    def _starts(self, count: int) -> range:
        """Return the offsets of the clips of a file with `count` samples.

        Raises:
          RecordError: The file is too short for a clip.
        """
        length = self.options.clip_samples or count
        stop = count if self.options.clip_rest == "pad" else count - length + 1
        if stop < 1:
            raise RecordError(
                Reason.BAD_VALUE,
                f"{count} samples, but a clip takes {length}: --clip-rest pad pads the end of a"
                " file with silence",
            )
        return range(0, stop, length)


def read_clips(rows: pa.RecordBatch) -> Iterator[Sound]:
    """Yield the audio of rows of clips, from their staged files.

    Raises:
      RunError: A staged file is missing or has changed.
    """
    names = (batch.PATH, FORMAT, batch.CONTENT, *_NUMBERS)
    clips = [*zip(*(rows[name].to_pylist() for name in names), strict=True)]
    ranges = ((row, Location.parse(one[0]), one[4], one[3]) for row, one in enumerate(clips))
    for path, form, content, size, at, real, channels, rate, start in read_ahead(clips, ranges):
        try:
            data = read_or_take(Location.parse(path), at, size)
        except MissingError:
            data = b""
        samples = np.frombuffer(data[: size if len(data) == size else 0], np.float32)
        clip = samples.reshape(-1, channels)
        if len(data) != size or content_hash(data, name=content_name(rate, clip.shape)) != content:
            raise damaged_staging(path)
        yield Sound(clip, b"", rate, real, start, form, is_far_beyond(clip))
