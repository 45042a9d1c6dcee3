import itertools

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from recordmill.checking.split_leakage import (
    ShardHashes,
    find_leaks,
    suspect_hashes,
    suspect_records,
)

SPLITS = ("test", "train", "validation")
# (split, shard, key, copy, group): few values, so that many of them are equal.
ROWS = st.lists(
    st.tuples(
        st.sampled_from(SPLITS),
        st.integers(0, 1),
        st.sampled_from("abcdef"),
        st.integers(0, 2),
        st.sampled_from([None, "f", "g", "h", "i"]),
    ),
    max_size=6,
)


def indexes(rows) -> dict[tuple[str, int], pa.Table]:
    columns = ("key", "copy", "group")
    types = (pa.string(), pa.int32(), pa.string())
    return {
        (split, shard): pa.table(
            [
                pa.array([row[place] for row in rows if row[:2] == (split, shard)], kind)
                for place, kind in zip((2, 3, 4), types, strict=True)
            ],
            names=columns,
        )
        for split, shard in itertools.product(SPLITS, (0, 1))
    }


@given(ROWS)
def test_every_leak_is_found_and_nothing_else(rows) -> None:
    shards = indexes(rows)
    hashes = {
        split: ShardHashes.merge([ShardHashes.of(shards[split, shard]) for shard in (0, 1)])
        for split in SPLITS
    }
    found = list(
        find_leaks(
            record
            for (split, shard), index in shards.items()
            for record in suspect_records(
                index, suspect_hashes(hashes), split=split, file=f"{split}-{shard}"
            )
        )
    )
    pairs = list(itertools.combinations(rows, 2))
    expected = any(
        (one[0] != two[0] and (one[2] == two[2] or (one[4] == two[4] and one[4] is not None)))
        or (one[0] == two[0] and one[2] == two[2] and one[3] == two[3] == 0)
        for one, two in pairs
    )
    assert bool(found) == expected
