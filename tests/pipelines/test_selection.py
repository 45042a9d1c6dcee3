"""Labels that are renamed, joined and left out, and samples of records, by data type."""

import pathlib
import re
from collections import Counter
from collections.abc import Callable

import numpy as np
import pytest

from tests.folders import make_picture
from tests.image_runs import Made, make, run
from tests.video_files import make_film

pytestmark = pytest.mark.usefixtures("encoders")

# Spellings of three classes, and the number of files of each.
LABELS = {"anger": 4, "ANGER": 2, " Anger": 2, "joy": 5, "30": 3}


def folder_of(write: Callable[[pathlib.Path, int], None]) -> Callable[[pathlib.Path], object]:
    """An input of a folder for each class."""

    def fill(root: pathlib.Path) -> pathlib.Path:
        for label, count in LABELS.items():
            (root / label).mkdir(parents=True)
            for number in range(count):
                write(root / label / f"{number}", number)
        return root

    return fill


def picture(path: pathlib.Path, number: int) -> None:
    make_picture(path.with_suffix(".png"), number)


def clip(path: pathlib.Path, number: int) -> None:
    make_film(path.with_suffix(".mp4"), 4, offset=number)


def rows(root: pathlib.Path) -> pathlib.Path:
    lines = [
        f"text {n} of {label},{label}" for label, count in LABELS.items() for n in range(count)
    ]
    root.mkdir()
    (root / "a.csv").write_text("\n".join(["text,label", *lines]))
    return root / "a.csv"


def series(root: pathlib.Path) -> pathlib.Path:
    """A window of two rows for each record of the others."""
    root.mkdir()
    lines = ["time,x,label,name"]
    for label, count in LABELS.items():
        lines += [f"2026-01-01 00:00:{n:02},{n},{label},{label}" for n in range(count * 2)]
    (root / "a.csv").write_text("\n".join(lines))
    return root / "a.csv"


KINDS = {
    "images": (folder_of(picture), ()),
    "arrays": (folder_of(lambda path, n: np.save(path, np.arange(n, n + 3))), ()),
    "text": (folder_of(lambda path, n: path.with_suffix(".txt").write_text(f"text {n}")), ()),
    "table": (rows, ()),
    "sensor": (series, ("--time-column", "time", "--window", "2", "--series-column", "name")),
    "video": (folder_of(clip), ("--clip-frames", "4", "--size", "16")),
}


@pytest.fixture(scope="module", params=KINDS)
def write(request, tmp_path_factory):
    """Makes a dataset of one data type, with options; its splits are train alone."""
    fill, options = KINDS[request.param]
    place = fill(tmp_path_factory.mktemp("in") / "in")

    def made(*argv: object) -> Made:
        fixed = ("--input", place, *options, "--splits", "train=1")
        return make(tmp_path_factory.mktemp("out"), *fixed, *argv, command=request.param)

    return made


@pytest.fixture(scope="module")
def whole(write) -> Made:
    """All records of a data type."""
    return write()


def classes(dataset: Made) -> dict[str, int]:
    return dict(Counter(row["label"] for row in dataset.index("train")))


def test_classes_as_they_are_and_a_note(whole):
    assert classes(whole) == LABELS
    assert [str(note) for note in whole.manifest.notes if note.code == "labels-alike"] == [
        "5 classes become 3 if case, surrounding spaces, Unicode form and invisible characters are"
        " ignored: ' Anger' and 'ANGER' and 'anger'; --fold-labels or --label-map joins them"
    ]


def test_folded_classes(write):
    dataset = write("--fold-labels")
    assert classes(dataset) == {"anger": 8, "joy": 5, "30": 3}
    assert not [note for note in dataset.manifest.notes if note.code == "labels-alike"]


def test_mapped_classes(write):
    dataset = write("--label-map", "ANGER=anger, Anger=anger,joy=")
    assert classes(dataset) == {"anger": 8, "30": 3}
    ledger = dataset.manifest.ledger
    assert ledger.inputs.filtered + ledger.records.filtered == 5


def test_folded_classes_of_windows_are_left_out(tmp_path):
    """Labels of windows are folded where rows are read; the old names of the map are too."""
    fill, options = KINDS["sensor"]
    argv = ("--input", fill(tmp_path / "in"), *options, "--splits", "train=1", "--fold-labels")
    dataset = make(tmp_path / "out", *argv, "--label-map", " JOY =,ANGER=rage", command="sensor")
    assert classes(dataset) == {"rage": 8, "30": 3}


def test_a_map_in_a_file(tmp_path):
    argv = ("--input", rows(tmp_path / "in"), "--splits", "train=1")
    given = ("--label-map", "ANGER=anger, Anger=anger,joy=")
    digest = make(tmp_path / "inline", *argv, *given, command="table").manifest.digest
    (tmp_path / "map.csv").write_text("old,new\nANGER,anger\n Anger,anger\njoy,\n")
    (tmp_path / "map.yaml").write_text("ANGER: anger\n' Anger': anger\njoy: ''\n")
    for name in ("map.csv", "map.yaml"):
        again = make(
            tmp_path / f"of {name}", *argv, "--label-map", tmp_path / name, command="table"
        )
        assert again.manifest.digest == digest
    given = ("--fold-labels", "--label-map", "ANGER=rage")
    folded = make(tmp_path / "folded", *argv, *given, command="table")
    assert classes(folded) == {"rage": 8, "joy": 5, "30": 3}


def test_included_and_excluded_classes(write):
    kept = write("--include-labels", "joy,30")
    assert classes(kept) == {"joy": 5, "30": 3}
    left = write("--exclude-labels", "joy", "--exclude-labels", "30")
    assert classes(left) == {label: n for label, n in LABELS.items() if label not in ("joy", "30")}
    ledger = left.manifest.ledger
    assert ledger.inputs.filtered + ledger.records.filtered == 8


def test_excluded_keys(write, whole, tmp_path):
    keys = sorted(whole.keys("train"))
    left_out = tmp_path / "left_out"
    left_out.write_text("\n".join([*keys[:3], "of no record"]))
    dataset = write("--exclude-keys", left_out)
    assert dataset.keys("train") == set(keys[3:])
    assert [str(note) for note in dataset.manifest.notes if note.code == "unknown-keys"] == [
        "1 of 4 keys of --exclude-keys belongs to no record"
    ]


def test_excluded_keys_of_another_kind(write, whole, tmp_path):
    """A sample of more records than there are is all of them."""
    left_out = tmp_path / "left_out"
    left_out.write_text("joy/1.jpg")
    dataset = write("--exclude-keys", left_out, "--limit", 100)
    assert dataset.keys("train") == whole.keys("train")
    (note,) = [one for one in dataset.manifest.notes if one.code == "unknown-keys"]
    assert re.fullmatch(
        r"1 of 1 key of --exclude-keys belongs to no record; keys of records look like '\S+',"
        r" not 'joy/1\.jpg'",
        str(note),
    )


def test_files_of_options_begin_with_a_byte_order_mark(tmp_path):
    source = tmp_path / "a.csv"
    source.write_text("name,x,label\n" + "".join(f"n{n},{n},{'ab'[n % 2]}\n" for n in range(8)))
    contents = {"keys": "n0\r\nn1\r\n", "labels": "b\r\nc\r\n", "map.csv": "a,c\r\n"}
    for name, content in contents.items():
        (tmp_path / name).write_text(content, encoding="utf-8-sig")
    argv = ("--input", source, "--key-column", "name", "--exclude-keys", tmp_path / "keys",
            "--labels-file", tmp_path / "labels", "--label-map", tmp_path / "map.csv",
            "--splits", "train=1")  # fmt: skip
    dataset = make(tmp_path / "out", *argv, command="table")
    assert dataset.keys("train") == {f"n{n}" for n in range(2, 8)}
    assert dataset.manifest.labels == ("b", "c")
    assert not [note for note in dataset.manifest.notes if note.code == "keys-not-met"]


def test_a_larger_sample_keeps_the_records_of_a_smaller_one(write, whole):
    few, more = (write("--limit", limit).keys("train") for limit in (4, 9))
    assert (len(few), len(more)) == (4, 9)
    assert few < more < whole.keys("train")
    assert write("--limit", 9, "--seed", 5).keys("train") == more


def test_a_sample_of_each_class(write):
    few = write("--limit-per-class", 2)
    assert classes(few) == dict.fromkeys(LABELS, 2)
    small = few.keys("train")
    more = write("--limit-per-class", 3)
    assert classes(more) == {label: min(n, 3) for label, n in LABELS.items()}
    large = more.keys("train")
    assert small < large
    both = write("--limit-per-class", 3, "--limit", 5)
    assert both.keys("train") < large
    assert len(both.keys("train")) == 5


def test_splits_and_balance_are_those_of_what_is_left(tmp_path):
    place = rows(tmp_path / "in")
    argv = ("--input", place, "--fold-labels", "--exclude-labels", "30", "--limit-per-class", 4,
            "--splits", "train=0.5,test=0.5", "--stratify", "--balance", "oversample")  # fmt: skip
    dataset = make(tmp_path / "out", *argv, command="table")
    counts = {name: dict(split.classes) for name, split in dataset.manifest.splits.items()}
    assert counts == {"train": {"anger": 2, "joy": 2}, "test": {"anger": 2, "joy": 2}}


@pytest.mark.parametrize(
    ("argv", "code", "said"),
    [
        (("--exclude-labels", "jy"), 1, "--exclude-labels jy: no record has this class (did you"
         " mean 'joy'?); the classes are ' Anger', '30', 'ANGER', 'anger', 'joy'\n"),
        (("--include-labels", "glad,sad"), 1, "--include-labels glad,sad: no record has any of"
         " these classes; the classes are ' Anger', '30'"),
        (("--include-labels", "30,Joy "), 1, "--include-labels Joy: no record has this class, but"
         " 'joy' differs from it only by case, spaces or Unicode form; the classes are"),
        (("--label-map", "sad=joy"), 1, "--label-map sad=joy: no record has this class (did"
         " you mean 'joy'?); the classes"),
        (("--include-labels", "a", "--exclude-labels", "a"), 2, "contradicts --include-labels"),
        (("--label-map", "a=b,a=c"), 2, "expected one new name for 'a', got 'b' and 'c'"),
        (("--label-map", "=b"), 2, "expected OLD=NEW,... or a file, got '=b'"),
        (("--label-map", "gone.csv"), 2, "gone.csv: it or its folder does not exist"),
        (("--exclude-keys", "gone"), 2, "gone: it or its folder does not exist"),
        (("--limit", "0"), 2, "--limit: expected 1 or more, got 0"),
        (("--limit-per-class", "-1"), 2, "--limit-per-class: expected 1 or more, got -1"),
    ],
)  # fmt: skip
def test_options_that_fit_no_class(argv, code, said, tmp_path, capsys):
    place = rows(tmp_path / "in")
    assert run("table", "--input", place, "--output", tmp_path / "out", *argv) == code
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("map.csv", "a,b\na,b,c\n", "expected two columns, old and new, got 3 in line 2"),
        ("map.yaml", "- a\n- b\n", "expected lines of `old: new`"),
        ("map.yml", "a: [b]\n", "expected lines of `old: new`"),
        ("map.yml", "a: [b\n", "while parsing"),
        ("map.yml", "a: " + "[" * 100_000, "expected lines of `old: new`"),
        ("map.yml", "? [a]\n: b\n", "expected lines of `old: new`"),
        ("map.yml", "", "expected lines of `old: new`"),
        ("map.yml", "a: b\na: c\n", "expected one new name for 'a', got 'b' and 'c'"),
        ("map.csv", "a," + "b" * 200_000, "it is not CSV: field larger than field limit"),
    ],
)
def test_files_that_are_no_map(name, content, said, tmp_path, capsys):
    place = rows(tmp_path / "in")
    (tmp_path / name).write_text(content)
    argv = ("--input", place, "--output", tmp_path / "out", "--label-map", tmp_path / name)
    assert run("table", *argv) == 2
    assert said in capsys.readouterr().err


def test_other_content_of_a_file_is_another_job(tmp_path, capsys):
    place = rows(tmp_path / "in")
    (tmp_path / "map.csv").write_text("joy,fun\n")
    argv = ("--input", place, "--output", tmp_path / "out", "--label-map", tmp_path / "map.csv")
    assert run("table", *argv) == 0
    (tmp_path / "map.csv").write_text("joy,glee\n")
    assert run("table", *argv) == 2
    assert "(--label-map was joy=fun, is joy=glee)" in capsys.readouterr().err
