"""Errors on files of other programs, and the advice in them, through the command line."""

import json
import struct
import unicodedata

import pytest

from recordmill.pipelines.cli import main
from tests import sounds
from tests.folders import make_folder
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")


def details(folder) -> dict[str, tuple[str, str]]:
    lines = (folder / "rejects.jsonl").read_text().splitlines()
    return {one["key"]: (one["reason"], one["detail"]) for one in map(json.loads, lines)}


def box(*brands: bytes) -> bytes:
    content = b"ftyp" + brands[0] + bytes(4) + b"".join(brands[1:])
    return struct.pack(">I", len(content) + 4) + content + bytes(2000)


def test_heic_and_web_pages_among_images_are_named(tmp_path):
    make_folder(tmp_path / "in", {"ant": 2})
    (tmp_path / "in" / "ant" / "1.heic").write_bytes(box(b"heic", b"mif1"))
    (tmp_path / "in" / "ant" / "2.heic").write_bytes(box(b"mif1", b"mif1", b"heic"))
    (tmp_path / "in" / "ant" / "3.jpg").write_text("\n<!DOCTYPE html><title>404</title>" + " " * 99)
    given = ("--input", tmp_path / "in", "--max-reject-fraction", 1, "--size", 16)
    made = make(tmp_path / "out", *given)
    assert len([key for split in made.manifest.splits for key in made.keys(split)]) == 2
    heic = "a HEIC image, which is not supported: convert it to JPEG or PNG, for example with"
    found = details(tmp_path / "out")
    assert found["ant/1.heic"] == ("unsupported", f"{heic} heif-convert")
    assert found["ant/2.heic"] == ("unsupported", f"{heic} heif-convert")
    assert found["ant/3.jpg"] == (
        "not_an_image",
        "an HTML page, such as an error page of a server: download the file again",
    )


@pytest.mark.parametrize("command", ["images", "text", "table", "video"])
def test_addresses_of_the_web_are_not_downloaded(command, tmp_path, capsys):
    given = ("--input", "https://example.com/x.zip", "--output", tmp_path / "out")
    assert run(command, *given) == 2
    assert (
        "'https://example.com/x.zip' is a web address, and nothing is downloaded: download"
        " it, for example with curl -LO, and pass the path of the file" in capsys.readouterr().err
    )


def test_listed_files_that_differ_by_case_or_unicode_form_are_named(tmp_path):
    make_folder(tmp_path / "in", {"a": 3})
    first, second, third = sorted((tmp_path / "in" / "a").iterdir())
    decomposed = unicodedata.normalize("NFD", "é.png")
    first.rename(first.with_name("IM0.PNG"))
    second.rename(second.with_name(decomposed))
    names = ["in/a/im0.png", "in/a/é.png", f"in/a/{third.name}", "in/a/none.png", "in/b/im0.png"]
    (tmp_path / "a.csv").write_text("path,label\n" + "".join(f"{name},x\n" for name in names))
    given = ("--input", tmp_path / "a.csv", "--max-reject-fraction", 1, "--size", 16)
    made = make(tmp_path / "out", *given)
    assert {key for split in made.manifest.splits for key in made.keys(split)} == {names[2]}
    found = details(tmp_path / "out")
    fix = "correct the listing, or rename the file"
    assert [found[names[n]][1] for n in (0, 1, 3, 4)] == [
        f"no such file, but 'IM0.PNG' exists, which differs in case: {fix}",
        f"no such file, but {decomposed!r} exists, which differs in its Unicode form (it looks the"
        f" same): {fix}",
        "no such file",
        f"no such file, but 'a/IM0.PNG' exists, which differs in case and its folder: {fix}",
    ]


def test_the_folder_of_listed_files_is_named(tmp_path, capsys):
    make_folder(tmp_path / "in", {"a": 3})
    names = sorted(one.name for one in (tmp_path / "in" / "a").iterdir())
    (tmp_path / "in" / "a.csv").write_text("path,label\n" + "".join(f"{one},x\n" for one in names))
    given = ("--input", tmp_path / "in" / "a.csv", "--size", 16)
    assert run("images", *given, "--output", tmp_path / "none") == 2
    assert (
        f"{names[0]}: no such file, but 'a/{names[0]}' exists, which differs in its folder: name"
        " the folder 'a' with --input-root, or correct the listing" in capsys.readouterr().err
    )
    made = make(tmp_path / "out", *given, "--input-root", tmp_path / "in" / "a")
    assert keys_of(made) == {*names}


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_segments_may_have_a_duration(name, tmp_path, capsys):
    sounds.write(tmp_path / "x.wav", sounds.say("go", speaker=1), 16000)
    rows = [("x.wav", "", 0.1), ("x.wav", 0.1, 0.05), ("x.wav", 0.1, "")]
    columns = ("path", "offset", "duration")
    if name == "a.csv":
        lines = [",".join(map(str, row)) for row in (columns, *rows)]
    else:
        lines = [
            json.dumps({k: None if v == "" else v for k, v in zip(columns, row, strict=True)})
            for row in rows
        ]
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    given = ("--input", tmp_path / name, "--unlabelled", "keep", "--start-column", "offset")
    made = make(tmp_path / "out", *given, "--duration-column", "duration", command="audio")
    assert keys_of(made) == {"x.wav@0-0.1", "x.wav@0.1-0.15", "x.wav@0.1-"}
    both = ("--duration-column", "duration", "--end-column", "duration")
    assert run("audio", *given, *both, "--output", tmp_path / "b") == 2
    assert "--end-column: cannot be combined with --duration-column" in capsys.readouterr().err
    milliseconds = ("--duration-column", "duration_ms")
    assert run("audio", *given, *milliseconds, "--output", tmp_path / "b") == 2
    assert (
        "--duration-column duration_ms: the name suggests milliseconds" in capsys.readouterr().err
    )


def keys_of(made: Made) -> set[str]:
    return {row["key"] for split in made.manifest.splits for row in made.index(split)}


@pytest.mark.parametrize("order", [("Text", "text"), ("text", "Text")])
def test_columns_that_differ_by_case_are_not_to_be_dropped(order, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    for number, name in enumerate(order):
        (tmp_path / "in" / f"{number}.csv").write_text(f"{name},label\nx,a\ny,b\n")
    assert run("table", "--input", tmp_path / "in", "--output", tmp_path / "out") == 2
    a, b = ("0.csv", "1.csv") if order[0] == "Text" else ("1.csv", "0.csv")
    assert (
        f"{a} has a column 'Text', and {b} has 'text', which differs only by case, spaces or"
        " Unicode form: give the column one name in all files" in capsys.readouterr().err
    )


def test_columns_of_listings_that_differ_by_case_are_not_to_be_dropped(tmp_path, capsys):
    make_folder(tmp_path / "in", {"a": 2})
    names = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("in/a/*"))
    for number, column in enumerate(("Age", "age")):
        (tmp_path / f"{number}.csv").write_text(f"path,{column}\n{names[number]},{number}\n")
    given = ("--input", tmp_path / "0.csv", "--input", tmp_path / "1.csv")
    assert run("images", *given, "--output", tmp_path / "out", "--unlabelled", "keep") == 2
    assert "0.csv has a column 'Age', and" in capsys.readouterr().err


def test_the_help_lists_no_option_that_is_always_refused(tmp_path, capsys):
    with pytest.raises(SystemExit):
        main(["sensor", "--help", "all"])
    assert "--weight-column" not in capsys.readouterr().out
    given = ("--input", tmp_path, "--output", tmp_path / "out", "--weight-column", "w")
    assert run("sensor", *given, "--time-column", "t", "--window", 2) == 2
    assert "--weight-column gives weights to rows, and records are" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("columns", "advice"),
    [
        (("offset", "duration"), "--start-column offset --duration-column duration"),
        (("onset", "offset"), "--start-column onset --end-column offset"),
        (("Start (s)", "stop"), None),
        (("start_time", "end_time"), "--start-column start_time --end-column end_time"),
        (("duration", "note"), None),
    ],
)
def test_columns_that_look_like_segments_are_noted(columns, advice, tmp_path, capsys):
    sounds.write(tmp_path / "x.wav", sounds.say("go", speaker=1), 16000)
    (tmp_path / "a.csv").write_text(f"path,{','.join(columns)}\nx.wav,0,0.1\n")
    given = ("--input", tmp_path / "a.csv", "--unlabelled", "keep", "--dry-run", "--json")
    given = (*given, "--output", tmp_path / "out", "--splits", "train=1")
    assert run("audio", *given) == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    found = [note["text"] for note in notes if note["code"] == "segments"]
    first, second = columns
    assert found == (
        [f"whole files are read, but the columns {first!r} and {second!r} of a.csv may be segments:"
         f" {advice} reads them"] if advice else []
    )  # fmt: skip
    if advice:
        assert run("audio", *given, *advice.split()) == 0
        notes = json.loads(capsys.readouterr().out)["notes"]
        assert not [note for note in notes if note["code"] == "segments"]


@pytest.mark.parametrize("inputs", [("train=*/train",), ("train=*/train", "test=*/test")])
def test_patterns_that_match_folders(inputs, tmp_path, capsys, monkeypatch):
    make_folder(tmp_path / "in", {"train/a": 2, "test/a": 1})
    monkeypatch.chdir(tmp_path)
    given = [word for one in inputs for word in ("--input", one)]
    assert run("images", *given, "--output", "out") == 2
    said = capsys.readouterr().err
    assert ("(no file matches)" if len(inputs) == 1 else "matches no file;") in said
    assert (
        "; a pattern matches files, but */train matches folders, such as"
        f" {tmp_path}/in/train: --input 'train=*/train/**' reads the files in them and in deeper"
        " folders"
    ) in said
    deeper = [word for one in inputs for word in ("--input", f"{one}/**")]
    assert run("images", *deeper, "--output", "out") == 0
    assert Made(tmp_path / "out").manifest.splits["train"].records == 2


def test_other_patterns_and_folders_of_rows(tmp_path, capsys, monkeypatch):
    (tmp_path / "in" / "2026").mkdir(parents=True)
    (tmp_path / "in" / "2026" / "a.csv").write_text("x,label\n1,a\n")
    monkeypatch.chdir(tmp_path)
    assert run("table", "--input", "in/2*", "--output", "out") == 2
    said = capsys.readouterr().err
    assert f"in/2* matches folders, such as {tmp_path}/in/2026: --input 'in/2*/**'" in said
    for pattern in ("in/**", "in/**/*", "in/*.jpg"):
        assert run("images", "--input", pattern, "--output", "out") == 2
        assert "matches folders" not in capsys.readouterr().err
