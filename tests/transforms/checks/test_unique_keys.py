"""Keys that repeat are found, and keys that only hash alike are not blamed."""

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pytest

from recordmill.transforms.checks.unique_keys import (
    FindRepeatedKeys,
    partition_hashes,
    repeated_hashes,
    repeated_keys_message,
)
from recordmill.transforms.model import batch
from tests.beam_results import results


def rows(keys, hashes=None):
    columns = {batch.KEY: pa.array(keys, pa.string())}
    if hashes is not None:
        columns[batch.HASH] = pa.array(hashes, pa.uint64())
    return pa.RecordBatch.from_pydict(columns)


class Hashed(beam.PTransform):
    """Finds the keys that repeat in batches."""

    def expand(self, batches):
        hashes = batches | beam.FlatMap(partition_hashes).with_output_types(tuple[int, bytes])
        return hashes | FindRepeatedKeys(
            lambda label, after=None: (
                batches | label >> beam.Map(_same).with_output_types(pa.RecordBatch)
            )
        )


def _same(rows):
    return rows


@pytest.fixture(scope="module")
def found():
    """The complaints about several inputs, from one pipeline."""
    unique = [f"key {i}" for i in range(500)]
    inputs = {
        "unique": [rows(unique[:200]), rows(unique[200:])],
        "apart": [rows(unique), rows(["key 7", "key 499"]), rows(["key 7"])],
        "together": [rows(["a", "b", "a", "é"])],
        "forged": [rows(["one", "two"], [2**64 - 1, 2**64 - 1]), rows(["three"], [2**64 - 1])],
        "forged and repeated": [rows(["one", "two"], [9, 9]), rows(["two"], [9])],
        "all": [rows(unique * 3), rows(unique)],
        "none": [rows([])],
    }

    def build(pipeline):
        return {
            name: pipeline | f"Create {name}" >> beam.Create(parts) | name >> Hashed()
            for name, parts in inputs.items()
        }

    return results(build)


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("apart", "expected every key once, got 2 that repeat: 'key 499' (2 times), 'key 7' (3"),
        ("together", "expected every key once, got 1 that repeat: 'a' (2 times); name a column"),
        (
            "forged and repeated",
            "expected every key once, got 1 that repeat: 'two' (2 times); name a column",
        ),
        ("all", "expected every key once, got 500 or more that repeat: 'key 0' (4 times), 'key 1'"),
    ],
)
def test_repeated_keys_are_named(found, name, start):
    (sentence,) = found[name]
    assert sentence.startswith(start)


@pytest.mark.parametrize("name", ["unique", "forged", "none"])
def test_keys_that_only_hash_alike_are_no_complaint(found, name):
    assert name not in found


def test_a_partition_gives_up_after_enough():
    hashes = np.repeat(np.arange(1000, dtype=np.uint64), 2).tobytes()
    assert repeated_hashes((0, [hashes])) == [str(i) for i in range(100)]


def test_each_hash_goes_to_one_partition():
    hashed = batch.with_hash(rows([str(i) for i in range(1000)]))
    parts = dict(partition_hashes(hashed))
    together = np.concatenate([np.frombuffer(part, np.uint64) for part in parts.values()])
    assert sorted(together.tolist()) == sorted(batch.hashes(hashed).tolist())
    assert len(parts) > 50


def test_many_are_counted_and_few_are_shown():
    (sentence,) = repeated_keys_message([(f"k{i}", 2) for i in range(7)])
    assert "got 7 that repeat: 'k0' (2 times)" in sentence
    assert "'k4' (2 times), ...;" in sentence
    assert "'k5'" not in sentence
    assert repeated_keys_message([]) == []
