"""Places of frames in earlier datasets by their recipes: a sorted table in staging.

Tables are built in buckets of the first bits of the hashes, so that memory does not grow with them,
and mapped into memory by the processes that search them:

  reuse/NAME.keys  .places       recipes: the first 8 bytes of each, sorted, and a `PLACE` each
  reuse/NAME.facts               texts of facts, joined
  reuse/NAME.files  .sources     the same for sources: the first 8 bytes, and both halves
  reuse/NAME.json                number of recipes, and the URIs of shards; written last
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import tempfile
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from recordmill.format.content_hashes import find_halves
from recordmill.format.typed_json import Count
from recordmill.job.staging import REUSE, Staging, to_json
from recordmill.storage.files import Location
from recordmill.transforms.model import batch
from recordmill.transforms.reuse.row_recipes import RowRecipes
from recordmill.transforms.staged.mapped_files import map_array

STORED = "__stored__"  # struct, nullable: the place of a frame to copy, `_STORED`

# hi, lo: halves of a hash.
_HASH = np.dtype([("hi", "<u8"), ("lo", "<u8")])
# facts, facts_end: range in the file of facts.
PLACE = np.dtype(
    [
        ("hi", "<u8"),
        ("lo", "<u8"),
        ("offset", "<i8"),
        ("facts", "<i8"),
        ("facts_end", "<i8"),
        ("length", "<i8"),
        ("shard", "<u4"),
        ("crc", "<u4"),
        ("width", "<i4"),  # -1 without
        ("height", "<i4"),
        ("content", "V16"),
    ]
)
_STORED = pa.struct(
    {
        "path": pa.dictionary(pa.int32(), pa.string()),
        "offset": pa.int64(),
        "length": pa.int64(),
        "crc": pa.uint32(),
        "width": pa.int32(),
        "height": pa.int32(),
        "content": pa.binary(16),
        "facts": pa.string(),
    }
)
_BUCKET_BYTES = 64 << 20
_MOST_BITS = 8  # each bucket is an open file

UInt64s = npt.NDArray[np.uint64]
Places = npt.NDArray[np.void]


class _Buckets:
    """Sorts rows of `hi` and `lo` in buckets; it is used in the context of `files`."""

    def __init__(self, dtype: np.dtype[Any], rows: int, files: contextlib.ExitStack) -> None:
        self._dtype = dtype
        self._bits = min((rows * dtype.itemsize // _BUCKET_BYTES).bit_length(), _MOST_BITS)
        held = _BUCKET_BYTES >> self._bits  # small tables stay in memory
        self._files = [
            files.enter_context(tempfile.SpooledTemporaryFile(held))  # noqa: SIM115
            for _ in range(1 << self._bits)
        ]

    def add(self, rows: Places) -> None:
        if not self._bits:
            self._files[0].write(rows.tobytes())
            return
        buckets = rows["hi"] >> np.uint64(64 - self._bits)
        for bucket in np.unique(buckets):
            self._files[int(bucket)].write(rows[buckets == bucket].tobytes())

    def write(self, keys: Location, rows: Location) -> int:
        """Write the first halves and the rows, sorted and distinct, and return their number."""
        count = 0
        with keys.open_scratch() as keys_sink, rows.open_scratch() as rows_sink:
            for file in self._files:
                file.seek(0)
                found = np.frombuffer(file.read(), self._dtype)
                found = found[np.lexsort((found["lo"], found["hi"]))]
                first = np.ones(len(found), np.bool_)
                first[1:] = (found["hi"][1:] != found["hi"][:-1]) | (
                    found["lo"][1:] != found["lo"][:-1]
                )
                found = found[first]
                keys_sink.write(np.ascontiguousarray(found["hi"]).tobytes())
                rows_sink.write(found.tobytes())
                count += len(found)
        return count


@dataclasses.dataclass(frozen=True, kw_only=True)
class _Stored:
    """The content of NAME.json."""

    recipes: Count
    shards: list[str]


class PlacesWriter:
    """Writes the tables of a known number of records, which are added in any order.

    It is a context, at whose end temporary files are deleted.
    """

    def __init__(self, place: Location, *, records: int) -> None:
        self._place = place
        self._records = records
        self._shards: list[str] = []
        self._facts_bytes = 0
        self._files = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._place.parent.make_dirs()
        self._facts = self._files.enter_context(_suffixed(self._place, "facts").open_scratch())
        self._places = _Buckets(PLACE, self._records, self._files)
        self._sources = _Buckets(_HASH, self._records, self._files)
        return self

    def __exit__(self, *_: object) -> None:
        self._files.close()

    def add(self, shard: Location, hashes: RowRecipes, places: Places, facts: pa.Array) -> None:
        """Add the records of a shard.

        places: `PLACE`[n] without hashes, `shard` and the range of facts. facts: string[n].
        """
        texts = facts.cast(pa.large_binary()).fill_null(b"")
        lengths = np.asarray(pc.binary_length(texts)).astype(np.int64)
        places["facts_end"] = self._facts_bytes + np.cumsum(lengths)
        places["facts"] = places["facts_end"] - lengths
        self._facts.write(b"".join(texts.to_pylist()))
        self._facts_bytes += int(lengths.sum())
        places["shard"] = len(self._shards)
        self._shards.append(shard.spelling)
        sources = np.zeros(len(places), _HASH)
        for rows, halves in ((places, hashes.recipes), (sources, hashes.sources)):
            rows["hi"], rows["lo"] = halves[:, 0], halves[:, 1]
        self._places.add(places)
        self._sources.add(sources)

    def finish(self) -> None:
        """Sort and write the tables."""
        self._facts.close()

        def place(suffix: str) -> Location:
            return _suffixed(self._place, suffix)

        count = self._places.write(place("keys"), place("places"))
        self._sources.write(place("files"), place("sources"))
        place("json").write_bytes(to_json(_Stored(recipes=count, shards=self._shards)))


def _suffixed(place: Location, suffix: str) -> Location:
    return place.parent / f"{place.name}.{suffix}"


class _Sorted(NamedTuple):
    """A sorted table. keys: the first halves of the hashes. rows: all, with both halves."""

    keys: UInt64s
    rows: Places

    def find(self, hashes: UInt64s) -> npt.NDArray[np.int64]:
        """Return the index of each hash, -1 if it is not there. hashes: uint64[n, 2]."""
        return find_halves(hashes, self.keys, self.rows["lo"])


class _Tables(NamedTuple):
    places: _Sorted
    sources: _Sorted
    facts: npt.NDArray[np.uint8]
    shards: pa.Array


@dataclasses.dataclass(frozen=True)
class FramePlaces:
    """The table of a run, by its name in staging; it is picklable."""

    staging: Staging
    name: str

    @property
    def place(self) -> Location:
        """The place of its files, without suffix."""
        return self.staging.place(f"{REUSE}/{self.name}")

    @property
    def recipes(self) -> int | None:
        """Number of recipes; None if the table is not complete."""
        found: _Stored | None = self.staging.read_json(f"{REUSE}/{self.name}.json", _Stored)
        return None if found is None else found.recipes

    def add_to(self, rows: pa.RecordBatch, recipes: UInt64s) -> pa.RecordBatch:
        """Return rows with the column `__stored__`. recipes: uint64[n, 2]."""
        tables = _open(self)
        return batch.set_column(rows, STORED, _stored(tables, tables.places.find(recipes)))

    def has_sources(self, sources: UInt64s) -> npt.NDArray[np.bool_]:
        """Return a mask of the sources that have records: bool[n]. sources: uint64[n, 2]."""
        return _open(self).sources.find(sources) >= 0


def _stored(tables: _Tables, found: npt.NDArray[np.int64]) -> pa.StructArray:
    """Return the column of places. found: int64[n], index in the table; -1 without a place."""
    missing = found < 0
    places = np.zeros(len(found), PLACE)
    places[~missing] = tables.places.rows[found[~missing]]
    numbers, codes = np.unique(places["shard"], return_inverse=True)
    paths = pa.DictionaryArray.from_arrays(
        pa.array(codes.astype(np.int32)), tables.shards.take(pa.array(numbers))
    )
    facts = [
        bytes(tables.facts[start:end]).decode() if end > start else None
        for start, end in zip(places["facts"].tolist(), places["facts_end"].tolist(), strict=True)
    ]
    content = pa.py_buffer(np.ascontiguousarray(places["content"]).tobytes())
    columns = [
        paths,
        *(pa.array(np.ascontiguousarray(places[name])) for name in ("offset", "length", "crc")),
        *(pa.array(np.ascontiguousarray(places[name])) for name in ("width", "height")),
        pa.FixedSizeBinaryArray.from_buffers(pa.binary(16), len(found), [None, content]),
        pa.array(facts, pa.string()),
    ]
    return pa.StructArray.from_arrays(columns, fields=list(_STORED), mask=pa.array(missing))


@functools.lru_cache(maxsize=2)
def _open(places: FramePlaces) -> _Tables:
    """Map tables into memory; those in an object store are copied to this machine first."""
    content: _Stored = places.staging.read_json(f"{REUSE}/{places.name}.json", _Stored)

    def mapped(suffix: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        return map_array(_suffixed(places.place, suffix), dtype)

    key = np.dtype("<u8")
    return _Tables(
        places=_Sorted(mapped("keys", key), mapped("places", PLACE)),
        sources=_Sorted(mapped("files", key), mapped("sources", _HASH)),
        facts=mapped("facts", np.dtype("u1")),
        shards=pa.array(content.shards, pa.string()),
    )
