"""Contents of finished shards, compared index by index or in buckets."""

import types

import numpy as np
import pyarrow as pa
import pytest

from recordmill.format.content_hashes import content_hash
from recordmill.format.file_names import index_of
from recordmill.format.shard_index import index_bytes, schema
from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.checks.content_check import (
    find_all_repeated,
    find_repeated,
    hash_halves,
    summarize,
)
from recordmill.transforms.model import limits

SIZES = {"test": 60, "train": 400, "validation": 0}


def check(folder, *, contents=True, at_once=False):
    """Compare random contents of three shards, a third of which repeat."""
    staging = Staging.of(Location.parse(str(folder)), "job")
    staging.place("index").make_dirs()
    random = np.random.default_rng(0)
    buckets = {}
    for split, count in SIZES.items():
        columns = {
            "key": [f"{split} {number}" for number in range(count)],
            "label": random.choice(["a", "b"], count, p=[0.9, 0.1]).tolist(),
            "copy": [0] * count,
            "offset": range(0, 8 * count, 8),
            "length": [8] * count,
        }
        hashes = [content_hash(b"%d" % number) for number in random.integers(500, size=count)]
        columns |= {"content": hashes} if contents else {}
        table_schema = schema(columns)
        table = pa.table({name: columns[name] for name in table_schema.names}, schema=table_schema)
        shard = types.SimpleNamespace(file=f"{split}.tfrecord-00000-of-00001", records=count)
        index = index_of(shard.file)
        staging.place(index).write_bytes(index_bytes(table))
        info = types.SimpleNamespace(split=split, shard=shard, staged_index=index)
        for bucket, found in hash_halves((info, sum(SIZES.values())), staging=staging):
            buckets.setdefault(bucket, []).append(found)
    if at_once:
        everything = [(bucket, found) for bucket in buckets for found in buckets[bucket]]
        reports = find_all_repeated(everything, staging=staging)
    else:
        reports = [find_repeated(bucket, staging=staging) for bucket in buckets.items()]
    return (len(reports), *summarize(reports, staging))


@pytest.mark.parametrize(
    ("changed", "buckets"),
    [
        ({"LARGE_INDEX_ROWS": 0}, 1),
        ({"LARGE_INDEX_ROWS": 100}, 1),
        ({"INDEX_ROWS": 0, "CONTENT_ROWS": 100}, 5),
        ({"INDEX_ROWS": 0, "CONTENT_ROWS": 100, "PART_INLINE_BYTES": 0}, 5),
    ],
)
def test_all_ways_to_compare_contents_agree(changed, buckets, monkeypatch, tmp_path):
    _, expected, lines = check(tmp_path / "expected")
    assert expected.leaks.contents > 20
    assert expected.conflicts.contents > 5
    for name, value in changed.items():
        monkeypatch.setattr(limits, name, value)
    assert check(tmp_path / "found") == (buckets, expected, lines)
    if buckets == 1:
        assert check(tmp_path / "at once", at_once=True) == (1, expected, lines)


@pytest.mark.parametrize("large", [0, 1 << 14])
def test_without_contents_nothing_is_reported(large, monkeypatch, tmp_path):
    monkeypatch.setattr(limits, "LARGE_INDEX_ROWS", large)
    assert check(tmp_path, contents=False)[1:] == (None, b"")
