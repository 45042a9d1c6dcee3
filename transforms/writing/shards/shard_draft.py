"""The draft of a shard: its temporary file, and a journal of the chunks that are in it.

A run that was killed leaves both. The next attempt copies the chunks that the journal describes,
each checked by its hash, and encodes from the first missing row on, so that the shard gets the same
bytes. Only local file systems keep half-written files; in object stores a draft has no journal.
There each attempt writes under a unique name, and the file keeps it: a move would copy the file.
"""

import contextlib
import time
import uuid
from collections.abc import Generator, Iterator, Mapping
from typing import BinaryIO, Self

from recordmill.job.staging import DRAFTS, Staging, attempt_name, begun_name, draft_key
from recordmill.storage.files import Location, MissingError, StorageError
from recordmill.transforms.staged.encoder_tasks import EncodedChunk
from recordmill.transforms.writing.shards.chunk_entries import StoredChunk, entry_of, read_entries

MARK_SECONDS = 5.0  # interval of marks of the bytes that were written to a store


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
        place = staging.place(attempt_name(f"shards/{name}", self.attempt))
        self.place = place if self.attempt else self.draft_of(place)
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

    def earlier_chunks(self) -> Generator[StoredChunk]:
        """Yield the chunks that an earlier attempt wrote."""
        if self._earlier is None:
            return
        try:
            yield from read_chunks(self._earlier)
        except MissingError:
            return  # another attempt has finished the shard
        # What it held is in this draft now.
        _delete(self._earlier)

    def append(self, chunk: EncodedChunk, digest: bytes) -> None:
        """Write a chunk, and then its entry in the journal. digest: of its rows."""
        self._sink.write(chunk.data)
        if self._journal is not None:
            self._sink.flush()
            self._journal.write(entry_of(chunk, digest))
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
        if self.attempt and not self._folder.is_local:
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


def read_chunks(draft: Location) -> Iterator[StoredChunk]:
    """Yield the complete chunks of a draft.

    Raises:
      MissingError: the draft or its journal is missing.
    """
    with _journal_of(draft).open_input() as journal, draft.open_input() as data:
        yield from read_entries(journal, data)


def _journal_of(draft: Location) -> Location:
    return draft.parent / f"{draft.name.removesuffix('.tmp')}.journal"


def _delete(draft: Location) -> None:
    draft.delete(missing_ok=True)
    _journal_of(draft).delete(missing_ok=True)
