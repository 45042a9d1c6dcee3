"""Splits by lists of names: --split-files."""

import pathlib
import re
import shlex
import subprocess
import tarfile
import unicodedata

import pytest
from PIL import Image

import recordmill
from recordmill.errors import ConfigError
from recordmill.pipelines.cli import main
from recordmill.transforms import AssignSplits, ReadImages, ReadTable, WriteToTFRecord
from tests.folders import make_picture
from tests.image_runs import Made


def run(*argv: object) -> int:
    return main([*map(str, argv), "--quiet"])


def make(output: pathlib.Path, *argv: object) -> Made:
    assert run(*argv, "--output", output) == 0
    return Made(output)


def photos(folder: pathlib.Path) -> pathlib.Path:
    """CLASS/NUMBER.png, of which the numbers are 0 to 11."""
    for number in range(12):
        make_picture(folder / "ab"[number % 2] / f"{number}.png", number)
    return folder


def lists(folder: pathlib.Path, **names: str) -> str:
    """Write lists, and return the value of --split-files."""
    for split, text in names.items():
        (folder / f"{split}.txt").write_text(text)
    return ",".join(f"{split}={folder / split}.txt" for split in names)


def splits(made: Made) -> dict[str, set[str]]:
    return {name: made.keys(name) for name in made.manifest.splits}


PLAIN = {"test": {"a/0.png", "b/1.png"}, "validation": {"a/10.png"}}
NFC, NFD = (unicodedata.normalize(form, "é") for form in ("NFC", "NFD"))


def test_lists_name_files_of_another_unicode_form_with_a_note(tmp_path):
    place = photos(tmp_path / "in")
    (place / "a" / "0.png").rename(place / "a" / f"{NFD}.png")
    given = lists(tmp_path, test=f"{NFC}\n")
    argv = ("images", "--input", place, "--size", 8, "--split-files", f"{given},train=*")
    made = make(tmp_path / "out", *argv)
    assert splits(made)["test"] == {f"a/{NFD}.png"}
    notes = [str(note) for note in made.manifest.notes if note.code == "splits"]
    assert any(f"1 name, such as {NFC!r}, matches files whose names" in note for note in notes)


FORMS = {
    "paths": ("a/0.png\nb/1.png\n", "a/10.png"),
    "names": ("0.png\n1.png\n\n", "10.png\n"),
    "without extension": ("a/0\r\n1\r\n", "10"),
    "longer paths": ("./in/a/0.png\n./in/b/1.png\n", "in/a/10\n"),
    "backslashes": ("a\\0.png\nb\\1.png\n", "a\\10.png"),
}


@pytest.mark.parametrize("form", FORMS)
def test_lists_name_the_files_of_splits(form, tmp_path):
    place = photos(tmp_path / "in")
    given = lists(tmp_path, test=FORMS[form][0], val=FORMS[form][1])
    argv = ("images", "--input", place, "--size", 8, "--split-files", f"{given},train=*")
    made = make(tmp_path / "out", *argv)
    found = splits(made)
    assert {name: found[name] for name in PLAIN} == PLAIN
    assert len(found["train"]) == 9
    assert tuple(made.manifest.labels) == ("a", "b")


def test_lists_of_all_files_need_no_rest(tmp_path):
    place = photos(tmp_path / "in")
    names = [f"{'ab'[n % 2]}/{n}.png\n" for n in range(12)]
    given = lists(tmp_path, train="".join(names[:9]), test="".join(names[9:]))
    argv = ("images", "--input", place, "--size", 8, "--split-files")
    made = make(tmp_path / "out", *argv, given)
    assert {name: len(found) for name, found in splits(made).items()} == {"test": 3, "train": 9}
    assert all(path.name != "test.txt" for path in (tmp_path / "out").iterdir())
    assert str(tmp_path) not in (tmp_path / "out" / "dataset.json").read_text()
    (tmp_path / "test.txt").write_text("".join(names[10:]))
    (tmp_path / "train.txt").write_text("".join(names[:10]))
    assert run(*argv, given, "--output", tmp_path / "out") == 2  # the lists have changed


def test_lists_name_members_listed_files_and_texts(tmp_path):
    place = photos(tmp_path / "in")
    given = lists(tmp_path, test="a/0.png\nb/1.png\n", validation="a/10.png")
    given += ",train=*"
    with tarfile.open(tmp_path / "in.tar", "w") as archive:
        archive.add(place, ".")
    made = make(tmp_path / "a", "images", "--input", tmp_path / "in.tar", "--size", 8,
                "--split-files", given)  # fmt: skip
    assert {name: splits(made)[name] for name in PLAIN} == PLAIN
    rows = [f"in/{'ab'[n % 2]}/{n}.png,{'ab'[n % 2]}\n" for n in range(12)]
    (tmp_path / "list.csv").write_text("path,label\n" + "".join(rows))
    made = make(tmp_path / "b", "images", "--input", tmp_path / "list.csv", "--size", 8,
                "--split-files", given)  # fmt: skip
    assert splits(made)["test"] == {"in/a/0.png", "in/b/1.png"}
    for path in place.rglob("*.png"):
        path.with_suffix(".txt").write_text(f"text {path.stem}")
        path.unlink()
    given = lists(tmp_path, test="a/0.txt\nb/1.txt\n") + ",train=*"
    for documents in ("file", "line"):
        made = make(tmp_path / documents, "text", "--input", place, "--documents", documents,
                    "--split-files", given)  # fmt: skip
        assert len(made.keys("test")) == 2


def test_a_step_reads_lists_as_the_command_does(tmp_path):
    place = photos(tmp_path / "in")
    given = lists(tmp_path, test="0\n1\n")
    argv = ("images", "--input", place, "--size", 8, "--split-files", f"{given},train=*")
    made = make(tmp_path / "a", *argv)
    files = {"test": str(tmp_path / "test.txt"), "train": "*"}
    step = ReadImages(str(place), split_files=files)

    def build(pipeline):
        _ = pipeline | step | AssignSplits({"train": 1.0}) | WriteToTFRecord(str(tmp_path / "b"))

    recordmill.run(build)
    assert splits(Made(tmp_path / "b")) == splits(made)
    with pytest.raises(ConfigError, match="split_files: lists name files, and the input"):
        ReadTable("rows.csv", split_files=files).source()


def test_names_without_a_file_are_counted(tmp_path):
    place = photos(tmp_path / "in")
    given = lists(tmp_path, test="a/0.png\na/77.png\nq.png\n")
    argv = ("images", "--input", place, "--size", 8, "--split-files", f"{given},train=*")
    made = make(tmp_path / "out", *argv)
    notes = [note for note in made.manifest.notes if note.code == "splits"]
    assert notes == ["2 names in --split-files match no file: 'a/77.png', 'q.png'"]


ERRORS = {
    "two lists": (
        {"test": "a/0.png\n", "train": "b/1.png\n\na/0.png\n"},
        "",
        "'a/0.png' is in two lists, {place}/train.txt:3 and {place}/test.txt:1: remove it",
    ),
    "no list": (
        {"test": "a/0.png\n"},
        "",
        "11 files are in no list: 'a/10.png', 'a/2.png', 'a/4.png', ...; add none=* to leave out"
        " these files, or train=*",
    ),
    "other names": (
        {"test": "a/0.jpeg\nx\ny\nz\n"},
        ",train=*",
        "test.txt: none of its names matches a file of {place}/in: it has 'a/0.jpeg', 'x', 'y'; the"
        " files are 'a/0.png', 'a/10.png', 'a/2.png'; the path of a file must end with a name, with"
        " or without the extension; the nearest is 'a/0.png', which differs in its extension",
    ),
    "further fields": (
        {"test": "0 1 2 -1\n1 1 2 1\n"},
        ",train=*",
        "its lines have further fields, which are taken for parts of the names: keep only the names"
        " (sed -E 's/([[:space:]]+[^[:space:]]+){{3}}[[:space:]]*$//' FILE > NAMES)",
    ),
    "two rests": ({"test": "0\n"}, ",train=*,dev=*", "expected * for one split, got it for"),
    "empty": ({"test": "\n"}, ",train=*", "test.txt: expected one name per line, got none"),
    "other format": ({"test": '{"a": 1}'}, ",train=*", "expected one name per line, got JSON"),
    "no file": ({}, "test=nowhere.txt,train=*", "--split-files: cannot read"),
    "no path": ({}, "test", "expected SPLIT=FILE,..., such as test=testing_list.txt,train=*"),
    "no name of a split": ({}, "a b=x.txt", "--split-files: expected names of letters, digits"),
}


@pytest.mark.parametrize("name", ERRORS)
def test_lists_that_cannot_be_are_errors(name, tmp_path, capsys):
    names, more, message = ERRORS[name]
    place = photos(tmp_path / "in")
    argv = ("images", "--input", place, "--size", 8, "--output", tmp_path / "out")
    assert run(*argv, "--split-files", lists(tmp_path, **names) + more) == 2
    assert message.format(place=tmp_path) in capsys.readouterr().err


@pytest.mark.parametrize(
    ("before", "remedy"),
    [("./", ""), ("in/", ""), ("/there/x/", "once '/there/x/' is removed from the beginning")],
)
def test_a_note_names_lists_with_paths_of_other_places(before, remedy, tmp_path):
    place = photos(tmp_path / "in")
    for number in range(12):
        (place / "ab"[number % 2] / f"{number}.txt").write_text("0 0.5 0.5 0.5 0.5")
    (place / "classes.txt").write_text("a")
    given = lists(place, test=f"{before}a/0.png\n", train=f"{before}b/1.png\n")
    argv = ("images", "--input", place, "--annotations", place, "--size", 8)
    made = make(tmp_path / "out", *argv)
    (note,) = [note for note in made.manifest.notes if "--split-files" in note]
    assert f"--split-files {given} takes the splits from them" in note
    assert remedy in note if remedy else "removed" not in note


@pytest.mark.parametrize(
    ("before", "name", "after"),
    [
        ("", "{}.png", " 0"),
        ("", "{}", " 1 -1 2\r"),
        ("./", "{}.png", "\t7 "),
        ("", "a photo {}.png", " 3 4"),
        ("/data (1)/x.y/", "{}.png", ""),
        ("C:\\data\\", "{}.png", " 5"),
    ],
)
def test_commands_that_keep_the_names_of_lists(before, name, after, tmp_path, capsys):
    for number in range(6):
        path = tmp_path / "in" / "ab"[number % 2] / name.format(number).removesuffix(".png")
        make_picture(path.with_name(f"{path.name}.png"), number)
    texts = {
        split: "".join(f"{before}{'ab'[n % 2]}/{name.format(n)}{after}\n" for n in numbers)
        for split, numbers in {"test": range(2), "train": range(2, 6)}.items()
    }
    given = lists(tmp_path / "in", **texts)
    argv = ("images", "--input", tmp_path / "in", "--size", 8)
    notes = make(tmp_path / "plain", *argv).manifest.notes
    advice = [next(note for note in notes if f"--split-files {given} takes the splits" in note)]
    if after:
        assert run(*argv, "--split-files", given, "--output", tmp_path / "none") == 2
        advice += [capsys.readouterr().err] if not before.strip("./") else []
    for text in advice:
        (command,) = re.findall(r"[(](sed -E .*) FILE > NAMES[)]", text)
        for split in texts:
            script = f"{command} {shlex.quote(f'{tmp_path}/in/{split}.txt')}"
            texts[split] = subprocess.check_output(["sh", "-c", script], text=True)
        (tmp_path / "names").mkdir(exist_ok=True)
        given = lists(tmp_path / "names", **texts)
        made = make(tmp_path / f"out-{len(text)}", *argv, "--split-files", given)
        assert {one: len(keys) for one, keys in splits(made).items()} == {"test": 2, "train": 4}


def test_files_in_no_list_may_be_left_out(tmp_path):
    place = photos(tmp_path / "in")
    given = lists(tmp_path, test="a/0.png\nb/1.png\n", train="a/2.png\n")
    argv = ("images", "--input", place, "--size", 8, "--split-files")
    made = make(tmp_path / "out", *argv, f"{given},none=*")
    assert splits(made) == {"train": {"a/2.png"}, "test": {"a/0.png", "b/1.png"}}
    assert made.manifest.ledger.filtered.inputs == {"split-files": 9}
    made = make(tmp_path / "rest", *argv, given.replace("test=", "none=") + ",test=*")
    assert {name: len(keys) for name, keys in splits(made).items()} == {"train": 1, "test": 9}
    assert made.manifest.ledger.filtered.inputs == {"split-files": 2}


def test_annotations_of_files_left_out_are_no_absent_ones(tmp_path):
    place = photos(tmp_path / "in")
    box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
    for number in range(4):
        (place / "ab"[number % 2] / f"{number}.xml").write_text(
            f"<annotation><object><name>a</name>{box}</object></annotation>"
        )
    given = lists(tmp_path, test="a/0\n", train="b/1\n") + ",none=*"
    argv = ("images", "--input", place, "--annotations", place, "--size", 8, "--split-files")
    made = make(tmp_path / "out", *argv, given)
    assert splits(made) == {"train": {"b/1.png"}, "test": {"a/0.png"}}
    assert not made.rejects
    assert made.manifest.ledger.filtered.inputs["split-files"] == 10


@pytest.mark.parametrize(("inner", "task"), [("", "Main"), ("/JPEGImages", "Segmentation")])
def test_a_note_names_the_lists_of_voc(tmp_path, inner, task):
    place = tmp_path / "in"
    for number in range(6):
        make_picture(place / "JPEGImages" / f"{number}.png", number)
        mask = place / "SegmentationClass" / f"{number}.png"
        mask.parent.mkdir(exist_ok=True)
        Image.new("L", Image.open(place / "JPEGImages" / f"{number}.png").size, 1).save(mask)
        box = "<bndbox><xmin>1</xmin><ymin>1</ymin><xmax>9</xmax><ymax>9</ymax></bndbox>"
        (place / "Annotations").mkdir(exist_ok=True)
        (place / "Annotations" / f"{number}.xml").write_text(
            f"<annotation><object><name>a</name>{box}</object></annotation>"
        )
    folder = place / "ImageSets" / task
    folder.mkdir(parents=True)
    given = lists(folder, test="0\n1\n", train="\ufeff2\r\n3\r\n", validation="4\n5\n")
    (folder / "validation.txt").rename(folder / "val.txt")
    given = given.replace("validation.txt", "val.txt")
    parts = {
        "Main": ("--annotations", place / "Annotations"),
        "Segmentation": ("--masks", place / "SegmentationClass"),
    }
    argv = ["images", "--input", f"{place}{inner}", "--size", 8, *parts[task]]
    made = make(tmp_path / "out", *argv)
    (note,) = [note for note in made.manifest.notes if "--split-files" in note]
    assert f"were not read: --split-files {given} takes the splits from them" in note
    made = make(tmp_path / "listed", *argv, "--split-files", given)
    assert not [note for note in made.manifest.notes if "--split-files" in note]
    assert {split: len(keys) for split, keys in splits(made).items()} == {
        "train": 2,
        "validation": 2,
        "test": 2,
    }


def test_a_name_of_two_files_is_ambiguous(tmp_path, capsys):
    for folder in ("a", "b"):
        make_picture(tmp_path / "in" / folder / "1.png", 1)
    argv = ("images", "--input", tmp_path / "in", "--size", 8, "--output", tmp_path / "out")
    assert run(*argv, "--split-files", lists(tmp_path, test="1.png\n") + ",train=*") == 2
    said = capsys.readouterr().err
    assert "'1.png' matches two files, 'a/1.png' and 'b/1.png', which is ambiguous" in said


def test_other_sources_of_splits_contradict_lists(tmp_path, capsys):
    place = photos(tmp_path / "in")
    given = lists(tmp_path, test="0\n") + ",train=*"
    argv = ("images", "--size", 8, "--output", tmp_path / "out", "--split-files", given)
    assert run(*argv, "--input", place, "--split-from", "top") == 2
    assert "--split-files: cannot be combined with --split-from top" in capsys.readouterr().err
    assert run(*argv, "--input", f"test={place}") == 2
    assert "is the split test, and --split-files gives splits, too" in capsys.readouterr().err
    assert run(*argv, "--input", place, "--splits", "train=1") == 2
    assert "comes from the lists of --split-files" in capsys.readouterr().err
    (tmp_path / "rows.csv").write_text("x\n1\n")
    argv = ("table", "--output", tmp_path / "out", "--split-files", given)
    assert run(*argv, "--input", tmp_path / "rows.csv") == 2
    assert "--split-files: applies only to text files" in capsys.readouterr().err


@pytest.mark.parametrize("train", [False, True])
def test_a_note_names_the_option_for_lists_that_are_not_read(train, tmp_path):
    place = photos(tmp_path / "in")
    (place / "testing_list.txt").write_text("a/0.png\nb/1.png\n")
    (place / "val.txt").write_text("some text\n")
    if train:
        (place / "train_list.txt").write_text("b/3.png\n")
    argv = ("images", "--input", place, "--size", 8)
    made = make(tmp_path / "out", *argv)
    (note,) = [one for one in made.manifest.notes if "--split-files" in one]
    rest = f",train={place}/train_list.txt" if train else ",train=*"
    option = f"test={place}/testing_list.txt{rest}"
    assert option in note
    if not train:
        made = make(tmp_path / "split", *argv, "--split-files", option)
        assert made.keys("test") == {"a/0.png", "b/1.png"}
        assert not [one for one in made.manifest.notes if "--split-files" in one]
