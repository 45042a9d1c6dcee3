"""Recipes of rows, which are hashed some rows at a time."""

import numpy as np
import pyarrow as pa
import pytest

from recordmill.transforms.model import batch
from recordmill.transforms.model.data_type import Context, ExampleInputs
from recordmill.transforms.reuse import row_recipes
from tests.tiny import TinyEncoder

COUNT = 11
COLUMNS = {
    "text": pa.array(["text" * (n % 3) if n % 4 else None for n in range(COUNT)]),
    "list": pa.array([[n] * (n % 3) if n % 4 else None for n in range(COUNT)]),
    "pair": pa.array([[n, None] if n % 4 else None for n in range(COUNT)], pa.list_(pa.int32(), 2)),
    "struct": pa.array([{"x": n, "y": str(n)} if n % 4 else None for n in range(COUNT)]),
    "codes": pa.array([str(n % 3) for n in range(COUNT)]).dictionary_encode(),
    "bool": pa.array([n % 3 == 0 for n in range(COUNT)]),
}


class ColumnsEncoder(TinyEncoder):
    source_columns = (batch.KEY,)

    def settings(self) -> str:
        return ""

    def inputs(self, rows: pa.RecordBatch, context: Context) -> ExampleInputs:
        return ExampleInputs(common=None, columns=COLUMNS)


def test_recipes_do_not_depend_on_the_rows_hashed_at_a_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = pa.record_batch({batch.KEY: [str(n) for n in range(COUNT)]})
    found = []
    for at_once in (COUNT, 4):
        monkeypatch.setattr(row_recipes, "_HASHED_ROWS", at_once)
        recipes = row_recipes.row_recipes(
            rows, encoder=ColumnsEncoder(), context=Context(seed=1), fingerprint="stat"
        )
        assert recipes is not None
        found.append(np.concatenate(recipes, axis=1))
    assert found[0].shape == (COUNT, 4)
    assert len(np.unique(found[0], axis=0)) == COUNT
    assert np.array_equal(*found)
