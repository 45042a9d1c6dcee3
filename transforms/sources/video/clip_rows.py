"""Rows of clips, which reference their encoded frames in staged files.

Frames are large, and clips may overlap. A staged file holds each frame once, and a row holds the
offsets of its frames. So clips are shuffled as references, like images, and the frames are read
when shards are written.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from recordmill.errors import Reason, RecordError
from recordmill.storage.files import Location
from recordmill.storage.input_files import damaged_staging
from recordmill.storage.storage_errors import MissingError
from recordmill.transforms.model import batch
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.splitters.collector import Collector
from recordmill.transforms.sources.video.clip_plan import Clip
from recordmill.transforms.sources.video.frame_encoder import EncodedFrame
from recordmill.transforms.staged.mapped_files import read_ahead, read_or_take

STARTS = "__starts__"  # lists of int64: offset of each frame in the staged file
LENGTHS = "__lengths__"  # lists of int64: bytes of each frame
TIMES = "__times__"  # list of int64: microseconds from the beginning of the video
END = "__end__"  # int64: end of the last frame in microseconds
OWN = "__own__"  # int64: number of frames without padding
HEIGHT, WIDTH = "__height__", "__width__"  # int64: pixels
RATE = "__rate__"  # float64: frames of a clip per second

_MICRO = 10**6


def clip_fields(frames: int) -> list[pa.Field]:
    """Return the columns of clips, in the order of `ClipCollector`. frames: number per clip."""
    lists = pa.list_(pa.int64(), frames)
    return [
        *(pa.field(name, lists) for name in (STARTS, LENGTHS, TIMES)),
        pa.field(batch.CONTENT, pa.binary(16)),
        *(pa.field(name, pa.int64()) for name in (batch.SIZE, END, OWN, HEIGHT, WIDTH)),
        pa.field(RATE, pa.float64()),
    ]


class _Stored(NamedTuple):
    """Place of a frame in the staged file, and its hash."""

    offset: int
    size: int
    digest: int


@dataclasses.dataclass(kw_only=True)
class ClipCollector(Collector):
    """Collects clips of videos; a part holds each frame once. max_bytes: limit for a clip."""

    max_bytes: int
    _last: tuple[int, int] = (-1, -1)  # row and first slot of the clip added last
    # {(row, frame number in the video): its place}
    _frames: dict[tuple[int, int], _Stored] = dataclasses.field(default_factory=dict)

    def add_clip(
        self,
        row: int,
        clip: Clip,
        frames: Sequence[EncodedFrame | RecordError],
        *,
        rate: Fraction,
        counts: int,
    ) -> None:
        """Add a clip of the video of a row. A clip with a broken frame is rejected.

        Clips are added in order. A clip that was added before is ignored, so that a video can be
        decoded again.

        rate: frames per second. counts: number of inputs that the row counts as.
        """
        if (row, clip.start) <= self._last:
            return
        self.count_inputs(counts if row > self._last[0] else 0)
        self._last = row, clip.start
        coded = []
        for frame in frames:
            if isinstance(frame, RecordError):
                self.reject(row, frame, clip.start)
                return
            coded.append(frame)
        size = sum(len(frame.data) for frame in coded)
        if size > self.max_bytes:
            what = f"a clip of {size} bytes, more than --max-clip-bytes {self.max_bytes}"
            self.reject(row, RecordError(Reason.TOO_LARGE, what), clip.start)
            return
        (height, width), *others = {(frame.height, frame.width) for frame in coded}
        if others:
            what = "the video changes its size within the clip: pass --size"
            self.reject(row, RecordError(Reason.BAD_VALUE, what), clip.start)
            return
        numbers = clip.frames.tolist()
        places = [self._place((row, n), f) for n, f in zip(numbers, coded, strict=True)]
        starts, sizes, digests = zip(*places, strict=True)
        # The last frame has the average duration.
        end = int(clip.times[-1]) + (round(_MICRO / rate) if rate else 0)
        content = _hash(np.array(digests, np.uint64))
        more = (end, clip.real_frames, height, width, float(rate))
        self.add(row, clip.start, starts, sizes, clip.times, content, sum(sizes), *more)

    def _place(self, number: tuple[int, int], frame: EncodedFrame) -> _Stored:
        """Return the place of a frame, given (row, frame number). Stores it if it is new."""
        place = self._frames.get(number)
        if place is None:
            digest = xxhash.xxh3_64_intdigest(frame.data)
            place = _Stored(self.store(frame.data), len(frame.data), digest)
            self._frames[number] = place
        return place

    def take(self) -> ListingPart:
        self._frames = {}
        return super().take()


def read_frames(rows: pa.RecordBatch, *, frames: Sequence[int] | None = None) -> list[list[bytes]]:
    """Read the encoded frames of each clip from the staged files.

    frames: numbers of the frames to return, ascending; None returns all, and compares them with the
      content of the clip.

    Raises:
      RunError: a staged file is missing or has changed.
    """
    columns = (batch.PATH, STARTS, LENGTHS, batch.CONTENT)
    clips = [*zip(*(rows[name].to_pylist() for name in columns), strict=True)]
    stored = [_StoredClip.of(path, starts, lengths, frames) for path, starts, lengths, _ in clips]
    ranges = ((row, one.file, *one.range) for row, one in enumerate(stored))
    found = []
    for (path, _, _, content), one in zip(clips, read_ahead(stored, ranges), strict=True):
        try:
            clip = one.read()
        except MissingError:
            clip = []
        if not clip or (frames is None and _hash(_digests(clip)) != content):
            raise damaged_staging(path)
        found.append(clip)
    return found


class _StoredClip(NamedTuple):
    """The frames of a clip in a staged file, which are close together."""

    file: Location
    starts: Sequence[int]
    lengths: Sequence[int]

    @classmethod
    def of(
        cls,
        path: str,
        starts: Sequence[int],
        lengths: Sequence[int],
        frames: Sequence[int] | None,
    ) -> _StoredClip:
        """Return some frames of a clip; all if `frames` is None."""
        if frames is not None:
            starts, lengths = ([values[n] for n in frames] for values in (starts, lengths))
        return cls(Location.parse(path), starts, lengths)

    @property
    def range(self) -> tuple[int, int]:
        """Offset and length of the range that holds all frames."""
        begin = min(self.starts)
        return begin, max(map(operator.add, self.starts, self.lengths)) - begin

    def read(self) -> list[bytes]:
        begin, length = self.range
        data = read_or_take(self.file, begin, length)
        return [
            data[start - begin : start - begin + length]
            for start, length in zip(self.starts, self.lengths, strict=True)
        ]


def _digests(frames: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(frame) for frame in frames], np.uint64)


def _hash(digests: npt.NDArray[np.uint64]) -> bytes:
    """Return the content of a clip, xxh3_128 of the xxh3_64 of each of its frames."""
    return xxhash.xxh3_128_digest(digests.tobytes())
