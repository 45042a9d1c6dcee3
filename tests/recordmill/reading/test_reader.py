"""Reading without TensorFlow: in order, and by record number."""

import itertools
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest

import recordmill
from recordmill.format.manifest import ManifestError
from recordmill.format.shard_index import IndexDamagedError
from recordmill.reading import reader
from recordmill.reading.reader import DatasetDamagedError, RecordPlace, read_payloads
from recordmill.storage.files import Location
from recordmill.tfrecord.framing import frame
from tests.make_dataset import FEATURES, Row, flowers, make_dataset
from tests.paths import TFRECORDS
from tests.reading_page import pictures_dataset, python_of

COMPRESSIONS = pytest.mark.parametrize("compression", ["none", "gzip"])
ROWS = {split: [row for shard in shards for row in shard] for split, shards in flowers().items()}


def expected(row: Row) -> dict:
    """Return the values of a row as they are expected from the reader."""
    found = {}
    for name, feature in FEATURES.items():
        values = row.values.get(name)
        if name == "grid":
            (content,) = values
            found[name] = np.frombuffer(content, np.float32).reshape(2, 2)
        elif feature.shape == ():
            (found[name],) = values
        elif feature.dtype == "string":
            found[name] = np.array(values or [], object)
        else:
            found[name] = np.array(values, feature.dtype)
    return found


def assert_equal(record: dict, other: dict) -> None:
    assert record.keys() == other.keys()
    for name, value in record.items():
        assert np.array_equal(value, other[name]), name
        assert np.shape(value) == np.shape(other[name]), name


@COMPRESSIONS
def test_a_split_reads_back_as_it_was_written(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    for split, rows in ROWS.items():
        found = list(recordmill.read(tmp_path / "out", split))
        assert len(found) == len(rows)
        for record, row in zip(found, rows, strict=True):
            assert_equal(record, expected(row))


def test_without_a_split_all_are_read(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.open(tmp_path / "out")
    keys = [place.key for place in records.places()]
    rows = [row for split in ("train", "validation", "test") for row in ROWS[split]]
    assert keys == [row.key for row in rows]
    pictures = [row.values["image/encoded"][0] for row in rows]
    read = recordmill.read(tmp_path / "out")
    assert [record["image/encoded"] for record in read] == pictures
    assert [record["image/encoded"] for record in records] == pictures


def test_values_have_their_dtypes(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    record = next(recordmill.read(str(tmp_path / "out"), "train"))
    assert {name: getattr(value, "dtype", type(value)) for name, value in record.items()} == {
        "image/encoded": bytes,
        "image/class/label": np.int64,
        "image/class/text": bytes,
        "grid": np.float32,
        "size": np.float32,
        "caption": object,
    }
    record["grid"][0, 0] = 1  # arrays are writable copies


@COMPRESSIONS
def test_every_record_can_be_read_by_its_number(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    records = recordmill.open(tmp_path / "out", "train")
    rows = ROWS["train"]
    payloads = list(read_payloads(tmp_path / "out", "train"))
    assert len(records) == len(rows)
    for number, row in enumerate(rows):
        assert_equal(records[number], expected(row))
        assert_equal(records[number - len(rows)], expected(row))
        assert records.payload(number) == payloads[number]
        assert records.place(np.int64(number)) == RecordPlace(
            split="train",
            file=f"train.tfrecord-0000{number // 3}-of-00002"
            + (".gz" if compression == "gzip" else ""),
            number=number % 3,
            key=row.key,
            label=row.label,
            copy=row.copy,
        )
    for record, row in zip(records[4:1:-2], rows[4:1:-2], strict=True):
        assert_equal(record, expected(row))


def test_records_can_be_pickled_in_any_state(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.open(tmp_path / "out", "train")
    fresh = pickle.loads(pickle.dumps(records))
    assert_equal(fresh[5], records[5])
    assert_equal(pickle.loads(pickle.dumps(records))[5], records[5])
    assert repr(records) == f"<6 records of recordmill.open('{tmp_path}/out', 'train')>"


@COMPRESSIONS
def test_ranges_return_their_records(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    records = recordmill.open(tmp_path / "out")
    rows = [row for split in ("train", "validation", "test") for row in ROWS[split]]
    for first in range(-1, len(rows) + 1):
        for stop in range(first, len(rows) + 2):
            wanted = rows[max(first, 0) : stop] if stop > 0 else []
            for found in (records.between(first, stop), records[max(first, 0) : max(stop, 0)]):
                for record, row in zip(found, wanted, strict=True):
                    assert_equal(record, expected(row))
            payloads = list(records.payloads(first, stop))
            assert payloads == [records.payload(max(first, 0) + n) for n in range(len(wanted))]
            for number, payload in enumerate(payloads, start=max(first, 0)):
                assert_equal(records.decode(payload, number), expected(rows[number]))


@COMPRESSIONS
@pytest.mark.parametrize("near", [0, 1, 3, 32])
def test_any_chosen_records_are_read_in_order(
    near: int, compression: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reader, "_NEAR", near)
    make_dataset(tmp_path / "out", compression=compression)
    records, rows = recordmill.open(tmp_path / "out", "train"), ROWS["train"]
    for mask in itertools.product((False, True), repeat=len(rows)):
        numbers = [number for number, chosen in enumerate(mask) if chosen]
        for record, number in zip(records.records_at(numbers), numbers, strict=True):
            assert_equal(record, expected(rows[number]))


def test_records_are_read_by_the_index_in_any_order(tmp_path, monkeypatch) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.open(tmp_path / "out")
    expected = [*records.payloads()]
    ranges = []
    read_range = Location.read_range

    def noted(self, offset: int, length: int) -> bytes:
        ranges.append((self.name, offset, length))
        return read_range(self, offset, length)

    monkeypatch.setattr(Location, "read_range", noted)
    for numbers in ([], [7, 0, 3, 3, 1], [*range(8)], [*reversed(range(8))]):
        found = records.payloads_at(np.array(numbers, np.int64))
        assert found == [expected[number] for number in numbers]
    ranges.clear()
    records.payloads_at(np.arange(8))
    assert [(name, offset) for name, offset, _ in ranges] == [
        (shard.file, 0)
        for split in records.manifest.splits.values()
        for shard in split.shards
        if shard.records
    ], "each shard at once"
    ranges.clear()
    monkeypatch.setattr(reader, "_NEAR_BYTES", -1)
    records.payloads_at(np.arange(8))
    assert len(ranges) == 8
    for number in (-1, 8):
        with pytest.raises(IndexError, match="expected records from 0 to 7"):
            records.payloads_at(np.array([0, number]))


def test_gzip_records_are_not_read_by_the_index(tmp_path) -> None:
    make_dataset(tmp_path / "out", compression="gzip")
    with pytest.raises(ValueError, match="a gzip shard is read from its start for every record"):
        recordmill.open(tmp_path / "out").payloads_at(np.array([1]))


def test_damage_of_records_that_are_read_by_the_index(tmp_path) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.open(tmp_path / "out")
    file = tmp_path / "out" / records.place(1).file
    content = file.read_bytes()
    file.write_bytes(content[:-1])
    count = sum(place.file == file.name for place in records.places())
    with pytest.raises(DatasetDamagedError, match=rf"{file.name}, record {count - 1}: .*; run"):
        records.payloads_at(np.arange(count))
    assert len(records.payloads_at(np.arange(count - 1))) == count - 1
    file.write_bytes(b"")
    with pytest.raises(DatasetDamagedError, match=rf"{file.name}, record 0: it is missing"):
        records.payloads_at(np.arange(count))


@pytest.mark.parametrize(
    ("compression", "part", "expected"),
    [
        ("none", range(0, 8), [range(0, 3), range(3, 6), range(6, 8)]),
        ("none", range(1, 5), [range(1, 4), range(4, 5)]),
        ("none", range(4, 4), []),
        ("gzip", range(0, 8), [range(0, 3), range(3, 6), range(6, 8)]),
        ("gzip", range(1, 5), [range(1, 3), range(3, 5)]),
    ],
)
def test_blocks_of_records(compression, part, expected, tmp_path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    records = recordmill.open(tmp_path / "out")
    assert records.blocks(part, size=3) == expected
    assert records.blocks(part, size=100) == (
        expected if compression == "gzip" else [part] * bool(part)
    )
    size = sum(path.stat().st_size for path in (tmp_path / "out").glob("*.tfrecord-*"))
    assert records.mean_bytes == size / 8
    assert records.layout.record_bytes == size / 8
    assert records.layout.seekable == (compression == "none")


def test_a_range_is_read_in_one_pass_from_its_first_record(tmp_path, monkeypatch) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "train.tfrecord-00001-of-00002"
    content = shard.read_bytes()
    shard.write_bytes(b"\xff" * 100 + content[100:])
    records = recordmill.open(tmp_path / "out", "train")
    opened = []
    real = Location.open_input
    monkeypatch.setattr(Location, "open_input", lambda at: opened.append(at.name) or real(at))
    for record, row in zip(records[4:], ROWS["train"][4:], strict=True):
        assert_equal(record, expected(row))
    assert opened == ["train-00001-of-00002.parquet", shard.name] or opened == [
        shard.name,
        "train-00001-of-00002.parquet",
    ]
    assert len(list(records.between(0, 3))) == 3


def test_a_range_that_ends_before_the_damage(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "train.tfrecord-00001-of-00002"
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    records = recordmill.open(tmp_path / "out", "train")
    assert len(records[:5]) == 5
    with pytest.raises(DatasetDamagedError, match="00001-of-00002, record 2: payload checksum"):
        records[4:]


@COMPRESSIONS
def test_only_selected_features_are_decoded(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    names = ["size", "image/class/label", "caption"]
    records = recordmill.open(tmp_path / "out", "train", features=names)
    read = recordmill.read(tmp_path / "out", "train", features=names)
    for number, (record, row) in enumerate(zip(read, ROWS["train"], strict=True)):
        wanted = {name: value for name, value in expected(row).items() if name in names}
        assert_equal(record, wanted)
        assert_equal(records[number], wanted)
    message = "expected features among caption, .*, got 'sise' .did you mean 'size'"
    for call in (recordmill.read, recordmill.open):
        with pytest.raises(ValueError, match=message):
            call(tmp_path / "out", features=["sise"])


@COMPRESSIONS
def test_a_file_with_too_many_records(compression: str, tmp_path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    (shard,) = (tmp_path / "out").glob("validation.tfrecord-*")
    shard.write_bytes(shard.read_bytes() * 2)
    message = "record 2: the file has more than the 2 records of the manifest"
    with pytest.raises(DatasetDamagedError, match=message):
        list(recordmill.read(tmp_path / "out", "validation"))


def test_an_index_of_other_records(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "validation.tfrecord-00000-of-00001"
    content = shard.read_bytes()
    shard.write_bytes(frame(b"another") + content)
    with pytest.raises(DatasetDamagedError, match="record 0: expected one frame of"):
        recordmill.open(tmp_path / "out", "validation")[0]


def test_the_code_of_the_page_runs(tmp_path, monkeypatch) -> None:
    pictures_dataset(tmp_path / "out", records=2000)
    theirs = TFRECORDS / "tensorflow-images.tfrecord"
    (tmp_path / "theirs.tfrecord").write_bytes(theirs.read_bytes())
    monkeypatch.chdir(tmp_path)
    namespace: dict = {}
    for code in python_of("reading.md"):
        if "torch" not in code:  # tests/torch has those
            exec(code, namespace)
    assert len(namespace["records"]) == 2000
    assert len(namespace["record"]["image_raw"][0]) > 10_000


def test_a_record_is_read_without_the_rest_of_its_shard(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "train.tfrecord-00001-of-00002"
    content = shard.read_bytes()
    shard.write_bytes(b"\xff" * 100 + content[100:])
    assert_equal(recordmill.open(tmp_path / "out", "train")[5], expected(ROWS["train"][5]))


@pytest.mark.parametrize("number", [6, -7, 10**12])
def test_a_record_number_out_of_range(number, tmp_path) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.open(tmp_path / "out", "train")
    with pytest.raises(IndexError, match=f"expected a record of train from 0 to 5, got {number}"):
        records[number]


def test_a_split_without_records(tmp_path) -> None:
    make_dataset(tmp_path / "out")
    assert list(recordmill.open(tmp_path / "out", "test")) == []
    with pytest.raises(IndexError, match="there are no records of test, got 0"):
        recordmill.open(tmp_path / "out", "test")[0]


@pytest.mark.parametrize("call", [recordmill.read, recordmill.open, read_payloads])
def test_missing_datasets_and_splits_fail_at_the_call(call, tmp_path: pathlib.Path) -> None:
    with pytest.raises(ManifestError, match="no dataset"):
        call(tmp_path)
    make_dataset(tmp_path / "out")
    message = "expected one of the splits train, validation, test, got 'dev'"
    with pytest.raises(ValueError, match=message):
        call(tmp_path / "out", "dev")


def test_damage_names_the_file_and_the_record(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    shard = tmp_path / "out" / "train.tfrecord-00001-of-00002"
    content = bytearray(shard.read_bytes())
    content[-5] ^= 1
    shard.write_bytes(content)
    message = "train.tfrecord-00001-of-00002, record 2: payload checksum does not match; run"
    with pytest.raises(DatasetDamagedError, match=message):
        list(recordmill.read(tmp_path / "out", "train"))
    with pytest.raises(DatasetDamagedError, match=message):
        recordmill.open(tmp_path / "out", "train")[5]


def test_a_payload_that_is_not_an_example(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "out" / "train.tfrecord-00000-of-00002").write_bytes(frame(b"\x0a\xff"))
    with pytest.raises(DatasetDamagedError, match=r"train.tfrecord-00000-of-00002, record 0"):
        list(recordmill.read(tmp_path / "out", "train"))


@COMPRESSIONS
def test_a_shard_that_ends_early(compression: str, tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out", compression=compression)
    (shard,) = (tmp_path / "out").glob("validation.tfrecord-*")
    shard.write_bytes(b"")
    with pytest.raises(DatasetDamagedError, match="record 1: it is missing"):
        recordmill.open(tmp_path / "out", "validation")[1]
    with pytest.raises(
        DatasetDamagedError, match="record 0: it is missing; the manifest says 2 records"
    ):
        list(recordmill.read(tmp_path / "out", "validation"))


def test_an_invalid_index(tmp_path: pathlib.Path) -> None:
    make_dataset(tmp_path / "out")
    (tmp_path / "out" / "index" / "train-00000-of-00002.parquet").write_bytes(b"PAR1")
    with pytest.raises(IndexDamagedError, match="cannot be read as Parquet"):
        recordmill.open(tmp_path / "out", "train")[0]


THREADS = """
import pathlib, sys

import recordmill

recordmill.open(sys.argv[1], "train")[0]
names = [path.read_text() for path in pathlib.Path("/proc/self/task").glob("*/comm")]
print(len(names) - names.count("jemalloc_bg_thd\\n"))
"""


def test_reading_starts_no_thread_that_may_outlive_the_interpreter(tmp_path: pathlib.Path) -> None:
    """An Arrow thread that releases a Python object during exit aborts the process."""
    make_dataset(tmp_path / "out")
    environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", THREADS, str(tmp_path / "out")],
        check=True, capture_output=True, text=True, env=environment,
    )  # fmt: skip
    assert int(done.stdout) == 1
