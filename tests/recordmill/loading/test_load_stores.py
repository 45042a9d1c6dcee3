"""recordmill.load from stores: the order of local files, whatever requests fail."""

import itertools
import pathlib

import numpy as np
import pytest
import tensorflow as tf

import recordmill
from recordmill.format.manifest import ManifestError
from recordmill.reading.reader import DatasetDamagedError
from recordmill.storage import s3_objects, storage_errors
from tests.numbered_records import ORDERS, RECORDS, SEED, in_both_compressions, use_small_windows
from tests.s3_store import LASTING, S3Store


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> pathlib.Path:
    return in_both_compressions(tmp_path_factory.mktemp("numbered"))


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    use_small_windows(monkeypatch)
    monkeypatch.setattr(storage_errors, "PAUSES", (0, 0, 0, 0))
    monkeypatch.setattr(storage_errors, "OUTAGE_PAUSES", ())


def load(place, **options):
    return recordmill.load(place, **{"inputs": "number", "seed": SEED, "batch_size": 8} | options)


def steps(data) -> list[list[int]]:
    """The record numbers of each batch; padding has the number -1."""
    found = []
    for batch in data.as_numpy_iterator():
        weights = batch.get("sample_weight", np.ones(len(batch["number"])))
        found.append(np.where(weights > 0, batch["number"], -1).tolist())
    return found


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_the_order_is_that_of_local_files(store: S3Store, folder, options, compression) -> None:
    uri = store.put_folder(folder / compression, "out")
    store.lost_every = 17
    for more in (
        {"repeat": 3},
        {"shard": (4, 1), "repeat": 2},
        {"shard": (4, 3), "drop_remainder": True},
        {"repeat": 2, "start": 30},
    ):
        data, local = load(uri, **options, **more), load(folder / compression, **options, **more)
        assert len(data) == len(local)
        assert steps(data) == steps(local), more


@pytest.mark.parametrize("options", [{}, {"cache_decoded": True}])
def test_records_that_are_parsed_one_by_one(store: S3Store, folder, options) -> None:
    options |= {"batch_size": None, "shuffle": True}
    found = [
        int(one["number"]) for one in load(store.put_folder(folder / "none", "out"), **options)
    ]
    assert found == [int(one["number"]) for one in load(folder / "none", **options)]
    assert sorted(found) == [*range(RECORDS)]


def test_mixtures_are_those_of_local_files(store: S3Store, folder) -> None:
    uri = store.put_folder(folder / "none", "out")
    data, local = (load({place: 3}, shuffle=True) for place in (uri, folder / "none"))
    assert [*itertools.islice(steps(data.take(40)), 40)] == steps(local.take(40))


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_a_run_continues_from_a_state_of_local_files(store: S3Store, folder, compression) -> None:
    there, here = store.put_folder(folder / compression, "out"), folder / compression
    state = recordmill.position(here, step=17, global_batch=8, seed=SEED)
    assert state == recordmill.position(there, step=17, global_batch=8, seed=SEED)
    options = {"shuffle": True, "repeat": 2}
    whole = [*itertools.chain(*steps(load(here, **options)))]
    assert [*itertools.chain(*steps(load(there, start=state, **options)))] == whole[17 * 8 :]


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_iterators_can_be_saved(store: S3Store, folder, options, compression, tmp_path) -> None:
    uri = store.put_folder(folder / compression, "out")
    data = load(uri, repeat=2, **options)
    whole = steps(data)
    iterator = iter(load(uri, repeat=2, **options))
    for _ in range(31):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).write(str(tmp_path / "saved"))
    restored = iter(load(uri, repeat=2, **options))
    tf.train.Checkpoint(iterator=restored).read(path).assert_consumed()
    assert [batch["number"].numpy().tolist() for batch in restored] == whole[31:]


@pytest.mark.parametrize("kind", LASTING)
def test_a_fault_that_stays_is_one_line(store: S3Store, folder, kind, monkeypatch) -> None:
    if kind == "stalled":
        monkeypatch.setattr(s3_objects, "STALL_SECONDS", 0.2)
        monkeypatch.setattr(storage_errors, "PAUSES", (0,))
    data = load(store.put_folder(folder / "none", "out"), shuffle=True)
    store.faults["bucket/out/train.tfrecord-00003-of-00005"] = (kind, 1000)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        steps(data)
    message = caught.value.message.replace("\\'", "'")
    assert "Error: cannot read s3://bucket/out/train.tfrecord-00003-of-00005?" in message
    assert f": {LASTING[kind]}" in message
    assert "Traceback" not in message


def test_damage_is_an_error(store: S3Store, folder) -> None:
    uri = store.put_folder(folder / "none", "out")
    data = load(uri)
    name = "bucket/out/train.tfrecord-00003-of-00005"
    content = store.get(name).content
    store.put(name, content[:500] + b"x" + content[501:])
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"DatasetDamagedError: train.*, record 3: "
    ):
        steps(data)
    store.put(name, content[:-1])
    with pytest.raises(DatasetDamagedError, match="is 11769 bytes, the manifest says 11770"):
        load(uri)


def test_a_place_without_a_dataset_is_an_error(store: S3Store) -> None:
    with pytest.raises(ManifestError, match="bucket"):
        load(store.uri("out"))


@pytest.mark.parametrize(("options", "compression"), ORDERS)
def test_a_cache_serves_later_epochs(
    store: S3Store, folder, options, compression, tmp_path
) -> None:
    uri = store.put_folder(folder / compression, "out")
    data = load(uri, repeat=2, cache=tmp_path, cache_size="10MB", **options)
    assert steps(data) == steps(load(folder / compression, repeat=2, **options))
    store.requests.clear()
    steps(data)
    assert not [one for one in store.requests if ".tfrecord" in one.key]
