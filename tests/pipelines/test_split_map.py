"""Splits of the values of a column, or of a part of paths: --split-map."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recordmill
from recordmill.pipelines.cli import main
from recordmill.transforms import AssignSplits, ReadTable, WriteToTFRecord
from tests.folders import make_picture
from tests.image_runs import Made


def run(*argv: object) -> int:
    return main([*map(str, argv), "--quiet"])


def make(output: pathlib.Path, *argv: object) -> Made:
    assert run(*argv, "--output", output) == 0
    return Made(output)


def counts(made: Made) -> dict[str, int]:
    return {name: len(made.keys(name)) for name in made.manifest.splits}


def folds(folder: pathlib.Path, extension: str) -> pathlib.Path:
    """A table with the column `fold`, 1 to 5, of which four rows have none."""
    rows = [{"x": n, "fold": n % 5 + 1 if n < 50 else None} for n in range(54)]
    path = folder / f"rows.{extension}"
    if extension == "csv":
        lines = [f"{row['x']},{row['fold'] or ''}\n" for row in rows]
        path.write_text("x,fold\n" + "".join(lines))
    elif extension == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        kind = pa.float64() if extension == "floats.parquet" else pa.int64()
        schema = pa.schema([("x", pa.int64()), ("fold", kind)])
        pq.write_table(pa.Table.from_pylist(rows, schema), path)
    return path


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet", "floats.parquet"])
def test_values_of_a_column_are_mapped_to_splits(extension, tmp_path):
    argv = ("table", "--input", folds(tmp_path, extension), "--split-column", "fold")
    argv = (*argv, "--splits", "train=1")  # of the rows without a value
    made = make(tmp_path / "out", *argv, "--split-map", "5=test,4=dev,*=train")
    assert counts(made) == {"train": 34, "validation": 10, "test": 10}


@pytest.mark.parametrize("extension", ["csv", "floats.parquet"])
def test_values_may_be_left_out(extension, tmp_path):
    argv = ("table", "--input", folds(tmp_path, extension), "--split-column", "fold")
    argv = (*argv, "--splits", "train=1")  # of the rows without a value
    made = make(tmp_path / "out", *argv, "--split-map", "5=test,4=none,*=train")
    assert counts(made) == {"train": 34, "test": 10}
    reasons = made.manifest.ledger.filtered
    assert {**reasons.inputs, **reasons.records} == {"split-map": 10}


def test_folders_may_be_left_out(tmp_path):
    for number in range(6):
        make_picture(tmp_path / "in" / f"201{number}" / "a" / f"{number}.png", number)
    argv = ("images", "--input", tmp_path / "in", "--size", 8, "--split-from", "top")
    made = make(tmp_path / "out", *argv, "--split-map", "2010=test,2011=train,*=none")
    assert counts(made) == {"train": 1, "test": 1}
    assert made.manifest.ledger.filtered.inputs == {"split-map": 4}


def test_values_without_a_split_are_listed(tmp_path, capsys):
    argv = ("table", "--input", folds(tmp_path, "csv"), "--split-column", "fold", "--output")
    assert run(*argv, tmp_path / "out", "--split-map", "5=test,4=validation") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "--split-map: no split for '1', '2', '3': add the values, or *=train for all" in said
    assert not (tmp_path / "out" / "dataset.json").exists()


def photos(folder: pathlib.Path, form: str) -> pathlib.Path:
    for number in range(15):
        name = form.format(fold=number % 5 + 1, kind="ab"[number % 2], number=number)
        make_picture(folder / name, number)
    return folder


@pytest.mark.parametrize(
    ("form", "rule"),
    [
        ("fold{fold}/{kind}/{number}.png", "top"),
        ("fold{fold}/{kind}/{number}.png", "folders"),
        ("{kind}/fold{fold}/{number}.png", "folder:2"),
        ("{kind}/x=fold{fold}/{number}.png", "x="),
        ("{kind}/{number}-fold{fold}.png", "-([a-z0-9]+)"),
    ],
)
def test_a_part_of_paths_is_mapped_to_splits(form, rule, tmp_path, capsys):
    place = photos(tmp_path / "in", form)
    argv = ("images", "--input", place, "--size", 8, "--split-from", rule, "--split-map")
    made = make(tmp_path / "out", *argv, "fold5=test,fold4=validation,*=train")
    assert counts(made) == {"train": 9, "validation": 3, "test": 3}
    assert tuple(made.manifest.labels) == ("a", "b")
    assert run(*argv, "fold5=test", "--output", tmp_path / "none") == 1
    assert "no split for 'fold1', 'fold2', 'fold3', 'fold4'" in capsys.readouterr().err


def test_values_of_listings_and_text_files_are_mapped(tmp_path):
    place = photos(tmp_path / "in", "{kind}/{number}.png")
    lines = [f"in/{'ab'[n % 2]}/{n}.png,{n % 5}\n" for n in range(15)]
    (tmp_path / "list.csv").write_text("path,fold\n" + "".join(lines))
    argv = ("--split-column", "fold", "--split-map", "0=test", "--split-map", "*=train")
    made = make(tmp_path / "a", "images", "--input", tmp_path / "list.csv", "--size", 8, *argv)
    assert counts(made) == {"train": 12, "test": 3}
    for path in place.rglob("*.png"):
        path.with_suffix(".txt").write_text(f"text {path.stem}")
        path.unlink()
    argv = ("--split-from", "top", "--split-map", "a=train,b=test")
    made = make(tmp_path / "b", "text", "--input", place, "--label-type", "none", *argv)
    assert counts(made) == {"train": 8, "test": 7}


def test_a_step_maps_values_as_the_command_does(tmp_path):
    rows = folds(tmp_path, "csv")
    argv = ("--split-column", "fold", "--splits", "train=1", "--split-map", "5=test,*=train")
    made = make(tmp_path / "a", "table", "--input", rows, *argv)
    step = ReadTable(str(rows), split_column="fold", split_map={"5": "test", "*": "train"})

    def build(pipeline):
        _ = pipeline | step | AssignSplits({"train": 1.0}) | WriteToTFRecord(str(tmp_path / "b"))

    recordmill.run(build)
    assert Made(tmp_path / "b").manifest.digest == made.manifest.digest


ERRORS = {
    "no value": ("=test", "expected VALUE=SPLIT,..., such as 5=test,*=train; got '=test'"),
    "no split": ("5", "expected VALUE=SPLIT"),
    "twice": ("5=test,5=train", "expected one split for '5', got 'test' and 'train'"),
    "no name": ("5=a b", "--split-map: expected names of letters, digits, _ and -"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_maps_that_cannot_be_are_errors(name, tmp_path, capsys):
    text, message = ERRORS[name]
    argv = ("table", "--input", folds(tmp_path, "csv"), "--output", tmp_path / "out")
    assert run(*argv, "--split-column", "fold", "--split-map", text) == 2
    assert message in capsys.readouterr().err
    assert run(*argv, "--split-map", "5=test") == 2
    assert "has no effect without --split-column or --split-from" in capsys.readouterr().err
