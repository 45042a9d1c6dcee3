"""Depth of the columns of Parquet files, read from their footers."""

import io

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.format import parquet_footer
from recordmill.format.parquet_footer import check_footer


def written(table: pa.Table) -> io.BytesIO:
    file = io.BytesIO()
    pq.write_table(table, file)
    return file


def nested(levels: int) -> pa.Table:
    kind: pa.DataType = pa.int32()
    for _ in range(levels):
        kind = pa.struct([("a", kind), ("b", pa.int32())])
    return pa.table({"x": pa.nulls(2, kind), "y": pa.nulls(2, kind)})


@pytest.mark.parametrize("levels", [0, 1, 50, 99])
def test_files_of_parquet_writers_pass(levels: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet_footer, "_SMALL", 0)
    tables = [nested(levels), pa.table({f"column {n}": [[1.5]] for n in range(300)})]
    for table in tables:
        file = written(table.replace_schema_metadata({"a": "b" * 1000}))
        check_footer(file)
        assert file.tell() == 0


def test_deep_columns_are_refused() -> None:
    with pytest.raises(pa.ArrowInvalid, match="columns are nested more than 100 deep"):
        check_footer(written(nested(102)))


@pytest.mark.parametrize("content", [b"", b"PAR1", b"PAR1" * 3000, bytes(10_000), b"\x80" * 9000])
def test_other_damage_is_left_to_pyarrow(content: bytes) -> None:
    for tail in (b"", (8000).to_bytes(4, "little") + b"PAR1"):
        check_footer(io.BytesIO(content + tail))
