"""The columns by which rows are compared: they are named, and ids among them are noted."""

import json

import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import Made

pytestmark = pytest.mark.usefixtures("encoders")

ADVICE = (
    "column 'id' differs in every row, so no two records are equal: name it with --key-column, or"
    " drop it with --drop-columns id, to compare the others"
)


def make(tmp_path, lines: list[str], *argv: str, command: str = "text") -> Made:
    (tmp_path / "rows.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "out"
    given = ["--input", str(tmp_path / "rows.csv"), "--output", str(out), "--overwrite"]
    assert main([command, *given, *argv]) == 0
    return Made(out)


def notes(made: Made) -> list[str]:
    return [str(note) for note in made.manifest.notes if note.code == "leak"]


def repeated(values: list[object]) -> list[str]:
    """Rows whose texts repeat, with one of the values each."""
    rows = (f"{v},text number {n % 40},{'ab'[n // 40 % 2]}" for n, v in enumerate(values))
    return ["id,text,label", *rows]


def test_an_id_that_hides_equal_texts_is_noted(tmp_path, capsys):
    rows = repeated(list(range(200)))
    made = make(tmp_path, rows)
    assert notes(made) == [ADVICE]
    said = capsys.readouterr().out
    assert "200 records compared by id, text: no leak, no conflict" in said
    assert main(["inspect", "--dataset", str(tmp_path / "out")]) == 0
    assert "200 records compared by id, text: " in capsys.readouterr().out

    (found,) = notes(make(tmp_path, rows, "--key-column", "id"))
    assert "share" in found  # the leak itself
    assert "200 records compared by text: " in capsys.readouterr().out
    dropped = make(tmp_path, rows, "--drop-columns", "id").manifest.content
    assert dropped is not None
    assert (dropped.leaks.contents, dropped.conflicts.contents) == (0, 40)  # equal keys


def test_fail_on_leak_does_not_trust_a_comparison_of_ids(tmp_path, capsys):
    (tmp_path / "rows.csv").write_text("\n".join(repeated(list(range(200)))) + "\n")
    argv = ["--input", str(tmp_path / "rows.csv"), "--output", str(tmp_path / "out")]
    assert main(["text", *argv, "--fail-on", "leak"]) == 1
    assert ADVICE in capsys.readouterr().err


@pytest.mark.parametrize(
    ("values", "noted"),
    [
        ([f"2026-01-{1 + n // 24:02} {n % 24:02}:00" for n in range(200)], True),
        ([f"u-{n}.txt" for n in range(200)], True),
        ([*range(199), 0], True),
        ([f"a title of {n}" for n in range(200)], False),
        ([n / 3 for n in range(200)], False),
        ([n // 2 for n in range(200)], False),
        (list(range(30)), False),
    ],
)
@pytest.mark.parametrize("command", ["text", "table"])
def test_columns_that_are_noted(values, noted, command, tmp_path):
    made = make(tmp_path, repeated(values), command=command)
    assert [note for note in notes(made) if "differs in" in note] == (
        [ADVICE.replace("every", "nearly every").replace("no two", "hardly any two")]
        if noted and len(set(values)) < len(values)
        else [ADVICE] * noted
    )


def test_an_id_beside_different_texts_is_not_noted(tmp_path):
    rows = ["id,text,label", *(f"{n},text {n},{'ab'[n % 2]}" for n in range(200))]
    assert notes(make(tmp_path, rows)) == []


def test_many_columns_are_shortened_and_targets_do_not_count(tmp_path, capsys):
    rows = ["a,b,c,d,e,w", *(f"{n % 3},1,2,3,{n},1" for n in range(60))]
    given = ("--label-column", "e", "--label-type", "int", "--weight-column", "w")
    made = make(tmp_path, rows, *given, command="table")
    assert "60 records compared by a, b and 2 more: " in capsys.readouterr().out
    job = json.loads((made.folder / "job.json").read_text())
    assert job["compared"] == ["a", "b", "c", "d"]


def test_several_ids_are_noted_together(tmp_path):
    rows = ["n,uuid,text,label", *(f"{n},x{n},text {n % 9},a" for n in range(60))]
    (found, *_) = notes(make(tmp_path, rows))
    assert found.startswith("columns 'n', 'uuid' differ in every row")
    assert "--drop-columns n,uuid" in found


def test_chunks_are_not_compared(tmp_path):
    given = ("--tokenizer", "words", "--chunk", "2")
    made = make(tmp_path, repeated(list(range(200))), *given)
    assert notes(made) == []
    assert "compared" not in json.loads((made.folder / "job.json").read_text())


def test_ids_of_rows_that_were_left_out_as_duplicates_are_not_noted(tmp_path):
    rows = repeated(list(range(200)))
    made = make(tmp_path, [*rows, *rows[1:]], "--dedup", "drop", command="table")
    assert made.manifest.ledger.records.filtered == 200
    assert notes(made) == []
    made = make(tmp_path, [*rows, rows[1]], "--dedup", "drop", command="table")
    assert made.manifest.ledger.records.filtered == 1
    assert notes(made) == [
        ADVICE.replace("every", "nearly every").replace("no two", "hardly any two")
    ]
