"""Filtered inputs and records by reason: in the manifest, and in what commands print."""

import re

import pytest

from recordmill.pipelines.cli import main
from tests.folders import make_folder, make_picture
from tests.image_runs import Made, make

pytestmark = pytest.mark.usefixtures("encoders")


def reasons(made: Made) -> tuple[dict[str, int], dict[str, int]]:
    """The reasons for inputs and records, which add up to the numbers of the ledger."""
    ledger = made.manifest.ledger
    assert ledger.filtered is not None
    found = dict(ledger.filtered.inputs), dict(ledger.filtered.records)
    assert [sum(one.values()) for one in found] == [ledger.inputs.filtered, ledger.records.filtered]
    return found


def test_rows_of_tables(tmp_path, capsys):
    labels = "abbccc" * 5
    rows = "".join(
        f"{n},{n * 10},{label}\n{',,' if n < 3 else ''}\n" for n, label in enumerate(labels)
    )
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("id,x,label\n" + rows + "7,70,b\n")
    (tmp_path / "in" / ".hidden").write_text("x")
    given = ("--input", tmp_path / "in", "--key-column", "id", "--where", "x >= 20")
    given = (*given, "--exclude-labels", "a", "--label-map", "b=")
    made = make(tmp_path / "out", *given, command="table")
    inputs, records = reasons(made)
    assert inputs == {"hidden": 1, "blank": 3}
    assert records == {"where": 2, "exclude-labels": 4, "label-map": 10}
    assert main(["inspect", "--dataset", str(tmp_path / "out")]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert re.search(
        r"filter reason inputs records ─+ blank 3 0 exclude-labels 0 4 hidden 1 0", printed
    )


def test_rows_of_listings(photos, tmp_path):
    files = sorted(photos.rglob("*.jpg"))
    rows = [f"{path};{n}\n;\n" for n, path in enumerate(files)]
    (tmp_path / "a.csv").write_text("path;size\n" + "".join(rows))
    options = ("--delimiter", ";", "--where", "size > 1")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", *options)
    assert reasons(made) == ({"blank": 8, "where": 2}, {})


def test_rows_of_series(tmp_path):
    times = [0, 1, 2, 2, 3, 4, 5, 5, 9, 20]
    lines = [f"{'x' if n < 8 else 'y'},{time},{time}" for n, time in enumerate(times)]
    (tmp_path / "a.csv").write_text(
        "series,time,v\n" + "".join(f"{line}\n\n" for line in lines) + ",,\n"
    )
    given = ("--input", tmp_path / "a.csv", "--time-column", "time", "--series-column", "series")
    given = (*given, "--window", 2, "--stride", 2, "--splits", "train=1", "--where", "v < 20")
    made = make(tmp_path / "out", *given, command="sensor")
    inputs, records = reasons(made)
    assert inputs == {"blank": 1, "in no window": 1, "repeated row": 2, "where": 1}
    assert records == {}


def test_files_of_images(tmp_path):
    folder = make_folder(tmp_path / "in", {"ant": 3, "bee": 3})
    (folder / "ant" / "x.txt").write_text("x")
    (folder / "ant" / ".y.png").write_text("x")
    given = ("--input", folder, "--size", 16, "--exclude-labels", "bee")
    inputs, records = reasons(make(tmp_path / "out", *given))
    assert (sum(inputs.values()), records) == (5, {})
    assert inputs["exclude-labels"] == 3
    make_picture(folder / "bee" / "large.png", 9, size=(50, 50))
    given = ("--input", folder, "--size", 16, "--min-size", 31)
    assert reasons(make(tmp_path / "b", *given))[1] == {"min-size": 6}
