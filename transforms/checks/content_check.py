"""The content check: finds records of equal content among the finished shards.

Records are grouped by the first half of the hash of their content, 8 bytes each, read from the
indexes in staging. The indexes are read again only if halves repeat. Copies that balancing made are
left out.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable, Iterator, Sequence

import apache_beam as beam
import numpy as np
import pyarrow as pa

from recordmill.checking.repeated_content import (
    COLUMNS,
    NAMES,
    Suspects,
    UInt64Array,
    content_halves,
    records_with,
    repeated_halves,
    report_on,
)
from recordmill.format.content_report import LISTED, ContentReport
from recordmill.format.shard_index import read_index, read_rows
from recordmill.format.typed_json import read_as
from recordmill.job.staging import ShardInfo, Staging, to_json
from recordmill.storage.files import Location, results_of_each
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.spill import Piece

_HASHES = ("copy", "content")
_INDEXES = 4  # read at the same time from a store
_UNREAD: Piece = (b"", "", 0, 0)

# (split, name of the index, sorted first halves of hashes; none if the index is to be read)
Halves = tuple[str, str, Piece]
BucketReport = tuple[int, bytes]  # (bucket, its report as JSON); buckets are ordered as the hashes


def hash_halves(
    written: tuple[ShardInfo, int], *, staging: Staging
) -> Iterator[tuple[int, Halves]]:
    """Yield (bucket, halves) for the contents of a shard.

    written: the shard, and the number of records that are planned for the dataset.
    Each bucket with repeated halves reads indexes again, so there are no more buckets than memory
    requires. Large indexes of a dataset that fits into memory are read only there.
    """
    info, planned = written
    name = info.staged_index
    if planned <= limits.INDEX_ROWS and info.shard.records >= limits.LARGE_INDEX_ROWS:
        yield 0, (info.split, name, _UNREAD)
        return
    halves = np.sort(
        content_halves(
            read_index(staging.nearest(name), columns=_HASHES, records=info.shard.records)
        )
    )
    parts = min(-(-planned // limits.CONTENT_ROWS), limits.PARTITIONS)
    edges = np.searchsorted(batch.scale(halves, parts), np.arange(parts + 1)) * halves.itemsize
    for bucket, piece in spill.put_bytes(halves.tobytes(), edges.tolist(), staging):
        yield bucket, (info.split, name, piece)


def find_repeated(bucket_halves: tuple[int, Iterable[Halves]], *, staging: Staging) -> BucketReport:
    """Report on the contents of a bucket, and write its leaks and conflicts into staging."""
    bucket, shards = bucket_halves
    unread = []
    pieces: dict[tuple[str, str], Piece] = {}
    for split, name, piece in shards:
        if piece == _UNREAD:
            unread.append((split, name))
        else:
            pieces[split, name] = piece
    contents = spill.get_all_bytes(pieces.values(), staging)
    halves = {
        one: np.frombuffer(data, np.uint64) for one, data in zip(pieces, contents, strict=True)
    }
    places = [staging.nearest(name) for _, name in unread]
    indexes: dict[str, pa.Table] = {}
    for one, index in zip(unread, results_of_each(_read, places, at=staging.root), strict=True):
        indexes[one[1]] = index
        halves[one] = content_halves(index)
    records = sum(map(len, halves.values()))
    repeated = repeated_halves(np.concatenate(list(halves.values())))
    suspected = [
        one
        for one in sorted(halves if len(repeated) else ())
        if one[1] in indexes or _have_any(halves[one], repeated)
    ]
    del halves

    def read_suspects(one: tuple[str, str]) -> Suspects:
        split, name = one
        place = staging.nearest(name)
        index = indexes.pop(name) if name in indexes else _read(place)
        read_names = functools.partial(read_rows, place, columns=NAMES, records=len(index))
        return records_with(index, repeated, split=split, read_names=read_names)

    suspects = list(results_of_each(read_suspects, suspected, at=staging.root, most=_INDEXES))
    report, lines = report_on(records, repeated, suspects)
    if report.leaks.contents or report.conflicts.contents:
        place = staging.place(_lines_file(bucket))
        place.parent.make_dirs()
        place.write_bytes(b"".join(lines), scratch=True)
    return bucket, to_json(report)


def find_all_repeated(
    contents: Sequence[tuple[int, Halves]], *, staging: Staging
) -> list[BucketReport]:
    """Report on the contents of all buckets, at most `limits.INDEX_ROWS` records, at once."""
    shards = [halves for _, halves in contents]
    return [find_repeated((0, shards), staging=staging)] if shards else []


def _have_any(halves: UInt64Array, some: UInt64Array) -> bool:
    """Return whether two sorted arrays have a value in common."""
    few, many = sorted((halves, some), key=len)
    places = np.searchsorted(many, few)
    return bool((many.take(places, mode="clip") == few).any()) if len(many) else False


def _read(place: Location) -> pa.Table:
    return read_index(place, columns=COLUMNS, dictionaries=("label",))


def summarize(
    reports: Iterable[BucketReport], staging: Staging
) -> tuple[ContentReport | None, bytes]:
    """Return the report on all contents, None if none was hashed, and leaks.jsonl."""
    found = [
        (bucket, read_as(ContentReport, json.loads(report))) for bucket, report in sorted(reports)
    ]
    found = [(bucket, report) for bucket, report in found if report.records]
    if not found:
        return None, b""
    blocks: list[bytes] = []
    missing = LISTED
    for bucket, report in found:
        if (report.leaks.contents or report.conflicts.contents) and missing:
            block = staging.place(_lines_file(bucket)).read_bytes()
            count = block.count(b"\n")
            if count > missing:
                block = b"".join(block.splitlines(keepends=True)[:missing])
            blocks.append(block)
            missing -= min(count, missing)
    return ContentReport.sum(report for _, report in found), b"".join(blocks)


def _lines_file(bucket: int) -> str:
    return f"leaks/{bucket:05d}.jsonl"


@dataclasses.dataclass(eq=False)
class CheckContent(beam.PTransform):
    """Compare the contents of all records: `hash_halves` of all shards in, reports out."""

    staging: Staging

    def __post_init__(self) -> None:
        super().__init__()

    def expand(
        self, contents: beam.PCollection[tuple[int, Halves]]
    ) -> beam.PCollection[BucketReport]:
        return (
            contents
            | "GroupByHalf" >> beam.GroupByKey()
            | "FindRepeated"
            >> beam.Map(find_repeated, staging=self.staging).with_output_types(BucketReport)
        )
