"""Decoders of audio files: NumPy (most WAV), libsndfile (FLAC, Ogg, AIFF, ...), FFmpeg (others).

The content of a file decides its format. libsndfile takes half the time of FFmpeg, but conceals
damage in MP3. Formats and protocols of FFmpeg are restricted, so that a file (such as a playlist)
cannot open other files.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import io
import re
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from recordmill.errors import Reason, RecordError
from recordmill.optional_packages import import_package
from recordmill.storage.decoder_stream import DecoderStream
from recordmill.storage.input_files import read_file
from recordmill.transforms.audio.audio_files import (
    AudioFile,
    AudioHeader,
    Floats,
    too_large,
)
from recordmill.transforms.audio.audio_options import MOST_VALUES
from recordmill.transforms.audio.audio_structure import (
    PcmLayout,
    check_declared_size,
    check_ogg,
    read_flac_layout,
    read_wav_layout,
)
from recordmill.transforms.audio.flac_files import open_short_flac, pyav

_IN_MEMORY = 4 << 20  # bytes of a file that is read at once
_HEAD = 16  # bytes that identify a format
_MOST_FRAMES = 1 << 48  # libsndfile's number for an unknown length is larger
_BUFFER = 1 << 18  # bytes that FFmpeg reads at once
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
_INT16 = np.float32(1 / 32768)  # a level of 16-bit samples
_NAMES = {"mov": "mp4", "matroska": "webm"}  # of formats, by FFmpeg's first name
# Divisors and offsets of integers, by the names of FFmpeg's sample formats.
_INTEGERS = {"u8": (128.0, 128), "s16": (32768.0, 0), "s32": (2147483648.0, 0)}


class _FileInMemory(io.BytesIO):
    """A small file. A seek before its beginning, which damaged files ask for, is ignored."""

    def __init__(self, data: bytes) -> None:
        super().__init__(data)
        self._view = memoryview(data)

    def read_at(self, offset: int, size: int) -> memoryview:
        return self._view[offset : offset + size]

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except ValueError:
            return self.tell()


class _FileInRanges(DecoderStream):
    """A large file. A seek before its beginning is ignored."""

    def read_at(self, offset: int, size: int) -> memoryview:
        super().seek(offset)
        return memoryview(self.read(size))

    def seek(self, offset: int, whence: int = 0) -> int:
        try:
            return super().seek(offset, whence)
        except OSError as error:
            if error.errno != errno.EINVAL:
                raise
            return self.tell()


_Stream = _FileInMemory | _FileInRanges


def open_audio(path: str, *, size: int, mtime: int) -> AudioFile:
    """Open an audio file.

    path, size, mtime: as for `input_files.open_file`.

    Raises:
      ChangedInputError: the file has changed since it was listed.
      RecordError: it is not an audio file, or its header is damaged.
      StorageError: it could not be read.
    """
    stream = _open_stream(path, size=size, mtime=mtime)
    try:
        return _open(stream, size=size, short_flac=isinstance(stream, _FileInMemory))
    except BaseException:
        stream.close()
        raise


def read_header(path: str, *, size: int, mtime: int) -> AudioHeader:
    """Return the header of an audio file.

    The header of a FLAC file is not read by libsndfile, because it also decodes the first samples.
    Arguments and errors are those of `open_audio`; some damage remains unnoticed.
    """
    with contextlib.closing(_open_stream(path, size=size, mtime=mtime)) as stream:
        layout = read_flac_layout(stream)
        if layout is not None:
            return layout.header
        with _open(stream, size=size) as file:
            return file.header


def check_beginning(path: str, *, size: int, mtime: int) -> AudioHeader:
    """Return the header of an audio file whose decoder accepts its beginning.

    Arguments and errors are those of `open_audio`.
    """
    stream = _open_stream(path, size=size, mtime=mtime)
    with contextlib.closing(stream), _open(stream, size=size) as file:
        return file.header


def _open_stream(path: str, *, size: int, mtime: int) -> _Stream:
    if size <= _IN_MEMORY:
        return _FileInMemory(read_file(path, size=size, mtime=mtime))
    return _FileInRanges(path, size=size, mtime=mtime)


def _open(stream: _Stream, *, size: int, short_flac: bool = False) -> AudioFile:
    """Open a file with the decoder of its format. short_flac: if that is FLAC, try FFmpeg first."""
    head = bytes(stream.read_at(0, _HEAD))
    for signature, name in _SIGNATURES:
        if signature.match(head):
            if name == "wav":
                layout = read_wav_layout(stream, size=size)
                if layout is not None:
                    return _WavFile(stream, layout)
            elif name == "ogg":
                check_ogg(stream, size=size)
            elif name == "flac" and short_flac:
                other = functools.partial(_SoundFile, stream, name)
                flac = open_short_flac(stream, size=size, open_other=other)
                if flac is not None:
                    return flac
            else:
                check_declared_size(stream, name, size=size)
            return _SoundFile(stream, name)
    return _FFmpegFile(stream, size=size, head=head)


def versions() -> dict[str, str]:
    """Return {library: version} of the libraries that decode."""
    soundfile, av = _soundfile(), pyav()
    names = ("libavcodec", "libavformat")
    found = {name: ".".join(map(str, av.library_versions[name])) for name in names}
    return {"libsndfile": soundfile.__libsndfile_version__, "pyav": av.__version__, **found}


@functools.cache
def _soundfile() -> Any:
    return import_package("soundfile", extra="audio", needed_for="reading audio")


class _WavFile:
    """A WAV file of 16-bit or float samples, which libsndfile reads in three times the time."""

    def __init__(self, stream: _Stream, layout: PcmLayout) -> None:
        self._stream, self._layout = stream, layout
        self.may_be_nan = layout.dtype == "<f4"
        self.header = AudioHeader(
            format="wav", rate=layout.rate, channels=layout.channels, frames=layout.frames
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def frames(self, start: int, stop: int) -> Floats:
        layout = self._layout
        count = max(min(stop, layout.frames) - start, 0)
        if count * layout.channels > MOST_VALUES:
            raise too_large(count, layout.channels)
        dtype = np.dtype(layout.dtype)
        block = layout.channels * dtype.itemsize
        data = self._stream.read_at(layout.offset + start * block, count * block)
        _check(self._stream)
        samples = np.frombuffer(data, dtype).astype(np.float32)
        if not self.may_be_nan:
            samples *= _INT16
        return samples.reshape(-1, layout.channels)


class _SoundFile:
    """A file that libsndfile reads."""

    def __init__(self, stream: _Stream, name: str) -> None:
        library = _soundfile()
        self._stream = stream
        self._error = library.LibsndfileError
        if isinstance(stream, DecoderStream):
            stream.name = ""  # libsndfile would take an extension .raw for the format
        layout = read_flac_layout(stream) if name == "flac" else None
        stream.seek(0)
        try:
            self._file = library.SoundFile(stream)
        except self._error as error:
            _check(stream)
            raise RecordError(
                Reason.CORRUPT, f"its {name.upper()} header is damaged, or of an unknown variant"
            ) from error
        frames = self._file.frames
        self.may_be_nan = name != "flac"
        self.header = AudioHeader(
            format=name,
            rate=self._file.samplerate,
            channels=self._file.channels,
            frames=None if frames >= _MOST_FRAMES else frames,
            digest=None if layout is None else layout.header.digest,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._stream.close()

    def frames(self, start: int, stop: int) -> Floats:
        known = self.header.frames
        count = stop - start if known is None else max(min(stop, known) - start, 0)
        if count * self.header.channels > MOST_VALUES:
            if known is not None:
                raise too_large(count, self.header.channels)
            count = MOST_VALUES // self.header.channels
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

    may_be_nan = True

    def __init__(self, stream: _Stream, *, size: int, head: bytes) -> None:
        av = pyav()
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
        # Report broken data as an error instead of concealing it. Some encoders of MP3 write wrong
        # checksums, which cover the headers of frames only.
        checks = "explode" if context.name.startswith("mp3") else "crccheck+explode"
        context.options = {"err_detect": checks}
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
            if (at - start) * channels > MOST_VALUES:
                raise too_large(at - start, channels)
        return np.concatenate(kept) if kept else np.zeros((0, channels), np.float32)

    def _decode(self) -> Iterator[Floats]:
        """Yield the samples, float32[n, channels]. Raises RecordError and StorageError."""
        av = pyav()
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


def _check(stream: _Stream) -> None:
    """Raise StorageError if a read has failed."""
    if isinstance(stream, DecoderStream):
        stream.check()


def _no_index() -> RecordError:
    return RecordError(Reason.TRUNCATED, "an MP4 whose index cannot be read, or was never written")
