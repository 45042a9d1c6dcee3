"""Notes on numbers that are read as other numbers than the input means."""

import json
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.image_runs import Made, run

pytestmark = pytest.mark.usefixtures("encoders")


def notes_of(folder: pathlib.Path, code: str, *argv: object, command: str = "table") -> list[str]:
    """Run a command, and return its notes of a code."""
    assert run(command, "--output", folder / "out", *argv) == 0
    return [str(note) for note in Made(folder / "out").manifest.notes if note.code == code]


def written(folder: pathlib.Path, names: str, rows) -> pathlib.Path:
    place = folder / "t.csv"
    place.write_text(f"{names}\n" + "".join(f"{row}\n" for row in rows))
    return place


def test_numbers_that_become_equal(tmp_path):
    rows = (
        f"{'' if n == 3 else f'{1234567890 + n}.0'},{1735689600.5 + n},{1e9 + n},{n},{n / 7},a"
        for n in range(100)
    )
    source = written(tmp_path, "customer,t,scaled,x,y,label", rows)
    given = ("--input", source, "--zscore", "scaled", "--splits", "train=1")
    first, second = notes_of(tmp_path, "numbers", *given)
    assert first == (
        "different numbers of column 'customer' become equal, because features of numbers are"
        " float32, such as 1234567890 and 1234567891: --zscore customer or --minmax customer scales"
        " them first, --types customer=string keeps all digits, and --drop-columns customer leaves"
        " them out"
    )
    assert "'t' become equal" in second
    assert "1735689600.5 and 1735689601.5: --zscore t or" in second
    examples = Made(tmp_path / "out").examples("train").values()
    different = {name: len({*(one[name][0] for one in examples)}) for name in ("t", "scaled")}
    assert different == {"t": 2, "scaled": 100}


@pytest.mark.parametrize("end", ["parquet", "jsonl"])
def test_whole_numbers_that_become_equal(end, tmp_path):
    numbers = [None, *(1234567890.0 + n for n in range(60))]
    source = tmp_path / f"t.{end}"
    if end == "jsonl":
        source.write_text("".join(f'{{"x": {json.dumps(one)}}}\n' for one in numbers))
    else:
        pq.write_table(pa.table({"x": numbers}), source)
    (note,) = notes_of(tmp_path, "numbers", "--input", source)
    assert "column 'x' become equal" in note
    given = ("--input", source, "--types", "x=int")
    assert notes_of(tmp_path / "int", "numbers", *given) == []
    made = Made(tmp_path / "int" / "out")
    assert made.manifest.ledger.inputs.rejected == 0
    examples = [made.examples(split) for split in made.manifest.splits]
    found = [one.get("x", []) for of_split in examples for one in of_split.values()]
    assert sorted(found) == [[], *([1234567890 + n] for n in range(60))]


def test_numbers_of_windows_and_targets_that_become_equal(tmp_path):
    rows = (f"2026-01-01 00:{n:02},{1735689600.25 + n},{n}.5" for n in range(60))
    source = written(tmp_path, "time,t,x", rows)
    given = ("--input", source, "--time-column", "time", "--window", 4, "--splits", "train=1")
    (note,) = notes_of(tmp_path, "numbers", *given, command="sensor")
    assert "column 't' become equal" in note
    given = ("--input", source, "--label-column", "t", "--label-type", "float")
    (note,) = notes_of(tmp_path / "b", "numbers", *given)
    assert note.endswith(": subtract a constant from them in the input")


def test_numbers_beside_booleans_of_json_lines(tmp_path):
    values = ["true", "false", *["true"] * 20, "1", "null", "0"]
    source = tmp_path / "t.jsonl"
    source.write_text("".join(f'{{"flag": {one}, "n": {n}}}\n' for n, one in enumerate(values)))
    (note,) = notes_of(tmp_path, "text-column", "--input", source)
    assert note == (
        "column 'flag' is text because of '1' in t.jsonl#23; --types flag=bool rejects rows that"
        " do not fit, --types flag=string keeps the text"
    )
    given = ("--input", source, "--types", "flag=bool", "--splits", "train=1")
    assert notes_of(tmp_path / "b", "text-column", *given) == []
    examples = Made(tmp_path / "b" / "out").examples("train").values()
    assert sorted(one.get("flag", []) for one in examples) == [[], [0], [0], *[[1]] * 22]


MIXED = {  # column: values that are not numbers, one in six, and whether there is a note
    "ranges": (lambda n: f"{n % 9 + 1}-{n % 28 + 1}", True),
    "limits": (lambda n: f"<{n}", True),
    "words": (lambda n: f"no{n}", False),  # such as tickets and house numbers
    "versions": (lambda n: f"1.{n}.0", False),
}


@pytest.mark.parametrize("end", ["csv", "jsonl"])
def test_texts_among_numbers(end, tmp_path):
    rows = [
        {name: make(n) if n % 6 == 4 else n for name, (make, _) in MIXED.items()} for n in range(90)
    ]
    if end == "csv":
        rows = [
            row | {"codes": f"00-{n}" if n % 6 == 4 else f"{n:04}"} for n, row in enumerate(rows)
        ]
    source = tmp_path / f"t.{end}"
    lines = [json.dumps(row) for row in rows]
    if end == "csv":
        lines = [",".join(rows[0]), *(",".join(map(str, row.values())) for row in rows)]
    source.write_text("".join(f"{line}\n" for line in lines))
    notes = notes_of(tmp_path, "text-column", "--input", source)
    # Numbers without quotes in JSON lines are meant as numbers.
    expected = [name for name, (_, is_noted) in MIXED.items() if is_noted or end == "jsonl"]
    assert [note.split("'")[1] for note in notes] == expected
    assert notes[0].startswith(
        f"column 'ranges' is text because of '5-5' in t.{end}#5; --types ranges=float rejects"
    )


def test_a_row_of_units_is_named_by_one_note(tmp_path):
    lines = ["GRE Score,CGPA,name", "points,1..10,text", *(f"{n},{n}.5,a{n}" for n in range(20))]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    source = tmp_path / "t.csv"
    assert notes_of(tmp_path, "text-column", "--input", source) == [
        "t.csv#1 is text in 2 columns whose other values are numbers, such as 'points' in 'GRE"
        " Score': if it holds units, --units-rows 1 skips it; if not, --types declares the types of"
        " these columns"
    ]
    given = ("--input", source, "--units-rows", 1)
    assert notes_of(tmp_path / "without", "text-column", *given) == []


def test_advice_quotes_names_for_the_shell(tmp_path):
    lines = ["GRE Score", *map(str, range(20)), "lost"]
    (tmp_path / "t.csv").write_text("\n".join(lines) + "\n")
    (note,) = notes_of(tmp_path, "text-column", "--input", tmp_path / "t.csv")
    assert "--types 'GRE Score=float' rejects rows that do not fit" in note
