import os
import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest

from recordmill.files import Location
from recordmill.framing import frame
from recordmill.reader import DatasetDamagedError, read_examples, read_record
from recordmill.shard_index import IndexDamagedError
from tests.make_dataset import Row, flowers, make_dataset

COMPRESSIONS = pytest.mark.parametrize("compression", ["none", "gzip"])


def plain(example) -> dict:
    """Arrays as lists, so that Examples can be compared."""
    return {
        name: values if isinstance(values, list) else values.tolist()
        for name, values in example.items()
    }


def written(row: Row) -> dict:
    return {name: list(values) for name, values in row.values.items() if values is not None}


@COMPRESSIONS
def test_a_split_reads_back_as_it_was_written(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    for split, shards in flowers().items():
        rows = [row for shard in shards for row in shard]
        found = [plain(example) for example in read_examples(str(tmp_path / "out"), split)]
        assert found == [written(row) for row in rows]


def test_numbers_are_arrays_of_their_dtype(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    example = next(read_examples(Location.parse(str(tmp_path / "out")), "train"))
    assert example["image/class/label"].dtype == np.int64
    assert example["size"].dtype == np.float32


@COMPRESSIONS
def test_every_record_can_be_read_by_its_number(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    rows = [row for shard in flowers()["train"] for row in shard]
    for number, row in enumerate(rows):
        record = read_record(str(tmp_path / "out"), "train", number)
        assert (record.key, record.label, record.copy) == (row.key, row.label, row.copy)
        assert plain(record.example) == written(row)
        assert record.number == number % 3
        assert record.file.startswith(f"train.tfrecord-0000{number // 3}-of-00002")


def test_a_record_is_read_without_the_rest_of_its_shard(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "train.tfrecord-00001-of-00002"
    content = shard.read_bytes()
    shard.write_bytes(b"\xff" * 100 + content[100:])
    assert read_record(str(tmp_path / "out"), "train", 5).key == "e"


@pytest.mark.parametrize(
    ("split", "number", "message"),
    [
        ("dev", 0, "expected one of the splits ['test', 'train', 'validation'], got 'dev'"),
        ("train", 6, "expected a record of train from 0 to 5, got 6"),
        ("train", -1, "expected a record of train from 0 to 5, got -1"),
        ("test", 0, "test has no records"),
    ],
)
def test_a_record_that_is_not_there(split, number, message, tmp_path) -> None:
    make_dataset(tmp_path / "out")
    with pytest.raises(ValueError, match=re.escape(message)):
        read_record(str(tmp_path / "out"), split, number)


def test_a_split_that_is_not_there(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    with pytest.raises(ValueError, match="expected one of the splits"):
        next(read_examples(str(tmp_path / "out"), "dev"))


def test_damage_names_the_file_and_the_record(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "train.tfrecord-00001-of-00002"
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    message = "train.tfrecord-00001-of-00002, record 2: payload checksum does not match; run"
    with pytest.raises(DatasetDamagedError, match=message):
        list(read_examples(str(tmp_path / "out"), "train"))
    with pytest.raises(DatasetDamagedError, match=message):
        read_record(str(tmp_path / "out"), "train", 5)


def test_a_payload_that_is_no_example(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "out" / "train.tfrecord-00000-of-00002").write_bytes(frame(b"\x0a\xff"))
    with pytest.raises(DatasetDamagedError, match=r"train.tfrecord-00000-of-00002, record 0"):
        list(read_examples(str(tmp_path / "out"), "train"))


@COMPRESSIONS
def test_a_shard_that_ends_early(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    (shard,) = (tmp_path / "out").glob("validation.tfrecord-*")
    shard.write_bytes(b"")
    with pytest.raises(DatasetDamagedError, match="has no record 1"):
        read_record(str(tmp_path / "out"), "validation", 1)


def test_an_index_that_is_none(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "out" / "index" / "train-00000-of-00002.parquet").write_bytes(b"PAR1")
    with pytest.raises(IndexDamagedError, match="cannot be read as parquet"):
        read_record(str(tmp_path / "out"), "train", 0)


THREADS = """
import pathlib, sys
from recordmill.reader import read_record

read_record(sys.argv[1], "train", 0)
names = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
print(len(names) - names.count("jemalloc_bg_thd\\n"))
"""


def test_reading_starts_no_thread_that_may_outlive_the_interpreter(tmp_path: pathlib.Path) -> None:
    """One of Arrow's that then lets go of an object of Python ends the process with SIGABRT."""
    make_dataset(tmp_path / "out")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(tmp_path / "out")],
        check=True, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert int(done.stdout) == 1
