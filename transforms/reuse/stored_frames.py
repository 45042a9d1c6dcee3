"""Frames of earlier datasets: read in runs, and checked before they are used again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import pyarrow as pa

from recordmill.storage.files import Location, StorageError
from recordmill.tfrecord.framing import FrameError, payload_of
from recordmill.transforms.reuse.frame_places import STORED

_GAP = 64 << 10  # bytes between two frames that are read with them
_STORE_GAP = 1 << 20  # the same in an object store, where a request takes as long as a megabyte
_RUN = 16 << 20  # bytes that are read at a time, at most, unless one frame has more


class StoredFrame(NamedTuple):
    """A frame of an earlier dataset, with its values from the index and from recipes.parquet."""

    data: bytes
    content: bytes
    size: tuple[int, int] | None
    facts: str | None


class _Place(NamedTuple):
    offset: int
    length: int
    row: int


def take_stored(rows: pa.RecordBatch) -> tuple[pa.RecordBatch, dict[int, StoredFrame]]:
    """Return rows without the column of places, and {row: frame} of the frames found there.

    A frame that is damaged, missing or unreadable is left out, so that its record is encoded.
    """
    if STORED not in rows.schema.names:
        return rows, {}
    places = rows[STORED]
    rows = rows.drop_columns([STORED])
    if places.null_count == len(places):
        return rows, {}
    frames = dict(_frames(places))
    found = {}
    for row in sorted(frames):
        place = places[row].as_py()
        crc = int.from_bytes(frames[row][-4:], "little")
        if crc == place["crc"] and _is_whole(frames[row]):
            size = None if place["width"] < 0 else (place["width"], place["height"])
            found[row] = StoredFrame(frames[row], place["content"], size, place["facts"])
    return rows, found


def _is_whole(data: bytes) -> bool:
    try:
        payload_of(data)
    except FrameError:
        return False
    return True


def _frames(places: pa.StructArray) -> Iterator[tuple[int, bytes]]:
    """Yield (row, frame as it is stored), shard by shard."""
    by_shard: dict[str, list[_Place]] = {}
    paths = places.field("path").cast(pa.string()).to_pylist()
    offsets, lengths = (places.field(name).to_pylist() for name in ("offset", "length"))
    for row, valid in enumerate(places.is_valid().to_pylist()):
        if valid:
            by_shard.setdefault(paths[row], []).append(_Place(offsets[row], lengths[row], row))
    for path, of_shard in by_shard.items():
        shard = Location.parse(path)
        for run in _runs(sorted(of_shard), gap=_GAP if shard.is_local else _STORE_GAP):
            start = run[0].offset
            end = max(place.offset + place.length for place in run)
            try:
                data = shard.read_range(start, end - start)
            except StorageError:
                continue
            for place in run:
                at = place.offset - start
                frame = data[at : at + place.length]
                if len(frame) == place.length:
                    yield place.row, frame


def _runs(places: Sequence[_Place], *, gap: int) -> Iterator[list[_Place]]:
    """Yield groups of places that are near each other. places: ascending."""
    run: list[_Place] = []
    end = 0
    for place in places:
        is_near = place.offset - end <= gap
        if run and not (is_near and place.offset + place.length - run[0].offset <= _RUN):
            yield run
            run = []
        run.append(place)
        end = max(end, place.offset + place.length)
    if run:
        yield run
