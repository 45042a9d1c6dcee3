"""With PyTorch itself: the iterable dataset, and `recordmill.open` as a map-style one."""

import collections
import itertools
import os
import pathlib
import pickle
import subprocess
import sys

import numpy as np
import pytest
import torch
from torch.utils.data import DataLoader, RandomSampler, default_collate

import recordmill
from recordmill.errors import ConfigError
from recordmill.format.manifest import ManifestError
from recordmill.reading.torch_records import collate
from recordmill.tfrecord.decode import decode_example
from recordmill.tfrecord.features import Feature
from tests.make_dataset import Row, flowers, make_dataset
from tests.reading_page import pictures_dataset, python_of

# Three workers on two cores.
pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")

COMPRESSIONS = pytest.mark.parametrize("compression", ["none", "gzip"])
RECORDS = 101
FEATURES = {
    "name": Feature(dtype="string", kind="text"),
    "number": Feature(dtype="int64"),
    "size": Feature(dtype="float32", shape=(3,)),
    "words": Feature(dtype="string", shape=(2,), kind="text"),
    "many": Feature(dtype="int64", shape=(None,)),
}


def row(number: int) -> Row:
    values = {
        "name": [b"n%03d" % number],
        "number": [number],
        "size": [1.0, 2.0, float(number)],
        "words": [b"a", b"b%d" % number],
        "many": [*range(number % 4)] or None,
    }
    return Row(key=f"n{number:03d}", label="rose", values=values)


@pytest.fixture(scope="session")
def numbered(tmp_path_factory) -> pathlib.Path:
    """`none` and `gzip`: 101 records in four shards of train."""
    folder = tmp_path_factory.mktemp("numbered")
    rows = [row(number) for number in range(RECORDS)]
    shards = [rows[:40], rows[40:41], rows[41:70], rows[70:]]
    splits = {"train": shards, "validation": [[row(500)]], "test": []}
    for compression in ("none", "gzip"):
        make_dataset(folder / compression, splits, features=FEATURES, compression=compression)
    return folder


def number_of(record: dict) -> int:
    return int(record["number"])


def numbers(loader: DataLoader) -> list[int]:
    return [number for batch in loader for number in batch.tolist()]


@pytest.fixture
def small_blocks(monkeypatch) -> None:
    """As if the records were many: windows of three blocks, of three or four records."""
    monkeypatch.setattr("recordmill.reading.epoch_order.LANES", (3, 1))
    monkeypatch.setattr("recordmill.reading.epoch_order.WINDOW_BYTES", 11 * 130)


@COMPRESSIONS
@pytest.mark.parametrize("workers", [0, 1, 2, 3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_the_same_records_as_read(numbered, compression, workers, shuffle, small_blocks) -> None:
    records = recordmill.torch_dataset(numbered / compression, "train", shuffle=shuffle)
    found = {r["name"]: r for r in DataLoader(records, batch_size=None, num_workers=workers)}
    read = {record["name"]: record for record in recordmill.read(numbered / compression, "train")}
    assert len(records) == len(found) == RECORDS
    assert found.keys() == read.keys()
    for name, record in read.items():
        assert found[name].keys() == record.keys()
        for feature, value in record.items():
            assert np.array_equal(found[name][feature], value), feature


@COMPRESSIONS
@pytest.mark.parametrize("workers", [0, 2, 3])
@pytest.mark.parametrize("shuffle", [False, True])
def test_each_record_once_between_hosts_and_workers(
    numbered, compression, workers, shuffle, small_blocks
) -> None:
    found: collections.Counter[int] = collections.Counter()
    sizes = []
    for host in range(3):
        part = recordmill.torch_dataset(
            numbered / compression,
            "train",
            shuffle=shuffle,
            shard=(3, host),
            transform=number_of,
        )
        of_host = numbers(DataLoader(part, batch_size=5, num_workers=workers))
        assert len(of_host) == len(part)
        found.update(of_host)
        sizes.append(len(of_host))
    assert found == collections.Counter(range(RECORDS))
    assert max(sizes) - min(sizes) == 1


def test_without_shuffling_the_order_is_that_on_disk(numbered) -> None:
    records = recordmill.torch_dataset(numbered / "none", "train", transform=number_of)
    assert [*records] == [*range(RECORDS)]
    assert len(recordmill.torch_dataset(numbered / "none")) == RECORDS + 1


@COMPRESSIONS
@pytest.mark.parametrize(("workers", "persistent"), [(0, False), (2, False), (2, True)])
def test_epochs_have_their_own_orders_which_repeat(
    numbered, compression, workers, persistent, small_blocks
) -> None:
    def orders(seed: int) -> list[list[int]]:
        records = recordmill.torch_dataset(
            numbered / compression, "train", shuffle=True, seed=seed, transform=number_of
        )
        loader = DataLoader(
            records, batch_size=4, num_workers=workers, persistent_workers=persistent
        )
        found = []
        for epoch in (0, 1, 2, 1):
            records.set_epoch(epoch)
            found.append(numbers(loader))
        return found

    found = orders(7)
    assert found[1] == found[3]
    assert found == orders(7)
    several = [*found[:3], *orders(8)[:3]]
    for one, other in itertools.combinations(several, 2):
        assert one != other
        assert sorted(one) == sorted(other) == [*range(RECORDS)]


def test_shuffling_moves_records_far(numbered, small_blocks) -> None:
    records = recordmill.torch_dataset(
        numbered / "none", "train", shuffle=True, transform=number_of
    )
    moved = [abs(place - number) for place, number in enumerate(records)]
    assert np.mean(moved) > RECORDS / 6  # a third of them, if all records were shuffled


def test_default_collate_takes_it(numbered) -> None:
    records = recordmill.torch_dataset(
        numbered / "none", "train", features=["name", "number", "size", "words"]
    )
    batch = next(iter(DataLoader(records, batch_size=3, num_workers=1)))
    assert batch["name"] == [b"n000", b"n001", b"n002"]
    assert batch["number"].dtype == torch.int64
    assert batch["number"].tolist() == [0, 1, 2]
    assert batch["size"].dtype == torch.float32
    assert batch["size"].tolist() == [[1, 2, 0], [1, 2, 1], [1, 2, 2]]
    assert batch["words"] == [(b"a", b"a", b"a"), (b"b0", b"b1", b"b2")]


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "int64", "float32", "bool"])
def test_batches_are_those_of_default_collate(dtype) -> None:
    samples = [
        {
            "array": np.full((2, 3), number, dtype),
            "pair": (np.full(4, number, dtype), np.dtype(dtype).type(number)),
            "text": b"%d" % number,
            "list": [number, 2.0],
            "names": ["a", "b"],
        }
        for number in range(3)
    ]
    found, wanted = collate(samples), default_collate(samples)
    assert repr(found) == repr(wanted)
    assert found["array"].dtype == wanted["array"].dtype
    images, texts = collate([(one["array"], one["text"]) for one in samples])
    assert torch.equal(images, found["array"])
    assert [*texts] == found["text"]
    for size in (2, 3):
        samples[size - 1]["array"] = np.zeros((2, size + 1), dtype)
    with pytest.raises(RuntimeError, match="stack expects each tensor to be equal size"):
        collate(samples)


def padded(record: dict) -> dict:
    many = np.zeros(3, np.int64)
    many[: len(record["many"])] = record["many"]
    return {"number": record["number"], "many": many}


def test_a_transform_makes_of_records_what_can_be_batched(numbered) -> None:
    records = recordmill.torch_dataset(numbered / "none", "train", transform=padded)
    batches = list(DataLoader(records, batch_size=50, num_workers=1))
    assert [len(batch["number"]) for batch in batches] == [50, 50, 1]
    assert batches[0]["many"][3].tolist() == [0, 1, 2]


def test_spawned_workers_see_the_epoch(numbered) -> None:
    records = recordmill.torch_dataset(
        numbered / "none", "train", shuffle=True, transform=number_of
    )
    loader = DataLoader(
        records,
        batch_size=10,
        num_workers=2,
        multiprocessing_context="spawn",
        persistent_workers=True,
    )
    orders = []
    for epoch in (0, 1):
        records.set_epoch(epoch)
        orders.append(numbers(loader))
    assert orders[0] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == [*range(RECORDS)]
    copied = pickle.loads(pickle.dumps(records))
    assert [*copied] == [*records]


@COMPRESSIONS
@pytest.mark.parametrize("context", ["fork", "spawn"])
def test_by_number_with_a_sampler(numbered, compression, context) -> None:
    records = recordmill.open(numbered / compression, "train", features=["name", "number", "size"])
    records[0]  # what it holds by then goes along
    loader = DataLoader(
        records,
        batch_size=8,
        num_workers=2,
        sampler=RandomSampler(records, generator=torch.Generator().manual_seed(3)),
        multiprocessing_context=context,
    )
    found = [
        (name, number)
        for batch in loader
        for name, number in zip(batch["name"], batch["number"].tolist(), strict=True)
    ]
    assert len(loader) == 13
    assert found != sorted(found)
    assert sorted(found) == [(b"n%03d" % number, number) for number in range(RECORDS)]


def test_an_empty_split_and_more_workers_than_records(tmp_path, numbered) -> None:
    splits = flowers()
    make_dataset(tmp_path / "out", splits)
    for shuffle in (False, True):
        empty = recordmill.torch_dataset(tmp_path / "out", "test", shuffle=shuffle)
        assert len(empty) == len(list(DataLoader(empty, num_workers=2))) == 0
        one = recordmill.torch_dataset(numbered / "none", "validation", shuffle=shuffle)
        loader = DataLoader(one, batch_size=None, num_workers=3)
        assert [record["name"] for record in loader] == [b"n500"]


def test_values_are_those_that_were_declared(tmp_path) -> None:
    make_dataset(tmp_path / "out")
    records = recordmill.torch_dataset(tmp_path / "out", "train")
    record = next(iter(records))
    assert {name: type(value) for name, value in record.items()} == {
        "image/encoded": bytes,
        "image/class/label": np.int64,
        "image/class/text": bytes,
        "grid": np.ndarray,
        "size": np.ndarray,
        "caption": list,
    }
    assert default_collate([record])["grid"].shape == (1, 2, 2)
    payload = recordmill.open(tmp_path / "out", "train").payload(0)
    assert record["caption"] == decode_example(payload)["caption"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"shard": (2, 2)}, r"shard: expected \(hosts, index\) .* index below 2, got \(2, 2\)"),
        ({"shard": (1,)}, r"shard: expected \(hosts, index\), such as \(4, 0\), got \(1,\)"),
        ({"shard": (2, -1)}, "shard: expected 0 or more, got -1"),
        ({"seed": -1}, "seed: expected 0 to 9223372036854775807, got -1"),
        ({"seed": "a"}, "seed: expected a whole number, got 'a'"),
        ({"batch_size": 0}, "batch_size: expected 1 or more, got 0"),
        ({"drop_remainder": True}, "drop_remainder applies to batches: set batch_size"),
        (
            {"drop_remainder": True, "batch_size": 100, "shard": (9, 0)},
            "drop_remainder: an epoch of .* records has no batch of 100 for each of 9 hosts",
        ),
        ({"shard": 2}, r"shard: expected .hosts, index., such as .4, 0., got 2"),
        ({"shard": (0, 0)}, "shard: expected 1 or more, got 0"),
        ({"collate_fn": list}, "collate_fn applies to batches: set batch_size"),
        ({"order": "full"}, "order: 'full' needs shuffle=True"),
        ({"shuffle": True, "order": "half"}, "order: expected one of windowed, full, got 'half'"),
        ({"start": 100}, r"start: expected a state with digest, epoch, .*position.* got 100"),
        ({"features": ["nme"]}, "expected features among .* got 'nme' .did you mean 'name'"),
        ({"split": "dev"}, "expected one of the splits train, validation, test, got 'dev'"),
    ],
)
def test_what_cannot_be_asked_for(numbered, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        recordmill.torch_dataset(numbered / "none", **{"split": "train", **options})


def test_other_trouble(numbered, tmp_path) -> None:
    with pytest.raises(ManifestError, match="no dataset"):
        recordmill.torch_dataset(tmp_path)
    with pytest.raises(ConfigError, match="epoch: expected 0 to 2147483647, got -1"):
        recordmill.torch_dataset(numbered / "none").set_epoch(-1)
    with pytest.raises(ConfigError, match="epoch: expected 0 to 2147483647, got 10000000000"):
        recordmill.torch_dataset(numbered / "none").set_epoch(10**10)


def test_the_page_shows_what_runs(tmp_path, monkeypatch) -> None:
    pictures_dataset(tmp_path / "out", records=200)
    monkeypatch.chdir(tmp_path)
    training, by_number = (code for code in python_of("reading.md") if "DataLoader" in code)
    namespace: dict = {}
    exec(training, namespace)
    assert namespace["images"].shape[1:] == (4, 5, 3)
    assert namespace["images"].dtype == torch.uint8
    exec(by_number, namespace)
    assert sum(len(batch["image/class/label"]) for batch in namespace["loader"]) == 200


def test_the_examples_of_the_page_on_resuming_run(tmp_path, monkeypatch) -> None:
    pictures_dataset(tmp_path / "out", records=6600)
    monkeypatch.chdir(tmp_path)
    pictures_dataset(tmp_path / "other", records=100)
    made, _, continued, _, filtered, mixed = python_of("resume.md")
    namespace: dict = {}
    exec(made, namespace)
    exec(filtered, namespace)
    assert {*next(iter(namespace["roses"]))["image/class/label"].tolist()} == {0}
    exec(mixed, namespace)
    assert [one["records"] for one in namespace["state"]["sources"]] == [2400, 0]
    assert len(next(iter(namespace["mixed"]))["image/class/label"]) == 32
    exec(made, namespace)
    exec(continued, namespace)
    assert namespace["state"]["records"] == 6400
    assert namespace["epoch"] == 4
    assert len(namespace["batch"]["image/class/label"]) == 1650 % 16


def test_torch_is_imported_only_where_it_is_asked_for(numbered) -> None:
    code = "import sys, recordmill; recordmill.open(sys.argv[1])[0]; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code, str(numbered / "none")],
        check=True, capture_output=True, text=True, env=dict(os.environ),
    )  # fmt: skip
    assert done.stdout == "False\n"
