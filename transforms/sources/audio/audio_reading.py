"""Audio of rows that name files: their headers, a check, and their waveforms."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import RecordError
from recordmill.storage.input_files import read_file
from recordmill.transforms.audio.audio_decoders import open_audio, read_header
from recordmill.transforms.audio.audio_files import (
    AudioHeader,
    check_header,
    read_segment,
)
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.audio.waveforms import fit, prepare
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import OutcomeCollector, RowOutcome
from recordmill.transforms.sources.rows.segments import FROM, TO

SOURCE_COLUMNS = (batch.PATH, batch.SIZE, batch.MTIME)
_MICRO = 10**6


class AudioReference(NamedTuple):
    """A file, or a segment of it: start and end in seconds, None for the ends of the file."""

    path: str
    size: int
    mtime: int
    start: float | None
    end: float | None


class Sound(NamedTuple):
    """The audio of a record.

    samples: float32[n, channels]; n is 0 if the file is written as it is. data: its bytes then.
    rate: samples per second. real: samples per channel without padding. start: of a segment or a
    clip, in microseconds from the beginning of the file. format: of the file.
    """

    samples: npt.NDArray[np.float32]
    data: bytes
    rate: int
    real: int
    start: int
    format: str


def audio_references(rows: pa.RecordBatch) -> Iterator[tuple[str, AudioReference]]:
    """Yield the key and the file or segment of each row."""
    names: list[Any] = [batch.KEY, *SOURCE_COLUMNS]
    segmented = FROM in rows.schema.names
    columns = [rows[name].to_pylist() for name in (*names, *((FROM, TO) if segmented else ()))]
    for key, path, size, mtime, *segment in zip(*columns, strict=True):
        start, end = segment or (None, None)
        yield key, AudioReference(path, size, mtime, start, end)


def read_whole(place: AudioReference, options: AudioOptions) -> Sound:
    """Read, mix, resample and trim the audio of a row; it starts where it does after trimming.

    Raises:
      RecordError: it cannot be used.
    """
    samples, trimmed, header = _read_samples(place, options)
    rate = options.sample_rate or header.rate
    first = _microseconds(place.start) + trimmed * _MICRO // rate
    return Sound(samples, b"", rate, len(samples), first, header.format)


def read_record(place: AudioReference, options: AudioOptions) -> Sound:
    """Return the audio of a row, cut or padded to the length of a clip.

    Its start is that of the segment, as the listing has it.

    Raises:
      RecordError: it cannot be used.
    """
    if options.features == "encoded":
        return _read_encoded(place, options)
    samples, _, header = _read_samples(place, options)
    samples, real = fit(samples, options.clip_samples, options.clip_mode)
    rate = options.sample_rate or header.rate
    return Sound(samples, b"", rate, real, _microseconds(place.start), header.format)


def _read_samples(
    place: AudioReference, options: AudioOptions
) -> tuple[npt.NDArray[np.float32], int, AudioHeader]:
    """Return the samples of a row, the number of those that were trimmed before, and its header."""
    path, size, mtime, start, end = place
    with open_audio(path, size=size, mtime=mtime) as file:
        header = file.header
        samples = read_segment(file, start, end, max_seconds=options.max_seconds)
    return *prepare(samples, options, rate=header.rate), header


def _microseconds(seconds: float | None) -> int:
    return round((seconds or 0) * _MICRO)


def _read_encoded(place: AudioReference, options: AudioOptions) -> Sound:
    """Return the bytes of a file, whose audio can be decoded."""
    path, size, mtime, _, _ = place
    with open_audio(path, size=size, mtime=mtime) as file:
        header = file.header
        samples = read_segment(file, None, None, max_seconds=options.max_seconds)
    data = read_file(path, size=size, mtime=mtime)
    none = np.zeros((0, header.channels), np.float32)
    return Sound(none, data, header.rate, len(samples), 0, header.format)


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioHeaderCheck:
    """Check that rejects files that are not audio, empty or too long, judged by their headers."""

    options: AudioOptions

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file."""
        return SOURCE_COLUMNS

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Read the header of every file."""
        return _read_headers(rows, self.options, _read_opened_header)[0]


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioHeaders:
    """Reader of the headers of audio files, for schemas and statistics."""

    options: AudioOptions

    @property
    def fields(self) -> pa.Schema:
        """Schema of the columns that `read` returns."""
        return pa.schema(
            [
                pa.field("audio/format", pa.string()),
                pa.field("audio/sample_rate", pa.int64()),
                pa.field("audio/channels", pa.int64()),
                pa.field("audio/seconds", pa.float64()),
            ]
        )

    def read(self, rows: pa.RecordBatch) -> tuple[RowOutcome, pa.RecordBatch]:
        """Return properties of the files; seconds are null if the header does not state them."""
        outcome, found = _read_headers(rows, self.options, read_header)
        seconds = [None if one.frames is None else one.frames / one.rate for one in found]
        columns = {
            "audio/format": pa.array([one.format for one in found], pa.string()),
            "audio/sample_rate": pa.array([one.rate for one in found], pa.int64()),
            "audio/channels": pa.array([one.channels for one in found], pa.int64()),
            "audio/seconds": pa.array(seconds, pa.float64()),
        }
        return outcome, pa.RecordBatch.from_pydict(columns, schema=self.fields)


def _read_opened_header(path: str, *, size: int, mtime: int) -> AudioHeader:
    """Return the header of a file whose decoder accepts its beginning."""
    with open_audio(path, size=size, mtime=mtime) as file:
        return file.header


def _read_headers(
    rows: pa.RecordBatch, options: AudioOptions, read: Callable[..., AudioHeader]
) -> tuple[RowOutcome, list[AudioHeader]]:
    """Return the outcome of rows, and the headers of the files of those that are kept."""
    outcomes = OutcomeCollector("check")
    found = []
    for row, (key, (path, size, mtime, start, end)) in enumerate(audio_references(rows)):
        try:
            header = read(path, size=size, mtime=mtime)
            check_header(header, start, end, max_seconds=options.max_seconds)
        except RecordError as error:
            outcomes.leave_out(key, error)
        else:
            found.append(header)
            outcomes.keep(row)
    return outcomes.result(), found
