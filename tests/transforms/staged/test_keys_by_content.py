"""Staged rows whose keys follow from their content, and are left out."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from recordmill.job.staging import Staging, to_json
from recordmill.storage.files import Location
from recordmill.transforms.checks.equal_rows import write_numbered
from recordmill.transforms.model import batch
from recordmill.transforms.staged import spill
from recordmill.transforms.staged.listing import write_part
from recordmill.transforms.staged.parts import read_part
from recordmill.transforms.writing.shards.shard_rows import sort_block

CONTENTS = st.lists(st.binary(min_size=16, max_size=16), min_size=1, max_size=20, unique=True)


@pytest.fixture(scope="module")
def staging(tmp_path_factory):
    staging = Staging.of(Location.parse(str(tmp_path_factory.mktemp("out"))), "job")
    staging.place("checked").make_dirs()
    return staging


def complete_rows(contents):
    """Return rows as steps see them."""
    rows = {batch.KEY: [content.hex() for content in contents]}
    rows = pa.RecordBatch.from_pydict(
        {**rows, batch.CONTENT: pa.array(contents, pa.binary(16)), "n": [*range(len(contents))]}
    )
    rows = batch.with_hash(rows)
    return rows.append_column(batch.UNIT, rows[batch.HASH])


def write(contents, staging):
    rows = complete_rows(contents)
    stored = batch.without_keys(rows.drop_columns([batch.UNIT]))
    return rows, write_part(stored, staging, "checked/part.arrow")


@given(CONTENTS)
def test_rows_are_read_with_the_keys_that_were_left_out(staging, contents):
    rows, part = write(contents, staging)
    assert read_part(part.name, staging=staging) == rows
    some = read_part(part.name, staging=staging, columns=(batch.KEY, "n"))
    assert some == rows.select([batch.KEY, "n"])
    short = read_part(part.name, staging=staging, columns=(batch.KEY, batch.HASH), keys=False)
    assert batch.keys(short) == rows[batch.KEY]
    assert batch.unit_hashes(short).tolist() == batch.hashes(rows).tolist()


@given(CONTENTS, st.data())
def test_numbered_rows_keep_their_keys_and_others_follow_from_content(staging, contents, data):
    rows, part = write(contents, staging)
    chosen = data.draw(st.sets(st.integers(0, len(contents) - 1), min_size=1))
    dtype = np.dtype([("row", "<u4"), ("number", "<u4")])
    numbers = np.array([(row, row + 2) for row in sorted(chosen, reverse=True)], dtype)
    staging.place(f"{part.name}.json").write_bytes(
        to_json({"rejects": [], "filtered": {}, "left_out": []})
    )
    messages = [(False, numbers.tobytes()), (True, to_json(part))]
    numbered = write_numbered((part.name, messages), staging=staging)
    keys = [
        f"{content.hex()}#{row + 2}" if row in chosen else content.hex()
        for row, content in enumerate(contents)
    ]
    found = read_part(numbered.name, staging=staging)
    assert found[batch.KEY].to_pylist() == keys
    assert found[batch.HASH].to_pylist() == batch.hash_strings(pa.array(keys)).tolist()
    assert found[batch.UNIT] == rows[batch.HASH]
    assert found["n"] == rows["n"]
    # Numbered and other parts meet in the shuffle.
    shuffled = [
        read_part(name, staging=staging, keys=False).select(
            [batch.KEY, batch.CONTENT, "n", batch.HASH]
        )
        for name in (numbered.name, part.name)
    ]
    distinct = shuffled[1].filter(pa.array([row in chosen for row in range(len(contents))]))
    pieces = [spill.inline(one) for one in (shuffled[0], distinct)]
    in_order = sort_block(pieces, seed=0, staging=staging)
    expected = sorted([*keys, *(contents[row].hex() for row in chosen)])
    assert sorted(batch.with_keys(in_order)[batch.KEY].to_pylist()) == expected


def test_rows_of_equal_rank_are_ordered_by_their_keys():
    contents = [bytes([n]) * 16 for n in (3, 1, 2)]
    rows = batch.without_keys(complete_rows(contents))
    table = pa.Table.from_batches([rows.slice(0, 2), rows.slice(2)])
    for some in (rows, table):
        assert batch.sort_order(np.zeros(3, np.uint64), some).tolist() == [1, 2, 0]
