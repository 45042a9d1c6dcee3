"""Rows of a listing that have the same key: equal rows count once, --conflicts decides others."""

import json
import pathlib

import numpy as np
import pytest

from recordmill.transforms.model import repeated_hashes
from recordmill.transforms.sources.rows.references import repeated_rows
from tests.folders import make_picture
from tests.image_runs import Made, run
from tests.image_runs import make as make_any
from tests.video_files import make_film

pytestmark = pytest.mark.usefixtures("encoders")

LINES = [
    "path,label,note",
    "1.png,a,x",
    "2.png,b,",
    "./1.png,a,x",
    "3.png,a,",
    "3.png,b,",
    "3.png,a,",
]


@pytest.fixture
def listing(tmp_path):
    for number in range(1, 4):
        make_picture(tmp_path / f"{number}.png", number)
    path = tmp_path / "list.csv"
    path.write_text("\n".join(LINES))
    return path


def made(listing, *argv: object) -> Made:
    out = listing.parent / "out"
    fixed = ("--input", listing, "--output", out, "--splits", "train=1", "--overwrite")
    assert run("images", *fixed, "--max-reject-fraction", 1, *argv) == 0
    return Made(out)


def test_equal_rows_count_once_and_contradicting_ones_are_rejected(listing):
    dataset = made(listing)
    assert {row["key"]: row["label"] for row in dataset.index("train")} == {
        "1.png": "a",
        "2.png": "b",
    }
    inputs = dataset.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected, inputs.filtered) == (2, 2, 2)
    lines = (dataset.folder / "rejects.jsonl").read_text().splitlines()
    assert sorted((one["key"], one["detail"]) for one in map(json.loads, lines)) == [
        (
            "3.png",
            "list.csv#4 has the same key as list.csv#5, but the label differs: 'a' and 'b';"
            " --conflicts first keeps the first row, and the values of the others are lost",
        ),
        (
            "3.png",
            "list.csv#5 has the same key as list.csv#4, but the label differs: 'b' and 'a';"
            " --conflicts first keeps the first row, and the values of the others are lost",
        ),
    ]


def test_the_first_of_contradicting_rows_can_be_kept(listing):
    dataset = made(listing, "--conflicts", "first")
    assert {row["key"]: row["label"] for row in dataset.index("train")} == {
        "1.png": "a",
        "2.png": "b",
        "3.png": "a",
    }
    inputs = dataset.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected, inputs.filtered) == (3, 0, 3)


def test_contradicting_rows_can_be_an_error(listing, capsys):
    argv = ("--input", listing, "--output", listing.parent / "out", "--conflicts", "error")
    assert run("images", *argv) == 2
    assert "list.csv#5 has the same key as list.csv#4, but the label differs: 'b' and 'a'" in (
        capsys.readouterr().err
    )


def test_rows_differ_by_any_column(listing):
    listing.write_text("path,label,note\n1.png,a,x\n1.png,a,y\n2.png,b,\n2.png,b,\n")
    dataset = made(listing)
    assert dataset.keys("train") == {"2.png"}
    assert dataset.rejects == {"1.png": "bad_value"}


def test_keys_of_a_column_repeat_as_paths_do(listing):
    listing.write_text("path,label,id\n1.png,a,k\n2.png,a,k\n3.png,a,l\n3.png,a,m\n")
    dataset = made(listing, "--key-column", "id")
    assert dataset.keys("train") == {"l", "m"}
    assert dataset.rejects == {"k": "bad_value"}
    assert "the path differs" in (dataset.folder / "rejects.jsonl").read_text()


def test_a_path_may_repeat_in_another_listing(listing):
    listing.write_text("path,label\n1.png,a\n2.png,b\n")
    other = listing.parent / "other.csv"
    other.write_text("path,label\n1.png,a\n2.png,c\n3.png,c\n")
    dataset = made(listing, "--input", other)
    assert dataset.keys("train") == {"1.png", "3.png"}
    assert dataset.rejects == {"2.png": "bad_value"}
    rejects = (dataset.folder / "rejects.jsonl").read_text()
    assert "list.csv#2 has the same key as other.csv#2, but the label differs" in rejects
    first = made(listing, "--input", other, "--conflicts", "first").index("train")
    assert {row["key"]: row["label"] for row in first} == {"1.png": "a", "2.png": "b", "3.png": "c"}
    assert "unlisted" not in {note.code for note in dataset.manifest.notes}


def test_columns_of_listings_are_read_as_those_of_tables(listing):
    """Such as one without a name, which pandas writes."""
    listing.write_text(",path,label,x\n5,1.png,a,1\n6,2.png,b,2.5\n")
    dataset = made(listing)
    assert [note.code for note in dataset.manifest.notes if "name" in note.code] == [
        "unnamed-column"
    ]
    assert dataset.keys("train") == {"1.png", "2.png"}


def test_arrays_and_videos(tmp_path):
    np.save(tmp_path / "1.npy", np.zeros(3))
    (tmp_path / "a.csv").write_text("path\n1.npy\n./1.npy\n")
    argv = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out", "--splits", "train=1")
    assert run("arrays", *argv) == 0
    assert Made(tmp_path / "out").keys("train") == {"1.npy"}
    make_film(tmp_path / "1.mp4", 8)
    segments = "path,start,end\n1.mp4,0,0.16\n1.mp4,0.16,0.32\n1.mp4,0,0.16\n"
    (tmp_path / "v.csv").write_text(segments)
    argv = ("--input", tmp_path / "v.csv", "--output", tmp_path / "clips", "--clip-frames", 4)
    times = ("--start-column", "start", "--end-column", "end", "--splits", "train=1")
    assert run("video", *argv, *times, "--size", 16) == 0
    assert len(Made(tmp_path / "clips").keys("train")) == 2


def test_many_passes_find_the_same(listing, monkeypatch):
    whole = made(listing).manifest.digest
    monkeypatch.setattr(repeated_hashes, "_MOST_HASHES", 2)
    assert made(listing).manifest.digest == whole


def test_too_many_repeated_rows_are_an_error(listing, monkeypatch, capsys):
    monkeypatch.setattr(repeated_rows, "_MOST_HELD", 3)
    argv = ("--input", listing, "--output", listing.parent / "out")
    assert run("images", *argv) == 2
    said = f"more than 3 rows of {listing} repeat a key, as list.csv#1 and list.csv#3 do: name a"
    assert said in capsys.readouterr().err


ROWS = ["a,1,x", "b,2,y", "a,1,x", "c,3,x", "c,4,x", "c,3,x", "d,5,x", "d,5,y", "e,6,x"]


@pytest.fixture
def tables(tmp_path):
    """Rows in three files, so that equal keys lie in several parts."""
    folder = tmp_path / "in"
    folder.mkdir()
    for number in range(3):
        lines = "\n".join(["id,text,label", *ROWS[number * 3 : number * 3 + 3]])
        (folder / f"{number}.csv").write_text(lines)
    return folder


def run_rows(folder: pathlib.Path, command: str, *argv: object) -> int:
    fixed = ("--input", folder, "--output", folder.parent / "out", "--splits", "train=1")
    return run(command, *fixed, "--key-column", "id", "--max-reject-fraction", 1, *argv)


@pytest.mark.parametrize("command", ["table", "text"])
def test_rows_of_files_that_repeat_a_key(command, tables):
    assert run_rows(tables, command, *(("--dedup", "drop") if command == "text" else ())) == 0
    dataset = Made(tables.parent / "out")
    assert dataset.keys("train") == {"a", "b", "e"}
    lines = (dataset.folder / "rejects.jsonl").read_text().splitlines()
    found = sorted((one["key"], one["detail"]) for one in map(json.loads, lines))
    three, four = ("3", "4") if command == "table" else ("'3'", "'4'")
    end = "; --conflicts first keeps the first row, and the values of the others are lost"
    text = "but the column 'text' differs:"
    assert found == [
        (
            "c",
            f"1.csv#1 has the same key as 1.csv#2, {text} {three} and {four}{end}",
        ),
        (
            "c",
            f"1.csv#2 has the same key as 1.csv#1, {text} {four} and {three}{end}",
        ),
        ("d", f"2.csv#1 has the same key as 2.csv#2, but the label differs: 'x' and 'y'{end}"),
        ("d", f"2.csv#2 has the same key as 2.csv#1, but the label differs: 'y' and 'x'{end}"),
    ]
    ledger = dataset.manifest.ledger
    assert (ledger.inputs.rejected, ledger.records.filtered, ledger.records.rejected) == (4, 2, 0)


def test_the_first_row_of_a_file_is_kept_on_request(tables):
    assert run_rows(tables, "table", "--conflicts", "first") == 0
    dataset = Made(tables.parent / "out")
    examples = dataset.examples().items()
    assert {key: example["text"] for (key, _), example in examples} == {
        "a": [1], "b": [2], "c": [3], "d": [5], "e": [6],
    }  # fmt: skip
    assert dataset.rejects == {}
    assert dataset.manifest.ledger.records.filtered == 4


def test_rows_of_a_file_that_contradict_each_other_are_an_error_on_request(tables, capsys):
    assert run_rows(tables, "text", "--conflicts", "error", "--dedup", "drop") == 1
    assert "1.csv#1 has the same key as 1.csv#2, but the column" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("command", "argv", "said"),
    [
        ("table", (), "--conflicts first: has no effect without --key-column"),
        ("text", ("--key-column", "id", "--tokenizer", "words", "--chunk", 4), "cannot be"),
    ],
)
def test_conflicts_between_rows_without_keys_that_repeat(command, argv, said, tables, capsys):
    fixed = ("--input", tables, "--output", tables.parent / "out", "--conflicts", "first")
    assert run(command, *fixed, *argv) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("argv", "needed"),
    [
        (("first",), "--key-column, --dedup drop or --near-duplicates drop"),
        (("error", "--dedup", "drop"), "--key-column"),
    ],
)
def test_conflicts_between_files_of_a_folder(argv, needed, listing, capsys):
    fixed = ("--input", listing.parent / "1.png", "--output", listing.parent / "out")
    assert run("images", *fixed, "--conflicts", *argv) == 2
    said = f"--conflicts {argv[0]}: has no effect without {needed}, because"
    assert said in capsys.readouterr().err


def test_a_file_that_is_named_by_several_paths_is_noted(listing):
    paths = ["1.png", "./2.png", "sub/../2.png", listing.parent / "1.png", "3.png",
             f"../{listing.parent.name}/3.png"]  # fmt: skip
    (listing.parent / "sub").mkdir()
    listing.write_text("\n".join(["path,label", *(f"{path},a" for path in paths)]))
    dataset = made(listing)
    assert dataset.keys("train") == {"1.png", "2.png", "3.png", str(paths[3]), str(paths[5])}
    (note,) = [str(note) for note in dataset.manifest.notes if note.code == "same-file"]
    assert note.startswith(f"2 files of list.csv have several paths, such as 1.png and {paths[3]}:")
    assert dataset.manifest.content.repeated.contents == 2
    paths = ["1.png", listing.parent / "1.png", "2.png"]
    splits = ["train", "test", "train"]
    rows = [f"{path},a,{split}" for path, split in zip(paths, splits, strict=True)]
    listing.write_text("\n".join(["path,label,split", *rows]))
    dataset = Made(listing.parent / "leaks")
    assert run("images", "--input", listing, "--output", dataset.folder) == 0
    (line,) = (dataset.folder / "leaks.jsonl").read_text().splitlines()
    assert {one["key"] for one in json.loads(line)["records"]} == {"1.png", str(paths[1])}


def test_times_of_segments_are_compared_as_numbers(tmp_path):
    """One that is no number makes text of the column."""
    make_film(tmp_path / "v.mp4", 16)
    rows = ["v.mp4,a,0,0.5", "v.mp4,a,0.0,0.50", "v.mp4,a,x,0.6"]
    (tmp_path / "list.csv").write_text("\n".join(["path,label,start,end", *rows]))
    argv = ("--start-column", "start", "--end-column", "end", "--clip-frames", "4", "--size", "16")
    argv = (*argv, "--splits", "train=1", "--max-reject-fraction", 1)
    made = make_any(tmp_path / "out", "--input", tmp_path / "list.csv", *argv, command="video")
    inputs = made.manifest.ledger.inputs
    assert (inputs.read, inputs.rejected, inputs.filtered) == (1, 1, 1)


def test_folders_given_as_several_inputs_are_no_classes(tmp_path):
    for number, label in enumerate(("cat", "dog")):
        make_picture(tmp_path / "in" / label / "1.png", number)
    folders = [part for label in ("cat", "dog") for part in ("--input", tmp_path / "in" / label)]
    made = make_any(tmp_path / "out", *folders, "--splits", "train=1")
    (note,) = [str(one) for one in made.manifest.notes if one.code == "no-classes"]
    assert f"--input {tmp_path / 'in'} --include-labels cat,dog makes classes of these" in note
    made = make_any(tmp_path / "kept", *folders, "--splits", "train=1", "--unlabelled", "keep")
    assert "no-classes" not in {one.code for one in made.manifest.notes}


def test_chunks_of_rows_that_repeat_a_key_are_an_error_that_explains_it(tables, capsys):
    argv = ("--tokenizer", "words", "--chunk", 4, "--text-column", "text")
    assert run_rows(tables, "text", *argv) == 1
    said = capsys.readouterr().err
    assert "expected every key once, got 3 that repeat: 'a/0' (2 times)" in said
    assert "with --chunk the key of a text ends in /0, /1, ..., the numbers of its chunks" in said
