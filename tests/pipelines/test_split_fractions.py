"""The note on splits that are far from --splits."""

import pathlib

import pytest

from tests.image_runs import Made, make

pytestmark = pytest.mark.usefixtures("encoders")


def notes(made: Made) -> list[str]:
    return [str(note) for note in made.manifest.notes if note.code == "fractions"]


def table(folder: pathlib.Path, lines: list[str], header: str = "id,x,label,group") -> pathlib.Path:
    place = folder / "in.csv"
    place.write_text("\n".join([header, *lines]))
    return place


def test_few_distinct_rows_are_noted_with_what_helps(tmp_path):
    lines = [f"{n % 16 // 4},{n % 4},{'ab'[n % 2]}" for n in range(20_000)]
    source = table(tmp_path, lines, "x,y,label")
    made = make(tmp_path / "out", "--input", source, command="table")
    (note,) = notes(made)
    sizes = {name: split.records for name, split in made.manifest.splits.items()}
    train = sizes["train"]
    assert note.startswith(
        f"the 20,000 records are not divided as --splits says: train {train:,} ("
    )
    assert "few contents are distinct" in note
    assert "--stratify divides the records of each class exactly" in note
    assert "--key-column names a column" in note
    exact = make(tmp_path / "exact", "--input", source, "--stratify", command="table")
    assert not notes(exact)
    assert {name: split.records for name, split in exact.manifest.splits.items()} == {
        "train": 16_000, "validation": 2000, "test": 2000
    }  # fmt: skip


def test_stratify_is_not_named_without_classes(tmp_path):
    source = table(tmp_path, [f"{n % 4},{n % 2}" for n in range(2000)], "x,y")
    (note,) = notes(make(tmp_path / "out", "--input", source, command="table"))
    assert "--stratify" not in note
    assert "--key-column" in note


def test_a_key_column_meets_the_fractions(tmp_path):
    source = table(tmp_path, [f"{n},{n % 4},{'ab'[n % 2]},g" for n in range(5000)])
    argv = ("--input", source, "--drop-columns", "group")
    assert not notes(make(tmp_path / "out", *argv, "--key-column", "id", command="table"))
    assert not notes(make(tmp_path / "distinct", *argv, command="table"))


@pytest.mark.parametrize("seed", range(4))
def test_distinct_rows_and_small_tables_are_not_noted(seed, tmp_path):
    for rows in (3, 40, 700):
        source = table(tmp_path, [f"{n},{n % 4},a,g" for n in range(rows)])
        argv = ("--input", source, "--drop-columns", "group", "--seed", seed)
        assert not notes(make(tmp_path / f"{rows}", *argv, command="table"))


def test_large_groups_are_named_as_the_reason(tmp_path):
    lines = [f"{n},{n % 4},{'ab'[n % 2]},{'big' if n < 1500 else n}" for n in range(3000)]
    argv = ("--input", table(tmp_path, lines), "--group-column", "group")
    argv += ("--splits", "train=0.5,test=0.5")
    (note,) = notes(make(tmp_path / "out", *argv, command="table"))
    assert "groups are kept whole; --stratify comes nearer to the fractions" in note
    assert "--key-column" not in note
    stratified = make(tmp_path / "stratified", *argv, "--stratify", command="table")
    assert not notes(stratified)


def test_series_are_named_as_the_reason(tmp_path):
    rows = {"a": 900, "b": 20, "c": 20}
    lines = [f"{60 * n},{name},{n}" for name, count in rows.items() for n in range(count)]
    source = table(tmp_path, lines, "time,machine,v")
    argv = ("--input", source, "--time-column", "time", "--series-column", "machine")
    argv += ("--window", 2)
    (note,) = notes(make(tmp_path / "out", *argv, command="sensor"))
    assert "all windows of a series share a split; --split-by series-time" in note
    for split_by in ("time", "series-time"):
        made = make(tmp_path / split_by, *argv, "--split-by", split_by, command="sensor")
        assert not notes(made)


def test_splits_that_the_input_names_are_not_compared_with_fractions(tmp_path):
    lines = [f"{n},{n % 4},a,{'train' if n < 1990 else 'test'}" for n in range(2000)]
    argv = ("--input", table(tmp_path, lines), "--split-column", "group")
    assert not notes(make(tmp_path / "out", *argv, command="table"))
