"""Files of rows that claim more than they hold, and documents made to crash a parser.

Each is an error that names the file, or a reject, in little memory.
"""

import json
import shutil
import zlib

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.hostile_files import deep_columns
from tests.hostile_runs import run_limited
from tests.image_runs import run
from tests.paths import HOSTILE, SMALL_CLOTHING

pytestmark = pytest.mark.long


def zeros(path) -> None:
    """Write an Avro file whose block claims 2^40 rows."""
    fields = [{"name": "a", "type": "long"}]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [])
        sync = path.read_bytes()[-16:] if file.flush() is None else b""
        file.write(bytes([0x80, 0x80, 0x80, 0x80, 0x80, 0x40, 0]) + sync)


def many_keys(path) -> None:
    with path.open("w") as file:
        for number in range(20_000):
            file.write(json.dumps({f"key {number}": number}) + "\n")


def hidden_keys(path) -> None:
    """Write one row of many keys among rows of few."""
    rows = [{"a": 1}] * 40_000
    rows[777] = {f"key {number}": number for number in range(20_000)}
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def claimed_rows(path) -> None:
    """Write an Arrow file of a column without values, of 2^40 rows."""
    rows = 123_457
    with pa.ipc.new_file(path, pa.schema([pa.field("a", pa.null())])) as writer:
        writer.write(pa.record_batch([pa.nulls(rows)], names=["a"]))
    found, claimed = (n.to_bytes(8, "little") for n in (rows, 1 << 40))
    path.write_bytes(path.read_bytes().replace(found, claimed))


def long_number(path) -> None:
    path.write_text('{"a": 1}\n{"a": ' + "7" * 5000 + "}\n")


INFLATED = 100 << 20  # bytes

MADE = {
    "zeros.avro": (zeros, "claims 1099511627776 rows in 0 bytes"),
    "many_keys.jsonl": (many_keys, "20000 different keys in 20000 rows"),
    "hidden_keys.jsonl": (hidden_keys, "20001 different keys in 40000 rows"),
    "claimed_rows.arrow": (claimed_rows, "1099511627776 rows in "),
    "deep_columns.parquet": (deep_columns, "columns are nested more than 100 deep"),
}
COMMITTED = [
    *((f"arrow/{name}.arrow", "out of bounds") for name in ("binleak", "dict")),
    ("arrow/list2.arrow", "non-monotonic offset"),
    *((f"arrow/mutated_{number}.arrow", "out of bounds") for number in (29, 65)),
    ("avro/deep.avro", "is not an Avro file"),
    ("avro/loop.avro", "claims 0 rows in -18 bytes"),
    ("avro/mutated_3.avro", "damaged Avro"),
    ("avro/mutated_12.avro", "claims 127 rows in 0 bytes"),
    ("parquet/cell.parquet", "bytes each, more than --max-row-bytes"),
    ("parquet/dict.parquet", "hold rows of more than 1073741824 bytes"),
]


def test_hostile_files_of_rows_are_errors_by_name(tmp_path) -> None:
    files = [(HOSTILE / name, message) for name, message in COMMITTED]
    for name, (make, message) in MADE.items():
        make(tmp_path / name)
        files.append((tmp_path / name, message))
    runs = run_limited(
        *(("table", "--input", path, tmp_path / f"out{n}") for n, (path, _) in enumerate(files))
    )
    for (path, message), result in zip(files, runs, strict=True):
        assert result.code == 2, (path, result.errors)
        assert message in result.errors, (path, result.errors)
        assert path.name in result.errors


def number(value: int, width: int = 1) -> bytes:
    """Return a number as Avro and Thrift write it, in at least `width` bytes."""
    left, found = value << 1, b""
    while left > 127 or len(found) + 1 < width:
        found += bytes([left & 127 | 128])
        left >>= 7
    return found + bytes([left])


def inflating_avro(path) -> None:
    """Write an Avro file whose only block inflates to INFLATED bytes."""
    packed = zlib.compressobj(wbits=-zlib.MAX_WBITS)
    block = packed.compress(number(INFLATED))
    block += packed.flush(zlib.Z_FULL_FLUSH)
    # What is compressed after a full flush does not depend on what was before it.
    block += (packed.compress(b" " * (1 << 20)) + packed.flush(zlib.Z_FULL_FLUSH)) * (
        INFLATED >> 20
    )
    block += packed.flush()
    fields = [{"name": "a", "type": "string"}]
    with path.open("wb") as file:
        fastavro.writer(file, {"type": "record", "name": "r", "fields": fields}, [], "deflate")
        file.flush()
        sync = path.read_bytes()[-16:]
        file.write(number(1) + number(len(block)) + block + sync)


def inflating_parquet(path) -> None:
    """Write a Parquet file whose footer claims 100 bytes, and whose page has INFLATED bytes."""
    table = pa.table({"a": [" " * INFLATED]})
    pq.write_table(table, path, compression="gzip", use_dictionary=False, write_statistics=False)
    claimed = number(pq.read_metadata(path).row_group(0).total_byte_size)
    content = path.read_bytes()
    assert content.count(claimed) == 2  # of the column and of the row group
    path.write_bytes(content.replace(claimed, number(100, len(claimed))))


def test_files_that_inflate_without_saying_so_are_errors_by_name(tmp_path) -> None:
    """The command itself does not inflate them; its encoder processes have a limit on memory."""
    files = {"x.avro": inflating_avro, "x.parquet": inflating_parquet}
    for name, make in files.items():
        make(tmp_path / name)
    options = ("--max-worker-memory", INFLATED + (20 << 20), "--workers", 1)
    runs = run_limited(
        *(
            ("table", "--input", tmp_path / name, *options, tmp_path / f"{name}-out")
            for name in files
        )
    )
    for name, result in zip(files, runs, strict=True):
        assert result.code == 2, (name, result.errors)
        assert f"{name}: an encoder process needs more than --max-worker-memory" in result.errors
        assert result.peak < INFLATED + (100 << 20)


def test_large_rows_of_columnar_files_are_rejected(tmp_path) -> None:
    texts = ["a", "b" * 5000, "c", "d" * 5001, *"efgh"]
    table = pa.table({"text": texts})
    (tmp_path / "in").mkdir()
    pq.write_table(table, tmp_path / "in" / "x.parquet")
    with pa.ipc.new_file(tmp_path / "in" / "y.arrow", table.schema) as writer:
        writer.write_table(table)
    for name in ("x.parquet", "y.arrow"):
        output = tmp_path / f"{name}-out"
        options = ("--format", "auto", "--max-row-bytes", 4000, "--max-reject-fraction", 1)
        assert run("table", "--input", tmp_path / "in" / name, "--output", output, *options) == 0
        rejects = [json.loads(line) for line in (output / "rejects.jsonl").open()]
        assert [(one["key"], one["reason"]) for one in rejects] == [
            (f"{name}#2", "too_large"),
            (f"{name}#4", "too_large"),
        ]


def chained_entities() -> str:
    lines = ['<!DOCTYPE a [<!ENTITY e0 "x">']
    lines += [f'<!ENTITY e{n} "&e{n - 1};">' for n in range(1, 60_000)]
    return "\n".join([*lines, "]>", "<annotation>&e59999;</annotation>"])


def test_documents_that_crash_a_parser_are_rejects(tmp_path) -> None:
    photos, boxes = tmp_path / "photos", tmp_path / "boxes"
    photos.mkdir()
    boxes.mkdir()
    documents = {
        "chain": chained_entities(),
        "deep": "<annotation>" + "<a>" * 200_000 + "</a>" * 200_000 + "</annotation>",
        "good": "<annotation></annotation>",
    }
    for (name, text), photo in zip(documents.items(), SMALL_CLOTHING.rglob("*.jpg"), strict=False):
        shutil.copy(photo, photos / f"{name}.jpg")
        (boxes / f"{name}.xml").write_text(text)
    options = ("--annotations", boxes, "--unlabelled", "keep", "--splits", "train=1")
    long_number(tmp_path / "x.jsonl")
    annotated, numbers = run_limited(
        ("images", "--input", photos, *options, tmp_path / "out"),
        ("table", "--input", tmp_path / "x.jsonl", "--splits", "train=1", tmp_path / "out2"),
    )
    assert annotated.code == numbers.code == 0, (annotated.errors, numbers.errors)
    assert {"chain.jpg", "deep.jpg"} == annotated.made.rejects.keys()
    assert numbers.made.rejects == {"x.jsonl#2": "bad_value"}
