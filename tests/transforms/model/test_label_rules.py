"""Classes whose names differ only by spelling."""

import json

import pytest

from recordmill.transforms.model.label_rules import alike_classes
from tests.image_runs import make, run


@pytest.mark.parametrize(
    ("names", "note"),
    [
        (["1", "1.0", "2", "five"], "the same number in different notations: '1' and '1.0';"),
        (["01", "1", "1e0", "10"], "notations: '1' and '01' and '1e0'; --label-map 01=1 joins"),
        (["-.5", "-0.50", "x"], "notations: '-.5' and '-0.50'; --label-map=-0.50=-.5 joins two"),
        ([f"{2**53}", f"{2**53 + 1}", "1.2.3", "nan", "inf", "1_0", "10"], ""),
        (["1e999999", "1.0e999999"], "notations: '1e999999' and '1.0e999999'"),
        ([" 1", "1"], "invisible characters are ignored: ' 1' and '1';"),
    ],
)
def test_equal_numbers_are_noted(names, note):
    notes = list(map(str, alike_classes(names)))
    assert len(notes) == bool(note)
    assert note in "".join(notes)


def test_the_same_number_is_two_classes_of_a_dataset(tmp_path, capsys):
    rows = "text,label\n" + "".join(f"text {n},{['5', '5.0', 'five'][n % 3]}\n" for n in range(9))
    (tmp_path / "t.csv").write_text(rows)
    given = ("--input", tmp_path / "t.csv", "--splits", "train=1")
    dataset = make(tmp_path / "out", *given, command="text")
    assert [note.code for note in dataset.manifest.notes] == ["labels-alike"]

    (tmp_path / "t.csv").write_text(rows.replace("five", "5e0"))
    assert run("text", *given, "--output", tmp_path / "other") == 1
    assert "'5' and '5.0' and '5e0' are the same number\n" in capsys.readouterr().err


def test_a_reject_names_the_expected_class_that_looks_like_it(tmp_path):
    rows = ["text,label", "one,K\u00e4tzchen", "two,hund", "three,Vogel", "four,hase"]
    (tmp_path / "t.csv").write_text("\n".join(rows))
    (tmp_path / "labels.txt").write_text("Ka\u0308tzchen\nhund \nVogel\n")
    given = ("--input", tmp_path / "t.csv", "--labels-file", tmp_path / "labels.txt")
    options = ("--splits", "train=1", "--max-reject-fraction", "1")
    dataset = make(tmp_path / "out", *given, *options, command="text")
    only = "differs from it only by case, spaces or Unicode form"
    rejects = map(json.loads, (dataset.folder / "rejects.jsonl").read_bytes().splitlines())
    assert {reject["key"]: reject["detail"] for reject in rejects} == {
        "t.csv#1": "label 'K\u00e4tzchen' is not one of the expected classes;"
        rf" 'Ka\u0308tzchen' {only}",
        "t.csv#2": f"label 'hund' is not one of the expected classes; 'hund ' {only}",
        "t.csv#4": "label 'hase' is not one of the expected classes",
    }
