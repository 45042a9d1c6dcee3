"""Rows that repeat a key are decided alike, however they are divided into parts."""

import itertools
from collections import defaultdict
from collections.abc import Iterable

import numpy as np
import pyarrow as pa
import pytest

from recordmill.job.staging import Staging
from recordmill.storage.files import Location
from recordmill.transforms.checks import key_conflicts as decisions
from recordmill.transforms.model import batch, limits
from recordmill.transforms.staged.handles import Problem
from recordmill.transforms.staged.listing import read_excluded, write_checked_part
from recordmill.transforms.staged.parts import read_part

# Key and value of each row; 1.0 and nan, which equals itself here, are repeated rows.
ROWS = [("a", 1.0), ("b", float("nan")), ("a", 1.0), ("c", None), ("b", float("nan")), ("c", 0.0),
        ("c", None), ("d", 4.0), ("e", 5.0), ("d", 4.5), ("d", 4.75), ("e", 5.0)]  # fmt: skip


@pytest.fixture(autouse=True, params=[0, limits.PART_INLINE_BYTES])
def inline(request, monkeypatch):
    """Hashes meet through files, and through messages."""
    monkeypatch.setattr(limits, "PART_INLINE_BYTES", request.param)


def grouped(pairs: Iterable[tuple[object, object]]) -> Iterable[tuple]:
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return groups.items()


def decide(rows: pa.RecordBatch, sizes: list[int], conflicts, folder):
    """The kept rows, the rejects, the filter counts and the problems."""
    staging = Staging.of(Location.parse(str(folder)), "job")
    staging.place("checked").make_dirs()
    starts = itertools.accumulate([0, *sizes])
    parts = [
        write_checked_part(
            rows.slice(start, size), staging, f"checked/{n:05}.arrow", rejects=[], filtered={}
        )
        for n, (start, size) in enumerate(zip(starts, sizes, strict=False))
    ]

    def each(function, items, **fixed):
        return [out for item in items for out in function(item, **fixed)]

    keyed = grouped(each(decisions.keyed_rows, parts, staging=staging))
    decided = grouped(each(decisions.decide_rows, keyed, staging=staging, conflicts=conflicts))
    made = each(decisions.write_decided, decided, staging=staging, conflicts=conflicts)
    written = [part for part in made if not isinstance(part, Problem)]
    kept = [row for part in written for row in read_part(part.name, staging=staging).to_pylist()]
    excluded = [read_excluded(part, staging=staging) for part in written]
    filtered = defaultdict(int)
    for _, counts in excluded:
        for name, count in counts.items():
            filtered[name] += count
    rejects = sorted((one.key, one.detail) for some, _ in excluded for one in some)
    total = sum(part.rows + part.rejected + part.unread + part.filtered for part in written)
    assert total == len(rows)
    return (
        sorted((row[batch.PLACE], row["x"]) for row in kept),
        rejects,
        dict(filtered),
        [one.message for one in made if isinstance(one, Problem)],
    )


@pytest.fixture
def rows():
    columns = {
        batch.KEY: pa.array([key for key, _ in ROWS]),
        batch.LABEL: pa.nulls(len(ROWS), pa.string()),
        batch.PLACE: pa.array([f"t#{n:02}" for n in range(1, len(ROWS) + 1)]),
        "x": pa.array([value for _, value in ROWS], pa.float64()),
    }
    return batch.with_hash(pa.RecordBatch.from_pydict(columns))


@pytest.mark.parametrize("sizes", [[12], [1] * 12, [5, 0, 7], [2, 9, 1]])
@pytest.mark.parametrize("conflicts", ["reject", "first", "error"])
def test_parts_do_not_matter(rows, sizes, conflicts, tmp_path):
    kept, rejects, filtered, problems = decide(rows, sizes, conflicts, tmp_path)
    places = [place for place, _ in kept]
    if conflicts == "first":
        assert places == ["t#01", "t#02", "t#04", "t#08", "t#09"]
        assert (rejects, filtered) == ([], {"repeated row": 4, "conflicts": 3})
        return
    assert places == ["t#01", "t#02", "t#09"]
    assert filtered == {"repeated row": 4}
    end = "; --conflicts first keeps the first row, and the values of the others are lost"
    assert rejects == [
        ("c", f"t#04 has the same key as t#06, but the column 'x' differs: None and 0.0{end}"),
        ("c", f"t#06 has the same key as t#04, but the column 'x' differs: 0.0 and None{end}"),
        ("d", f"t#08 has the same key as t#10, but the column 'x' differs: 4.0 and 4.5{end}"),
        ("d", f"t#10 has the same key as t#08, but the column 'x' differs: 4.5 and 4.0{end}"),
        ("d", f"t#11 has the same key as t#08, but the column 'x' differs: 4.75 and 4.0{end}"),
    ]
    assert bool(problems) == (conflicts == "error")
    assert {*problems} <= {detail for _, detail in rejects}


def test_keys_that_only_hash_alike_are_kept(rows, tmp_path):
    rows = batch.set_column(rows, batch.HASH, pa.array(np.zeros(len(rows), np.uint64)))
    kept, rejects, _, _ = decide(rows, [4, 8], "reject", tmp_path)
    assert [place for place, _ in kept] == ["t#01", "t#02", "t#09"]
    assert len(rejects) == 5
