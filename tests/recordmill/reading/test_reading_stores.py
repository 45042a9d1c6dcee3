"""Datasets in stores: records in the order of local files, whatever requests fail."""

import pathlib
from collections.abc import Iterator

import numpy as np
import pytest

import recordmill
from recordmill.errors import ConfigError, StorageError
from recordmill.format.replaced_datasets import DatasetReplacedError
from recordmill.reading import reader
from recordmill.reading.epoch_reader import SourceReader
from recordmill.reading.reader import DatasetDamagedError, Records
from recordmill.reading.sequence import EpochSequence
from recordmill.storage import block_cache, range_reads, read_ahead, s3_objects, storage_errors
from recordmill.storage.storage_errors import MissingError
from tests.numbered_records import (
    RECORDS,
    SEED,
    in_both_compressions,
    number_of,
    numbered_dataset,
    use_small_windows,
)
from tests.s3_store import LASTING, S3Store

COMPRESSIONS = pytest.mark.parametrize("compression", ["none", "gzip"])
SHARD = "bucket/none/train.tfrecord-00003-of-00005"
PARTS = ["read", "window"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    """`none` and `gzip`."""
    return in_both_compressions(tmp_path_factory.mktemp("numbered"))


@pytest.fixture(autouse=True)
def small_reads(monkeypatch) -> None:
    """Windows of six blocks, pieces of seven records, and no pauses before retries."""
    use_small_windows(monkeypatch)
    monkeypatch.setattr(range_reads, "_PIECE", 1000)
    monkeypatch.setattr(reader, "_NEAR_BYTES", 0)
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0, 0, 0))
    monkeypatch.setattr(storage_errors, "OUTAGE_PAUSES", ())


def is_free() -> bool:
    """Return whether no range is held, once the last answers have come."""
    reads = read_ahead._reads
    if reads.threads is not None:
        reads.threads.shutdown()
        reads.threads = None
    return (reads.requests, reads.bytes) == (0, 0)


def payloads_of_epoch(records: Records) -> Iterator[tuple[int, bytes]]:
    """The numbers and payloads of an epoch in windowed order."""
    sequence = EpochSequence.of(records, order="windowed", seed=SEED)
    places = [sequence.locate(1, np.arange(len(records)))]
    return SourceReader(records, sequence).read(places)


def epoch(records: Records) -> list[int]:
    """The numbers of an epoch in windowed order."""
    found = payloads_of_epoch(records)
    return [number_of(records.decode(payload, number)) for number, payload in found]


def numbers(place: str, part: str) -> list[int]:
    if part == "window":
        return epoch(recordmill.open(place, "train"))
    return [number_of(record) for record in recordmill.read(place, "train")]


@COMPRESSIONS
def test_records_are_those_of_local_files(store: S3Store, folder, compression) -> None:
    uri = store.put_folder(folder / compression, "out")
    there, here = recordmill.open(uri), recordmill.open(folder / compression)
    assert [*map(number_of, there)] == [*map(number_of, here)]
    assert [*there.payloads(55, 70)] == [*here.payloads(55, 70)]
    assert [*map(number_of, there[150:])] == [*map(number_of, here[150:])]
    assert there.payload(RECORDS - 1) == here.payload(RECORDS - 1)
    assert epoch(there) == epoch(here)
    assert is_free()


def test_single_records_are_read_side_by_side(store: S3Store, folder) -> None:
    there = recordmill.open(store.put_folder(folder / "none", "out"), "train")
    wanted = np.random.default_rng(1).permutation(RECORDS)[:150]
    here = recordmill.open(folder / "none", "train")
    assert there.payloads_at(wanted) == here.payloads_at(wanted)
    assert there.payloads_at(wanted[:0]) == []
    with pytest.raises(IndexError, match="from 0 to 210"):
        there.payloads_at(np.array([211]))
    assert is_free()


@pytest.mark.parametrize("part", PARTS)
def test_ranges_are_read_before_they_are_needed(store: S3Store, folder, part) -> None:
    records = recordmill.open(store.put_folder(folder / "none", "out"), "train")
    found = payloads_of_epoch(records) if part == "window" else records.payloads()
    next(found)
    assert read_ahead._reads.requests > 6
    del found
    assert is_free()


def test_a_small_budget_changes_nothing(store: S3Store, folder, monkeypatch) -> None:
    monkeypatch.setattr(read_ahead, "BYTES", 1500)
    uri = store.put_folder(folder / "none", "out")
    for part in PARTS:
        assert numbers(uri, part) == numbers(str(folder / "none"), part)
    assert is_free()


@COMPRESSIONS
@pytest.mark.parametrize("part", PARTS)
def test_lost_requests_lose_no_records(store: S3Store, folder, compression, part) -> None:
    uri = store.put_folder(folder / compression, "out")
    store.lost_every = 13
    assert numbers(uri, part) == numbers(str(folder / compression), part)
    assert is_free()


@pytest.mark.parametrize("kind", ["failing", "error", "cut", "short", "unsized", "flipped"])
@pytest.mark.parametrize("part", PARTS)
def test_a_fault_that_passes_changes_nothing(store: S3Store, folder, part, kind) -> None:
    uri = store.put_folder(folder / "none", "none")
    store.faults[SHARD] = (kind, 1)
    assert numbers(uri, part) == numbers(str(folder / "none"), part)
    assert is_free()


@pytest.mark.parametrize("kind", LASTING)
@pytest.mark.parametrize("part", PARTS)
def test_a_fault_that_stays_is_one_sentence(
    store: S3Store, folder, part, kind, monkeypatch
) -> None:
    if kind == "stalled":
        monkeypatch.setattr(s3_objects, "STALL_SECONDS", 0.2)
        monkeypatch.setattr(storage_errors, "PAUSES", (0,))
    uri = store.put_folder(folder / "none", "none")
    store.faults[SHARD] = (kind, 1000)
    with pytest.raises(StorageError) as caught:
        numbers(uri, part)
    assert str(caught.value).startswith(f"cannot read s3://{SHARD}?")
    assert f": {LASTING[kind]}" in str(caught.value)
    assert "\n" not in str(caught.value)
    assert is_free()


@pytest.mark.parametrize("part", PARTS)
def test_damage_is_an_error_after_the_records_before_it(store: S3Store, folder, part) -> None:
    uri = store.put_folder(folder / "none", "none")
    content = store.get(SHARD).content
    store.put(SHARD, content[:-100])
    with pytest.raises(DatasetDamagedError, match="00003-of-00005, record 88: "):
        numbers(uri, part)
    store.delete(SHARD)
    with pytest.raises(MissingError, match=f"cannot read s3://{SHARD}"):
        numbers(uri, part)
    found = []
    store.put(SHARD, content + b"x")
    with pytest.raises(DatasetDamagedError, match="record 89"):
        found.extend(number_of(record) for record in recordmill.read(uri, "train"))
    assert found == [*range(150)]
    assert is_free()


def test_a_replaced_dataset_is_reported(store: S3Store, folder) -> None:
    records = recordmill.open(store.put_folder(folder / "none", "none"), "train")
    store.put("bucket/none/dataset.json", b"{}")
    with pytest.raises(DatasetReplacedError):
        epoch(records)
    assert is_free()


def shard_requests(store: S3Store) -> int:
    return sum(".tfrecord" in one.key for one in store.requests)


@COMPRESSIONS
@pytest.mark.parametrize("part", PARTS)
def test_a_cache_serves_later_epochs(
    store: S3Store, folder, compression, part, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(block_cache, "BLOCK", 500)
    uri, expected = store.put_folder(folder / compression, "out"), str(folder / compression)
    for number in range(3):
        store.requests.clear()
        records = recordmill.open(uri, "train", cache=tmp_path, cache_size="1MB")
        found = epoch(records) if part == "window" else [*map(number_of, records)]
        assert found == numbers(expected, part)
        assert (shard_requests(store) > 0) == (number == 0)
    assert is_free()


def test_a_small_cache_never_has_more_bytes_than_its_size(
    store: S3Store, folder, tmp_path, monkeypatch
) -> None:
    monkeypatch.setattr(block_cache, "BLOCK", 500)
    monkeypatch.setattr(block_cache, "_LEAST", 1000)
    uri = store.put_folder(folder / "none", "out")
    store.lost_every = 23
    records = recordmill.open(uri, "train", cache=tmp_path, cache_size=3000)
    for _ in range(2):
        assert epoch(records) == numbers(str(folder / "none"), "window")
        files = [path for path in tmp_path.rglob("*") if path.is_file()]
        assert 1000 < sum(path.stat().st_size for path in files) <= 3000


@COMPRESSIONS
@pytest.mark.parametrize("part", PARTS)
def test_a_forged_cache_is_read_from_the_store_again(
    store: S3Store, folder, compression, part, tmp_path, caplog
) -> None:
    """Its blocks have the right hashes, but the records in them do not."""
    uri = store.put_folder(folder / compression, "out")
    options = {"cache": tmp_path, "cache_size": 10**7}
    expected = numbers(str(folder / compression), part)

    def found() -> list[int]:
        records = recordmill.open(uri, "train", **options)
        return epoch(records) if part == "window" else [*map(number_of, records)]

    assert found() == expected
    for path in tmp_path.rglob("*"):
        if path.is_file() and path.name != "usage":
            data = bytearray(path.read_bytes()[16:])
            data[len(data) // 2] ^= 255
            path.write_bytes(block_cache._sum(path.name, bytes(data)) + data)
    assert found() == expected
    assert "is damaged: they are read from the store again" in caplog.text
    store.requests.clear()
    assert found() == expected
    assert shard_requests(store) == 0


def test_a_replaced_dataset_is_not_served_from_the_cache(store: S3Store, folder, tmp_path) -> None:
    uri = store.put_folder(folder / "none", "out")
    assert len([*recordmill.read(uri, "train", cache=tmp_path)]) == RECORDS
    other = numbered_dataset(tmp_path / "other", first=1000)
    store.put_folder(other, "out")
    found = [number_of(one) for one in recordmill.read(uri, "train", cache=tmp_path)]
    assert found == [*range(1000, 1000 + RECORDS)]


def test_a_cache_needs_a_dataset(folder, tmp_path) -> None:
    with pytest.raises(ConfigError, match="cache: only files of a dataset can be cached"):
        recordmill.read(folder / "none" / "train.tfrecord-00000-of-00005", cache=tmp_path)
    with pytest.raises(ConfigError, match="cache_size applies to a cache"):
        recordmill.open(folder / "none", cache_size=10**9)


def test_items_of_grain_are_those_of_local_files(store: S3Store, folder, tmp_path) -> None:
    uri, options = store.put_folder(folder / "none", "out"), {"shuffle": True, "seed": SEED}
    store.lost_every = 19
    there = recordmill.grain_source(uri, "train", cache=tmp_path, cache_size=10**7, **options)
    here = recordmill.grain_source(folder / "none", "train", **options)
    wanted = range(0, RECORDS, 2)
    expected = [*map(number_of, here.__getitems__(wanted))]
    for _ in range(2):
        assert [*map(number_of, there.__getitems__(wanted))] == expected
    assert number_of(there[17]) == number_of(here[17])
    assert is_free()


def test_a_manifest_that_cannot_be_read_is_one_sentence(store: S3Store, folder) -> None:
    uri = store.put_folder(folder / "none", "out")
    store.faults["bucket/out/dataset.json"] = ("denied", 1000)
    with pytest.raises(StorageError, match=r"cannot read s3://bucket/out/dataset\.json") as caught:
        recordmill.open(uri)
    assert "\n" not in str(caught.value)
