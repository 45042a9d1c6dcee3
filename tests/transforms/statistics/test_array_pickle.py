"""Pickles of objects with many arrays."""

import dataclasses
import os
import pickle

import numpy as np
import pyarrow as pa
import pytest
from tensorflow_metadata.proto.v0 import statistics_pb2

from recordmill.transforms.model import batch
from recordmill.transforms.statistics import array_pickle
from recordmill.transforms.statistics.dataset_statistics import Statistics
from recordmill.transforms.statistics.statistics_proto import to_bytes


@dataclasses.dataclass
class Pair:
    one: np.ndarray
    other: object


def test_arrays_of_every_dtype_and_shape_return(monkeypatch):
    monkeypatch.setitem(array_pickle._LOADED, __name__, ("Pair",))
    shared = np.arange(3)
    things = [
        Pair(np.arange(4, dtype=np.int32), np.array([], np.float64)),
        Pair(np.array([np.nan, -0.0]), {"x": np.array([2**64 - 1], np.uint64)}),
        Pair(np.ones((2, 3)), np.array(["a", None], object)),
        Pair(shared, [shared, np.array([True]), np.arange(10)[::3]]),
    ]
    found = array_pickle.loads(array_pickle.dumps(things))
    assert repr(found) == repr(things)
    assert found[0].one.dtype == np.int32
    assert np.signbit(found[1].one[1])


def test_an_array_costs_little_more_than_its_values():
    many = [np.array([number]) for number in range(1000)]
    assert len(array_pickle.dumps(many)) < 40 * len(many)


@pytest.mark.parametrize("classes", [["a", "b", None], [str(n) for n in range(70)]])
def test_statistics_are_the_same_after_a_pickle(classes):
    size = 300
    rng = np.random.default_rng(0)
    labels = rng.choice(np.array(classes, object), size)
    columns = {
        **{f"x{n}": pa.array(rng.normal(size=size), mask=rng.random(size) < 0.1) for n in range(5)},
        **{f"t{n}": pa.array(rng.choice(["", "a", "é"], size)) for n in range(3)},
        "lists": pa.array([[n] * (n % 3) for n in range(size)]),
    }
    rows = pa.RecordBatch.from_pydict(
        {
            "__split__": pa.array(rng.choice(["train", "test"], size)),
            "__label__": pa.array(labels, pa.string()),
            **columns,
        }
    )
    statistics = Statistics.of(rows, columns)
    assert [*statistics.whole().columns] == [*columns]  # in their order, although counted by type
    again = array_pickle.loads(array_pickle.dumps(statistics))
    assert to_bytes(again) == to_bytes(statistics)
    expected = _features(statistics)
    for name, column in columns.items():
        alone = _features(Statistics.of(rows, {name: column}))
        assert alone == {key: message for key, message in expected.items() if key[1] == name}


def _features(statistics: Statistics) -> dict[tuple[str, str], bytes]:
    """Return {(slice, column): serialized statistics}."""
    found = statistics_pb2.DatasetFeatureStatisticsList.FromString(to_bytes(statistics))
    return {
        (dataset.name, feature.name): feature.SerializeToString(deterministic=True)
        for dataset in found.datasets
        for feature in dataset.features
    }


def test_a_part_without_rows_has_no_statistics():
    rows = pa.RecordBatch.from_pydict(
        {name: pa.array([], pa.string()) for name in ("__split__", "__label__", "text")}
    )
    none = Statistics.of(rows, {"text": rows["text"], "x": pa.array([], pa.float64())})
    assert not array_pickle.loads(array_pickle.dumps(none)).cells


@pytest.mark.parametrize("thing", [os.system, eval, np.load, batch.mix, pa.memory_map])
def test_functions_are_not_loaded(thing):
    with pytest.raises(pickle.UnpicklingError, match=r"expected statistics"):
        array_pickle.loads(array_pickle.dumps([thing]))
    with pytest.raises(pickle.UnpicklingError, match=r"expected statistics"):
        array_pickle.loads(pickle.dumps((thing, {})))
