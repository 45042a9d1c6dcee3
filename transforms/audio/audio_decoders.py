"""Decoders of audio files: NumPy (most WAV), libsndfile (FLAC, Ogg, AIFF, ...), FFmpeg (others).

The content of a file decides its format. libsndfile takes half the time of FFmpeg, but conceals
damage in MP3, and supports few of the codecs that these containers may hold: FFmpeg decodes the
others, and MP3 in every container. Formats and protocols of FFmpeg are restricted, so that a file
(such as a playlist) cannot open other files.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Iterator
from typing import Any, Self

import numpy as np

from recordmill.errors import Reason, RecordError
from recordmill.format import file_content
from recordmill.optional_packages import import_package
from recordmill.storage.decoder_stream import DecoderStream
from recordmill.transforms.audio.audio_files import (
    AudioFile,
    AudioHeader,
    Floats,
    too_large,
)
from recordmill.transforms.audio.audio_options import MOST_VALUES
from recordmill.transforms.audio.audio_streams import AudioStream, FileInMemory, open_stream
from recordmill.transforms.audio.audio_structure import (
    HEAD,
    PcmLayout,
    check_declared_size,
    check_ogg,
    parse_flac_layout,
    read_flac_layout,
    read_packet_table,
    read_wav_layout,
    recognize_format,
)
from recordmill.transforms.audio.flac_files import open_short_flac, pyav
from recordmill.transforms.audio.mpeg_frames import check_mpeg_end

_MOST_FRAMES = 1 << 48  # libsndfile's number for an unknown length is larger
_SKIPPED = 1 << 16  # samples that are decoded at once before a segment
_BUFFER = 1 << 18  # bytes that FFmpeg reads at once
# FFmpeg's names of allowed demuxers, none of which opens other files.
_FORMATS = (
    *("mov", "mp4", "m4a", "3gp", "3g2", "mj2", "matroska", "webm", "avi", "mpegts", "mpeg", "flv"),
    *("asf", "mp3", "aac", "amr", "ac3", "eac3", "wv", "ape", "tta", "ogg", "wav", "flac", "aiff"),
    *("au", "caf", "w64"),
)
_OPTIONS = {"protocol_whitelist": "file", "format_whitelist": ",".join(_FORMATS)}
_INT16 = np.float32(1 / 32768)  # a level of 16-bit samples
_FLAC_START = b"fLaC\0\0\0\x22"  # before the block STREAMINFO; FFmpeg's extradata lacks it
_NAMES = {"mov": "mp4", "matroska": "webm"}  # of formats, by FFmpeg's first name
# Divisors and offsets of integers, by the names of FFmpeg's sample formats.
_INTEGERS = {"u8": (128.0, 128), "s16": (32768.0, 0), "s32": (2147483648.0, 0)}


def open_audio(path: str, *, size: int, mtime: int) -> AudioFile:
    """Open an audio file.

    path, size, mtime: as for `input_files.open_file`.

    Raises:
      ChangedInputError: the file has changed since it was listed.
      RecordError: it is not an audio file, or its header is damaged.
      StorageError: it could not be read.
    """
    stream = open_stream(path, size=size, mtime=mtime)
    try:
        return _open(stream, size=size, short_flac=isinstance(stream, FileInMemory))
    except BaseException:
        stream.close()
        raise


def read_header(path: str, *, size: int, mtime: int) -> AudioHeader:
    """Return the header of an audio file.

    The header of a FLAC file is not read by libsndfile, because it also decodes the first samples.
    Arguments and errors are those of `open_audio`; some damage remains unnoticed.
    """
    with contextlib.closing(open_stream(path, size=size, mtime=mtime)) as stream:
        layout = read_flac_layout(stream)
        if layout is not None:
            return layout.header
        with _open(stream, size=size) as file:
            return file.header


def check_beginning(path: str, *, size: int, mtime: int) -> AudioHeader:
    """Return the header of an audio file whose decoder accepts its beginning.

    Arguments and errors are those of `open_audio`.
    """
    stream = open_stream(path, size=size, mtime=mtime)
    with contextlib.closing(stream), _open(stream, size=size) as file:
        return file.header


def _open(stream: AudioStream, *, size: int, short_flac: bool = False) -> AudioFile:
    """Open a file with the decoder of its format. short_flac: if that is FLAC, try FFmpeg first."""
    head = bytes(stream.read_at(0, HEAD))
    name = recognize_format(head)
    if name is None:
        is_mp4 = head[4:8] == b"ftyp"
        return _FFmpegFile(stream, size=size, open_error=_no_index() if is_mp4 else None)
    if name == "wav":
        layout = read_wav_layout(stream, size=size)
        if layout is not None:
            return _WavFile(stream, layout)
    elif name == "ogg":
        check_ogg(stream, size=size)
    elif name != "flac":
        check_declared_size(stream, name, size=size)
    elif short_flac:
        other = functools.partial(_open_known, stream, name, size=size)
        flac = open_short_flac(stream, size=size, open_other=other)
        if flac is not None:
            return flac
    return _open_known(stream, name, size=size)


def _open_known(stream: AudioStream, name: str, *, size: int) -> AudioFile:
    """Open a file with libsndfile, or with FFmpeg if libsndfile does not support its codec."""
    try:
        file = _SoundFile(stream, name)
    except RecordError as refused:
        return _FFmpegFile(stream, size=size, open_error=refused, name=name)
    if not file.is_mpeg:
        return file
    file.close_decoder()
    return _FFmpegFile(stream, size=size, name=name)


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

    def __init__(self, stream: AudioStream, layout: PcmLayout) -> None:
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
        samples = np.frombuffer(data, dtype).astype(np.float32)
        if not self.may_be_nan:
            samples *= _INT16
        return samples.reshape(-1, layout.channels)


class _SoundFile:
    """A file that libsndfile reads."""

    def __init__(self, stream: AudioStream, name: str) -> None:
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
            stream.check()
            raise RecordError(
                Reason.CORRUPT, f"its {name.upper()} header is damaged, or of an unknown variant"
            ) from error
        frames = self._file.frames
        self.is_mpeg = self._file.subtype.startswith("MPEG")
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
        self.close_decoder()
        self._stream.close()

    def close_decoder(self) -> None:
        """Close the decoder, but not the stream."""
        self._file.close()

    def frames(self, start: int, stop: int) -> Floats:
        known = self.header.frames
        count = stop - start if known is None else max(min(stop, known) - start, 0)
        if count * self.header.channels > MOST_VALUES:
            if known is not None:
                raise too_large(count, self.header.channels)
            count = MOST_VALUES // self.header.channels
        try:
            if start and self._file.seekable():
                self._file.seek(start)
            else:  # GSM 6.10, G.721, G.723 and NMS ADPCM are decoded from the beginning
                for at in range(0, start, _SKIPPED):
                    self._file.read(min(_SKIPPED, start - at), dtype="float32")
            samples: Floats = self._file.read(count, dtype="float32", always_2d=True)
        except (self._error, MemoryError) as error:
            self._stream.check()
            raise RecordError(
                Reason.CORRUPT, "its samples cannot be decoded: it is damaged, or ends early"
            ) from error
        self._stream.check()
        if known is not None and len(samples) < count:
            raise _ends_early(start + len(samples), known)
        return samples


class _FFmpegFile:
    """A file that FFmpeg reads."""

    may_be_nan = True

    def __init__(
        self,
        stream: AudioStream,
        *,
        size: int,
        open_error: RecordError | None = None,
        name: str | None = None,
    ) -> None:
        """Open a file.

        Args:
          stream: Content of the file.
          size: Bytes in the file.
          open_error: Error if FFmpeg does not open the file; by default its content is named.
          name: Format of the file, if known.
        """
        av = pyav()
        self._stream = stream
        self._packets = read_packet_table(stream, size=size) if name == "caf" else None
        self._first = 0 if self._packets is None else self._packets.first
        self._is_begun = False
        stream.seek(0)
        try:
            self._container = av.open(
                stream, options=_OPTIONS, metadata_errors="ignore", buffer_size=_BUFFER
            )
        except av.FFmpegError as error:
            stream.check()
            head = bytes(stream.read_at(0, file_content.HEAD))
            raise (open_error or file_content.unknown_media("audio", head)) from error
        try:
            stream.check()
            streams = self._container.streams
            empty = not streams.audio and not streams.video
            if empty and open_error is not None and open_error.reason is Reason.TRUNCATED:
                raise open_error
            self._find(size, name)
        except BaseException:
            self._container.close()
            raise

    def _find(self, size: int, name: str | None) -> None:
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
        options = {"err_detect": checks}
        form = self._container.format.name.partition(",")[0]
        if form == "mov":
            missing = sum(one.pos + one.size > size for one in self._audio.index_entries)
            if missing:
                raise RecordError(
                    Reason.TRUNCATED, f"{missing} packets that its index names are missing"
                )
        if form == "mp3":
            place = self._stream.tell()  # FFmpeg goes on reading there
            check_mpeg_end(self._stream, size=size)
            self._stream.seek(place)
        frames = digest = None
        if form == "flac":
            layout = parse_flac_layout(_FLAC_START + (context.extradata or b""))
            frames, digest = layout.header[3:] if layout is not None else (None, None)
        elif self._packets is not None:  # FFmpeg would drop the end of ALAC twice
            frames = self._packets.frames
            options["flags2"] = "skip_manual"
        context.options = options
        self.header = AudioHeader(
            format=name or _NAMES.get(form, form),
            rate=context.sample_rate or 0,
            channels=context.channels or 0,
            frames=frames,
            digest=digest,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._container.close()
        self._stream.close()

    def frames(self, start: int, stop: int) -> Floats:
        channels, known = self.header.channels, self.header.frames
        kept: list[Floats] = []
        stop = stop if known is None else min(stop, known)
        at = -self._first
        for block in self._decode():
            if at + len(block) > start:
                kept.append(block[max(start - at, 0) : stop - at])
            at += len(block)
            if at >= stop:
                break
            if (at - start) * channels > MOST_VALUES:
                raise too_large(at - start, channels)
        if known is not None and at < stop:
            raise _ends_early(at, known)
        if at == -self._first and self._audio.duration:
            raise RecordError(
                Reason.TRUNCATED, "its header declares audio, but no sample can be decoded"
            )
        return np.concatenate(kept) if kept else np.zeros((0, channels), np.float32)

    def _decode(self) -> Iterator[Floats]:
        """Yield the samples, float32[n, channels]. Raises RecordError and StorageError."""
        av = pyav()
        header = self.header
        if self._is_begun:
            self._container.seek(0, stream=self._audio)
        self._is_begun = True
        frames = self._container.decode(self._audio)
        while True:
            try:
                frame = next(frames)
            except (StopIteration, av.EOFError):
                self._stream.check()
                return
            except av.FFmpegError as error:
                self._stream.check()
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


def _ends_early(frames: int, declared: int) -> RecordError:
    return RecordError(
        Reason.TRUNCATED, f"it ends after {frames} samples, but its header declares {declared}"
    )


def _no_index() -> RecordError:
    return RecordError(Reason.TRUNCATED, "an MP4 whose index cannot be read, or was never written")
