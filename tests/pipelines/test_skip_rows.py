"""Lines before the header of CSV files, and --skip-rows for them, through the command line."""

import gzip

import pytest

from recordmill.transforms.sources.row_formats.text import text_files
from tests.folders import make_folder
from tests.image_runs import Made, make, run

pytestmark = pytest.mark.usefixtures("encoders")

PREAMBLE = 'Device: "X1\nSerial: 77\n\nUnits: C\n'
ROWS = "id,text,label\n" + "".join(f'{n},"text, {n}",{"ab"[n % 2]}\n' for n in range(20))
BANK = '"Kontonummer:";"DE12";\n\n"Von:";"01.01.2026";\n\n"Datum";"Text";"Betrag";\n' + "".join(
    f'"{n:02d}.01.2026";"x {n}";"{n},5";\n' for n in range(1, 20)
)
YEARS = '"Data Source","Bank",\n\n"Updated","2024-06-28",\n\n"Land","1960","1961",\n' + "".join(
    f'"land {n}","0.{n}","{n}",\n' for n in range(20)
)


@pytest.mark.parametrize(
    ("text", "argv", "skipped", "line"),
    [
        (YEARS, (), 4, """line 5 on, '"Land","1960","1961",'"""),
        (PREAMBLE.replace('"', "") + ROWS, (), 4, "line 5 on, 'id,text,label'"),
        (BANK, ("--delimiter", ";"), 4, """line 5 on, '"Datum";"Text";"Betrag";'"""),
        (BANK, ("--delimiter", ";", "--skip-rows", 1), 4, """line 5 on, '"Datum";"""),
    ],
)
def test_a_header_below_other_lines_is_an_error_that_names_skip_rows(
    text, argv, skipped, line, tmp_path, capsys
):
    (tmp_path / "a.csv").write_text(text)
    given = ("--input", tmp_path / "a.csv", "--output", tmp_path / "out", *argv)
    assert run("table", *given) == 2
    error = capsys.readouterr().err
    assert f"but most rows below have 3, from {line}" in error
    assert f"pass --skip-rows {skipped}" in error
    assert run("table", *given, "--skip-rows", skipped) == 0
    assert Made(tmp_path / "out").manifest.ledger.inputs.read in (19, 20)


@pytest.mark.parametrize(
    ("name", "ends", "encoding", "first"),
    [
        ("a.csv", "\n", "utf-8-sig", 64 << 10),
        ("a.csv", "\r\n", "utf-8-sig", 5),
        ("a.csv", "\r", "cp1252", 64 << 10),
        ("a.csv", "\n", "utf-16", 5),
        ("a.csv.gz", "\r\n", "utf-8-sig", 5),
        ("a.csv.gz", "\r", "utf-8", 64 << 10),
    ],
)
def test_skipped_lines_change_nothing_else(name, ends, encoding, first, tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "_FIRST_READ", first)
    argv = ("--skip-rows", 4, "--encoding", encoding.replace("-sig", ""), "--no-statistics")
    content = (PREAMBLE + ROWS).replace("\n", ends).encode(encoding)
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith("gz") else content)
    made = make(tmp_path / "out", "--input", tmp_path / name, *argv, command="table")
    found = [one for split in made.manifest.splits for one in made.examples(split).values()]
    assert {one["id"][0]: one["text"][0].decode() for one in found} == {
        n: f"text, {n}" for n in range(20)
    }


def test_columns_and_rows_are_named_as_without_skipped_lines(tmp_path, capsys):
    body = ROWS.partition("\n")[2]
    (tmp_path / "a.csv").write_text(PREAMBLE + body + "x\n")
    given = ("--input", tmp_path / "a.csv", "--columns", "id,text,label", "--skip-rows", 4)
    given = (*given, "--max-reject-fraction", 0.1)
    assert list(make(tmp_path / "out", *given, command="table").rejects) == ["a.csv#21"]
    (tmp_path / "a.csv").write_text(PREAMBLE + ROWS + '"x,y\n')
    assert run("table", *given[:2], "--skip-rows", 4, "--output", tmp_path / "b") == 2
    assert "row 21 begins in line 26 and extends to the end" in capsys.readouterr().err


def test_listings_may_have_skipped_lines(tmp_path):
    make_folder(tmp_path / "photos", {"ant": 2, "bee": 2})
    files = sorted(str(one.relative_to(tmp_path)) for one in tmp_path.glob("photos/*/*"))
    rows = "".join(f"{name},{name[7:10]}\n" for name in files)
    (tmp_path / "a.csv").write_text(f"{PREAMBLE}path,label\n{rows}")
    made = make(tmp_path / "out", "--input", tmp_path / "a.csv", "--skip-rows", 4, "--size", 16)
    assert made.manifest.labels == ("ant", "bee")


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--skip-rows", -1], "--skip-rows: expected 0 lines or more, got -1"),
        (["--skip-rows", 99], "found no rows in"),
        (["--skip-rows", 1, "--format", "jsonl"], "--skip-rows applies to csv, tsv"),
    ],
)
def test_impossible_numbers_of_lines_are_errors(argv, words, tmp_path, capsys):
    (tmp_path / "a.csv").write_text(ROWS)
    assert run("table", "--input", tmp_path / "a.csv", "--output", tmp_path / "out", *argv) == 2
    assert words in capsys.readouterr().err
