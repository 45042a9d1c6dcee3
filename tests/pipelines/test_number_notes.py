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


GROUPED = ["484", "2.033", "-9.117", "17", "128.004"]


POINTS = {  # column: values, and whether points may separate thousands
    "x": (GROUPED, True),
    "missing": ([*GROUPED, "", "nan"], True),
    "declared": (GROUPED, False),
    "short": ([*GROUPED, "2.5"], False),
    "fraction": ([*GROUPED, "0.125"], False),
    "large": ([*GROUPED, "1000"], False),
    "larger": ([*GROUPED, "1000.125"], False),
    "fixed": (["2.033", "9.117", "8.250"], False),  # as written with three decimals
    "few": (["484", "2.033", "9.117", *[""] * 30], False),
    "whole": (["484", "17"], False),
}


def test_points_that_may_separate_thousands(tmp_path):
    rows = (",".join(values[n % len(values)] for values, _ in POINTS.values()) for n in range(30))
    source = written(tmp_path, ",".join(POINTS), rows)
    given = ("--input", source, "--types", "declared=float")
    first, second = notes_of(tmp_path, "numbers", *given)
    assert first == (
        "column 'x' has numbers such as '2.033' in t.csv#2, in which points are read as decimal"
        " points, but may separate thousands, because each is before exactly three digits: if they"
        " do, remove them from the input, as no option reads them; --types x=float confirms that"
        " they are decimals, without this note, and x=string keeps the text"
    )
    assert second.startswith("column 'missing' has numbers such as '2.033'")


def test_decimal_commas_of_other_columns_confirm_thousands(tmp_path):
    source = written(tmp_path, "x;y;label", (f"{n}.250;{n},5;a" for n in range(1, 30)))
    given = ("--input", source, "--delimiter", ";")
    (note,) = notes_of(tmp_path, "numbers", *given)
    assert note.startswith("column 'x' has numbers such as '1.250' in t.csv#1")
    (text,) = notes_of(tmp_path, "text-column", *given)
    assert "column 'y' is text because of decimal commas" in text


def test_commas_that_may_separate_thousands(tmp_path):
    source = written(tmp_path, "x;label", (f"{n % 2 * '1,'}250;a" for n in range(1, 30)))
    given = ("--input", source, "--delimiter", ";", "--decimal", ",")
    (note,) = notes_of(tmp_path, "numbers", *given)
    assert "such as '1,250' in t.csv#1, in which commas are read as decimal commas" in note


@pytest.mark.parametrize("command", ["text", "sensor"])
def test_points_in_columns_of_texts_and_series(command, tmp_path):
    rows = (f"2026-01-{n:02},text {n},{n}{n % 2 * '.250'}" for n in range(10, 29))
    source = written(tmp_path, "time,text,x", rows)
    given = (
        ["--time-column", "time", "--window", 3, "--splits", "train=1"]
        if command == "sensor"
        else ["--tokenizer", "words"]
    )
    given = [*given, "--drop-columns", "time" if command == "text" else "text"]
    (note,) = notes_of(tmp_path, "numbers", "--input", source, *given, command=command)
    assert "'11.250' in t.csv#2" in note
    assert ("--types" in note) == (command == "sensor")


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
        " them before, --types customer=string keeps all digits, and --drop-columns customer leaves"
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
    assert "--types x=int keeps all digits" in note
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
        "column 'flag' is text because of numbers beside true and false, such as '1' in"
        " t.jsonl#23: correct the input, or declare the type: --types flag=bool reads 1 and 0 as"
        " true and false, flag=string keeps the text"
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
        "column 'ranges' is text because of values that are not numbers (17%), such as '5-5' in"
        f" t.{end}#5: correct the input, or declare the type: --types ranges=float"
    )
