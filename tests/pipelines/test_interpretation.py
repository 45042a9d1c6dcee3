"""The description of the input that a run prints before it starts, and notes on its counts."""

import json
from itertools import product

import numpy as np
import pytest

from recordmill.pipelines.cli import main
from tests.folders import make_folder
from tests.image_runs import Made, make
from tests.paths import BOXES


def printed(capsys) -> dict[str, str]:
    """{part: what it was taken from} of the last run."""
    lines = [line.split("  ", 1) for line in capsys.readouterr().err.splitlines()]
    return {words[0]: words[1].strip() for words in lines if len(words) == 2}


@pytest.fixture
def rows(tmp_path):
    path = tmp_path / "a.csv"
    lines = [f"{n},{n}.5,{'xy'[n % 2]},p{n // 4}" for n in range(40)]
    path.write_text("\n".join(["id,size,emotion,patient_id", *lines]))
    return path


def test_columns_that_could_have_a_role(rows, tmp_path, capsys):
    argv = ["table", "--input", str(rows), "--output", str(tmp_path / "out")]
    assert main(argv) == 0
    assert printed(capsys) == {
        "data": f"table, {rows}",
        "classes": "none; no column is named label, class, category or target (--label-column could"
        " be 'id', 'size', 'emotion', 'patient_id')",
        "splits": "divided by --splits train=0.8,validation=0.1,test=0.1 (the default)",
        "keys": "the content of a row (--key-column could be 'id', 'patient_id')",
        "groups": "none (--group-column could be 'patient_id')",
        "columns": "id (int), size (float), emotion (string), patient_id (string)",
    }
    assert main([*argv, "--label-type", "none", "--overwrite", "--dry-run"]) == 0
    assert printed(capsys)["classes"] == "none, because of --label-type none"
    named = ["--label-column", "emotion", "--key-column", "id", "--group-column", "patient_id"]
    assert main([*argv, *named, "--splits", "train=0.5,test=0.5", "--overwrite"]) == 0
    facts = {
        "data": f"table, {rows}",
        "classes": "the column 'emotion'",
        "splits": "divided by --splits train=0.5,test=0.5",
        "keys": "the column 'id'",
        "groups": "the column 'patient_id'",
        "columns": "size (float)",
    }
    assert printed(capsys) == facts
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert job["interpretation"] == facts


def test_columns_of_texts(tmp_path, capsys):
    path = tmp_path / "a.csv"
    path.write_text("review,answer,label\n" + "a b,c,x\n" * 40)
    argv = ["text", "--input", str(path), "--output", str(tmp_path / "out"), "--dry-run"]
    assert main([*argv, "--drop-columns", "answer"]) == 0
    assert printed(capsys)["text"] == "the column 'review'"
    assert main([*argv, "--text-columns", "review,answer"]) == 0
    assert printed(capsys)["text"] == "the columns 'review', 'answer'"


def test_folders(tmp_path, capsys):
    root = make_folder(tmp_path / "in", {"train/a": 2, "test/a": 1})
    argv = ["images", "--input", str(root), "--output", str(tmp_path / "out")]
    assert main([*argv, "--dry-run"]) == 0
    assert printed(capsys) == {
        "data": f"images, {root}, 3 files",
        "classes": "the folders below the split; 1 class, 'a' (3)",
        "splits": "the top folders",
    }
    assert main([*argv, "--split-from", "none", "--label-from", "parent", "--quiet"]) == 0
    assert printed(capsys) == {}
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert job["interpretation"]["classes"] == "the folders around the files; 1 class, 'a' (3)"


def test_classes_of_one_size_have_no_smallest_one(tmp_path, capsys):
    root = make_folder(tmp_path / "in", {"a": 2, "b": 2})
    assert main(["images", "--input", str(root), "--output", str(tmp_path / "o"), "--dry-run"]) == 0
    assert "the top folders; 2 classes, each with 2\n" in capsys.readouterr().err


def test_a_dry_run_as_json(tmp_path, capsys):
    root = make_folder(tmp_path / "in", {"a": 12, "b": 3, "c": 3})
    (root / "b" / "000.jpg").write_bytes(b"no image")
    argv = ["--input", root, "--output", tmp_path / "out", "--splits", "train=1", "--json"]
    argv += ["--balance", "oversample", "--max-reject-fraction", "0.1", "--quiet"]
    assert main(["images", *map(str, argv), "--dry-run"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["interpretation"]["classes"] == (
        "the top folders; 3 classes, the smallest 'b' (3), the largest 'a' (12)"
    )
    assert shown["classes"] == {
        "number": 3,
        "smallest": {"name": "b", "records": 2},
        "largest": {"name": "a", "records": 12},
    }
    train = shown["splits"]["train"]
    assert train["classes"] == {"a": 12, "b": 12, "c": 12}
    assert (train["records"], train["copies"], train["shards"]) == (36, 19, 1)
    assert shown["rejects"] == {"not_an_image": 1}
    assert (shown["notes"], shown["error"]) == ([], None)
    assert main(["images", *map(str, argv)]) == 2
    assert "--json: has no effect without --dry-run" in capsys.readouterr().err


def test_a_refused_dry_run_as_json(tmp_path, capsys):
    rows = tmp_path / "a.csv"
    rows.write_text("x,label\n" + "".join(f"{n},{n}\n" for n in range(60)))
    argv = ["table", "--input", str(rows), "--output", str(tmp_path / "out"), "--dry-run", "--json"]
    assert main(argv) == 1
    shown = json.loads(capsys.readouterr().out)
    assert "60 classes, and all are integers" in shown["error"]
    assert shown["interpretation"]["classes"] == "the column 'label'"


def test_annotations(tmp_path, capsys):
    argv = ["--input", BOXES / "images", "--annotations", BOXES / "annotations.json"]
    argv += ["--output", tmp_path / "out", "--dry-run", "--balance", "oversample"]
    assert main(["images", *map(str, argv)]) == 0
    assert printed(capsys)["classes"] == (
        "the annotations; 3 classes, the smallest 'circle' (16), the largest 'rectangle' (99)"
    )


def test_a_column_of_a_table_may_be_named_text(tmp_path, capsys):
    rows = tmp_path / "a.csv"
    rows.write_text("text,x,label\n" + "".join(f"t{n},{n},{'ab'[n % 2]}\n" for n in range(20)))
    argv = ["--input", str(rows), "--output", str(tmp_path / "out"), "--dry-run"]
    for command, columns in (("table", "text (string), x (int)"), ("text", "x (int)")):
        assert main([command, *argv]) == 0
        assert printed(capsys)["columns"] == columns


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--array", "x", "--label-array", "y", "--per-item"), "the array 'y'"),
    ],
)
def test_classes_of_arrays(options, words, tmp_path, capsys):
    np.savez(tmp_path / "a.npz", x=np.zeros((20, 2)), y=np.arange(20) % 2)
    argv = ["--input", str(tmp_path / "a.npz"), "--output", str(tmp_path / "out"), "--dry-run"]
    assert main(["arrays", *argv, *options]) == 0
    assert printed(capsys)["classes"] == words


def test_classes_that_a_split_lacks_are_noted(tmp_path):
    rows = tmp_path / "a.csv"
    classes = {"train": "aabbccdd", "validation": "ab", "test": "abce"}
    lines = [f"1,{label},{split}" for split, labels in classes.items() for label in labels]
    rows.write_text("\n".join(["x,label,split", *lines]))
    notes = make(tmp_path / "out", "--input", rows, command="table").manifest.notes
    assert [(note.code, str(note)) for note in notes if note.code == "empty-class"] == [
        (
            "empty-class",
            "train alone has a class: 'd' (2 records); --exclude-labels d leaves their records out",
        ),
        (
            "empty-class",
            "of 5 classes, train lacks 1 ('e'); validation lacks 3 ('c', 'e' and the one of train"
            " alone)",
        ),
    ]


def test_a_class_that_train_alone_has_is_noted_once(tmp_path):
    """The unlabelled reviews of IMDB are in a folder of train."""
    for split, label in (("train", "unsup"), *product(("train", "test"), ("pos", "neg"))):
        for number in range(3):
            text = tmp_path / "in" / split / label / f"{number}.txt"
            text.parent.mkdir(parents=True, exist_ok=True)
            text.write_text(f"{split} {label} {number}")
    made = make(tmp_path / "out", "--input", tmp_path / "in", command="text")
    note = (
        "train alone has a class: 'unsup' (3 records); --exclude-labels unsup leaves their records"
        " out"
    )
    assert [str(one) for one in made.manifest.notes if one.code == "empty-class"] == [note]
    argv = ("--input", tmp_path / "in", "--exclude-labels", "unsup", "--overwrite")
    made = make(tmp_path / "out", *argv, command="text")
    assert made.manifest.labels == ("neg", "pos")
    assert all(one.code != "empty-class" for one in made.manifest.notes)


def test_many_classes_that_train_alone_has_are_one_note(tmp_path):
    lines = [f"{n},c{n:02},train" for n in range(30)] + ["1,c00,test", "2,c01,validation"]
    (tmp_path / "a.csv").write_text("\n".join(["x,label,split", *lines]))
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", command="table")
    assert [str(one) for one in made.manifest.notes if one.code == "empty-class"] == [
        "train alone has 28 of 30 classes: 'c02' (1 record), 'c03' (1 record), 'c04' (1 record),"
        " ...; --exclude-labels leaves their records out",
        "of 30 classes, validation lacks 29 ('c00' and the 28 of train alone); test lacks 29 ('c01'"
        " and the 28 of train alone)",
    ]


def test_records_that_are_repeated_very_often_are_noted(tmp_path):
    rows = tmp_path / "a.csv"
    labels = ["common"] * 100 + ["rare"] * 5 + ["single"]
    rows.write_text("\n".join(["x,label", *(f"{n},{label}" for n, label in enumerate(labels))]))
    argv = ("--input", rows, "--splits", "train=1", "--balance", "oversample")
    made = make(tmp_path / "out", *argv, command="table")
    assert [str(note) for note in made.manifest.notes if note.code == "many-copies"] == [
        "2 classes are repeated 20 times or more: 'single' has 1 record in train, each written 100"
        " times; --balance-target limits it"
    ]
    argv = (*argv, "--balance-target", 50, "--overwrite")
    made = make(tmp_path / "out", *argv, command="table")
    assert [str(note) for note in made.manifest.notes if note.code == "many-copies"] == [
        "a class is repeated 20 times or more: 'single' has 1 record in train, each written 50"
        " times; --balance-target limits it"
    ]


def test_an_input_without_train_is_noted(tmp_path):
    rows = tmp_path / "a.csv"
    rows.write_text("x,split\n1,test\n2,dev\n")
    made = make(tmp_path / "out", "--input", rows, command="table")
    assert [str(note) for note in made.manifest.notes if note.code == "empty-split"] == [
        "no record is in the split 'train', because the input names other splits"
    ]


def test_a_split_of_which_all_records_were_left_out_is_noted(tmp_path):
    for name in ("a", "b"):
        (tmp_path / f"{name}.csv").write_text("x,label\n1,p\n2,q\n")
    inputs = ("--input", f"train={tmp_path / 'a.csv'}", "--input", f"test={tmp_path / 'b.csv'}")

    def empty_splits(*argv: object) -> list[str]:
        made = make(tmp_path / "out", *argv, "--overwrite", command="table")
        return [str(note) for note in made.manifest.notes if note.code == "empty-split"]

    reason = "no record is in the split 'train', because its records were left out: duplicate 2"
    assert empty_splits(*inputs, "--dedup", "drop") == [reason]
    (tmp_path / "c.csv").write_text("x,label,split\n1,p,test\n2,q,train\n")
    assert empty_splits("--input", tmp_path / "c.csv", "--exclude-labels", "q") == [
        "no record is in the split 'train', because the input names other splits, or its records"
        " were rejected or left out"
    ]


def test_a_scheduler_can_refuse_what_is_noted(tmp_path, capsys):
    rows = tmp_path / "a.csv"
    rows.write_text("x,split\n1,test\n2,dev\n")
    argv = ["table", "--input", str(rows), "--output", str(tmp_path / "out")]
    assert main([*argv, "--fail-on", "empty-split"]) == 1
    assert "--fail-on empty-split" in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert Made(tmp_path / "out").folder.exists()


@pytest.mark.parametrize("name", ["train.csv", "my_test.csv"])
def test_the_name_of_a_single_file_is_noted(name, tmp_path):
    rows = tmp_path / name
    rows.write_text("x\n" + "1\n" * 9)
    split = "test" if "test" in name else "train"
    made = make(tmp_path / "out", "--input", rows, command="table")
    assert [str(note) for note in made.manifest.notes if note.code == "splits"] == [
        f"{name} has the name of a split, but its records are divided by --splits:"
        f" --input {split}={rows} puts all of them into {split}"
    ]
    for argv in (["--input", f"{split}={rows}"], ["--input", rows, "--split-from", "none"]):
        made = make(tmp_path / "out", *argv, "--overwrite", command="table")
        assert not [note for note in made.manifest.notes if note.code == "splits"]


def test_the_name_of_a_single_folder_is_noted(tmp_path):
    root = make_folder(tmp_path / "train", {"a": 2})
    made = make(tmp_path / "out", "--input", root)
    assert [note.code for note in made.manifest.notes if note.code == "splits"] == ["splits"]


def test_documents_whose_names_are_splits_are_noted(tmp_path):
    (tmp_path / "in").mkdir()
    for split in ("train", "test"):
        (tmp_path / "in" / f"{split}.txt").write_text("one\ntwo\n")
    made = make(tmp_path / "out", "--input", tmp_path / "in", command="text")
    assert [str(note) for note in made.manifest.notes if note.code == "splits"] == [
        "all 2 text files have names of splits, but each file is one document: --documents line"
        " makes a document of each line, and takes the split from the name of the file"
    ]


def test_images_that_no_row_names_are_noted(tmp_path):
    make_folder(tmp_path / "in", {"a": 3, "b": 2, "c": 1})
    names = sorted(str(one.relative_to(tmp_path / "in")) for one in (tmp_path / "in").rglob("*.*"))
    (tmp_path / "in" / "a" / "readme.txt").write_text("of another extension")
    (tmp_path / "in" / "loose.jpg").write_bytes(b"in a folder that no row names")
    listing = tmp_path / "in" / "list.csv"
    listed = [name for name in names if not name.startswith("c")]
    listing.write_text("\n".join(["path", *listed]))
    made = make(tmp_path / "out", "--input", listing)
    assert not [note for note in made.manifest.notes if note.code == "unlisted"]
    listing.write_text("\n".join(["path", "./" + listed[0], *listed[3:]]))
    made = make(tmp_path / "out", "--input", listing, "--overwrite")
    assert [str(note) for note in made.manifest.notes if note.code == "unlisted"] == [
        "2 files are in the folders of the listed files, but not in list.csv:"
        f" {', '.join(listed[1:3])}"
    ]


def test_an_image_whose_row_is_rejected_counts_as_named(tmp_path):
    make_folder(tmp_path / "in", {"a": 3})
    names = sorted(str(one.relative_to(tmp_path / "in")) for one in (tmp_path / "in").rglob("*.*"))
    rows = [f"{name},{age}" for name, age in zip(names, ("1", "many", "3"), strict=True)]
    listing = tmp_path / "in" / "list.csv"
    listing.write_text("\n".join(["path,age", *rows]))
    options = ("--label-column", "age", "--label-type", "int", "--max-reject-fraction", 1)
    made = make(tmp_path / "out", "--input", listing, *options)
    assert [*made.rejects.values()] == ["bad_value"]
    assert not [note for note in made.manifest.notes if note.code == "unlisted"]


def test_columns_of_a_listing_that_could_be_classes(tmp_path, capsys):
    make_folder(tmp_path / "in", {"a": 4})
    lines = [f"in/a/{n:03}.jpg,{'xy'[n % 2]}" for n in range(4)]
    (tmp_path / "a.csv").write_text("\n".join(["path,dx", *lines]))
    argv = ["images", "--input", str(tmp_path / "a.csv"), "--output", str(tmp_path / "out")]
    argv += ["--dry-run"]
    assert main(argv) == 0
    assert printed(capsys)["classes"] == "none (--label-column could be 'dx')"
    assert main([*argv, "--label-type", "none"]) == 0
    assert printed(capsys)["classes"] == "none, because of --label-type none"
    assert main([*argv, "--drop-columns", "dx"]) == 0
    assert printed(capsys)["classes"] == "none"
    assert main([*argv, "--label-column", "dx"]) == 0
    assert printed(capsys)["classes"].startswith("the column 'dx'")


def test_times_that_divide_series(tmp_path, capsys):
    lines = [f"2026-01-{n // 24 + 1:02}T{n % 24:02}:00,{n}" for n in range(240)]
    (tmp_path / "a.csv").write_text("\n".join(["time,x", *lines]))
    argv = ["sensor", "--input", tmp_path / "a.csv", "--output", tmp_path / "out"]
    argv += ["--time-column", "time", "--window", 6, "--split-by", "time"]
    argv += ["--split-times", "validation=2026-01-07,test=2026-01-09"]
    wanted = "divided by --split-times validation=2026-01-07T00:00:00,test=2026-01-09T00:00:00"
    assert main([*map(str, argv)]) == 0
    assert printed(capsys)["splits"] == wanted
    job = (tmp_path / "out" / "job.json").read_text()
    assert wanted in job
    assert "the default" not in job
