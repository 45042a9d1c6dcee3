"""Indexes of shards as Parquet."""

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.format.shard_index import (
    IndexDamagedError,
    index_bytes,
    read_index,
    read_rows,
    schema,
)
from recordmill.storage.files import Location


@pytest.mark.parametrize(("hashed", "expected"), [(True, "UNCOMPRESSED"), (False, "SNAPPY")])
def test_keys_are_compressed_unless_they_are_hashes(tmp_path, hashed, expected):
    rows = {"key": ["a", "b"], "label": ["x", None], "copy": [0, 1], "content": [bytes(16)] * 2}
    table = pa.table({**rows, "offset": [0, 19], "length": [19, 19]}, schema=schema(["content"]))
    path = tmp_path / "index.parquet"
    path.write_bytes(index_bytes(table, hashed_keys=hashed))
    group = pq.ParquetFile(path).metadata.row_group(0)
    found = {group.column(i).path_in_schema: group.column(i).compression for i in range(6)}
    assert found.pop("content") == "UNCOMPRESSED"
    assert found.pop("key") == expected
    assert set(found.values()) == {"SNAPPY"}
    assert read_index(Location.parse(str(path))).equals(table)


def test_rows_are_read_alone_and_labels_as_dictionaries(tmp_path):
    labels = ["a", None, "b", "a"] * 50_000
    rows = len(labels)
    table = pa.table(
        {
            "key": [f"key {number}" for number in range(rows)],
            "label": labels,
            "copy": [0] * rows,
            "offset": range(0, 20 * rows, 20),
            "length": [20] * rows,
        },
        schema=schema(),
    )
    place = Location.parse(str(tmp_path / "index.parquet"))
    place.write_bytes(index_bytes(table))
    whole = read_index(place, records=rows, dictionaries=["label"])
    assert pa.types.is_dictionary(whole["label"].type)
    assert whole["label"].to_pylist() == labels
    columns = ["key", "label"]
    for numbers in ([0], [3, 70_000], [rows - 1], [*range(99), rows - 2]):
        for dictionaries in ([], ["label"]):
            found = read_rows(
                place, numbers, columns=columns, dictionaries=dictionaries, records=rows
            )
            assert found.to_pylist() == table.select(columns).take(numbers).to_pylist()
    with pytest.raises(IndexDamagedError, match="has 200000 rows, the manifest says 7 records"):
        read_rows(place, [0], columns=columns, records=7)


def test_an_index_without_a_column_is_damaged(tmp_path):
    rows = {"key": ["a"], "label": ["x"], "copy": [0], "offset": [0], "length": [9]}
    table = pa.table(rows, schema=schema()).drop_columns(["label"])
    place = Location.parse(str(tmp_path / "index.parquet"))
    place.write_bytes(index_bytes(table))
    with pytest.raises(IndexDamagedError, match="expected the columns key string, label string"):
        read_index(place, dictionaries=["label"])
