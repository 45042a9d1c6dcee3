"""Notes on groups that differ only by spelling, and on records without a group."""

import pathlib

import pytest

from recordmill.pipelines.cli import main
from recordmill.transforms.planning import group_names
from tests.folders import make_picture

GROUPS = ("P07", "p07 ", "P08", "Mu\u0308ller", "M\u00fcller", "", "p07 ", " ")
ALIKE = (
    "6 groups become 4 if case, surrounding spaces, Unicode form and invisible characters"
    " are ignored: {};"
    " spell each group in one way"
)
NAMES = "'Mu\u0308ller' (train) and 'M\u00fcller' (train); 'P07' (train) and 'p07 ' (train)"
MISSING = (
    "1 of 8 records has no group: each is a group of its own, so fill in the group of those that"
    " belong together; the group of 1 record is white space alone, which counts as a name: --trim"
    " reads it as missing"
)


def rows(folder: pathlib.Path) -> list[str]:
    lines = [f"{n},{group}" for n, group in enumerate(GROUPS)]
    (folder / "in.csv").write_text("\n".join(["x,patient", *lines]) + "\n", "utf-8")
    return ["table"]


def listing(folder: pathlib.Path) -> list[str]:
    for number in range(len(GROUPS)):
        make_picture(folder / f"{number}.png", number)
    lines = [f"{n}.png,{group}" for n, group in enumerate(GROUPS)]
    (folder / "in.csv").write_text("\n".join(["path,patient", *lines]) + "\n", "utf-8")
    return ["images"]


@pytest.fixture(params=[rows, listing])
def planned(request, tmp_path, capsys):
    """Returns the exit code and the messages of a dry run with options."""
    argv = [*request.param(tmp_path), "--input", str(tmp_path / "in.csv"), "--output",
            str(tmp_path / "out"), "--group-column", "patient", "--dry-run"]  # fmt: skip

    def plan(*options: str) -> tuple[int, str]:
        code = main([*argv, *options])
        return code, capsys.readouterr().err

    return plan


def test_groups_alike_and_records_without_group(planned):
    code, notes = planned("--splits", "train=1")
    assert code == 0
    assert ALIKE.format(NAMES) in notes
    assert MISSING in notes


def test_groups_of_equal_numbers(tmp_path, capsys):
    lines = [f"{n},{group}" for n, group in enumerate(("7", "7.0", "8", "a", " 8", "9"))]
    (tmp_path / "in.csv").write_text("\n".join(["x,patient", *lines]) + "\n")
    argv = ["--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out"), "--dry-run"]
    assert main(["table", *argv, "--group-column", "patient", "--splits", "train=1"]) == 0
    assert (
        "names of groups are the same number in different notations: '7' (train) and '7.0'"
        " (train); spell each group in one way"
    ) in capsys.readouterr().err


def test_each_can_be_an_error(planned):
    assert planned("--fail-on", "groups-alike")[0] == 1
    assert planned("--fail-on", "no-group")[0] == 1


def test_the_splits_of_groups_are_named(planned):
    _, notes = planned("--splits", "train=0.5,test=0.5", "--seed", "3")
    assert "'P07' (test) and 'p07 ' (train); 1 of 2 are in several splits; spell" in notes


def test_trimmed_groups_are_missing(planned):
    _, notes = planned("--trim")
    assert "2 of 8 records have no group" in notes
    assert "white space" not in notes


def test_of_many_groups_some_are_compared(planned, monkeypatch):
    monkeypatch.setattr(group_names, "COMPARED", 2)
    _, notes = planned()
    assert "note: in a sample, 3 groups become 2 if case" in notes


def test_series_are_compared(tmp_path, capsys):
    lines = [f"{name},{n},{n}" for name in ("a1", "A1") for n in range(4)]
    (tmp_path / "in.csv").write_text("\n".join(["logger,time,x", *lines]))
    argv = ["sensor", "--input", str(tmp_path / "in.csv"), "--output", str(tmp_path / "out"),
            "--series-column", "logger", "--time-column", "time", "--time-unit", "s",
            "--window", "2", "--splits", "train=1", "--dry-run"]  # fmt: skip
    assert main(argv) == 0
    said = capsys.readouterr().err
    assert "2 series become 1 if case" in said
    assert "no group" not in said


def test_files_are_not_compared_as_groups(tmp_path, capsys):
    """Chunks are grouped by their file, and names that differ by case are different files."""
    for name in ("a.txt", "A.txt"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("one two three four " * 20)
    argv = ["text", "--input", str(tmp_path / "in"), "--output", str(tmp_path / "out"),
            "--tokenizer", "words", "--chunk", "8", "--splits", "train=1", "--dry-run"]  # fmt: skip
    assert main(argv) == 0
    assert "if case" not in capsys.readouterr().err
