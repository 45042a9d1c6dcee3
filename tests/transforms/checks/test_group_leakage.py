"""Inputs that assign one group to several splits are refused."""

import pyarrow as pa
import pytest

from recordmill.transforms.checks.group_leakage import splits_of_groups
from recordmill.transforms.model import batch
from tests.tiny import TinySource, tiny_rows
from tests.tiny_jobs import run, tiny_job, tree

SPLITS = {"train": 0.5, "test": 0.5}


def source(groups: list[str | None], splits: list[str | None]) -> TinySource:
    """In parts of two rows, so that most groups stand in several."""
    rows = tuple(tiny_rows(len(groups)))
    return TinySource(rows=rows, groups=tuple(groups), splits=tuple(splits), part=2)


@pytest.mark.parametrize("stratify", [False, True])
def test_groups_that_span_splits_are_named(tmp_path, stratify):
    groups = [
        "whole",
        "leaking",
        "whole",
        "leaking",
        None,
        None,
        "also leaking",
        "also leaking",
    ] * 3
    splits = ["test", "test", "test", "train", "test", "train", "train", "test"] * 3
    job = tiny_job(
        tmp_path / "out", source(groups, splits), splits=SPLITS, stratify=stratify, num_shards=2
    )
    outcome = run(job)
    assert outcome.status == "refused"
    assert outcome.verdict.message == (
        "expected every group in one split, got 2 with rows in several splits of the input:"
        " 'also leaking' (test: key-00007, train: key-00006), 'leaking' (test: key-00001,"
        " train: key-00003); name one split for each group, or leave --group-column or"
        " --group-from out"
    )
    assert tree(tmp_path / "out") == {}


def test_a_row_without_a_split_may_move_its_group_into_two(tmp_path):
    """40 groups have one row in test and one by hash; some hash to train."""
    groups = [f"group {i // 2}" for i in range(80)]
    splits = ["test", None] * 40
    outcome = run(tiny_job(tmp_path / "out", source(groups, splits), splits=SPLITS, num_shards=1))
    assert outcome.status == "refused"
    assert "group" in outcome.verdict.message


def test_groups_in_one_split_each_pass(tmp_path):
    groups = [f"group {i % 10}" for i in range(60)]
    splits = ["train" if i % 10 < 6 else "test" for i in range(60)]
    job = tiny_job(tmp_path / "out", source(groups, splits), splits=SPLITS, num_shards=1)
    assert run(job).status == "published"


def test_rows_without_a_group_are_ignored():
    columns = {
        batch.GROUP: pa.array([None, None], pa.string()),
        batch.SPLIT: ["train", "test"],
        batch.KEY: ["one", "other"],
    }
    rows = pa.RecordBatch.from_pydict(columns)
    assert list(splits_of_groups(rows, ["1"])) == []
