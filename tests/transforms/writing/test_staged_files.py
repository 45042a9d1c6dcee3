"""Drafts of files beside a shard: complete at their place, or left behind without a word."""

import gc

import numpy as np
import pyarrow as pa
import pytest

from recordmill.format.recipes import SCHEMA
from recordmill.storage.files import Location
from recordmill.transforms.writing.shards.shard_recipes import StagedRecipes
from recordmill.transforms.writing.shards.staged_index import StagedIndex


def index_rows(count):
    return pa.table(
        {
            "key": [f"key {number}" for number in range(count)],
            "label": ["a"] * count,
            "copy": pa.array(np.zeros(count, np.int32)),
            "offset": pa.array(np.arange(count)),
            "length": pa.array(np.arange(count)),
        }
    )


def recipes(count):
    return pa.RecordBatch.from_arrays(
        [pa.nulls(count, field.type) for field in SCHEMA], schema=SCHEMA
    )


@pytest.mark.parametrize("kind", [StagedIndex, StagedRecipes])
def test_a_draft_that_is_given_up_leaves_no_message_and_no_file(kind, tmp_path, capfd):
    place = Location.parse(str(tmp_path / "to" / "place"))
    with kind(place, Location.parse(str(tmp_path / "draft"))) as staged:
        if kind is StagedIndex:
            staged.add(index_rows(5000), hashed_keys=False)
        else:
            staged.add(recipes(5000))
    del staged
    gc.collect()
    assert capfd.readouterr() == ("", "")
    assert not place.exists()
