"""The rows of clips: what the source of films hands to the road, and the encoder writes.

Clips may overlap, and their frames are what is large. So a row says where its frames stand in a
file that holds each of them once, as one of a picture names its file: they are shuffled as
references, and read when they are written.
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

from recordmill.errors import Reason, RecordError, Reject, RunError
from recordmill.format.row_assembly import offsets_of
from recordmill.storage.files import Location, shown
from recordmill.storage.storage_errors import MissingError
from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import ListingPart
from recordmill.transforms.model.ragged import fixed_lists
from recordmill.transforms.sources.video.clip_plan import Clip
from recordmill.transforms.sources.video.frame_images import EncodedFrame

FILM = "__film__"  # string: the name of the file
STARTS = "__starts__"  # lists of int64: where in the staged file each frame begins
LENGTHS = "__lengths__"  # lists of int64: how many they are
CONTENT = "__content__"  # uint64: xxh3_64 of those of each
TIMES = "__times__"  # list of int64: microseconds from the beginning of the film, of each frame
END = "__end__"  # int64: microseconds at which the last frame ends
OWN = "__own__"  # int64: frames that do not repeat the last one
HEIGHT, WIDTH = "__height__", "__width__"  # int64: pixels
RATE = "__rate__"  # float64: frames of a clip per second

_MICRO = 10**6


def clip_schema(frames: int, users: Iterable[pa.Field]) -> pa.Schema:
    """Of the rows. frames: of a clip."""
    names = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, FILM, batch.DATA)
    lists = pa.list_(pa.int64(), frames)
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in names),
            *(pa.field(name, lists) for name in (STARTS, LENGTHS, TIMES)),
            pa.field(CONTENT, pa.uint64()),
            *(pa.field(name, pa.int64()) for name in (batch.SIZE, END, OWN, HEIGHT, WIDTH)),
            pa.field(RATE, pa.float64()),
            *users,
        ]
    )


@dataclasses.dataclass(kw_only=True)
class ClipRows:
    """Collects clips of the films that rows of a listing name, and what is no clip.

    sections: these rows. max_bytes: of a clip. inputs: as `ListingPart` has them.
    """

    sections: pa.RecordBatch
    schema: pa.Schema
    max_bytes: int
    inputs: int = 0
    _at: list[int] = dataclasses.field(default_factory=list)
    _clips: list[Clip] = dataclasses.field(default_factory=list)
    _rates: list[Fraction] = dataclasses.field(default_factory=list)
    _data: bytearray = dataclasses.field(default_factory=bytearray)
    _sizes: list[int] = dataclasses.field(default_factory=list)  # of the frames in _data
    _digests: list[int] = dataclasses.field(default_factory=list)
    # By row, and number of a frame in its film: the place in _sizes.
    _numbers: dict[tuple[int, int], int] = dataclasses.field(default_factory=dict)
    _places: list[list[int]] = dataclasses.field(default_factory=list)  # in _sizes, of each clip
    _sides: list[tuple[int, int]] = dataclasses.field(default_factory=list)  # of each clip
    _rejects: list[Reject] = dataclasses.field(default_factory=list)
    _spoilt: list[Reject] = dataclasses.field(default_factory=list)

    @property
    def bytes(self) -> int:
        """Of the frames that are held, each of which is held once, in however many clips it is."""
        return len(self._data)

    def add(
        self, row: int, clip: Clip, frames: Sequence[EncodedFrame | RecordError], *, rate: Fraction
    ) -> None:
        """A clip of the film of a row; it is spoilt where a frame is. rate: frames per second."""
        coded = []
        for frame in frames:
            if isinstance(frame, RecordError):
                self.spoil(row, clip.start, frame)
                return
            coded.append(frame)
        size = sum(len(frame.data) for frame in coded)
        if size > self.max_bytes:
            what = f"a clip of {size} bytes, more than --max-clip-bytes {self.max_bytes}"
            self.spoil(row, clip.start, RecordError(Reason.TOO_LARGE, what))
            return
        sides = {(frame.height, frame.width) for frame in coded}
        if len(sides) > 1:
            self.spoil(
                row,
                clip.start,
                RecordError(
                    Reason.BAD_VALUE, "the film changes its size within the clip: give a --size"
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
        """Where a frame stands, by its row and its number in the film: kept now, or before."""
        place = self._numbers.get(number)
        if place is None:
            place = self._numbers[number] = len(self._sizes)
            self._data += frame.data
            self._sizes.append(len(frame.data))
            self._digests.append(xxhash.xxh3_64_intdigest(frame.data))
        return place

    def spoil(self, row: int, start: int, error: RecordError) -> None:
        """A record that cannot be made. start: its first slot."""
        key = f"{self.sections[batch.KEY][row].as_py()}#{start}"
        self._spoilt.append(Reject(key, "read", error.reason, error.detail))

    def reject(self, row: int, error: RecordError) -> None:
        """A film, or a segment, that cannot be read."""
        key = self.sections[batch.KEY][row].as_py()
        self._rejects.append(Reject(key, "read", error.reason, error.detail))

    def take(self) -> ListingPart:
        """What was collected since the last call."""
        listed = ListingPart(
            rows=self._rows() if self._at else None,
            rejects=self._rejects,
            spoilt=self._spoilt,
            inputs=self.inputs,
            data=self._data if self._at else None,
        )
        self._at, self._clips, self._rates = [], [], []
        self._data, self._sizes, self._digests, self._numbers = bytearray(), [], [], {}
        self._places, self._sides = [], []
        self._rejects, self._spoilt = [], []
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
            CONTENT: pa.array([_hash(row) for row in digests[places]], pa.uint64()),
            TIMES: fixed_lists(np.stack([clip.times for clip in self._clips])),
            END: pa.array([self._end(*one) for one in zip(self._clips, self._rates, strict=True)]),
            OWN: pa.array([clip.own for clip in self._clips]),
            HEIGHT: pa.array(heights),
            WIDTH: pa.array(widths),
            RATE: pa.array([float(rate) for rate in self._rates]),
        }
        columns = [found[name] if name in found else given[name] for name in self.schema.names]
        return pa.record_batch(columns, schema=self.schema)

    @staticmethod
    def _end(clip: Clip, rate: Fraction) -> int:
        """Its last frame is taken to last as long as frames do on average."""
        return int(clip.times[-1]) + (round(_MICRO / rate) if rate else 0)


def pictures_of(rows: pa.RecordBatch) -> list[list[bytes]]:
    """The frames of each clip, read from where they were written.

    Raises RunError where they are not there any more.
    """
    columns = (batch.PATH, STARTS, LENGTHS, CONTENT)
    found = []
    for path, starts, lengths, content in zip(*(rows[n].to_pylist() for n in columns), strict=True):
        place = Location.parse(path)
        try:
            frames = _frames(place, starts, lengths)
        except MissingError:
            frames = []
        if _hash(_digests(frames)) != content:
            raise RunError(
                f"{shown(path)} is not what this job wrote there: remove {shown(place.parent)}, and"
                " run the same command again"
            )
        found.append(frames)
    return found


def _frames(place: Location, starts: Sequence[int], lengths: Sequence[int]) -> list[bytes]:
    """They stand close together: read at once, with what there is between them."""
    begin = min(starts)
    data = place.read_range(begin, max(map(operator.add, starts, lengths)) - begin)
    return [
        data[start - begin : start - begin + length]
        for start, length in zip(starts, lengths, strict=True)
    ]


def _digests(frames: Sequence[bytes]) -> npt.NDArray[np.uint64]:
    return np.array([xxhash.xxh3_64_intdigest(frame) for frame in frames], np.uint64)


def _hash(digests: npt.NDArray[np.uint64]) -> int:
    return xxhash.xxh3_64_intdigest(digests.tobytes())
