"""The draft of a shard: its temporary file, and a journal of the chunks that are in it.

A run that was killed leaves both. The next attempt copies the chunks that the journal describes,
each checked by its hash, and encodes from the first missing row on, so that the shard gets the same
bytes. Only local file systems keep half-written files; in object stores a draft has no journal.
There each attempt writes under a unique name, and the file keeps it: a move would copy the file.

An entry of the journal is a header (sizes of entry and chunk, hash of the chunk's bytes, digest of
the rows up to its last one), an Arrow stream of one row with all other fields of the chunk, and a
hash of both.
"""

import contextlib
import dataclasses
import json
import struct
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import Any, BinaryIO, Self

import numpy as np
import pyarrow as pa
import xxhash

from recordmill.errors import Reject
from recordmill.format.ledger import Counted, Reduced
from recordmill.job.staging import DRAFTS, Staging, attempt_name, begun_name, draft_key, to_json
from recordmill.storage.files import Location, MissingError, StorageError
from recordmill.transforms.model import batch
from recordmill.transforms.staged.encoder_tasks import EncodedChunk

# Bytes of the fields, bytes of the chunk, their hash, digest of the rows.
_HEADER = struct.Struct("<QQ16s16s")
_SUM = 8  # bytes of the hash of an entry
MARK_SECONDS = 5.0  # interval of marks of the bytes that were written to a store
_MOST = 1 << 30  # bytes of the fields of a chunk; more is damage

_INTEGERS = pa.list_(pa.int64())
_FIELDS = pa.schema(
    {
        "lengths": _INTEGERS,
        "kept": _INTEGERS,  # null: all rows in order
        "names": pa.list_(pa.string()),
        "content": pa.list_(pa.binary(16)),
        "width": _INTEGERS,
        "height": _INTEGERS,
        "facts": pa.list_(pa.string()),
        "others": pa.string(),
    }
)


class ShardDraft:
    """A shard that is being written.

    name: file name of the shard. context: hash of all that determines its bytes, except its rows.

    Attributes:
      attempt: As in `ShardInfo`.
    """

    def __init__(self, staging: Staging, name: str, context: bytes) -> None:
        self._folder = staging.place(DRAFTS)
        self._shard = draft_key(name)
        self._prefix = f"{self._shard}-{context.hex()}-"
        unique = uuid.uuid4().hex
        self._name = f"{self._prefix}{unique}.tmp"
        self.attempt = "" if staging.root.can_move else unique
        self.place = self.draft_of(staging.place(attempt_name(f"shards/{name}", self.attempt)))
        self._journal: BinaryIO | None = None
        self._size = 0
        self._mark: Location | None = None
        self._marked = time.monotonic()

    def __enter__(self) -> Self:
        self._folder.make_dirs()
        self._earlier = self._find_earlier() if self.place.is_local else None
        self._sink = self.place.open_output()
        if self.place.is_local:
            self._journal = _journal_of(self.place).open_scratch()
        return self

    def __exit__(self, *_: object) -> None:
        if self._journal is not None:
            self._journal.close()
        self._sink.close()

    def earlier_chunks(self) -> Generator[tuple[bytes, EncodedChunk]]:
        """Yield (digest of the rows up to its last one, chunk) of what an earlier attempt wrote."""
        if self._earlier is None:
            return
        try:
            yield from read_chunks(self._earlier)
        except MissingError:
            return  # another attempt has finished the shard
        # What it held is in this draft now.
        _delete(self._earlier)

    def append(self, chunk: EncodedChunk, digest: bytes) -> None:
        """Write a chunk, and then its entry in the journal. digest: of the rows up to its end."""
        self._sink.write(chunk.data)
        if self._journal is not None:
            self._sink.flush()
            self._journal.write(_entry(chunk, digest))
            self._journal.flush()
        else:
            self._size += len(chunk.data)
            if time.monotonic() - self._marked >= MARK_SECONDS:
                self._write_mark()

    def _write_mark(self) -> None:
        """Show the submitter how far the shard is; a failure does no harm."""
        with contextlib.suppress(StorageError):
            before, self._mark = self._mark, self._folder / begun_name(self._name, self._size)
            self._mark.write_bytes(b"")
            if before is not None:
                before.delete(missing_ok=True)
        self._marked = time.monotonic()

    def finish(self, place: Location) -> None:
        """Move the complete file to its place, and delete the drafts of earlier attempts."""
        if self.attempt:
            if self._mark is not None:
                self._mark.delete(missing_ok=True)
            return
        self.place.rename_to(place)
        for name in self._names(f"{self._shard}-"):
            (self._folder / name).delete(missing_ok=True)

    def draft_of(self, place: Location, suffix: str = "tmp") -> Location:
        """Return the place to which this attempt writes a file. place: of the complete file."""
        if self.attempt:
            return place
        return self._folder / f"{self._name.removesuffix('.tmp')}.{suffix}"

    def _find_earlier(self) -> Location | None:
        """Return the longest draft in the same context."""
        sizes = self._names(self._prefix)
        drafts = {name: size for name, size in sizes.items() if name.endswith(".tmp")}
        return self._folder / max(drafts, key=lambda name: drafts[name]) if drafts else None

    def _names(self, prefix: str) -> Mapping[str, int]:
        """Return {name: size} of the files of this shard."""
        found = self._folder.list_if_exists()
        return {entry.name: entry.size for entry in found if entry.name.startswith(prefix)}


def read_chunks(draft: Location) -> Iterator[tuple[bytes, EncodedChunk]]:
    """Yield (digest of the rows up to its last one, chunk) of the complete chunks of a draft.

    Raises:
      MissingError: the draft or its journal is missing.
    """
    with _journal_of(draft).open_input() as journal, draft.open_input() as data:
        yield from _chunks(journal, data)


def _journal_of(draft: Location) -> Location:
    return draft.parent / f"{draft.name.removesuffix('.tmp')}.journal"


def _delete(draft: Location) -> None:
    draft.delete(missing_ok=True)
    _journal_of(draft).delete(missing_ok=True)


def _entry(chunk: EncodedChunk, digest: bytes) -> bytes:
    """Return the entry of a chunk."""
    in_order = np.array_equal(chunk.kept, np.arange(len(chunk.lengths)))
    others = {
        field.name: getattr(chunk, field.name)
        for field in dataclasses.fields(chunk)
        if field.name in _OTHERS
    }
    sizes = chunk.sizes or (None, None)
    values: dict[str, Any] = {
        "lengths": chunk.lengths,
        "kept": None if in_order else chunk.kept,
        "names": chunk.names,
        "content": chunk.content,
        "width": sizes[0],
        "height": sizes[1],
        "facts": chunk.facts,
        "others": to_json(others).decode(),
    }
    columns = [_one(values[field.name], field.type) for field in _FIELDS]
    fields = batch.to_bytes(pa.RecordBatch.from_arrays(columns, schema=_FIELDS))
    data_hash = xxhash.xxh3_128_digest(chunk.data)
    entry = _HEADER.pack(len(fields), len(chunk.data), data_hash, digest) + fields
    return entry + xxhash.xxh3_64_digest(entry)


_OTHERS = (
    "rejects",
    "filtered",
    "filled",
    "objects",
    "dropped_objects",
    "reduced",
    "noted",
    "reused",
)


def _one(values: Any, kind: pa.DataType) -> pa.Array:
    """Return an array of one value: a list of values, or text."""
    if values is None or isinstance(values, str):
        return pa.array([values], kind)
    return pa.ListArray.from_arrays(
        pa.array([0, len(values)], pa.int32()), pa.array(values, kind.value_type)
    )


def _chunks(journal: BinaryIO, data: BinaryIO) -> Iterator[tuple[bytes, EncodedChunk]]:
    """Yield the chunks of a draft, up to the first incomplete or damaged one."""
    while True:
        header = journal.read(_HEADER.size)
        if len(header) < _HEADER.size:
            return
        size, length, data_hash, digest = _HEADER.unpack(header)
        if size > _MOST:
            return
        fields, checksum = journal.read(size), journal.read(_SUM)
        if xxhash.xxh3_64_digest(header + fields) != checksum:
            return
        content = data.read(length)
        if xxhash.xxh3_128_digest(content) != data_hash:
            return
        yield digest, _chunk(content, batch.from_bytes(fields))


def _chunk(data: bytes, fields: pa.RecordBatch) -> EncodedChunk:
    def numbers(name: str) -> Any:
        found = fields[name][0]
        return np.asarray(found.values) if found.is_valid else None

    lengths, kept, width = numbers("lengths"), numbers("kept"), numbers("width")
    others = json.loads(fields["others"][0].as_py())
    names, content = fields["names"][0], fields["content"][0]
    return EncodedChunk(
        data=data,
        lengths=lengths,
        kept=np.arange(len(lengths)) if kept is None else kept,
        rejects=[Reject(**one) for one in others["rejects"]],
        filtered=[(key, option) for key, option in others["filtered"]],
        names=names.as_py(),
        content=content.values if content.is_valid else None,
        sizes=None if width is None else (width, numbers("height")),
        filled=_pair(others["filled"]),
        objects=_pair(others["objects"]),
        dropped_objects=_counted(others["dropped_objects"]),
        reduced=Reduced(**others["reduced"]),
        noted=_counted(others["noted"]),
        facts=fields["facts"][0].as_py(),
        reused=others["reused"],
    )


def _counted(found: dict[str, list[Any]]) -> Counted:
    return {reason: (count, key) for reason, (count, key) in found.items()}


def _pair(found: list[int] | None) -> tuple[int, int] | None:
    return None if found is None else (found[0], found[1])
