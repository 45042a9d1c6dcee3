"""Columns and keys in the paths of files: --column-from and --key-from."""

import collections
import json
import pathlib
import re
import shlex

import numpy as np
import pytest

import recordmill
from recordmill import read
from recordmill.pipelines.cli import main
from recordmill.transforms import AssignSplits, ReadTable, WriteToTFRecord
from tests.archive_files import tar_of
from tests.folders import make_picture
from tests.image_runs import Made
from tests.sounds import write as write_sound
from tests.texts import TABLES
from tests.video_files import make_film


def run(*argv: object) -> int:
    return main([*map(str, argv), "--quiet"])


def make(output: pathlib.Path, *argv: object) -> Made:
    assert run(*argv, "--output", output) == 0
    return Made(output)


def values(output: pathlib.Path, name: str) -> collections.Counter:
    """{value of a column: number of records} of the split train."""
    found: collections.Counter = collections.Counter()
    for record in read(output, "train"):
        value = np.asarray(record[name]).reshape(-1)
        found[value[0].decode() if len(value) else None] += 1
    return found


def tables(folder: pathlib.Path, extension: str) -> pathlib.Path:
    """lang=LANGUAGE/SPEAKER-YEAR.EXTENSION, each with four rows."""
    for number in range(6):
        name = f"lang={('de', 'en')[number % 2]}/s{number % 3}-{2020 + number}.{extension}"
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        rows = [{"text": f"words {number} {row}", "size": number * row} for row in range(4)]
        TABLES[extension](folder / name, rows)
    return folder


@pytest.mark.parametrize("command", ["table", "text"])
@pytest.mark.parametrize("extension", TABLES)
def test_rows_have_columns_of_their_path(command, extension, tmp_path):
    data = tables(tmp_path / "in", extension)
    argv = (command, "--input", data, "--splits", "train=1", "--label-type", "none")
    argv = (*argv, "--column-from", r"lang=,speaker=/(s\d)-", "--column-from", "year=-([0-9]+)")
    made = make(tmp_path / "out", *argv)
    assert values(tmp_path / "out", "lang") == {"de": 12, "en": 12}
    assert values(tmp_path / "out", "speaker") == {"s0": 8, "s1": 8, "s2": 8}
    assert len(values(tmp_path / "out", "year")) == 6
    assert not [note for note in made.manifest.notes if note.code == "unread"]
    if command == "table":  # all files have them
        assert made.manifest.features["lang"].shape == ()


def test_other_options_take_columns_of_paths(tmp_path):
    data = tables(tmp_path / "in", "csv")
    argv = ("table", "--input", data, "--column-from", r"lang=,speaker=/(s\d)-,year=-([0-9]+)")
    made = make(tmp_path / "a", *argv, "--label-column", "lang", "--group-column", "speaker")
    assert {*made.manifest.labels} == {"de", "en"}
    groups = collections.defaultdict(set)
    for split in made.manifest.splits:
        for row in made.index(split):
            groups[row["group"]].add(split)
    assert {*groups} == {"s0", "s1", "s2"}
    assert all(len(found) == 1 for found in groups.values())
    argv = (*argv, "--label-type", "none")
    one = ("--splits", "train=1", "--types", "year=int", "--where", 'lang == "de" and year > 2020')
    made = make(tmp_path / "b", *argv, *one)
    assert len(made.keys("train")) == 8
    assert made.manifest.features["year"].dtype == "int64"
    argv = (*argv, "--split-column", "year", "--split-map", "2020=test,*=train")
    made = make(tmp_path / "c", *argv, "--vocabulary", "speaker")
    assert {name: len(made.keys(name)) for name in made.manifest.splits} == {"test": 4, "train": 20}


def test_windows_have_columns_of_their_path(tmp_path):
    for number in range(4):
        path = tmp_path / "in" / f"site{number % 2}" / f"{number}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("t,x\n" + "".join(f"{at},{at}\n" for at in range(20)))
    argv = ("sensor", "--input", tmp_path / "in", "--time-column", "t", "--window", 5)
    argv = (*argv, "--splits", "train=1", "--column-from", "site=top", "--static-columns", "site")
    make(tmp_path / "out", *argv)
    assert values(tmp_path / "out", "site") == {"site0": 8, "site1": 8}


def files(folder: pathlib.Path, kind: str) -> pathlib.Path:
    """CLASS/SPEAKER_NUMBER.EXTENSION, of which one has no speaker."""
    for number in range(6):
        name = f"{'ab'[number % 2]}/s{number // 2}_{number}" if number else "a/odd"
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if kind == "images":
            make_picture(path.with_suffix(".png"), number)
        elif kind == "audio":
            write_sound(path.with_suffix(".wav"), np.ones(400, "f4") * number / 9, 8000)
        elif kind == "video":
            make_film(path.with_suffix(".mp4"), 8, size=(32, 48), offset=number)
        elif kind == "arrays":
            np.save(path.with_suffix(".npy"), np.arange(number, number + 4))
        else:
            path.with_suffix(".txt").write_text(f"text {number}\nmore {number}\n")
    return folder


MORE = {
    "images": ("--size", 8), "audio": (), "arrays": (), "text": (),
    "video": ("--clip-frames", 4, "--size", 8),
    "audio clips": ("--sample-rate", 8000, "--clip", "25ms", "--clip-mode", "split"),
    "text lines": ("--documents", "line"),
    "numbers": ("--label-from", r"([0-9])\.npy", "--label-type", "int", "--unlabelled", "keep"),
}  # fmt: skip


@pytest.mark.parametrize("name", MORE)
def test_files_have_columns_of_their_path(name, tmp_path):
    command = "arrays" if name == "numbers" else name.partition(" ")[0]
    place = files(tmp_path / "in", command)
    argv = (command, "--input", place, "--splits", "train=1", *MORE[name])
    make(tmp_path / "out", *argv, "--column-from", "speaker=(s[0-9])_,kind=top")
    found = values(tmp_path / "out", "speaker")
    each = sum(found.values()) // 6
    assert found == {None: each, "s0": each, "s1": 2 * each, "s2": 2 * each}
    assert values(tmp_path / "out", "kind") == {"a": 3 * each, "b": 3 * each}


def test_members_of_archives_have_columns_and_keys_of_their_path(tmp_path):
    place = files(tmp_path / "in", "images")
    members = {str(one.relative_to(place)): one.read_bytes() for one in place.rglob("*.png")}
    tar_of(tmp_path / "in.tar", members)
    argv = ("images", "--input", tmp_path / "in.tar", "--splits", "train=1", "--size", 8)
    argv = (*argv, "--column-from", "kind=top", "--key-from", "file")
    made = make(tmp_path / "out", *argv)
    assert values(tmp_path / "out", "kind") == {"a": 3, "b": 3}
    assert made.keys("train") == {"odd", "s0_1", "s1_2", "s1_3", "s2_4", "s2_5"}
    assert all(row["source"].startswith("in.tar#") for row in made.index("train"))


@pytest.mark.parametrize("command", ["images", "audio", "arrays", "text"])
def test_a_part_of_paths_is_the_key(command, tmp_path):
    place = files(tmp_path / "in", command)
    argv = (command, "--input", place, "--splits", "train=1", *MORE[command])
    made = make(tmp_path / "out", *argv, "--key-from", r"_(\d)\.", "--max-reject-fraction", 0.5)
    assert made.keys("train") == {"1", "2", "3", "4", "5"}
    (reject,) = (tmp_path / "out" / "rejects.jsonl").read_text().splitlines()
    assert json.loads(reject)["key"].startswith("a/odd.")
    assert json.loads(reject)["detail"] == r"no key: expected _(\d)\. in the path"
    if command != "text":
        assert {row["source"] for row in made.index("train")} >= {f"b/s0_1.{_EXTENSIONS[command]}"}


_EXTENSIONS = {"images": "png", "audio": "wav", "arrays": "npy"}


def test_keys_that_repeat_are_an_error(tmp_path, capsys):
    argv = ("images", "--input", files(tmp_path / "in", "images"), "--size", 8)
    assert run(*argv, "--key-from", "top", "--output", tmp_path / "out") == 1
    assert "'a'" in capsys.readouterr().err


def test_annotations_match_the_paths_of_files_with_keys_of_their_own(tmp_path):
    place = files(tmp_path / "in", "images")
    for path in place.rglob("*.png"):
        path.with_suffix(".txt").write_text("0 0.5 0.5 0.5 0.5\n")
    (place / "classes.txt").write_text("cat\n")
    argv = ("images", "--input", place, "--annotations", place, "--size", 8, "--splits", "train=1")
    made = make(tmp_path / "out", *argv, "--key-from", "file", "--column-from", "kind=top")
    assert len(made.keys("train")) == 6
    assert "a/odd.png" not in made.keys("train")


def test_a_step_reads_columns_of_paths_as_the_command_does(tmp_path):
    data = tables(tmp_path / "in", "csv")
    facts = {"lang": "lang=", "speaker": r"/(s\d)-"}
    argv = ("--splits", "train=1", "--label-type", "none", "--column-from")
    given = ",".join(f"{name}={fact}" for name, fact in facts.items())
    made = make(tmp_path / "a", "table", "--input", data, *argv, given)
    step = ReadTable(str(data), column_from=facts, label_type="none")

    def build(pipeline):
        _ = pipeline | step | AssignSplits({"train": 1.0}) | WriteToTFRecord(str(tmp_path / "b"))

    recordmill.run(build)
    assert Made(tmp_path / "b").manifest.digest == made.manifest.digest


ERRORS = {
    "no value": (
        ("--column-from", "x=(q)_"),
        "--column-from x=(q)_: no path gives a value; the first files are"
        " lang=de/s0-2020.csv, lang=de/s1-2024.csv, lang=de/s2-2022.csv",
    ),
    "a column of the files": (("--column-from", "size=file"), "has a column 'size', too: give"),
    "no group": (("--column-from", "x=abc"), "--column-from abc: expected top, parent, folder:N"),
    "no name": (("--column-from", "folder:1"), "expected NAME=PART,..., such as speaker=([^_]+)_"),
    "comma": (("--column-from", "x=(a{1,2})"), "(a PART with a comma is in double quotes with its"),
    "twice": (("--column-from", "x=top,x=file"), "expected one part for 'x', got 'top' and 'file'"),
    "reserved": (("--column-from", "__x=top"), "'__x' starts with two underscores"),
    "keys of rows": (("--key-from", "file"), "--key-from file: applies only to text files"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_columns_that_cannot_be_are_errors(name, tmp_path, capsys):
    options, message = ERRORS[name]
    data = tables(tmp_path / "in", "csv")
    assert run("table", "--input", data, *options, "--output", tmp_path / "out") == 2
    assert message in " ".join(capsys.readouterr().err.split())


@pytest.mark.parametrize("option", ["label", "split", "group", "key"])
def test_roles_of_parts_of_paths_of_files_have_options(option, tmp_path, capsys):
    for name in ("a/test_x.png", "a/dev_x.png", "b/train_y.png", "b/val_y.png"):
        make_picture(tmp_path / "in" / name, len(name))
    argv = ("--input", tmp_path / "in", "--column-from", "part=/([a-z]+)_")
    assert run("images", *argv, f"--{option}-column", "part", "--output", tmp_path / "none") == 2
    said = " ".join(capsys.readouterr().err.split())
    found = re.search(rf"leave the option out, or use (--{option}-from '.*'), or pass a list", said)
    assert found is not None
    make(tmp_path / "out", "images", *argv, *shlex.split(found[1]))


def test_the_error_of_a_condition_on_files_names_patterns(tmp_path, capsys):
    make_picture(tmp_path / "in" / "a" / "s1_x.png", 1)
    argv = ("--input", tmp_path / "in", "--column-from", "part=/([a-z]+)", "--where", "part == 's'")
    assert run("images", *argv, "--output", tmp_path / "none") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "leave the option out, or select files with a pattern as --input, or pass a" in said


def test_a_regular_expression_with_a_comma_is_quoted(tmp_path):
    data = tables(tmp_path / "in", "csv")
    argv = ("table", "--input", data, "--splits", "train=1", "--label-type", "none")
    make(tmp_path / "out", *argv, "--column-from", '"year=-([0-9]{2,4})",lang=')
    assert len(values(tmp_path / "out", "year")) == 6


def test_listings_have_columns_of_their_own(tmp_path, capsys):
    (tmp_path / "list.csv").write_text("path\na.png\n")
    make_picture(tmp_path / "a.png", 1)
    argv = ("images", "--input", tmp_path / "list.csv", "--size", 8, "--output", tmp_path / "out")
    assert run(*argv, "--column-from", "x=file") == 2
    assert "--column-from: applies only to files in folders" in capsys.readouterr().err
