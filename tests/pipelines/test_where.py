"""Rows that --where leaves out, through the command line."""

import datetime
import json
import pathlib

import pytest

from recordmill.pipelines.cli import main
from tests.folders import make_picture
from tests.image_runs import Made, make, run
from tests.tiny_jobs import tree

pytestmark = pytest.mark.usefixtures("encoders")

HEADER = "id,age,country,text,label,path"
ROWS = [
    "1,18,DE,one,a,1.png",
    "2,17,FR,two,b,2.png",
    "3,,DE,three,a,3.png",
    "4,40,US,four,b,4.png",
    "5,50,FR,five,,missing.png",  # without a label and a file: rejected, unless it is left out
    "6,60,DE,six,b,6.png",
]
CONDITION = 'age >= 18 and country in ("DE", "FR") and label is not None'


@pytest.fixture
def source(tmp_path) -> pathlib.Path:
    (tmp_path / "rows.csv").write_text("\n".join([HEADER, *ROWS]))
    for n in range(1, 7):
        make_picture(tmp_path / f"{n}.png", n)
    return tmp_path / "rows.csv"


def ids(dataset: Made) -> list[int]:
    return sorted(example["id"][0] for example in dataset.examples().values())


@pytest.mark.parametrize("command", ["images", "table", "text"])
def test_rows_are_left_out_and_counted(command, source, tmp_path):
    more = ["--text-column", "text"] if command == "text" else []
    argv = ["--input", source, "--splits", "train=1", "--drop-columns", "age,country"]
    made = make(tmp_path / "out", *argv, *more, "--where", CONDITION, command=command)
    assert main(["verify", "--dataset", str(made.folder)]) == 0
    assert ids(made) == [1, 6]  # dropped columns can be compared
    ledger = made.manifest.ledger
    assert ledger.inputs.filtered + ledger.records.filtered == 4
    assert ledger.records.written == 2
    assert made.rejects == {}
    assert made.manifest.options["where"] == CONDITION
    # Records that stay have the same keys and order as without the condition.
    (source.parent / "less.csv").write_text("\n".join([HEADER, ROWS[0], ROWS[5]]))
    argv[1] = source.parent / "less.csv"
    assert make(tmp_path / "less", *argv, *more, command=command).manifest.digest == (
        made.manifest.digest
    )


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet", "rows.csv"])
def test_every_format(name, source, tmp_path):
    import pyarrow.csv
    import pyarrow.parquet as pq

    table = pyarrow.csv.read_csv(source)
    if name.endswith("parquet"):
        pq.write_table(table, tmp_path / name)
    elif name.endswith("jsonl"):
        (tmp_path / name).write_text("\n".join(map(json.dumps, table.to_pylist())))
    argv = ["--input", tmp_path / name, "--splits", "train=1", "--key-column", "id"]
    made = make(
        tmp_path / "out",
        *argv,
        *["--drop-columns", "path", "--where", "id > 1 and (label == 'a' or age > 30)"],
        *["--unlabelled", "keep"],
        command="table",
    )
    assert {row["key"] for row in made.index("train")} == {"3", "4", "5", "6"}


def test_types_of_an_option_and_two_workers(tmp_path):
    lines = [f"2026-01-{n % 28 + 1:02},{n}" for n in range(3000)]
    (tmp_path / "a.csv").write_text("\n".join(["day,x", *lines]))
    argv = ["--input", tmp_path / "a.csv", "--where", "day > '2026-01-20'", "--splits", "train=1"]
    argv += ["--types", "day=date"]
    one = make(tmp_path / "one", *argv, command="table")
    assert one.manifest.splits["train"].records == sum(n % 28 + 1 > 20 for n in range(3000))
    assert (
        main(
            [
                "table",
                "--quiet",
                "--workers",
                "2",
                *map(str, argv),
                "--output",
                str(tmp_path / "two"),
            ]
        )
        == 0
    )
    trees = [tree(tmp_path / name) for name in ("one", "two")]
    for files in trees:
        files.pop("job.json")
    assert trees[0] == trees[1]


@pytest.mark.parametrize("condition", ["at < '2024-06-01 18:00'", "at == '2024-06-01 18:00'"])
def test_times_in_text_with_another_separator(condition, tmp_path, capsys):
    start = datetime.datetime(2024, 5, 30)
    times = [(start + datetime.timedelta(hours=n)).isoformat() for n in range(240)]
    lines = [f"{n},{time},{'ab'[n % 2]}" for n, time in enumerate(times)]
    (tmp_path / "days.csv").write_text("\n".join(["id,at,label", *lines]))
    argv = ["--input", tmp_path / "days.csv", "--splits", "train=1", "--where", condition]
    wanted = 66 if "<" in condition else 1
    for more in ((), ("--types", "at=timestamp")):
        made = make(tmp_path / f"out{len(more)}", *argv, *more, command="table")
        assert made.manifest.ledger.records.written == wanted


def test_windows_are_cut_from_the_rows_that_are_left(tmp_path):
    lines = [f"2026-01-01 00:00:{n:02},{n},{n // 5}" for n in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["time,x,quality", *lines]))
    argv = ["--input", tmp_path / "a.csv", "--time-column", "time", "--window", 5]
    argv += ["--where", "quality != 3", "--drop-columns", "quality", "--splits", "train=1"]
    made = make(tmp_path / "out", *argv, command="sensor")
    found = sorted(x for example in made.examples().values() for x in example["x"])
    assert found == [n for n in range(20) if n // 5 != 3]
    assert made.manifest.ledger.inputs.filtered == 5


@pytest.mark.parametrize(
    ("command", "condition", "message"),
    [
        ("table", "agee > 18", "no column 'agee' in"),
        ("images", "agee > 18", "(did you mean 'age'?)"),
        ("table", "age > 'x'", "needs values of one type, got numbers and text"),
        ("images", "age > 'x'", "needs values of one type, got numbers and text"),
        ("table", "age = 18", "write == to compare"),
        ("images", "age > 100", "--where leaves out all 6 rows of"),
    ],
)
def test_conditions_that_cannot_be(command, condition, message, source, tmp_path, capsys):
    argv = ["--input", source, "--output", tmp_path / "out", "--where", condition]
    assert run(command, *argv) == 2
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out" / "dataset.json").exists()


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
@pytest.mark.parametrize("command", ["images", "table"])
def test_dates_that_are_not_ordered(command, name, tmp_path, capsys):
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet as pq

    days = ["01/01/2024", "05/02/2024", "09/03/2024", "25/01/2024"] * 2
    table = pa.table({"path": [f"{n}.png" for n in range(8)], "date": days, "n": range(8)})
    for n in range(8):
        make_picture(tmp_path / f"{n}.png", n)
    if name.endswith("parquet"):
        pq.write_table(table, tmp_path / name)
    elif name.endswith("jsonl"):
        (tmp_path / name).write_text("\n".join(map(json.dumps, table.to_pylist())))
    else:
        pyarrow.csv.write_csv(table, tmp_path / name)
    argv = ["--input", tmp_path / name, "--output", tmp_path / "out", "--key-column", "n"]
    for condition, message in (
        ("date >= '2024-02-10'", "expected a date such as 2026-01-31, got '01/01/2024'"),
        ("date >= '10/02/2024'", "is text, which has no order with '10/02/2024'"),
    ):
        assert run(command, *argv, "--where", condition) in (1, 2)
        assert message in capsys.readouterr().err
        assert not (tmp_path / "out" / "dataset.json").exists()


def test_some_dates_in_another_form_are_rejected(source, tmp_path):
    lines = [f"{n},2024-03-{n + 1:02}" for n in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["n,date", *lines, "20,25/03/2024"]))
    argv = ["--input", tmp_path / "a.csv", "--key-column", "n", "--splits", "train=1"]
    argv += ["--where", "date >= '2024-03-11'", "--max-reject-fraction", 0.1]
    made = make(tmp_path / "out", *argv, command="table")
    assert made.manifest.ledger.records.filtered == 10
    assert made.manifest.splits["train"].records == 10
    assert made.rejects == {"a.csv#21": "bad_value"}


def test_no_row_is_left(source, tmp_path, capsys):
    argv = ["--input", source, "--output", tmp_path / "out", "--where", "age > 100"]
    assert run("table", *argv) == 1
    assert "of 6 inputs 6 were filtered by --where: relax --where" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("condition", "message"),
    [
        ("x > 1000", "of 20 inputs 20 were filtered by --where: relax --where\n"),
        (
            "x < 3",
            "of 20 inputs 17 were filtered by --where, 3 were filtered by --window; a window",
        ),
        ("x < 3", "or raise --max-gap, or relax --where\n"),
    ],
)
def test_no_window_is_left(condition, message, tmp_path, capsys):
    lines = [f"2026-01-01 00:00:{n:02},{n}" for n in range(20)]
    (tmp_path / "a.csv").write_text("\n".join(["time,x", *lines]))
    argv = ["--input", tmp_path / "a.csv", "--time-column", "time", "--window", 5]
    argv += ["--splits", "train=1", "--where", condition]
    assert run("sensor", *argv, "--output", tmp_path / "out") == 1
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("command", ["images", "text"])
def test_folders_have_no_columns(command, tmp_path, capsys):
    (tmp_path / "in").mkdir()
    make_picture(tmp_path / "in/1.png", 1)
    (tmp_path / "in/1.txt").write_text("x")
    argv = ["--input", tmp_path / "in", "--output", tmp_path / "out", "--where", "age > 1"]
    assert run(command, *argv) == 2
    assert "--where: applies only to" in capsys.readouterr().err
