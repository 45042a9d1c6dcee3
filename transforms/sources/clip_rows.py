"""The rows of clips: what the source of films hands to the road, and the encoder writes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence
from fractions import Fraction

import numpy as np
import pyarrow as pa

from recordmill.errors import Reason, RecordError, Reject
from recordmill.weave import offsets_of
from transforms import batch
from transforms.encoders.film_pictures import Coded
from transforms.encoders.image_options import ImageOptions
from transforms.kind import Listed
from transforms.sources.clip_cut import Clip

FILM = "__film__"  # string: the name of the file
PICTURES = "__pictures__"  # lists of the coded frames, or the bytes of all of them as one array
TIMES = "__times__"  # list of int64: microseconds from the beginning of the film, of each frame
END = "__end__"  # int64: microseconds at which the last frame ends
OWN = "__own__"  # int64: frames that do not repeat the last one
HEIGHT, WIDTH = "__height__", "__width__"  # int64: pixels
RATE = "__rate__"  # float64: frames of a clip per second

_MICRO = 10**6


def is_raw(pictures: ImageOptions) -> bool:
    """Whether a clip is one array."""
    return pictures.image_format == "raw"


def clip_schema(frames: int, pictures: ImageOptions, users: Iterable[pa.Field]) -> pa.Schema:
    """Of the rows. frames: of a clip."""
    coded = pa.large_binary() if is_raw(pictures) else pa.list_(pa.large_binary(), frames)
    names = (batch.KEY, batch.LABEL, batch.GROUP, batch.SPLIT, FILM)
    return pa.schema(
        [
            *(pa.field(name, pa.string()) for name in names),
            pa.field(PICTURES, coded),
            pa.field(TIMES, pa.list_(pa.int64(), frames)),
            *(pa.field(name, pa.int64()) for name in (END, OWN, HEIGHT, WIDTH)),
            pa.field(RATE, pa.float64()),
            *users,
        ]
    )


@dataclasses.dataclass(kw_only=True)
class ClipRows:
    """Collects clips of the films that rows of a listing name, and what is no clip.

    sections: these rows. max_bytes: of a clip. bytes: of the pictures that are held. inputs: as
    `Listed` has them.
    """

    sections: pa.RecordBatch
    schema: pa.Schema
    pictures: ImageOptions
    max_bytes: int
    bytes: int = 0
    inputs: int = 0
    _at: list[int] = dataclasses.field(default_factory=list)
    _clips: list[Clip] = dataclasses.field(default_factory=list)
    _coded: list[Sequence[Coded]] = dataclasses.field(default_factory=list)
    _rates: list[Fraction] = dataclasses.field(default_factory=list)
    _rejects: list[Reject] = dataclasses.field(default_factory=list)
    _spoilt: list[Reject] = dataclasses.field(default_factory=list)

    def add(
        self, row: int, clip: Clip, frames: Sequence[Coded | RecordError], *, rate: Fraction
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
        if len({(frame.height, frame.width) for frame in coded}) > 1:
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
        self._coded.append(coded)
        self._rates.append(rate)
        self.bytes += size

    def spoil(self, row: int, start: int, error: RecordError) -> None:
        """A record that cannot be made. start: its first slot."""
        key = f"{self.sections[batch.KEY][row].as_py()}#{start}"
        self._spoilt.append(Reject(key, "read", error.reason, error.detail))

    def reject(self, row: int, error: RecordError) -> None:
        """A film, or a segment, that cannot be read."""
        key = self.sections[batch.KEY][row].as_py()
        self._rejects.append(Reject(key, "read", error.reason, error.detail))

    def take(self) -> Listed:
        """What was collected since the last call."""
        listed = Listed(
            rows=self._rows() if self._at else None,
            rejects=self._rejects,
            spoilt=self._spoilt,
            inputs=self.inputs,
        )
        self._at, self._clips, self._coded, self._rates = [], [], [], []
        self._rejects, self._spoilt = [], []
        self.bytes = self.inputs = 0
        return listed

    def _rows(self) -> pa.RecordBatch:
        given = self.sections.take(pa.array(self._at, pa.int64()))
        keys = given[batch.KEY].to_pylist()
        times = np.stack([clip.times for clip in self._clips])
        found = {
            batch.KEY: pa.array(
                [f"{key}#{clip.start}" for key, clip in zip(keys, self._clips, strict=True)],
                pa.string(),
            ),
            PICTURES: self._pictures(),
            TIMES: pa.FixedSizeListArray.from_arrays(pa.array(times.ravel()), times.shape[1]),
            END: pa.array([self._end(*one) for one in zip(self._clips, self._rates, strict=True)]),
            OWN: pa.array([clip.own for clip in self._clips]),
            HEIGHT: pa.array([frames[0].height for frames in self._coded]),
            WIDTH: pa.array([frames[0].width for frames in self._coded]),
            RATE: pa.array([float(rate) for rate in self._rates]),
        }
        columns = [found[name] if name in found else given[name] for name in self.schema.names]
        return pa.record_batch(columns, schema=self.schema)

    def _pictures(self) -> pa.Array:
        """`pa.array(list)` would import pandas where it is installed (0.9 s)."""
        flat = [frame.data for frames in self._coded for frame in frames]
        size = len(self._coded[0])
        if is_raw(self.pictures):
            flat = [b"".join(flat[first : first + size]) for first in range(0, len(flat), size)]
        offsets = offsets_of(np.array([len(data) for data in flat], np.int64))
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(b"".join(flat))]
        values = pa.Array.from_buffers(pa.large_binary(), len(flat), buffers)
        return values if is_raw(self.pictures) else pa.FixedSizeListArray.from_arrays(values, size)

    @staticmethod
    def _end(clip: Clip, rate: Fraction) -> int:
        """Its last frame is taken to last as long as frames do on average."""
        return int(clip.times[-1]) + (round(_MICRO / rate) if rate else 0)
