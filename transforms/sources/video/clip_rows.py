"""Rows of clips, which reference their encoded frames in staged files.

Frames are large, and clips may overlap. A staged file holds each frame once, and a row holds the
offsets of its frames. So clips are shuffled as references, like images, and the frames are read
when shards are written.
"""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import xxhash

from recordmill.errors import Reason, RecordError, Reject
from recordmill.storage.files import Location
from recordmill.storage.input_files import damaged_staging
from recordmill.storage.storage_errors import MissingError
from recordmill.tfrecord.flat_arrays import offsets_of
from recordmill.transforms.model import batch, limits
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.model.source import ListingPart
from recordmill.transforms.sources.rows.segments import NAME
from recordmill.transforms.sources.video.clip_plan import Clip, ClipSection
from recordmill.transforms.sources.video.frame_encoder import EncodedFrame

STARTS = "__starts__"  # lists of int64: offset of each frame in the staged file
LENGTHS = "__lengths__"  # lists of int64: bytes of each frame
TIMES = "__times__"  # list of int64: microseconds from the beginning of the video
END = "__end__"  # int64: end of the last frame in microseconds
OWN = "__own__"  # int64: number of frames without padding
HEIGHT, WIDTH = "__height__", "__width__"  # int64: pixels
RATE = "__rate__"  # float64: frames of a clip per second

_MICRO = 10**6


def clip_schema(frames: int, users: Iterable[pa.Field]) -> pa.Schema:
    """Return the schema of rows of clips. frames: per clip."""
    names = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, NAME, batch.DATA)
    lists = pa.list_(pa.int64(), frames)
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in names),
            *(pa.field(name, lists) for name in (STARTS, LENGTHS, TIMES)),
            pa.field(batch.CONTENT, pa.binary(16)),
            *(pa.field(name, pa.int64()) for name in (batch.SIZE, END, OWN, HEIGHT, WIDTH)),
            pa.field(RATE, pa.float64()),
            *users,
        ]
    )


@dataclasses.dataclass(kw_only=True)
class ClipCollector:
    """Collects clips of the videos in rows of a listing, and rejects.

    sections: rows of the listing. schema: of the rows of clips. max_bytes: of a clip. inputs: as in
    `ListingPart`.
    """

    sections: pa.RecordBatch
    schema: pa.Schema
    max_bytes: int
    inputs: int = 0
    _last: tuple[int, int] = (-1, -1)  # row and first slot of the clip added last
    _at: list[int] = dataclasses.field(default_factory=list)
    _clips: list[Clip] = dataclasses.field(default_factory=list)
    _rates: list[Fraction] = dataclasses.field(default_factory=list)
    _data: bytearray = dataclasses.field(default_factory=bytearray)
    _sizes: list[int] = dataclasses.field(default_factory=list)  # of each frame in _data
    _digests: list[int] = dataclasses.field(default_factory=list)
    # {(row, frame number in the video): index in _sizes}
    _numbers: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    _places: list[list[int]] = dataclasses.field(
        default_factory=list
    )  # indices in _sizes, per clip
    _sides: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # per clip
    _rejects: list[Reject] = dataclasses.field(default_factory=list)
    _invalid: list[Reject] = dataclasses.field(default_factory=list)

    @property
    def is_full(self) -> bool:
        """True if the clips fill a part."""
        return len(self._data) >= limits.VIDEO_STAGED_BYTES or len(self._at) >= limits.PART_ROWS

    def add(
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
        self.inputs += counts if row > self._last[0] else 0
        self._last = row, clip.start
        coded = []
        for frame in frames:
            if isinstance(frame, RecordError):
                self.reject_record(row, clip.start, frame)
                return
            coded.append(frame)
        size = sum(len(frame.data) for frame in coded)
        if size > self.max_bytes:
            what = f"a clip of {size} bytes, more than --max-clip-bytes {self.max_bytes}"
            self.reject_record(row, clip.start, RecordError(Reason.TOO_LARGE, what))
            return
        sides = {(frame.height, frame.width) for frame in coded}
        if len(sides) > 1:
            self.reject_record(
                row,
                clip.start,
                RecordError(
                    Reason.BAD_VALUE, "the video changes its size within the clip: pass --size"
                ),
            )
            return
        self._at.append(row)
        self._clips.append(clip)
        self._rates.append(rate)
        self._sides += sides
        numbers = clip.frames.tolist()
        self._places.append([self._place((row, n), f) for n, f in zip(numbers, coded, strict=True)])

    def _place(self, number: tuple[int, int], frame: EncodedFrame) -> int:
        """Return the index of a frame, given (row, frame number). Stores the frame if it is new."""
        place = self._numbers.get(number)
        if place is None:
            place = self._numbers[number] = len(self._sizes)
            self._data += frame.data
            self._sizes.append(len(frame.data))
            self._digests.append(xxhash.xxh3_64_intdigest(frame.data))
        return place

    def reject_record(self, row: int, start: int, error: RecordError) -> None:
        """Reject a clip. start: its first slot."""
        key = f"{self.sections[batch.KEY][row].as_py()}#{start}"
        self._invalid.append(Reject(key, "read", error.reason, error.detail))

    def reject(self, row: int, error: RecordError) -> None:
        """Reject a video or a segment."""
        key = self.sections[batch.KEY][row].as_py()
        self._rejects.append(Reject(key, "read", error.reason, error.detail))

    def reject_section(
        self, row: int, section: str | None, error: RecordError, *, counts: int
    ) -> None:
        """Reject a section. counts: 1 if its input counts in it, 0 if in an earlier section."""
        if counts:
            self.reject(row, error)
        else:
            self.reject_record(row, ClipSection.from_text(str(section)).start, error)

    def take(self) -> ListingPart:
        """Return the items collected since the last call."""
        listed = ListingPart(
            rows=self._rows() if self._at else None,
            rejects=self._rejects,
            invalid=self._invalid,
            inputs=self.inputs,
            data=self._data if self._at else None,
        )
        self._at, self._clips, self._rates = [], [], []
        self._data, self._sizes, self._digests, self._numbers = bytearray(), [], [], {}
        self._places, self._sides = [], []
        self._rejects, self._invalid = [], []
        self.inputs = 0
        return listed

    def _rows(self) -> pa.RecordBatch:
        given = self.sections.take(pa.array(self._at, pa.int64()))
        keys = given[batch.KEY].to_pylist()
        places = np.array(self._places)
        sizes = np.array(self._sizes, np.int64)
        digests = np.array(self._digests, np.uint64)
        heights, widths = zip(*self._sides, strict=True)
        found = {
            batch.KEY: pa.array(
                [f"{key}#{clip.start}" for key, clip in zip(keys, self._clips, strict=True)],
                pa.string(),
            ),
            batch.DATA: pa.nulls(len(keys), pa.string()),  # the file is not written yet
            batch.SIZE: pa.array(sizes[places].sum(1)),
            STARTS: fixed_lists(offsets_of(sizes)[places]),
            LENGTHS: fixed_lists(sizes[places]),
            batch.CONTENT: pa.array([_hash(row) for row in digests[places]], pa.binary(16)),
            TIMES: fixed_lists(np.stack([clip.times for clip in self._clips])),
            END: pa.array([self._end(*one) for one in zip(self._clips, self._rates, strict=True)]),
            OWN: pa.array([clip.real_frames for clip in self._clips]),
            HEIGHT: pa.array(heights),
            WIDTH: pa.array(widths),
            RATE: pa.array([float(rate) for rate in self._rates]),
        }
        columns = [found[name] if name in found else given[name] for name in self.schema.names]
        return pa.record_batch(columns, schema=self.schema)

    @staticmethod
    def _end(clip: Clip, rate: Fraction) -> int:
        """Return the end of a clip in microseconds: its last frame lasts one average frame."""
        return int(clip.times[-1]) + (round(_MICRO / rate) if rate else 0)


def read_frames(rows: pa.RecordBatch, *, frames: Sequence[int] | None = None) -> list[list[bytes]]:
    """Read the encoded frames of each clip from the staged files.

    frames: numbers of the frames to return, ascending; None returns all, and compares them with the
      content of the clip.

    Raises:
      RunError: a staged file is missing or has changed.
    """
    columns = (batch.PATH, STARTS, LENGTHS, batch.CONTENT)
    found = []
    for path, starts, lengths, content in zip(*(rows[n].to_pylist() for n in columns), strict=True):
        place = Location.parse(path)
        if frames is not None:
            starts, lengths = ([values[n] for n in frames] for values in (starts, lengths))
        try:
            clip = _frames(place, starts, lengths)
        except MissingError:
            clip = []
        if not clip or (frames is None and _hash(_digests(clip)) != content):
            raise damaged_staging(path)
        found.append(clip)
    return found


def _frames(place: Location, starts: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
    """Read frames in one request, because they are close together."""
    begin = min(starts)
    data = place.read_range(begin, max(map(operator.add, starts, lengths)) - begin)
    return [
        data[start - begin : start - begin + length]
        for start, length in zip(starts, lengths, strict=True)
    ]


def _digests(frames: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(frame) for frame in frames], np.uint64)


def _hash(digests: npt.NDArray[np.uint64]) -> bytes:
    """Return the content of a clip, xxh3_128 of the xxh3_64 of each of its frames."""
    return xxhash.xxh3_128_digest(digests.tobytes())
