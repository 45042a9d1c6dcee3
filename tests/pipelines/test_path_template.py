"""Paths of listings that several columns make: --path-template."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import recordmill
from recordmill import read
from recordmill.pipelines.cli import main
from recordmill.transforms import AssignSplits, ReadImages, WriteToTFRecord
from tests.folders import make_picture
from tests.image_runs import Made


def run(*argv: object) -> int:
    return main([*map(str, argv), "--quiet"])


def make(output: pathlib.Path, *argv: object) -> Made:
    assert run(*argv, "--output", output) == 0
    return Made(output)


def listing(folder: pathlib.Path, extension: str) -> pathlib.Path:
    """A listing of fold1/0.png to fold3/8.png with the columns fold, name, class and note."""
    rows = []
    for number in range(9):
        fold = number % 3 + 1
        make_picture(folder / f"fold{fold}" / f"{number}.png", number)
        rows.append({"fold": fold, "name": f"{number}.png", "class": "ab"[number % 2], "note": "x"})
    path = folder / f"list.{extension}"
    if extension == "csv":
        lines = [",".join(map(str, row.values())) + "\n" for row in rows]
        path.write_text("fold,name,class,note\n" + "".join(lines))
    elif extension == "jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    else:
        pq.write_table(pa.Table.from_pylist(rows), path)
    return path


TEMPLATE = ("--path-template", "fold{fold}/{name}")


@pytest.mark.parametrize("extension", ["csv", "jsonl", "parquet"])
def test_several_columns_make_a_path(extension, tmp_path):
    argv = ("images", "--input", listing(tmp_path / "in", extension), "--size", 8, *TEMPLATE)
    made = make(tmp_path / "out", *argv, "--splits", "train=1")
    assert made.keys("train") == {f"fold{n % 3 + 1}/{n}.png" for n in range(9)}
    assert made.manifest.splits["train"].classes == {"a": 5, "b": 4}
    record = next(iter(read(tmp_path / "out", "train")))
    assert "note" in record
    assert not {"fold", "name"}.intersection(record)
    split = ("--split-column", "fold", "--split-map", "3=test,*=train")
    made = make(tmp_path / "split", *argv, *split, "--where", "fold > 1")
    assert {name: len(made.keys(name)) for name in made.manifest.splits} == {"test": 3, "train": 3}


def test_ids_get_an_extension(tmp_path, capsys):
    for number in range(4):
        make_picture(tmp_path / "train" / f"{number:04}.png", number)
    rows = [f"{number:04},{'ab'[number % 2]}\n" for number in range(4)]
    (tmp_path / "labels.csv").write_text("id,breed\n" + "".join(rows))
    argv = ["images", "--input", tmp_path / "labels.csv", "--size", 8, "--splits", "train=1"]
    argv += ["--label-column", "breed"]
    assert run(*argv, "--path-column", "id", "--output", tmp_path / "none") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "; --path-template 'train/{id}.png' adds what the names lack" in said
    made = make(tmp_path / "a", *argv, "--path-template", "train/{id}.png")
    assert made.keys("train") == {f"train/{number:04}.png" for number in range(4)}
    argv += ["--input-root", tmp_path / "train"]
    assert run(*argv, "--path-column", "id", "--output", tmp_path / "none") == 2
    assert "; --path-template '{id}.png' adds" in " ".join(capsys.readouterr().err.split())
    made = make(tmp_path / "b", *argv, "--path-template", "{id}.png", "--key-column", "id")
    assert made.keys("train") == {f"{number:04}" for number in range(4)}
    assert run(*argv, "--output", tmp_path / "none") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "or a form such as --path-template '{id}.EXTENSION' if paths are made of" in said


def test_rows_without_a_part_of_the_path_are_rejected(tmp_path):
    path = listing(tmp_path / "in", "csv")
    path.write_text(path.read_text() + ",0.png,a,x\n9,9.png,a,x\n")
    argv = ("images", "--input", path, "--size", 8, *TEMPLATE, "--max-reject-fraction", 0.5)
    make(tmp_path / "out", *argv)
    rejects = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
    details = [json.loads(line)["detail"] for line in rejects]
    assert "row 10: no path in --path-template fold{fold}/{name}" in details
    assert any("no such file" in one for one in details)


def test_a_step_makes_paths_as_the_command_does(tmp_path):
    path = listing(tmp_path / "in", "csv")
    argv = ("images", "--input", path, "--image-format", "png", *TEMPLATE, "--splits", "train=1")
    made = make(tmp_path / "a", *argv)
    step = ReadImages(str(path), path_template=TEMPLATE[1])

    def build(pipeline):
        _ = pipeline | step | AssignSplits({"train": 1.0}) | WriteToTFRecord(str(tmp_path / "b"))

    recordmill.run(build)
    assert Made(tmp_path / "b").keys("train") == made.keys("train")


ERRORS = {
    "no column": ("a.png", "expected names of columns in braces, such as 'fold{fold}/"),
    "other column": ("{nane}", "no column 'nane' in {path} (did you mean 'name'?): it has 'fold'"),
    "open brace": ("{name", "--path-template {name: expected '}' before end of string: expected"),
    "no name": ("{}.png", "expected names of columns in braces, as in {id}.jpg, without a format"),
    "format": ("{fold:03}", "expected names of columns in braces, as in {id}.jpg, without a form"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_templates_that_cannot_be_are_errors(name, tmp_path, capsys):
    template, message = ERRORS[name]
    path = listing(tmp_path / "in", "csv")
    argv = ("images", "--input", path, "--size", 8, "--output", tmp_path / "out")
    assert run(*argv, "--path-template", template) == 2
    assert message.replace("{path}", str(path)) in " ".join(capsys.readouterr().err.split())
    assert run(*argv, *TEMPLATE, "--path-column", "name") == 2
    assert "--path-template: cannot be combined with --path-column" in capsys.readouterr().err
