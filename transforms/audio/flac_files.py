"""Short 16-bit FLAC files, decoded by FFmpeg.

For a file of one second, libsndfile takes 44 microseconds more than FFmpeg, for its start and for
copies of samples. Whatever is unusual or damaged is left to libsndfile, so that outcomes are the
same.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Self

import numpy as np

from recordmill.optional_packages import import_package
from recordmill.transforms.audio.audio_files import AudioFile, AudioHeader, Floats
from recordmill.transforms.audio.audio_structure import (
    RangeReader,
    find_flac_frames,
    read_flac_layout,
)

_BITS = 16
_LEVEL = np.float32(1 / 32768)  # of 16-bit samples
_LEAST_FRAME = 10  # bytes of a FLAC frame, at least
_MOST_BYTES = 128 << 20  # of all samples, even if a hostile file holds as many frames as fit


@functools.cache
def pyav() -> Any:
    """Return the FFmpeg package, PyAV. Raises ConfigError if it is not installed."""
    return import_package("av", extra="audio", needed_for="reading audio")


def open_short_flac(
    file: RangeReader, *, size: int, open_other: Callable[[], AudioFile]
) -> AudioFile | None:
    """Return a short FLAC file that FFmpeg can decode; None for other files.

    size: of the file in bytes. open_other: opens the file with libsndfile.
    """
    layout = read_flac_layout(file)
    if layout is None or layout.bits != _BITS or layout.header.frames is None:
        return None
    most = max(layout.header.frames, size // _LEAST_FRAME * layout.most_samples)
    if most * layout.header.channels * _BITS // 8 > _MOST_BYTES:
        return None
    data = file.read_at(0, size)
    offset = find_flac_frames(data)
    if offset is None:
        return None
    return _ShortFlacFile(layout.header, layout.stream_info, data[offset:], open_other)


class _ShortFlacFile:
    """A FLAC file in memory. data: its frames."""

    may_be_nan = False

    def __init__(
        self,
        header: AudioHeader,
        stream_info: bytes,
        data: memoryview,
        open_other: Callable[[], AudioFile],
    ) -> None:
        self.header = header
        self._stream_info, self._data, self._open_other = stream_info, data, open_other
        self._other: AudioFile | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._data.release()
        if self._other is not None:
            self._other.__exit__()

    def frames(self, start: int, stop: int) -> Floats:
        if self._samples is not None:
            return self._samples[start:stop]
        if self._other is None:
            self._other = self._open_other()
        return self._other.frames(start, stop)

    @functools.cached_property
    def _samples(self) -> Floats | None:
        """All samples, float32[n, channels]; None unless every frame is intact."""
        av = pyav()
        codec = av.CodecContext.create("flac", "r")
        codec.extradata = self._stream_info
        codec.thread_count = 1
        codec.options = {"err_detect": "crccheck+explode"}
        try:
            frames = codec.decode(av.Packet(self._data))
        except av.FFmpegError:
            return None
        rate, channels, count = self.header.rate, self.header.channels, self.header.frames
        assert count is not None
        samples = np.empty((count, channels), np.float32)
        at = 0
        for frame in frames:
            size = frame.samples
            described = (frame.format.name, frame.sample_rate, frame.layout.nb_channels)
            if described != ("s16", rate, channels) or at + size > count:
                return None
            values = np.frombuffer(frame.planes[0], np.int16, size * channels)
            target = samples[at : at + size]
            np.multiply(values.reshape(-1, channels), _LEVEL, out=target, dtype=np.float32)
            at += size
        return samples if at == count else None
