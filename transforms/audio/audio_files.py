"""Audio files: headers and samples, through libsndfile (WAV, FLAC, Ogg, AIFF) or FFmpeg (others).

The content of a file decides its format. libsndfile takes half the time of FFmpeg, but conceals
damage in MP3. Formats and protocols of FFmpeg are restricted, so that a file (such as a playlist)
cannot open other files.
"""

from __future__ import annotations

import dataclasses
import io
import math
import re
from collections.abc import Iterator
from typing import Any, Protocol, Self

import numpy as np
import numpy.typing as npt

from recordmill.errors import Reason, RecordError
from recordmill.optional_packages import import_package
from recordmill.storage.decoder_stream import DecoderStream
from recordmill.storage.input_files import read_file
from recordmill.transforms.audio.audio_options import LEAST_RATE, MOST_RATE
from recordmill.transforms.audio.audio_structure import check_not_cut

Floats = npt.NDArray[np.float32]

_IN_MEMORY = 4 << 20  # bytes of a file that is read at once
_HEAD = 16  # bytes that identify a format
_MOST_SAMPLES = 1 << 28  # of all channels: 1 GiB
_MOST_FRAMES = 1 << 48  # libsndfile's number for an unknown length is larger
_BUFFER = 1 << 18  # bytes that FFmpeg reads at once
_LATE = 1.0  # seconds that a segment may extend past the end of its file, for rounding
_SIGNATURES = (
    (re.compile(rb"(RIFF|RIFX|RF64)....WAVE", re.DOTALL), "wav"),
    (re.compile(rb"riff\x2e\x91\xcf\x11"), "w64"),
    (re.compile(rb"FORM....AIF[FC]", re.DOTALL), "aiff"),
    (re.compile(rb"fLaC"), "flac"),
    (re.compile(rb"OggS"), "ogg"),
    (re.compile(rb"\.snd"), "au"),
    (re.compile(rb"caff"), "caf"),
)
# FFmpeg's names of allowed demuxers, none of which opens other files.
_FORMATS = (
    *("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpeg", "flv"),
    *("asf", "mp3", "aac", "amr", "ac3", "eac3", "wv", "ape", "tta", "ogg", "wav", "flac", "aiff"),
)
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(_FORMATS)}
_NAMES = {"mov": "mp4", "matroska": "webm"}  # of formats, by FFmpeg's first name
# Divisors and offsets of integers, by the names of FFmpeg's sample formats.
_INTEGERS = {"u8": (128.0, 128), "s16": (32768.0, 0), "s32": (2147483648.0, 0)}


@dataclasses.dataclass(frozen=True, kw_only=True)
class AudioHeader:
    """Header of an audio file.

    format: name, such as `wav`. rate: samples per second. frames: samples per channel; None if the
    header does not state them exactly.
    """

    format: str
    rate: int
    channels: int
    frames: int | None


class AudioFile(Protocol):
    """An open audio file; a context manager."""

    header: AudioHeader

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def frames(self, start: int, stop: int) -> Floats:
        """Return float32[n, channels] in [-1, 1], with n less than stop - start at the end.

        Raises:
          RecordError: the file is damaged.
          StorageError: it could not be read.
        """


def open_audio(path: str, *, size: int, mtime: int) -> AudioFile:
    """Open an audio file.

    path, size, mtime: as for `input_files.open_file`.

    Raises:
      ChangedInputError: the file has changed since it was listed.
      RecordError: it is not an audio file, or its header is damaged.
      StorageError: it could not be read.
    """
    stream: io.BytesIO | DecoderStream
    if size <= _IN_MEMORY:
        stream = io.BytesIO(read_file(path, size=size, mtime=mtime))
    else:
        stream = DecoderStream(path, size=size, mtime=mtime)
    try:
        head = stream.read(_HEAD)
        for signature, name in _SIGNATURES:
            if signature.match(head):
                check_not_cut(stream, name, size=size)
                return _SoundFile(stream, name)
        return _FFmpegFile(stream, size=size, head=head)
    except BaseException:
        stream.close()
        raise


def read_segment(
    file: AudioFile, start: float | None, end: float | None, *, max_seconds: float
) -> Floats:
    """Return the samples of a segment of a file, float32[n, channels].

    start, end: seconds; None is the beginning or the end of the file.

    Raises:
      RecordError: the segment is invalid, empty or too long, the file is damaged, or a sample is
        not a number.
    """
    header = file.header
    check_header(header, start, end, max_seconds=max_seconds)
    rate = header.rate
    first = 0 if start is None else round(start * rate)
    limit = math.floor(max_seconds * rate)
    stop = first + limit + 1 if end is None else min(round(end * rate), first + limit)
    samples = file.frames(first, stop)
    if len(samples) > limit:
        raise _too_long(max_seconds)
    if end is not None and len(samples) < stop - first - _LATE * rate:
        length = (first + len(samples)) / rate
        raise RecordError(
            Reason.BAD_VALUE, f"{_segment(start, end)}, but the file takes {length:.3f}"
        )
    if not len(samples):
        raise RecordError(Reason.EMPTY, "no samples")
    if not np.isfinite(samples).all():
        count = int((~np.isfinite(samples)).sum())
        raise RecordError(Reason.BAD_VALUE, f"{count} samples are NaN or infinite")
    return samples


def check_header(
    header: AudioHeader, start: float | None, end: float | None, *, max_seconds: float
) -> None:
    """Check a segment of a file by the header.

    start, end: seconds; None is the beginning or the end of the file.

    Raises:
      RecordError: the file cannot be used, or the segment is invalid or too long.
    """
    rate, channels = header.rate, header.channels
    if not channels or not rate:
        raise RecordError(
            Reason.CORRUPT, f"its header declares {channels} channels and a sample rate of {rate}"
        )
    if not LEAST_RATE <= rate <= MOST_RATE:
        raise RecordError(
            Reason.UNSUPPORTED, f"a sample rate of {rate}: expected {LEAST_RATE} to {MOST_RATE}"
        )
    low = 0.0 if start is None else start
    length = math.inf if header.frames is None else header.frames / rate
    if header.frames == 0:
        raise RecordError(Reason.EMPTY, "no samples")
    if start is not None or end is not None:
        if not 0 <= low < math.inf or (end is not None and not low < end < math.inf):
            raise RecordError(
                Reason.BAD_VALUE,
                f"{_segment(start, end)}: expected a start of 0 or more, and a later end",
            )
        if low >= length or (end is not None and end > length + _LATE):
            raise RecordError(
                Reason.BAD_VALUE, f"{_segment(start, end)}, but the file takes {length:.3f}"
            )
    high = length if end is None else min(end, length)
    if header.frames is not None and high - low > max_seconds:
        raise _too_long(max_seconds, high - low)
    if end is not None and header.frames is None and end - low > max_seconds:
        raise _too_long(max_seconds, end - low)
    most = max_seconds if high == math.inf else high - low
    if most * rate * channels > _MOST_SAMPLES and header.frames is not None:
        raise _too_large(round(most * rate), channels)


def versions() -> dict[str, str]:
    """Return {library: version} of the libraries that decode."""
    soundfile, av = _soundfile(), _pyav()
    names = ("libavcodec", "libavformat")
    found = {name: ".".join(map(str, av.library_versions[name])) for name in names}
    return {"libsndfile": soundfile.__libsndfile_version__, "pyav": av.__version__, **found}


def _soundfile() -> Any:
    return import_package("soundfile", extra="audio", needed_for="reading audio")


def _pyav() -> Any:
    return import_package("av", extra="audio", needed_for="reading audio")


class _SoundFile:
    """A file that libsndfile reads."""

    def __init__(self, stream: io.BytesIO | DecoderStream, name: str) -> None:
        library = _soundfile()
        self._stream = stream
        self._error = library.LibsndfileError
        if isinstance(stream, DecoderStream):
            stream.name = ""  # libsndfile would take an extension .raw for the format
        stream.seek(0)
        try:
            self._file = library.SoundFile(stream)
        except self._error as error:
            _check(stream)
            raise RecordError(
                Reason.CORRUPT, f"its {name.upper()} header is damaged, or of an unknown variant"
            ) from error
        frames = self._file.frames
        self.header = AudioHeader(
            format=name,
            rate=self._file.samplerate,
            channels=self._file.channels,
            frames=None if frames >= _MOST_FRAMES else frames,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._stream.close()

    def frames(self, start: int, stop: int) -> Floats:
        known = self.header.frames
        count = stop - start if known is None else max(min(stop, known) - start, 0)
        if count * self.header.channels > _MOST_SAMPLES:
            if known is not None:
                raise _too_large(count, self.header.channels)
            count = _MOST_SAMPLES // self.header.channels
        try:
            if start:
                self._file.seek(start)
            samples: Floats = self._file.read(count, dtype="float32", always_2d=True)
        except (self._error, MemoryError) as error:
            _check(self._stream)
            raise RecordError(
                Reason.CORRUPT, "its samples cannot be decoded: it is damaged, or ends early"
            ) from error
        _check(self._stream)
        if known is not None and len(samples) < count:
            raise RecordError(
                Reason.TRUNCATED,
                f"it ends after {start + len(samples)} samples, but its header declares {known}",
            )
        return samples


class _FFmpegFile:
    """A file that FFmpeg reads."""

    def __init__(self, stream: io.BytesIO | DecoderStream, *, size: int, head: bytes) -> None:
        av = _pyav()
        self._stream = stream
        stream.seek(0)
        try:
            self._container = av.open(
                stream, options=_OPTIONS, metadata_errors="ignore", buffer_size=_BUFFER
            )
        except av.FFmpegError as error:
            _check(stream)
            if head[4:8] == b"ftyp":
                raise _no_index() from error
            raise RecordError(
                Reason.UNSUPPORTED, "not audio: the format is unknown or not allowed"
            ) from error
        try:
            _check(stream)
            streams = self._container.streams
            if head[4:8] == b"ftyp" and not streams.audio and not streams.video:
                raise _no_index()
            self._find(size)
        except BaseException:
            self._container.close()
            raise

    def _find(self, size: int) -> None:
        """Find the audio stream. Raises RecordError if it cannot be read."""
        if not self._container.streams.audio:
            raise RecordError(Reason.UNSUPPORTED, "no audio stream")
        self._audio = self._container.streams.audio[0]
        context = self._audio.codec_context
        if context is None:
            raise RecordError(Reason.UNSUPPORTED, "FFmpeg has no decoder for its audio stream")
        context.thread_type = "NONE"  # parallelism is across files
        context.thread_count = 1
        # Report broken data as an error instead of concealing it.
        context.options = {"err_detect": "explode"}
        form = self._container.format.name.partition(",")[0]
        if form == "mov":
            missing = sum(one.pos + one.size > size for one in self._audio.index_entries)
            if missing:
                raise RecordError(
                    Reason.TRUNCATED, f"{missing} packets that its index names are missing"
                )
        self.header = AudioHeader(
            format=_NAMES.get(form, form),
            rate=context.sample_rate or 0,
            channels=context.channels or 0,
            frames=None,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()
        self._stream.close()

    def frames(self, start: int, stop: int) -> Floats:
        channels = self.header.channels
        kept: list[Floats] = []
        at = 0
        for block in self._decode():
            if at + len(block) > start:
                kept.append(block[max(start - at, 0) : stop - at])
            at += len(block)
            if at >= stop:
                break
            if (at - start) * channels > _MOST_SAMPLES:
                raise _too_large(at - start, channels)
        return np.concatenate(kept) if kept else np.zeros((0, channels), np.float32)

    def _decode(self) -> Iterator[Floats]:
        """Yield the samples, float32[n, channels]. Raises RecordError and StorageError."""
        av = _pyav()
        header = self.header
        frames = self._container.decode(self._audio)
        while True:
            try:
                frame = next(frames)
            except (StopIteration, av.EOFError):
                _check(self._stream)
                return
            except av.FFmpegError as error:
                _check(self._stream)
                raise RecordError(
                    Reason.CORRUPT, "a part of its audio cannot be decoded"
                ) from error
            if (frame.sample_rate, len(frame.layout.channels)) != (header.rate, header.channels):
                raise RecordError(
                    Reason.UNSUPPORTED, "its sample rate or its channels change in the file"
                )
            values = frame.to_ndarray()
            block = values.T if frame.format.is_planar else values.reshape(-1, header.channels)
            integers = _INTEGERS.get(frame.format.name.removesuffix("p"))
            if integers is not None:
                divisor, offset = integers
                yield ((block.astype(np.float64) - offset) / divisor).astype(np.float32)
            else:
                yield block.astype(np.float32)


def _check(stream: io.BytesIO | DecoderStream) -> None:
    """Raise StorageError if a read has failed."""
    if isinstance(stream, DecoderStream):
        stream.check()


def _no_index() -> RecordError:
    return RecordError(Reason.TRUNCATED, "an MP4 whose index cannot be read, or was never written")


def _segment(start: float | None, end: float | None) -> str:
    low = 0.0 if start is None else start
    return f"a segment from {low:g} to {'the end' if end is None else f'{end:g} seconds'}"


def _too_long(max_seconds: float, seconds: float | None = None) -> RecordError:
    what = f"more than {max_seconds:g}" if seconds is None else f"{seconds:.3f}"
    return RecordError(
        Reason.TOO_LARGE, f"it takes {what} seconds, more than --max-seconds {max_seconds:g} allows"
    )


def _too_large(frames: int, channels: int) -> RecordError:
    return RecordError(
        Reason.TOO_LARGE,
        f"{frames} samples of {channels} channels, more than {_MOST_SAMPLES} in all",
    )
