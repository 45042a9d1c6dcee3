"""Audio of rows that name files: their headers, a check, and their waveforms."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from recordmill.errors import RecordError
from recordmill.format.content_hashes import array_name
from recordmill.storage.input_files import read_ahead, read_file
from recordmill.transforms.audio.audio_decoders import check_beginning, open_audio, read_header
from recordmill.transforms.audio.audio_files import (
    AudioHeader,
    check_header,
    is_far_beyond,
    read_segment,
)
from recordmill.transforms.audio.audio_options import AudioOptions
from recordmill.transforms.audio.audio_streams import IN_MEMORY
from recordmill.transforms.audio.resampling import joins_others, resample, resample_all
from recordmill.transforms.audio.waveforms import fit, mix, prepare, trim
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import OutcomeCollector, RowOutcome
from recordmill.transforms.sources.splitters.segments import FROM, TO

SOURCE_COLUMNS = (batch.PATH, batch.SIZE, batch.MTIME)
_MICRO = 10**6
_TOGETHER = 128  # files that are read before they are resampled together and encoded
_UNCHANGED = 12  # the same, if nothing is computed: their samples stay in the processor's cache
_MOST_WAITING = 1 << 22  # samples of these files: 16 MiB

T = TypeVar("T")


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
    clip, in microseconds from the beginning of the file. format: of the file. is_beyond: whether
    the samples of the file are far beyond the full scale.
    """

    samples: npt.NDArray[np.float32]
    data: bytes
    rate: int
    real: int
    start: int
    format: str
    is_beyond: bool = False


class _Decoded(NamedTuple):
    """The mixed samples of a row, float32[n, channels].

    joins_others: they are to be resampled together with others. header: of the file. start: in
    microseconds. is_beyond: as in `Sound`.
    """

    samples: npt.NDArray[np.float32]
    joins_others: bool
    header: AudioHeader
    start: int
    is_beyond: bool


@functools.lru_cache(maxsize=256)
def content_name(rate: int, shape: tuple[int, ...]) -> str:
    """Return the name that gives samples their meaning, for the hash of a record."""
    return array_name(f"{rate} float32", shape)


def audio_references(rows: pa.RecordBatch) -> Iterable[tuple[str, AudioReference]]:
    """Return the key and the file or segment of each row; files in stores are read ahead."""
    names: list[Any] = [batch.KEY, *SOURCE_COLUMNS]
    segmented = FROM in rows.schema.names
    columns = [rows[name].to_pylist() for name in (*names, *((FROM, TO) if segmented else ()))]
    found = []
    for key, path, size, mtime, *segment in zip(*columns, strict=True):
        start, end = segment or (None, None)
        found.append((key, AudioReference(path, size, mtime, start, end)))
    files = [(one.path if one.size <= IN_MEMORY else None, one.size, one.mtime) for _, one in found]
    return read_ahead(found, files)


def read_whole(place: AudioReference, options: AudioOptions) -> Sound:
    """Read, mix, resample and trim the audio of a row; it starts where it does after trimming.

    `Sound.is_beyond` is left to its clips.

    Raises:
      RecordError: it cannot be used.
    """
    samples, header, _ = _read_samples(place, options)
    samples, trimmed = prepare(samples, options, rate=header.rate)
    rate = options.sample_rate or header.rate
    first = _microseconds(place.start) + trimmed * _MICRO // rate
    return Sound(samples, b"", rate, len(samples), first, header.format)


def read_records(
    places: Iterable[AudioReference], options: AudioOptions
) -> Iterator[Sound | RecordError]:
    """Yield the audio of each row, cut or padded to the length of a clip, or why it is rejected.

    Its start is that of the segment, as the listing has it. Several files are read before the first
    is yielded: short ones are resampled together, and each step runs with its code in the cache.
    """
    if options.features == "encoded":
        yield from (_result(_read_encoded, place, options) for place in places)
        return
    waiting: list[_Decoded | RecordError] = []
    least = _UNCHANGED if options.features == "waveform" else _TOGETHER
    values, most = 0, least
    for place in places:
        one = _result(_decode, place, options)
        waiting.append(one)
        if not isinstance(one, RecordError):
            values += one.samples.size
            most = _TOGETHER if one.joins_others else most
        if len(waiting) >= most or values > _MOST_WAITING:
            yield from _finish(waiting, options)
            waiting, values, most = [], 0, least
    yield from _finish(waiting, options)


def _result(
    read: Callable[[AudioReference, AudioOptions], T], place: AudioReference, options: AudioOptions
) -> T | RecordError:
    try:
        return read(place, options)
    except RecordError as error:
        return error


def _decode(place: AudioReference, options: AudioOptions) -> _Decoded:
    """Return the mixed samples of a row; they are resampled if they need not wait for others."""
    samples, header, are_floats = _read_samples(place, options)
    is_beyond = are_floats and is_far_beyond(samples)
    samples = mix(samples, options, rate=header.rate)
    joins = options.resamples(header.rate) and joins_others(samples)
    if options.resamples(header.rate) and not joins:
        samples = resample(samples, header.rate, options.sample_rate or header.rate)
    return _Decoded(samples, joins, header, _microseconds(place.start), is_beyond)


def _finish(
    decoded: Sequence[_Decoded | RecordError], options: AudioOptions
) -> Iterator[Sound | RecordError]:
    """Resample the waveforms that waited, and yield the sounds of all rows."""
    waited = [one for one in decoded if isinstance(one, _Decoded) and one.joins_others]
    rates = [one.header.rate for one in waited]
    samples = [one.samples for one in waited]
    resampled = iter(resample_all(samples, rates, options.sample_rate or 0))
    for one in decoded:
        if isinstance(one, _Decoded) and one.joins_others:
            yield _sound(one._replace(samples=next(resampled)), options)
        else:
            yield _sound(one, options)


def _sound(decoded: _Decoded | RecordError, options: AudioOptions) -> Sound | RecordError:
    """Return the trimmed and cut sound of resampled samples; errors are returned unchanged."""
    if isinstance(decoded, RecordError):
        return decoded
    samples, _, header, start, is_beyond = decoded
    try:
        samples, _ = trim(samples, options)
    except RecordError as error:
        return error
    samples, real = fit(samples, options.clip_samples, options.clip_mode)
    rate = options.sample_rate or header.rate
    return Sound(samples, b"", rate, real, start, header.format, is_beyond)


def _read_samples(
    place: AudioReference, options: AudioOptions
) -> tuple[npt.NDArray[np.float32], AudioHeader, bool]:
    """Return the samples of a row, the header of its file, and whether that stores floats."""
    path, size, mtime, start, end = place
    with open_audio(path, size=size, mtime=mtime) as file:
        samples = read_segment(file, start, end, max_seconds=options.max_seconds)
        return samples, file.header, file.may_be_nan


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
    """Check that rejects files that are not audio, empty or too long, judged by their headers.

    Args:
      options: Options of the encoder.
    """

    options: AudioOptions

    @property
    def source_columns(self) -> tuple[str, ...]:
        """Names of the columns that identify a file."""
        return SOURCE_COLUMNS

    def check(self, rows: pa.RecordBatch) -> RowOutcome:
        """Read the header of every file."""
        return _read_headers(rows, self.options, check_beginning)[0]


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
