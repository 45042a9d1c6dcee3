"""Source of consecutive clips of audio files.

Reading clips in random order would open and decode a file once per clip. So each file is decoded
once, a staged file holds its samples, and a row holds the offset of its clip in that file.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, RecordError, Reject, RunError
from recordmill.format.content_hashes import ContentHashes, content_hash
from recordmill.job.input_facts import NO_FACTS, InputFacts
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import MissingError
from recordmill.transforms.audio.audio_files import is_far_beyond
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.ragged import string_array
from recordmill.transforms.model.source import Layout, ListingPart, Parts, RowSource, Source
from recordmill.transforms.sources.audio.audio_reading import (
    Sound,
    audio_references,
    content_name,
    read_whole,
)
from recordmill.transforms.sources.rows.segments import (
    NAME,
    SegmentColumns,
    SegmentedFiles,
    clips_layout,
)

AT = "__at__"  # int64: offset of the samples of a clip in the staged file
REAL = "__real__"  # int64: samples without padding
CHANNELS = "__channels__"  # int64
RATE = "__rate__"  # int64: samples per second
START = "__start__"  # int64: microseconds from the beginning of the file
FORMAT = "__format__"  # string: of the file

_MICRO = 10**6
_CLIPS = 256  # of a file, added to a part at a time
_TEXTS = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, NAME, batch.DATA, FORMAT)
_NUMBERS = (batch.SIZE, AT, REAL, CHANNELS, RATE, START)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioClips(RowSource):
    """Lists audio files, and reads their clips.

    files: source of references. segments: columns of the listing with segments of files.
    """

    files: Source
    options: AudioOptions
    segments: SegmentColumns = SegmentColumns()  # noqa: RUF009, it is frozen

    @property
    def unique_keys(self) -> bool:
        """True if keys are unique by construction."""
        return self.files.unique_keys

    def scan(self) -> Iterator[ListingPart]:
        """Yield the files or segments, in parts for one task each.

        Raises:
          ConfigError: no row can be used.
        """
        for listed in SegmentedFiles(files=self.files, columns=self.segments).scan():
            rows = listed.rows
            yield dataclasses.replace(listed, rows=None)
            if rows is None or not len(rows):
                continue
            sizes = np.asarray(rows[batch.SIZE])
            start = 0
            while start < len(rows):
                below = np.cumsum(sizes[start : start + limits.AUDIO_PART_ROWS])
                count = max(int((below <= limits.AUDIO_PART_BYTES).sum()), 1)
                yield ListingPart(rows=rows.slice(start, count))
                start += count

    def layout(
        self, parts: Parts, keep: Location | None = None, *, facts: InputFacts = NO_FACTS
    ) -> Layout:
        """Return the layout of the clips.

        Raises:
          ConfigError: there is no usable file.
        """
        del keep
        return clips_layout(parts, facts, _clip_schema, kind="audio file")

    def read(self, sections: pa.RecordBatch, layout: Layout) -> Iterator[ListingPart]:
        """Yield the clips of a part of the listing.

        Raises:
          ChangedInputError: a file has changed since it was listed.
        """
        found = _ClipCollector(sections=sections, schema=layout.columns)
        for row, (_, place) in enumerate(audio_references(sections)):
            try:
                sound = read_whole(place, self.options)
                starts = self._clips(len(sound.samples))
            except RecordError as error:
                found.reject(row, error)
                continue
            found.inputs += 1
            for first in range(0, len(starts), _CLIPS):
                found.add(row, sound, starts[first : first + _CLIPS], self.options)
                if found.full:
                    yield found.take()
        yield found.take()

    def reject_sections(
        self, sections: pa.RecordBatch, layout: Layout, error: RecordError
    ) -> ListingPart:
        """Return the rejects of files that cannot be read at all."""
        found = _ClipCollector(sections=sections, schema=layout.columns)
        for row in range(len(sections)):
            found.reject(row, error)
        return found.take()

    def _clips(self, count: int) -> range:
        """Return the first samples of the clips of so many samples.

        Raises:
          RecordError: there is no clip.
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


@dataclasses.dataclass(kw_only=True)
class _ClipCollector:
    """Collects the clips of files, and rejects.

    sections: rows of the listing. schema: of the rows of clips. inputs: as in `ListingPart`.
    """

    sections: pa.RecordBatch
    schema: pa.Schema
    inputs: int = 0
    _at: list[int] = dataclasses.field(default_factory=list)
    _keys: list[str] = dataclasses.field(default_factory=list)
    _formats: list[str] = dataclasses.field(default_factory=list)
    # Values of the columns of `_NUMBERS`, of each clip.
    _numbers: list[tuple[int, ...]] = dataclasses.field(default_factory=list)
    _hashes: ContentHashes = dataclasses.field(default_factory=ContentHashes)
    _data: bytearray = dataclasses.field(default_factory=bytearray)
    _rejects: list[Reject] = dataclasses.field(default_factory=list)

    @property
    def full(self) -> bool:
        """True if more clips of a file would make a part too large."""
        most = limits.PART_ROWS - _CLIPS
        return len(self._data) >= limits.AUDIO_STAGED_BYTES or len(self._at) > most

    def add(self, row: int, sound: Sound, starts: range, options: AudioOptions) -> None:
        """Add the clips of the file of a row. starts: their first samples."""
        key = self.sections[batch.KEY][row].as_py()
        length = options.clip_samples or len(sound.samples)
        channels = sound.samples.shape[1]
        for start in starts:
            samples = sound.samples[start : start + length]
            real = len(samples)
            clip = np.zeros((length, channels), np.float32)
            clip[:real] = samples
            data = clip.tobytes()
            time = sound.start + start * _MICRO // sound.rate
            self._at.append(row)
            self._keys.append(f"{key}#{start}")
            self._formats.append(sound.format)
            self._numbers.append((len(data), len(self._data), real, channels, sound.rate, time))
            self._hashes.add(data, name=content_name(sound.rate, clip.shape))
            self._data += data

    def reject(self, row: int, error: RecordError) -> None:
        """Reject a file or a segment."""
        key = self.sections[batch.KEY][row].as_py()
        self._rejects.append(Reject(key, "read", error.reason, error.detail))

    def take(self) -> ListingPart:
        """Return the items collected since the last call."""
        listed = ListingPart(
            rows=self._rows() if self._at else None,
            rejects=self._rejects,
            inputs=self.inputs,
            data=self._data if self._at else None,
        )
        self._at, self._keys, self._formats, self._numbers = [], [], [], []
        self._data, self._hashes, self._rejects = bytearray(), ContentHashes(), []
        self.inputs = 0
        return listed

    def _rows(self) -> pa.RecordBatch:
        given = self.sections.take(pa.array(self._at, pa.int64()))
        numbers = np.array(self._numbers, np.int64).T
        found = {
            batch.KEY: string_array(self._keys),
            batch.DATA: pa.nulls(len(self._keys), pa.string()),  # the file is not written yet
            batch.CONTENT: self._hashes.result(),
            FORMAT: string_array(self._formats),
            **{name: pa.array(values) for name, values in zip(_NUMBERS, numbers, strict=True)},
        }
        columns = [found[name] if name in found else given[name] for name in self.schema.names]
        return pa.record_batch(columns, schema=self.schema)


def read_clips(rows: pa.RecordBatch) -> Iterator[Sound]:
    """Yield the audio of rows of clips, from their staged files.

    Raises:
      RunError: a staged file is missing or has changed.
    """
    names = (batch.PATH, FORMAT, batch.CONTENT, *_NUMBERS)
    for path, form, content, size, at, real, channels, rate, start in zip(
        *(rows[name].to_pylist() for name in names), strict=True
    ):
        place = Location.parse(path)
        try:
            data = place.read_range(at, size)
        except MissingError:
            data = b""
        samples = np.frombuffer(data[: size if len(data) == size else 0], np.float32)
        clip = samples.reshape(-1, channels)
        if len(data) != size or content_hash(data, name=content_name(rate, clip.shape)) != content:
            raise RunError(
                f"{shown(path)} is not the file that this job wrote: remove {shown(place.parent)}"
                " and run the same command again"
            )
        yield Sound(clip, b"", rate, real, start, form, is_far_beyond(clip))


def _clip_schema(users: Sequence[pa.Field]) -> pa.Schema:
    """Return the schema of rows of clips."""
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in _TEXTS),
            pa.field(batch.CONTENT, pa.binary(16)),
            *(pa.field(name, pa.int64()) for name in _NUMBERS),
            *users,
        ]
    )
