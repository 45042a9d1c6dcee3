"""Batches that a custom pipeline makes itself: what they may hold, and what follows from it."""

import dataclasses
import pathlib

import apache_beam as beam
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from recordmill.errors import RunError
from recordmill.format.manifest import load
from recordmill.runners import direct
from recordmill.storage.files import Location
from recordmill.transforms import (
    Analyze,
    AssignSplits,
    Publish,
    Rebalance,
    Reshuffle,
    RunSpec,
    StageBatches,
    WriteToTFRecord,
)
from recordmill.transforms.model import batch
from tests.tiny import TinyEncoder


@dataclasses.dataclass(frozen=True, kw_only=True)
class Labelled(TinyEncoder):
    """An encoder that declares labels as those of the commands do."""

    unlabelled: bool = False


def rows_of(count: int, **columns: list) -> pa.RecordBatch:
    """Rows of the tiny data type with these system columns."""
    named = {f"__{name}__": pa.array(values) for name, values in columns.items()}
    return pa.RecordBatch.from_pydict(
        {
            "__key__": pa.array([f"key {i}" for i in range(count)]),
            "__label__": pa.array(["ant", "bee"] * (count // 2)),
            "value": pa.array([b"%d" % i for i in range(count)]),
            **named,
        }
    )


def publish(
    output: pathlib.Path,
    batches: list[pa.RecordBatch],
    *,
    stratify: bool = False,
    encoder=TinyEncoder(),  # noqa: B008, it is frozen
) -> str:
    """Write a dataset, and return its digest."""
    run = RunSpec(output=str(output), encoder=encoder, splits={"train": 0.5, "test": 0.5}, seed=1)

    def build(pipeline: beam.Pipeline) -> None:
        (
            pipeline
            | beam.Create(batches)
            | StageBatches(run)
            | AssignSplits(stratify=stratify)
            | Analyze()
            | Rebalance()
            | Reshuffle()
            | WriteToTFRecord()
            | Publish()
        )

    direct.run(build, workers=2)
    return load(Location.parse(str(output))).digest


def groups_of_splits(output: pathlib.Path) -> dict[str, set[str]]:
    """{split: its groups}, as the index lists them."""
    found: dict[str, set[str]] = {}
    for path in sorted((output / "index").iterdir()):
        names = pq.read_table(path)["group"].to_pylist()
        found.setdefault(path.name.split("-")[0], set()).update(names)
    return found


def with_other_keys(rows: pa.RecordBatch, keys: list[str]) -> pa.RecordBatch:
    """Rows that were hashed, and got other keys afterwards."""
    return batch.set_column(batch.with_hash(rows), "__key__", pa.array(keys))


def test_keys_may_change_after_they_were_hashed(tmp_path):
    rows = rows_of(100)
    stale = with_other_keys(rows, [f"other {i}" for i in range(100)])
    digest = publish(tmp_path / "stale", [stale])
    assert publish(tmp_path / "fresh", [stale.drop_columns(["__hash__"])]) == digest
    repeated = with_other_keys(rows, [f"other {i // 2}" for i in range(100)])
    with pytest.raises(RunError, match="expected every key once, got 50 that repeat"):
        publish(tmp_path / "repeated", [repeated])


@pytest.mark.long
@pytest.mark.parametrize("stratify", [False, True])
def test_groups_stay_in_one_split_and_are_in_the_index(tmp_path, stratify):
    groups = [None if i % 10 == 9 else f"group {i % 23}" for i in range(200)]
    publish(tmp_path / "out", [rows_of(200, group=groups)], stratify=stratify)
    found = groups_of_splits(tmp_path / "out")
    assert found["train"] & found["test"] <= {None}
    assert found["train"] | found["test"] == {None, *(f"group {i}" for i in range(23))}


def test_records_without_groups_have_no_column_of_them(tmp_path):
    publish(tmp_path / "out", [rows_of(20)])
    for path in (tmp_path / "out" / "index").iterdir():
        assert "group" not in pq.read_table(path).column_names


@pytest.mark.parametrize("splits", [["train", "test"], ["train", None]])
def test_a_group_cannot_have_several_splits(tmp_path, splits):
    rows = rows_of(200, group=[f"group {i // 2}" for i in range(200)], split=splits * 100)
    message = r"expected every group in one split, got .*; name one split for each group, or leave"
    with pytest.raises(RunError, match=message):
        publish(tmp_path / "out", [rows])


@pytest.mark.long
def test_a_label_for_every_record_or_for_none(tmp_path):
    labels = [None if i % 10 == 0 else "ant" for i in range(100)]
    rows = rows_of(100, label=labels)
    with pytest.raises(RunError, match="10 of 100 records have no __label__: give each a class"):
        publish(tmp_path / "out", [rows], encoder=Labelled())
    publish(tmp_path / "kept", [rows], encoder=Labelled(unlabelled=True))
    publish(tmp_path / "none", [rows_of(10, label=[None] * 10)], encoder=Labelled())


@pytest.mark.long
def test_batches_may_differ_in_the_order_of_columns_and_in_columns_of_nulls(tmp_path):
    rows = rows_of(100)
    some, others = rows.slice(0, 50), rows.slice(50)
    digest = publish(tmp_path / "out", [some, others])
    assert publish(tmp_path / "order", [some, others.select(rows.schema.names[::-1])]) == digest
    nulls = rows_of(10, label=[None] * 10)
    text = batch.set_column(nulls, "__label__", pa.nulls(10, pa.string()))
    same = publish(
        tmp_path / "text", [rows.slice(0, 50), with_other_keys(text, list("abcdefghij"))]
    )
    found = publish(
        tmp_path / "nulls", [rows.slice(0, 50), with_other_keys(nulls, list("abcdefghij"))]
    )
    assert found == same
