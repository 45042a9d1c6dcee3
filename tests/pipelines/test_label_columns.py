"""Classes from columns of 0 and 1, through the command line and in Python."""

import itertools
import json
import pathlib
import shlex

import apache_beam as beam
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import recordmill
from recordmill.transforms import ReadTable, WriteToTFRecord
from tests.folders import make_picture
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

FLAGS = ("toxic", "obscene", "is_threat", "is_insult")  # not in the order of their names
VALUES = [row for row in itertools.product((0, 1), repeat=4) if row[1] + row[3] < 2] * 3


def written(folder: pathlib.Path, form: str = "csv") -> pathlib.Path:
    """A table with a text, and a column for each class, in a format."""
    columns = {"comment_text": [f"text {n}" for n in range(len(VALUES))]}
    columns |= {name: [row[at] for row in VALUES] for at, name in enumerate(FLAGS)}
    path = folder / f"rows.{form}"
    if form == "jsonl":
        rows = [dict(zip(columns, one, strict=True)) for one in zip(*columns.values(), strict=True)]
        path.write_text("\n".join(map(json.dumps, rows)))
    elif form == "parquet":
        pq.write_table(pa.table(columns), path)
    else:
        pa.csv.write_csv(pa.table(columns), path)
    return path


def labels_of(dataset: Made, feature: str = "label") -> list[list[str]]:
    names = dataset.manifest.labels
    return [
        [names[number] for number in example.get(feature, [])]
        for split in dataset.manifest.splits
        for example in dataset.examples(split).values()
    ]


def test_each_record_has_the_classes_of_its_columns_of_1(tmp_path):
    argv = ("--label-columns", ",".join(FLAGS), "--splits", "train=1", "--tokenizer", "words")
    made = [
        make(tmp_path / form, "--input", written(tmp_path, form), *argv, command="text")
        for form in ("csv", "jsonl", "parquet")
    ]
    assert len({one.manifest.digest for one in made}) == 1
    dataset = made[0]
    assert dataset.manifest.labels == FLAGS  # in the order of the option
    assert dataset.manifest.multi_label
    assert sorted(labels_of(dataset)) == sorted(
        [name for name, value in zip(FLAGS, row, strict=True) if value] for row in VALUES
    )  # rows of 0 alone have no class, and are not rejected
    assert not dataset.rejects
    assert {*dataset.manifest.features} == {"label", "tokens"}


def test_patterns_select_columns_without_another_role(tmp_path):
    path = written(tmp_path)
    argv = ("--input", path, "--splits", "train=1", "--tokenizer", "words")
    named = make(tmp_path / "named", *argv, "--label-columns", "is_threat,is_insult",
                 "--drop-columns", "toxic,obscene", command="text")  # fmt: skip
    by_pattern = make(tmp_path / "pattern", *argv, "--label-columns", "is_*",
                      "--drop-columns", "t*c,obs*", command="text")  # fmt: skip
    assert by_pattern.manifest.digest == named.manifest.digest
    every = make(tmp_path / "all", *argv, "--label-columns", "*", "--text-column", "comment_text",
                 command="text")  # fmt: skip
    assert every.manifest.labels == FLAGS


def test_a_name_with_an_asterisk_stands_for_itself(tmp_path):
    (tmp_path / "a.csv").write_text("x,f*,fa\n1,0,1\n2,1,0\n3,1,1\n4,0,0\n")
    argv = ("--input", tmp_path / "a.csv", "--splits", "train=1", "--label-columns", "f*")
    dataset = make(tmp_path / "out", *argv, command="table")
    assert dataset.manifest.labels == ("f*",)


def test_columns_of_which_one_is_1_give_a_single_class(tmp_path):
    rows = ["MEL,NV,image", *(f"{n % 2}.0,{1 - n % 2}.0,{n}.png" for n in range(8)), ",,8.png"]
    for n in range(9):
        make_picture(tmp_path / f"{n}.png", n)
    (tmp_path / "a.csv").write_text("\n".join(rows))
    argv = ("--input", tmp_path / "a.csv", "--label-columns", "MEL,NV", "--size", 8)
    argv += ("--splits", "train=1", "--max-reject-fraction", "0.2")
    dataset = make(tmp_path / "out", *argv)
    assert dataset.manifest.features["image/class/label"].shape == ()
    assert dataset.rejects == {"8.png": "unlabelled"}
    classes = {key[0]: one["image/class/text"] for key, one in dataset.examples("train").items()}
    assert classes == {f"{n}.png": [b"MEL" if n % 2 else b"NV"] for n in range(8)}
    [note] = [note for note in dataset.manifest.notes if note.code == "label-columns"]
    assert "exactly one of the columns 'MEL', 'NV' is 1 in every row" in note
    _, labels = next(iter(recordmill.load(tmp_path / "out", "train", batch_size=8)))
    assert np.asarray(labels).shape == (8,)


def test_a_row_far_below_with_two_classes_makes_lists(tmp_path):
    lines = ["x,a,b", *(f"{n},{n % 2},{1 - n % 2}" for n in range(3000)), "3000,1,1"]
    (tmp_path / "a.csv").write_text("\n".join(lines))
    argv = ("--input", tmp_path / "a.csv", "--label-columns", "a,b", "--splits", "train=1")
    dataset = make(tmp_path / "out", *argv, command="table")
    assert dataset.manifest.multi_label
    assert ["a", "b"] in labels_of(dataset)


def test_other_values_are_rejected_and_missing_ones_count_as_0(tmp_path, capsys):
    rows = ["x,a,b", "0,true,FALSE", "1,1.0,0", "2,2,0", "3,,1", "4,,", "5,-1,-1", "6,maybe,1"]
    (tmp_path / "a.csv").write_text("\n".join([*rows, "7,1,1"]))
    argv = ("--input", tmp_path / "a.csv", "--label-columns", "a,b", "--splits", "train=1")
    argv += ("--missing", "a=-1,b=-1", "--max-reject-fraction", "1")
    dataset = make(tmp_path / "out", *argv, command="table")
    assert dataset.rejects == {
        "a.csv#3": "bad_value",
        "a.csv#5": "unlabelled",
        "a.csv#6": "unlabelled",
        "a.csv#7": "bad_value",
    }
    why = "row 3: column 'a': expected 0 or 1, because it is one of --label-columns, got '2'"
    assert why in (dataset.folder / "rejects.jsonl").read_text()
    assert sorted(labels_of(dataset)) == [["a"], ["a"], ["a", "b"], ["b"]]
    kept = make(tmp_path / "kept", *argv, "--unlabelled", "keep", command="table")
    assert sorted(labels_of(kept)) == [[], [], ["a"], ["a"], ["a", "b"], ["b"]]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--label-columns tox", "--label-columns: no column 'tox' in"),
        ("--label-columns 'has_*'", "--label-columns: no column matches 'has_*' in"),
        ("--drop-columns 'Unnamed*'", "--drop-columns: no column matches 'Unnamed*' in"),
        ("--label-columns toxic --group-column toxic", "another option gives this column a role"),
        ("--label-columns toxic --label-column obscene", "cannot be combined with --label-column"),
        ("--label-columns toxic --label-separator ,", "cannot be combined with --label-separator"),
        ("--label-columns toxic --label-type int", "--label-type int, which gives no classes"),
    ],
)
def test_options_that_cannot_be_followed_are_refused(tmp_path, capsys, options, message):
    argv = ("--input", written(tmp_path), "--output", tmp_path / "out", *shlex.split(options))
    assert run("table", *argv) == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_a_note_names_columns_that_may_be_classes(tmp_path):
    path = written(tmp_path)
    argv = ("--input", path, "--splits", "train=1")
    dataset = make(tmp_path / "out", *argv, command="table")
    [note] = [str(note) for note in dataset.manifest.notes if note.code == "label-columns"]
    assert "--label-columns toxic,obscene,is_threat,is_insult takes the classes" in note
    silent = make(tmp_path / "none", *argv, "--label-type", "none", command="table")
    assert not [note for note in silent.manifest.notes if note.code == "label-columns"]


def test_python_takes_the_same_columns(tmp_path):
    path = written(tmp_path)
    with beam.Pipeline() as pipeline:
        _ = (
            pipeline
            | ReadTable(str(path), label_columns=["is_insult", "is_*", "obscene", "toxic"])
            | WriteToTFRecord(str(tmp_path / "python"), splits={"train": 1.0})
        )
    argv = (
        "--input",
        path,
        "--splits",
        "train=1",
        "--label-columns",
        "is_insult,is_*,obscene,toxic",
    )
    dataset = make(tmp_path / "command", *argv, command="table")
    assert Made(tmp_path / "python").manifest.digest == dataset.manifest.digest


VECTORS: dict[str, list[list[float] | None]] = {
    "several": [[0, 1, 1], [1, 0, 0], [0, 0, 0], [1, 0, 0]],
    "one": [[0, 1.0, 0], [1, 0, 0], [0, 0, 1], [1, 0, 0]],
}


def vectors(folder: pathlib.Path, form: str, lists: list[list[float] | None]) -> pathlib.Path:
    """A table with a number and a list of 0 and 1, in a format."""
    rows = [{"x": number, "labels": one} for number, one in enumerate(lists)]
    path = folder / f"rows.{form.split()[0]}"
    if form == "jsonl":
        path.write_text("\n".join(map(json.dumps, rows)))
    else:
        kind = pa.list_(pa.float64(), 3 if form.endswith("fixed") else -1)
        column = pa.array(lists, kind)
        pq.write_table(pa.table({"x": range(len(lists)), "labels": column}), path)
    return path


@pytest.mark.parametrize("form", ["jsonl", "parquet", "parquet fixed"])
@pytest.mark.parametrize("name", VECTORS)
def test_lists_of_0_and_1_are_vectors(form, name, tmp_path):
    path = vectors(tmp_path, form, VECTORS[name])
    argv = ("--input", path, "--label-columns", "labels", "--splits", "train=1")
    dataset = make(tmp_path / "out", *argv, command="table")
    assert dataset.manifest.labels == ("0", "1", "2")
    assert {*dataset.manifest.features} == {"label", "x"}
    expected = [[n for n, value in enumerate(one or ()) if value] for one in VECTORS[name]]
    found = {e["x"][0]: e.get("label", []) for e in dataset.examples("train").values()}
    assert found == dict(enumerate(expected))
    assert bool(dataset.manifest.multi_label) == (name == "several")
    notes = [str(note) for note in dataset.manifest.notes if note.code == "label-columns"]
    assert len(notes) == (name == "one")
    named = make(tmp_path / "named", *argv, "--label-map", "0=a,1=b,2=c", command="table")
    assert {*named.manifest.labels} == {"a", "b", "c"}


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_lists_that_are_no_vectors_are_rejected(form, tmp_path):
    lists = [*VECTORS["several"], [0, 1], [0, 2, 0], None]
    argv = ("--input", vectors(tmp_path, form, lists), "--label-columns", "labels")
    argv = (*argv, "--splits", "train=1", "--max-reject-fraction", 0.5)
    dataset = make(tmp_path / "out", *argv, command="table")
    name = f"rows.{form}"
    assert dataset.rejects == {
        f"{name}#5": "bad_value", f"{name}#6": "bad_value", f"{name}#7": "unlabelled",
    }  # fmt: skip
    assert "expected a list of 3 values of 0 and 1" in (tmp_path / "out/rejects.jsonl").read_text()


def test_a_note_on_padded_flags_of_images_names_options_that_read_them(tmp_path):
    for n in range(12):
        make_picture(tmp_path / f"{n}.png", n)
    rows = [f"{n}.png, {n % 2}, {1 - n % 2}\n" for n in range(12)]
    (tmp_path / "_classes.csv").write_text("filename, cat, dog\n" + "".join(rows))
    argv = ("--input", tmp_path / "_classes.csv", "--size", 8)
    made = make(tmp_path / "a", *argv)
    first, _ = [str(one) for one in made.manifest.notes if one.code == "text-column"]
    assert "' 0' in _classes.csv#1; --trim removes the spaces around values; if 0 and 1 s" in first
    assert first.endswith("has the class 'cat', name such columns with --label-columns")
    made = make(tmp_path / "b", *argv, "--label-columns", "cat,dog")
    labels = labels_of(made, "image/class/label")
    assert sorted(itertools.chain(*labels)) == ["cat"] * 6 + ["dog"] * 6
    made = make(tmp_path / "c", *argv, "--trim")
    assert "text-column" not in {one.code for one in made.manifest.notes}


def test_vectors_in_a_listing_of_images(tmp_path):
    for n in range(4):
        make_picture(tmp_path / f"{n}.png", n)
    rows = [{"path": f"{n}.png", "y": one} for n, one in enumerate(VECTORS["one"])]
    (tmp_path / "a.jsonl").write_text("\n".join(map(json.dumps, rows)))
    argv = ("--input", tmp_path / "a.jsonl", "--label-columns", "y", "--size", 8)
    dataset = make(tmp_path / "out", *argv, "--splits", "train=1")
    classes = {key[0]: one["image/class/label"] for key, one in dataset.examples("train").items()}
    assert classes == {"0.png": [1], "1.png": [0], "2.png": [2], "3.png": [0]}
