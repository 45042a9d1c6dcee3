"""Classes named like missing values, and --missing for them, through the command line."""

import json

import pytest

from tests.folders import make_folder
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")


def notes_of(capsys: pytest.CaptureFixture[str], command: str, *argv: object) -> list[str]:
    assert run(command, *argv, "--dry-run", "--json") == 0
    notes = json.loads(capsys.readouterr().out)["notes"]
    return [note["text"] for note in notes if note["code"] == "missing-class"]


@pytest.mark.parametrize("command", ["text", "table"])
def test_classes_named_like_missing_values_are_noted(command, tmp_path, capsys):
    labels = ["pos", "neg", "NULL", "pos", "neg", "N/A", "NULL"]
    rows = "".join(f"row {n},{labels[n % 7]}\n" for n in range(70))
    (tmp_path / "a.csv").write_text("text,label\n" + rows)
    given = (command, "--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    (note,) = notes_of(capsys, *given)
    assert note == (
        "2 classes have names that may stand for a missing value: 'N/A' (10 records), 'NULL'"
        " (20 records); if they do, --missing N/A,NULL reads them as missing in all columns of rows"
        " and listings, so that their records have no class, and --exclude-labels N/A,NULL leaves"
        " their records out"
    )
    assert notes_of(capsys, *given, "--exclude-labels", "N/A,NULL") == []
    assert run(*given, "--missing", "N/A,NULL", "--unlabelled", "keep") == 0
    assert Made(tmp_path / "out").manifest.labels == ("neg", "pos")


def test_a_minus_beside_a_plus_is_a_class(tmp_path, capsys):
    (tmp_path / "a.csv").write_text(
        "text,label\n" + "".join(f"{n} x,{'+-'[n % 2]}\n" for n in range(9))
    )
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out")
    assert notes_of(capsys, "text", *given) == []
    assert run("text", *given, "--dry-run", "--fail-on", "missing-class") == 0


@pytest.mark.parametrize("name", ["None", "n.a.", "--"])
def test_folders_have_the_note_and_fail_on_makes_it_an_error(name, tmp_path, capsys):
    make_folder(tmp_path / "photos", {"cat": 3, name: 3})
    given = ("--input", tmp_path / "photos", "--output", tmp_path / "out")
    (note,) = notes_of(capsys, "images", *given)
    assert note.startswith(
        f"a class has a name that may stand for a missing value: {name!r} (3 rec"
    )
    assert run("images", *given, "--dry-run", "--fail-on", "missing-class") == 1
    assert "because of --fail-on missing-class" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["a.csv", "a.jsonl"])
def test_listings_have_missing(name, tmp_path, capsys):
    make_folder(tmp_path / "photos", {"ant": 3, "bee": 3})
    files = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("photos/*/*"))
    rows = [
        (file, "?" if n == 0 else file[7:10], -1 if n == 1 else n) for n, file in enumerate(files)
    ]
    if name == "a.csv":
        lines = ["path,label,age", *(f"{path},{label},{age}" for path, label, age in rows)]
    else:
        lines = [json.dumps(dict(zip(("path", "label", "age"), row, strict=True))) for row in rows]
    (tmp_path / name).write_text("".join(f"{line}\n" for line in lines))
    given = ("--input", tmp_path / name, "--missing", "?,age=-1", "--unlabelled", "keep")
    made = make(tmp_path / "out", *given, "--size", 16)
    assert made.manifest.labels == ("ant", "bee")
    numbers = ("--label-column", "age", "--label-type", "int", "--drop-columns", "label")
    made = make(tmp_path / "b", *given, *numbers, "--size", 16)
    found = [one for split in made.manifest.splits for one in made.examples(split).values()]
    assert sorted(one["label"][0] for one in found if one.get("label")) == [0, 2, 3, 4, 5]
    given = ("--input", tmp_path / name, "--missing", "agge=1", "--output", tmp_path / "c")
    assert run("images", *given) == 2
    assert "--missing agge=1: no column 'agge'" in capsys.readouterr().err
