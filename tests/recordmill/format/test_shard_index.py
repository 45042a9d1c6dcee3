"""Indexes of shards as Parquet."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.format.shard_index import index_bytes, read_index, schema
from recordmill.storage.files import Location


@pytest.mark.parametrize(("hashed", "expected"), [(True, "UNCOMPRESSED"), (False, "SNAPPY")])
def test_keys_are_compressed_unless_they_are_hashes(tmp_path, hashed, expected):
    rows = {"key": ["a", "b"], "label": ["x", None], "copy": [0, 1], "offset": [0, 9]}
    table = pa.table({**rows, "length": [9, 9]}, schema=schema())
    path = tmp_path / "index.parquet"
    path.write_bytes(index_bytes(table, hashed_keys=hashed))
    group = pq.ParquetFile(path).metadata.row_group(0)
    found = {group.column(i).path_in_schema: group.column(i).compression for i in range(5)}
    assert found == {**dict.fromkeys(table.column_names, "SNAPPY"), "key": expected}
    assert read_index(Location.parse(str(path))).equals(table)
