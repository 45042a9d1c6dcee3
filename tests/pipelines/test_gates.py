"""Gates fail a run if they are exceeded, and if they cannot be computed."""

import json
import pathlib
import random
import re

import pyarrow as pa
import pyarrow.parquet
import pytest

from recordmill.pipelines.cli import main
from tests.image_runs import make, run

pytestmark = pytest.mark.usefixtures("encoders")


def numbers(path: pathlib.Path, *, zeros: int, size: int = 1000) -> pathlib.Path:
    """A column of which a part is 0, and the rest are all different."""
    random.seed(zeros)
    values = [0.0] * zeros + [random.expovariate(1) for _ in range(size - zeros)]
    path.write_text("\n".join(["x,n", *(f"{value},{n}" for n, value in enumerate(values))]) + "\n")
    return path


@pytest.mark.parametrize("size", [1000, 5000])
def test_a_column_with_many_zeros_cannot_pass_max_drift(tmp_path, capsys, size):
    rows = numbers(tmp_path / "old.csv", zeros=size * 9 // 10, size=size)
    old = make(tmp_path / "old", "--input", rows, "--drop-columns", "n", command="table")
    rows = numbers(tmp_path / "new.csv", zeros=size // 10, size=size)
    given = ("table", "--input", rows, "--drop-columns", "n", "--compare-with", old.folder)
    capsys.readouterr()
    assert run(*given, "--output", tmp_path / "out", "--max-drift", 0.2) == 1
    error = capsys.readouterr().err
    assert "column 'x' has a drift of 0.8, but --max-drift allows 0.2: '0 to 0' had a" in error
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert run(*given, "--output", tmp_path / "new", "--max-drift", 0.85) == 0
    assert (
        main(["inspect", "--dataset", str(tmp_path / "new"), "--compare-with", str(old.folder)])
        == 0
    )
    assert re.search(r"x +0\.800 +90\.0% +10\.0% +0 to 0", capsys.readouterr().out)
    assert main(["diff", str(old.folder), str(tmp_path / "new"), "--json"]) == 0
    [one] = json.loads(capsys.readouterr().out, parse_constant=pytest.fail)["statistics"][
        "distances"
    ]
    assert one["distance"] == pytest.approx(0.8, abs=0.01)
    assert (
        main(["report", "--dataset", str(tmp_path / "new"), "--compare-with", str(old.folder)]) == 0
    )
    page = (tmp_path / "new.report.html").read_text()
    assert "nan" not in page.split("<body")[1].lower().split("<script")[0].split()


def parquet(path: pathlib.Path, **columns: pa.Array) -> pathlib.Path:
    pa.parquet.write_table(pa.table(columns), path)
    return path


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (pa.array([b"\xff", b"\xfe"] * 20), "column 'x' holds bytes, so its drift cannot be"),
        (
            pa.array([f"{n % 3}" * 300 for n in range(40)]),
            "column 'x' has values that the statistics do not list, such as texts that are long",
        ),
    ],
)
def test_a_column_whose_drift_cannot_be_computed_fails_the_run(tmp_path, capsys, values, message):
    rows = parquet(tmp_path / "t.parquet", x=values, n=pa.array(range(40)))
    old = make(tmp_path / "old", "--input", rows, command="table")
    given = ("table", "--input", rows, "--compare-with", old.folder, "--output", tmp_path / "new")
    for limit in (0.3, "x=0.3"):
        assert run(*given, "--max-drift", limit) == 1
        error = capsys.readouterr().err
        assert message in error
        assert "COLUMN=1 allows any drift" in error
    assert not (tmp_path / "new" / "dataset.json").exists()
    assert run(*given, "--max-drift", "0.3,x=1") == 0


def test_lists_that_became_empty_are_drift(tmp_path, capsys):
    n = pa.array(range(40))
    rows = parquet(tmp_path / "old.parquet", x=pa.array([[1.0, 2.0]] * 40), n=n)
    old = make(tmp_path / "old", "--input", rows, command="table")
    lists = pa.array([[]] * 40, pa.list_(pa.float64()))
    rows = parquet(tmp_path / "new.parquet", x=lists, n=n)
    given = ("--input", rows, "--compare-with", old.folder, "--output", tmp_path / "new")
    assert run("table", *given, "--max-drift", 0.9) == 1
    assert "column 'x' has a drift of 1, but --max-drift allows 0.9" in capsys.readouterr().err


def test_a_column_that_is_empty_in_both_datasets_has_no_drift(tmp_path):
    rows = parquet(tmp_path / "t.parquet", x=pa.nulls(40, pa.float64()), n=pa.array(range(40)))
    old = make(tmp_path / "old", "--input", rows, command="table")
    given = ("--input", rows, "--compare-with", old.folder, "--max-drift", 0)
    make(tmp_path / "new", *given, command="table")


@pytest.mark.parametrize("splits", ["train=0.8,test=0.2", "test=1", "a=0.5,b=0.5"])
def test_unknown_tokens_are_limited_in_every_split(tmp_path, capsys, splits):
    texts = {"old": "red green blue", "new": "red mauve pink teal"}
    for name, words in texts.items():
        lines = [f"{words} {n}" for n in range(40)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text", *lines]) + "\n")
    options = ("--tokenizer", "words", "--vocab-size", 10)
    old = make(tmp_path / "old", "--input", tmp_path / "old.csv", *options, command="text")
    options = ("text", "--input", tmp_path / "new.csv", *options, "--learned-from", old.folder)
    options = (*options, "--output", tmp_path / "out", "--splits", splits)
    capsys.readouterr()
    assert run(*options, "--max-unknown", 0.1) == 1
    split = splits.partition("=")[0]
    error = capsys.readouterr().err
    assert f"records of {split} are not in the vocabulary of --learned-from, but" in error
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert run(*options, "--max-unknown", 0.9) == 0


def test_a_split_without_tokens_fails_max_unknown(tmp_path, capsys):
    (tmp_path / "old.csv").write_text("text\n" + "red green\n" * 9 + "blue red\n" * 9)
    (tmp_path / "new.csv").write_text("text\n" + "".join(f"{'!' * n}\n" for n in range(1, 30)))
    options = ("--tokenizer", "words")
    old = make(tmp_path / "old", "--input", tmp_path / "old.csv", *options, command="text")
    options = ("text", "--input", tmp_path / "new.csv", *options, "--learned-from", old.folder)
    assert run(*options, "--output", tmp_path / "out", "--max-unknown", 0.1) == 1
    assert "have no tokens to compare with --max-unknown 0.1" in capsys.readouterr().err


SKEW = 'feature { name: "x" skew_comparator { infinity_norm { threshold: 0.9 } } }'
DRIFT = 'feature { name: "x" drift_comparator { infinity_norm { threshold: 0.9 } } }'


def test_a_limit_of_skew_without_a_second_split_fails_the_run(tmp_path, capsys):
    rows = parquet(tmp_path / "t.parquet", x=pa.array(range(40)))
    (tmp_path / "s.pbtxt").write_text(SKEW)
    given = ("table", "--input", rows, "--schema", tmp_path / "s.pbtxt", "--splits", "train=1")
    given = (*given, "--output", tmp_path / "out")
    assert run(*given, "--on-violation", "fail") == 1
    message = "the skew of column 'x' cannot be computed, because only one split has records"
    assert message in capsys.readouterr().err
    made = make(tmp_path / "out", *given[1:-2], command="table")
    assert any(message in note for note in made.manifest.notes)


def test_a_limit_of_drift_without_a_dataset_to_compare_with_is_an_error(tmp_path, capsys):
    rows = parquet(tmp_path / "t.parquet", x=pa.array(range(40)))
    (tmp_path / "s.pbtxt").write_text(DRIFT)
    given = (
        "table",
        "--input",
        rows,
        "--schema",
        tmp_path / "s.pbtxt",
        "--output",
        tmp_path / "out",
    )
    assert run(*given, "--on-violation", "fail") == 2
    assert "the schema limits the drift of 'x', and there is no dataset to compare with" in (
        capsys.readouterr().err
    )


def test_a_column_without_values_fails_the_limits_of_a_schema(tmp_path, capsys):
    rows = parquet(tmp_path / "old.parquet", x=pa.array(range(40)), n=pa.array(range(40)))
    old = make(tmp_path / "old", "--input", rows, command="table")
    rows = parquet(tmp_path / "new.parquet", x=pa.nulls(40, pa.int64()), n=pa.array(range(40)))
    (tmp_path / "s.pbtxt").write_text(DRIFT + 'feature { name: "n" }')
    given = ("--input", rows, "--schema", tmp_path / "s.pbtxt", "--compare-with", old.folder)
    given = (*given, "--on-violation", "fail", "--output", tmp_path / "out")
    assert run("table", *given) == 1
    assert "of column 'x' cannot be computed (infinity_norm), because one of the two has no" in (
        capsys.readouterr().err
    )


@pytest.mark.parametrize("threshold", ["nan", "-0.1"])
def test_a_limit_that_is_no_number_is_an_error(tmp_path, capsys, threshold):
    rows = parquet(tmp_path / "t.parquet", x=pa.array(range(40)))
    (tmp_path / "s.pbtxt").write_text(SKEW.replace("0.9", threshold))
    given = (
        "table",
        "--input",
        rows,
        "--schema",
        tmp_path / "s.pbtxt",
        "--output",
        tmp_path / "out",
    )
    assert run(*given) == 2
    assert "skew_comparator: expected a threshold of 0 or more" in capsys.readouterr().err


def test_a_finished_dataset_has_to_keep_new_limits(tmp_path, capsys):
    """A dataset that was published without limits does not pass those of a later run unseen."""
    rows = tmp_path / "t.csv"
    rows.write_text("x,label\n" + "".join(f"{n},a\n" for n in range(40)))
    old = make(tmp_path / "old", "--input", rows, "--max-reject-fraction", 1, command="table")
    rows.write_text("x,label\n" + "".join(f"{n + 20},a\n" for n in range(40)) + "50,\n" * 20)
    given = ("table", "--input", rows, "--output", tmp_path / "out", "--compare-with", old.folder)
    given = (*given, "--splits", "train=1")
    assert run(*given, "--max-reject-fraction", 0.5) == 0
    for limits, message in (
        ((), "20 of 60 inputs were rejected"),
        (("--max-reject-fraction", 0.5, "--max-drift", 0.1), "column 'x' has a drift of"),
        (("--max-reject-fraction", 0.5, "--max-drift", "y=0.1"), "neither dataset has statistics"),
    ):
        assert run(*given, *limits) == 1
        error = capsys.readouterr().err
        assert "nothing has changed since" in error
        assert re.search(message, error)
    assert run(*given, "--max-reject-fraction", 0.6, "--max-drift", 0.9) == 0
    assert run(*given, "--overwrite") == 1, "it is read again, and refused again"
    assert "20 of 60 inputs were rejected" in capsys.readouterr().err
    assert run(*given, "--max-reject-fraction", 0.5) == 0, "the dataset is as it was"


def test_a_finished_dataset_keeps_max_unknown_if_it_was_checked(tmp_path, capsys):
    (tmp_path / "old.csv").write_text("text\n" + "red green\n" * 9 + "blue red\n" * 9)
    options = ("--tokenizer", "words")
    old = make(tmp_path / "old", "--input", tmp_path / "old.csv", *options, command="text")
    options = ("--input", tmp_path / "old.csv", *options, "--learned-from", old.folder)
    made = make(tmp_path / "new", *options, command="text")
    options = ("text", *options, "--output", made.folder)
    assert run(*options, "--max-unknown", 0.5) == 1
    assert "tokens were not counted for --max-unknown 0.5: --overwrite" in capsys.readouterr().err
    for argv in (("--max-unknown", 0.5, "--overwrite"), ("--max-unknown", 0.6), ()):
        assert run(*options, *argv) == 0
    assert run(*options, "--max-unknown", 0.4) == 1


@pytest.mark.parametrize(
    ("command", "argv", "message"),
    [
        ("table", ["--dry-run", "--fail-on", "leak"], "leak: --dry-run does not compare"),
        ("text", ["--tokenizer", "words", "--pack", "8", "--fail-on", "conflict"], "packed texts"),
        ("text", ["--tokenizer", "words", "--chunk", "8", "--fail-on", "leak"], "of chunks are"),
        ("text", ["--fail-on", "near-duplicates"], "only with --near-duplicates: add it"),
    ],
)
def test_notes_that_a_run_never_makes_cannot_fail_it(tmp_path, capsys, command, argv, message):
    (tmp_path / "t.csv").write_text("text\nred green\nblue red\n")
    given = (command, "--input", tmp_path / "t.csv", "--output", tmp_path / "out")
    assert run(*given, *argv) == 2
    assert message in capsys.readouterr().err
    assert run(*given, *argv[:-1], "all", "--limit", "1") in (0, 1)


def test_rejected_windows_are_compared_with_windows(tmp_path, capsys):
    """Rows are many times as many, and dilute them."""
    given = [n if n % 20 != 10 or n < 60 else "" for n in range(200)]
    lines = [f"2026-01-01 00:{n // 60:02}:{n % 60:02},{n},{y}" for n, y in enumerate(given)]
    (tmp_path / "rows.csv").write_text("\n".join(["time,x,y", *lines]) + "\n")
    given = ("sensor", "--input", tmp_path / "rows.csv", "--time-column", "time", "--window", "10")
    given += ("--horizon", "1", "--target", "y", "--output", tmp_path / "out")
    given += ("--split-by", "time", "--splits", "train=1")
    assert run(*given, "--max-reject-fraction", 0.05) == 1
    error = capsys.readouterr().err
    rejected, made = map(int, re.findall(r"error: (\d+) of (\d+) windows were rejected", error)[0])
    assert rejected / 200 < 0.05 < rejected / made
    assert not (tmp_path / "out" / "dataset.json").exists()
    assert run(*given, "--max-reject-fraction", rejected / made + 0.01) == 0


@pytest.mark.parametrize(
    ("command", "columns", "options"),
    [
        ("text", "text,label", ("--tokenizer", "words")),
        ("text", "text,label", ("--tokenizer", "words", "--features", "tfidf")),
        ("table", "x,label", ("--zscore", "x", "--types", "x=float")),
        ("table", "x,label", ("--impute", "x=median", "--types", "x=float")),
    ],
)
def test_learning_from_no_record_leaves_the_verdict_on_rejects(
    tmp_path, capsys, command, columns, options
):
    (tmp_path / "rows.csv").write_text(f"{columns}\n1,\n2,\n")
    argv = ("--input", tmp_path / "rows.csv", "--output", tmp_path / "out", *options)
    assert run(command, *argv) == 1
    assert "error: 2 of 2 inputs were rejected" in capsys.readouterr().err


def test_learning_from_no_conversation_leaves_the_verdict_on_rejects(tmp_path, capsys):
    turns = [{"role": "user", "content": "a question without an answer"}]
    (tmp_path / "rows.jsonl").write_text(json.dumps({"messages": turns}) + "\n")
    argv = ("--chat-column", "messages", "--tokenizer", "words", "--max-length", 8)
    argv += ("--input", tmp_path / "rows.jsonl", "--output", tmp_path / "out")
    assert run("text", *argv) == 1
    assert "error: 1 of 1 inputs were rejected" in capsys.readouterr().err
