"""Filters and mixtures have one order in recordmill.load, too, in which any hosts continue."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

import recordmill
from recordmill.errors import ConfigError
from recordmill.loading import graph_order
from recordmill.reading.mixture_schedule import PARTS, MixtureSchedule, shares
from recordmill.reading.sequence import open_sequence
from tests.numbered_records import SEED, use_small_windows
from tests.training_cases import CASES, ROSES, TrainingCase, expect_continued, make_datasets


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    make_datasets(folder)
    return folder


@pytest.fixture(autouse=True)
def small_windows(monkeypatch) -> None:
    """Windows of six blocks, of four or five records."""
    use_small_windows(monkeypatch)


class Case(TrainingCase):
    """A training run with recordmill.load."""

    def open(self, **options):
        common = {"inputs": "number", "seed": SEED, "as_supervised": False, "repeat": True}
        return recordmill.load(self.datasets, **common | self.options | options)


def steps(data) -> list[list[int]]:
    """The numbers of each batch, without padding."""
    found = []
    for batch in data.as_numpy_iterator():
        weights = batch.get("sample_weight", np.ones(len(batch["number"])))
        found.append(batch["number"][weights > 0].tolist())
    return found


@pytest.mark.parametrize("name", CASES)
def test_the_order_is_that_of_all_loaders(folders, name) -> None:
    case = Case(folders, name)
    count = min(case.size, 250)
    expected = case.expected.numbers(count)
    found = steps(case.open(batch_size=9).take(-(-count // 9)))
    assert [*itertools.chain(*found)][:count] == expected
    parts = [steps(case.open(batch_size=5, shard=(3, host)).take(4)) for host in range(3)]
    for step, batches in enumerate(zip(*parts, strict=True)):
        batch = expected[step * 15 : (step + 1) * 15]
        assert [*itertools.chain(*zip(*batches, strict=True))] == batch


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_hosts_continues(folders, name) -> None:
    case = Case(folders, name)

    def read(state, host, hosts, batch, count):
        data = case.open(
            batch_size=batch, shard=(hosts, host), start=state or 0, drop_remainder=True
        )
        return steps(data.take(count))

    expect_continued(case, [read] * 3, seed=name)


def test_a_filtered_epoch_has_a_length(folders) -> None:
    case = Case(folders, "filter")
    data = case.open(batch_size=10, repeat=2)
    assert len(data) == 16  # twice 71 records
    found = steps(data)
    assert [*map(len, found)] == [*[10] * 7, 1] * 2
    assert [*itertools.chain(*found)] == case.expected.numbers(142)
    parts = [case.open(batch_size=10, repeat=False, shard=(3, host)) for host in range(3)]
    assert {len(part) for part in parts} == {3}
    records = [*itertools.chain(*(itertools.chain(*steps(part)) for part in parts))]
    assert sorted(records) == sorted(case.expected.numbers(71))


@pytest.mark.parametrize("until", ["first_exhausted", "all_exhausted"])
def test_epochs_of_a_mixture_end_with_a_source(folders, until) -> None:
    weights = {folders / "small": 3, folders / "tiny": 1}
    sequence = open_sequence(
        weights, "train", shuffle=True, order=None, seed=SEED, filter=None, temperature=None,
        until=until,
    ).sequence  # fmt: skip
    options = {"inputs": "number", "seed": SEED, "shuffle": True, "as_supervised": False}
    data = recordmill.load(weights, until=until, batch_size=7, repeat=3, **options)
    expected = []
    for epoch in range(3):
        places = sequence.locate(epoch, np.arange(sequence.records))
        rows = zip(places.sources, places.epochs, places.positions, strict=True)
        expected += [
            1000 * (source + 1)
            + int(sequence.sources[source].epoch_order(int(of)).record_number(int(at)))
            for source, of, at in rows
        ]
    found = steps(data)
    assert len(data) == len(found) == 3 * -(-sequence.records // 7)
    assert [*itertools.chain(*found)] == expected
    # Hosts have equally many steps, and padding.
    parts = [
        recordmill.load(weights, until=until, batch_size=7, shard=(4, host), **options)
        for host in range(4)
    ]
    assert {len(part) for part in parts} == {-(-sequence.records // 28)}
    batches = [[*itertools.chain(*steps(part))] for part in parts]
    assert sorted(itertools.chain(*batches)) == sorted(expected[: sequence.records])
    # Without repeat, each iteration has the next epoch.
    once = recordmill.load(weights, until=until, batch_size=7, **options)
    assert [*itertools.chain(*(itertools.chain(*steps(once)) for _ in range(3)))] == expected


def test_a_checkpoint_continues_in_a_mixture(folders, tmp_path) -> None:
    case = Case(folders, "mixture-filter")
    iterator = iter(case.open(batch_size=10))
    for _ in range(7):
        next(iterator)
    path = tf.train.Checkpoint(iterator=iterator).save(str(tmp_path / "point"))
    again = iter(case.open(batch_size=10))
    tf.train.Checkpoint(iterator=again).restore(path)
    found = [next(again)["number"].numpy().tolist() for _ in range(10)]
    assert [*itertools.chain(*found)] == case.expected.numbers(170)[70:]


@pytest.mark.parametrize("shuffle", [False, True])
def test_a_cached_mixture_keeps_the_shares(folders, shuffle) -> None:
    weights = {folders / "large": 3, folders / "tiny": 1}
    options = {
        "inputs": "number",
        "as_supervised": False,
        "cache_decoded": True,
        "shuffle": shuffle,
    }
    for host in range(2):
        data = recordmill.load(weights, batch_size=20, shard=(2, host), **options)
        numbers = [*itertools.chain(*steps(data.take(10)))]
        assert abs(sum(number < 1000 for number in numbers) - 150) <= 1
    one = recordmill.load(weights, batch_size=20, **options)
    later = recordmill.load(weights, batch_size=20, start=3, **options)
    assert steps(later.take(2)) == steps(one.take(5))[3:]
    state = recordmill.position(weights, step=1, global_batch=20, shuffle=shuffle)
    with pytest.raises(
        ConfigError, match="start: a mixture with cache_decoded has an order of its own"
    ):
        recordmill.load(weights, start=state, **options)
    with pytest.raises(ConfigError, match="has 13 records in train for 14 hosts, which each"):
        recordmill.load(weights, shard=(14, 0), **options)


def test_a_filtered_cache_has_the_kept_records(folders) -> None:
    case = Case(folders, "filter-stored")
    data = case.open(batch_size=10, cache_decoded=True, repeat=2)
    assert [*itertools.chain(*steps(data))] == case.expected.numbers(142)


def test_states_of_mixtures_are_checked(folders) -> None:
    weights = {folders / "large": 2, folders / "tiny": 1}
    options = {"inputs": "number", "as_supervised": False, "shuffle": True}
    state = recordmill.position(weights, step=1, global_batch=20, filter=ROSES)
    with pytest.raises(ConfigError, match=r"made with filter .* but here it is None"):
        recordmill.load(weights, start=state, **options)
    with pytest.raises(ConfigError, match="expected a state with digest, epoch, filter"):
        recordmill.load(folders / "large", start=state, **options)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(1e-3, 1.0), min_size=1, max_size=9),
    st.integers(0, 10**12) | st.just(PARTS - 700),
)
def test_graphs_have_the_schedule_of_numpy(weights, begin) -> None:
    schedule = MixtureSchedule(shares(dict(enumerate(weights))))
    positions = np.arange(begin, begin + 1_500)
    sources, indices = schedule.locate(positions)
    graph = graph_order.mixture_sources(schedule, tf.constant(positions))
    assert graph.numpy().tolist() == sources.tolist()
    for source in range(len(weights)):
        mine = sources == source
        tables = schedule.source_tables(source)
        assert tables.positions(indices[mine]).tolist() == positions[mine].tolist()
        graph = graph_order.mixture_positions(tables, tf.constant(indices[mine]))
        assert graph.numpy().tolist() == positions[mine].tolist()
