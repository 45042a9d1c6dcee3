"""Options of columns that name them by patterns, through the command line."""

import shlex

import numpy as np
import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import make, run

pytestmark = pytest.mark.usefixtures("encoders")

ROWS = ["age,f1,f2,f*,kind,born,label"] + [
    f"{n},{n / 4},{n % 5},{n % 3},{'xyz'[n % 3]},2024-01-{n % 28 + 1:02},{'ab'[n % 2]}"
    for n in range(40)
]


@pytest.fixture
def rows(tmp_path):
    (tmp_path / "rows.csv").write_text("\n".join(ROWS) + "\n")
    return tmp_path / "rows.csv"


@pytest.mark.parametrize(
    ("pattern", "names"),
    [
        ("--zscore 'f1*,ag*'", "--zscore f1,age"),
        ("--zscore @numeric", "--zscore 'age,f1,f2,f*'"),
        ("--zscore @numeric --minmax age", "--zscore 'f1,f2,f*' --minmax age"),
        ("--zscore 'f*'", "--zscore 'f*'"),  # the name of a column
        ("--one-hot @text", "--one-hot kind,born"),
        ("--types born=date --one-hot @text --date-parts @date=month+day",
         "--types born=date --one-hot kind --date-parts born=month+day"),
        ("--impute '*=0,f1=2' --indicator '*ind'",
         "--impute 'age=0,f1=2,f2=0,f*=0,kind=0,born=0' --indicator kind"),
        ("--bucketize '*2=3,age=4'", "--bucketize f2=3,age=4"),
        ("--types '*=string,age=float,f1=float'",
         "--types 'age=float,f1=float,f2=string,f*=string,kind=string,born=string'"),
        ("--missing 'ag*=3,*1=0.5'", "--missing age=3,f1=0.5"),
        ("--drop-columns 'f?,b*n'", None),
        ("--drop-columns 'k*,b*n'", "--drop-columns kind,born"),
    ],
)  # fmt: skip
def test_patterns_are_the_columns_that_they_match(rows, tmp_path, pattern, names, capsys):
    if names is None:  # only * is special
        assert run("table", "--input", rows, "--output", tmp_path / "x", *shlex.split(pattern)) == 2
        assert "no column 'f?'" in capsys.readouterr().err
        return
    made = [
        make(tmp_path / str(n), "--input", rows, *shlex.split(one), command="table").manifest
        for n, one in enumerate((pattern, names))
    ]
    assert made[0].digest == made[1].digest
    columns = {"zscore", "minmax", "one_hot", "date_parts", "impute", "bucketize", "indicator"}
    options = [{name: one.options[name] for name in columns} for one in made]
    assert options[0] == options[1]  # the manifest has names


def test_a_run_with_the_same_pattern_finds_the_dataset(rows, tmp_path, capsys):
    argv = ("--input", rows, "--output", tmp_path / "out")
    for _ in range(2):
        assert run("table", *argv, "--zscore", "@numeric") == 0
    assert run("table", *argv, "--zscore", "*") == 2
    assert "--zscore was @numeric, is *" in capsys.readouterr().err


def test_an_earlier_dataset_names_the_columns(rows, tmp_path, capsys):
    make(tmp_path / "first", "--input", rows, "--zscore", "f1*,@numeric", command="table")
    argv = ("--input", rows, "--output", tmp_path / "second", "--learned-from", tmp_path / "first")
    assert run("table", *argv, "--zscore", "@numeric") == 2
    assert "--zscore is @numeric, and was age,f*,f1,f2" in capsys.readouterr().err
    assert run("table", *argv, "--zscore", "age,f*,f1,f2") == 0


def test_an_exported_model_has_the_columns(rows, tmp_path):
    make(tmp_path / "out", "--input", rows, "--zscore", "@numeric", command="table")
    argv = ["--dataset", str(tmp_path / "out"), "--output", str(tmp_path / "model")]
    assert main(["export-transform", *argv]) == 0


def test_windows_are_scaled_by_their_own_rows(tmp_path):
    rows = ["time,a,b,name"] + [f"{n},{n / 2},{n % 7},s{n // 20}" for n in range(60)]
    (tmp_path / "rows.csv").write_text("\n".join(rows))
    argv = ("--input", tmp_path / "rows.csv", "--time-column", "time", "--window", 5)
    argv += ("--series-column", "name", "--time-unit", "s", "--zscore-by", "window")
    made = [
        make(tmp_path / name.strip("@"), *argv, "--zscore", name, command="sensor")
        for name in ("@numeric", "a,b")
    ]
    assert made[0].manifest.digest == made[1].manifest.digest
    example = next(iter(made[0].examples("train").values()))
    assert np.mean(example["a"]) == pytest.approx(0, abs=1e-6)


def test_numbers_to_predict_and_weights_are_not_scaled(rows, tmp_path):
    argv = ("--input", rows, "--label-column", "age", "--label-type", "int")
    options = ("--weight-column", "f2", "--zscore", "@numeric", "--drop-columns", "label")
    dataset = make(tmp_path / "out", *argv, *options, command="table")
    assert dataset.manifest.options["zscore"] == ["f*", "f1"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--zscore 'g*'", "column 'g*' of"),
        ("--zscore @date", "has no column of the kind @date: its columns"),
        ("--zscore @numeric --minmax 'f1*'", "--minmax f1: conflicts with --zscore f1"),
        ("--impute '*1=0,f1*=1'", "match the column 'f1', with other values"),
        ("--types 'g*=int'", "column 'g*' of"),
        ("--missing 'g*=1'", "--missing g*=1: no column 'g*'"),
    ],
)
def test_patterns_without_columns_are_refused(rows, tmp_path, capsys, options, message):
    argv = ("--input", rows, "--output", tmp_path / "out", *shlex.split(options))
    assert run("table", *argv) == 2
    assert message in " ".join(capsys.readouterr().err.split())
