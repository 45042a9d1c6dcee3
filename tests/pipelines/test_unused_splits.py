"""Names of splits that no rule takes: an error, or a note, says which options do."""

import itertools
import json
import shlex

import pytest

from tests.archive_files import files_in, tar_of, zip_of
from tests.folders import make_folder
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

FOLDERS = ("a/train", "a/test", "b/train", "b/test")
FOLDERS_OF_ONE = dict.fromkeys(FOLDERS, 1)


def write_rows(root, *names):
    """Writes JSON lines with distinct texts."""
    for number, name in enumerate(names):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        lines = [f'{{"text": "row {number} {n}", "x": {n}}}\n' for n in range(3)]
        (root / name).write_text("".join(lines))
    return root


def write_texts(root, *names):
    for name in names:
        (root / name).mkdir(parents=True)
        (root / name / "1.txt").write_text(f"a text in {name}")
    return root


def write_input(root, kind):
    """Writes what `recordmill KIND` reads, with splits below the top folders."""
    if kind == "images":
        return make_folder(root, FOLDERS_OF_ONE)
    if kind == "documents":
        return write_texts(root, *FOLDERS)
    return write_rows(root, *(f"{name}/part-0.jsonl" for name in FOLDERS))


def split_notes(dataset):
    return [str(note) for note in dataset.manifest.notes if note.code == "splits"]


def command_of(kind):
    return "text" if kind == "documents" else kind


@pytest.mark.parametrize("kind", ["images", "documents", "text", "table"])
def test_splits_below_the_top_folders(kind, tmp_path, capsys):
    root = write_input(tmp_path / "in", kind)
    command, argv = command_of(kind), ("--output", tmp_path / "out")
    assert run(command, *argv, "--input", root) == 2
    said = capsys.readouterr().err
    assert "holds folders named as splits (test, train) below other folders (a, b): " in said
    advice = f"--input 'train={root}/*/train/**' --input 'test={root}/*/test/**'"
    assert advice in said
    assert "--split-from none ignores these names" in said
    assert run(command, *argv, *shlex.split(advice)) == 0
    dataset = Made(tmp_path / "out")
    for split in ("train", "test"):
        assert dataset.manifest.splits[split].records in (2, 6)
    assert split_notes(dataset) == []
    ignored = make(
        tmp_path / "2", "--input", root, "--split-from", "none", "--splits", "train=1",
        command=command,
    )  # fmt: skip
    assert ignored.manifest.splits["train"].records in (4, 12)
    assert split_notes(ignored) == []


@pytest.mark.parametrize("kind", ["images", "text"])
def test_the_top_folders_as_splits(kind, tmp_path):
    root = write_input(tmp_path / "in", kind)
    dataset = make(
        tmp_path / "out", "--input", root, "--split-from", "folders", command=command_of(kind)
    )
    note = split_notes(dataset)[0]
    assert "have names of splits (test, train), but the splits are the top folders" in note
    assert f"--input 'train={root}/*/train/**'" in note


def test_a_column_of_splits_comes_before_folders(tmp_path):
    root = tmp_path / "in"
    for name, split in itertools.product("ab", ("train", "test")):
        (root / name / split).mkdir(parents=True)
        (root / name / split / "1.csv").write_text(f"x,split\n{name} {split},{split}\n")
    dataset = make(tmp_path / "out", "--input", root, command="table")
    assert dataset.manifest.splits["test"].records == 2
    assert split_notes(dataset) == []


def test_splits_in_one_of_several_folders(tmp_path):
    root = make_folder(tmp_path / "in", {"a/train": 1, "a/test": 1, "b": 1})
    (note,) = split_notes(make(tmp_path / "out", "--input", root))
    assert "folders below a of" in note
    assert "have names of splits (test, train), but records are divided by --splits" in note
    assert f"--input 'train={root}/a/train/**'" in note
    assert "(without the files of b/)" in note


def test_splits_in_names_of_some_classes(tmp_path):
    folders = ("seg_train/seg_train/a", "seg_train/seg_train/b", "seg_test/a", "seg_test/b", "pred")
    root = make_folder(tmp_path / "in", dict.fromkeys(folders, 1))
    (note,) = split_notes(make(tmp_path / "out", "--input", root))
    advice = f"--input train={root}/seg_train/seg_train --input test={root}/seg_test"
    assert f"seem to contain names of splits, but records are divided by --splits: {advice}" in note
    dataset = make(tmp_path / "2", *shlex.split(advice))
    assert split_notes(dataset) == []
    assert {split: dataset.manifest.splits[split].records for split in ("train", "test")} == {
        "train": 2,
        "test": 2,
    }
    assert split_notes(make(tmp_path / "3", "--input", root, "--split-from", "none")) == []


def test_splits_in_a_single_folder_of_an_archive(tmp_path, capsys):
    root = make_folder(tmp_path / "in", {f"wrap/data/{name}/a": 1 for name in ("train", "test")})
    members = files_in(root)
    (tmp_path / "parts").mkdir()
    tar_of(tmp_path / "parts" / "a.tar", members)
    packed = zip_of(tmp_path / "x.zip", members)
    for path in (root / "wrap", packed, tmp_path / "parts", tmp_path / "parts" / "*.tar"):
        assert run("images", "--input", path, "--output", tmp_path / "out") == 2
        said = capsys.readouterr().err
        assert "holds a single folder, 'data', whose folders have names of splits (test, tr" in said
        assert "--split-from none ignores these names" in said
    assert "pass --input that folder, unpacked" in said
    argv = ("--input", packed, "--split-from", "none", "--splits", "train=1")
    assert split_notes(make(tmp_path / "out", *argv)) == []


def test_folders_of_splits_below_classes_in_an_archive(tmp_path, capsys):
    packed = zip_of(tmp_path / "x.zip", files_in(make_folder(tmp_path / "in", FOLDERS_OF_ONE)))
    assert run("images", "--input", packed, "--output", tmp_path / "out") == 2
    said = capsys.readouterr().err
    assert "holds folders named as splits (test, train) below other folders (a, b): unpack" in said
    assert "--input 'train=FOLDER/*/train/**'" in said


@pytest.mark.parametrize("names", [("trainset", "testset"), ("train_set", "a-validationset")])
def test_files_of_sets(names, tmp_path):
    root = write_rows(tmp_path / "in", *(f"{name}.jsonl" for name in names))
    dataset = make(tmp_path / "out", "--input", root, command="table")
    splits = {name for name, one in dataset.manifest.splits.items() if one.records}
    assert splits == {"train", "test" if "testset" in names else "validation"}


def test_folders_of_sets(tmp_path):
    root = make_folder(tmp_path / "in", {"TrainSet/a": 1, "test-set/a": 1})
    dataset = make(tmp_path / "out", "--input", root)
    assert dataset.manifest.splits["test"].records == 1
    assert dataset.manifest.labels == ("a",)


@pytest.mark.parametrize(
    ("kind", "names"),
    [
        ("table", ("trainA", "testB")),
        ("text", ("x_trains", "x_tests")),
        ("lines", ("TrainData", "DevData")),
    ],
)
def test_files_whose_names_seem_to_hold_splits(kind, names, tmp_path):
    ending = "txt" if kind == "lines" else "jsonl"
    root = write_rows(tmp_path / "in", *(f"{name}.{ending}" for name in names))
    argv = ("--documents", "line") if kind == "lines" else ()
    command = "text" if kind == "lines" else kind
    (note,) = split_notes(make(tmp_path / "out", "--input", root, *argv, command=command))
    assert f"names of splits ({names[0]}.{ending}, {names[1]}.{ending}), but records are" in note
    assert f"--input train={root}/{names[0]}.{ending}" in note
    argv = (*argv, "--split-from", "none")
    assert split_notes(make(tmp_path / "2", "--input", root, *argv, command=command)) == []


def test_files_with_other_names(tmp_path):
    root = write_rows(tmp_path / "in", "latest.jsonl", "trainA.jsonl", "contest.jsonl")
    assert split_notes(make(tmp_path / "out", "--input", root, command="table")) == []


def columns_written(path, column, values):
    path.parent.mkdir(exist_ok=True)
    picture = path.parent / "a"
    make_folder(picture, {"b": len(values)})
    lines = [
        f"2026-01-01 00:00:{n:02},{n % 7},a/b/{n:03}.jpg,text {n},{value}"
        for n, value in enumerate(values)
    ]
    path.write_text("\n".join([f"time,x,path,text,{column}", *lines]))
    return path


SPLITS = ["train", "train", "", "Val", "testing", "train"] * 2


@pytest.mark.parametrize(
    ("command", "options"),
    [
        ("table", ()),
        ("text", ()),
        ("images", ("--size", "16")),
        ("sensor", ("--time-column", "time", "--series-column", "path", "--window", "1")),
    ],
)
def test_a_column_of_splits_with_another_name(command, options, tmp_path):
    path = columns_written(tmp_path / "in" / "t.csv", "subset", SPLITS)
    dataset = make(tmp_path / "out", "--input", path, *options, command=command)
    (note,) = split_notes(dataset)
    assert "the column 'subset' holds names of splits (Val, testing, train), but recor" in note
    assert "--split-column subset takes them" in note
    job = json.loads((tmp_path / "out" / "job.json").read_text())
    assert job["interpretation"]["splits"].endswith(
        "(the default; --split-column could be 'subset')"
    )
    taken = make(
        tmp_path / "2", "--input", path, *options, "--split-column", "subset", command=command
    )
    assert split_notes(taken) == []
    ignored = make(
        tmp_path / "3", "--input", path, *options, "--split-from", "none", command=command
    )
    assert split_notes(ignored) == []
    assert ignored.manifest.digest == dataset.manifest.digest


@pytest.mark.parametrize(
    ("column", "values"),
    [
        ("subset", ["train", "test", "other"] * 4),
        ("fold", ["1", "2", "3"] * 4),
        ("partition", ["train"] * 12),
        ("kind", ["train", "test", "train"] * 4),
    ],
)
def test_columns_of_other_names_or_values(column, values, tmp_path):
    path = columns_written(tmp_path / "in" / "t.csv", column, values)
    assert split_notes(make(tmp_path / "out", "--input", path, command="table")) == []


def test_folders_of_one_split_are_classes(tmp_path):
    root = make_folder(tmp_path / "in", {"a/test": 1, "b/test": 1, "c": 1})
    assert split_notes(make(tmp_path / "out", "--input", root)) == []


def test_classes_named_as_splits(tmp_path):
    root = make_folder(tmp_path / "in", FOLDERS_OF_ONE)
    argv = (
        "--input",
        root,
        "--label-from",
        "parent",
        "--split-from",
        "none",
        "--splits",
        "train=1",
    )
    (note,) = split_notes(make(tmp_path / "out", *argv))
    assert "all classes have names of splits (test, train)" in note
