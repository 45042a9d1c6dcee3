"""PyTorch's DataLoader has every kind of dataset as recordmill.read has it, by keys."""

import numpy as np
import pytest
from torch.utils.data import DataLoader

import recordmill
from tests.all_kinds import KINDS, make


@pytest.mark.parametrize("kind", KINDS)
def test_data_loaders_have_what_read_has(kind, tmp_path) -> None:
    made = make(kind, place=tmp_path)
    records = recordmill.open(made.folder, "train")
    keys = [(place.key, place.copy) for place in records.places()]
    assert len(set(keys)) == len(keys)
    expected = list(recordmill.read(made.folder, "train"))
    in_order = recordmill.torch_dataset(made.folder, "train")
    # Without a batch nothing is collated: records come as they are, through two processes.
    for source in (records, in_order):
        found = list(DataLoader(source, batch_size=None, num_workers=2))
        assert len(found) == len(keys)
        for key, record, wanted in zip(keys, found, expected, strict=True):
            assert record.keys() == wanted.keys()
            for name, value in wanted.items():
                np.testing.assert_array_equal(np.asarray(record[name]), value, f"{key} {name}")
