"""The splits and classes that the names of an input give, and the inputs of one run, by data type.

Each data type gets the same folders through the command line; what differs is the file of a record.
"""

import pathlib
import shutil
from collections.abc import Callable

import numpy as np
import pytest

import recordmill
from recordmill.pipelines.cli import main
from tests.folders import make_picture
from tests.image_runs import Made, run
from tests.video_files import make_film

pytestmark = pytest.mark.usefixtures("encoders")

SPLITS = ("train", "validation", "test")


def picture(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    make_picture(path.with_suffix(".png"), number)


def array(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    np.save(path.with_suffix(".npy"), np.arange(number, number + 4))


def text(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".txt").write_text(f"text number {number}")


def clip(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    make_film(path.with_suffix(".mp4"), 4, offset=number)


def table(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"{number}.{row},{'ab'[row % 2]}\n" for row in range(4))
    path.with_suffix(".csv").write_text("x,label\n" + rows)


def series(path: pathlib.Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = "".join(f"2026-01-01 00:00:{row:02},{number}.{row}\n" for row in range(8))
    path.with_suffix(".csv").write_text("time,x\n" + rows)


Write = Callable[[pathlib.Path, int], None]
# Data types whose files are records, with the options of a short run.
OF_FILES: dict[str, tuple[Write, tuple[str, ...]]] = {
    "images": (picture, ()),
    "arrays": (array, ()),
    "text": (text, ()),
    "video": (clip, ("--clip-frames", "4", "--size", "16")),
}
# Data types whose files hold many records.
OF_ROWS: dict[str, tuple[Write, tuple[str, ...]]] = {
    "table": (table, ()),
    "text": (table, ("--text-column", "x")),
    "sensor": (series, ("--time-column", "time", "--window", "2")),
}


def fill(root: pathlib.Path, write: Write, *names: str) -> None:
    for number, name in enumerate(names):
        write(root / name, number)


def made(command: str, tmp_path: pathlib.Path, *argv: object) -> Made:
    out = tmp_path / "out"
    options = {**OF_ROWS, **OF_FILES}[command][1] if "--text-column" not in argv else ()
    assert run(command, "--output", out, *options, *argv) == 0
    return Made(out)


def files(dataset: Made) -> dict[str, set[str]]:
    """{split: files of its records}"""
    return {
        split: {key.partition("#")[0].partition("@")[0] for key in dataset.keys(split)}
        for split in dataset.manifest.splits
        if dataset.manifest.splits[split].records
    }


@pytest.mark.parametrize("command", OF_FILES)
def test_folders_of_files(command, tmp_path):
    write, _ = OF_FILES[command]
    names = [f"{split}/{label}/1" for split in ("train", "dev", "eval") for label in "ab"]
    fill(tmp_path / "in", write, *names)
    dataset = made(command, tmp_path, "--input", tmp_path / "in")
    by_split = files(dataset).items()
    found = {split: {name.rpartition(".")[0] for name in of} for split, of in by_split}
    assert found == {
        "train": {"train/a/1", "train/b/1"},
        "validation": {"dev/a/1", "dev/b/1"},
        "test": {"eval/a/1", "eval/b/1"},
    }
    assert dataset.manifest.labels == ("a", "b")


@pytest.mark.parametrize("command", OF_FILES)
def test_a_folder_beside_those_of_splits(command, tmp_path, capsys):
    write, _ = OF_FILES[command]
    fill(tmp_path / "in", write, "train/a/1", "test/a/1", "extra/a/1")
    argv = ("--output", tmp_path / "out", *OF_FILES[command][1], "--input", tmp_path / "in")
    assert run(command, *argv) == 2
    said = capsys.readouterr().err
    assert "holds folders named as splits (test, train) beside others (extra)" in said
    assert "--split-from folders makes each of them a split" in said
    assert run(command, *argv, "--split-from", "none") == 0
    assert Made(tmp_path / "out").manifest.labels == ("extra", "test", "train")
    assert run(command, *argv, "--split-from", "folders", "--overwrite") == 0
    assert files(Made(tmp_path / "out")).keys() == {"train", "test", "extra"}
    assert Made(tmp_path / "out").manifest.labels == ("a",)


@pytest.mark.parametrize("command", OF_FILES)
def test_a_pattern_means_what_its_folders_mean(command, tmp_path):
    write, options = OF_FILES[command]
    fill(tmp_path / "in", write, "a/1", "a/2", "b/1", "b/2")
    whole = made(command, tmp_path, "--input", tmp_path / "in")
    for number, pattern in enumerate(("*/*", "**")):
        out = tmp_path / f"of pattern {number}"
        assert run(command, "--output", out, *options, "--input", tmp_path / "in" / pattern) == 0
        assert Made(out).manifest.digest == whole.manifest.digest
        assert Made(out).manifest.labels == ("a", "b")


@pytest.mark.parametrize("command", OF_FILES)
def test_classes_from_other_folders(command, tmp_path):
    write, options = OF_FILES[command]
    fill(tmp_path / "in", write, "2025/cat/1", "2026/dog/1", "2026/dog/2")
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", *options)
    for rule, labels in (
        ("top", ("2025", "2026")),
        ("parent", ("cat", "dog")),
        (r"(\d)/[a-z]", ("5", "6")),
    ):
        assert run(command, *argv, "--label-from", rule, "--overwrite") == 0
        assert Made(tmp_path / "out").manifest.labels == labels


@pytest.mark.parametrize("command", OF_FILES)
def test_inputs_of_one_run(command, tmp_path):
    write, _ = OF_FILES[command]
    fill(tmp_path / "one", write, "a/1", "b/1")
    fill(tmp_path / "two", write, "a/1", "b/2")
    argv = ["--input", tmp_path / "one", "--input", tmp_path / "two"]
    dataset = made(command, tmp_path, *argv, "--splits", "train=1")
    assert {key.rpartition(".")[0] for key in files(dataset)["train"]} == {
        *("one/a/1", "one/b/1", "two/a/1", "two/b/2")
    }
    argv = ["--input", f"train={tmp_path / 'one'}", "--input", f"test={tmp_path / 'two'}"]
    assert run(command, "--output", tmp_path / "split", *OF_FILES[command][1], *argv) == 0
    assert {split: len(of) for split, of in files(Made(tmp_path / "split")).items()} == {
        "train": 2,
        "test": 2,
    }


@pytest.mark.parametrize("command", OF_ROWS)
@pytest.mark.parametrize(
    "names",
    [
        ("train", "dev", "test"),
        ("x/train", "x/val", "y/test"),
        ("train/1", "dev/2", "eval/3"),
        ("my_train-00001", "my_validation-00001", "my_test-00001"),
    ],
)
def test_files_of_rows_named_as_splits(command, names, tmp_path):
    write, options = OF_ROWS[command]
    fill(tmp_path / "in", write, *names)
    assert run(command, "--input", tmp_path / "in", "--output", tmp_path / "out", *options) == 0
    dataset = Made(tmp_path / "out")
    counts = [dataset.manifest.splits[split].records for split in SPLITS]
    assert counts == [4, 4, 4]


@pytest.mark.parametrize("command", OF_ROWS)
def test_a_pattern_of_one_split(command, tmp_path):
    write, options = OF_ROWS[command]
    fill(tmp_path / "in", write, "en/train", "en/test", "de/train", "de/test")
    argv = ("--input", tmp_path / "in/*/train.csv", "--output", tmp_path / "out", *options)
    assert run(command, *argv) == 0
    assert {name: one.records for name, one in Made(tmp_path / "out").manifest.splits.items()} == {
        "train": 8,
    }


@pytest.mark.parametrize("command", OF_ROWS)
def test_a_file_beside_those_of_splits(command, tmp_path, capsys):
    write, options = OF_ROWS[command]
    fill(tmp_path / "in", write, "train", "test", "more")
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", *options)
    assert run(command, *argv) == 2
    said = capsys.readouterr().err
    assert "holds files named as splits (test.csv, train.csv) beside others (more.csv)" in said
    assert run(command, *argv, "--split-from", "none", "--splits", "train=1") == 0


@pytest.mark.parametrize("command", OF_ROWS)
def test_files_of_rows_as_inputs(command, tmp_path):
    write, options = OF_ROWS[command]
    fill(tmp_path, write, "a", "b/a", "c")
    argv = ("--output", tmp_path / "out", *options, "--overwrite")
    named = [f"train={tmp_path / 'a.csv'}", f"test={tmp_path / 'b' / 'a.csv'}"]
    assert run(command, *argv, "--input", named[0], "--input", named[1]) == 0
    splits = Made(tmp_path / "out").manifest.splits
    assert {name: one.records for name, one in splits.items() if one.records} == {
        "train": 4,
        "test": 4,
    }
    plain = ("--input", tmp_path / "a.csv", "--input", tmp_path / "c.csv")
    assert run(command, *argv, *plain, "--splits", "train=1") == 0
    assert Made(tmp_path / "out").manifest.splits["train"].records == 8


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (
            ("--splits", "train=0.8,test=0.2"),
            "--splits train=0.8,test=0.2: contradicts the split of each record, which comes from"
            " the names of the files: leave --splits out, or pass --split-from none",
        ),
        (("--split-column", "z"), "no column 'z'"),
    ],
)
def test_options_that_contradict_the_names(argv, said, tmp_path, capsys):
    fill(tmp_path / "in", table, "train", "test")
    assert run("table", "--input", tmp_path / "in", "--output", tmp_path / "out", *argv) == 2
    assert said in capsys.readouterr().err


def test_a_column_against_the_splits_of_the_user(tmp_path, capsys):
    rows = tmp_path / "a.csv"
    rows.write_text("x,split\n" + "".join(f"{n},{'train' if n % 4 else ''}\n" for n in range(40)))
    argv = ("--input", rows, "--output", tmp_path / "out", "--splits", "validation=0.5,test=0.5")
    assert run("table", *argv) == 2
    said = capsys.readouterr().err
    assert "contradicts the split of each record, which comes from the column 'split': le" in said
    # With both named, the column comes first, and the others are divided.
    assert run("table", *argv, "--split-column", "split") == 0
    counts = {name: one.records for name, one in Made(tmp_path / "out").manifest.splits.items()}
    assert counts["train"] == 30
    assert counts["validation"] + counts["test"] == 10
    assert run("table", *argv, "--split-from", "none", "--overwrite") == 0
    assert "split" in Made(tmp_path / "out").manifest.features


def test_a_column_alone_gives_the_splits(tmp_path):
    for name in ("train", "test", "more"):
        (tmp_path / "in" / name).mkdir(parents=True)
        rows = "".join(f"{n},{name},{('test', 'train', '')[n % 3]}\n" for n in range(30))
        (tmp_path / "in" / name / "a.csv").write_text(f"x,y,split\n{rows}")
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", "--splits", "validation=1")
    assert run("table", *argv, "--split-from", "none", "--split-column", "split") == 0
    counts = {name: one.records for name, one in Made(tmp_path / "out").manifest.splits.items()}
    assert counts == {"test": 30, "train": 30, "validation": 30}


def test_a_column_against_the_split_of_an_input(tmp_path, capsys):
    for name in "ab":
        (tmp_path / f"{name}.csv").write_text("x,split\n1,train\n2,test\n")
    argv = ["--input", f"train={tmp_path / 'a.csv'}", "--input", f"test={tmp_path / 'b.csv'}"]
    assert run("table", *argv, "--output", tmp_path / "out") == 2
    assert "and the column 'split' give the split: pass --split-from" in capsys.readouterr().err


def test_some_inputs_without_a_split(tmp_path, capsys):
    fill(tmp_path, table, "a", "b")
    argv = ["--input", tmp_path / "a.csv", "--input", f"test={tmp_path / 'b.csv'}",
            "--output", tmp_path / "out"]  # fmt: skip
    assert run("table", *argv) == 2
    assert f"--input {tmp_path / 'a.csv'} names no split, but --input test=" in (
        capsys.readouterr().err
    )
    assert run("table", *argv, "--splits", "train=1") == 0
    counts = {name: one.records for name, one in Made(tmp_path / "out").manifest.splits.items()}
    assert counts == {"train": 4, "test": 4}


def test_listings_as_inputs(tmp_path, capsys):
    fill(tmp_path, picture, "1", "2", "3")
    (tmp_path / "train.csv").write_text("path,label\n1.png,a\n2.png,b\n")
    (tmp_path / "test.csv").write_text("path,label\n3.png,a\n")
    paths = ("--input", tmp_path / "train.csv", "--input", tmp_path / "test.csv")
    assert run("images", *paths, "--output", tmp_path / "out") == 0
    assert files(Made(tmp_path / "out")) == {"train": {"1.png", "2.png"}, "test": {"3.png"}}
    named = ("--input", f"dev={tmp_path / 'train.csv'}", "--input", f"x={tmp_path / 'test.csv'}")
    assert run("images", *named, "--output", tmp_path / "named") == 0
    assert files(Made(tmp_path / "named")).keys() == {"validation", "x"}
    argv = ("--output", tmp_path / "mixed", "--input", tmp_path / "train.csv")
    assert run("images", *argv, "--input", tmp_path / "1.png") == 2
    assert "expected inputs of one type, got listings" in capsys.readouterr().err


def test_a_file_read_by_two_patterns(tmp_path, capsys):
    fill(tmp_path, table, "a1", "a2")
    argv = ("--input", tmp_path / "a*.csv", "--input", tmp_path / "*1.csv")
    assert run("table", *argv, "--output", tmp_path / "out") == 2
    assert "a1.csv is read twice, by --input" in capsys.readouterr().err


@pytest.mark.parametrize("command", [*OF_FILES, "table"])
def test_one_of_several_inputs_that_holds_nothing(command, tmp_path, capsys):
    """The split that it names would be empty without a word."""
    write, options = {**OF_ROWS, **OF_FILES}[command]
    fill(tmp_path / "in", write, "first/a/1", "second/a/2")
    (tmp_path / "empty").mkdir()
    argv = ("--output", tmp_path / "out", *options, "--input", f"test={tmp_path}/in/second/**")
    for given, message in (
        ("in/firs/**", "there is no folder"),
        ("in/first/3*", "matches no file: check the path, or leave it out"),
        ("empty", "holds no file: check the path, or leave it out"),
    ):
        assert run(command, *argv, "--input", f"train={tmp_path}/{given}") == 2
        assert message in capsys.readouterr().err


def test_documents_by_line_of_files_named_as_splits(tmp_path):
    root = tmp_path / "in"
    root.mkdir()
    (root / "train.txt").write_text("one\ntwo\n")
    (root / "test.txt").write_text("three\n")
    assert run("text", "--input", root, "--output", tmp_path / "out", "--documents", "line") == 0
    counts = {name: one.records for name, one in Made(tmp_path / "out").manifest.splits.items()}
    assert {name: count for name, count in counts.items() if count} == {"train": 2, "test": 1}


@pytest.mark.parametrize("command", [*OF_FILES, "table"])
def test_splits_in_a_single_folder_are_not_mixed(command, tmp_path, capsys):
    write, options = {**OF_ROWS, **OF_FILES}[command]
    fill(tmp_path / "in", write, "data/train/a/1", "data/test/b/1")
    argv = ("--output", tmp_path / "out", *options)
    assert run(command, *argv, "--input", tmp_path / "in") == 2
    message = "holds a single folder, 'data', whose folders have names of splits (test, train)"
    told = capsys.readouterr().err
    assert message in told
    assert f"pass --input {tmp_path / 'in'}/data" in told
    fill(tmp_path / "in", write, "data/notes/a/1")
    assert run(command, *argv, "--input", tmp_path / "in") == 2
    assert message in capsys.readouterr().err
    shutil.rmtree(tmp_path / "in/data/notes")
    assert run(command, *argv, "--input", tmp_path / "in" / "data") == 0


def test_classes_in_a_single_folder_are_noted(tmp_path):
    fill(tmp_path / "in", array, "flowers/rose/1", "flowers/tulip/2")
    dataset = made("arrays", tmp_path, "--input", tmp_path / "in")
    assert dataset.manifest.labels == ("flowers",)
    (note,) = [str(one) for one in dataset.manifest.notes if one.code == "no-classes"]
    assert "a single folder, 'flowers', which is the only class" in note
    assert f"pass --input {tmp_path / 'in'}/flowers" in note
    assert run("arrays", "--input", tmp_path / "in/flowers", "--output", tmp_path / "2") == 0
    assert Made(tmp_path / "2").manifest.labels == ("rose", "tulip")


@pytest.mark.parametrize(
    ("place", "also"),
    [("D/images", "D/meta/b/3"), ("D/images", "D/meta/4"), ("D/E/photos", None)],
    ids=["images", "files", "single"],
)
def test_classes_in_a_deeper_folder_are_noted(place, also, tmp_path):
    names = [f"{place}/rose/1", f"{place}/tulip/2", *filter(None, [also])]
    fill(tmp_path / "in", array, *names)
    dataset = made("arrays", tmp_path, "--input", tmp_path / "in")
    assert dataset.manifest.labels == ("D",)
    (note,) = [str(one) for one in dataset.manifest.notes if one.code == "no-classes"]
    assert (
        f"if the folders in {place!r} ({place}/rose, {place}/tulip) are the classes, pass --input"
        f" {tmp_path / 'in'}/{place}"
    ) in note
    assert run("arrays", "--input", tmp_path / "in" / place, "--output", tmp_path / "2") == 0
    assert Made(tmp_path / "2").manifest.labels == ("rose", "tulip")


@pytest.mark.parametrize("command", [*OF_FILES, "table", "sensor"])
def test_a_split_that_the_input_does_not_have(command, tmp_path, capsys):
    write, options = {**OF_ROWS, **OF_FILES}[command]
    fill(tmp_path / "in", write, "train/a/1", "test/a/2")
    argv = ("--input", tmp_path / "in", "--output", tmp_path / "out", *options)
    assert main([command, *map(str, argv)]) == 0
    assert "validation" not in capsys.readouterr().out
    assert Made(tmp_path / "out").manifest.splits.keys() == {"train", "test"}
    known = "expected one of the splits train, test, got 'validation'"
    for read in (recordmill.load, recordmill.open):
        with pytest.raises(ValueError, match=known):
            read(str(tmp_path / "out"), "validation")
