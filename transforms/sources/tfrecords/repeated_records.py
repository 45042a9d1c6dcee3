"""Records of TFRecord files that have the same key: equal ones count once, others are conflicts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import xxhash

from recordmill.errors import Reason, RecordError
from recordmill.job.input_facts import ColumnRoles
from recordmill.storage.files import Location
from recordmill.storage.members import Member
from recordmill.tfrecord.framing import FrameError, payload_of
from recordmill.transforms.sources.row_formats.column_types import ColumnType
from recordmill.transforms.sources.row_formats.open_rows import wanted_columns
from recordmill.transforms.sources.rows.record_columns import keys_of
from recordmill.transforms.sources.rows.repeated_rows import (
    Conflicts,
    RepeatedRows,
    repeated_hashes,
)
from recordmill.transforms.sources.tfrecords.record_frames import MISMATCH
from recordmill.transforms.sources.tfrecords.tfrecord_file import TfrecordFile


def find_repeated_records(
    files: Sequence[TfrecordFile], roles: ColumnRoles, *, conflicts: Conflicts | None, where: str
) -> RepeatedRows | None:
    """Read all keys, and return the collector of the records whose keys repeat.

    None if keys are unique, or conflicts are not decided. where: the input, for messages.
    """
    if conflicts is None or not roles.keys:
        return None
    wanted = wanted_columns(sorted(roles.keys), [], dict.fromkeys(roles.keys, ColumnType()))

    def read() -> Iterator[pa.Array]:
        for file in files:
            for rows in file.read_media(wanted, roles.keys, str(roles.main)):
                yield keys_of(rows, roles).drop_null()

    hashes = repeated_hashes(read)
    if not len(hashes):
        return None
    return RepeatedRows(hashes, conflicts=conflicts, file=where, content=_frame_hash)


def _frame_hash(path: str) -> int:
    """Return a hash of the frame of the record that a reference names.

    Raises:
      RecordError: the record does not match its checksum.
    """
    member = Member.of(path)
    assert member is not None, "records are members of their file"
    frame = Location.parse(member.archive).read_range(member.offset, member.length)
    try:
        payload_of(frame)
    except FrameError as error:
        raise RecordError(Reason.CORRUPT, MISMATCH) from error
    return xxhash.xxh3_64_intdigest(frame)
