"""Classes and groups in the paths of files: --label-from and --group-from."""

import collections
import json
import pathlib
import re

import pytest

import recordmill
from recordmill import read
from recordmill.pipelines.cli import main
from recordmill.transforms import AssignSplits, ReadTable, WriteToTFRecord
from recordmill.transforms.sources.files import path_facts
from tests.folders import make_folder, make_picture
from tests.image_runs import Made
from tests.paths import DEMO
from tests.texts import TABLES


def run(*argv: object) -> int:
    return main([*map(str, argv), "--quiet"])


def make(output: pathlib.Path, *argv: object) -> Made:
    assert run(*argv, "--output", output, "--seed", 3) == 0
    return Made(output)


def splits_by(made: Made, fact: str) -> dict[str, set[str]]:
    """{first group of a regular expression in the key: splits of its records}."""
    found: dict[str, set[str]] = collections.defaultdict(set)
    for split in made.manifest.splits:
        for key in made.keys(split):
            match = re.search(fact, key)
            found[match[1] if match else key].add(split)
    return found


def faces(folder: pathlib.Path, *, people: int = 12, each: int = 4) -> pathlib.Path:
    """Photos CLASS/PERSON_NUMBER.jpg of several people in each class."""
    photo = next(DEMO.rglob("*.jpg")).read_bytes()
    for person in range(people):
        for number in range(each):
            path = folder / ("glad", "sad")[number % 2] / f"p{person:02d}_{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(photo)
    return folder


@pytest.mark.parametrize("more", [(), ("--stratify",), ("--balance", "oversample")])
def test_groups_in_the_names_of_files_stay_in_one_split(more, tmp_path):
    photos = faces(tmp_path / "faces")
    argv = ("images", "--input", photos, "--size", 16, "--group-from", r"(p\d+)_", *more)
    made = make(tmp_path / "out", *argv)
    people = splits_by(made, r"(p\d+)_")
    assert len(people) == 12
    assert all(len(splits) == 1 for splits in people.values())
    assert {*made.manifest.splits["train"].classes} == {"glad", "sad"}


def test_a_folder_at_any_level_is_the_class_or_the_group(tmp_path):
    photo = next(DEMO.rglob("*.jpg")).read_bytes()
    for number in range(40):
        place = f"site{number % 2}/visit{number % 8}/{('cat', 'dog')[number % 3 == 0]}/{number}.jpg"
        path = tmp_path / "in" / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo)
    argv = ("images", "--input", tmp_path / "in", "--size", 16, "--label-from")
    made = make(tmp_path / "a", *argv, "folder:3", "--group-from", "folder:2")
    assert {*made.manifest.splits["train"].classes} == {"cat", "dog"}
    assert all(len(found) == 1 for found in splits_by(made, r"(visit\d)").values())
    again = make(tmp_path / "b", *argv, "parent", "--group-from", "folder:-2")
    assert again.manifest.digest == made.manifest.digest
    named = make(tmp_path / "c", *argv, "file", "--splits", "train=1")
    assert len(named.manifest.splits["train"].classes) == 40


def test_folders_are_counted_below_that_of_the_split(tmp_path):
    make_folder(tmp_path / "in" / "train" / "x", {"cat": 3, "dog": 3})
    make_folder(tmp_path / "in" / "test" / "y", {"cat": 2, "dog": 2})
    argv = ("images", "--input", tmp_path / "in", "--size", 16, "--label-from", "folder:2")
    made = make(tmp_path / "out", *argv)
    for split in ("train", "test"):
        assert {*made.manifest.splits[split].classes} == {"cat", "dog"}


SPLITS_IN_PATHS = [
    ("folder:2", "{label}/{split}/{number}"),
    ("folder:-1", "{label}/{split}/{number}"),
    ("parent", "{label}/{split}/{number}"),
    ("fold=", "{label}/fold={split}/{number}"),
    (r"_([a-z]+)\.", "{label}/{number}_{split}"),
]


@pytest.mark.parametrize(("rule", "form"), SPLITS_IN_PATHS)
@pytest.mark.parametrize("command", ["images", "text", "table"])
def test_a_part_of_paths_is_the_split(command, rule, form, tmp_path):
    photo = next(DEMO.rglob("*.jpg")).read_bytes()
    for number in range(24):
        split = ("training", "dev", "holdout")[number % 3]
        name = form.format(label=("cat", "dog")[number % 2], split=split, number=number)
        path = tmp_path / "in" / f"{name}.{'jpg' if command == 'images' else 'csv'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo if command == "images" else f"text\nwords {number}\n".encode())
    more = ("--size", 16) if command == "images" else ()
    argv = (command, "--input", tmp_path / "in", "--label-from", "top", *more)
    if command != "images":
        argv = (command, "--input", tmp_path / "in", "--label-from", "folder:1")
    made = make(tmp_path / "out", *argv, "--split-from", rule)
    found = {name: {*split.classes} for name, split in made.manifest.splits.items()}
    assert found == {name: {"cat", "dog"} for name in ("train", "validation", "holdout")}
    assert all(len(made.keys(name)) == 8 for name in found)


@pytest.mark.parametrize("command", ["images", "table"])
def test_paths_that_give_no_split(command, tmp_path, capsys):
    photo = next(DEMO.rglob("*.jpg")).read_bytes()
    for name in ("cat/train/1", "cat/2"):
        path = tmp_path / "in" / f"{name}.{'jpg' if command == 'images' else 'csv'}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(photo if command == "images" else b"text\nwords\n")
    argv = (command, "--input", tmp_path / "in", "--label-type", "none", "--split-from")
    if command == "images":
        made = make(tmp_path / "out", *argv, "folder:2", "--max-reject-fraction", 0.5)
        assert made.keys("train") == {"cat/train/1.jpg"}
        assert [*made.rejects] == ["cat/2.jpg"]
    else:
        assert run(*argv, "folder:2", "--output", tmp_path / "out") == 2
        assert "2.csv gives no name of a split" in " ".join(capsys.readouterr().err.split())
    assert run(*argv, "folder:7", "--output", tmp_path / "none") == 2
    assert "--split-from folder:7" in capsys.readouterr().err
    assert run(*argv, "folder", "--output", tmp_path / "none") == 2
    assert "expected auto, folders, files, none, top" in capsys.readouterr().err
    given = (command, "--input", f"test={tmp_path / 'in'}", *argv[3:])
    assert run(*given, "folder:2", "--output", tmp_path / "none") == 2
    assert "gives splits, too" in capsys.readouterr().err


def tables(folder: pathlib.Path, extension: str) -> pathlib.Path:
    """LANGUAGE/SPEAKER.EXTENSION, each with five rows."""
    for number in range(16):
        path = folder / ("de", "en", "fr")[number % 3] / f"s{number}.{extension}"
        path.parent.mkdir(parents=True, exist_ok=True)
        rows = [{"text": f"words {number} {row}", "size": number * row} for row in range(5)]
        TABLES[extension](path, rows)
    return folder


@pytest.mark.parametrize("command", ["table", "text"])
@pytest.mark.parametrize("extension", TABLES)
def test_rows_have_the_class_and_the_group_of_their_file(command, extension, tmp_path):
    data = tables(tmp_path / "in", extension)
    argv = (command, "--input", data, "--label-from", "parent", "--group-from", "file")
    made = make(tmp_path / "out", *argv)
    counts = collections.Counter()
    for split in made.manifest.splits.values():
        counts.update(split.classes)
    assert counts == {"de": 30, "en": 25, "fr": 25}
    sources = collections.defaultdict(set)
    for split in made.manifest.splits:
        for row in made.index(split):
            sources[row["source"].partition("#")[0]].add(split)
    assert len(sources) == 16
    assert all(len(found) == 1 for found in sources.values())


@pytest.mark.parametrize("command", ["table", "text"])
@pytest.mark.parametrize("extension", TABLES)
def test_rows_have_the_number_in_their_path(command, extension, tmp_path, capsys):
    data = tables(tmp_path / "in", extension)
    argv = [command, "--input", data, "--label-from", r"s(\d+)\.", "--label-type", "int"]
    made = make(tmp_path / "out", *argv, "--splits", "train=1")
    numbers = collections.Counter(int(row["label"]) for row in read(tmp_path / "out", "train"))
    assert numbers == dict.fromkeys(range(16), 5)
    assert not any("no record is left" in note for note in made.manifest.notes)
    argv[4] = r"(s\d+)\."
    assert run(*argv, "--output", tmp_path / "none") == 1
    assert "expected a 64-bit integer" in " ".join(capsys.readouterr().err.split())


def test_the_number_in_a_path_moves_no_row(tmp_path):
    data = tables(tmp_path / "in", "csv")
    argv = ("table", "--input", data)
    plain = make(tmp_path / "a", *argv)
    made = make(tmp_path / "b", *argv, "--label-from", r"s(\d+)\.", "--label-type", "float")
    for split in ("train", "validation", "test"):
        assert {*made.keys(split)} == {*plain.keys(split)}


def test_a_step_reads_the_number_in_a_path_as_the_command_does(tmp_path):
    data = tables(tmp_path / "in", "csv")
    argv = ("--label-from", r"s(\d+)\.", "--label-type", "int", "--unlabelled", "keep")
    made = make(tmp_path / "a", "table", "--input", data, *argv)
    step = ReadTable(str(data), label_from=r"s(\d+)\.", label_type="int", unlabelled="keep")
    splits = {"train": 0.8, "validation": 0.1, "test": 0.1}

    def build(pipeline):
        _ = pipeline | step | AssignSplits(splits, seed=3) | WriteToTFRecord(str(tmp_path / "b"))

    recordmill.run(build)
    assert Made(tmp_path / "b").manifest.digest == made.manifest.digest


@pytest.mark.parametrize("extension", TABLES)
def test_conditions_compare_the_keys_of_folders_that_have_a_role(extension, tmp_path):
    for kind in ("cat", "dog"):
        path = tmp_path / "in" / f"kind={kind}" / f"rows.{extension}"
        path.parent.mkdir(parents=True)
        TABLES[extension](path, [{"text": f"{kind} {row}", "size": row} for row in range(9)])
    argv = ("table", "--input", tmp_path / "in", "--label-column", "kind", "--splits", "train=1")
    made = make(tmp_path / "out", *argv, "--where", 'kind == "cat"')
    assert made.manifest.splits["train"].classes == {"cat": 9}


def test_rows_whose_path_has_no_class_are_rejected_with_the_option(tmp_path):
    data = tables(tmp_path / "in", "csv")
    argv = ("table", "--input", data, "--label-from", r"(s1)\d", "--max-reject-fraction", 1)
    make(tmp_path / "out", *argv)
    reject = json.loads((tmp_path / "out" / "rejects.jsonl").read_text().splitlines()[0])
    assert r"no label: expected one in --label-from (s1)\d, row 1" in reject["detail"]


def test_tables_need_a_path_with_a_group(tmp_path, capsys):
    argv = ("table", "--input", tables(tmp_path / "in", "csv"), "--output", tmp_path / "out")
    assert run(*argv, "--group-from", "folder:5") == 2
    assert "--group-from folder:5: no path gives a group; the first" in capsys.readouterr().err


def test_the_plan_names_the_option_of_groups_of_rows(tmp_path, capsys):
    argv = ("table", "--input", tables(tmp_path / "in", "csv"), "--output", tmp_path / "out")
    assert main([*map(str, argv), "--group-from", r"(s\d+)\.", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert re.search(r"^groups +--group-from \(s\\d\+\)\\\.$", said.out + said.err, re.MULTILINE)


def test_a_group_in_two_splits_of_the_input_names_the_option(tmp_path, capsys):
    for split in ("train", "test"):
        make_folder(tmp_path / "in" / split, {"cat": 3, "dog": 3})
    argv = ("images", "--input", tmp_path / "in", "--output", tmp_path / "out", "--size", 16)
    assert run(*argv, "--group-from", "parent") == 1
    assert "leave --group-column or --group-from out" in capsys.readouterr().err


def test_windows_have_the_class_of_their_file(tmp_path):
    for kind in ("walk", "run"):
        for number in range(4):
            path = tmp_path / "in" / kind / f"{number}.csv"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text("t,x\n" + "".join(f"{at},{at * number}\n" for at in range(40)))
    argv = ("sensor", "--input", tmp_path / "in", "--time-column", "t", "--window", 10)
    made = make(tmp_path / "out", *argv, "--label-from", "parent", "--splits", "train=1")
    assert made.manifest.splits["train"].classes == {"run": 16, "walk": 16}


def test_text_files_have_the_group_of_their_path(tmp_path):
    for number in range(30):
        path = tmp_path / "in" / ("ham", "spam")[number % 2] / f"u{number % 10}-{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"text {number}\n")
    made = make(tmp_path / "out", "text", "--input", tmp_path / "in", "--group-from", r"(u\d)-")
    users = splits_by(made, r"(u\d)-")
    assert len(users) == 10
    assert all(len(found) == 1 for found in users.values())


def test_files_without_a_group_are_groups_of_their_own(tmp_path):
    photos = faces(tmp_path / "faces")
    (photos / "glad" / "other.jpg").write_bytes((photos / "glad" / "p00_0.jpg").read_bytes())
    argv = ("images", "--input", photos, "--size", 16, "--group-from", r"(p\d+)_")
    made = make(tmp_path / "out", *argv)
    (note,) = [note for note in made.manifest.notes if note.code == "no-group"]
    assert note.startswith("1 of 49 records has no group")


ERRORS = {
    "no group": (("--group-from", r"(q\d+)_"), r"--group-from (q\d+)_: no path gives a group; the"),
    "no such folder": (("--group-from", "folder:5"), "folder:5: no path gives a group"),
    "folder 0": (("--group-from", "folder:0"), "--group-from folder:0: expected 1 for the first"),
    "no form": (("--group-from", "people"), "--group-from people: expected top, parent, folder:N"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_groups_that_cannot_be_are_errors(name, tmp_path, capsys):
    argv, message = ERRORS[name]
    photos = faces(tmp_path / "faces", people=2)
    assert run("images", "--input", photos, "--output", tmp_path / "out", *argv) == 2
    assert message in capsys.readouterr().err


def test_tables_without_folders_have_no_class_in_their_path(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("x\n1\n2\n")
    argv = ("table", "--input", tmp_path / "rows.csv", "--output", tmp_path / "out")
    assert run(*argv, "--label-from", "parent") == 2
    assert f"--label-from parent: {tmp_path}/rows.csv has no folders" in capsys.readouterr().err
    assert run(*argv, "--label-from", "parent", "--label-column", "x") == 2
    assert "--label-column: cannot be combined with --label-from parent" in capsys.readouterr().err


@pytest.mark.parametrize("command", ["images", "table", "text"])
def test_no_path_has_a_class(command, tmp_path, capsys):
    """Before, images said that no file is usable, and tables rejected all rows."""
    make_picture(tmp_path / "in" / "a" / "1.png", 1)
    (tmp_path / "in" / "a" / "1.csv").write_text("text,y\none,1\ntwo,2\n")
    place = tmp_path / "in" / ("" if command == "images" else "*/*.csv")
    argv = (command, "--input", place, "--output", tmp_path / "out", "--label-from", "(q)_")
    assert run(*argv) == 2
    said = "error: --label-from (q)_: no path gives a class; the first file is a/1."
    assert said in capsys.readouterr().err
    assert run(*argv, "--unlabelled", "keep", "--dry-run") == 0


def test_facts_of_paths_are_no_columns_in_messages(tmp_path, capsys):
    (tmp_path / "in" / "s1").mkdir(parents=True)
    (tmp_path / "in" / "s1" / "a.csv").write_text("x\n1\n2\n")
    argv = (
        "table",
        "--input",
        tmp_path / "in",
        "--output",
        tmp_path / "out",
        "--label-from",
        "folder:1",
    )
    for option in (("--key-column", "z"), ("--where", "z > 1")):
        assert run(*argv, *option) == 2
        assert capsys.readouterr().err.endswith("it has 'x'\n")


def test_the_key_of_the_groups_is_no_candidate_for_the_class(tmp_path):
    for number in range(4):
        site = f"site={number % 2}"
        make_picture(tmp_path / "in" / site / f"kind={'ab'[number // 2]}" / f"{number}.png", number)
        (tmp_path / "rows" / site).mkdir(parents=True, exist_ok=True)
        (tmp_path / "rows" / site / f"{number}.csv").write_text(f"x\n{number}\n")
    for command, place, labels in (("images", "in", ("a", "b")), ("table", "rows", ())):
        argv = ("--input", tmp_path / place, "--splits", "train=1", "--group-from", "site=")
        assert run(command, *argv, "--output", tmp_path / command) == 0
        made = Made(tmp_path / command)
        assert {row["group"] for row in made.index("train")} == {"0", "1"}
        assert tuple(made.manifest.labels or ()) == labels


@pytest.mark.parametrize("command", ["table", "text"])
def test_an_explicit_top_folder_is_the_class_of_rows(command, tmp_path):
    data = tables(tmp_path / "in", "csv")
    argv = (command, "--input", data, "--splits", "train=1")
    plain = make(tmp_path / "plain", *argv)
    assert not plain.manifest.labels
    made = make(tmp_path / "out", *argv, "--label-from", "top")
    assert made.manifest.splits["train"].classes == {"de": 30, "en": 25, "fr": 25}
    assert plain.manifest.options["label_from"] == "top"
    again = run(*argv, "--label-from", "top", "--seed", 3, "--output", tmp_path / "plain")
    assert again == 2  # another job, which would need --overwrite


def test_a_key_of_folders_may_have_two_roles(tmp_path):
    for kind in ("cat", "dog"):
        for number in range(4):
            path = tmp_path / "in" / f"kind={kind}" / f"day={number}" / "rows.csv"
            path.parent.mkdir(parents=True)
            path.write_text("x\n" + "".join(f"{number}{row}\n" for row in range(5)))
    argv = ("table", "--input", tmp_path / "in", "--splits", "train=1", "--label-from", "kind=")
    made = make(tmp_path / "out", *argv, "--group-column", "kind")
    assert {(row["label"], row["group"]) for row in made.index("train")} == {
        ("cat", "cat"),
        ("dog", "dog"),
    }
    argv = (*argv[:5], "--label-column", "kind", "--group-from", "kind=")
    assert make(tmp_path / "again", *argv).keys("train") == made.keys("train")


def test_messages_name_the_option_not_a_column(tmp_path, capsys):
    data = tables(tmp_path / "in", "csv")
    argv = ("table", "--input", data, "--label-from", "folder:1", "--label-type", "int")
    assert run(*argv, "--output", tmp_path / "out") == 1
    said = " ".join(capsys.readouterr().err.split())
    assert "--label-from folder:1: expected" in said
    assert "column '--label-from" not in said


@pytest.mark.parametrize("more", [(), ("--no-statistics",)])
@pytest.mark.parametrize("command", ["table", "sensor"])
def test_a_column_with_the_name_of_the_class_beside_a_class_in_the_path(
    command, more, tmp_path, capsys
):
    for kind in ("run", "walk"):
        path = tmp_path / "in" / kind / "rows.csv"
        path.parent.mkdir(parents=True)
        path.write_text("t,x,label\n" + "".join(f"{at},{at},q\n" for at in range(20)))
    argv = [command, "--input", tmp_path / "in", "--label-from", "parent", "--splits", "train=1"]
    argv += ["--time-column", "t", "--window", 5] if command == "sensor" else []
    assert run(*argv, *more, "--output", tmp_path / "none") == 2
    assert "or drop it with --drop-columns label" in capsys.readouterr().err.replace(
        "the column", "it"
    )
    made = make(tmp_path / "out", *argv, *more, "--drop-columns", "label")
    assert {*made.manifest.splits["train"].classes} == {"run", "walk"}


def test_expressions_that_take_long_are_an_error_before_the_work(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(path_facts, "SEARCH_SECONDS", 0.05)
    for number in range(2):
        name = f"{'a' * 40}b{number}.csv"
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("x\n1\n")
    argv = ("table", "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run(*argv, "--group-from", "^((a+)+)$") == 2
    said = " ".join(capsys.readouterr().err.split())
    assert "--group-from ^((a+)+)$: the search in 'aaaa" in said
    assert "was stopped after 0.05 s, because the expression matches a text in too many" in said


@pytest.mark.parametrize("command", ["images", "table"])
def test_expressions_that_match_nothing_show_names(command, tmp_path, capsys):
    extension = "png" if command == "images" else "csv"
    for number in range(5):
        path = tmp_path / "in" / f"{number}.{extension}"
        path.parent.mkdir(exist_ok=True)
        make_picture(path, number) if command == "images" else path.write_text("x\n1\n")
    argv = (command, "--input", tmp_path / "in", "--output", tmp_path / "out")
    assert run(*argv, "--group-from", "(q)_") == 2
    said = " ".join(capsys.readouterr().err.split())
    names = ", ".join(f"{number}.{extension}" for number in range(3))
    assert f"--group-from (q)_: no path gives a group; the first files are {names}" in said
