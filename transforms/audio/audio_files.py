"""Open audio files: their headers, and the samples of segments."""

from __future__ import annotations

import hashlib
import math
from typing import NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from recordmill.errors import Reason, RecordError
from recordmill.transforms.audio.audio_options import LEAST_RATE, MOST_RATE, MOST_VALUES

Floats = npt.NDArray[np.float32]

_LATE = 1.0  # seconds that a segment may extend past the end of its file, for rounding
_EXACT_BITS = 24  # of integers that float32 holds
_FAR_BEYOND = 2.0  # times the full scale; decoders of lossy formats exceed it by less


class SampleDigest(NamedTuple):
    """MD5 of all samples as little-endian integers of whole bytes. bits: of a sample."""

    md5: bytes
    bits: int

    def check(self, samples: Floats) -> None:
        """Compare the samples of a whole file, float32[n, channels], with the digest.

        Integers of more than 24 bits are not compared, because float32 does not hold them exactly.

        Raises:
          RecordError: they differ.
        """
        if self.bits > _EXACT_BITS:
            return
        levels = np.rint(samples * np.float32(1 << self.bits - 1)).astype("<i4")
        size = -(-self.bits // 8)
        if size == 3:
            stored = np.ascontiguousarray(levels).view(np.uint8).reshape(*levels.shape, 4)[..., :3]
        else:
            stored = levels.astype(f"<i{size}")
        if hashlib.md5(stored.tobytes(), usedforsecurity=False).digest() != self.md5:
            raise RecordError(
                Reason.CORRUPT, "its samples do not match the MD5 in its header: it is damaged"
            )


class AudioHeader(NamedTuple):
    """Header of an audio file.

    format: name, such as `wav`. rate: samples per second. frames: samples per channel; None if the
    header does not state them exactly. digest: of the samples; None if it states none.
    """

    format: str
    rate: int
    channels: int
    frames: int | None
    digest: SampleDigest | None = None


class AudioFile(Protocol):
    """An open audio file; a context manager.

    may_be_nan: whether its samples are stored as floating-point numbers.
    """

    header: AudioHeader
    may_be_nan: bool

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def frames(self, start: int, stop: int) -> Floats:
        """Return float32[n, channels] in [-1, 1], with n less than stop - start at the end.

        Raises:
          RecordError: the file is damaged.
          StorageError: it could not be read.
        """


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
    if header.digest is not None and len(samples) == header.frames:
        header.digest.check(samples)
    if header.format == "flac" and header.frames is not None and stop < header.frames:
        file.frames(header.frames - 1, header.frames)  # other formats show by their headers
    if len(samples) > limit:
        raise _too_long(max_seconds)
    if end is not None and len(samples) < stop - first - _LATE * rate:
        length = (first + len(samples)) / rate
        raise RecordError(
            Reason.BAD_VALUE, f"{_segment(start, end)}, but the file takes {length:.3f}"
        )
    if not len(samples):
        raise RecordError(Reason.EMPTY, "no samples")
    if file.may_be_nan and not np.isfinite(samples).all():
        count = int((~np.isfinite(samples)).sum())
        raise RecordError(Reason.BAD_VALUE, f"{count} samples are NaN or infinite")
    return samples


def is_far_beyond(samples: Floats) -> bool:
    """Return whether samples, float32[n, channels], are beyond twice the full scale."""
    if not samples.size:
        return False
    return bool(samples.max() > _FAR_BEYOND or samples.min() < -_FAR_BEYOND)


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
    if most * rate * channels > MOST_VALUES and header.frames is not None:
        raise too_large(round(most * rate), channels)


def _segment(start: float | None, end: float | None) -> str:
    low = 0.0 if start is None else start
    return f"a segment from {low:g} to {'the end' if end is None else f'{end:g} seconds'}"


def _too_long(max_seconds: float, seconds: float | None = None) -> RecordError:
    what = f"more than {max_seconds:g}" if seconds is None else f"{seconds:.3f}"
    return RecordError(
        Reason.TOO_LARGE, f"it takes {what} seconds, more than --max-seconds {max_seconds:g} allows"
    )


def too_large(frames: int, channels: int) -> RecordError:
    """Return the error for samples that would take too much memory."""
    return RecordError(
        Reason.TOO_LARGE,
        f"{frames} samples of {channels} channels, more than {MOST_VALUES} in all",
    )
