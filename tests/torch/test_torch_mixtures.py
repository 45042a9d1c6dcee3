"""Filters and mixtures have one order in torch_dataset, too, in which any hosts continue."""

import collections
import itertools

import numpy as np
import pyarrow.compute as pc
import pytest
from torch.utils.data import DataLoader

import recordmill
from recordmill.errors import ConfigError
from tests.numbered_records import SEED, Expected, number_of, use_small_windows
from tests.training_cases import (
    CASES,
    ROSES,
    SIZES,
    TrainingCase,
    expect_continued,
    make_datasets,
)

pytestmark = pytest.mark.filterwarnings("ignore:This DataLoader will create")


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
    """A training run with torch_dataset."""

    def open(self, **options):
        options = {"seed": SEED, "transform": number_of} | self.options | options
        return recordmill.torch_dataset(self.datasets, "train", **options)

    def batches(self, data, steps: int, *, workers: int = 0) -> list[list[int]]:
        """Read batches, epoch after epoch."""
        found: list[list[int]] = []
        epoch = data.epoch
        while len(found) < steps:
            data.set_epoch(epoch)
            loader = DataLoader(data, batch_size=None, num_workers=workers)
            found += [one.tolist() for one in itertools.islice(loader, steps - len(found))]
            epoch += 1
        return found


@pytest.mark.parametrize("name", CASES)
def test_workers_and_hosts_do_not_change_the_order(folders, name) -> None:
    case = Case(folders, name)
    count = min(case.size, 300)
    expected = case.expected.numbers(count)
    for workers in (0, 1, 3):
        found = case.batches(case.open(batch_size=10), -(-count // 10), workers=workers)
        assert [*itertools.chain(*found)][:count] == expected, workers
    assert [*itertools.islice(case.open(), count)] == expected
    for hosts in (2, 3):
        parts = [
            case.batches(case.open(batch_size=5, shard=(hosts, host)), count // (hosts * 5))
            for host in range(hosts)
        ]
        for step, batches in enumerate(zip(*parts, strict=True)):
            batch = expected[step * hosts * 5 : (step + 1) * hosts * 5]
            # Each host has every n-th record.
            assert [*itertools.chain(*zip(*batches, strict=True))] == batch


@pytest.mark.parametrize("name", CASES)
def test_any_number_of_hosts_and_workers_continues(folders, name) -> None:
    case = Case(folders, name)
    workers = itertools.cycle((0, 1, 0, 2, 0))

    def read(state, host, hosts, batch, steps):
        data = case.open(batch_size=batch, shard=(hosts, host), start=state, drop_remainder=True)
        return case.batches(data, steps, workers=next(workers))

    expect_continued(case, [read] * 6, seed=name)


def test_a_state_counts_positions_before_the_filter(folders) -> None:
    case = Case(folders, "filter")
    data = case.open(batch_size=7)
    first = case.batches(data, 3)
    state = data.state_dict()
    assert state == case.position(step=3, global_batch=7)
    whole = Expected(weights=case.weights).numbers(211)
    assert [one for one in whole[: state["records"]] if one % 3 == 0] == [*itertools.chain(*first)]
    assert whole[state["records"] - 1] == first[-1][-1]
    assert state["filter"]["text"] == '(label == "rose")'
    assert len(data) == 11  # 71 records are kept
    assert len(case.open(batch_size=7, drop_remainder=True)) == 10
    # A filter with another text that keeps the same records continues.
    same = pc.field("label") != "tulip"
    other = recordmill.torch_dataset(
        case.datasets, "train", seed=SEED, shuffle=True, filter=same, start=state,
        transform=number_of,
    )  # fmt: skip
    assert [*other] == case.expected.numbers(71)[21:]


def test_a_state_has_a_position_of_each_source(folders) -> None:
    case = Case(folders, "mixture")
    data = case.open(batch_size=50)
    assert data.state_dict() == case.position(step=0, global_batch=1)
    batches = case.batches(data, 4)
    state = data.state_dict()
    assert (state["epoch"], state["records"], state["until"]) == (0, 200, None)
    counts = collections.Counter(number // 1000 for number in itertools.chain(*batches))
    for number, (source, size) in enumerate(zip(state["sources"], SIZES.values(), strict=True)):
        assert divmod(counts[number], size) == (source["epoch"], source["records"])
        assert source["seed"] == SEED
    assert [source["share"] for source in state["sources"]] == [0.7, 0.2, 0.1]
    with pytest.raises(TypeError, match="an endless mixture has no length: set until"):
        len(data)


@pytest.mark.parametrize("until", ["first_exhausted", "all_exhausted"])
def test_epochs_of_a_mixture_end_with_a_source(folders, until) -> None:
    weights = {folders / "small": 3, folders / "tiny": 1}
    options = {"seed": SEED, "shuffle": True, "until": until, "transform": number_of}
    data = recordmill.torch_dataset(weights, "train", **options)
    epochs = []
    for epoch in range(3):
        data.set_epoch(epoch)
        epochs.append([*data])
        assert len(epochs[-1]) == len(data)
        counts = collections.Counter(epochs[-1])
        if until == "first_exhausted":
            assert set(counts.values()) == {1}
            assert len(epochs[-1]) in range(48, 54)  # 13 of 'tiny', and up to 40 of 'small'
        else:
            assert len(counts) == 53
            assert len(epochs[-1]) in (53, 54)
        last = epochs[-1][-1]
        source = [number for number in epochs[-1] if number // 1000 == last // 1000]
        assert len(source) == SIZES["tiny" if last >= 2000 else "small"]
    assert len({*map(tuple, epochs)}) == 3
    # It continues in the next epoch, in which sources have their next orders.
    state = recordmill.position(
        weights, step=5, global_batch=12, seed=SEED, until=until, drop_remainder=True
    )
    assert (state["epoch"], state["records"]) == (1, 12)
    assert [source["epoch"] for source in state["sources"]] == [1, 1]
    rest = recordmill.torch_dataset(weights, "train", start=state, **options)
    assert [*rest] == epochs[1][12:]


def test_temperatures_make_weights_of_sizes(folders) -> None:
    several = [folders / "large", folders / "small"]

    def shares(**options) -> list[float]:
        state = recordmill.position(several, step=0, global_batch=1, **options)
        return [source["share"] for source in state["sources"]]

    assert shares() == pytest.approx([211 / 251, 40 / 251], abs=1e-6)
    roots = np.sqrt([211, 40])
    assert shares(temperature=2) == pytest.approx((roots / roots.sum()).tolist(), abs=1e-6)
    assert shares(temperature=1e9) == pytest.approx([0.5, 0.5], abs=1e-6)
    assert shares(filter=ROSES) == pytest.approx([71 / 84, 13 / 84], abs=1e-6)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weights": [0.7, 0.3]}, "expected a weight|expected the folder of a dataset"),
        ({"weights": {"large": 0}}, "expected a weight above 0 for each dataset"),
        ({"weights": {"large": 1, "small": 1e-9}}, "small is less than a millionth of all weig"),
        ({"weights": {"large": 1}, "temperature": 2}, "temperature computes the weights from the"),
        ({"weights": ["large", "large"]}, "expected each dataset once in a mixture"),
        ({"weights": ["large", "./large"]}, "but large and ./large hold the same"),
        ({"weights": ["large"], "temperature": 0}, "temperature: expected a number above 0, got 0"),
        ({"weights": "large", "temperature": 2}, "temperature applies to a mixture"),
        ({"weights": "large", "until": "first_exhausted"}, "until applies to a mixture"),
        ({"weights": {"large": 1}, "until": "first"}, "until: expected some of first_exhausted, a"),
        ({"weights": {"large": 1}, "split": "validation"}, "large has no records in validation, a"),
        ({"weights": "large", "filter": "x"}, "filter: expected an expression of pyarrow.compute"),
        ({"weights": {"zipped": 1}, "order": "full"}, "order: 'full' reads single records, and"),
    ],
)
def test_invalid_options(folders, monkeypatch, options, message) -> None:
    monkeypatch.chdir(folders)
    options = {"split": "train", "shuffle": True} | options
    with pytest.raises(ConfigError, match=message):
        recordmill.torch_dataset(options.pop("weights"), options.pop("split"), **options)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"until": "all_exhausted"}, "made with until None, but here it is 'all_exhausted'"),
        ({"seed": 8}, r"start\['sources'\]\[0\]: the state was made with seed 7, but here it is 8"),
        ({"filter": ROSES}, r"made with filter None, but here it is '\(label == \"rose\"\)'"),
        ({"weights": {"large": 7, "small": 3}}, "expected 2 sources, as the mixture has, got"),
        (
            {"weights": {"large": 7, "small": 1, "tiny": 2}},
            r"\[1\]: the state was made with share 0.2",
        ),
        ({"weights": {"small": 7, "large": 2, "tiny": 1}}, "the state was made with digest '"),
        ({"weights": "large"}, "start: expected a state with digest, epoch, filter, order"),
        (
            {"start": {"records": 21}},
            r"\]: after 21 records of the mixture, expected records",
        ),
        ({"start": {"records": -1}}, r"start\['records'\]: expected 0 to"),
        ({"start": {"sources": [1, 2, 3]}}, r"start\['sources'\]\[0\]: expected the state of a so"),
    ],
)
def test_states_of_other_mixtures_are_refused(folders, monkeypatch, change, message) -> None:
    monkeypatch.chdir(folders)
    weights = {"large": 7, "small": 2, "tiny": 1}
    options = {"shuffle": True, "seed": 7}
    state = recordmill.position(weights, step=1, global_batch=20, **options)
    change = dict(change)
    state |= change.pop("start", {})
    weights = change.pop("weights", weights)
    with pytest.raises(ConfigError, match=message):
        recordmill.torch_dataset(weights, "train", start=state, **options | change)


def test_a_state_of_another_filter_is_refused(folders) -> None:
    options = {"shuffle": True, "seed": 7}
    state = recordmill.position(folders / "large", step=1, global_batch=20, filter=ROSES, **options)
    with pytest.raises(ConfigError, match=r"made with filter .* but here it is None"):
        recordmill.torch_dataset(folders / "large", "train", start=state, **options)
    changed = state | {"filter": {"text": state["filter"]["text"], "digest": "0"}}
    with pytest.raises(ConfigError, match=r"rose.* that keeps other records"):
        recordmill.position(
            folders / "large", step=1, global_batch=20, filter=ROSES, start=changed, **options
        )
