"""States of training runs, made from steps, and readers that continue from them."""

import itertools
import json
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import recordmill
from recordmill.errors import ConfigError
from recordmill.format.manifest import ManifestError
from recordmill.reading.epoch_order import (
    WINDOW_BYTES,
    OrderLayout,
    host_positions,
    worker_batches,
)
from recordmill.reading.epoch_reader import SourceReader, by_window, chunks
from recordmill.reading.reader import DatasetDamagedError
from recordmill.reading.sequence import EpochSequence, SequencePlaces
from tests.make_dataset import make_dataset


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("position") / "out"
    make_dataset(folder)
    return folder


def steps_of(records: int, batch: int, drop: bool) -> list[tuple[int, int]]:
    """The epoch and the records consumed in it after each step, counted one by one."""
    states, epoch, consumed = [], 0, 0
    for _ in range(40):
        states.append((epoch, consumed))
        size = min(batch, records - consumed)
        consumed += size
        rest = records - consumed
        if rest == 0 or (drop and rest < batch):
            epoch, consumed = epoch + 1, 0
    return states


def test_the_state_is_json_whatever_the_counters(folder) -> None:
    options = {"step": np.int64(0), "global_batch": np.int32(10**6), "seed": np.int64(7)}
    state = recordmill.position(folder, drop_remainder=True, **options)
    assert json.loads(json.dumps(state)) == state
    assert (state["epoch"], state["records"]) == (0, 0)
    source = recordmill.grain_source(folder, "train")
    assert json.dumps(source.state(np.int64(1)))


@pytest.mark.parametrize("drop", [False, True])
@pytest.mark.parametrize("batch", [1, 2, 3, 4, 5, 6, 7])
def test_steps_make_a_state(folder, batch, drop) -> None:
    records = len(recordmill.open(folder, "train"))
    options = {"global_batch": batch, "drop_remainder": drop}
    if drop and batch > records:
        with pytest.raises(ConfigError, match=f"step: an epoch of {records} records has no batch"):
            recordmill.position(folder, step=1, **options)
        return
    for step, expected in enumerate(steps_of(records, batch, drop)):
        state = recordmill.position(folder, step=step, **options)
        assert (state["epoch"], state["records"]) == expected, step
        # The same in two runs, of which the second continues the first.
        first = recordmill.position(folder, step=step // 3, **options)
        first = json.loads(json.dumps(first))
        assert recordmill.position(folder, step=step - step // 3, start=first, **options) == state


def test_a_state_says_what_shapes_the_order(folder) -> None:
    state = recordmill.position(folder, step=0, global_batch=1, seed=5, order="full")
    digest = recordmill.open(folder).manifest.digest
    assert state == {
        "epoch": 0,
        "records": 0,
        "seed": 5,
        "order": "full",
        "split": "train",
        "digest": digest,
        "filter": None,
    }
    of_all = recordmill.position(folder, None, step=0, global_batch=1, shuffle=False)
    assert (of_all["split"], of_all["order"]) == (None, "stored")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"step": -1}, "step: expected 0 or more, got -1"),
        ({"global_batch": 0}, "global_batch: expected 1 or more, got 0"),
        ({"seed": -1}, f"seed: expected 0 to {2**63 - 1}, got -1"),
        ({"seed": 2**63}, f"seed: expected 0 to {2**63 - 1}, got {2**63}"),
        ({"split": "dev"}, "expected one of the splits train, validation, test, got 'dev'"),
        ({"order": "half"}, "order: expected one of windowed, full, got 'half'"),
        ({"order": "full", "shuffle": False}, "order: 'full' needs shuffle=True"),
        (
            {"start": 3},
            "start: expected a state with digest, epoch, filter, order, records, ",
        ),
    ],
)
def test_invalid_options(folder, options, message) -> None:
    with pytest.raises(ValueError, match=message):
        recordmill.position(folder, **{"step": 1, "global_batch": 2} | options)


def test_states_of_other_orders(folder, tmp_path) -> None:
    state = recordmill.position(folder, step=1, global_batch=2)
    with pytest.raises(ConfigError, match="the state was made with seed 0, but here it is 1: a"):
        recordmill.position(folder, step=1, global_batch=2, seed=1, start=state)
    with pytest.raises(ManifestError):
        recordmill.position(tmp_path, step=1, global_batch=2)


# --- reading at positions


def sequence_of(records, name: str) -> EpochSequence:
    return EpochSequence.of(records, order=name, seed=1)


@given(
    st.integers(0, 60), st.integers(1, 9), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9)
)
def test_positions_are_cut_where_windows_end(records, window, hosts, workers, batch) -> None:
    layout = OrderLayout(
        shards=(records,), record_bytes=WINDOW_BYTES / window, seekable=False, salt=""
    )
    sequence = EpochSequence(layout=layout, split=None, order="stored", seed=0, digest="")
    mine = host_positions(records, consumed=0, hosts=hosts, host=hosts - 1)
    for worker in range(workers):
        ranges = [*worker_batches(mine, batch=batch, workers=workers, worker=worker)]
        places = [sequence.locate(3, part) for part in chunks(iter(ranges))]
        found = [(key, part.tolist()) for key, part in by_window(sequence, places)]
        assert [*itertools.chain(*(part for _, part in found))] == [*itertools.chain(*ranges)]
        for (epoch, number), part in found:
            assert {(epoch, position // window) for position in part} == {(3, number)}
        assert len({key for key, _ in found}) == len(found)


def test_records_far_apart_in_a_mixture_are_read_in_parts() -> None:
    layout = OrderLayout(shards=(60,), record_bytes=1, seekable=True, salt="")
    sequence = EpochSequence(layout=layout, split=None, order="stored", seed=0, digest="")
    nothing = np.zeros(0, np.int64)
    empty = SequencePlaces(sources=nothing, epochs=nothing, positions=nothing)
    parts = [sequence.locate(0, np.array([0])), *[empty] * 300, sequence.locate(0, np.array([1]))]
    assert [part.tolist() for _, part in by_window(sequence, parts)] == [[0], [1]]


def test_large_ranges_become_several_arrays() -> None:
    found = [*chunks([range(1, 9_000, 2), range(9_000, 9_002)])]
    assert [len(part) for part in found] == [4096, 406]
    assert np.concatenate(found).tolist() == [*range(1, 9_000, 2), 9_000, 9_001]


@pytest.mark.parametrize("compression", ["none", "gzip"])
@pytest.mark.parametrize("name", ["stored", "windowed"])
def test_records_are_read_at_positions(compression, name, tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("recordmill.reading.epoch_order.LANES", (2, 1))
    monkeypatch.setattr("recordmill.reading.epoch_order.WINDOW_RECORDS", 3)
    make_dataset(tmp_path / "out", compression=compression)
    records = recordmill.open(tmp_path / "out")
    expected = [*records.payloads()]
    for epoch in range(5):
        sequence = sequence_of(records, name)
        whole = sequence.epoch_order(epoch).record_numbers(np.arange(8)).tolist()
        for positions in (range(8), range(1, 8, 2), range(5, 8)):
            places = [sequence.locate(epoch, np.array(positions))]
            found = [*SourceReader(records, sequence).read(places)]
            assert found == [(whole[at], expected[whole[at]]) for at in positions]


def test_a_gzip_file_with_too_many_records(tmp_path) -> None:
    """It is also found if windows are read one after another."""
    make_dataset(tmp_path / "out", compression="gzip")
    records = recordmill.open(tmp_path / "out", "train")
    file = tmp_path / "out" / records.manifest.splits["train"].shards[0].file
    file.write_bytes(file.read_bytes() * 2)
    sequence = sequence_of(records, "windowed")
    with pytest.raises(DatasetDamagedError, match="the file has more than the 3 records of the"):
        [*SourceReader(records, sequence).read([sequence.locate(0, np.arange(len(records)))])]


def test_without_pytorch_the_message_says_what_works(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    monkeypatch.delitem(sys.modules, "recordmill.reading.torch_records", raising=False)
    with pytest.raises(ModuleNotFoundError, match="install torch; recordmill"):
        recordmill.torch_dataset("out")
