"""torch_dataset from a store: the order of local files, and workers that use the fast client."""

import pathlib
import subprocess
import sys

import pytest
from torch.utils.data import DataLoader

import recordmill
from recordmill.errors import StorageError
from recordmill.storage import storage_errors
from tests.numbered_records import (
    ORDERS,
    RECORDS,
    SEED,
    in_both_compressions,
    number_of,
    use_small_windows,
)
from tests.s3_store import S3Store

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    return in_both_compressions(tmp_path_factory.mktemp("numbered"))


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    use_small_windows(monkeypatch)
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0, 0, 0))
    monkeypatch.setattr(storage_errors, "OUTAGE_PAUSES", ())


def batches(place, *, workers: int, transform=number_of, **options) -> list[list[int]]:
    data = recordmill.torch_dataset(
        place, "train", batch_size=8, seed=SEED, transform=transform, **options
    )
    loader = DataLoader(data, batch_size=None, num_workers=workers)
    return [batch.tolist() for batch in loader]


@pytest.mark.parametrize(("options", "compression"), ORDERS[:4])
@pytest.mark.parametrize("workers", [0, 2])
def test_the_order_is_that_of_local_files(
    store: S3Store, folder, options, compression, workers
) -> None:
    expected = batches(folder / compression, workers=0, **options)
    uri = store.put_folder(folder / compression, "out")
    store.lost_every = 17
    assert batches(uri, workers=workers, **options) == expected


_PROGRAM = """
import os, signal, sys
import recordmill
from torch.utils.data import DataLoader
uri, dies = sys.argv[1:]
def number_of(record):
    if dies and record["number"] == 100:
        os.kill(os.getpid(), signal.SIGKILL)
    return int(record["number"])
data = recordmill.torch_dataset(uri, "train", batch_size=8, shuffle=True, transform=number_of)
loader = DataLoader(data, batch_size=None, num_workers=2)
print(sum(len(batch) for batch in loader))
"""


def run(uri: str, dies: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", _PROGRAM, uri, dies]
    return subprocess.run(command, capture_output=True, text=True, timeout=100)


def test_workers_send_one_request_for_a_range(store: S3Store, folder) -> None:
    """They are forked, but from a process without threads, as it has only opened the dataset."""
    done = run(store.put_folder(folder / "none", "out"), "")
    assert done.stdout.split() == [str(RECORDS)], done.stderr
    shards = [one for one in store.requests if ".tfrecord" in one.key]
    assert {one.operation for one in shards} == {"GET"}


def test_a_worker_that_dies_is_an_error(store: S3Store, folder) -> None:
    done = run(store.put_folder(folder / "none", "out"), "dies")
    assert (done.returncode, done.stdout) == (1, "")


def test_errors_of_workers_name_the_file(store: S3Store, folder) -> None:
    uri = store.put_folder(folder / "none", "out")
    store.faults["bucket/out/train.tfrecord-00003-of-00005"] = ("denied", 1000)
    with pytest.raises(StorageError, match=r"cannot read s3://bucket/out/train.tfrecord-00003"):
        batches(uri, workers=1)


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_workers_share_a_cache(store: S3Store, folder, compression, tmp_path) -> None:
    uri, options = store.put_folder(folder / compression, "out"), {"shuffle": True}
    options |= {"cache": tmp_path, "cache_size": 10**7}
    for _ in range(2):
        found = batches(uri, workers=2, **options)
        assert found == batches(folder / compression, workers=0, shuffle=True)
        sent = [one for one in store.requests if ".tfrecord" in one.key]
        store.requests.clear()
    assert not sent
