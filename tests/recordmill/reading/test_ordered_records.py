"""grain_source has the records of all epochs in the one order, by their position."""

import pickle
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import recordmill
from recordmill.errors import ConfigError
from recordmill.reading.reader import DatasetDamagedError
from tests.numbered_records import (
    RECORDS,
    SEED,
    number_of,
    numbered_dataset,
    numbers_of_epochs,
    use_small_windows,
)

ORDERS = [
    pytest.param({"shuffle": True}, id="windowed"),
    pytest.param({"shuffle": True, "order": "full"}, id="full"),
    pytest.param({}, id="stored"),
]


@pytest.fixture(scope="module")
def numbered(tmp_path_factory):
    return numbered_dataset(tmp_path_factory.mktemp("numbered") / "out")


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    """Windows of six blocks, of four or five records; pages of 50."""
    use_small_windows(monkeypatch)
    monkeypatch.setattr("recordmill.reading.epoch_order._PAGE", 50)


def source(folder, **options):
    return recordmill.grain_source(
        folder, "train", **{"seed": SEED, "transform": number_of} | options
    )


@pytest.mark.parametrize("options", ORDERS)
def test_items_are_the_records_of_all_epochs(numbered, options) -> None:
    records = source(numbered, epochs=3, **options)
    wanted = numbers_of_epochs(numbered, options, 3)
    assert len(records) == 3 * RECORDS
    assert [records[index] for index in range(len(records))] == wanted
    assert [*records] == wanted
    shuffled = np.random.default_rng(1).permutation(3 * RECORDS)
    assert records.__getitems__(shuffled) == [wanted[index] for index in shuffled]
    assert records._getitems([5, 5, 4]) == [wanted[5], wanted[5], wanted[4]]
    assert records.__getitems__([]) == []
    assert records[600:10:-7] == wanted[600:10:-7]
    assert records[-1] == records[np.int64(len(records) - 1)] == wanted[-1]
    for outside in (3 * RECORDS, -3 * RECORDS - 1):
        with pytest.raises(IndexError, match=f"expected an item from 0 to 632, got {outside}"):
            records[outside]
        with pytest.raises(IndexError, match="expected an item from 0 to 632"):
            records.__getitems__([0, outside])


@pytest.mark.parametrize("options", ORDERS)
def test_states_continue_at_any_item(numbered, options) -> None:
    records = source(numbered, epochs=3, **options)
    wanted = numbers_of_epochs(numbered, options, 3)
    for items in (0, 1, 100, RECORDS - 1, RECORDS, RECORDS + 1, 500):
        state = records.state(items)
        assert (state["epoch"], state["records"]) == divmod(items, RECORDS)
        rest = source(numbered, epochs=3, start=state, **options)
        assert rest[:] == wanted[items:]
        assert rest.state(30) == records.state(items + 30)
    by_steps = recordmill.position(
        numbered, step=7, global_batch=10, seed=SEED, shuffle=bool(options),
        order=options.get("order"),
    )  # fmt: skip
    assert by_steps == records.state(70)


def test_copies_and_threads_have_the_same_items(numbered) -> None:
    records = source(numbered, epochs=2, shuffle=True)
    wanted = numbers_of_epochs(numbered, {"shuffle": True}, 2)
    records[3]
    copied = pickle.loads(pickle.dumps(records))
    assert repr(copied) == repr(records)
    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(copied.__getitem__, range(len(copied)))] == wanted


def test_sources_that_differ_have_other_names(numbered) -> None:
    """Grain's DataLoader compares them when a state is restored."""
    state = source(numbered, shuffle=True).state(9)
    several = [
        {"shuffle": True},
        {"shuffle": True, "order": "full"},
        {"shuffle": True, "seed": 8},
        {"shuffle": True, "epochs": 2},
        {"shuffle": True, "start": state},
    ]
    assert len({repr(source(numbered, **options)) for options in several}) == len(several)


def test_records_without_transform_are_those_of_read(numbered) -> None:
    records = recordmill.grain_source(numbered, "train", features=["number"])
    assert records[3] == {"number": 3}
    assert records.records[3].keys() == {"number"}


def test_an_empty_split(numbered) -> None:
    empty = recordmill.grain_source(numbered, "validation", shuffle=True, epochs=3)
    assert len(empty) == 0
    assert [*empty] == empty[:] == []
    assert empty.state(0)["epoch"] == 3
    with pytest.raises(IndexError, match="there are no items, got 0"):
        empty[0]


def test_damage_is_an_error(tmp_path) -> None:
    folder = numbered_dataset(tmp_path / "out")
    shard = next(folder.glob("train.tfrecord-00003*"))
    content = bytearray(shard.read_bytes())
    content[200] ^= 1
    shard.write_bytes(content)
    records = source(folder)
    with pytest.raises(DatasetDamagedError, match="tfrecord-00003-of-00005, record 1: "):
        records[62]
    with pytest.raises(DatasetDamagedError, match="tfrecord-00003-of-00005, record 1: "):
        records.__getitems__([60, 61, 62, 63])


def test_gzip_is_refused(tmp_path) -> None:
    folder = numbered_dataset(tmp_path / "out", compression="gzip")
    with pytest.raises(ConfigError, match="a gzip shard is read from its start for every record"):
        source(folder)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epochs": 0}, "epochs: expected 1 to 2147483648, got 0"),
        ({"epochs": None}, "epochs: expected a whole number, got None"),
        ({"seed": -1}, "seed: expected 0 to 9223372036854775807, got -1"),
        ({"order": "full"}, "order: 'full' needs shuffle=True"),
        ({"start": 100}, r"start: expected a state with digest, epoch, .*position.* got 100"),
        ({"split": "dev"}, "expected one of the splits train, validation, test, got 'dev'"),
    ],
)
def test_invalid_options(numbered, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        recordmill.grain_source(numbered, **{"split": "train", **options})


def test_states_after_the_last_epoch_are_refused(numbered) -> None:
    records = source(numbered, epochs=2)
    with pytest.raises(ConfigError, match="start: epoch 2 is after the last of 2: increase epochs"):
        source(numbered, epochs=2, start=records.state(len(records)))
    with pytest.raises(ConfigError, match="items: expected 0 to 422, got 423"):
        records.state(len(records) + 1)
